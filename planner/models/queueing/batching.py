"""Decode with in-flight batching: requests share the steps of one worker, a step takes longer the more of them run, and slots are limited."""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincinv, gammainccinv

from planner.errors import InputError
from planner.models.queueing.lengths import inside, lognormal_quantile, nodes, rate_of, scv_of
from planner.models.queueing.tails import _residual
from planner.models.queueing.waiting import _delay_factor, wait_moments
from planner.units import count, nonnegative, positive

NODES = 24


def step_table(intercept_seconds, slope_seconds, slots: int):
    """Return the step time at 1..B running requests: t(b) = a + s b, along a new last axis.

    Parameters: intercept_seconds a [s]; slope_seconds s [s] a request; slots B [1]. Returns: times [s], shape (..., B). Raises: InputError;
    0 slots are refused. Validity: as far as the line holds. Error: exact. Source: definition.
    """
    running = np.arange(1, int(count("slots", slots)) + 1)
    start, slope = nonnegative("intercept_seconds", intercept_seconds), nonnegative("slope_seconds", slope_seconds)
    return positive("step_seconds", start[..., None] + slope[..., None] * running)


def highest_rate_per_s(steps, step_seconds):
    """Return the rate that fills all slots: B / (L t(B)); a queue at this rate or above grows without end.

    Parameters: steps L [1] decode steps a request; step_seconds [s] at 1..B running, shape (..., B). Returns: rate [1/s].
    Raises: InputError. Validity: one worker. Error: exact. Source: Little's law.
    """
    table = _table(step_seconds)
    return (table.shape[-1] / (positive("steps", steps) * table[..., -1]))[()]


def tpot_seconds_mean_field(rate_per_s, steps, step_seconds):
    """Return the mean time per step, quickly: t = t(1 + rate L t), one's own request and the mean number of others, between table points.

    For t(b) = a + s b without a limit of slots this is the exact (a + s) / (1 - rate L s).
    Parameters: as `decode`, without the spread. Returns: [s]; infinite where more than B would run. Raises: InputError.
    Validity: as `decode`, far from the limit of slots. Error: 3 % of simulation up to 80 % load (tests). Source: product form, mean value.
    """
    table, rate = _table(step_seconds), rate_of("rate_per_s", rate_per_s)
    asked = (rate * positive("steps", steps))[..., None] * table
    running = np.arange(1, table.shape[-1] + 1)
    short = running - 1 - asked  # below 0 while fewer would run than the step allows
    enough = short >= 0
    at = np.argmax(enough, -1)[..., None]
    before = np.maximum(at - 1, 0)
    high, low = np.take_along_axis(short, at, -1), np.take_along_axis(short, before, -1)
    share = np.where(high > low, high / np.where(high > low, high - low, 1.0), 0.0)
    whole = np.broadcast_to(table, short.shape)
    found = np.take_along_axis(whole, at, -1) * (1 - share) + np.take_along_axis(whole, before, -1) * share
    return np.where(enough.any(-1), found[..., 0], np.inf)[()]


def occupancy(held, sharpness=1.0):
    """Return the chance of n = 0..B requests in the system, n = B standing for B or more, and the load when all slots are taken.

    Product form: p(n) ~ prod over k <= n of held(k) / k up to B, geometric beyond: a queue whose requests all advance alike is insensitive
    to their length law. Parameters: held [1], shape (..., B): rate x time one request would take with k in the system; sharpness [1], power
    of the weights, below 1 where the service itself fluctuates. Returns: (chances [1], shape (..., B + 1); load [1]); all mass at B where
    the load is 1 or more. Raises: InputError. Validity: Poisson arrivals; exact below B. Error: see `decode`.
    Source: Cohen (1979), processor sharing with a rate that depends on the number present.
    """
    asked, power = nonnegative("held", held), positive("sharpness", sharpness)[..., None]
    slots = asked.shape[-1]
    with np.errstate(divide="ignore"):
        steps = power * np.log(asked / np.arange(1, slots + 1))
    logs = np.concatenate([np.zeros((*steps.shape[:-1], 1)), np.cumsum(steps, -1)], -1)
    load = asked[..., -1] / slots
    stable = (load < 1)[..., None]
    with np.errstate(under="ignore"):
        weights = np.exp(logs - logs.max(-1, keepdims=True))
        ratio = np.where(stable, np.broadcast_to(load[..., None], stable.shape) ** power, 0.0)
        weights[..., -1:] = weights[..., -1:] / np.where(stable, 1 - ratio, 1.0)
    chances = weights / weights.sum(-1, keepdims=True)
    full = np.zeros_like(chances)
    full[..., -1] = 1.0
    return np.where(stable, chances, full), load[()]


