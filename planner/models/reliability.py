"""Failures of a synchronous job: how often it stops, what share of the time it moves forward, and the best checkpoint interval."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, pdtr

from planner.errors import InputError
from planner.units import count, fraction, nonnegative, positive


def failure_rate_per_second(num_gpus, node_rate_per_second, gpus_per_node=8, job_rate_per_second=0.0):
    """Return the interruption rate of a job: rate = node_rate x n / gpus_per_node + job_rate.

    The second term does not grow with the job (operators, software of the job, the scheduler): without it one law fits small jobs or
    large ones, never both. Parameters: num_gpus [1]; node_rate_per_second [1/s] of one node; gpus_per_node [1]; job_rate_per_second [1/s].
    Returns: rate [1/s], broadcast shape. Raises: InputError outside the ranges.
    Validity: constant rates, any node stops the job. Error: 2 % of the job MTTF published for 8 and for 16,384 GPUs
    (data/references/reliability.csv). Source: arXiv 2410.21680.
    """
    gpus, node = count("num_gpus", num_gpus), nonnegative("node_rate_per_second", node_rate_per_second)
    per_node, job = count("gpus_per_node", gpus_per_node), nonnegative("job_rate_per_second", job_rate_per_second)
    return (node * gpus / per_node + job)[()]


def mttf_seconds(rate_per_second):
    """Return the mean time between interruptions: M = 1 / rate.

    Parameters: rate_per_second [1/s] of the whole job. Returns: time [s]. Raises: InputError for a rate of 0 or below.
    Validity: constant rate. Error: exact by definition. Source: exponential distribution.
    """
    return (1.0 / positive("rate_per_second", rate_per_second))[()]


def interruptions(rate_per_second, seconds):
    """Return the expected interruptions in a time: n = rate x t; the 10th to 90th percentile is Poisson's.

    Parameters: rate_per_second [1/s]; seconds [s]. Returns: count [1], not rounded. Raises: InputError for negative values.
    Validity: constant rate, planned stops not counted. Error: exact for the run the rate is from. Source: Poisson process.
    """
    return (nonnegative("rate_per_second", rate_per_second) * nonnegative("seconds", seconds))[()]


def restart_success(restart_seconds, mttf, weights=1.0):
    """Return the chance that a restart ends before the next failure: p = E[exp(-R / M)].

    Parameters: restart_seconds [s] and weights [1] (sum 1) along the last axis where the restart is one of several (spare at hand, spare to
    be waited for), or scalars; mttf [s] of the whole job, without that axis. Returns: probability [1]. Raises: InputError.
    Validity: each failure draws its restart anew, and failures go on during it. Error: exact. Source: memoryless failures.
    """
    restart, share = nonnegative("restart_seconds", restart_seconds), nonnegative("weights", weights)
    mean = positive("mttf", mttf)
    if restart.ndim == 0 or share.ndim == 0:
        return np.exp(-restart / mean)[()]
    if not np.allclose(share.sum(-1), 1):
        raise InputError("weights", float(share.sum(-1).flat[0]), "must sum to 1")
    return (np.exp(-restart / mean[..., None]) * share).sum(-1)[()]


def goodput_fraction(mttf, interval_seconds, write_seconds, restart_seconds, lag_seconds=0.0):
    """Return the share of the time that ends in kept work, exactly: G = t / (M exp((R + L) / M) (exp((t + w) / M) - 1)).

    t useful seconds between checkpoints; w the stall each one costs; R from the failure to the first new step (detection, replacement,
    start, reading); L how long after its stall a checkpoint is durable (asynchronous writes; L <= t + w, else it is never the newest).
    Parameters: mttf M [s]; interval_seconds t [s]; write_seconds w [s]; restart_seconds R [s]; lag_seconds L [s]; all broadcast.
    Returns: fraction [1], above 0 and below 1 (it may underflow to 0). Raises: InputError for an interval or M of 0, a negative time, or a
    lag above interval + write (the writes never catch up).
    Validity: constant failure rate, failures during restart and write too. Error: within 0.01 of the event simulation at 72 to 131,072 GPUs
    (tests). Source: renewal argument; docs of this function: from each restart a state chain in which a snapshot counts after L.
    """
    mean, work = positive("mttf", mttf), positive("interval_seconds", interval_seconds)
    write, restart = nonnegative("write_seconds", write_seconds), nonnegative("restart_seconds", restart_seconds)
    lag = nonnegative("lag_seconds", lag_seconds)
    late = lag > (work + write) * (1 + 1e-12)
    if np.any(late):
        worst = float(np.broadcast_to(lag, late.shape)[late].flat[0]) if late.ndim else float(lag)
        raise InputError("lag_seconds", worst, "must be at most interval + write: a checkpoint must be durable before the next one starts")
    cycle = (work + write) / mean
    # 1 / (exp(c) - 1) written so that long cycles underflow to 0 and do not overflow
    with np.errstate(under="ignore"):
        return (work / mean * np.exp(-(restart + lag + work + write) / mean) / -np.expm1(-cycle))[()]


def goodput_fraction_first_order(mttf, interval_seconds, write_seconds, restart_seconds):
    """Return the common first-order estimate, the baseline to beat: G = 1 - w / t - (t / 2 + R) / M.

    Parameters: as `goodput_fraction`. Returns: fraction [1], negative where the order is wrong. Raises: InputError.
    Validity: t, w and R far below M. Error: not validated; off by more than 0.05 above about 30,000 GPUs and negative soon after.
    Source: Young (1974), Daly (2006), first order.
    """
    mean, work = positive("mttf", mttf), positive("interval_seconds", interval_seconds)
    write, restart = nonnegative("write_seconds", write_seconds), nonnegative("restart_seconds", restart_seconds)
    return (1 - write / work - (work / 2 + restart) / mean)[()]


def lost_fractions(mttf, interval_seconds, write_seconds, restart_seconds, lag_seconds=0.0) -> dict:
    """Return where the time goes: goodput, checkpoint stalls, lost work, restarts; the parts sum to 1.

    Stalls of kept checkpoints = G w / t; restarts = the share spent from failure to first step = 1 - exp(-R / M); lost work = the rest.
    Parameters: as `goodput_fraction`. Returns: ordered dict of fractions [1]. Raises: InputError.
    Validity and Error: as `goodput_fraction`. Source: the same renewal argument.
    """
    good = goodput_fraction(mttf, interval_seconds, write_seconds, restart_seconds, lag_seconds)
    stalls = good * np.asarray(write_seconds, float) / np.asarray(interval_seconds, float)
    restarts = -np.expm1(-np.asarray(restart_seconds, float) / np.asarray(mttf, float))
    lost = np.maximum(1 - good - stalls - restarts, 0.0)
    return {"goodput": good, "checkpoint_stalls": stalls, "lost_work": lost, "restarts": restarts}


def best_interval_seconds(mttf, write_seconds):
    """Return the interval with the highest goodput: the root of 1 - exp(-(t + w) / M) = t / M, by Newton's method.

    Parameters: mttf M [s]; write_seconds w [s]. Returns: useful seconds between checkpoints [s]; 0 where w is 0. Raises: InputError.
    Validity: as `goodput_fraction`; restart and lag do not move the optimum (while the lag fits into the interval).
    Error: the goodput is flat there: within 1e-9 of the highest on a grid (tests). Source: derivative of `goodput_fraction`.
    """
    mean, write = positive("mttf", mttf), nonnegative("write_seconds", write_seconds)
    x = write / mean
    y = np.minimum(np.sqrt(2 * x), 1.0)
    for _ in range(30):  # concave and falling right of the root: Newton comes down from above, quadratically
        slope = np.expm1(-(y + x))
        y = np.where(x > 0, y - (-np.expm1(-(y + x)) - y) / np.where(slope < 0, slope, -1.0), 0.0)
    return (y * mean)[()]


def interval_seconds_first_order(mttf, write_seconds):
    """Return the classic first-order interval: t = sqrt(2 w M), the baseline.

    Parameters: mttf M [s]; write_seconds w [s]. Returns: interval [s]. Raises: InputError. Validity: w far below M.
    Error: 289 s for 30 s and 23.2 min, 7 % above the exact 269 s (tests). Source: Young (1974).
    """
    return np.sqrt(2 * nonnegative("write_seconds", write_seconds) * positive("mttf", mttf))[()]


def spare_availability(num_nodes, node_rate_per_second, repair_seconds, spares):
    """Return the share of the time in which enough nodes are healthy: P(N <= spares), N Poisson with mean rate x nodes x repair time.

    Parameters: num_nodes [1] in the job; node_rate_per_second [1/s]; repair_seconds [s] out of service; spares [1] hot spares.
    Returns: probability [1]. Raises: InputError. Validity: repairs go on at the same time; M/G/infinity, any repair-time distribution with
    that mean. Error: within 0.01 of the event simulation (tests). Source: Palm's theorem.
    """
    mean = count("num_nodes", num_nodes) * nonnegative("node_rate_per_second", node_rate_per_second) * nonnegative(
        "repair_seconds", repair_seconds)
    return pdtr(count("spares", spares, 0), mean)[()]


def spares_needed(num_nodes, node_rate_per_second, repair_seconds, availability_fraction):
    """Return the fewest hot spares with `spare_availability` >= the share asked for.

    Parameters: as `spare_availability`; availability_fraction [1] below 1. Returns: spares [1], int. Raises: InputError.
    Validity and Error: as `spare_availability`. Source: as there.
    """
    mean = count("num_nodes", num_nodes) * nonnegative("node_rate_per_second", node_rate_per_second) * nonnegative(
        "repair_seconds", repair_seconds)
    wanted = fraction("availability_fraction", availability_fraction)
    if (wanted >= 1).any():
        raise InputError("availability_fraction", 1.0, "must be below 1: no number of spares is always enough")
    top = int(np.max(mean) + 40 * np.sqrt(np.max(mean)) + 60)
    ladder = np.arange(top + 1)
    reached = np.cumsum(np.exp(ladder * np.log(np.maximum(mean, 1e-300))[..., None] - mean[..., None] - gammaln(ladder + 1)), -1)
    return np.argmax(reached >= wanted[..., None] - 1e-13, -1)[()]


def waiting_fraction(num_nodes, node_rate_per_second, repair_seconds, spares):
    """Return the share of the time a job stands still for want of a healthy node: Erlang's B(k + 1, a), a = rate x nodes x repair.

    k spares cover k nodes in repair; with k + 1 in repair the job waits for the first to come back, and nothing fails meanwhile: the chain of
    nodes in repair, cut at k + 1. A job keeps 1 - B of the goodput it would have with spares without end.
    Parameters: num_nodes [1] in the job; node_rate_per_second [1/s]; repair_seconds [s] mean; spares k [1]. Returns: fraction [1].
    Raises: InputError. Validity: any distribution of the repair time. Error: within 0.01 of the walked pool (tests).
    Source: Erlang's loss formula.
    """
    mean = count("num_nodes", num_nodes) * nonnegative("node_rate_per_second", node_rate_per_second) * nonnegative(
        "repair_seconds", repair_seconds)
    top = count("spares", spares, 0) + 1
    log_mean = np.log(np.maximum(mean, 1e-300))
    return (np.exp(top * log_mean - mean - gammaln(top + 1)) / pdtr(top, mean))[()]


def goodput_simulated(rng, failure_seconds, interval_seconds, write_seconds, restart_seconds, lag_seconds=0.0) -> float:
    """Return the share of kept work of one job walked event by event: the oracle of `goodput_fraction`.

    It knows no formula: the clock runs from failure to failure; work, stalls, snapshots, their durability and restarts are events.
    Parameters: rng, numpy Generator for the restart draws; failure_seconds [s] sorted times of the failures of all nodes;
    interval_seconds, write_seconds, lag_seconds [s] scalars; restart_seconds [s] scalar or array of equally likely restarts.
    Returns: fraction [1] of the last failure's time. Raises: InputError for unsorted times.
    Validity: any failure process, not only a constant rate. Error: the sampling error of the events given. Source: direct simulation.
    """
    times = nonnegative("failure_seconds", failure_seconds)
    if times.ndim != 1 or len(times) < 2 or (np.diff(times) < 0).any():
        raise InputError("failure_seconds", times.tolist()[:3], "must be a sorted list of at least two times")
    choices = np.atleast_1d(nonnegative("restart_seconds", restart_seconds))
    draws = choices[rng.integers(len(choices), size=len(times) + 1)]
    clock, durable = float(draws[-1]), 0.0  # the first start takes as long as a restart
    for index, failure in enumerate(times):
        position, pending = durable, []  # snapshots not yet durable: (time they will be, position)
        while clock < failure:
            clock += interval_seconds
            if clock > failure:
                break
            position += interval_seconds
            clock += write_seconds
            if clock <= failure:
                pending.append((clock + lag_seconds, position))
        durable = max([durable, *(p for when, p in pending if when <= failure)])
        clock = max(failure, 0.0) + float(draws[index])
    return durable / float(times[-1])


def failure_times(rng, num_nodes: int, node_rate_per_second: float, seconds: float, job_rate_per_second: float = 0.0):
    """Return the sorted times at which any node, or the job itself, fails in a stretch of time.

    Parameters: rng, numpy Generator; num_nodes [1]; node_rate_per_second and job_rate_per_second [1/s]; seconds [s].
    Returns: times [s], ndarray. Raises: InputError. Validity: each node an independent Poisson process, failed nodes replaced.
    Error: exact in distribution. Source: order statistics of a Poisson process.
    """
    nodes = int(count("num_nodes", num_nodes))
    node, span = float(nonnegative("node_rate_per_second", node_rate_per_second)), float(positive("seconds", seconds))
    each = rng.poisson(node * span, nodes)  # one draw a node, then uniform times: the process node by node
    job = rng.poisson(float(nonnegative("job_rate_per_second", job_rate_per_second)) * span)
    return np.sort(rng.uniform(0.0, span, int(each.sum() + job)))
