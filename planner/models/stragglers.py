"""The slowest of many: what spread and slow units cost a synchronous step, and what screening before service lets through."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from planner.errors import InputError
from planner.units import count, fraction, nonnegative, number, positive

_GRID = np.linspace(-9.0, 9.0, 1801)  # standard deviations; steps of 0.01 leave 1e-6 of a deviation


def largest_of_normals(num_units):
    """Return the mean of the largest of n standard normal draws: z = b - integral of F^n up to b, b far in the upper tail.

    Parameters: num_units n [1], scalar or array. Returns: z [standard deviations], 0 for one. Raises: InputError.
    Validity: independent draws, n up to 1e12. Error: 0.6 % of the printed 2.38, 3.23, 3.96, 4.43 at 72, 1,024, 16,384, 131,072, which
    are Blom's approximation; 1e-4 of the exact values for two and three units (tests). Source: order statistics.
    """
    units = count("num_units", num_units).astype(float)
    below = np.exp(np.maximum(units[..., None] * log_ndtr(_GRID), -745.0))
    return (_GRID[-1] - np.trapezoid(below, _GRID, axis=-1))[()]


def straggler_slowdown(num_units, spread, slow_fraction=0.0, slow_factor=1.0):
    """Return the mean time of a step that waits for the slowest of n units, over the time of one typical unit.

    Each unit is slow with chance f; its time is normal with mean 1 (or the slow factor s) and coefficient of variation c:
    E[max] = b - integral of F^n up to b, F = (1 - f) N(1, c) + f N(s, c s).
    Without slow units it is 1 + c z(n); without spread 1 + (s - 1)(1 - (1 - f)^n).
    Parameters: num_units n [1]; spread c [1]; slow_fraction f [1]; slow_factor s [1] time of a slow unit over a typical one, >= 1;
    all broadcast. Returns: ratio [1], >= 1. Raises: InputError.
    Validity: independent units that share one barrier a step; spread up to 0.3 (a normal time must stay above 0).
    Error: 1e-4 against both limits, 0.01 against sampled maxima (tests). Source: order statistics.
    """
    units = count("num_units", num_units).astype(float)
    share, factor = fraction("slow_fraction", slow_fraction), number("slow_factor", slow_factor, 1.0)
    width = np.maximum(number("spread", spread, 0.0, 0.3), 1e-9)
    units, width, share, factor = np.broadcast_arrays(units, width, share, factor)
    # each of the two groups reaches into its own range: nodes around the typical time, around the slow time, and between
    near = np.linspace(-9.0, 9.0, 601)
    nodes = np.sort(np.concatenate([1 + width[..., None] * near, factor[..., None] * (1 + width[..., None] * near),
                                    1 + (factor[..., None] - 1) * np.linspace(0, 1, 65)], -1), -1)
    typical = ndtr((nodes - 1) / width[..., None])
    slow = ndtr((nodes / factor[..., None] - 1) / width[..., None])
    with np.errstate(divide="ignore"):
        log_share = np.log((1 - share[..., None]) * typical + share[..., None] * slow)
        below = np.exp(np.maximum(units[..., None] * log_share, -745.0))
    return np.maximum(nodes[..., -1] - np.trapezoid(below, nodes, axis=-1), 1.0)[()]


def step_with_slow_gpu_seconds(step_seconds, microbatch_seconds, num_microbatches, pipeline_stages, virtual_stages, slow_factor):
    """Return the step time when one GPU is slow: T' = T + (s - 1) t_mb (m + (p - 1) / v): its replica's compute stretches, the rest waits.

    Parameters: step_seconds T [s]; microbatch_seconds t_mb [s] of one stage; num_microbatches m [1]; pipeline_stages p [1];
    virtual_stages v [1] chunks a stage; slow_factor s [1] >= 1. Returns: time [s]. Raises: InputError.
    Validity: one persistent slow GPU in a tensor-parallel group of a stage that all its micro-batches pass. Error: not validated.
    Source: critical path of an interleaved schedule.
    """
    step, one = positive("step_seconds", step_seconds), nonnegative("microbatch_seconds", microbatch_seconds)
    rounds = count("num_microbatches", num_microbatches) + (count("pipeline_stages", pipeline_stages) - 1) / count(
        "virtual_stages", virtual_stages)
    return (step + (number("slow_factor", slow_factor, 1.0) - 1) * one * rounds)[()]


def causes_slowdown(num_units, unit_fraction, slow_factor, time_fraction=1.0):
    """Return what each of several causes costs alone, and all together: parts per cause, and their combined slowdown.

    A cause is there with chance q = (1 - (1 - f)^n) x share of the time (1: persistent, below 1: passing); the step takes the largest factor
    of the causes present: sorted by factor, E = 1 + sum over levels of (s_k - s_(k-1)) P(some cause at or above level k).
    Parameters: num_units n [1] scalar; unit_fraction f, slow_factor s, time_fraction [1], arrays over causes.
    Returns: dict `alone` (array, slowdown - 1 of each) and `together` (slowdown - 1) [1]; together <= sum of alone. Raises: InputError.
    Validity: independent causes, one barrier a step. Error: 0.005 against sampled steps (tests). Source: maximum of two-point variables.
    """
    units = count("num_units", num_units)
    share, time = fraction("unit_fraction", unit_fraction), fraction("time_fraction", time_fraction)
    factor = number("slow_factor", slow_factor, 1.0)
    share, factor, time = np.broadcast_arrays(np.atleast_1d(share), factor, time)
    with np.errstate(divide="ignore"):
        present = -np.expm1(units * np.log1p(-share)) * time
    order = np.argsort(factor)
    # chance that no cause from this level up is there
    absent = np.cumprod((1 - present[order])[::-1])[::-1]
    rises = np.diff(np.concatenate([[1.0], factor[order]]))
    return {"alone": present * (factor - 1), "together": float((rises * (1 - absent)).sum())}


def band_rates(band_fraction, measurement_spread, slow_factor, repeats=1):
    """Return (false-reject, escape) rates of one test that rejects a unit slower than the known-good value by more than the band.

    The mean of r repeats is normal with deviation c / sqrt(r): false reject = P(healthy > 1 + b), escape = P(slow <= 1 + b).
    Parameters: band_fraction b [1] above the known-good time; measurement_spread c [1]; slow_factor s [1] as the test shows it (1: the test
    does not show it at all); repeats r [1]. Returns: pair of probabilities [1]. Raises: InputError.
    Validity: independent repeats, one-sided band. Error: exact for normal spread; 0.005 against samples (tests). Source: normal test theory.
    """
    band, spread = nonnegative("band_fraction", band_fraction), positive("measurement_spread", measurement_spread)
    factor, runs = number("slow_factor", slow_factor, 1.0), count("repeats", repeats)
    width = spread / np.sqrt(runs)
    return ndtr(-band / width)[()], ndtr((1 + band - factor) / (factor * width))[()]


def screening(slow_fraction, false_reject_rates, escape_rates):
    """Return what a chain of tests leaves: yield, false rejects, escapes and the slow share among the units put in service.

    A unit enters service when it passes every stage (node diagnostics, rack collectives, multi-rack runs over the back-end network).
    Parameters: slow_fraction [1] of the units received; false_reject_rates and escape_rates [1], last axis: stages in order.
    Returns: dict of probabilities [1]: pass_fraction (of the received), false_reject (of the healthy), escape (of the slow),
    slow_in_service (of the passed), after (array: slow share still inside after each stage). Raises: InputError.
    Validity: stages independent given the unit's state; a unit slow only under load has escape near 1 in the stages without load.
    Error: 0.005 against sampled units (tests). Source: Bayes' rule.
    """
    slow = fraction("slow_fraction", slow_fraction)
    reject, escape = fraction("false_reject_rates", false_reject_rates), fraction("escape_rates", escape_rates)
    reject, escape = np.broadcast_arrays(np.atleast_1d(reject), np.atleast_1d(escape))
    kept, missed = np.cumprod(1 - reject, -1), np.cumprod(escape, -1)
    good, bad = (1 - slow[..., None]) * kept, slow[..., None] * missed
    total = good + bad
    after = np.where(total > 0, bad / np.where(total > 0, total, 1.0), 0.0)
    return {"pass_fraction": total[..., -1][()], "false_reject": (1 - kept[..., -1])[()], "escape": missed[..., -1][()],
            "slow_in_service": after[..., -1][()], "after": after}


def units_to_buy(num_in_service, pass_fraction, confidence_fraction=0.5):
    """Return how many units to buy so that n pass with the confidence asked for: the least k with P(Binomial(k, p) >= n) >= confidence.

    Parameters: num_in_service n [1]; pass_fraction p [1] above 0; confidence_fraction [1] below 1. Returns: units [1], int.
    Raises: InputError. Validity: units pass independently; a batch fault breaks that. Error: exact (tests: sampled).
    Source: negative binomial distribution.
    """
    from scipy.stats import nbinom

    needed = count("num_in_service", num_in_service)
    share = fraction("pass_fraction", pass_fraction, zero=False)
    sure = fraction("confidence_fraction", confidence_fraction)
    if (sure >= 1).any():
        raise InputError("confidence_fraction", 1.0, "must be below 1")
    return (needed + nbinom.ppf(sure, needed, share).astype(np.int64))[()]


def band_for_false_reject(false_reject_rate, measurement_spread, repeats=1):
    """Return the band that rejects a healthy unit at the rate asked for: b = -c / sqrt(r) x z(rate).

    Parameters: false_reject_rate [1] in (0, 0.5]; measurement_spread c [1]; repeats r [1]. Returns: band [1]. Raises: InputError.
    Validity and Error: the inverse of `band_rates`. Source: normal quantile.
    """
    rate = number("false_reject_rate", false_reject_rate, high=0.5, above=0.0)
    return (-ndtri(rate) * positive("measurement_spread", measurement_spread) / np.sqrt(count("repeats", repeats)))[()]
