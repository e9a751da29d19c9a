"""Aggregated serving: prompts are prefilled in chunks inside the steps that decode, so that each slows the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from planner.models.queueing.batching import (
    _atom_gamma,
    _beta_quantile,
    _slot_wait,
    _table,
    averaged,
    beta_mixture_quantile,
    lattice,
    occupancy,
    tpot_seconds_mean_field,
)
from planner.models.queueing.lengths import inside, lognormal_quantile, nodes, rate_of, scv_of
from planner.models.queueing.tails import sum_quantile_seconds
from planner.units import nonnegative, positive

ROUNDS = 60
PARTS = 64
LEAST = 1e-12  # requests a second: as good as none, and no division by 0


@dataclass(frozen=True)
class Requests:
    """What arrives at one worker: rate_per_s [1/s] Poisson; prompt_tokens [token] not found in a cache, mean, and prompt_scv [1]; steps [1]
    decode steps after the first token, mean, and steps_scv [1]. Scalars or arrays that broadcast."""

    rate_per_s: np.ndarray
    prompt_tokens: np.ndarray
    prompt_scv: np.ndarray
    steps: np.ndarray
    steps_scv: np.ndarray


@dataclass(frozen=True)
class Engine:
    """How one worker steps: step_seconds [s], shape (..., B), with 1..B running and no prefill; prefill_seconds_per_token [s/token] that a
    prompt adds to a step; chunk_tokens [token] of prompts that one step takes at most."""

    step_seconds: np.ndarray
    prefill_seconds_per_token: np.ndarray
    chunk_tokens: np.ndarray


@dataclass(frozen=True)
class Station:
    """The steady state of one aggregated worker, arrays of one shape; see `solve` for the fields."""

    running: np.ndarray
    step: np.ndarray
    tpot: np.ndarray
    ttft: np.ndarray
    slot_wait: np.ndarray
    prefill_fraction: np.ndarray
    chunk_load: np.ndarray
    slot_load: np.ndarray
    stable: np.ndarray
    inner: dict


def highest_rate_per_s(requests: Requests, engine: Engine):
    """Return the rate at which the worker saturates: the lower of all slots taken, 1 / (L t(B) / B + P c), and every chunk full,
    C / (P (t(b) + c C)) with b = min(L C / P, B) running.

    Parameters: requests (its rate is not read) and engine. Returns: rate [1/s]. Raises: InputError. Validity: one worker; at most, since a
    prompt in prefill holds a slot too. Error: exact for the two limits. Source: conservation of steps and tokens.
    """
    table = _table(engine.step_seconds)
    slots = table.shape[-1]
    prompt, steps = positive("prompt_tokens", requests.prompt_tokens), positive("steps", requests.steps)
    cost, chunk = nonnegative("prefill_seconds_per_token", engine.prefill_seconds_per_token), positive("chunk_tokens", engine.chunk_tokens)
    by_slots = 1 / (steps * table[..., -1] / slots + prompt * cost)
    by_chunks = chunk / (prompt * (_at(table, np.minimum(steps * chunk / prompt, slots)) + cost * chunk))
    return np.minimum(by_slots, by_chunks)[()]


def mean_field(requests: Requests, engine: Engine):
    """Return (TTFT, time per step), means, quickly: prefill takes the share u = rate P c of the time, t = t(1 + rate L t) / (1 - u).

    Parameters: requests, engine. Returns: pair [s]; infinite where saturated. Raises: InputError. Validity: as `solve`, away from the limit
    of slots. Error: TTFT 25 %, time per step 8 % of simulation up to 80 % load (tests). Source: mean values of `solve`.
    """
    r = _checked(requests, engine)
    usable = r.share < 0.999
    left = np.where(usable, 1 - r.share, 1.0)
    step = tpot_seconds_mean_field(r.rate, r.steps, r.table / left[..., None])
    alone = np.where(np.isfinite(step), step, 1.0) * left
    empty = np.exp(-r.rate * r.steps * np.where(np.isfinite(step), step, 0.0))  # few requests: a Poisson number runs
    ttft, _, chunk_load, *_ = _first_token(r, alone, empty)
    good = usable & np.isfinite(step) & (chunk_load < 1)
    return np.where(good, ttft, np.inf)[()], np.where(good, step, np.inf)[()]


def between_steps_ttft_seconds(requests: Requests, engine: Engine, step_seconds):
    """Return the mean TTFT where a new prompt comes the moment another request ends, as in a closed loop without think time:
    t(b) chunks + P c (1 + b / L) + (P / C) (1 + scv) rho / (2 (1 - rho)) (t(b) + c C), rho = b P / (L C) chunks asked per step.

    Nobody waits for a running step to end, and the b / L prompts that come with one's own are prefilled beside it.
    Parameters: requests (rate met by one request), engine; step_seconds [s] mean, as from `mean_field`. Returns: TTFT [s]; infinite where
    rho is 1 or more. Raises: InputError. Validity: clients that answer at once. Error: 20 % of simulation to 90 % of the highest rate
    (tests). Source: as `solve`; a queue in steps.
    """
    r = _checked(requests, engine)
    running = r.rate * r.steps * nonnegative("step_seconds", np.where(np.isfinite(step_seconds), step_seconds, 0.0))
    alone, asked = _at(r.table, np.clip(1 + running, 1.0, r.table.shape[-1])), running / r.steps
    load = asked * r.prompt / r.chunk
    left = np.where(load < 1, 1 - load, 1.0)
    wait = r.prompt / r.chunk * (1 + r.prompt_scv) * load / (2 * left) * (alone + r.cost * r.chunk)
    first = alone * _chunks(r) + r.cost * r.prompt * (1 + asked) + wait
    return np.where((load < 1) & np.isfinite(step_seconds), first, np.inf)[()]


def solve(requests: Requests, engine: Engine) -> Station:
    """Return the steady state of one aggregated worker with chunked prefill and B slots.

    A step with b decoding and p prompt tokens lasts t(b) + c p, p at most C. Prefill takes the share u = rate P c of the time, so a step
    lasts t(b) / (1 - u) on average; a request also sees, at its own start, the prompts that came during its TTFT (u TTFT / (1 - u) seconds
    more, less what is left at its end). Number in system as in `batching.decode`, its law widened by the bursts of prompts. TTFT: rest of the
    running step + steps of the prompt + wait of an M/G/1 queue between single prompts and full chunks + prompts packed into one's last step.
    Parameters: requests, engine. Returns: Station: running [1] decoding, step [s] mean over steps of requests, tpot [s] mean over
    requests, ttft [s] with slot_wait [s] in it, prefill_fraction u, chunk_load and slot_load [1], stable; infinite times where one of the
    loads is 1 or more. Raises: InputError. Validity: Poisson arrivals, lognormal lengths, prompts first come first served, decode never left
    out of a step. Error: means 5 % of simulation at 30 to 90 % load; TTFT 10 to 27 % at 95 %; where prefill takes over half the time
    and lengths scatter (scv 2) 7 % at 70 %, 15 % beyond (outputs/queueing_errors.csv).
    Source: product form, M/G/1, linear noise; the terms are this project's.
    """
    r = _checked(requests, engine)
    slots = r.table.shape[-1]
    running_at = np.arange(1, slots + 1)
    bursts = np.minimum(r.share / np.maximum(1 - r.share, 1e-3), 3.0)
    widening = (2 * bursts + bursts**2 * (1 + r.prompt_scv)) / 2
    extra = np.zeros(r.rate.shape)
    first = _at(r.table, np.ones(r.rate.shape)) + r.prompt * r.cost
    decoding, busy = np.ones(r.rate.shape), np.zeros(r.rate.shape)
    left = np.maximum(1 - r.share, 1e-3)
    lives, weights = _lives(r)
    for _ in range(ROUNDS):
        alone = _at(r.table, np.maximum(running_at * decoding[..., None], 1.0))
        timed = alone / left[..., None] + extra[..., None]
        held = r.rate[..., None] * (r.steps[..., None] * timed + first[..., None])
        # bursts widen the law of the number running; its mean follows only where they are small
        wider = widening * (1 - busy)
        sharp = 1 / (1 + np.minimum(wider, 0.5))
        chances, slot_load = occupancy(held, sharp)
        taken = chances[..., 1:] * running_at / (held / np.where(r.rate > 0, r.rate, 1.0)[..., None])
        total = taken.sum(-1, keepdims=True)
        taken = np.where(total > 0, taken / np.where(total > 0, total, 1.0), (running_at == 1).astype(float))
        step = (taken * timed).sum(-1)
        running = r.rate * r.steps * step
        decoding = (decoding + r.steps * step / (r.steps * step + first)) / 2
        reached, wait, chunk_load, room, own = _first_token(r, _at(r.table, np.clip(running, 1.0, slots)), chances[..., 0])
        first = np.where(chunk_load < 1, (first + reached) / 2, first)
        plain = (step - extra) * left
        steady = r.share * plain / left
        full = r.cost * r.chunk
        # a prompt is met at one's own start only where one came during the TTFT
        spare = np.maximum(full - steady, 1e-3 * full + 1e-12) * np.maximum(r.rate * first / (1 + r.rate * first), 1e-9)
        busy = np.minimum(steady / np.maximum(full, 1e-12), 1.0)
        back = r.prompt * (1 + r.prompt_scv) / 2 / np.maximum(1 - chunk_load, 1e-3)
        over = r.cost * busy * back * np.exp(-r.chunk / back)
        early = np.maximum(r.share * first - over, 0.0) / left
        met = spare[..., None] * -np.expm1(-early[..., None] / (r.steps[..., None] * lives) / spare[..., None])
        extra = (extra + (weights * lives * met).sum(-1) / (weights * lives).sum(-1)) / 2
    stable = (slot_load < 1) & (chunk_load < 1) & (r.share < 1)
    waits, inner, square = _slot_wait(chances, np.minimum(slot_load, 1 - 1e-9), r.steps_scv, held[..., -1] / np.where(r.rate > 0, r.rate, 1.0))
    inner, square = inner / sharp, square / sharp**2
    per_request = plain + steady + (weights * met).sum(-1)
    # lengths that are alike leave together: a burst is felt longer, by twice the integral of the squared response of the number running
    spread, tied = np.sqrt(np.log1p(r.steps_scv)), 1 - _slow(held, chances, running_at)
    together = 4 * ndtr(-spread / np.sqrt(2)) * (1 - tied) + 2 / (1 + r.steps_scv) * tied
    variance = (taken * (timed - step[..., None]) ** 2).sum(-1) * (1 + np.minimum(wider * together, 9.0)) * sharp
    keep = {"case": r, "plain": plain, "steady": steady, "spare": spare, "early": early, "busy": busy, "bursts": bursts, "variance": variance,
            "wait": wait, "room": room, "own": own, "first": first, "running": running, "chunk_load": chunk_load, "waits": waits, "inner": inner,
            "square": square, "slow": _slow(held, chances, running_at), "slope": _slope(r.table, running), "step": step}
    masked = lambda v: np.where(stable, v, np.inf)[()]  # noqa: E731
    running = np.where(np.asarray(requests.rate_per_s) > 0, running, 0.0)
    return Station(running[()], masked(step), masked(per_request), masked(first + waits * inner), masked(waits * inner), r.share[()],
                   chunk_load[()], np.asarray(slot_load)[()], stable[()], keep)


def tpot_quantile_seconds(station: Station, quantile):
    """Return a quantile over requests of the mean time per step of a request.

    Per length x: mean as in `solve`; variance of the number running, of the prompts that come during x steps (compound Poisson, stretched by
    the share of prefill) and of those met at the start, and of both together; beta laws between t(1) and a full chunk, mixed over x.
    Parameters: station from `solve`; quantile [1], broadcast. Returns: [s]; infinite where not stable. Raises: InputError.
    Validity: as `solve`. Error: p99 within 12 % of simulation up to 80 % load, 16 % beyond (same table). Source: as `solve`.
    """
    lives, weights = _lives(station.inner["case"])
    mean, variance, low, high = _per_length(station, lives)
    found = beta_mixture_quantile(weights, mean, variance, low[..., None], high[..., None], quantile)
    return np.where(station.stable, found, np.inf)[()]


def ttft_nodes_seconds(station: Station):
    """Return 1,024 equally likely values of the TTFT along a new last axis.

    Own prefill by length + rest of a running step, or behind other prompts a gamma law + a wait for a slot, on a lattice.
    Parameters: station from `solve`. Returns: values [s]; infinite where not stable. Raises: InputError. Validity: as `solve`.
    Error: see `ttft_quantile_seconds`. Source: as `solve`.
    """
    s, r = station.inner, station.inner["case"]
    long, even, turn = lattice()
    alone = _at(r.table, np.clip(s["running"], 1.0, r.table.shape[-1]))
    prompt = lognormal_quantile(r.prompt[..., None], r.prompt_scv[..., None], long)
    own = alone[..., None] * np.ceil(prompt / r.chunk[..., None]) + r.cost[..., None] * prompt
    rest = np.maximum(s["first"] - own.mean(-1), 1e-9)
    meets = np.clip(np.minimum(r.rate * s["own"][0], np.sqrt(np.minimum(s["chunk_load"], 1.0))), 1e-6, 1.0)
    square = _wait_variance(s) * (1 + r.share * s["room"]) ** 2 + alone**2 / 12 + rest**2
    behind = np.maximum((rest - (1 - meets) * alone / 2) / meets, 0.05 * rest)
    noise = np.maximum((square - (1 - meets) * alone**2 / 3) / meets - behind**2, 0.05 * behind**2)
    quiet = alone[..., None] * np.minimum(even / np.maximum(1 - meets[..., None], 1e-9), 1.0)
    queued = _atom_gamma(meets, behind, noise, even, np.zeros(meets.shape))
    slot = _atom_gamma(s["waits"], s["inner"], s["square"], turn, np.zeros(meets.shape))
    total = own + np.where(queued > 0, queued, quiet) + slot
    return np.where(station.stable[..., None], total, np.inf)


def ttft_quantile_seconds(station: Station, quantile):
    """Return a quantile of the TTFT, from `ttft_nodes_seconds`.

    Parameters: station from `solve`; quantile [1] scalar. Returns: [s]; infinite where not stable. Raises: InputError. Validity: as
    `solve`. Error: p99 within 12 % of simulation up to 80 % load and 36 % beyond; prompts all alike and shorter than a chunk 38 % high (table).
    Source: as `solve`.
    """
    with np.errstate(invalid="ignore"):
        found = np.quantile(ttft_nodes_seconds(station), float(inside("quantile", quantile)), axis=-1)
    return np.where(station.stable, found, np.inf)[()]


def e2e_quantile_seconds(station: Station, quantile):
    """Return a quantile of the time from arrival to last token: TTFT + x steps of their own mean time, independent of each other.

    Parameters: station from `solve`; quantile [1] scalar. Returns: [s]; infinite where not stable. Raises: InputError. Validity: as
    `solve`. Error: p99 within 16 % of simulation (same table). Source: convolution.
    """
    r = station.inner["case"]
    long, even, _ = lattice()
    lives = np.maximum(lognormal_quantile(1.0, r.steps_scv[..., None], long), 1 / r.steps[..., None])
    mean, variance, low, high = _per_length(station, lives)
    running = lives * r.steps[..., None] * _beta_quantile(mean, variance, low[..., None], high[..., None], even)
    first = np.sort(ttft_nodes_seconds(station), axis=-1)[..., 8::16]
    safe = station.stable[..., None]
    found = sum_quantile_seconds(np.where(safe, first, 0.0), np.where(safe, running, 0.0), quantile)
    return np.where(station.stable, found, np.inf)[()]


@dataclass(frozen=True)
class _Case:
    """Requests and engine, checked and of one shape; share u = rate P c."""

    rate: np.ndarray
    prompt: np.ndarray
    prompt_scv: np.ndarray
    steps: np.ndarray
    steps_scv: np.ndarray
    table: np.ndarray
    cost: np.ndarray
    chunk: np.ndarray
    share: np.ndarray


def _checked(requests, engine):
    """Return a `_Case`, every argument checked and broadcast."""
    table = _table(engine.step_seconds)
    flat = (rate_of("rate_per_s", requests.rate_per_s), positive("prompt_tokens", requests.prompt_tokens),
            scv_of("prompt_scv", requests.prompt_scv), positive("steps", requests.steps), scv_of("steps_scv", requests.steps_scv),
            nonnegative("prefill_seconds_per_token", engine.prefill_seconds_per_token), positive("chunk_tokens", engine.chunk_tokens))
    shape = np.broadcast_shapes(*(v.shape for v in flat), table.shape[:-1])
    rate, prompt, prompt_scv, steps, steps_scv, cost, chunk = (np.broadcast_to(v, shape) for v in flat)
    table = np.broadcast_to(table, (*shape, table.shape[-1]))
    rate = np.maximum(rate, LEAST)
    return _Case(rate, prompt, prompt_scv, steps, steps_scv, table, cost, chunk, rate * prompt * cost)


def _lives(r):
    """Return lengths in mean lengths along a new last axis, and their weights."""
    z, weights = nodes(24)
    spread = np.sqrt(np.log1p(r.steps_scv))[..., None]
    return np.maximum(np.exp(spread * z - spread**2 / 2), 1 / r.steps[..., None]), weights


def _at(table, running):
    """Return the step time at a number running, between table points; `running` may have one more axis than the rest of the table."""
    many = running.ndim == table.ndim
    place = np.clip(running if many else running[..., None], 1.0, table.shape[-1]) - 1
    below = np.minimum(place.astype(int), table.shape[-1] - 1)
    above = np.minimum(below + 1, table.shape[-1] - 1)
    part = place - below
    found = np.take_along_axis(table, below, -1) * (1 - part) + np.take_along_axis(table, above, -1) * part
    return found if many else found[..., 0]


def _slope(table, running):
    """Return how much one more request lengthens a step [s]."""
    at = np.clip(running, 1.0, table.shape[-1])
    return (_at(table, at + 1) - _at(table, at - 1)) / np.maximum(np.minimum(at + 1, table.shape[-1]) - np.maximum(at - 1, 1), 1e-9)


def _slow(held, chances, running_at):
    """Return how much slower than lives the number in the system changes: its relative elasticity, from the product form's own rates."""
    at = np.clip(np.rint((chances[..., 1:] * running_at).sum(-1)), 1, running_at[-1]).astype(int)[..., None] - 1
    upper, lower = np.minimum(at + 1, running_at[-1] - 1), np.maximum(at - 1, 0)
    rise = (np.take_along_axis(held, upper, -1) - np.take_along_axis(held, lower, -1)) / np.maximum(upper - lower, 1)
    here = np.take_along_axis(held, at, -1)
    return np.maximum(1 - (at + 1) * rise / np.where(here > 0, here, 1.0), 0.02)[..., 0]


