"""Failures and goodput against published values, an event simulation, and the laws they must keep."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibration import reliability as populations
from planner.errors import Infeasible, InputError
from planner.models import reliability, stragglers
from planner.questions import all_questions, check

REFERENCES = Path(__file__).parents[2] / "data" / "references"
DAY = 86400.0
ASK = all_questions()


def rows(name):
    with (REFERENCES / f"{name}.csv").open() as handle:
        for r in csv.DictReader(handle):
            inputs = check.strict_json(r["inputs"])
            question = inputs.pop("question")
            yield pytest.param(check.Case(r["case"], question, inputs, float(r["expected"]), r["unit"], float(r["rtol"])), id=r["case"])


@pytest.mark.parametrize("case", [*rows("reliability"), *rows("goodput")])
def test_published_values(case):
    outcome = check.run(case)
    assert outcome.status == "ok", outcome


def test_populations_are_kept_apart():
    """Small and large jobs of one population need the size-independent term; no two populations share a rate."""
    one_law = 8 / 8 * 6.5e-3
    assert 1 / one_law / 47.7 > 3  # without the term the small job's mean time is three times too long
    rates = {p: ASK["mttf"].ask({"gpus": 16384, "population": p}).value for p in ("llama3-405b", "rsc-1", "good", "aegis-h100")}
    assert len({round(v, 3) for v in rates.values()}) == 4


@pytest.mark.parametrize("gpus", [72, 1024, 16384, 131072])
@pytest.mark.parametrize(("rate", "write", "restart", "lag"), [(3.8e-3, 10, 600, 0), (6.5e-3, 30, 400, 90), (2.3e-3, 60, 900, 0)])
def test_goodput_within_a_point_of_the_event_simulation(gpus, rate, write, restart, lag):
    mttf = 1 / reliability.failure_rate_per_second(gpus, rate / DAY)
    interval = max(reliability.best_interval_seconds(mttf, write), lag)
    rng = np.random.default_rng(gpus)
    times = reliability.failure_times(rng, gpus // 8, rate / DAY, mttf * min(4000, 400_000 * interval / mttf))
    walked = reliability.goodput_simulated(rng, times, interval, write, restart, lag)
    exact = reliability.goodput_fraction(mttf, interval, write, restart, lag)
    assert exact == pytest.approx(walked, abs=0.01)
    if gpus == 131072:
        first = reliability.goodput_fraction_first_order(mttf, interval, write, restart)
        assert abs(first - walked) > 3 * abs(exact - walked)


def test_first_order_is_negative_where_the_exact_law_is_not():
    mttf = 1 / reliability.failure_rate_per_second(131072, 6.5e-3 / DAY)
    arguments = (mttf, 1200.0, 60.0, 600.0)
    assert reliability.goodput_fraction_first_order(*arguments) < 0 < reliability.goodput_fraction(*arguments)


def test_mixed_restarts_against_the_simulation():
    """Nine failures of ten find a spare, one waits: the mean of exp(-R / M) is what counts."""
    mttf, interval, write = 3600.0, 500.0, 20.0
    p = reliability.restart_success(np.array([300.0, 3000.0]), mttf, np.array([0.9, 0.1]))
    ours = reliability.goodput_fraction(mttf, interval, write, -mttf * np.log(p))
    rng = np.random.default_rng(5)
    times = np.cumsum(rng.exponential(mttf, 20_000))
    walked = reliability.goodput_simulated(rng, times, interval, write, np.array([300.0] * 9 + [3000.0]))
    assert ours == pytest.approx(walked, abs=0.01)


POSITIVE = st.floats(1.0, 1e6)


@settings(max_examples=60, deadline=None)
@given(mttf=POSITIVE, interval=POSITIVE, write=st.floats(0, 1e4), restart=st.floats(0, 1e5))
def test_goodput_is_a_share_whose_parts_sum_to_one(mttf, interval, write, restart):
    parts = reliability.lost_fractions(mttf, interval, write, restart)
    assert all(0 <= v <= 1 for v in parts.values())
    assert sum(parts.values()) == pytest.approx(1, abs=1e-9)
    more = reliability.goodput_fraction(2 * mttf, interval, write, restart)
    assert more >= parts["goodput"]


@settings(max_examples=40, deadline=None)
@given(mttf=st.floats(100, 1e7), write=st.floats(0.01, 1e4))
def test_best_interval_is_best(mttf, write):
    best = reliability.best_interval_seconds(mttf, write)
    grid = best * np.geomspace(0.2, 5, 201)
    assert reliability.goodput_fraction(mttf, best, write, 0.0) >= reliability.goodput_fraction(mttf, grid, write, 0.0).max() - 1e-9
    assert best <= reliability.interval_seconds_first_order(mttf, write) * (1 + 1e-9)


def test_arrays_are_scalars_one_by_one():
    gpus = np.array([72, 1024, 16384, 131072])
    mttf = reliability.mttf_seconds(reliability.failure_rate_per_second(gpus, 3.8e-3 / DAY))
    together = reliability.goodput_fraction(mttf, 300.0, 10.0, 600.0)
    assert together.tolist() == [float(reliability.goodput_fraction(float(m), 300.0, 10.0, 600.0)) for m in mttf]
    assert (np.diff(together) < 0).all()


def test_spares_against_simulation():
    rng, nodes, rate, repair = np.random.default_rng(3), 2048, 6.5e-3 / DAY, 2 * DAY
    times = reliability.failure_times(rng, nodes, rate, 2000 * DAY)
    back = np.sort(times + rng.exponential(repair, len(times)))
    looks = rng.uniform(100 * DAY, 1900 * DAY, 20_000)
    out = np.searchsorted(times, looks) - np.searchsorted(back, looks)
    spares = reliability.spares_needed(nodes, rate, repair, 0.95)
    assert reliability.spare_availability(nodes, rate, repair, spares) == pytest.approx((out <= spares).mean(), abs=0.01)
    assert reliability.spare_availability(nodes, rate, repair, spares - 1) < 0.95


def test_refusals_are_words():
    with pytest.raises(Infeasible, match="no progress"):
        ASK["goodput"].ask({"gpus": 131072, "population": "rsc-1", "write_s": 10, "restart_min": 30})
    for inputs, words in (({"interval_s": 0}, "interval_s must be > 0"), ({"lag_s": 1e6}, "durable"), ({"write_s": -1}, "write_s"),
                          ({"gpus": True}, "gpus"), ({"population": "none"}, "population")):
        with pytest.raises(InputError, match=words):
            ASK["goodput"].ask({"gpus": 1024, "population": "rsc-1", "write_s": 10, "restart_s": 60, "interval_s": 600, **inputs})
    with pytest.raises(InputError, match="failure_rate is required"):
        ASK["mttf"].ask({"gpus": 72})


@pytest.mark.parametrize("inputs", [{"interval_s": 1e12}, {"write_s": 1e9, "interval_s": None}, {"lag_s": 1e5, "interval_s": None},
                                    {"interval_s": 1e-9}])
def test_a_goodput_of_nothing_is_no_progress(inputs):
    with pytest.raises(Infeasible, match=r"no progress.*an interval near"):
        ASK["goodput"].ask({"gpus": 16384, "population": "rsc-1", "write_s": 10, "restart_s": 600, "interval_s": 353, **inputs})


@settings(max_examples=60, deadline=None)
@given(gpus=st.integers(1, 10**7), interval=st.floats(1e-6, 1e9), write=st.floats(0, 1e7), restart=st.floats(0, 1e7), lag=st.floats(0, 1e6))
def test_no_answer_is_negative_or_a_sentinel(gpus, interval, write, restart, lag):
    times = {"interval_s": interval, "write_s": write, "restart_s": restart, "lag_s": lag}
    try:
        answer = ASK["goodput"].ask({"gpus": gpus, "population": "rsc-1", **times})
    except (Infeasible, InputError):
        return
    assert 1e-3 <= answer.value <= 1
    assert 0 <= answer.low <= answer.value <= answer.high <= 1


def test_tr03_shares_are_counted_again():
    shares = populations.cause_shares()
    count, share, printed = shares["Faulty GPU"]
    assert count == 148
    assert 100 * share == pytest.approx(35.3221957, rel=1e-3)
    assert printed == pytest.approx(0.301)
    assert sum(c for c, _, _ in shares.values()) == 419
    assert sum(s for _, s, _ in shares.values()) == pytest.approx(1)
    with pytest.raises(InputError, match="Meta RSC"):
        populations.cause_shares("Meta RSC-1")


def test_tr10_no_slo_no_goodput():
    for slo in (None, {}, {"ttft_s": None}):
        answer = ASK["serving_goodput"].ask({"slo": slo, "ttft_s": [0.1, 0.2]})
        assert answer.value is None
        assert "no SLO is set" in answer.note
    with pytest.raises(InputError, match="slo is not an input"):
        ASK["goodput"].ask({"gpus": 16, "population": "rsc-1", "write_s": 1, "slo": None})
    inside = ASK["serving_goodput"].ask({"slo": {"ttft_s": 0.5, "tpot_s": 0.05}, "ttft_s": [0.1, 0.4, 0.6, float("inf")],
                                         "tpot_s": [0.02, 0.06, 0.02, 0.02]})
    assert inside.value == 0.25
    assert "not the goodput of a training job" in inside.basis
    two = {"ttft_s": 1, "e2e_s": 1}
    for inputs, words in (({"slo": {"ttft_s": 0}, "ttft_s": [1]}, "slo.ttft_s"), ({"slo": {"speed": 1}}, "slo.speed"),
                          ({"slo": 3}, "object of limits"), ({"slo": {"ttft_s": 1}}, "ttft_s is required"),
                          ({"slo": two, "ttft_s": [1, 2], "e2e_s": [1]}, "one time"),
                          ({"slo": {"ttft_s": 1}, "ttft_s": [-1]}, "ttft_s must be >= 0")):
        with pytest.raises(InputError, match=words):
            ASK["serving_goodput"].ask(inputs)


def test_rates_are_read_in_the_users_words():
    same = [{"failure_rate": 6.5e-3}, {"failure_rate": "6.5 per 1000 node-days"}, {"failure_rate": {"value": 6.5, "unit": "1/1000 node-days"}},
            {"failures_per_1000_node_days": 6.5}, {"node_mttf_days": 1000 / 6.5}, {"failure_rate": 6.5e-3 / 8, "failure_rate_unit": "per GPU-day"},
            {"population": {"failure_rate": 6.5, "unit": "per 1000 node-days"}}]
    values = [ASK["mttf"].ask({"gpus": 16384, **inputs}).value for inputs in same]
    assert values == pytest.approx([values[0]] * len(values))


def test_largest_of_few_and_blom():
    assert stragglers.largest_of_normals([1, 2, 3]) == pytest.approx([0, 1 / np.sqrt(np.pi), 1.5 / np.sqrt(np.pi)], abs=1e-4)
    from scipy.special import ndtri

    units = np.array([72, 1024, 16384, 131072])
    assert stragglers.largest_of_normals(units) == pytest.approx(ndtri((units - 0.375) / (units + 0.25)), rel=0.006)


@pytest.mark.parametrize(("units", "spread", "share", "factor"), [(1000, 0.02, 1e-3, 1.1), (72, 0.05, 0.01, 1.3), (16, 0.1, 0.2, 2.0)])
def test_slowdown_against_samples(units, spread, share, factor):
    rng = np.random.default_rng(1)
    slow = rng.random((3000, units)) < share
    steps = ((1 + spread * rng.standard_normal((3000, units))) * np.where(slow, factor, 1)).max(1)
    assert stragglers.straggler_slowdown(units, spread, share, factor) == pytest.approx(steps.mean(), abs=0.01)


@settings(max_examples=30, deadline=None)
@given(units=st.integers(1, 10**6), spread=st.floats(0, 0.2), share=st.floats(0, 1), factor=st.floats(1, 3))
def test_slowdown_grows_with_units_and_factor(units, spread, share, factor):
    value = stragglers.straggler_slowdown(units, spread, share, factor)
    assert 1 <= value <= factor * (1 + 8 * spread) + 1e-6
    assert stragglers.straggler_slowdown(2 * units, spread, share, factor) >= value - 1e-6
    assert stragglers.straggler_slowdown(units, 0.0, share, factor) == pytest.approx(1 + (factor - 1) * (1 - (1 - share) ** units), abs=1e-6)


def test_one_slow_gpu_of_a_pipeline():
    """Ten per cent slower in a step that is 80 % compute: 8 % longer."""
    assert stragglers.step_with_slow_gpu_seconds(10.0, 0.5, 13, 7, 2, 1.1) == pytest.approx(10.8)


def test_causes_against_samples():
    share, factor, time = np.array([1e-3, 1e-4, 1.0]), np.array([1.1, 1.3, 1.05]), np.array([1.0, 1.0, 0.3])
    found = stragglers.causes_slowdown(1000, share, factor, time)
    rng = np.random.default_rng(2)
    there = (rng.random((40_000, 3)) < 1 - (1 - share) ** 1000) & (rng.random((40_000, 3)) < time)
    assert found["together"] == pytest.approx(np.where(there, factor, 1).max(1).mean() - 1, abs=0.005)
    assert found["together"] <= found["alone"].sum() + 1e-12


def test_screening_against_sampled_units():
    rng = np.random.default_rng(4)
    slow = rng.random(200_000) < 0.05
    spread, band, factor, repeats = 0.02, 0.04, 1.08, 3
    reject, escape = stragglers.band_rates(band, spread, factor, repeats)
    passed = np.ones(len(slow), bool)
    for _ in range(2):
        mean = np.where(slow, factor, 1) * (1 + spread / np.sqrt(repeats) * rng.standard_normal(len(slow)))
        passed &= mean <= 1 + band
    found = stragglers.screening(0.05, [reject, reject], [escape, escape])
    assert found["pass_fraction"] == pytest.approx(passed.mean(), abs=0.005)
    assert found["slow_in_service"] == pytest.approx(slow[passed].mean(), abs=0.005)
    assert stragglers.band_rates(stragglers.band_for_false_reject(0.01, 0.02, 3), 0.02, 1.1, 3)[0] == pytest.approx(0.01)
    bought = stragglers.units_to_buy(14, found["pass_fraction"], 0.9)
    assert (rng.binomial(bought, found["pass_fraction"], 20_000) >= 14).mean() >= 0.89
    assert (rng.binomial(bought - 1, found["pass_fraction"], 20_000) >= 14).mean() < 0.9


def test_constants_are_what_the_fit_writes():
    from planner.calibration import reliability as populations
    from planner.calibration import table
    from planner.facts.files import folder

    assert (folder("data") / "calibration" / "reliability.csv").read_text() == table.text(populations.fit())


@pytest.mark.parametrize(("spares", "least"), [(10, 0.35), (26, 0.85), (36, 0.98)])
def test_waiting_for_a_spare_against_a_walked_pool(spares, least):
    """2,048 nodes, repairs of two days on average: a failure takes a spare, or waits for the first node to come back."""
    rng, nodes, rate, repair = np.random.default_rng(8), 2048, 6.5e-3 / DAY, 2 * DAY
    mttf, clock, waited, back = 1 / (nodes * rate), 0.0, 0.0, []
    for _ in range(40_000):
        clock += rng.exponential(mttf)
        back.append(clock + rng.exponential(repair))
        back = [t for t in back if t > clock]
        while len(back) > spares:
            first = min(back)
            waited += first - clock
            clock = first
            back.remove(first)
    left = 1 - reliability.waiting_fraction(nodes, rate, repair, spares)
    assert left == pytest.approx(1 - waited / clock, abs=0.01)
    assert left > least


def test_parts_with_spares_sum_to_one():
    asked = {"gpus": 16384, "failure_rate": 6.5e-3, "write_s": 10, "restart_s": 300, "spares": 30, "repair_h": 48}
    parts = [ASK["goodput"].ask({**asked, "quantity": q}).value for q in ("goodput", "checkpoint_stalls", "lost_work", "restarts", "waiting")]
    assert sum(parts) == pytest.approx(1)
    with pytest.raises(Infeasible, match="waits"):
        ASK["goodput"].ask({**asked, "spares": 2})
    with pytest.raises(InputError, match="repair_h is required"):
        ASK["goodput"].ask({k: v for k, v in asked.items() if k != "repair_h"})
