"""Tokens per megawatt along per-user speed, and the ten-fold claim on both systems' curves: what makes it, and what would have to be true."""

from __future__ import annotations

from functools import cache

import numpy as np

from planner import scenario as scenarios
from planner.draws import Distribution, between, interval, sample
from planner.errors import Infeasible, InputError
from planner.facts import catalog
from planner.facts.evidence import claim
from planner.plan.case import Case, resolve
from planner.sensitivity import plan_draws
from planner.sensitivity.analysis import WhatMustHold, shares_of_ratio, what_must_hold
from planner.units import positive

NEW, OLD = ("vr-nvl72", "upto"), ("gb200-nvl72", "")
CLAIM, SPEED = "H0397", 150.0
CLAIMED_LEVELS = ("H0398", "H0399")
EASY_SPEED = 20.0  # tokens per second per user at which both systems are far from their knee
CAUSES = ("hardware", "power setting, with the rest of the rack", "software", "interactivity")


@cache
def case_at(system: str, profile: str, speed: float, mtp: bool, input_tokens: float, output_tokens: float) -> Case:
    """Return DeepSeek-R1 in NVFP4 on one system at a per-user speed [1/s], ready for the plan. Raises: InputErrors as the scenario."""
    place = {"name": system} | ({"profile": profile} if profile else {})
    content = {"schema": 1, "name": "headline", "as_of": _today(), "site": {"pue": 1.2}, "systems": [place],
               "workloads": [{"name": "chat", "model": "deepseek-ai/DeepSeek-R1", "weight_format": "nvfp4", "kv_format": "fp8",
                              "input_tokens": float(input_tokens), "output_tokens": float(output_tokens), "requests_per_s": 200.0, "mtp": mtp,
                              "slo": {"tpot_s": 1 / float(positive("speed", speed))}}]}
    return resolve(scenarios.parse(content))[0]


def _today():
    import datetime

    return datetime.date(2026, 11, 30)


def kw_per_gpu(system: str, profile: str) -> float:
    """Return the provisioned IT power of one GPU with its share of the rack [kW]. Raises: InputError."""
    rack = catalog.system(system, profile or None)
    return (rack.gpus * rack.accelerator.gpu_watts + rack.overhead_watts) / rack.gpus / 1e3


def per_gpu(case: Case, columns, chosen=None) -> np.ndarray:
    """Return output tokens per deployed GPU over columns (n,) [1/s] on the best of the layouts chosen (absent: the 16 best), 0 where none does it."""
    chosen = plan_draws.best_layouts(case) if chosen is None else chosen
    return plan_draws.reach_of(plan_draws.with_columns(case, columns), chosen)[1].max(axis=0)


def curve(system: str, profile: str, speeds, mtp: bool = True, input_tokens: float = 8192, output_tokens: float = 1024, num: int = 256) -> np.ndarray:
    """Return tokens per second per IT megawatt along per-user speeds (3, n): central, 10th and 90th percentile; output tokens, provisioned power.

    0 where the speed cannot be met. Raises: InputError.
    """
    rows = []
    for speed in np.atleast_1d(speeds):
        case = case_at(system, profile, float(speed), mtp, input_tokens, output_tokens)
        values = per_gpu(case, sample(plan_draws.inputs_of([case]), num)) / kw_per_gpu(system, profile) * 1e3
        rows.append(interval(values))
    return np.array(rows).T


def _central(system: str, profile: str, speed: float, mtp: bool, lengths: tuple[float, float]) -> float:
    case = case_at(system, profile, speed, mtp, *lengths)
    value = float(per_gpu(case, {plan_draws.column(case, n): d.values[:1] for n, d in case.inputs.items()})[0])
    if value <= 0:
        raise Infeasible("slo", f"{system} cannot reach {speed:g} tokens/s per user in the central case", "a lower speed")
    return value


