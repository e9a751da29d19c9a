"""What a plan is made of: one Option per workload and system, their answers by name, and what stops them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from planner.plan.answer import Answer

STATUSES = ("ok", "infeasible", "not available")


@dataclass(frozen=True)
class Ordered:
    """One order: racks to order by a month so that they serve from another on (months as 2026-11)."""

    order_by: str
    serves_from: str
    racks: int


@dataclass(frozen=True)
class Growth:
    """An option month by month: racks in all with their range, power at the meter [MW], orders in time; first_served, when an order of today serves;
    site_full and fabric_full, the first month that needs more than the site feeds or the fabric takes without moving a cable, empty where none."""

    months: tuple[str, ...]
    racks: tuple[int, ...]
    racks_low: tuple[int, ...]
    racks_high: tuple[int, ...]
    facility_mw: tuple[float, ...]
    orders: tuple[Ordered, ...]
    first_served: str
    site_full: str = ""
    fabric_full: str = ""
    note: str = ""


@dataclass(frozen=True)
class Driver:
    """One input that moves the racks: its 10th and 90th percentile in its base unit, and the racks there, None where no layout meets the SLO."""

    input: str
    low: float
    high: float
    racks_at_low: int | None
    racks_at_high: int | None
    grade: str
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Option:
    """One workload on one system: the answers by name, the binding constraint and the warnings.

    status: ok, infeasible (cause, limit and next_step say why), or not available (a fact is missing). parts: named breakdowns,
    each an ordered dict whose values sum to their total (`hbm_bytes`, `rack_watts`, `step_seconds`). growth and drivers are there
    where the whole answer was asked for (`planner.decide`).
    """

    workload: str
    system: str
    status: str
    answers: Mapping[str, Answer] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    binding: str = ""
    cause: str = ""
    limit: str = ""
    next_step: str = ""
    warnings: tuple[str, ...] = ()
    layout: str = ""
    growth: Growth | None = None
    drivers: tuple[Driver, ...] = ()

    def value(self, name: str) -> float | None:
        """Return the value of one answer, None where it is not available or the option is infeasible."""
        answer = self.answers.get(name)
        return None if answer is None else answer.value


@dataclass(frozen=True)
class Plan:
    """The answer to one scenario. options in file order (workload by workload); limit, why the workloads cannot be served together, if so."""

    scenario: str
    as_of: str
    digest: str
    version: str
    options: tuple[Option, ...]
    inputs: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    limit: str = ""

    @property
    def workloads(self) -> tuple[str, ...]:
        """The workloads by name, in file order."""
        return tuple(dict.fromkeys(o.workload for o in self.options))

    def served(self, workload: str) -> list[Option]:
        """Return the options that serve a workload."""
        return [o for o in self.options if o.workload == workload and o.status == "ok"]

    def fewest_racks(self, workload: str) -> Option | None:
        """Return the option that serves a workload with the fewest racks, then the least power; None where none serves it."""
        return min(self.served(workload), key=lambda o: (o.value("racks_total"), o.value("facility_power") or 0), default=None)

    @property
    def status(self) -> str:
        """`ok` when every workload has at least one system that serves it and the site feeds them together, else `infeasible`."""
        return "ok" if self.workloads and all(self.served(w) for w in self.workloads) and not self.limit else "infeasible"

    def as_dict(self) -> dict:
        """Return the plan as plain JSON types: the document of `plan.json`."""
        return {"schema": 1, "scenario": self.scenario, "as_of": self.as_of, "input_digest": self.digest,
                "planner_version": self.version, "status": self.status, "limit": self.limit, "inputs": dict(self.inputs),
                "warnings": list(self.warnings),
                "options": [{"workload": o.workload, "system": o.system, "status": o.status, "binding": o.binding,
                             "cause": o.cause, "limit": o.limit, "next_step": o.next_step, "layout": o.layout,
                             "warnings": list(o.warnings), "parts": {k: dict(v) for k, v in o.parts.items()},
                             "answers": {k: a.as_dict() for k, a in o.answers.items()},
                             "growth": None if o.growth is None else plain(asdict(o.growth)),
                             "drivers": [plain(asdict(d)) for d in o.drivers]} for o in self.options]}


def plain(value):
    """Return nested dicts and tuples as JSON reads them back: tuples are lists."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value
