"""What a reader must know beside the numbers: inputs that change nothing yet, odd choices, and failures that are not planned."""

from __future__ import annotations

from collections.abc import Iterator

from planner.facts import catalog
from planner.facts.formats import peak_format
from planner.plan.case import Case
from planner.scenario import Scenario

MOST_GROWTH = 0.5  # a month: above it a percent was probably typed


def of_plan(scenario: Scenario) -> tuple[str, ...]:
    """Return the notes on a scenario as a whole: what it says and the plan does not use."""
    return tuple(_unused(scenario))


def _unused(scenario: Scenario) -> Iterator[str]:
    tests = sorted({w.scenario for w in scenario.workloads if w.scenario})
    if tests and scenario.plan.basis == "model":
        yield f"scenario = {', '.join(tests)} is a label: the plan goes by load and SLO"
    if scenario.timeline and scenario.timeline.growth_per_month > MOST_GROWTH:
        growth = scenario.timeline.growth_per_month
        yield f"growth_per_month {growth:g} is {growth:.0%} a month (a share: {growth:g} % is {growth / 100:g})"
    if scenario.timeline:
        yield "racks, power and cost are for the load as typed; [timeline] is planned beside them, month by month"
    site = [key for key in ("electricity_usd_per_kwh", "inlet_celsius") if getattr(scenario.site, key) is not None]
    if site:
        yield f"{' and '.join(f'site.{key}' for key in site)}: not used yet, cost is rent alone and power does not depend on the coolant"
    yield "facility power and cost are of the racks; the fabric stands beside them and is not added"


def of_option(case: Case) -> tuple[str, ...]:
    """Return the notes on one workload on one system."""
    return (*case.shape.notes, *_of_system(case), *_of_workload(case))


def _of_system(case: Case) -> Iterator[str]:
    rack, given = case.rack, case.given
    if rack.status != "available":
        yield f"status {rack.status}: no fleet of it has been measured"
    if rack.name == "vr-nvl72":
        yield "pairing a profile with a power setting is this project's assumption"
    usual = catalog.system(given.name, given.profile).accelerator.gpu_watts
    if rack.accelerator.gpu_watts != usual:
        yield f"gpu_watts {rack.accelerator.gpu_watts:,.0f} (catalogue: {usual:,.0f}) changes power and not speed"
    try:
        stored, used = case.stored_format, case.peak_name
    except ValueError:
        return  # no published peak: the option says so
    if used != peak_format(stored):
        yield f"no {peak_format(stored)} peak is published for this GPU: weights in {stored} are computed at the {used} peak"
    if case.scenario.site.pue > 2:
        yield f"PUE {case.scenario.site.pue:g} is unusually high"


def _of_workload(case: Case) -> Iterator[str]:
    load, shape = case.workload, case.shape
    ratio = case.input_tokens / case.output_tokens
    if not 0.1 <= ratio <= 100:
        yield f"input to output is {ratio:,.3g} to 1: averages mislead at such ratios"
    if load.session:
        yield "sessions are planned by their mean lengths and cache hits only"
    if load.mtp and not shape.mtp_layers:
        yield "mtp = true has no effect: the model has no module for multi-token prediction"
    if load.images and not any(w.part == "vision" for w in shape.weights):
        yield "images are counted as text tokens: the model has no vision part"
    longest = (load.input_tokens.p99 or 0) + load.images * load.image_tokens + (load.output_tokens.p99 or 0)
    if shape.max_context and longest > shape.max_context:
        yield f"requests of {longest:,.0f} tokens (p99) do not fit the model's {shape.max_context:,} positions"


def of_failures(case: Case, serving_racks: float) -> tuple[str, ...]:
    """Return what a plan does not hold of the failures it is to survive. Parameters: serving_racks [1], the central count."""
    found, wanted = [], case.scenario.plan.survive
    if "site" in wanted:
        found.append(f"survive site is not planned: this scenario has one site, another needs {serving_racks:,.0f} serving racks of its own")
    if "power_feed" in wanted:
        found.append("survive power_feed: the loss of a feed is counted as one rack; feeds that more racks share are not planned")
    if "plane" in wanted and (case.scenario.fabric.planes or 1) == 1:
        found.append("survive plane is not met: the fabric has one plane, without it no scale-out bandwidth is left")
    return tuple(found)
