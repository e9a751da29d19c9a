"""The textbook queue of c workers with exponential service times (M/M/c), exact: for service times known to be so, and to check others by."""

from __future__ import annotations

import numpy as np

from planner.models.queueing.lengths import inside
from planner.models.queueing.waiting import delay_probability, load_fraction
from planner.units import count, nonnegative, positive


def wait_seconds(rate_per_s, service_seconds, num_workers):
    """Return the mean wait: C S / (c (1 - rho)), C Erlang's delay probability.

    Parameters: rate_per_s [1/s]; service_seconds S [s] mean; num_workers c [1]; broadcast. Returns: wait [s]; infinite at a load of 1 or
    more. Raises: InputError. Validity: Poisson arrivals, exponential service. Error: exact; 2 % of simulation (tests, noise).
    Source: Erlang (1917).
    """
    rho, pace, chance = _queue(rate_per_s, service_seconds, num_workers)
    return np.where(rho < 1, chance / pace, np.inf)[()]


def wait_quantile_seconds(rate_per_s, service_seconds, num_workers, quantile):
    """Return a quantile of the wait: ln(C / (1 - q)) S / (c (1 - rho)), 0 for the share that does not wait.

    Parameters: as `wait_seconds`; quantile q [1] inside 0..1. Returns: wait [s]; infinite at a load of 1 or more. Raises: InputError.
    Validity, Error: as `wait_seconds`. Source: the wait of those who wait is exponential.
    """
    rho, pace, chance = _queue(rate_per_s, service_seconds, num_workers)
    with np.errstate(divide="ignore"):
        found = np.maximum(np.log(chance / (1 - inside("quantile", quantile))), 0.0) / pace
    return np.where(rho < 1, found, np.inf)[()]


def ttft_quantile_seconds(rate_per_s, service_seconds, num_workers, quantile, fixed_seconds=0.0):
    """Return a quantile of wait and own service: P(> t) = (1 - C) e^(-m t) + C (a e^(-m t) - m e^(-a t)) / (a - m), m = 1 / S,
    a = c m (1 - rho); by bisection, and a fixed time added.

    Parameters: as `wait_quantile_seconds`; fixed_seconds [s]. Returns: TTFT [s]; infinite at a load of 1 or more. Raises: InputError.
    Validity, Error: as `wait_seconds`. Source: sum of two independent exponential times.
    """
    rho, pace, chance = _queue(rate_per_s, service_seconds, num_workers)
    rate, above = 1 / positive("service_seconds", service_seconds), 1 - inside("quantile", quantile)
    rho, pace, chance, rate, above = np.broadcast_arrays(rho, pace, chance, rate, above)
    # where both rates are equal the law is a limit: step a little aside
    pace = np.where(np.abs(pace / rate - 1) < 1e-6, rate * (1 + 1e-6), pace)
    low, high = np.zeros(rho.shape), -np.log(above) * 2 / np.minimum(rate, pace) + 2 / rate + 2 / pace
    for _ in range(60):
        t = (low + high) / 2
        with np.errstate(under="ignore"):
            left = (1 - chance) * np.exp(-rate * t) + chance * (pace * np.exp(-rate * t) - rate * np.exp(-pace * t)) / (pace - rate)
        low, high = np.where(left > above, t, low), np.where(left > above, high, t)
    return np.where(rho < 1, (low + high) / 2 + nonnegative("fixed_seconds", fixed_seconds), np.inf)[()]


def _queue(rate_per_s, service_seconds, num_workers):
    """Return load, rate at which the wait of those who wait ends [1/s], and the chance to wait; harmless where the load is 1 or more."""
    rho = np.asarray(load_fraction(rate_per_s, service_seconds, num_workers))
    idle = np.where(rho < 1, 1 - rho, 1.0)
    return rho, count("num_workers", num_workers) * idle / positive("service_seconds", service_seconds), delay_probability(rho, num_workers)
