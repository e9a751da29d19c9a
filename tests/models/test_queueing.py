"""Queues against closed forms and simulation, closed loops against their own equation, and the laws they must keep."""

import csv
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import Infeasible, InputError
from planner.models.queueing import batching, chunked, closed, exponential, laws, lengths, sizing, tails, waiting

FEW = settings(max_examples=25, deadline=None)
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("scv", [0.0, 0.3, 1.0, 4.0])
def test_one_worker_is_exact(scv):
    """Pollaczek-Khinchine: W = rho (1 + scv) / (2 (1 - rho)) S."""
    for rho in (0.1, 0.5, 0.95):
        assert waiting.wait_seconds(rho / 2, 2.0, 1, scv) == pytest.approx(2 * rho * (1 + scv) / 2 / (1 - rho), rel=1e-4)


def test_first_release_in_closed_form():
    workers = np.array([1, 2, 8, 100])
    assert waiting.first_release(workers, 0.0) == pytest.approx(1 / (workers + 1), rel=1e-3)
    assert waiting.first_release(workers, 0.0, 2) == pytest.approx(2 / ((workers + 1) * (workers + 2)), rel=1e-3)
    assert waiting.first_release(1, [0.5, 1, 5]) == pytest.approx([0.75, 1, 3], rel=1e-4)
    assert waiting.first_release(1, [0.5, 1, 5], 2) == pytest.approx([1.125, 8 / 3, 72], rel=1e-4)


def erlang_c(workers, rho):
    """The recursion, worker by worker."""
    blocked = 1.0
    for n in range(1, workers + 1):
        blocked = rho * workers * blocked / (n + rho * workers * blocked)
    return blocked / (1 - rho * (1 - blocked))


@pytest.mark.parametrize("workers", [1, 2, 32, 1024, 4096])
def test_delay_probability_is_erlangs(workers):
    for rho in (0.3, 0.8, 0.99):
        assert waiting.delay_probability(rho, workers) == pytest.approx(erlang_c(workers, rho), rel=1e-9, abs=1e-250)


def test_overload_is_said_with_the_nearest_load_that_works():
    with pytest.raises(Infeasible, match=r"load 1.25 of 4 workers at 50 requests/s.*below 40 requests/s, or at least 6 workers"):
        waiting.check_load(50, 0.1, 4)
    assert waiting.check_load(39, 0.1, 4) == pytest.approx(0.975)
    assert waiting.wait_seconds(50, 0.1, 4, 1.0) == waiting.wait_quantile_seconds_gamma(50, 0.1, 4, 1.0, 0.5) == np.inf


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("quantile", lambda: waiting.wait_quantile_seconds_gamma(1, 0.1, 1, 1, 99)),
        ("quantile", lambda: waiting.wait_quantile_seconds_gamma(1, 0.1, 1, 1, 0)),
        ("quantile", lambda: waiting.wait_quantile_seconds_gamma(1, 0.1, 1, 1, 1.0)),
        ("num_workers", lambda: waiting.wait_seconds(1, 0.1, 0, 1)),
        ("num_workers", lambda: waiting.wait_seconds(1, 0.1, 1.5, 1)),
        ("scv", lambda: waiting.wait_seconds(1, 0.1, 1, -1)),
        ("service_seconds", lambda: waiting.wait_seconds(1, 0.0, 1, 1)),
        ("rate_per_s", lambda: waiting.wait_seconds(float("nan"), 0.1, 1, 1)),
        ("think_seconds", lambda: closed.in_flight(1, 1, 1, 10, -1)),
        ("output_tokens", lambda: closed.in_flight(1, 1, 1, 0)),
        ("concurrency", lambda: closed.closed_loop_rate(-1, lambda x: 1 + x, 10)),
        ("hit_fraction", lambda: lengths.prefill_service(1000, 1, (0, 1e-4), 1.0)),
        ("p50", lambda: lengths.lognormal_scv(1000)),
        ("p50", lambda: lengths.lognormal_scv(1000, p50=1200)),
        ("p99", lambda: lengths.lognormal_scv(1000, p99=20_000)),
    ],
)
def test_wrong_values_are_refused_by_name(name, call):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.field == name