def _own_moments(r, alone):
    """Return the first three moments of a prompt's own prefill: steps of its own and its tokens."""
    z, weights = nodes(40)
    spread = np.sqrt(np.log1p(r.prompt_scv))[..., None]
    prompt = r.prompt[..., None] * np.exp(spread * z - spread**2 / 2)
    own = alone[..., None] * np.ceil(prompt / r.chunk[..., None]) + r.cost[..., None] * prompt
    return tuple((weights * own**k).sum(-1) for k in (1, 2, 3))


def _chunks(r):
    """Return the mean number of chunks of a prompt: sum over k of P(prompt > k C), beyond 64 chunks by the mean."""
    k = np.arange(PARTS)
    spread = np.maximum(np.sqrt(np.log1p(r.prompt_scv)), 1e-4)[..., None]
    with np.errstate(divide="ignore"):
        more = ndtr(-np.log(k * (r.chunk / r.prompt)[..., None]) / spread - spread / 2)
    return np.maximum(more.sum(-1), r.prompt / r.chunk)


def _first_token(r, alone, empty):
    """Return TTFT without a wait for a slot, the wait behind other prompts, chunk load, free share of the last chunk, and own moments."""
    full = alone + r.cost * r.chunk
    each = r.prompt * full / r.chunk
    load = r.rate * each
    own = _own_moments(r, alone)
    chunks = _chunks(r)
    low = np.minimum(load, 1 - 1e-6)
    second = (1 - low) * own[1] + low * each**2 * (1 + r.prompt_scv)
    wait = r.rate * second / 2 / (1 - low)
    room = np.maximum(1 - r.prompt / r.chunk / chunks, 0.0)
    quiet = 1 - np.minimum(np.minimum(r.rate * own[0], np.sqrt(low)), 1.0)  # the rest of a step that prefills is in the wait
    first = alone / 2 * (1 - empty) * quiet + alone * chunks + r.cost * r.prompt + wait + r.share * (wait + alone / 2) * room
    return first, wait, load, room, own


