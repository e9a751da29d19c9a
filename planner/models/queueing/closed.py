"""Closed loops: a fixed number of users or slots, and the rate that their own latency allows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.errors import InputError
from planner.models.queueing.batching import highest_rate_per_s, tpot_seconds_mean_field
from planner.models.queueing.chunked import Engine, Requests, between_steps_ttft_seconds, mean_field
from planner.models.queueing.chunked import highest_rate_per_s as highest_rate_aggregated
from planner.models.queueing.lengths import rate_of
from planner.models.queueing.waiting import wait_seconds
from planner.units import count, nonnegative, positive


@dataclass(frozen=True)
class PrefillPool:
    """Prefill workers: service_seconds [s] mean of one prompt, scv [1], workers [1], fixed_seconds [s] added to each (KV transfer)."""

    service_seconds: np.ndarray
    scv: np.ndarray
    workers: np.ndarray
    fixed_seconds: np.ndarray = 0.0


@dataclass(frozen=True)
class DecodePool:
    """Decode workers that share the requests evenly: steps [1] mean of a request, step_seconds [s] at 1..B running of one worker, workers [1]."""

    steps: np.ndarray
    step_seconds: np.ndarray
    workers: np.ndarray


def in_flight(rate_per_s, ttft_seconds, tpot_seconds, output_tokens, think_seconds=0.0):
    """Return the requests in flight: rate x (TTFT + (tokens - 1) TPOT + think); the first token is in the TTFT.

    Parameters: rate_per_s [1/s]; ttft_seconds [s]; tpot_seconds [s]; output_tokens [token], at least 1; think_seconds [s] between a
    user's answer and the next request. Returns: requests [1], or users where think time is counted. Raises: InputError.
    Validity: any queue in steady state, means only. Error: exact. Source: Little's law.
    """
    tokens = positive("output_tokens", output_tokens)
    if (tokens < 1).any():
        raise InputError("output_tokens", float(np.min(tokens)), "must be >= 1")
    answer = nonnegative("ttft_seconds", ttft_seconds) + (tokens - 1) * nonnegative("tpot_seconds", tpot_seconds)
    return (rate_of("rate_per_s", rate_per_s) * (answer + nonnegative("think_seconds", think_seconds)))[()]


def closed_loop_rate(concurrency, latency_seconds, highest_rate_per_s, think_seconds=0.0, rounds=60):
    """Return the rate of a closed loop: the root X of X (latency + think) = N, the latency that of an open queue at X (N - 1) / N.

    A request meets the other N - 1 (arrival theorem). By bisection on 0..highest; where N is more than the stations hold the rate is the
    highest, and what N / X leaves beyond their latency is time in a queue.
    Parameters: concurrency N [1], requests always in flight, or users with think time; latency_seconds, callable: rate [1/s] array ->
    whole latency TTFT + L TPOT [s], not falling, infinite where overloaded; highest_rate_per_s [1/s] where the stations saturate;
    think_seconds [s]; rounds [1] of halving; all arrays broadcast. Returns: rate [1/s], 0 for a concurrency of 0. Raises: InputError.
    Validity: stations whose latency rises with the rate. Error: rate within 1.5 % of simulated closed loops of 1 to 256 users, TTFT 5 % of two
    pools up to 90 % of the highest rate, 16 % beyond (outputs/queueing_errors.csv).
    Source: Little's law; arrival theorem of closed networks (mean value analysis).
    """
    users, think = nonnegative("concurrency", concurrency), nonnegative("think_seconds", think_seconds)
    users, think, top = np.broadcast_arrays(users, think, positive("highest_rate_per_s", highest_rate_per_s))
    others = np.maximum(1 - 1 / np.maximum(users, 1.0), 0.0)
    low, high = np.zeros(top.shape), top.astype(float)
    for _ in range(rounds):
        rate = (low + high) / 2
        with np.errstate(invalid="ignore", over="ignore"):
            need = rate * (np.asarray(latency_seconds(rate * others), float) + think)
        less = need < users  # infinite and undefined count as too fast
        low, high = np.where(less, rate, low), np.where(less, high, rate)
    return np.where(users > 0, (low + high) / 2, 0.0)[()]


def closed_loop_disaggregated(concurrency, prefill: PrefillPool, decode: DecodePool, think_seconds=0.0) -> dict:
    """Return the steady state of a closed loop over a prefill pool and a decode pool: `closed_loop_rate` with their own latency.

    Parameters: concurrency [1]; prefill, decode; think_seconds [s]. Returns: dict of arrays: rate [1/s]; ttft [s], with what does not fit
    the stations' own latency (a queue for saturated workers or slots); tpot [s] a step; running [1] in all decode workers; latency [s].
    Raises: InputError. Validity: first come first served. Error: as `closed_loop_rate`. Source: as there.
    """
    workers, own = count("workers", decode.workers), positive("service_seconds", prefill.service_seconds)
    fixed, steps = nonnegative("fixed_seconds", prefill.fixed_seconds), positive("steps", decode.steps)

    def first(rate):
        return wait_seconds(rate, own, prefill.workers, prefill.scv) + own + fixed

    def pace(rate):
        return tpot_seconds_mean_field(rate / workers, steps, decode.step_seconds)

    top = np.minimum(count("workers", prefill.workers) / own, workers * highest_rate_per_s(steps, decode.step_seconds))
    return _steady(concurrency, think_seconds, top, steps, first, pace)


def closed_loop_aggregated(concurrency, requests: Requests, engine: Engine, think_seconds=0.0) -> dict:
    """Return the steady state of a closed loop over one aggregated worker with chunked prefill (`chunked`).

    Without think time a prompt comes when a request ends, between two steps (`chunked.between_steps_ttft_seconds`); a think time of several
    steps makes it come at any moment. Parameters: concurrency [1] of one worker; requests (its rate is not read); engine; think_seconds
    [s]. Returns: dict as `closed_loop_disaggregated`. Raises: InputError. Validity: as `chunked.solve`.
    Error: rate within 1.5 %, step 8 %, TTFT 20 % of simulated loops of 1 to 256 users up to 90 % of the highest rate; at saturation the TTFT
    is what the steps leave of the latency, up to 64 % off (outputs/queueing_errors.csv).
    Source: as `closed_loop_rate`.
    """
    think, steps = nonnegative("think_seconds", think_seconds), positive("steps", requests.steps)

    def pace(rate):
        return mean_field(replace(requests, rate_per_s=rate), engine)[1]

    def first(rate):
        at = replace(requests, rate_per_s=rate)
        any_time, step = mean_field(at, engine)
        mixed = think / (think + np.where(np.isfinite(step), step, 1.0))
        with np.errstate(invalid="ignore"):
            return np.where(mixed > 0, mixed * any_time, 0.0) + (1 - mixed) * between_steps_ttft_seconds(at, engine, step)

    return _steady(concurrency, think, highest_rate_aggregated(requests, engine), steps, first, pace)


def _steady(concurrency, think_seconds, top, steps, first, pace):
    """Return the dict of a closed loop from the latency parts of its stations at the rate a request meets."""
    rate = np.asarray(closed_loop_rate(concurrency, lambda x: first(x) + steps * pace(x), top, think_seconds))
    users = np.broadcast_to(nonnegative("concurrency", concurrency), rate.shape)
    # just below the root, where a saturated station is still finite
    seen = rate * (1 - 1e-9) * np.maximum(1 - 1 / np.maximum(users, 1.0), 0.0)
    busy = users > 0
    step = np.where(np.isfinite(pace(seen)), pace(seen), pace(seen * (1 - 1e-6)))
    own = np.where(np.isfinite(first(seen)), first(seen), first(seen * (1 - 1e-6)))
    whole = np.where(busy, users / np.where(busy, rate, 1.0), 0.0)
    queue = whole - think_seconds - own - steps * step  # rounding aside, above 0 only where a station is saturated
    latency = own + steps * step + np.where(queue > 1e-6 * whole, queue, 0.0)
    parts = {"rate": rate, "ttft": latency - steps * step, "tpot": step, "running": rate * steps * step, "latency": latency}
    return {name: np.asarray(v)[()] for name, v in parts.items()}
