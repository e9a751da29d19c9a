"""What a pool serves inside its limits: aggregated or with a prefill pool of its own, the batch as large as memory, latency and engine allow."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache

import numpy as np

from planner.models.serving.amounts import Terms
from planner.models.serving.step import Efficiency, Rates, prompt_seconds, step_seconds


@dataclass(frozen=True)
class Effort:
    """Where the batch is looked for: grid, sequences a rank at which the step time is sampled before the largest batch is solved for; fractions of
    that batch, where a prompt's own wait may bind first; near, around the best of those, then around the best of these [1]."""

    grid: np.ndarray
    fractions: np.ndarray
    near: tuple[np.ndarray, ...]


FINE = Effort(np.geomspace(1.0, 8192.0, 14), 1.5 ** -np.arange(9.0), tuple(r ** np.linspace(-1, 1, n) for r, n in ((1.5, 9), (1.107, 7), (1.034, 7))))
SMOOTH = Effort(FINE.grid, FINE.fractions, FINE.near[:1])  # for fits
COARSE = Effort(np.geomspace(1.0, 8192.0, 8), 2.0 ** -np.arange(5.0), tuple(r ** np.linspace(-1, 1, 5) for r in (2.0, 1.3)))  # for many draws
GROUP = 8.0  # prompts prefilled together when a worker is busy
LIMITS = ("TPOT", "KV cache", "engine batch", "TTFT", "prefill")


@dataclass(frozen=True)
class Demand:
    """What one request asks and how it may be served; scalars, or arrays that broadcast with the candidates (a trailing axis for the batch).

    prompt_tokens [token] that no cache holds; output_tokens [token]; ttft_seconds, tpot_seconds, e2e_seconds [s] limits, infinite without
    one; tokens_per_step [1] and drafts [token] of speculative decoding; tail [1], p99 of a prompt's own time over its
    mean; scv [1] of that time; headroom [1], the mean TPOT that may be run over its limit; slowdown [1], time over what the parts say;
    transfer_seconds [s] of a prompt's cache between two pools; quantile [1] at which the limits hold;
    load [1], share of the highest rate at which TPOT and TTFT are stated.
    """

    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    ttft_seconds: np.ndarray
    tpot_seconds: np.ndarray
    e2e_seconds: np.ndarray
    tokens_per_step: np.ndarray = 1.0
    drafts: np.ndarray = 0.0
    tail: np.ndarray = 1.0
    scv: np.ndarray = 0.0
    headroom: np.ndarray = 1.0
    slowdown: np.ndarray = 1.0
    transfer_seconds: np.ndarray = 0.0
    quantile: float = 0.99
    load: np.ndarray = 1.0


@dataclass(frozen=True)
class Served:
    """What candidates reach, (..., fractions of the largest batch): per_gpu [1/s] output tokens per deployed GPU; batch [1] sequences of a decode
    replica; tpot, ttft [s] (ttft: the quantile of the limits); prefill_fraction [1] of the GPUs' time; limit, index into
    `LIMITS`. per_gpu is 0 where no batch meets the limits."""

    per_gpu: np.ndarray
    batch: np.ndarray
    tpot: np.ndarray
    ttft: np.ndarray
    prefill_fraction: np.ndarray
    limit: np.ndarray