def decode(rate_per_s, steps, steps_scv, step_seconds) -> dict:
    """Return the means of one decode worker with in-flight batching and B slots: number running, time per step, wait for a slot.

    Number in system by `occupancy`; mean step of a request = E[running] / (rate L) (Little's law); wait beyond B slots as in a queue of B
    workers of service time L t(B); a request that finds a free slot joins at the end of the running step.
    Parameters: rate_per_s [1/s] of one worker; steps L [1] mean decode steps a request (output tokens less the first, over tokens a
    step); steps_scv [1]; step_seconds [s], shape (..., B): step time at 1..B running. Returns: dict of arrays: running [1], tpot [s]
    a step, duration [s], slot_wait [s] mean over all, waits [1] chance to wait for a slot, join [s], load [1] of the full worker; infinite
    times at a load of 1 or more. Raises: InputError. Validity: Poisson arrivals, step time set by the number running.
    Error: running and tpot within 3 % of simulation, wait within 10 % (outputs/queueing_errors.csv). Source: product form; waiting.
    """
    rate, mean, scv, table, chances, load = _occupied(rate_per_s, steps, steps_scv, step_seconds)
    stable = load < 1
    running = (chances * np.arange(table.shape[-1] + 1)).sum(-1)
    tpot = np.where(rate > 0, running / np.where(rate > 0, rate * mean, 1.0), table[..., 0])
    waits, inner, _ = _slot_wait(chances, load, scv, mean * table[..., -1])
    join = (chances[..., 1:-1] * table[..., :-1]).sum(-1) / 2
    out = {"running": running, "tpot": tpot, "duration": tpot * mean, "slot_wait": waits * inner, "waits": waits, "join": join}
    out = {name: np.where(stable, v, np.inf if name not in ("running", "waits") else v)[()] for name, v in out.items()}
    return {**out, "load": np.asarray(load)[()]}


def tpot_quantile_seconds(rate_per_s, steps, steps_scv, step_seconds, quantile):
    """Return a quantile over requests of the mean time per step of a request.

    A request of x steps averages t(b) over its life: mean as in `decode`, variance that of t(b) per step times the share that x steps do not
    average out (others leave by the residual-life law of their length, slower by the feedback of the step time); between t(1) and t(B) as a
    beta law, mixed over the lengths. Parameters: as `decode`; quantile [1], broadcast. Returns: [s]; infinite at a load of 1 or more.
    Raises: InputError. Validity: as `decode`. Error: p99 within 10 % of simulation (same table). Source: linear noise about product form.
    """
    rate, mean, scv, table, chances, load = _occupied(rate_per_s, steps, steps_scv, step_seconds)
    centre, variance, slow = _step_moments(chances, table, rate * mean)
    lives, weights = _lives(scv)
    spread = variance[..., None] * averaged(lives * slow[..., None], scv[..., None])
    found = beta_mixture_quantile(weights, centre[..., None], spread, table[..., :1], table[..., -1:], quantile)
    return np.where(np.asarray(load) < 1, found, np.inf)[()]


def decode_nodes_seconds(rate_per_s, steps, steps_scv, step_seconds):
    """Return 1,024 equally likely values of the time from handing over a prompt to its last token, along a new last axis: for sums.

    Wait for a slot or for the running step to end, and x steps of the law of `tpot_quantile_seconds`, on a rank-one lattice of the three.
    Parameters: as `decode`. Returns: values [s]; infinite at a load of 1 or more. Raises: InputError. Validity: as `decode`.
    Error: p99 within 10 % of simulation (same table). Source: as there.
    """
    number, tpot, wait, stable = _parts(rate_per_s, steps, steps_scv, step_seconds)
    return np.where(stable, number * tpot + wait, np.inf)


