"""A plan as lines of text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from planner.plan.answer import Answer
from planner.plan.types import Option, Plan


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
    if plan.limit:
        yield f"  power: {plan.limit}"
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
        yield from _growth(option)
        yield from _drivers(option)
        for warning in option.warnings:
            yield f"    note: {warning}"


def _growth(option: Option) -> Iterator[str]:
    grown = option.growth
    if grown is None:
        return
    ends = f"{grown.racks[-1]:,} ({grown.racks_low[-1]:,} to {grown.racks_high[-1]:,})"
    last = f"{ends} in {grown.months[-1]}, {number(grown.facility_mw[-1])} MW at the meter"
    yield f"    racks by month: {grown.racks[0]:,} in {grown.months[0]}, {last}"
    said = [f"{o.racks:,} by {o.order_by} (serve from {o.serves_from})" for o in grown.orders[:4]]
    said += [f"{len(grown.orders) - 4} orders more"] if len(grown.orders) > 4 else []
    if not said:
        said = ["nothing, the lead time ends after the last month"]
    yield f"    order: {', '.join(said)}; no racks at hand, none serve before {grown.first_served}"
    if grown.site_full:
        yield f"    the site is full from {grown.site_full} on"
    if grown.fabric_full:
        yield f"    the fabric must be recabled from {grown.fabric_full} on"
    if grown.note:
        yield f"    {grown.note}"


def _drivers(option: Option) -> Iterator[str]:
    for moved in option.drivers:
        ends = " to ".join("SLO missed" if racks is None else f"{racks:,}" for racks in (moved.racks_at_low, moved.racks_at_high))
        yield f"    moved by {moved.input} {number(moved.low)} to {number(moved.high)} (grade {moved.grade}): {ends} racks"
