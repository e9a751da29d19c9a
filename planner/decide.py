"""The whole answer to a scenario: the plan for the load as typed, its growth month by month, and what moves it most."""

from __future__ import annotations

from dataclasses import replace

from planner.plan import plan
from planner.plan.case import resolve
from planner.plan.types import Option, Plan
from planner.scenario import Scenario
from planner.sensitivity.drivers import drivers
from planner.timeline.growth import growth


def decide(scenario: Scenario) -> Plan:
    """Return the plan with `growth` on every option that serves its workload, and `drivers` on the option of the fewest racks of each workload.

    Raises: InputError as `planner.plan.plan`.
    """
    made = plan(scenario)
    best = {id(o) for o in (made.fewest_racks(w) for w in made.workloads) if o is not None}
    options = []
    for option, case in zip(made.options, resolve(scenario), strict=True):
        if option.status == "ok":
            option = _more(option, scenario, drivers(case) if id(option) in best else ())
        options.append(option)
    return replace(made, options=tuple(options))


def _more(option: Option, scenario: Scenario, moved_by: tuple) -> Option:
    return replace(option, growth=growth(option, scenario), drivers=moved_by)
