"""A plan as lines of text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from planner.plan.answer import Answer
from planner.plan.types import Plan


def number(value: float | None) -> str:
    """Return a number at four significant digits, or "not available"."""
    return "not available" if value is None else f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def line(answer: Answer) -> str:
    """Return one answer as a line: name, value, range, unit, how, grade, basis, note."""
    text = f"    {answer.name:26} {number(answer.value)}"
    if answer.value is not None:
        text += f" {answer.unit}"
    if answer.low is not None and answer.low != answer.high:
        text += f"  [{number(answer.low)} to {number(answer.high)}]"
    if answer.lower is not None:
        text += f"  bounds {number(answer.lower)} to {number(answer.upper)}"
    rest = "; ".join(t for t in (answer.basis, answer.note) if t)
    return f"{text}  {answer.how} {answer.grade}  {rest}".rstrip()


def lines(plan: Plan) -> Iterator[str]:
    """Yield the plan line by line: the scenario, then each workload on each system, its answers, its limit or its warnings."""
    yield f"{plan.scenario}  (as of {plan.as_of}, inputs {plan.digest}): {plan.status}"
    for warning in plan.warnings:
        yield f"  note: {warning}"
    for option in plan.options:
        yield f"  {option.workload} on {option.system}: {option.status}" + (f", binding: {option.binding}" if option.binding else "")
        if option.layout:
            yield f"    layout: {option.layout}"
        if option.limit:
            yield f"    {option.cause}: {option.limit}" + (f"; nearest: {option.next_step}" if option.next_step else "")
        for answer in option.answers.values():
            yield line(answer)
        for warning in option.warnings:
            yield f"    note: {warning}"
