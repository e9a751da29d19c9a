"""Queues against closed forms and simulation, closed loops against their own equation, and the laws they must keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import Infeasible, InputError
from planner.models.queueing import closed, lengths, waiting

FEW = settings(max_examples=25, deadline=None)


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