@FEW
@given(st.floats(0.01, 0.97), st.integers(1, 200), st.floats(0, 6), st.floats(0.02, 0.98))
def test_more_load_waits_longer_and_scalars_equal_arrays(rho, workers, scv, quantile):
    rates = np.array([rho, rho * 1.02]) * workers
    waits = waiting.wait_seconds(rates, 1.0, workers, scv)
    tails = waiting.wait_quantile_seconds_gamma(rates, 1.0, workers, scv, quantile)
    assert 0 <= waits[0] <= waits[1]
    assert 0 <= tails[0] <= tails[1]
    assert waiting.wait_seconds(rates[0], 1.0, workers, scv) == waits[0]


@FEW
@given(st.floats(0.02, 3), st.floats(10, 1e5))
def test_lognormal_is_found_again(scv, mean):
    p50, p99 = (lengths.lognormal_quantile(mean, scv, q) for q in (0.5, 0.99))
    for found in (lengths.lognormal_scv(mean, p50=p50), lengths.lognormal_scv(mean, p99=p99), lengths.lognormal_scv(mean, p50, p99)):
        assert found == pytest.approx(scv, rel=1e-6)


def test_prefill_service_is_the_average_over_lengths():
    z, w = lengths.nodes(80)
    mean, scv = lengths.prefill_service(1000, 0.8, (0.01, 1e-4, 3e-8), 0.4)
    spread = np.sqrt(np.log1p(0.8))
    x = 600 * np.exp(spread * z - spread**2 / 2)
    times = 0.01 + 1e-4 * x + 3e-8 * x**2
    assert mean == pytest.approx((w * times).sum(), rel=1e-6)
    assert scv == pytest.approx((w * times**2).sum() / mean**2 - 1, rel=1e-6)


def test_hits_thin_the_work_and_uneven_hits_spread_it():
    plain = lengths.prefill_service(8000, 0.5, (0, 5e-5))
    half = lengths.prefill_service(8000, 0.5, (0, 5e-5), 0.5)
    uneven = lengths.prefill_service(8000, 0.5, (0, 5e-5), 0.5, 1.0)
    assert half[0] == uneven[0] == plain[0] / 2
    assert uneven[1] > half[1] == pytest.approx(plain[1])


def test_closed_loop_solves_its_own_equation():
    users = np.array([0, 1, 8, 64, 512])

    def latency(rate):
        return 0.1 + waiting.wait_seconds(rate, 0.1, 4, 1.0) + 0.5

    for think in (0.0, 3.0):
        rate = closed.closed_loop_rate(users, latency, 40.0, think)
        assert rate[0] == 0
        seen = rate * np.maximum(1 - 1 / np.maximum(users, 1), 0)
        assert rate * (latency(seen) + think) == pytest.approx(users, rel=1e-6)
        assert (np.diff(rate) > 0).all()


TABLE = list(csv.DictReader((ROOT / "outputs" / "queueing_errors.csv").read_text(encoding="utf-8").splitlines()))
TOOL = runpy.run_path(str(ROOT / "tools" / "check_queueing.py"))


def errors(station, quantity, low=0.0, high=0.96, band=0.03):
    """Return the absolute errors of the stored table: stations that start so, quantities that end so, loads in a range, settled simulations."""
    found = [abs(float(r["error"])) for r in TABLE if r["station"].startswith(station) and r["quantity"].endswith(quantity)
             and low <= float(r["load"]) <= high and float(r["band"]) <= band]
    assert found
    return np.array(found)


STATED = [  # as the docstrings say it
    ("prefill pool", "wait mean", 0.0, 0.96, 0.05),
    ("prefill pool", "wait p99", 0.0, 0.96, 0.10),
    ("prefill pool", "ttft p99", 0.0, 0.96, 0.10),
    ("lognormal model of exponential", "mean", 0.0, 0.96, 0.12),
    ("lognormal model of exponential", "p99", 0.0, 0.96, 0.14),
    ("decode pool", "tpot mean", 0.0, 0.96, 0.03),
    ("decode pool", "tpot p99", 0.0, 0.96, 0.10),
    ("decode pool", "whole p99", 0.0, 0.96, 0.10),
    ("decode pool", "wait mean", 0.0, 0.96, 0.10),
    ("disaggregated", "mean", 0.0, 0.96, 0.05),
    ("disaggregated", "p99", 0.0, 0.96, 0.10),
    *[(f"aggregated, {case}", "mean", 0.0, 0.9, 0.05) for case in TOOL["ENGINES"] if case != "mostly prefill, long tails"],
    *[(f"aggregated, {case}", "tpot p99", 0.0, 0.8, 0.12) for case in TOOL["ENGINES"] if case != "mostly prefill, long tails"],
    ("aggregated", "e2e p99", 0.0, 0.96, 0.16),
    ("aggregated", "tpot p99", 0.0, 0.96, 0.16),
    ("aggregated", "ttft p99", 0.0, 0.8, 0.40),
    ("closed", "rate mean", 0.0, 1.0, 0.015),
    ("aggregated, mostly prefill", "mean", 0.0, 0.96, 0.15),
    ("closed", "tpot mean", 0.0, 1.0, 0.08),
    ("closed", "ttft mean", 0.0, 0.9, 0.20),
    ("closed aggregated, short prompts", "ttft mean", 0.0, 0.9, 0.05),
    ("closed disaggregated", "ttft mean", 0.0, 0.9, 0.05),
]


