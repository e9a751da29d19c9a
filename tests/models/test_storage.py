"""Checkpoint, replication, cache and archive equations against handed bills, published runs and their own inverses."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import Infeasible, InputError
from planner.models import storage
from planner.questions import all_questions, check

REFERENCES = Path(__file__).parents[2] / "data" / "references"
ASK = all_questions()


def rows():
    with (REFERENCES / "storage.csv").open() as handle:
        for r in csv.DictReader(handle):
            inputs = check.strict_json(r["inputs"])
            question = inputs.pop("question")
            yield pytest.param(check.Case(r["case"], question, inputs, float(r["expected"]), r["unit"], float(r["rtol"])), id=r["case"])


@pytest.mark.parametrize("case", list(rows()))
def test_handed_and_published_values(case):
    outcome = check.run(case)
    assert outcome.status == "ok", outcome


def test_ar02_early_deletion():
    """129.120 GB-month stored and 290.899 GB-month deleted early, both at 0.01 USD: the deletion costs more than the storage."""
    gb = 1e9
    stored = storage.tier_monthly_usd(129.120 * gb, 0.01 / gb)["storage"]
    early = storage.early_deletion_usd(290.899 * gb, 0.01 / gb, 30, 0)
    assert stored + early == pytest.approx(4.20019, rel=0.005)
    assert storage.early_deletion_usd(gb, 0.01 / gb, 30, 40) == 0


def test_ar04_objects_of_one_mebibyte():
    archive, standard = storage.archive_bytes_with_index(2**40, 2**20, 32 * 2**10, 8 * 2**10)
    assert (archive * 0.00099 + standard * 0.023) / 2**30 == pytest.approx(1.22944, rel=1e-5)


def test_ar06_a_missing_price_is_not_zero():
    unknown = {"storage_usd_per_gb_month": None, "retrieval_usd_per_gb": 0, "egress_usd_per_gb": 0}
    answer = ASK["archive_cost"].ask({"tier": unknown, "stored_tb": 1})
    assert answer.value is None
    assert "not available" in answer.note
    rival = {"storage_usd_per_gb_month": 0.004, "retrieval_usd_per_gb": 0.03, "egress_usd_per_gb": 0}
    price = ASK["archive_break_even"].ask({"tiers": [unknown, rival], "reread_fraction": 0.2, "quantity": "storage_price"})
    assert price.value == pytest.approx(0.004 + 0.2 * 0.03)


def test_published_write_of_384_processes():
    assert storage.write_seconds(2.3e12, 384, 0.15e9) == pytest.approx(40, rel=0.01)
    assert storage.write_seconds(2.3e12, 384, 1e9, 57.5e9) == pytest.approx(40, rel=0.001)


def test_stalls():
    blocking, overlapped = storage.checkpoint_stall_seconds(80e9, 200e9, 61.4, 600, np.array([False, True]))
    assert blocking == 61.4
    assert overlapped == pytest.approx(0.4)
    assert storage.checkpoint_stall_seconds(80e9, 200e9, 700, 600, True) == pytest.approx(100.4)
    assert storage.checkpoint_stall_seconds(80e9, 200e9, 700, 600, True, 2) == pytest.approx(0.4)
    assert storage.staging_bytes_per_node(744e9 * 14, 16) == pytest.approx(650e9, rel=0.002)


def test_replication_against_a_walked_queue():
    size, interval, wan = 5.67e12, 600.0, 12.5e9
    found = storage.replication(size, interval, wan, 0.05, 30.0)
    free, lags = 0.0, []
    for k in range(200):
        start = max(free, k * interval)
        free = start + size / wan
        lags.append(free + 0.05 - k * interval)
    assert found["lag_seconds"] == pytest.approx(max(lags))
    assert found["stall_seconds"] == 30
    assert storage.replication(size, interval, wan, 0.05, 30.0, asynchronous=False)["stall_seconds"] == pytest.approx(453.65)
    with pytest.raises(Infeasible, match="never catches up"):
        storage.replication(size, interval, 1.25e9)


@settings(max_examples=50, deadline=None)
@given(speedup=st.floats(1.0, 40.0), hit=st.floats(1e-4, 2e-3), miss=st.floats(0.08, 1.0))
def test_hit_rate_is_the_inverse_of_latency(speedup, hit, miss):
    if hit * speedup > miss:
        with pytest.raises(Infeasible, match="all hits"):
            storage.hit_fraction_for(speedup, hit, miss)
        return
    share = storage.hit_fraction_for(speedup, hit, miss)
    assert miss / storage.read_latency_seconds(share, hit, miss) == pytest.approx(speedup)
    assert 0 <= share <= 1


def test_read_rate_lies_between_hit_and_miss():
    rates = storage.read_bytes_per_s(np.linspace(0, 1, 11), 7e9, 0.5e9, 5e9)
    assert rates[0] == pytest.approx(0.5e9)
    assert rates[-1] == 5e9
    assert (np.diff(rates) >= 0).all()


@settings(max_examples=50, deadline=None)
@given(cheap=st.floats(0, 0.01), more=st.floats(1e-4, 0.05), fee=st.floats(1e-3, 0.2))
def test_both_bills_are_equal_at_the_break_even(cheap, more, fee):
    share = storage.reread_break_even(cheap + more, cheap, 0.0, fee)
    dear = sum(storage.tier_monthly_usd(1.0, cheap + more, share).values())
    assert dear == pytest.approx(sum(storage.tier_monthly_usd(1.0, cheap, share, fee).values()))


def test_tiers_by_name_and_unit():
    """0.0125 USD per GiB against 0.00099 per GB: the unit moves the answer by 7 %."""
    answer = ASK["archive_break_even"].ask({"tiers": ["CoreWeave Archive", "Glacier Deep Archive (standard)"], "egress": False})
    assert answer.value == pytest.approx((0.0125 / 1.073741824 - 0.00099) / 0.02)
    with pytest.raises(Infeasible, match="CoreWeave Archive costs no more"):
        ASK["archive_break_even"].ask({"tiers": ["S3 Standard", "CoreWeave Archive"]})
    for tiers in (["Deep Archive", "CoreWeave Archive"], ["nothing", "CoreWeave Archive"], "CoreWeave Archive", [{"colour": 1}, "CoreWeave Archive"]):
        with pytest.raises(InputError):
            ASK["archive_break_even"].ask({"tiers": tiers})


def test_slips_are_refused_by_name():
    for question, inputs, words in (
        ("training_checkpoint_bytes", {"params": 405}, "params_b"), ("training_checkpoint_bytes", {}, "params is required"),
        ("training_checkpoint_bytes", {"params": 405e9, "state_format": "fp4"}, "state_format"),
        ("replication_lag", {"params": 405e9, "wan": 100, "interval_s": 600}, "unit"),
        ("object_read_latency", {"hit_rate": 90, "hit_ms": 1, "miss_ms": 50}, "share"),
        ("cache_hit_rate", {"speedup": 0.5, "hit_ms": 1, "miss_ms": 50}, "speedup")):
        with pytest.raises(InputError, match=words):
            ASK[question].ask(inputs)


OWN_TIERS = [{"name": n, "provider": n, "storage_usd_per_gb_month": s, "retrieval_usd_per_gb": r, "egress_usd_per_gb": 0.05}
             for n, s, r in (("warm", 0.02, 0.0), ("cold", 0.001, 0.5))]


@pytest.mark.parametrize(("question", "inputs", "words"), [
    ("archive_cost", {"tier": OWN_TIERS[0], "stored_tb": 1, "reread_fraction": 1, "egress": "no"}, "true, false, or"),
    ("archive_cost", {"tier": OWN_TIERS[0], "stored_tb": 1, "objects": 1e6}, "usd_per_1000_requests is required"),
    ("archive_break_even", {"tiers": OWN_TIERS, "egress": 50}, "share, not a percent"),
    ("archive_break_even", {"tiers": [{k: v for k, v in t.items() if k != "egress_usd_per_gb"} | {"provider": "p"} for t in OWN_TIERS], "egress": 50},
     "share, not a percent"),
    ("archive_break_even", {"tiers": OWN_TIERS, "quantity": "weather"}, "reread_fraction or storage_price"),
    ("object_read_latency", {"hit_rate": 0.5, "speedup": 2, "hit_ms": 1, "miss_ms": 9}, "a second time")])
def test_what_has_no_meaning_is_refused(question, inputs, words):
    with pytest.raises(InputError, match=words):
        ASK[question].ask(inputs)


def test_a_share_of_reads_pays_egress():
    none, tenth, whole = (ASK["archive_cost"].ask({"tier": OWN_TIERS[0], "stored_tb": 1, "reread_fraction": 1, "egress": e}).value
                          for e in (False, 0.1, True))
    assert tenth - none == pytest.approx(0.1 * (whole - none))
    assert whole - none == pytest.approx(50)


def test_a_price_below_zero_is_explained():
    answer = ASK["archive_break_even"].ask({"tiers": OWN_TIERS[::-1], "reread_fraction": 1, "quantity": "storage_price"})
    assert answer.value < 0
    assert "cold is the dearer one at any storage price" in answer.note


def test_a_local_write_longer_than_the_interval_never_catches_up():
    with pytest.raises(Infeasible, match="never catches up"):
        storage.replication(1e9, 60.0, 1e9, local_write_seconds=90.0)
    assert storage.replication(1e9, 60.0, 1e9, local_write_seconds=90.0, asynchronous=False)["stall_seconds"] == 90


@pytest.mark.parametrize("limit", [{}, {"gpu_limit_gb_per_s": 0.4}, {"gpu_limit_gb_per_s": 2}])
@pytest.mark.parametrize(("hit", "miss"), [(7, 0.5), (0.5, 7)])
def test_a_read_rate_lies_inside_its_bounds(hit, miss, limit):
    answer = ASK["object_read_rate"].ask({"hit_rate": 0.6, "hit_gb_per_s": hit, "miss_gb_per_s": miss, **limit})
    assert answer.lower <= answer.value <= answer.upper