def _wait_variance(s):
    """Return the variance of the wait behind other prompts."""
    r, low = s["case"], np.minimum(s["chunk_load"], 1 - 1e-6)
    alone = _at(r.table, np.clip(s["running"], 1.0, r.table.shape[-1]))
    each = r.prompt * (alone + r.cost * r.chunk) / r.chunk
    third = (1 - low) * s["own"][2] + low * each**3 * (1 + r.prompt_scv) ** 3
    return s["wait"] ** 2 + r.rate * third / 3 / (1 - low)


def _per_length(station, lives):
    """Return mean, variance, lowest and highest time per step of requests of `lives` mean lengths."""
    s, r = station.inner, station.inner["case"]
    left = np.maximum(1 - r.share, 1e-3)
    wide = lambda v: np.asarray(v)[..., None]  # noqa: E731
    x = wide(r.steps) * lives
    fade = np.exp(-wide(s["early"]) / x / wide(s["spare"]))
    mean = wide(s["plain"] + s["steady"]) + wide(s["spare"]) * (1 - fade)
    fade = fade * (1 - wide(s["busy"]))
    jolt = r.rate * r.cost**2 * r.prompt**2 * (1 + r.prompt_scv)
    first = _wait_variance(s) + (r.cost * r.prompt) ** 2 * r.prompt_scv
    bursts = (x * wide(s["plain"]) + wide(r.share * s["first"])) * wide(jolt / left**3) + wide(r.share**2 * first / left**2)
    memory = r.steps * s["step"] / s["slow"]
    age = x * wide(s["step"] / memory)
    both = wide(r.rate * r.prompt * r.cost * s["slope"] / left * memory) / x * (1 + np.expm1(-age) / age)
    both = both * (1 + wide(s["bursts"] * (1 + r.prompt_scv)))
    variance = wide(s["variance"]) * averaged(lives * wide(s["slow"]), wide(r.steps_scv)) + bursts / x**2 * fade**2 + 2 * both * fade
    low = r.table[..., 0]
    slots = r.table.shape[-1]
    most = np.where(s["slope"] > 0, s["running"] + 5 * np.sqrt(s["variance"]) / np.where(s["slope"] > 0, s["slope"], 1.0), slots)
    high = _at(r.table, np.clip(most, 1.0, slots)) + r.cost * r.chunk
    return mean, variance, low, np.maximum(high, low)