def shares(speed: float = SPEED, old_mtp: bool = True, input_tokens: float = 8192, output_tokens: float = 1024,
           new: tuple[str, str] = NEW) -> dict[str, float]:
    """Split the ratio of tokens per megawatt at one speed into hardware, power setting, software and interactivity; they multiply to the ratio.

    Software is 1 where both sides run multi-token prediction (old_mtp, as the claim says); interactivity is what raising the speed from 20 tokens/s
    to `speed` on both sides adds; new, system and profile of the new side (its other pairing: maxlps at 1,800 W).
    Raises: Infeasible where a side cannot reach the speed.
    """
    lengths = (input_tokens, output_tokens)

    def value(on: frozenset[str]) -> float:
        at = speed if "interactivity" in on else EASY_SPEED
        place = new if "hardware" in on else OLD
        power = new if CAUSES[1] in on else OLD
        mine = _central(*place, at, old_mtp or "software" in on, lengths) / kw_per_gpu(*power)
        return mine / (_central(*OLD, at, old_mtp, lengths) / kw_per_gpu(*OLD))

    return shares_of_ratio(value, CAUSES)


def inputs(speed: float = SPEED, input_tokens: float = 8192, output_tokens: float = 1024) -> dict[str, Distribution]:
    """Return the inputs that the claim's ratio rests on: shared software, each side's hardware and rack power, and the new software's edge."""
    sides = [case_at(*place, speed, True, input_tokens, output_tokens) for place in (NEW, OLD)]
    found = {n: d for n, d in plan_draws.inputs_of(sides).items() if d.varies and not any(w in n for w in ("watts", "gpu_hour"))}
    for place in (NEW, OLD):
        rack = catalog.system(place[0], place[1] or None)
        behind = catalog.claims_behind(rack)["overhead_watts"]
        kw = [(rack.gpus * rack.accelerator.gpu_watts + o) / rack.gpus / 1e3 for o in (rack.overhead_watts, behind.low, behind.high)]
        found[f"{rack.label}: kW per GPU"] = between(*kw)
    found["software edge of the new system"] = between(1.0, 0.8, 1.5)
    return found


def ratio_model(speed: float = SPEED, input_tokens: float = 8192, output_tokens: float = 1024):
    """Return a `Model`: the columns of `inputs` -> the ratio of tokens per megawatt at one speed; draws in which a side fails count 1e-3 or 1e3."""
    new, old = (case_at(*place, speed, True, input_tokens, output_tokens) for place in (NEW, OLD))
    layouts = [plan_draws.best_layouts(c) for c in (new, old)]
    names = {place: catalog.system(place[0], place[1] or None).label for place in (NEW, OLD)}
    fixed = {plan_draws.column(c, n): float(d.values[0]) for c in (new, old) for n, d in c.inputs.items()}

    def model(columns: dict[str, np.ndarray]) -> np.ndarray:
        size = len(next(iter(columns.values())))
        whole = {n: columns.get(n, np.full(size, v)) for n, v in fixed.items()}
        edge = columns.get("software edge of the new system", np.ones(size))
        own = plan_draws.column(new, "software_factor")
        first = per_gpu(new, whole | {own: whole[own] * edge}, layouts[0])
        second = per_gpu(old, whole, layouts[1])
        kw = [columns.get(f"{names[place]}: kW per GPU", np.full(size, kw_per_gpu(*place))) for place in (NEW, OLD)]
        ratio = np.where(second > 0, first / np.where(second > 0, second, 1.0), np.where(first > 0, 1e3, 1.0))
        return np.clip(ratio * kw[1] / kw[0], 1e-3, 1e3)

    return model


def what_ten_fold_needs(target: float | None = None, speed: float = SPEED, num: int = 512) -> WhatMustHold:
    """Return what would have to be true for the claim's ratio at its speed. Raises: Infeasible where nothing inside the ranges does it."""
    wanted = claim(CLAIM).value if target is None else float(positive("target", target))
    return what_must_hold(ratio_model(speed), inputs(speed), wanted, num=num)


def claimed_levels() -> tuple[float, float]:
    """Return the two levels behind the claim (new, old) [token/s/MW]; their boundary is not disclosed."""
    new, old = (claim(i) for i in CLAIMED_LEVELS)
    if new.value is None or old.value is None:
        raise InputError("claim", CLAIMED_LEVELS, "must hold numbers")
    return new.value, old.value
