"""One plan of orders through many futures: racks, power, shortfall and cash by month, the chance of running out, and order-by dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.errors import Infeasible, InputError
from planner.timeline import fleet, money
from planner.timeline.ledger import Ledger, Order, Supply, ledger
from planner.units import count, nonnegative, whole_up


@dataclass(frozen=True)
class Site:
    """What the site takes by month, never falling: watts (months,) [W] at the meter and racks (months,) [1]; None where it does not bind."""

    watts: np.ndarray | None = None
    racks: np.ndarray | None = None


@dataclass(frozen=True)
class Future:
    """Uncertain things, one row a draw, None where certain: late (draws, supplies) months; throughput and price (draws, supplies) [1] factors."""

    late: np.ndarray | None = None
    throughput: np.ndarray | None = None
    price: np.ndarray | None = None


@dataclass(frozen=True)
class Timeline:
    """What a plan of orders leads to: ledger, allocation, watts (draws, months) [W] at the meter of powered racks, switches (draws, months), and
    cash by part (draws, months) [USD], None where a price is missing."""

    supplies: tuple[Supply, ...]
    ledger: Ledger
    fleet: fleet.Allocation
    watts: np.ndarray
    switches: np.ndarray
    cash: dict[str, np.ndarray] | None
    warnings: tuple[str, ...]

    @property
    def out_by_month(self) -> np.ndarray:
        """The chance that some workload is short in each month (months,) [1]."""
        return (self.fleet.short > 0).any(1).mean(0)

    @property
    def served_all(self) -> float:
        """The chance that no workload is short in any month [1]."""
        return float(1 - (self.fleet.short > 0).any((1, 2)).mean())

    def first_short(self) -> int | None:
        """Return the first month in which at least half of the futures are short, None where there is none."""
        months = np.flatnonzero(self.out_by_month >= 0.5)
        return int(months[0]) if len(months) else None


def simulate(supplies: Sequence[Supply], orders: Sequence[Order], demand: Mapping[str, np.ndarray], *, site: Site | None = None,
             future: Future | None = None, spares: Mapping[str, int] | None = None, **sharing) -> Timeline:
    """Run a plan of orders against demand.

    Parameters: supplies; orders; demand, workload -> (months,) or (draws, months) [1/s] at the busiest hour; site; future; spares, supply -> racks
    kept hot; sharing, `priority`, `hourly` and `prefer` of `fleet.allocate`. Returns: Timeline. Raises: InputError; Infeasible.
    """
    future, site = future or Future(), site or Site()
    if not demand:
        raise InputError("demand", 0, "must name at least one workload")
    months = np.atleast_2d(next(iter(demand.values()))).shape[1]
    for name, series in demand.items():
        if np.atleast_2d(series).shape[1] != months:
            raise InputError(f"demand.{name}", np.atleast_2d(series).shape[1], f"must hold one value a month, as the others ({months})")
    drawn = {f"demand.{name}": len(np.atleast_2d(series)) for name, series in demand.items()}
    drawn |= {name: len(rows) for name in ("late", "throughput", "price") if (rows := getattr(future, name)) is not None}
    most = max(drawn.values())
    for name, draws in drawn.items():
        if draws not in (1, most):
            raise InputError(name, draws, f"must hold as many draws as the others ({most}), or one")
    found = ledger(supplies, orders, months, future.late, spares, site.watts, site.racks)
    given = fleet.allocate(supplies, found.in_service, demand, factor=future.throughput, **sharing)
    powered = found.in_service + found.states["spare"]
    watts = np.einsum("dsm,s->dm", powered, [s.watts for s in supplies])
    switches = np.einsum("dsm,s->dm", found.ordered - found.states["retired"] - found.states["in transit"], [s.switches for s in supplies])
    warnings, cash = list(found.warnings), None
    try:
        cash = money.cash_flow(supplies, found, future.price)
    except InputError as error:
        warnings.append(f"cash flow not available: {error}")
    return Timeline(tuple(supplies), found, given, watts, switches, cash, tuple(warnings))


@dataclass(frozen=True)
class OrderBy:
    """Racks of a supply that must be in service from `needed` on: order them by month `order_by`; late where that month has passed (below 0)."""

    supply: str
    needed: int
    racks: int
    order_by: int

    @property
    def late(self) -> bool:
        """Whether the month to order in lies before the first."""
        return self.order_by < 0


def order_by(supply: Supply, racks_needed: Sequence[int], extra_months: int = 0) -> list[OrderBy]:
    """Return when to order so that a path of racks is in service: each step up, its lead time and acceptance earlier.

    Parameters: supply, its initial racks counted; racks_needed (months,) in service; extra_months, a margin on the lead time.
    Returns: one OrderBy a step. Raises: InputError; Infeasible (lead time) never: late orders say so. Validity: no retirement inside the horizon.
    """
    path = count("racks_needed", np.asarray(racks_needed), 0)
    have, steps = supply.initial, []
    for month, need in enumerate(path):
        if need > have:
            steps.append(OrderBy(supply.name, month, int(need - have), month - supply.delay - int(count("extra_months", extra_months, 0))))
            have = int(need)
    return steps


def racks_path(supply: Supply, demand: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the racks of one supply that all workloads need in each month, in whole domains (months,). Raises: Infeasible (demand)."""
    months = len(next(iter(demand.values())))
    speed = fleet.rates([supply], list(demand), months)[0, 0]
    if (speed <= 0).any():
        raise Infeasible("demand", f"{supply.name} serves only some of {', '.join(demand)}", "another supply for the rest")
    return np.sum([whole_up(nonnegative(f"demand.{w}", demand[w]) / speed[i]) for i, w in enumerate(demand)], axis=0)


def fabric_ends(found: Timeline, promised_gpus: int) -> int | None:
    """Return the first month in which delivered racks hold more GPUs than the fabric takes without moving a cable, None where it lasts.

    Parameters: found; promised_gpus [1], `gpus` of `models.fabric.growth`; the future with the most GPUs counts. Raises: InputError.
    """
    most = int(count("promised_gpus", promised_gpus))
    states = found.ledger.states
    standing = found.ledger.ordered - states["in transit"] - states["retired"]
    gpus = np.einsum("dsm,s->dm", standing, [s.gpus for s in found.supplies]).max(axis=0)
    months = np.flatnonzero(gpus > most)
    return int(months[0]) if len(months) else None
