"""Racks by month: ordered, in transit, in acceptance, in service, spare, without power, retired; they sum to what was ordered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from planner.errors import InputError
from planner.units import count, fraction, nonnegative, positive

STATES = ("in transit", "in acceptance", "in service", "spare", "without power", "retired")


@dataclass(frozen=True)
class Supply:
    """One system as an order sees it. throughput, workload -> units [1/s] of one rack at the SLO, utilisation taken off, software mature.

    gpus [1] of a rack; watts [W] of a rack at the meter, provisioned; lead_months from order to delivery; acceptance_months of screening;
    first_month [1] that can be ordered; life_months in service; usd [USD] of a rack, None = not sold or no price; rent_usd_per_month [USD] of a
    rack, None = not let or no price; running_usd_per_month [USD] power, space and staff of a rack; residual_fraction [1] of the price at
    the end of life; initial [1] racks in service at month 0; start_fraction [1] of the throughput with today's software, and
    mature_months until all of it; switches [1] a rack.
    """

    name: str
    throughput: Mapping[str, float]
    gpus: int
    watts: float
    lead_months: int
    acceptance_months: int = 0
    first_month: int = 0
    life_months: int = 60
    usd: float | None = None
    rent_usd_per_month: float | None = None
    running_usd_per_month: float = 0.0
    residual_fraction: float = 0.0
    initial: int = 0
    start_fraction: float = 1.0
    mature_months: int = 0
    switches: float = 0.0

    def __post_init__(self):
        for name in ("lead_months", "acceptance_months", "first_month", "life_months", "initial", "mature_months"):
            count(f"{self.name}.{name}", getattr(self, name), 1 if name == "life_months" else 0, 1200 if name != "initial" else 10**7)
        count(f"{self.name}.gpus", self.gpus)
        positive(f"{self.name}.watts", self.watts)
        if not self.throughput:
            raise InputError(f"{self.name}.throughput", 0, "must name at least one workload")
        for workload, rate in self.throughput.items():
            nonnegative(f"{self.name}.throughput.{workload}", rate)
        for name in ("usd", "rent_usd_per_month"):
            if getattr(self, name) is not None:
                positive(f"{self.name}.{name}", getattr(self, name))
        if self.usd is not None and self.rent_usd_per_month is not None:
            raise InputError(f"{self.name}.rent_usd_per_month", self.rent_usd_per_month, "must be absent where the rack is bought: name two supplies")
        nonnegative(f"{self.name}.running_usd_per_month", self.running_usd_per_month)
        nonnegative(f"{self.name}.switches", self.switches)
        fraction(f"{self.name}.residual_fraction", self.residual_fraction)
        fraction(f"{self.name}.start_fraction", self.start_fraction, zero=False)
        object.__setattr__(self, "throughput", MappingProxyType(dict(self.throughput)))

    def __hash__(self):  # a mapping has none of its own
        return hash((self.name, self.lead_months, self.usd, self.watts, tuple(sorted(self.throughput.items()))))

    @property
    def delay(self) -> int:
        """Months from the order to the first month in service."""
        return self.lead_months + self.acceptance_months

    def maturity(self, months: int) -> np.ndarray:
        """Return the share of its mature throughput in each month (months,), straight from start_fraction to 1."""
        if self.mature_months == 0:
            return np.ones(months)
        return np.minimum(1.0, self.start_fraction + (1 - self.start_fraction) * np.arange(months) / self.mature_months)


@dataclass(frozen=True)
class Order:
    """Racks of one supply, ordered at the start of a month."""

    supply: str
    month: int
    racks: int

    def __post_init__(self):
        count("order.month", self.month, 0, 1200)
        count("order.racks", self.racks, 0, 10**7)


@dataclass(frozen=True)
class Phase:
    """So many racks of one supply in each month from first to last, both included."""

    supply: str
    first: int
    last: int
    racks_per_month: int

    def orders(self) -> list[Order]:
        """Return its orders, month by month."""
        return [Order(self.supply, m, self.racks_per_month) for m in range(self.first, self.last + 1)]


def phased(phases: Sequence[Phase]) -> list[Order]:
    """Return the orders of phases in time order. Raises: InputError for a phase that ends before it begins, or two of one supply that overlap."""
    seen: dict[str, list[Phase]] = {}
    for phase in phases:
        if phase.last < phase.first:
            raise InputError(f"phase {phase.supply}.last", phase.last, f"must be at least first ({phase.first})")
        for other in seen.setdefault(phase.supply, []):
            if phase.first <= other.last and other.first <= phase.last:
                both = f"months {max(phase.first, other.first)} to {min(phase.last, other.last)}"
                raise InputError(f"phase {phase.supply}", both, "must not overlap another phase of the same supply")
        seen[phase.supply].append(phase)
    return sorted((o for p in phases for o in p.orders()), key=lambda o: o.month)


@dataclass(frozen=True)
class Ledger:
    """Racks by state (draws, supplies, months), names in the order of `supplies`; conservation holds in every cell."""

    supplies: tuple[str, ...]
    ordered: np.ndarray
    states: Mapping[str, np.ndarray]
    warnings: tuple[str, ...] = field(default=())

    @property
    def in_service(self) -> np.ndarray:
        """Racks that can serve (draws, supplies, months)."""
        return self.states["in service"]


def by_name(supplies: Sequence[Supply]) -> dict[str, int]:
    """Return the place of each supply. Raises: InputError for none, or a name given twice."""
    names = [s.name for s in supplies]
    if not names or len(set(names)) < len(names):
        raise InputError("supplies", len(names), "must be at least one, each name once")
    return {n: i for i, n in enumerate(names)}


def ledger(supplies: Sequence[Supply], orders: Sequence[Order], months: int, extra_months: np.ndarray | None = None,
           spares: Mapping[str, int] | None = None, site_watts: np.ndarray | None = None, site_racks: np.ndarray | None = None) -> Ledger:
    """Return where every rack is in every month.

    Parameters: supplies; orders; months [1] of the horizon; extra_months (draws, supplies) whole months by which deliveries are late (may be
    negative, not before the order); spares, supply -> racks that are kept hot and serve nothing; site_watts (months,) [W] at the meter,
    never falling; site_racks (months,) [1] that floor, cooling and fabric take. Racks that find no power or place wait for it, the
    supplies later in the list first. Returns: Ledger. Raises: InputError for an order that no month can use: before its supply can be
    ordered, or so late that its lead time ends after the horizon.
    """
    place, n = by_name(supplies), int(count("months", months, 1, 600))
    late = np.zeros((1, len(supplies)), int) if extra_months is None else np.asarray(extra_months)
    if late.ndim != 2 or late.shape[1] != len(supplies) or (late != np.floor(late)).any():
        raise InputError("extra_months", late.shape, f"must be whole months, (draws, {len(supplies)})")
    late, draws = late.astype(int), late.shape[0]
    shape, warnings = (draws, len(supplies), n + 1), []
    placed, arrived, accepted, gone = (np.zeros(shape) for _ in range(4))
    for i, s in enumerate(supplies):
        if s.delay >= n and any(o.supply == s.name for o in orders):
            raise InputError(f"{s.name}.lead_months", s.delay, f"must be shorter than the horizon of {n} months: nothing ordered would ever serve")
        for changes in (placed, arrived, accepted):
            changes[:, i, 0] += s.initial
        if s.life_months < n:
            gone[:, i, s.life_months] += s.initial
    row = np.arange(draws)
    for order in orders:
        if order.supply not in place:
            raise InputError("order.supply", order.supply, f"must be one of {', '.join(place)}")
        i, s = place[order.supply], supplies[place[order.supply]]
        if not s.first_month <= order.month < n:
            raise InputError(f"order of {s.name}", order.month, f"must fall in months {s.first_month} to {n - 1}")
        delivery = np.maximum(order.month + s.lead_months + late[:, i], order.month)
        ready = delivery + s.acceptance_months
        if (ready >= n).all():
            warnings.append(f"{order.racks} {s.name} ordered in month {order.month} come after the horizon")
        placed[:, i, order.month] += order.racks
        for changes, when in ((arrived, delivery), (accepted, ready), (gone, ready + s.life_months)):
            changes[row, i, np.minimum(when, n)] += order.racks
    placed, arrived, accepted, gone = (np.cumsum(c[:, :, :n], axis=2) for c in (placed, arrived, accepted, gone))
    standing = accepted - gone
    powered = _powered(supplies, standing, n, site_watts, site_racks)
    for name in spares or ():
        if name not in place:
            raise InputError(f"spares.{name}", spares[name], f"must be of a supply: {', '.join(place)}")
    kept = np.array([int(count(f"spares.{s.name}", (spares or {}).get(s.name, 0), 0)) for s in supplies])[None, :, None]
    spare = np.minimum(powered, kept)
    states = {"in transit": placed - arrived, "in acceptance": arrived - accepted, "in service": powered - spare, "spare": spare,
              "without power": standing - powered, "retired": gone}
    return Ledger(tuple(place), placed, states, tuple(warnings))


def _powered(supplies: Sequence[Supply], standing: np.ndarray, months: int, site_watts, site_racks) -> np.ndarray:
    """Return the standing racks that find power and a place, first come the supplies first in the list."""
    powered = standing.copy()
    for name, limit, need in (("site_watts", site_watts, [s.watts for s in supplies]), ("site_racks", site_racks, [1.0] * len(supplies))):
        if limit is None:
            continue
        left = nonnegative(name, limit)
        if left.shape != (months,):
            raise InputError(name, left.shape, f"must hold one value a month ({months})")
        if (np.diff(left) < 0).any():
            raise InputError(name, float(np.diff(left).min()), "must never fall: power and places arrive in steps")
        left = np.broadcast_to(left, (standing.shape[0], months)).copy()
        for i, each in enumerate(need):
            taken = np.minimum(powered[:, i], np.floor(left / each * (1 + 1e-12)))
            left -= taken * each
            powered[:, i] = taken
    return powered
