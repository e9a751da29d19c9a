"""Collectives: identities, handed cases, bounds, and the error with one system left out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibration import collectives as calibrated
from planner.errors import InputError
from planner.models import collectives as model
from planner.questions import all_questions
from planner.units import convert, to_base

E = calibrated.reduce_efficiency()
ASK = all_questions()


def test_handed_cases_co01_to_co08():
    assert model.collective_seconds("all_reduce", 10e9, 72, 900e9) * 1e3 == pytest.approx(21.9135802, rel=1e-6)
    assert model.busbw_bytes_per_s("all_gather", 8e9, 8, 0.02) / 1e9 == pytest.approx(350, rel=1e-9)
    assert model.real_nic_bytes_per_s(43.24e9, 2) / 1e9 == pytest.approx(21.62, rel=1e-9)
    assert model.expert_payload_bytes(128, 8, 7168, 2) == 14680064
    assert model.inter_domain_traffic_factor(2, 16) == pytest.approx(1.0, rel=1e-9)


def test_handed_cases_li01_to_li07():
    assert to_base(900, "GB/s") / 2 / 1e9 == 450
    assert convert(800, "Gb/s", "GB/s") == 100
    assert 2 * convert(800, "Gb/s", "GB/s") == 200
    assert pytest.approx(240) == 12 * 25 * 0.8
    assert to_base(400, "GB/s") / 2 * 0.8 / 1e9 == pytest.approx(160)


@given(st.sampled_from(model.OPS), st.floats(1, 1e12), st.integers(2, 4096), st.floats(1e-6, 100))
def test_time_and_bus_bandwidth_are_inverse(op, size, ranks, seconds):
    assert model.collective_seconds(op, size, ranks, model.busbw_bytes_per_s(op, size, ranks, seconds)) == pytest.approx(seconds)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([(8, 8), (16, 8), (72, 72), (144, 72), (576, 72)]), st.floats(1e3, 1e11), st.floats(1.01, 2))
def test_larger_messages_take_longer_and_better_links_never_do(shape, size, factor):
    ranks, domain = shape
    time = model.all_reduce_seconds(size, ranks, domain, 900e9, 50e9, "in_switch", 0.74, E)
    assert time <= model.all_reduce_seconds(size * factor, ranks, domain, 900e9, 50e9, "in_switch", 0.74, E)
    assert time >= model.all_reduce_seconds(size, ranks, domain, 900e9, 50e9 * factor, "in_switch", 0.74, E) * (1 - 1e-12)


def test_never_above_the_nics_of_the_domain():
    bound = model.hierarchical_bound_bytes_per_s(8, 12, 50e9)
    assert bound == pytest.approx(400e9 * 12 / 22 * 2 * 95 / 96)
    got = model.busbw_bytes_per_s("all_reduce", 1e12, 96, model.all_reduce_seconds(1e12, 96, 8, 900e9, 50e9, "in_switch", 0.74, E))
    assert got < bound
    assert model.limiting_resource(1e12, 96, 8, 900e9, 50e9, "in_switch", 0.74, E) == "NIC"
    assert model.limiting_resource(8, 8, 8, 450e9, None, "in_switch", 0.85, E) == "latency"
    assert model.limiting_resource(1e12, 72, 72, 900e9, None, "in_switch", 0.74, E) == "in-rack cap"


def test_error_with_one_system_left_out():
    found = calibrated.summary("all_reduce")
    assert found["median"] <= 0.08
    assert found["within_20"] >= 0.90
    inside = [found["low"] <= 1 / (1 + e) <= found["high"] for errors in calibrated.left_out("all_reduce").values() for e in errors]
    assert len(inside) == len(calibrated.reduce_runs())
    weights = [1 / len(errors) / len(calibrated.left_out("all_reduce")) for errors in calibrated.left_out("all_reduce").values() for _ in errors]
    assert 0.75 <= np.dot(inside, weights) <= 0.90


@pytest.mark.parametrize(
    ("system", "ranks", "size", "expected"),
    [("GB200 NVL72 1 rack", 72, 4294967296, 839.16), ("8x H200 NVLink4", 8, 4294967296, 475), ("2x8 B200 CoreWeave", 16, 8589934592, 690.07)],
)
def test_measured_runs_are_inside_the_interval(system, ranks, size, expected):
    answer = ASK["busbw"].ask({"system": system, "ranks": ranks, "message_bytes": size})
    assert answer.low <= expected <= answer.high
    assert answer.how == "modelled"


def test_past_the_measured_ranks_it_says_so_and_widens():
    near, far = (ASK["busbw"].ask({"system": "gb300-nvl72", "ranks": n, "message_bytes": 1e10}) for n in (72, 7200))
    assert "not validated past 144 ranks" in far.note
    assert far.how == "extrapolated"
    assert far.high / far.low > near.high / near.low


@pytest.mark.parametrize(
    "bad",
    [
        {"ranks": 1},
        {"ranks": 73},
        {"ranks": 2.5},
        {"op": "gossip"},
        {"algorithm": "magic"},
        {"message_bytes": 0},
        {"system": "h200-nvl"},
        {"system": "nothing"},
    ],
)
def test_bad_questions_are_refused(bad):
    with pytest.raises(InputError):
        ASK["busbw"].ask(
            {"system": "gb300-nvl72", "ranks": 72, "ranks_per_domain": 72, **bad} if "ranks" in bad else {"system": "gb300-nvl72", "ranks": 72, **bad}
        )


def test_expert_exchange_answers_with_its_range():
    inside = ASK["expert_dispatch"].ask({"system": "gb200", "ep": 8, "tokens_per_rank": 4096})
    across = ASK["expert_dispatch"].ask({"system": "h100", "ep": 32, "tokens_per_rank": 4096})
    assert inside.value < across.value
    assert (inside.limit, across.limit) == ("NVLink", "NIC")
    assert ASK["expert_combine"].ask({"system": "gb200", "ep": 8, "tokens_per_rank": 4096}).value > inside.value