def tpot_nodes_seconds(rate_per_s, steps, steps_scv, step_seconds):
    """Return 1,024 values of the time per step as a client counts it, from hand-over to last token over the steps, along a new last axis.

    Parameters: as `decode`. Returns: values [s]; infinite at a load of 1 or more. Raises: InputError. Validity: as `decode`.
    Error: mean within 5 %, p99 within 10 % of simulation (same table, disaggregated). Source: as `decode_nodes_seconds`.
    """
    number, tpot, wait, stable = _parts(rate_per_s, steps, steps_scv, step_seconds)
    return np.where(stable, tpot + wait / np.maximum(number, 1.0), np.inf)


def _parts(rate_per_s, steps, steps_scv, step_seconds):
    """Return, on a lattice, steps of a request, its time per step and its wait before the first; and whether the load is below 1."""
    rate, mean, scv, table, chances, load = _occupied(rate_per_s, steps, steps_scv, step_seconds)
    centre, variance, slow = _step_moments(chances, table, rate * mean)
    long, even, turn = lattice()
    lives = np.maximum(lognormal_quantile(1.0, scv[..., None], long), 1 / mean[..., None])
    noise = variance[..., None] * averaged(lives * slow[..., None], scv[..., None])
    tpot = _beta_quantile(centre[..., None], noise, table[..., :1], table[..., -1:], even)
    waits, inner, square = _slot_wait(chances, load, scv, mean * table[..., -1])
    join = (chances[..., 1:-1] * table[..., :-1]).sum(-1) / 2
    return lives * mean[..., None], tpot, _atom_gamma(waits, inner, square, turn, join), (np.asarray(load) < 1)[..., None]


def lattice(num_nodes: int = 1024):
    """Return three arrays of levels in 0..1 that fill the cube evenly, the first in order: nodes for sums of three independent times.

    Parameters: num_nodes [1]. Returns: three arrays [1]. Raises: InputError. Validity: any. Error: 1 % at p99 (tests). Source: a rank-one
    lattice on the powers of the plastic number.
    """
    i = np.arange(int(count("num_nodes", num_nodes))) + 0.5
    plastic = 1.324717957244746
    return i / num_nodes, (i / plastic) % 1, (i / plastic**2) % 1


def _atom_gamma(chance, mean, variance, levels, atom):
    """Return quantiles of a time that is `atom` but for a chance of a gamma law."""
    finite = np.isfinite(mean)
    m, v = np.where(finite, mean, 1.0)[..., None], np.maximum(np.where(finite, variance, 1.0), 1e-300)[..., None]
    late = np.minimum((1 - levels) / np.maximum(np.asarray(chance)[..., None], 1e-12), 1.0)
    return np.where(late < 1, gammainccinv(m**2 / v, late) * v / m, np.asarray(atom)[..., None])


def _beta_quantile(mean, variance, low, high, levels):
    """Return quantiles of a beta law on low..high; the mean where the width is 0."""
    a, b, width = _beta(mean, variance, low, high)
    return np.where(width > 0, low + width * betaincinv(a, b, levels), mean)


def averaged(lives, scv):
    """Return the share of a variance left after averaging over y mean lives: g(y) = 2 int (1 - u) (1 - Fe(u y)) du over 0..1.

    Fe is the residual life of the lognormal lengths of the others. Parameters: lives y [1]; scv [1]; broadcast. Returns: share [1].
    Raises: InputError. Validity: others come and go independently. Error: 1e-3 of the closed form 2/3 at y = 1, scv 0 (tests).
    Source: variance of a time average.
    """
    u = (np.arange(48) + 0.5) / 48
    return (2 * (1 - u) * _residual(positive("lives", lives)[..., None] * u, scv_of("scv", scv)[..., None])).mean(-1)


