"""Closed loops: a fixed number of users or slots, and the rate that their own latency allows."""

from __future__ import annotations

import numpy as np

from planner.errors import InputError
from planner.units import nonnegative, positive


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
    return (nonnegative("rate_per_s", rate_per_s) * (answer + nonnegative("think_seconds", think_seconds)))[()]


def closed_loop_rate(concurrency, latency_seconds, highest_rate_per_s, think_seconds=0.0, rounds=60):
    """Return the rate of a closed loop: the root X of X (latency(X) + think) = concurrency, by bisection on 0..highest.

    Parameters: concurrency [1], requests always in flight, or users with think time; latency_seconds, callable: rate [1/s] array -> whole
    latency TTFT + (tokens - 1) TPOT [s], not falling, infinite where overloaded; highest_rate_per_s [1/s] where the stations saturate;
    think_seconds [s]; rounds [1] of halving; all arrays broadcast. Returns: rate [1/s], 0 for a concurrency of 0. Raises: InputError.
    Validity: the latency of an open queue at the same rate stands for the loop's own. Error: 1e-9 of the equation (tests); see
    docs of the stations for how near the open queue is. Source: Little's law.
    """
    users, think = nonnegative("concurrency", concurrency), nonnegative("think_seconds", think_seconds)
    top = positive("highest_rate_per_s", highest_rate_per_s)
    users, think, top = np.broadcast_arrays(users, think, top)
    low, high = np.zeros(top.shape), top.astype(float).copy()
    for _ in range(rounds):
        rate = (low + high) / 2
        with np.errstate(invalid="ignore", over="ignore"):
            need = rate * (np.asarray(latency_seconds(rate), float) + think)
        less = need < users  # inf and nan count as too fast
        low, high = np.where(less, rate, low), np.where(less, high, rate)
    return np.where(users > 0, (low + high) / 2, 0.0)[()]
