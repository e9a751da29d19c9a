"""Agentic sessions on one rack: the share of input that its caches find follows from the load that the rack itself carries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from planner.calibration import sessions as joined
from planner.models import sessions as model
from planner.models import transformer
from planner.plan import frontier
from planner.plan.frontier import Asked

ROUNDS = 24
CLOSE = 1e-3  # of the hit share between two rounds


@dataclass(frozen=True)
class Carried:
    """What one full rack carries at its fixed point: per_gpu [1/s] output tokens, live [1] sessions, hits by tier [1] of input tokens, structural [1]
    of an endless cache, prefill_tokens [token] a call, kept_seconds [s] by tier, restore_seconds [s] by tier; layout in words."""

    system: str
    per_gpu: float
    live: float
    hits: dict[str, float]
    structural: float
    prefill_tokens: float
    kept_seconds: dict[str, float]
    restore_seconds: dict[str, float]
    layout: str


def _bytes_per_token(asked: Asked, system: str, tpot_s: float) -> float:
    case = frontier.case_of(asked, system, tpot_s)
    return float(transformer.kv_bytes(case.shape.attention, case.input_tokens, 1.0, case.kv_bits)) / case.input_tokens


def _joined(asked: Asked, system: str, tpot_s: float, calls: int, think_s: float):
    """Return the sessions, their tiers on one rack, the rate of calls [1/s] and what the rack serves, central case. Raises: Infeasible."""
    found, rack = frontier.point_of(asked, system, tpot_s, False), frontier.case_of(asked, system, tpot_s).rack
    service = float(found.ttft[0]) + asked.output_tokens * float(found.tpot[0])
    made = joined.agentic(calls, asked.input_tokens, asked.output_tokens, think_s, service)
    room = (found.parts["KV cache"] + found.parts["free"]) * rack.gpus
    rate = float(found.per_gpu[0]) * rack.gpus / asked.output_tokens
    return made, joined.tiers(rack, room, rack.gpus, found.layout.decode.tp), rate, found


@cache
def carried(asked: Asked, system: str, tpot_s: float, calls: int, think_s: float) -> Carried:
    """Return one full rack of a system under a TPOT limit [s]: hits decide what it serves, what it serves decides how many sessions share its caches.

    Parameters: asked, its cache_hits is where the search starts; calls [1] of a session, think_s [s] between them. Central case.
    Raises: InputError; Infeasible where nothing serves.
    """
    hits, low, high = asked.cache_hits, 0.0, 0.99
    for _ in range(ROUNDS):
        made, places, rate, found = _joined(replace(asked, cache_hits=hits), system, tpot_s, calls, think_s)
        out = model.residency(made, rate, _bytes_per_token(asked, system, tpot_s), places, exclusive=True)
        reached = min(0.99, float(sum(out["hit_fraction"].values())))
        if abs(reached - hits) < CLOSE:
            break
        low, high = (hits, high) if reached > hits else (low, hits)  # more hits, more calls, fewer hits: one crossing
        hits = (low + high) / 2
    numbers = {k: {n: float(v) for n, v in out[k].items()} for k in ("hit_fraction", "kept_seconds", "restore_seconds")}
    return Carried(
        system, float(found.per_gpu[0]), float(model.live_sessions(made, rate)), numbers["hit_fraction"], float(model.structural_hit_fraction(made)),
        float(out["prefill_tokens"]), numbers["kept_seconds"], numbers["restore_seconds"], found.layout.label,
    )  # fmt: skip


def hits_along(asked: Asked, system: str, tpot_s: float, calls: int, think_s: float, live) -> dict[str, np.ndarray]:
    """Return the share of input found in a tier or one above it, tier by tier, for numbers of live sessions on one rack.

    The time of a call is that at the fixed point. Parameters: live (n,) [1]. Raises: InputError; Infeasible.
    """
    middle = carried(asked, system, tpot_s, calls, think_s)
    hits = min(0.99, sum(middle.hits.values()))
    made, places, _, _ = _joined(replace(asked, cache_hits=round(hits, 3)), system, tpot_s, calls, think_s)
    rates, each = model.calls_per_s(made, np.asarray(live, dtype=float)), _bytes_per_token(asked, system, tpot_s)
    out = model.residency(made, rates, each, places, exclusive=True)
    whole, sums = np.zeros(np.shape(live)), {}
    for name, share in out["hit_fraction"].items():
        whole = whole + share
        sums[name] = whole
    return sums
