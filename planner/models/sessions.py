"""Sessions of many calls, each on the context of the last: where their prefix caches live, and what is left to prefill."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, ndtr, ndtri

from planner.errors import InputError
from planner.units import count, fraction, nonnegative, positive

PARTS = ("kept_seconds", "hit_fraction", "call_hit_fraction", "restore_seconds", "restore_seconds_last", "restore_bytes_per_s")
NODES = 96  # pauses of equal weight
LONGEST = 1e15  # seconds: a cache that is never full


@dataclass(frozen=True)
class Pause:
    """One kind of pause between calls: mean_seconds [s], scv [1] of a lognormal, fraction [1] of all pauses that are of this kind."""

    mean_seconds: np.ndarray
    scv: np.ndarray
    fraction: np.ndarray = 1.0


@dataclass(frozen=True)
class Sessions:
    """Sessions of `calls` [1] calls. The prompt of call k holds shared_tokens [token] (the same in every session: system prompt, tools),
    own_tokens [token] (of this session: a repository, a document), k times input_tokens (tool output, user text) and k - 1 times
    output_tokens. service_seconds [s] from the start of a call to its last token; pauses, between its end and the next call."""

    calls: np.ndarray
    shared_tokens: np.ndarray
    own_tokens: np.ndarray
    input_tokens: np.ndarray
    output_tokens: np.ndarray
    service_seconds: np.ndarray
    pauses: tuple[Pause, ...] = ()


@dataclass(frozen=True)
class Tier:
    """One place of prefix caches: capacity_bytes [B] of the pool; bytes_per_s [B/s] and latency_seconds [s] of bringing one prefix back."""

    name: str
    capacity_bytes: np.ndarray
    bytes_per_s: np.ndarray = np.inf
    latency_seconds: np.ndarray = 0.0


def prompt_tokens(sessions: Sessions) -> dict:
    """Return the prompts of the calls: A + S + k u + (k - 1) o at call k of n.

    Parameters: sessions. Returns: dict of arrays [token]: mean, scv [1], last (the longest prompt), context (with the last answer).
    Raises: InputError. Validity: equal growth a call, n constant. Error: exact. Source: sums of powers of k.
    """
    s = _checked(sessions)
    base, grown = s.shared + s.own + s.added, s.growth
    mean = base + grown * (s.calls - 1) / 2
    last = base + grown * (s.calls - 1)
    variance = grown**2 * (s.calls**2 - 1) / 12
    return {"mean": mean[()], "scv": (variance / mean**2)[()], "last": last[()], "context": (last + s.output)[()]}


def added_tokens(calls, mean_prompt_tokens, shared_tokens, own_tokens, output_tokens):
    """Return the input tokens that each call adds, from the mean prompt: u = (m - A - S - o (n - 1) / 2) / ((n + 1) / 2).

    Parameters: calls n [1]; mean_prompt_tokens m, shared_tokens A, own_tokens S, output_tokens o [token]; broadcast. Returns: [token].
    Raises: InputError where the parts leave nothing to add. Validity: as `prompt_tokens`. Error: exact. Source: `prompt_tokens` solved for u.
    """
    n, mean = count("calls", calls), positive("mean_prompt_tokens", mean_prompt_tokens)
    held = nonnegative("shared_tokens", shared_tokens) + nonnegative("own_tokens", own_tokens)
    held = held + nonnegative("output_tokens", output_tokens) * (n - 1) / 2
    if np.any(mean <= held):
        least = f"must be above {float(np.max(held)):,.0f}: shared, own and earlier output tokens"
        raise InputError("mean_prompt_tokens", float(np.min(mean)), least)
    return ((mean - held) * 2 / (n + 1))[()]


def structural_hit_fraction(sessions: Sessions):
    """Return the share of prompt tokens that a cache without limit finds: everything but what each call adds and each session starts with.

    Parameters: sessions. Returns: share [1]. Raises: InputError. Validity: the shared prefix was met before; every call goes to its cache.
    Error: exact. Source: sums of `prompt_tokens`.
    """
    s = _checked(sessions)
    reused = s.calls * s.shared + (s.calls - 1) * s.own + s.growth * s.calls * (s.calls - 1) / 2
    return (reused / (s.calls * prompt_tokens(sessions)["mean"]))[()]


def calls_per_s(sessions: Sessions, live_sessions):
    """Return the rate of calls of a number of live sessions: N n / (n X + (n - 1) Z), each replaced when its last call ends.

    Parameters: sessions; live_sessions N [1]. Returns: rate [1/s]. Raises: InputError; refused where a session lasts no time.
    Validity: any laws, means only. Error: exact. Source: Little's law.
    """
    s = _checked(sessions)
    return (nonnegative("live_sessions", live_sessions) * s.calls / _some_time(_lasts(s), s))[()]


def live_sessions(sessions: Sessions, calls_per_s):
    """Return the sessions alive at a rate of calls: the inverse of `calls_per_s`.

    Parameters: sessions; calls_per_s [1/s]. Returns: sessions [1]. Raises: InputError. Validity, Error: as there. Source: Little's law.
    """
    s = _checked(sessions)
    return (nonnegative("calls_per_s", calls_per_s) * _lasts(s) / s.calls)[()]


def resident_bytes(sessions: Sessions, calls_per_s, bytes_per_token, seconds, state_bytes=0.0):
    """Return the bytes of all prefixes that were in use less than `seconds` ago: R(T).

    Per session started: X of each call, E[min(Z, T)] of each pause, and T after its last call, when nobody will ask for it again; the
    shared prefix once. Parameters: sessions; calls_per_s [1/s]; bytes_per_token [B/token] of the cache; seconds T [s]; state_bytes [B]
    of a cached prefix whatever its length. Returns: bytes [B]; R(0) is what running calls hold. Raises: InputError.
    Validity: any laws, means only. Error: exact (through `residency`, against simulation). Source: Little's law.
    """
    s, rate = _checked(sessions), nonnegative("calls_per_s", calls_per_s)
    each, state = nonnegative("bytes_per_token", bytes_per_token), nonnegative("state_bytes", state_bytes)
    return _resident(s, rate, each, state, nonnegative("seconds", seconds))[()]


def kept_seconds(sessions: Sessions, calls_per_s, bytes_per_token, capacity_bytes, state_bytes=0.0):
    """Return how long after its last use a prefix stays in a cache that drops the least recently used: T with R(T) = capacity.

    Parameters: as `resident_bytes`; capacity_bytes [B], infinity for no limit. Returns: T [s]; 0 where running calls fill the cache,
    infinite where it never fills. Raises: InputError. Validity: many sessions, so that T hardly varies. Error: see `residency`.
    Source: Che, Tung, Wang (2002), the characteristic time of LRU; by bisection.
    """
    s, rate = _checked(sessions), nonnegative("calls_per_s", calls_per_s)
    each, state, room = nonnegative("bytes_per_token", bytes_per_token), nonnegative("state_bytes", state_bytes), _capacity(capacity_bytes)
    shape = np.broadcast_shapes(rate.shape, each.shape, state.shape, room.shape, s.shape)
    low, high = np.full(shape, -30.0), np.full(shape, np.log(LONGEST))
    for _ in range(70):
        middle = (low + high) / 2
        fits = _resident(s, rate, each, state, np.exp(middle)) <= room
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    found = np.where(low > np.log(LONGEST) - 1e-6, np.inf, np.exp(low))
    return np.where(_resident(s, rate, each, state, np.zeros(shape)) < room, found, 0.0)[()]


def residency(sessions: Sessions, calls_per_s, bytes_per_token, tiers, *, exclusive, state_bytes=0.0, block_tokens=1) -> dict:
    """Return where calls find their prefix, what they bring back and what they prefill, with LRU in every tier.

    A call finds its session's prefix where at most the capacity was used during its pause z: the bytes used since have the mean R(z), and a
    gamma law of the variance that live and ended sessions make. With many sessions that is pause <= T of `kept_seconds`. The shared prefix
    is found where any call came within X + T. Exclusive tiers hold what fell out of the one above (capacities down to a tier together);
    others each hold a copy of all that is recent (their own capacity). What is not found is prefilled.
    Parameters: sessions; calls_per_s [1/s]; bytes_per_token [B/token]; tiers, from the fastest, the first holds the running calls too;
    exclusive, true or false; state_bytes [B]; block_tokens [token], whole blocks are found only. Returns: dict: kept_seconds [s],
    hit_fraction [1] of prompt tokens, call_hit_fraction [1] of calls after a session's first, restore_seconds [s] mean and
    restore_seconds_last [s], restore_bytes_per_s [B/s]: dicts by tier; missed_fraction [1] of prompt tokens, prefill_tokens [token] of a
    call and prefill_scv [1], prefill_tokens_per_s [1/s], written_bytes_per_s [B/s] of new cache, running_bytes [B], all_bytes [B] of what
    will be asked for again, full (true where running calls fill the first tier). Raises: InputError.
    Validity: calls are sent where their cache is; a prefix is kept or dropped whole. Error: hit share within 0.02 of LRU simulation with
    100 sessions alive, 0.04 with 30; where all pauses are alike the step lies within 15 % of the right capacity (tests).
    Source: Che, Tung, Wang (2002); the variance is this project's.
    """
    s, rate = _checked(sessions), nonnegative("calls_per_s", calls_per_s)
    each, state = nonnegative("bytes_per_token", bytes_per_token), nonnegative("state_bytes", state_bytes)
    lost = (positive("block_tokens", block_tokens) - 1) / 2
    if not tiers:
        raise InputError("tiers", len(tiers), "must name at least one")
    rooms = [_capacity(t.capacity_bytes, f"{t.name}.capacity_bytes") for t in tiers]
    rooms = list(np.cumsum(np.array(np.broadcast_arrays(*rooms)), axis=0)) if exclusive else rooms
    total = s.calls * prompt_tokens(sessions)["mean"]
    # of one session: tokens of its own that calls 2..n may find, one block end lost at each
    again = np.maximum((s.calls - 1) * (s.own - lost) + s.growth * s.calls * (s.calls - 1) / 2, 0.0)
    mean_again = again / np.maximum(s.calls - 1, 1)
    last_again = np.where(s.calls > 1, s.own + s.growth * (s.calls - 1), 0.0)
    started = rate / s.calls
    before, before_shared, kept = np.zeros(()), np.zeros(()), np.zeros(())
    out = {name: {} for name in PARTS}
    for tier, room in zip(tiers, rooms, strict=True):
        kept = np.maximum(kept, kept_seconds(sessions, rate, each, room, state))
        own = np.maximum(_found(s, rate, each, state, room), before)
        shared = np.maximum(_met(s, rate, kept, room), before_shared)
        calls_found = np.where(s.calls > 1, own - before, 0.0)
        speed = positive(f"{tier.name}.bytes_per_s", np.minimum(np.asarray(tier.bytes_per_s, float), 1e30))
        wait = nonnegative(f"{tier.name}.latency_seconds", tier.latency_seconds)
        out["kept_seconds"][tier.name] = kept[()]
        out["hit_fraction"][tier.name] = ((calls_found * again + (shared - before_shared) * s.calls * s.shared) / total)[()]
        out["call_hit_fraction"][tier.name] = calls_found[()]
        out["restore_seconds"][tier.name] = (wait + (each * mean_again + state) / speed)[()]
        out["restore_seconds_last"][tier.name] = (wait + (each * last_again + state) / speed)[()]
        out["restore_bytes_per_s"][tier.name] = (calls_found * started * (each * again + state * (s.calls - 1)))[()]
        before, before_shared = own, shared
    missed = 1 - sum(np.asarray(v) for v in out["hit_fraction"].values())
    own, shared = np.where(s.calls > 1, before, 0.0), before_shared
    mean = missed * total / s.calls
    scv = _missed_square(s, own, shared, lost) / np.where(mean > 0, mean, 1.0) ** 2 - 1
    running = _resident(s, rate, each, state, np.zeros(()))
    wanted = _resident(s, rate, each, state, np.full((), LONGEST), dead=False)
    return {**out, "missed_fraction": missed[()], "prefill_tokens": mean[()], "prefill_scv": np.maximum(scv, 0.0)[()],
            "prefill_tokens_per_s": (rate * mean)[()], "written_bytes_per_s": (rate * each * (mean + s.output))[()],
            "running_bytes": running[()], "all_bytes": wanted[()], "full": (running >= rooms[0])[()]}


def hit_fraction_proportional(sessions: Sessions, calls_per_s, bytes_per_token, capacity_bytes):
    """Return the simplest estimate of the hit share, the baseline: the structural one times what fits of the live sessions' caches.

    Parameters: as `kept_seconds`. Returns: share [1]. Raises: InputError. Validity: caches dropped by chance, nothing kept of ended
    sessions. Error: up to 0.9 above LRU simulation, which drops a prefix whole (tests). Source: definition.
    """
    s, rate = _checked(sessions), nonnegative("calls_per_s", calls_per_s)
    wanted = _resident(s, rate, nonnegative("bytes_per_token", bytes_per_token), np.zeros(()), np.full((), LONGEST), dead=False)
    room = _capacity(capacity_bytes)
    fits = np.where(wanted > 0, np.minimum(room, wanted) / np.where(wanted > 0, wanted, 1.0), np.where(room > 0, 1.0, 0.0))
    return (structural_hit_fraction(sessions) * fits)[()]


def worth_restoring_bytes_per_s(prefill_tokens_per_s, bytes_per_token):
    """Return the bandwidth above which bringing a prefix back is faster than computing it anew: tokens/s of prefill x bytes of a token.

    Parameters: prefill_tokens_per_s [1/s] of the worker that would compute it; bytes_per_token [B/token]. Returns: [B/s].
    Raises: InputError. Validity: long prefixes; attention over the prefix makes computing slower still. Error: exact. Source: definition.
    """
    return (nonnegative("prefill_tokens_per_s", prefill_tokens_per_s) * nonnegative("bytes_per_token", bytes_per_token))[()]


@dataclass(frozen=True)
class _Case:
    """Sessions, checked; pauses as (mean, sigma, fraction); growth u + o."""

    calls: np.ndarray
    shared: np.ndarray
    own: np.ndarray
    added: np.ndarray
    output: np.ndarray
    service: np.ndarray
    pauses: tuple
    growth: np.ndarray
    shape: tuple


def _checked(sessions):
    """Return a `_Case`. Raises: InputError by field name."""
    calls = count("calls", sessions.calls).astype(float)
    tokens = [nonnegative(name, getattr(sessions, name)) for name in ("shared_tokens", "own_tokens", "input_tokens", "output_tokens")]
    if np.any(sum(tokens[:3]) <= 0):
        raise InputError("input_tokens", sessions.input_tokens, "must leave a prompt of more than 0 tokens")
    service = nonnegative("service_seconds", sessions.service_seconds)
    pauses = tuple((nonnegative("pause.mean_seconds", p.mean_seconds), np.maximum(np.sqrt(np.log1p(nonnegative("pause.scv", p.scv))), 1e-9),
                    fraction("pause.fraction", p.fraction)) for p in sessions.pauses)
    if pauses and np.any(np.abs(sum(p[2] for p in pauses) - 1) > 1e-6):
        raise InputError("pause.fraction", float(np.max(sum(p[2] for p in pauses))), "of all kinds must sum to 1")
    shape = np.broadcast_shapes(calls.shape, service.shape, *(t.shape for t in tokens), *(v.shape for p in pauses for v in p))
    return _Case(calls, *tokens, service, pauses, tokens[2] + tokens[3], shape)


def _lasts(s):
    """Return how long a session lasts [s]."""
    return s.calls * s.service + (s.calls - 1) * sum((m * f for m, _, f in s.pauses), np.zeros(()))


def _some_time(lasts, s):
    """Return how long sessions last [s]; refuse those that last no time."""
    if np.any(lasts <= 0):
        raise InputError("service_seconds", float(np.min(s.service)), "and the pauses must make a session last more than 0 s")
    return lasts


def _capacity(value, name="capacity_bytes"):
    """Return capacities [B], infinity allowed."""
    array = np.asarray(value, float)
    nonnegative(name, np.where(np.isposinf(array), 0.0, array))
    return array


def _found(s, rate, each, state, room):
    """Return the chance that no more than `room` was used during a pause: over the pauses' law, the bytes in use since as a gamma law."""
    if not s.pauses:
        return np.where(room > 0, _within(s, rate, each, state, np.zeros(()), room), 0.0)
    z = ndtri((np.arange(NODES) + 0.5) / NODES)
    wide = _Case(*(tuple((m[..., None], d[..., None], f[..., None]) for m, d, f in v) if name == "pauses" else v if name == "shape" else v[..., None]
                   for name, v in vars(s).items()))
    rate, each, state, room = (np.asarray(v)[..., None] for v in (rate, each, state, room))
    return sum((_within(wide, rate, each, state, m * np.exp(d * z - d**2 / 2), room) * f).mean(-1) for m, d, f in wide.pauses)


