"""A site, a workload that grows, racks now or later: plain numbers to supplies, demand, futures and plans side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.draws import Distribution, between, sample
from planner.errors import Infeasible, InputError
from planner.timeline import search
from planner.timeline.demand import between as typed_between
from planner.timeline.demand import grown
from planner.timeline.ledger import Supply
from planner.timeline.search import Chosen, Limits
from planner.timeline.simulate import Future, Site
from planner.units import count, fraction, positive

STRATEGIES = ("now", "wait", "both")
LATE = between(1.0, 0.0, 3.0)  # months by which the later system slips, assumed
THROUGHPUT, PRICE = between(1.0, 0.85, 1.15), between(1.0, 0.9, 1.15)  # against what the supplies say, assumed


@dataclass(frozen=True)
class Story:
    """One site. now and later, the two supplies; workload, its name; start [1/s] peak demand of month 0 and growth [1] a month, with ranges;
    months; site_watts [W]; chance [1] asked for; serve_from [1] the first month promised; late, months by which the later supply slips;
    throughput and price, factors on what the supplies say; typed, workload -> (3, months) of `demand.read`, instead of start and growth."""

    now: Supply
    later: Supply
    workload: str
    start: Distribution
    growth: Distribution
    months: int
    site_watts: float
    chance: float = 0.8
    serve_from: int = 0
    late: Distribution = LATE
    throughput: Distribution = THROUGHPUT
    price: Distribution = PRICE
    typed: Mapping[str, np.ndarray] | None = None

    def __post_init__(self):
        count("months", self.months, 2, 240)
        positive("site_watts", self.site_watts)
        fraction("chance", self.chance, zero=False)
        for name, ends in (self.typed or {}).items():
            if np.shape(ends) != (3, self.months):
                raise InputError(f"typed.{name}", np.shape(ends), f"must hold value, low and high of {self.months} months")
        if self.now.name == self.later.name:
            raise InputError("later", self.later.name, "must have another name than now")

    def supplies(self, strategy: str) -> list[Supply]:
        """Return the supplies that a strategy may order: now alone, later alone (racks at hand stay), or both. Raises: InputError."""
        if strategy not in STRATEGIES:
            raise InputError("strategy", strategy, f"must be one of {', '.join(STRATEGIES)}")
        if strategy == "now":
            return [self.now]
        if strategy == "both":
            return [self.now, self.later]
        return [replace(self.now, first_month=self.months), self.later] if self.now.initial else [self.later]

    def limits(self) -> Limits:
        """Return the limits of the search: the site's power and the first month promised."""
        return Limits(Site(np.full(self.months, float(self.site_watts))), serve_from=self.serve_from)

    def futures(self, num: int = 512, seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return (demand (num, months) by workload, drawn inputs (num,)) of seeded futures."""
        inputs = {"start": self.start, "growth": self.growth, "late": self.late, "throughput": self.throughput, "price": self.price}
        drawn = {n: v[1:] for n, v in sample(inputs, num, seed).items()}
        if self.typed is not None:
            scores = np.random.default_rng(seed).standard_normal(num)  # one path for all workloads: a year runs high or low as a whole
            return {name: typed_between(np.asarray(ends), scores) for name, ends in self.typed.items()}, drawn
        return {self.workload: grown(drawn["start"], np.maximum(drawn["growth"], -0.9), self.months)}, drawn


def future_of(story: Story, drawn: Mapping[str, np.ndarray], supplies: list[Supply]) -> Future:
    """Return the uncertain things of a story as a Future: lateness in whole months of the later supply, throughput and price of all."""
    late = np.zeros((len(drawn["late"]), len(supplies)), int)
    for i, s in enumerate(supplies):
        if s.name == story.later.name:
            late[:, i] = np.maximum(np.rint(drawn["late"]), 0).astype(int)
    both = [np.repeat(drawn[n][:, None], len(supplies), axis=1) for n in ("throughput", "price")]
    return Future(late, *both)


@dataclass(frozen=True)
class Told:
    """What became of one strategy: the plan, or the reason why there is none."""

    strategy: str
    chosen: Chosen | None
    reason: str = ""


def tell(story: Story, strategy: str, num: int = 512, seed: int = 0, seconds: float = 20.0) -> Told:
    """Return the cheapest plan of a strategy whose futures are served with the story's chance, or why there is none.

    A plan that orders only what can be had now is one of "both" too, and is taken where it is cheaper. Raises: InputError.
    """
    demand, drawn = story.futures(num, seed)
    plans, reason = [], ""
    for name in ("now", "both") if strategy == "both" else (strategy,):
        supplies = story.supplies(name)
        try:
            plans.append(search.with_chance(supplies, demand, story.chance, story.limits(), future_of(story, drawn, supplies), seconds))
        except Infeasible as error:
            reason = str(error)
    return Told(strategy, min(plans, key=lambda c: c.found.usd) if plans else None, "" if plans else reason)


def runs_out(story: Story, strategy: str, num: int = 512, seed: int = 0) -> int | None:
    """Return the first month that no plan of a strategy can serve at the chance asked for, None where all can be. Raises: InputError."""
    supplies = story.supplies(strategy)
    demand, drawn = story.futures(num, seed)
    future = future_of(story, drawn, supplies)
    worst = search.worst_demand(supplies, demand, future, story.chance)
    try:
        search.cheapest(search.delayed(supplies, future, story.chance), worst, story.limits())
    except Infeasible as error:
        words = error.limit.split()
        return int(words[words.index("month") + 1]) if "month" in words else 0
    return None
