"""One step of reinforcement learning: rollout, reward, log-probabilities, training, weight sync, checkpoint; together or on two pools."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from planner.errors import Infeasible, InputError
from planner.units import count, nonnegative, number, positive

PHASES = ("rollout", "reward", "logprobs", "train", "weight_sync", "checkpoint")


def longest_tokens(num_responses, mean_tokens, spread, cap_tokens=np.inf):
    """Return the mean of the longest of n responses: E = integral of (1 - F^n) up to the cap, F lognormal with this mean and spread.

    Parameters: num_responses n [1]; mean_tokens [token] before the cap; spread [1] coefficient of variation; cap_tokens [token] at which
    responses are cut; broadcast. Returns: tokens [token], at most the cap. Raises: InputError.
    Validity: independent lengths; a lognormal tail. Error: 2 % against samples (tests). Source: order statistics.
    """
    units = count("num_responses", num_responses).astype(float)
    mean, cv = positive("mean_tokens", mean_tokens), np.maximum(nonnegative("spread", spread), 1e-6)
    cap = np.asarray(cap_tokens, float)
    if np.isnan(cap).any() or (cap <= 0).any():
        raise InputError("cap_tokens", cap_tokens, "must be > 0")
    units, mean, cv, cap = np.broadcast_arrays(units, mean, cv, cap)
    sigma = np.sqrt(np.log1p(cv**2))
    z = np.linspace(-9.0, 9.0, 1801)
    tokens = np.minimum(np.exp(np.log(mean)[..., None] - sigma[..., None] ** 2 / 2 + sigma[..., None] * z), cap[..., None])
    below = ndtr(z) ** units[..., None]
    middle = (tokens[..., 1:] + tokens[..., :-1]) / 2
    return (middle * np.diff(below, axis=-1)).sum(-1)[()]


def rollout_seconds(total_tokens, pool_tokens_per_s, longest, seconds_per_token):
    """Return (lower, upper) of the rollout: lower = max(tokens / rate, longest x time per token), upper = their sum.

    The pool is busy until its queue drains, then the longest responses run out alone; how much of the two overlaps depends on the order.
    Parameters: total_tokens [token] generated in the step; pool_tokens_per_s [1/s] of the whole pool at full load; longest [token];
    seconds_per_token [s] of one sequence. Returns: pair of seconds [s]. Raises: InputError.
    Validity: all prompts known at the start. Error: both bounds hold for every simulated schedule (tests). Source: list scheduling.
    """
    work = nonnegative("total_tokens", total_tokens) / positive("pool_tokens_per_s", pool_tokens_per_s)
    tail = nonnegative("longest", longest) * nonnegative("seconds_per_token", seconds_per_token)
    return np.maximum(work, tail)[()], (work + tail)[()]


def forward_seconds(total_tokens, flops_per_token, num_gpus, flops_per_s_per_gpu):
    """Return the time of one forward pass over tokens (log-probabilities, a reward model): t = tokens x FLOP / (GPUs x rate).

    Parameters: total_tokens [token]; flops_per_token [FLOP/token]; num_gpus [1]; flops_per_s_per_gpu [FLOP/s] reached. Returns: time [s].
    Raises: InputError. Validity: compute-bound batches. Error: not validated alone. Source: definition.
    """
    rate = count("num_gpus", num_gpus) * positive("flops_per_s_per_gpu", flops_per_s_per_gpu)
    return (nonnegative("total_tokens", total_tokens) * nonnegative("flops_per_token", flops_per_token) / rate)[()]


def weight_sync_seconds(weight_bytes, fixed_seconds, bytes_per_s):
    """Return the time to bring new weights into one inference instance: t = t0 + bytes / rate; instances go at the same time.

    Parameters: weight_bytes [B] of one full copy; fixed_seconds t0 [s]; bytes_per_s [B/s] per instance. Returns: time [s].
    Raises: InputError. Validity: 8 to 16 GPUs an instance, broadcast or point to point. Error: 18 % (largest) of the eight published updates
    fitted together (calibration.rl). Source: published update times.
    """
    return (nonnegative("fixed_seconds", fixed_seconds) + nonnegative("weight_bytes", weight_bytes) / positive("bytes_per_s", bytes_per_s))[()]


def synchronous_seconds(phases: dict):
    """Return the step when the phases follow each other: the sum of rollout, reward, logprobs, train, weight_sync, checkpoint.

    Parameters: phases, name of `PHASES` -> [s]; absent ones are 0. Returns: time [s]. Raises: InputError for another name.
    Validity: one pool that does all phases. Error: exact by definition; see calibration.rl for published steps. Source: definition.
    """
    for name in phases:
        if name not in PHASES:
            raise InputError(f"phases.{name}", phases[name], f"must be one of {', '.join(PHASES)}")
    return sum(nonnegative(f"phases.{name}", value) for name, value in phases.items())[()]


def asynchronous_seconds(rollout, train_side, weight_sync, staleness=1):
    """Return the step of two pools: max(rollout, training side) + weight sync; with staleness 0 they wait for each other: the sum.

    Parameters: rollout [s] on its pool; train_side [s] reward, log-probabilities, training and checkpoint on the other; weight_sync [s];
    staleness [1] how many updates old a sample may be. Returns: time [s]. Raises: InputError.
    Validity: steady state, staleness of at least 1 hides the shorter side wholly. Error: the simulated pipeline within 1 % (tests).
    Source: two-stage pipeline.
    """
    one, other = nonnegative("rollout", rollout), nonnegative("train_side", train_side)
    stale = count("staleness", staleness, 0)
    return (np.where(stale > 0, np.maximum(one, other), one + other) + nonnegative("weight_sync", weight_sync))[()]


def split_seconds(total_gpus: int, rollout_work: float, rollout_tail: float, train_work: float, train_fixed: float, weight_sync: float,
                  unit_gpus: int = 8) -> dict:
    """Return both ways of using n GPUs: together, and the best split into two pools, with what one more unit in each pool would give.

    Rollout on g GPUs takes max(work / g, tail), the training side work / g + fixed. Together: sum of both on all GPUs + sync. Split: the
    whole-unit split with the shortest step; a small cluster split can be slower than one shared.
    Parameters: total_gpus [1]; rollout_work and train_work [GPU s]; rollout_tail [s], time of the longest response; train_fixed [s];
    weight_sync [s]; unit_gpus [1] smallest share. Returns: dict: synchronous [s], asynchronous [s], rollout_gpus, train_gpus [1],
    grow (`rollout` or `train`, the pool whose next unit helps more), gain_rollout and gain_train [s]. Raises: InputError; Infeasible where
    the GPUs do not make two units.
    Validity: samples may be one update old; both sides scale with GPUs down to their floors. Error: the best of all splits (tests).
    Source: definitions above.
    """
    gpus, unit = int(count("total_gpus", total_gpus)), int(count("unit_gpus", unit_gpus))
    if gpus < 2 * unit:
        raise Infeasible("pools", f"{gpus} GPUs do not make two pools of at least {unit}", f"at least {2 * unit} GPUs, or one shared pool")
    work, tail = float(nonnegative("rollout_work", rollout_work)), float(nonnegative("rollout_tail", rollout_tail))
    train, fixed = float(nonnegative("train_work", train_work)), float(nonnegative("train_fixed", train_fixed))
    sync = float(nonnegative("weight_sync", weight_sync))

    def step(one, other):
        return max(max(work / one, tail), train / other + fixed) + sync

    together = max(work / gpus, tail) + train / gpus + fixed + sync
    shares = range(unit, gpus - unit + 1, unit)
    best = min(shares, key=lambda g: (step(g, gpus - g), g))
    now = step(best, gpus - best)
    gains = {"rollout": now - step(best + unit, gpus - best), "train": now - step(best, gpus - best + unit)}
    return {"synchronous": together, "asynchronous": now, "rollout_gpus": best, "train_gpus": gpus - best,
            "grow": max(gains, key=lambda k: gains[k]), "gain_rollout": gains["rollout"], "gain_train": gains["train"]}


def speedup_of_joining(work_gpu_seconds, tail_seconds, gpus, more_gpus):
    """Return how much faster a synchronous step gets on more GPUs: (w / n + t) / (w / n' + t): the tail does not shrink.

    Parameters: work_gpu_seconds w [GPU s] that divides; tail_seconds t [s] that does not (longest response, sync, fixed); gpus n and
    more_gpus n' [1]. Returns: ratio [1], at most n' / n. Raises: InputError. Validity: Amdahl's law for one step.
    Error: published doublings gave 1.09 to 1.27, and one was slower (0.83). Source: Amdahl; checkpoint_rl.csv C044-C059.
    """
    work, tail = nonnegative("work_gpu_seconds", work_gpu_seconds), nonnegative("tail_seconds", tail_seconds)
    few, many = count("gpus", gpus), count("more_gpus", more_gpus)
    below = work / many + tail
    return (number("step", (work / few + tail), above=0.0) / below)[()]
