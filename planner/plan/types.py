"""What a plan is made of: one Option per workload and system, their answers by name, and what stops them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.plan.answer import Answer

STATUSES = ("ok", "infeasible", "not available")


@dataclass(frozen=True)
class Option:
    """One workload on one system: the answers by name, the binding constraint and the warnings.

    status: ok, infeasible (cause, limit and next_step say why), or not available (a fact is missing). parts: named breakdowns,
    each an ordered dict whose values sum to their total (`hbm_bytes`, `rack_watts`, `step_seconds`).
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

    def value(self, name: str) -> float | None:
        """Return the value of one answer, None where it is not available or the option is infeasible."""
        answer = self.answers.get(name)
        return None if answer is None else answer.value


@dataclass(frozen=True)
class Plan:
    """The answer to one scenario. options in file order (workload by workload); status, infeasible when no option is ok."""

    scenario: str
    as_of: str
    digest: str
    version: str
    options: tuple[Option, ...]
    inputs: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """`ok` when every workload has at least one system that serves it, else `infeasible`."""
        workloads = dict.fromkeys(o.workload for o in self.options)
        served = {o.workload for o in self.options if o.status == "ok"}
        return "ok" if workloads and served == set(workloads) else "infeasible"

    def as_dict(self) -> dict:
        """Return the plan as plain JSON types: the document of `plan.json`."""
        return {"schema": 1, "scenario": self.scenario, "as_of": self.as_of, "input_digest": self.digest,
                "planner_version": self.version, "status": self.status, "inputs": dict(self.inputs),
                "warnings": list(self.warnings),
                "options": [{"workload": o.workload, "system": o.system, "status": o.status, "binding": o.binding,
                             "cause": o.cause, "limit": o.limit, "next_step": o.next_step, "layout": o.layout,
                             "warnings": list(o.warnings), "parts": {k: dict(v) for k, v in o.parts.items()},
                             "answers": {k: a.as_dict() for k, a in o.answers.items()}} for o in self.options]}