@pytest.mark.parametrize(("station", "quantity", "low", "high", "most"), STATED)
def test_stored_errors_are_as_stated(station, quantity, low, high, most):
    found = errors(station, quantity, low, high)
    assert found.max() <= most, sorted(found)[-5:]


@pytest.mark.parametrize("case", [c for c in TOOL["ENGINES"] if c != "mostly prefill, long tails"])
def test_quick_means_against_the_stored_simulations(case):
    requests, engine, _ = TOOL["engine_of"](case)
    top = chunked.highest_rate_per_s(requests, engine)
    for row in TABLE:
        if row["station"] == f"aggregated, {case}" and float(row["load"]) <= 0.8 and row["quantity"] in ("ttft mean", "tpot mean"):
            made = chunked.mean_field(replace(requests, rate_per_s=float(row["load"]) * top), engine)[row["quantity"] == "tpot mean"]
            assert made == pytest.approx(float(row["simulated"]), rel=0.25 if row["quantity"] == "ttft mean" else 0.08)


@pytest.mark.parametrize("case", TOOL["DECODES"])
def test_quick_decode_mean_against_the_stored_simulations(case):
    start, slope, slots, length, _ = TOOL["DECODES"][case]
    table = batching.step_table(start, slope, slots)
    for row in TABLE:
        if row["station"] == f"decode pool, {case}" and float(row["load"]) <= 0.8 and row["quantity"] == "tpot mean":
            rate = float(row["load"]) * batching.highest_rate_per_s(length, table)
            assert batching.tpot_seconds_mean_field(rate, length, table) == pytest.approx(float(row["simulated"]), rel=0.03)


def test_stored_model_values_are_what_the_code_makes():
    """A share of the table: one case of each kind (all of it: tools/check_queueing.py --models)."""
    TOOL["recall"]()
    stored = {TOOL["key"](r): float(r["model"]) for r in TABLE}
    made = []
    for one in (("prefill_case", (0.8, 4, "lognormal cv2 2")), ("decode_case", (0.9, "64 slots")), ("aggregated_case", (0.7, "64 slots")),
                ("disaggregated_case", (0.8, "2 prefill workers")), ("closed_case", (16, 5.0, "aggregated", "short prompts"))):
        made += list(TOOL[one[0]](*one[1]))
    assert len(made) > 20
    for row in made:
        assert row["model"] == pytest.approx(stored[TOOL["key"](row)], rel=1e-4), row


def test_a_fresh_simulation_agrees():
    """Seconds of simulation, fixed seeds: the bands are wide, the models inside them and what they state."""
    load, workers = 0.8, 4
    got = TOOL["simulate_waits"](load, workers, 2.0, TOOL["SERVICES"]["lognormal cv2 2"][1], seconds=0.5, seed=11)
    mean, band = got["wait mean"]
    assert waiting.wait_seconds(load * workers, 1.0, workers, 2.0) == pytest.approx(mean, rel=0.05 + band)
    mean, band = got["ttft p99"]
    assert tails.ttft_quantile_seconds(load * workers, 1.0, workers, 2.0, 0.99) == pytest.approx(mean, rel=0.10 + band)
    requests, engine, draw = TOOL["engine_of"]("short prompts")
    rate, rng = 0.6 * chunked.highest_rate_per_s(requests, engine), np.random.default_rng(12)
    first, step, whole, *_ = TOOL["aggregated"](rng, TOOL["Arrivals"](rng, 12_000, rate=rate), engine.step_seconds, engine.prefill_seconds_per_token,
                                                engine.chunk_tokens, *draw(rng, 12_000))
    made = TOOL["aggregated_model"](requests, engine, rate)
    for name, seen in (("ttft", first), ("tpot", step), ("e2e", whole)):
        assert made[f"{name} mean"] == pytest.approx(seen.mean(), rel=0.08)
        assert made[f"{name} p99"] == pytest.approx(np.quantile(seen, 0.99), rel=0.15)


