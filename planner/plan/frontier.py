"""The frontier of one workload on one system: output tokens a GPU against tokens per second per user, each point a layout of its own."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from planner import scenario as scenarios
from planner.calibration.serving.submissions import weights_of
from planner.draws import interval
from planner.errors import Infeasible, InputError
from planner.facts import catalog
from planner.plan import serving
from planner.plan.answer import weakest
from planner.plan.case import Case, resolve
from planner.plan.serving import Pairing
from planner.plan.throughput import Throughput, best
from planner.units import fraction, positive

SPEEDS = (8.0, 12.0, 18.0, 25.0, 33.0, 45.0, 60.0, 80.0, 105.0, 140.0, 180.0, 240.0, 320.0)  # tokens a second and user that are asked for
POOLS = ("both", "aggregated", "disaggregated")


@dataclass(frozen=True)
class Asked:
    """What is asked of a system, the speed aside: lengths [token], cache_hits [1] of input tokens, ttft_s [s] or None, software, layout limits.

    largest_gpus [1] of one replica or worker, None for the whole NVLink domain; pools, one of `POOLS`.
    """

    model: str
    input_tokens: float
    output_tokens: float
    cache_hits: float = 0.0
    ttft_s: float | None = None
    mtp: bool = False
    software: str = "current"
    largest_gpus: int | None = None
    pools: str = "both"

    def __post_init__(self):
        positive("input_tokens", self.input_tokens)
        positive("output_tokens", self.output_tokens)
        fraction("cache_hits", self.cache_hits)
        if self.pools not in POOLS:
            raise InputError("pools", self.pools, f"must be one of {', '.join(POOLS)}")
        if self.largest_gpus is not None:
            positive("largest_gpus", self.largest_gpus)

    def allows(self, pair: Pairing) -> bool:
        """Return whether a pairing keeps the layout limits."""
        within = self.largest_gpus is None or max(pair.decode.gpus, pair.prefill.gpus) <= self.largest_gpus
        return within and (self.pools == "both" or pair.aggregated is (self.pools == "aggregated"))

    @property
    def limited(self) -> bool:
        """Whether some layouts are not allowed."""
        return self.largest_gpus is not None or self.pools != "both"


@dataclass(frozen=True)
class Point:
    """One point: asked_speed [1/s] tokens per user as the limit's inverse, speed [1/s] as reached on average; per_gpu [1/s] with low and high;
    ttft [s] at the SLO's quantile, batch [1] of a decode replica; layout and limit in words; the decode step [s] by part."""

    asked_speed: float
    speed: float
    per_gpu: float
    low: float
    high: float
    ttft: float
    batch: float
    layout: str
    limit: str
    aggregated: bool
    step: dict[str, float]


@dataclass(frozen=True)
class Frontier:
    """The points of one system, slowest first; refused, why faster ones are not there, or ""; how, grade and claims of its inputs."""

    system: str
    points: tuple[Point, ...]
    refused: str
    how: str
    grade: str
    claims: tuple[str, ...]

    def at(self, speed: float) -> float:
        """Return output tokens per GPU at a speed [1/s], log-log between points, nan outside what is reached."""
        xs, ys = (np.array([getattr(p, k) for p in self.points]) for k in ("speed", "per_gpu"))
        if not len(xs) or speed > xs[-1] * (1 + 1e-9):
            return math.nan
        return float(np.exp(np.interp(math.log(speed), np.log(xs), np.log(ys))))


@cache
def case_of(asked: Asked, system: str, tpot_s: float | None) -> Case:
    """Return one system, `name` or `name/profile`, under a TPOT limit [s], ready for the plan; the weight format is what submissions use on it.

    Raises: InputError for names, lengths and releases that are not known.
    """
    name, _, profile = system.partition("/")
    rack = catalog.system(name, profile or None)
    place = {"name": name, "software": asked.software} | ({"profile": profile} if profile else {})
    slo = {k: float(v) for k, v in (("ttft_s", asked.ttft_s), ("tpot_s", tpot_s)) if v is not None}
    load = {
        "name": "frontier",
        "model": asked.model,
        "weight_format": weights_of(asked.model, rack),
        "kv_format": "fp8",
        "input_tokens": float(asked.input_tokens),
        "output_tokens": float(asked.output_tokens),
        "cache_hit_fraction": float(asked.cache_hits),
        "requests_per_s": 100.0,
        "mtp": bool(asked.mtp),
        "slo": slo,
    }
    content = {"schema": 1, "name": "frontier", "as_of": datetime.date(2026, 11, 30), "site": {"pue": 1.2}, "systems": [place], "workloads": [load]}
    return resolve(scenarios.parse(content))[0]


@cache
def point_of(asked: Asked, system: str, tpot_s: float | None, drawn: bool = True) -> Throughput:
    """Return the best that a system does under a TPOT limit [s] within the layout limits; drawn, with draws or the central case alone.

    Raises: InputError; Infeasible where nothing serves.
    """
    case = case_of(asked, system, tpot_s)
    return best(case if drawn else serving.central(case), asked.allows if asked.limited else None)


def as_point(speed: float, found: Throughput) -> Point:
    """Return what was found under a speed asked for [1/s] as a point."""
    value, low, high = interval(found.per_gpu) if len(found.per_gpu) > 1 else (float(found.per_gpu[0]),) * 3
    middle = (1 / float(found.tpot[0]), value, low, high, float(found.ttft[0]), found.batch)
    return Point(speed, *middle, found.layout.label, found.limit, found.layout.aggregated, found.step)


@cache
def frontier(asked: Asked, system: str, speeds: tuple[float, ...] = SPEEDS, drawn: bool = True) -> Frontier:
    """Return the frontier of a system over speeds asked for [1/s]; points that another beats in both speed and throughput are left out.

    Raises: InputError. A speed that nothing reaches ends the frontier and says why.
    """
    points, refused, previous = [], "", None
    for speed in sorted(speeds):
        try:
            found = point_of(asked, system, 1 / speed, drawn)
        except Infeasible as error:
            refused = error.limit
            break
        one = as_point(speed, found)
        while points and one.per_gpu >= points[-1].per_gpu:
            points.pop()
        if previous is None or one.speed > previous.speed * (1 + 1e-6) or not points:
            points.append(one)
        previous = one
    case = case_of(asked, system, 1 / min(speeds))
    inputs = case.speed_inputs
    claims = tuple(dict.fromkeys(c for d in inputs.values() for c in d.claims))
    how = "extrapolated" if case.extrapolated else "modelled"
    return Frontier(system, tuple(points), refused, how, weakest(*(d.grade for d in inputs.values())), claims)


def aggregated_against_disaggregated(asked: Asked, system: str, speeds: tuple[float, ...] = SPEEDS) -> list[tuple[float, float, float]]:
    """Return (speed asked for, aggregated, disaggregated) in output tokens per GPU [1/s], central case, 0 where it does not serve.

    Raises: InputError.
    """
    rows = []
    for speed in sorted(speeds):
        pair = []
        for kind in POOLS[1:]:
            try:
                pair.append(float(point_of(replace(asked, pools=kind), system, 1 / speed, False).per_gpu[0]))
            except Infeasible:
                pair.append(0.0)
        rows.append((speed, *pair))
    return rows