def _within(s, rate, each, state, lasted, room):
    """Return the chance that the bytes in use less than `lasted` seconds ago are at most `room`."""
    mean, variance = _resident(s, rate, each, state, lasted), _variance(s, rate, each, state, lasted)
    some, sure = mean > 1e-100, np.isposinf(room)
    m = np.where(some, mean, 1.0)
    shape = m**2 / np.maximum(variance, 1e-10 * m**2)
    chance = gammainc(shape, shape * np.where(sure, 1.0, room) / m)
    return np.where(sure, 1.0, np.where(some, chance, (room > 0) * 1.0))


def _met(s, rate, kept, room):
    """Return the chance that any call came within a service time and `kept`; 0 where there is no room at all."""
    always = np.isinf(kept)
    chance = -np.expm1(-rate * (s.service + np.where(always, 0.0, kept)))
    return np.where(room > 0, np.where(always, 1.0, chance), 0.0)


def _held_seconds(s, kept):
    """Return E[min(Z, T)] over the pauses."""
    total = np.zeros(())
    with np.errstate(divide="ignore"):
        for mean, sigma, share in s.pauses:
            z = (np.log(kept) - np.log(np.where(mean > 0, mean, 1.0))) / sigma
            part = mean * ndtr(z - sigma / 2) + kept * ndtr(-z - sigma / 2)
            total = total + share * np.where((mean > 0) & (kept > 0), part, 0.0)
    return total


