"""Draws through the whole plan, indices, and the timeline over many futures: targets are on one core."""

from __future__ import annotations

from functools import cache

import numpy as np

from planner import scenario
from planner.facts.files import folder
from planner.plan.case import resolve
from planner.sensitivity import plan_draws, sobol_indices
from planner.timeline import search
from planner.timeline.demand import grown
from planner.timeline.ledger import Order, Supply
from planner.timeline.simulate import Future, Site, simulate

WORKLOADS = ("a", "b", "c", "d")
MONTHS, DRAWS = 60, 10_000


@cache
def _cases():
    found = resolve(scenario.load(folder("scenarios") / "rubin-vs-gb300.toml"))
    return [found[0], found[-1]]


def _draws() -> None:
    plan_draws.compare(_cases(), 100_000)


def _indices() -> None:
    case = _cases()[-1]
    inputs = {k: v for k, v in plan_draws.inputs_of([case]).items() if v.varies}
    sobol_indices(plan_draws.model_of(case, "tokens_per_s_per_gpu"), inputs, 512)


def _supplies(initial: int = 0) -> list[Supply]:
    now, later, rented = ({w: rate * (i + 1) for i, w in enumerate(WORKLOADS)} for rate in (100.0, 250.0, 220.0))
    return [Supply("now", now, 72, 160e3, 6, 1, usd=3e6, running_usd_per_month=1e4, initial=initial),
            Supply("later", later, 72, 260e3, 9, 1, 6, usd=7.8e6, running_usd_per_month=2e4, start_fraction=0.6, mature_months=12),
            Supply("rented", rented, 72, 220e3, 9, 1, 6, rent_usd_per_month=4e5)]


def _futures() -> None:
    supplies = _supplies()
    rng = np.random.default_rng(0)
    need = {w: grown(500 * np.exp(0.2 * rng.standard_normal(DRAWS)), 0.03 + 0.01 * rng.standard_normal(DRAWS), MONTHS) for w in WORKLOADS}
    orders = [Order(s.name, m, 3) for s in supplies for m in range(s.first_month, 50)]
    future = Future(rng.integers(0, 4, (DRAWS, 3)), *(np.exp(0.1 * rng.standard_normal((DRAWS, 3))) for _ in range(2)))
    simulate(supplies, orders, need, future=future, site=Site(np.linspace(20e6, 60e6, MONTHS)), spares={"now": 1})


def _search() -> None:
    search.cheapest(_supplies(20), {w: grown(5000.0, 0.03, MONTHS) for w in WORKLOADS}, search.Limits(serve_from=10))


def cases():
    """Return the benchmarks of this area: (name, callable, target text, target seconds)."""
    return [
        ("100,000 draws through the plan of two systems, 8 layouts each", _draws, "10 s", 10.0),
        ("Sobol indices of throughput, 512 base points", _indices, "10 s", 10.0),
        ("60 months x 4 workloads x 3 systems x 10,000 futures", _futures, "5 s", 5.0),
        ("cheapest phased plan, 60 months x 4 workloads x 3 systems", _search, "20 s", 20.0),
    ]