def beta_mixture_quantile(weights, mean, variance, low, high, quantile):
    """Return a quantile of a mixture of beta laws on low..high, by bisection.

    Parameters: weights [1], mean [s], variance [s^2], low, high [s], mixed along the last axis; quantile [1], shape of the rest.
    Returns: [s]. Raises: InputError. Validity: any. Error: 1e-9 of the width. Source: definition.
    """
    level = inside("quantile", quantile)
    a, b, width = _beta(mean, variance, low, high)
    under, over = np.zeros(np.broadcast_shapes(a.shape[:-1], level.shape)), np.ones(np.broadcast_shapes(a.shape[:-1], level.shape))
    for _ in range(40):
        middle = (under + over) / 2
        less = (weights * betainc(a, b, middle[..., None])).sum(-1) < level
        under, over = np.where(less, middle, under), np.where(less, over, middle)
    flat = (weights * np.broadcast_to(mean, a.shape)).sum(-1)
    return np.where(width[..., 0] > 0, np.asarray(low)[..., 0] + width[..., 0] * (under + over) / 2, flat)[()]


def _beta(mean, variance, low, high):
    """Return both parameters of a beta law on low..high with this mean and variance, and the width; harmless ones where it is 0."""
    mean, variance, low, high = np.broadcast_arrays(mean, variance, low, high)
    width = high - low
    wide = np.where(width > 0, width, 1.0)
    centre = np.clip((mean - low) / wide, 1e-6, 1 - 1e-6)
    noise = np.clip(variance / wide**2, 1e-12, 0.95 * centre * (1 - centre))
    scale = centre * (1 - centre) / noise - 1
    return centre * scale, (1 - centre) * scale, width


def _table(step_seconds):
    table = positive("step_seconds", step_seconds)
    if table.ndim == 0 or table.shape[-1] == 0:
        raise InputError("step_seconds", step_seconds, "must hold the step time at 1..B running requests along its last axis, B at least 1")
    return table


def _occupied(rate_per_s, steps, steps_scv, step_seconds):
    """Return the checked arguments, broadcast, with the chances of 0..B and the load of the full worker."""
    table = _table(step_seconds)
    rate, mean, scv = rate_of("rate_per_s", rate_per_s), positive("steps", steps), scv_of("steps_scv", steps_scv)
    shape = np.broadcast_shapes(rate.shape, mean.shape, scv.shape, table.shape[:-1])
    rate, mean, scv = (np.broadcast_to(v, shape) for v in (rate, mean, scv))
    table = np.broadcast_to(table, (*shape, table.shape[-1]))
    chances, load = occupancy((rate * mean)[..., None] * table)
    return rate, mean, scv, table, chances, load


def _step_moments(chances, table, work):
    """Return mean and variance of t(b) over steps of requests, and how much slower than lives the number running changes."""
    running, slots = np.arange(1, table.shape[-1] + 1), table.shape[-1]
    share = chances[..., 1:] * running / table
    total = share.sum(-1, keepdims=True)
    share = np.where(total > 0, share / np.where(total > 0, total, 1.0), (running == 1).astype(float))
    mean = (share * table).sum(-1)
    variance = (share * (table - mean[..., None]) ** 2).sum(-1)
    at = np.clip(np.rint((chances[..., 1:] * running).sum(-1)), 1, slots).astype(int)
    lower, upper = np.maximum(at - 1, 1), np.minimum(at + 1, slots)
    pick = lambda i: np.take_along_axis(table, (i - 1)[..., None], -1)[..., 0]  # noqa: E731
    slope = (pick(upper) - pick(lower)) / np.maximum(upper - lower, 1)
    return mean, variance, np.maximum(1 - at * slope / pick(at), 0.02)


def _lives(scv):
    """Return lives in mean lives along a new last axis, and their weights."""
    z, weights = nodes(NODES)
    spread = np.sqrt(np.log1p(scv))[..., None]
    return np.maximum(np.exp(spread * z - spread**2 / 2), 1e-3), weights


def _slot_wait(chances, load, scv, service):
    """Return the chance to wait for a slot, and mean and variance of the wait of those who do [s]."""
    slots = chances.shape[-1] - 1
    low = np.minimum(load, 1 - 1e-9)
    _, mean, variance = wait_moments(low, slots, scv)
    waits = np.minimum(chances[..., -1] * np.where(np.asarray(load) < 1, _delay_factor(low, slots, scv), 1.0), 1.0)
    stable = np.asarray(load) < 1
    return waits, np.where(stable, mean * service, np.inf), np.where(stable, variance * service**2, np.inf)