def _resident(s, rate, each, state, kept, dead=True):
    """Return the bytes in use less than `kept` seconds ago; without those of ended sessions where not `dead`."""
    n, started = s.calls, rate / s.calls
    running = n * (s.own + s.added + s.output / 2) + s.growth * n * (n - 1) / 2
    idle = (n - 1) * s.own + s.growth * n * (n - 1) / 2
    last = s.own + n * s.growth
    hold, gone = _held_seconds(s, kept), kept if dead else 0.0
    tokens = started * (running * s.service + idle * hold + last * gone)
    prefixes = started * (n * s.service + (n - 1) * hold + gone)
    with np.errstate(under="ignore"):
        shared = s.shared * -np.expm1(-rate * (s.service + kept))
    return each * (tokens + shared) + state * prefixes


def _squares(start, step, number):
    """Return the sum of (start + k step)^2 over k = 0..number - 1."""
    return number * start**2 + start * step * number * (number - 1) + step**2 * (number - 1) * number * (2 * number - 1) / 6


def _variance(s, rate, each, state, kept):
    """Return how the bytes in use less than `kept` seconds ago vary [B^2]: live sessions are a fixed number, each on its own."""
    n, started, hold = s.calls, rate / s.calls, _held_seconds(s, kept)
    run, idle = each * (s.own + s.added + s.output / 2) + state, each * (s.own + s.growth) + state
    grown = each * s.growth
    live = started * (_squares(run, grown, n) * s.service + _squares(idle, grown, n - 1) * hold)
    mean = started * ((n * run + grown * n * (n - 1) / 2) * s.service + ((n - 1) * idle + grown * (n - 1) * (n - 2) / 2) * hold)
    number = started * _lasts(s)
    ended = started * (each * (s.own + n * s.growth) + state) ** 2 * kept
    return np.maximum(live - mean**2 / np.where(number > 0, number, 1.0), 0.0) + ended


def _missed_square(s, own, shared, lost):
    """Return the mean square of the tokens that a call prefills: call 1 all of its own, later calls the addition, or all where not found."""
    n, k = s.calls, s.calls - 1
    extra = np.asarray(1 - shared)  # the shared prefix is lost with this chance, apart from the rest

    def square(low, spread):
        """Of low + shared x chance + spread."""
        return low**2 + 2 * low * extra * s.shared + extra * s.shared**2 + spread

    first = square(s.own + s.added, 0.0)
    hit = square(s.added + np.minimum(lost, s.own + s.growth), 0.0)
    middle, spread = s.own + s.added + s.growth * n / 2, s.growth**2 * np.maximum(k**2 - 1, 0.0) / 12
    return (first + k * (own * hit + (1 - own) * square(middle, spread))) / n