def test_parts_in_closed_form():
    assert batching.averaged(1.0, 0.0) == pytest.approx(2 / 3, abs=1e-3)
    long, even, turn = batching.lattice()
    draws = np.random.default_rng(0).random((3, 400_000)).sum(0)
    assert np.quantile(long + even + turn, [0.5, 0.9, 0.99]) == pytest.approx(np.quantile(draws, [0.5, 0.9, 0.99]), rel=0.01)
    one, other = -np.log(1 - long[8::16]), -np.log(1 - np.sort(even)[::2])
    assert tails.sum_quantile_seconds(one, other, 0.9) == pytest.approx(3.8897, rel=0.02)  # two exponential times


@pytest.mark.parametrize("rate", [0.0, 1e-9, 1.0, 1e9])
def test_every_load_has_a_number_or_infinity(rate):
    table = batching.step_table(0.01, 0.001, 64)
    engine = chunked.Engine(table, 2e-5, 2048)
    for scv in (0.0, 50.0):
        for length in (1e-9, 1e4):
            requests = chunked.Requests(rate, 1000.0, scv, length, scv)
            station = chunked.solve(requests, engine)
            values = [*batching.decode(rate, length, scv, table).values(), station.running, station.tpot, station.ttft,
                      *chunked.mean_field(requests, engine),
                      batching.tpot_quantile_seconds(rate, length, scv, table, 0.99), chunked.ttft_quantile_seconds(station, 0.99),
                      chunked.e2e_quantile_seconds(station, 0.99), *closed.closed_loop_aggregated(rate, requests, engine).values(),
                      *closed.closed_loop_disaggregated(rate, closed.PrefillPool(0.1, scv, 2), closed.DecodePool(length, table, 3), 5.0).values()]
            assert all(np.asarray(v) >= 0 for v in values)  # NaN fails
            assert (rate < 1e6) or np.isinf(station.ttft)


@FEW
@given(st.floats(0.01, 0.99), st.integers(1, 300), st.floats(0.5, 0.999))
def test_textbook_queue_keeps_its_laws(rho, workers, quantile):
    wait, tail = exponential.wait_seconds(rho * workers, 1.0, workers), exponential.wait_quantile_seconds(rho * workers, 1.0, workers, quantile)
    first = exponential.ttft_quantile_seconds(rho * workers, 1.0, workers, quantile)
    assert max(tail, -np.log1p(-quantile)) - 1e-9 <= first <= tail - np.log1p(-quantile) + 1e-9 + 2 * wait + 10
    assert waiting.wait_seconds(rho * workers, 1.0, 1, 1.0) == np.inf if rho * workers >= 1 else True
    assert exponential.ttft_quantile_seconds(rho, 1.0, 1, quantile) == pytest.approx(-np.log1p(-quantile) / (1 - rho), rel=1e-4)


def test_split_is_the_best_of_all():
    for hit in (0.0, 0.3, 0.9):
        made = sizing.pool_split(72, 20000.0, 2000.0, 8000.0, 1000.0, hit)
        each = 0.4 * (1 - hit)
        assert made["requests_per_s"] == pytest.approx(max(min(g / each, (72 - g) / 0.5) for g in range(1, 72)))


def test_what_clients_see_in_one_call():
    prefill, pool = closed.PrefillPool(0.1, 0.5, 2, 0.02), closed.DecodePool(200.0, batching.step_table(0.01, 0.0002, 64), 2)
    rates = np.array([0.0, 1.0, 8.0, 1e9])
    made = laws.disaggregated(rates, prefill, pool, 0.5, 0.99)
    assert made["ttft"][0] == pytest.approx(0.12)
    assert made["tpot"][0] == pytest.approx(0.0102, rel=1e-2)
    for name in ("ttft", "tpot", "e2e"):
        assert (made[name][:3] < made[f"{name}_quantile"][:3] + 1e-4).all()
        assert (np.diff(made[name]) >= 0).all()
        assert np.isinf(made[name][3])
        assert np.isinf(made[f"{name}_quantile"][3])
    alone = laws.disaggregated(8.0, prefill, pool, 0.5, 0.99)
    assert all(alone[name] == pytest.approx(made[name][2], rel=1e-9) for name in made)