@cache
def _loads(quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """Shares of capacity and the log of ln(share / missed) / (1 - share), what the wait is over its scale."""
    missed = 1 - quantile
    shares = np.r_[missed * 1.02 + (0.9 - missed * 1.02) * np.linspace(0, 1, 250), 1 - np.geomspace(0.1, 1e-4, 100)[1:]]
    shares = shares[(shares > missed) & (np.diff(shares, prepend=0) > 0)]
    return shares, np.log(np.log(shares / missed) / (1 - shares))


def highest_share(room_seconds, service_seconds, workers, scv, soft=0.0, quantile=0.99):
    """Return the share of capacity that workers may be loaded to while a share 1 - quantile of requests waits longer than `room`: the root of
    ln(rho / (1 - quantile)) S (1 + scv) / (2 c (1 - rho)) = room.

    Parameters: room_seconds, service_seconds S [s], workers c [1], scv [1] of the service time, broadcast; quantile [1]; soft [1], what is
    left of the smallest share without room, falling over one service time (a fit needs a slope there). Returns: share rho [1], 0 without room.
    Raises: nothing. Validity: Poisson arrivals, exponential tail of the wait. Error: p99 within 10 % of simulation from 30 to 95 % load for
    one worker (outputs/queueing_errors.csv). Source: heavy-traffic M/G/c, Kingman's form.
    """
    asked = np.asarray(room_seconds, dtype=float)
    room = np.maximum(asked, 0.0)
    load = 2 * workers * room / np.maximum(service_seconds * (1 + scv), 1e-12)
    with np.errstate(divide="ignore"):
        shares, loads = _loads(float(quantile))
        found = np.interp(np.log(load), loads, shares)
    lost = soft * shares[0] * np.exp(np.clip(asked / np.maximum(service_seconds, 1e-12), -20.0, 0.0)) if soft else 0.0
    return np.where(room > 0, found, lost)


def wait_quantile_seconds(share, service_seconds, workers, scv, quantile=0.99):
    """Return the wait that a share `quantile` of requests stays below: ln(rho / (1 - quantile)) S (1 + scv) / (2 c (1 - rho)), the inverse of
    `highest_share`.

    Parameters: share rho [1], service_seconds S [s], workers c [1], scv [1], broadcast; quantile [1]. Returns: [s], 0 at low load. Raises: nothing.
    Validity, Error, Source: as `highest_share`.
    """
    busy = np.clip(share, 0.0, 0.999)
    with np.errstate(divide="ignore"):
        levels = np.maximum(np.log(busy / (1 - quantile)), 0.0)
    return levels * service_seconds * (1 + scv) / (2 * workers * (1 - busy))


def _solved_batch(tokens_seconds, batches, limit):
    """The largest batch whose time per token is inside the limit: piecewise log-linear between samples, 0 where the first is above it."""
    below = tokens_seconds <= limit
    count = below.sum(axis=-1)
    left = np.clip(count - 1, 0, tokens_seconds.shape[-1] - 2)[..., None]
    x0, x1 = (np.log(np.take_along_axis(batches, left + i, -1)) for i in (0, 1))
    y0, y1 = (np.log(np.take_along_axis(tokens_seconds, left + i, -1)) for i in (0, 1))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = np.exp(x0 + np.clip((np.log(limit) - y0) / np.maximum(y1 - y0, 1e-12), 0, 1) * (x1 - x0))[..., 0]
    return np.where(count == 0, 0.0, np.where(count == tokens_seconds.shape[-1], batches[..., -1], found))


def serve(
    decode: Terms, prefill: Terms, rates: Rates, eff: Efficiency, demand: Demand, pool_bytes, rank_sequences, aggregated, gpus, soft=0.0, effort=FINE
) -> Served:
    """Return what candidates serve under their limits, the batch solved for.

    Parameters: decode, prefill, `amounts.lifted` terms of n candidates (the same where aggregated); rates, eff, demand broadcast with
    (n, batches); pool_bytes [B] free for the cache on a GPU, rank_sequences [1] that the engine allows a rank, aggregated (bool), gpus [1]
    deployed in all, each (n, 1); soft [1] as `highest_share`, 0 for plans; effort, where the batch is
    looked for.
    Returns: Served. Raises: nothing. Validity: a replica's ranks evenly loaded; pools of any ratio; prompts wait for workers alone.
    Error: by configuration and system in outputs/serving_errors.csv. Source: this project; the step of `step`, the wait of `highest_share`.
    """
    ranks = decode.dp * decode.pp
    per_output = demand.prompt_tokens / demand.output_tokens

    def token_seconds(batch):
        mixed = np.where(aggregated, batch * per_output * demand.tokens_per_step, 0.0)
        return step_seconds(decode, rates, eff, batch, mixed, demand.drafts) * demand.slowdown / demand.tokens_per_step

    grid = effort.grid * ranks
    sampled = token_seconds(grid)
    grid = np.broadcast_to(grid, sampled.shape)
    prompt = prompt_seconds(prefill, rates, eff, demand.prompt_tokens, prefill.dp) * demand.slowdown
    own = demand.tail * prompt + np.where(aggregated, 0.0, demand.transfer_seconds)
    # a step must leave a prompt its own time inside either limit
    whole, first = ((limit - own, soft * 0.1 * np.where(np.isfinite(limit), limit, 0.0)) for limit in (demand.e2e_seconds, demand.ttft_seconds))
    room_for_step = np.minimum(np.maximum(*whole) / (demand.output_tokens + 1), np.maximum(*first))
    by_tpot = _solved_batch(sampled, grid, np.minimum(demand.tpot_seconds * demand.headroom, room_for_step))[..., None]
    by_memory = np.maximum(pool_bytes, 0.0) * decode.dp / np.maximum(decode.cache_held_bytes, 1e-9)
    by_engine = rank_sequences * ranks
    largest = np.minimum(np.minimum(by_tpot, by_memory), by_engine)
    limited = np.isfinite(demand.ttft_seconds) | np.isfinite(demand.e2e_seconds)
    grouped = prompt_seconds(prefill, rates, eff, demand.prompt_tokens, GROUP * prefill.dp) * demand.slowdown / GROUP / prefill.dp * prefill.gpus
    each = grouped / demand.output_tokens  # GPU seconds of prefill an output token
    replicas = np.floor(np.maximum(gpus / decode.gpus, 1.0))
    replica = prompt / prefill.dp / demand.output_tokens * decode.gpus  # seconds of a replica an output token
    whole_share = replicas * decode.gpus / np.maximum(gpus, decode.gpus)

    def served(wanted, last: bool = False) -> Served:
        fits = wanted >= 1.0 - 1e-9
        batch = np.where(fits, wanted, 1.0)
        tpot = token_seconds(batch)
        rate = batch / tpot / decode.gpus
        share = each * rate / (1 + each * rate)
        workers = np.where(aggregated, replicas * decode.dp, np.maximum(1.0, share * gpus / prefill.gpus * prefill.dp))
        room = np.minimum(demand.ttft_seconds, demand.e2e_seconds - demand.output_tokens * tpot) - own - tpot
        if np.any(limited):
            load = highest_share(room, prompt, workers, demand.scv, soft, demand.quantile)
            load = np.where(limited, np.minimum(load, 0.95), 1.0)
        else:
            load = np.ones_like(rate)
        mixed_rate = np.where(limited, np.minimum(rate, load / np.maximum(replica, 1e-12)), rate)
        split_rate = np.where(load > 0, 1 / (1 / rate + each / np.maximum(load, 1e-9)), 0.0)
        per_gpu = np.where(fits & (load > 0), np.where(aggregated, mixed_rate * whole_share, split_rate), 0.0)
        binds = np.where(wanted < 0.99 * largest, 3, np.where(by_tpot <= largest, 0, np.where(by_memory <= largest, 1, 2)))
        binds = np.where(aggregated & (mixed_rate < 0.999 * rate), 4, binds)
        if last:
            busy = np.where(aggregated, mixed_rate * replica, np.where(limited, load, 0.0)) * demand.load
            wait = wait_quantile_seconds(busy, prompt, workers, demand.scv, demand.quantile)
            if np.any(demand.load != 1.0):  # fewer run than at full load: the step is nearly linear in the batch
                alone = np.maximum(2 * token_seconds(batch / 2) - tpot, 0.05 * tpot)
                tpot = alone / (1 - demand.load * (1 - alone / tpot))
            waited = own + tpot + wait
        else:
            waited = own + tpot
        return Served(*np.broadcast_arrays(per_gpu, batch, tpot, waited, share, binds))

    if not np.any(limited):
        return served(largest, True)
    tried = largest * effort.fractions
    found = served(tried)
    for i, around in enumerate(effort.near):
        best = np.take_along_axis(np.broadcast_to(tried, found.per_gpu.shape), found.per_gpu.argmax(axis=-1)[..., None], -1)
        tried = np.minimum(best * around, largest)
        found = served(tried, i == len(effort.near) - 1)
    return found


def best_fraction(one: Served) -> Served:
    """Return each candidate's best batch.

    Parameters: one, with the fractions last. Returns: Served without that axis [1/s, s, 1]. Raises: nothing. Validity, Error: as `serve`.
    Source: maximum over the axis.
    """
    pick = one.per_gpu.argmax(axis=-1)[..., None]
    return Served(*(np.take_along_axis(getattr(one, f.name), pick, -1)[..., 0] for f in fields(one)))


def integer_split(gpus, decode_gpus, prefill_gpus, decode_rate, prefill_rate):
    """Return the whole workers of both pools that serve most inside so many GPUs.

    Parameters: gpus [1]; decode_gpus and prefill_gpus of a worker [1]; decode_rate, prefill_rate of one worker, in any one unit [1/s]; broadcast.
    Returns: triple of arrays: prefill workers [1], decode workers [1] and the rate that both carry [1/s]; zeros where not one of each fits.
    Raises: nothing. Validity: every worker alike. Error: exact (tested against trying all). Source: the rate rises with decode workers until
    prefill limits it, so that the best count lies beside the crossing.
    """
    a, b = np.maximum(decode_rate, 1e-30), np.maximum(prefill_rate, 1e-30)
    crossing = gpus * b / (a * prefill_gpus + b * decode_gpus)
    most = np.floor((np.asarray(gpus, dtype=float) - prefill_gpus) / decode_gpus)
    tried = np.stack([np.clip(np.floor(crossing) + step, 0.0, np.maximum(most, 0.0)) for step in (-2.0, -1.0, 0.0, 1.0)])
    fillers = np.maximum(np.floor((gpus - tried * decode_gpus) / prefill_gpus), 0.0)
    carried = np.minimum(tried * a, fillers * b)
    at = carried.argmax(axis=0)[None]
    out = [np.take_along_axis(np.broadcast_to(v, carried.shape), at, 0)[0] for v in (fillers, tried, carried)]
    return tuple(np.where(out[2] > 0, v, 0.0) for v in out)
