"""The join: Scenario in, Plan out; one file per part of the answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner import __version__
from planner.errors import Infeasible, InputError
from planner.plan import notes
from planner.plan.answer import Answer, missing
from planner.plan.basis import on_basis
from planner.plan.case import Case, resolve
from planner.plan.cost import cost_answers
from planner.plan.fabric import fabric_answers
from planner.plan.power import power_answers, rack_watts
from planner.plan.racks import load_answers, rack_answers, racks_needed
from planner.plan.throughput import best, reach_of, throughput_answers
from planner.plan.types import Option, Plan
from planner.scenario import Scenario

__all__ = ["Option", "Plan", "plan"]


def plan(scenario: Scenario) -> Plan:
    """Return the plan of a scenario: each workload on each system, with answers, breakdowns, binding constraint and warnings.

    Raises: InputError for names that the catalogue does not know. What cannot be served is an option of status `infeasible`.
    """
    options = tuple(_option(case) for case in resolve(scenario))
    limit, together = _together(scenario, options)
    return Plan(
        scenario.name,
        scenario.as_of.isoformat(),
        scenario.digest,
        __version__,
        options,
        scenario.model_dump(mode="json", by_alias=True, exclude_none=True),
        (*notes.of_plan(scenario), *together),
        limit,
    )


def peak_tokens_per_s(case: Case, tpot_seconds: float, ttft_seconds: float) -> float:
    """Return the output tokens per second at the peak [1/s] from whichever load the workload names.

    A closed loop is solved at the central case: rate = concurrency / (TTFT + output tokens x TPOT), users add their think time.
    """
    load, service = case.workload, ttft_seconds + case.output_tokens * tpot_seconds
    if load.output_tokens_per_s is not None:
        mean = load.output_tokens_per_s
    elif load.requests_per_s is not None:
        mean = load.requests_per_s * case.output_tokens
    elif load.concurrency is not None:
        mean = load.concurrency / service * case.output_tokens
    else:
        mean = load.users / (load.think_s + service) * case.output_tokens
    return mean * load.peak_to_mean


def _closed_loop(case: Case) -> bool:
    return case.workload.concurrency is not None or case.workload.users is not None


def _chosen(case: Case) -> tuple[np.ndarray, float]:
    """Return the GPUs of the replica that each draw chooses (n,) [1], central first, and the share of draws in which no layout meets the SLO."""
    found, table = reach_of(case)
    served = table.max(axis=0) > 0
    gpus = np.array([layout.gpus for layout in found])[table.argmax(axis=0)]
    return np.where(served, gpus, gpus[0]), float(1 - served[1:].mean())


def _with_unserved(answers: dict[str, Answer], unserved: float) -> dict[str, Answer]:
    """Return the answers with the share of draws in which no layout meets the SLO said beside the throughput."""
    if not unserved:
        return answers
    speed = answers["tokens_per_s_per_gpu"]
    text = f"in {100 * unserved:.1f} % of the draws no layout meets the SLO: they count as the slowest that does"
    return {**answers, speed.name: replace(speed, note=f"{speed.note}; {text}")}


def _option(case: Case) -> Option:
    name, label, scenario = case.workload.name, case.label, case.scenario
    try:
        found = on_basis(case, best(case))
        replica_gpus, unserved = _chosen(case)
        answers = _with_unserved(throughput_answers(case, found), unserved)
        peak = peak_tokens_per_s(case, float(found.tpot[0]), float(found.ttft[0]))
        racks = racks_needed(peak + 0 * found.per_gpu, found.per_gpu, replica_gpus, case.rack, scenario.plan)
        speed = found.inputs
        answers |= load_answers(peak, _closed_loop(case), racks, found.per_gpu, speed, scenario.plan)
        answers |= rack_answers(racks, case.rack, speed, scenario.plan)
        watts = rack_watts(case.rack, case.inputs)
        powers = {**speed, **case.pick("overhead_watts", "gpu_watts", "rack_watts")}
        answers |= power_answers(racks, case.rack, watts, peak + 0 * watts, powers, scenario.site)
        mean = peak / case.workload.peak_to_mean
        answers |= cost_answers(
            racks,
            case.rack,
            mean,
            mean * case.input_tokens / case.output_tokens,
            found.prefill_fraction,
            {**speed, **case.pick("gpu_hour_usd")},
            _price_date(case),
        )
    except Infeasible as error:
        status = "not available" if error.cause == "facts" else "infeasible"
        return Option(name, label, status, cause=error.cause, limit=error.limit, next_step=error.next_step, warnings=notes.of_option(case))
    extra, fabric_parts = _fabric(case, int(racks.total[0]))
    answers |= extra
    parts = {
        "hbm_bytes": found.parts,
        "step_seconds": found.step,
        "fabric_watts": fabric_parts,
        "rack_watts": {"GPUs": case.rack.gpus * case.rack.accelerator.gpu_watts, "rest of the rack": case.rack.overhead_watts},
    }
    speed = answers["tokens_per_s_per_gpu"]
    wide = (f"throughput is uncertain by a factor of {speed.high / speed.low:,.0f}: do not order on it",) if speed.high > 5 * speed.low else ()
    warnings = (*notes.of_option(case), *wide, *notes.of_failures(case, answers["racks_serving"].value))
    option = Option(name, label, "ok", answers, parts, binding=found.limit, warnings=warnings, layout=found.layout.label)
    return _within_site(case, option, racks.total)


def _fabric(case: Case, racks: int) -> tuple[dict[str, Answer], dict[str, float]]:
    """The fabric of the racks of one option; not available where no scale-out link is published."""
    try:
        how = case.scenario.plan
        return fabric_answers(case.rack, racks * case.rack.gpus, case.scenario.fabric, how.seed, how.survive)
    except (Infeasible, InputError) as error:
        return {"fabric_links": missing("fabric_links", "links", str(error))}, {}


def _within_site(case: Case, option: Option, racks: np.ndarray) -> Option:
    """Return the option, infeasible where the site does not feed its racks (n,), with the load that it would feed, or how often it does not."""
    fit, need = option.value("racks_that_fit"), option.value("racks_total")
    if fit is None:
        return option
    if need <= fit:
        short = float((racks[1:] > fit).mean())
        often = (f"in {100 * short:.1f} % of the draws its racks do not fit the site",) if short else ()
        return _with_its_fabric(case, replace(option, warnings=(*option.warnings, *often)))
    serving = max(0.0, fit - option.value("racks_survival") - option.value("racks_spare"))
    share = serving / option.value("racks_serving")
    limit = f"{need:,.0f} racks are needed, the site feeds {fit:,.0f}"
    nearest = f"{share:.0%} of the load, or {need * option.value('rack_power') * case.scenario.site.pue / 1e3:,.3g} MW"
    return replace(option, status="infeasible", binding="site power", cause="power", limit=limit, next_step=nearest)


def _with_its_fabric(case: Case, option: Option) -> Option:
    """Return the option with a warning where its racks fit the site and its fabric, which is not added, no longer does."""
    fabric, site = (option.value("fabric_power") or 0.0) * case.scenario.site.pue / 1e3, case.scenario.site.facility_watts / 1e6
    total = option.value("facility_power") + fabric
    if total <= site:
        return option
    text = f"with its fabric ({fabric:,.3g} MW at the meter) it needs {total:,.3g} MW, more than the site's {site:,.3g} MW"
    return replace(option, warnings=(*option.warnings, text))


def _together(scenario: Scenario, options: tuple[Option, ...]) -> tuple[str, tuple[str, ...]]:
    """Return why the site does not feed all workloads at once, empty where it does, and a note where only some choice of systems does."""
    if scenario.site.facility_watts is None or len(scenario.workloads) < 2:
        return "", ()
    site, served = scenario.site.facility_watts / 1e6, [[o for o in options if o.workload == w.name and o.status == "ok"] for w in scenario.workloads]
    if not all(served):
        return "", ()  # the workload that nothing serves says why
    least = sum(min(o.value("facility_power") for o in mine) for mine in served)
    most = sum(max(o.value("facility_power") for o in mine) for mine in served)
    if least > site * (1 + 1e-9):
        return f"together the workloads need {least:,.3g} MW at least, the site has {site:,.3g} MW; each alone fits", ()
    return "", (f"each workload is held against the site alone; together they need {least:,.3g} to {most:,.3g} MW of {site:,.3g} MW",)


def _price_date(case: Case) -> str:
    price = case.scenario.prices.get(f"{case.rack.name}/{case.rack.profile}") or case.scenario.prices.get(case.rack.name)
    return price.as_of.isoformat() if price else ""
