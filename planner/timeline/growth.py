"""A scenario's [timeline] on one option of its plan: racks by month, what to order by when, and when site or fabric are full."""

from __future__ import annotations

import datetime

import numpy as np

from planner.plan.types import Growth, Option, Ordered
from planner.scenario import Scenario
from planner.timeline.demand import grown
from planner.timeline.ledger import Supply
from planner.timeline.simulate import order_by, racks_path

MOST_RACKS = 1e6


def month_after(start: datetime.date, months: int) -> str:
    """Return the month that lies so many months after a date, as 2026-11."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    return f"{year:04d}-{month + 1:02d}"


def _path(option: Option, each: float, demand: np.ndarray, rack_watts: float, lead_months: int) -> tuple[Supply, np.ndarray]:
    """Return the option as a supply whose racks give `each` [1/s], and the racks in all that it needs by month: serving, survival and spare."""
    gpus = round(option.value("gpus_total") / option.value("racks_total"))
    supply = Supply(option.system, {option.workload: each}, gpus, rack_watts, lead_months)
    return supply, racks_path(supply, {option.workload: demand}) + option.value("racks_survival") + option.value("racks_spare")


def growth(option: Option, scenario: Scenario) -> Growth | None:
    """Return how an option grows, None without a [timeline] or for an option that serves nothing.

    The load as typed is that of month 0, the month of `as_of`, and grows geometrically; no racks are at hand, so that the first order serves its lead
    time later. Ranges are of the throughput alone. Raises: nothing for a plan that was made.
    """
    given, speed = scenario.timeline, option.answers.get("tokens_per_s_per_rack")
    if given is None or speed is None:
        return None
    watts = option.value("rack_power") * 1e3 * scenario.site.pue
    with np.errstate(over="ignore"):
        demand = grown(option.value("peak_tokens_per_s"), given.growth_per_month, given.months)
    fits = demand / speed.low < MOST_RACKS
    shown = int(np.argmin(fits)) if not fits.all() else given.months
    if not shown:
        return None
    demand = demand[:shown]
    supply, racks = _path(option, speed.value, demand, watts, given.lead_time_months)
    low, high = (_path(option, each, demand, watts, given.lead_time_months)[1] for each in (speed.high, speed.low))
    lead, fit, lasts = given.lead_time_months, option.value("racks_that_fit"), option.value("fabric_growth")
    full = None if fit is None else _first(racks > fit)
    moved = None if lasts is None else _first(racks * supply.gpus > lasts)
    return Growth(
        months=tuple(month_after(scenario.as_of, m) for m in range(shown)),
        racks=_whole(racks),
        racks_low=_whole(low),
        racks_high=_whole(high),
        facility_mw=tuple(float(mw) for mw in racks * watts / 1e6),
        orders=_orders(supply, racks, lead, scenario.as_of),
        first_served=month_after(scenario.as_of, lead),
        site_full="" if full is None else month_after(scenario.as_of, full),
        fabric_full="" if moved is None else month_after(scenario.as_of, moved),
        note="" if shown == given.months else f"more than {MOST_RACKS:,.0f} racks from {month_after(scenario.as_of, shown)} on: not shown",
    )


def _whole(racks: np.ndarray) -> tuple[int, ...]:
    return tuple(int(n) for n in racks)


def _first(hit: np.ndarray) -> int | None:
    return int(np.argmax(hit)) if hit.any() else None


def _orders(supply: Supply, racks: np.ndarray, lead: int, start: datetime.date) -> tuple[Ordered, ...]:
    """Return the orders in time: what is needed before an order of today can serve is ordered today, and comes late."""
    if lead >= len(racks):
        return ()
    reachable = np.concatenate([np.full(lead, racks[lead]), racks[lead:]])
    steps = order_by(supply, reachable)
    return tuple(Ordered(month_after(start, max(0, s.order_by)), month_after(start, max(lead, s.needed)), s.racks) for s in steps)
