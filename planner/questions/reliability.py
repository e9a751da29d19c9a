"""Questions about failures, goodput, checkpoint intervals, the slowest GPU and what to buy so that enough pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from scipy.stats import poisson

from planner.calibration import reliability as populations
from planner.errors import Infeasible, InputError
from planner.models import reliability, stragglers
from planner.plan.answer import Answer, exact, weakest
from planner.questions.registry import Input, Question, not_used
from planner.units import UNITS, count, fraction, nonnegative, number, positive, to_base

DAY = 86400.0
LEAST_GOODPUT = 1e-3  # below it a job stands still, whatever the digits say
SIMULATION_ERROR = 0.01  # what the docstring of goodput_fraction states and its test asserts
SUFFIXES = {"s": "s", "seconds": "s", "sec": "s", "ms": "ms", "min": "min", "minutes": "min", "h": "h", "hours": "h", "days": "day"}
OWN = ("mttf_s", "interruptions", "failure_rate", "failures_per_1000_node_days", "gpu_mttf_days", "node_mttf_days")  # each says it alone
NOUNS = {"gpu": "gpu", "node": "node", "server": "node", "rack": "rack", "job": "job", "cluster": "job"}
_RATE = re.compile(r"(?:/|per|failures|faults|\s)*(?P<per>[0-9,.e]*)?\s*(?P<what>node|server|gpu|rack|job|cluster)?[\s_-]*"
                   r"(?P<time>s|second|min|minute|h|hour|day|d|week|month|year|yr)s?")


def spellings(*stems: str, own: str = "") -> dict[str, str]:
    """Return name -> unit for each stem with each suffix of time (write_s, write_min, ...), without the input's own name."""
    return {f"{stem}_{suffix}": unit for stem in stems for suffix, unit in SUFFIXES.items() if f"{stem}_{suffix}" != own}


@dataclass(frozen=True)
class JobRate:
    """How often one job stops: per_s, low and high [1/s], where it comes from, and its grade."""

    per_s: float
    low: float
    high: float
    how: str
    grade: str
    note: str

    def mttf(self) -> tuple[float, float, float]:
        """Return the mean time between stops as (value, low, high) [s]."""
        return 1 / self.per_s, 1 / self.high, 1 / self.low


def _rate_of_text(value: object, unit: str) -> tuple[float, str]:
    """Return (rate [1/day] of one, what: node, gpu, rack or job) of a number and words such as "per 1000 node-days"."""
    found = _RATE.fullmatch(unit.strip().lower().replace("8-gpu ", "").replace("(", "").replace(")", "").replace("1/", "/", 1))
    if not found:
        raise InputError("failure_rate", f"{value} {unit}", "must be per node-day, per 1000 node-days, per GPU-hour, per job-day or the like")
    time = {"second": "s", "minute": "min", "hour": "h", "d": "day", "yr": "year"}.get(found["time"], found["time"])
    per = float(found["per"].replace(",", "") or 1)
    what = {"server": "node", "cluster": "job"}.get(found["what"], found["what"]) or "node"
    return float(nonnegative("failure_rate", value)) / positive("failure_rate unit", per) / UNITS[time][1] * DAY, what


def _given_rate(inputs: Mapping) -> tuple[float, str, str] | None:
    """Return (rate [1/day] of one unit, unit, note) of the rate that the user gives, None where none is given."""
    if "failures_per_1000_node_days" in inputs:
        return float(nonnegative("failures_per_1000_node_days", inputs["failures_per_1000_node_days"])) / 1000, "node", ""
    for name, what in (("gpu_mttf_days", "gpu"), ("node_mttf_days", "node")):
        if name in inputs:
            return 1 / float(positive(name, inputs[name])), what, ""
    given = inputs.get("failure_rate")
    if given is None:
        return None
    words = ""
    if isinstance(given, Mapping):
        unknown = set(given) - {"value", "unit", "per", "population"}
        if unknown or "value" not in given:
            raise InputError("failure_rate", dict(given), "must be {value, unit}, such as {\"value\": 6.5, \"unit\": \"per 1000 node-days\"}")
        if "population" in given:
            if "population" in inputs:
                raise InputError("failure_rate.population", given["population"], "says population a second time")
            inputs = {**inputs, "population": given["population"]}
        words, given = str(given.get("unit") or given.get("per") or ""), given["value"]
    elif isinstance(given, str):
        found = re.match(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(.*)", given)
        if not found:
            raise InputError("failure_rate", given, "must be a number, per node-day unless it says otherwise")
        given, words = float(found[1]), found[2]
    if isinstance(given, (list, tuple)):
        raise InputError("failure_rate", given, "must be one number")
    words = words or str(inputs.get("failure_rate_unit", ""))
    label = str(inputs.get("population", "")).strip().lower().replace("8-gpu ", "")
    if not words and _RATE.fullmatch(label.replace("1/", "/", 1)) and label != "shared":
        words = label
    noun = NOUNS.get(label.rstrip("s"))
    rate, what = _rate_of_text(given, words or f"per {noun or 'node'}-day")
    if noun not in (None, what):
        raise InputError("population", inputs["population"], f"contradicts a rate {words}")
    return rate, what, "" if words else f"failure_rate read as per {what}-day"


def _opened(inputs: Mapping) -> Mapping:
    """Return the inputs with a population given as an object, {name, failure_rate, unit}, spread out."""
    given = inputs.get("population")
    if not isinstance(given, Mapping):
        return inputs
    names = {"name": "population", "population": "population", "failure_rate": "failure_rate", "rate": "failure_rate", "value": "failure_rate",
             "unit": "failure_rate_unit", "per": "failure_rate_unit", "gpus_per_node": "gpus_per_node", "job_rate_per_day": "job_rate_per_day"}
    for key, value in given.items():
        if key not in names:
            raise InputError(f"population.{key}", value, f"must be one of {', '.join(names)}")
    found = {k: v for k, v in inputs.items() if k != "population"}
    for key, value in given.items():
        if names[key] in found:
            raise InputError(f"population.{key}", value, f"says {names[key]} a second time")
        found[names[key]] = value
    return found


def _label(inputs: Mapping, note: str) -> str:
    """Return the note with what is said of a population beside a rate of the user's own: its published rate is not used."""
    name = str(inputs.get("population", "")).strip()
    published = name and name.lower().replace("8-gpu ", "").rstrip("s") not in NOUNS and not _RATE.fullmatch(name.lower().replace("1/", "/", 1))
    return "; ".join(n for n in (note, f"population {name} is a label here: the rate given counts" if published else "", _beside(inputs)) if n)


def _beside(inputs: Mapping) -> str:
    """Return what is given to no rate that would use it."""
    names = {"failure_rate_unit": "failure_rate", "counted_gpus": "interruptions"}
    return not_used(inputs, *(name for name, needs in names.items() if needs not in inputs))


def job_rate(inputs: Mapping) -> JobRate:
    """Return how often the job of a question stops, from its own mean time, its own count, its own rate or a published population.

    Raises: InputError where none of them is given, naming the populations.
    """
    inputs = _opened(inputs)
    twice = [k for k in OWN if inputs.get(k) is not None]
    if len(twice) > 1:
        raise InputError(twice[1], inputs[twice[1]], f"says how often the job stops a second time (also {twice[0]})")
    if twice and twice[0] in ("mttf_s", "interruptions") and "job_rate_per_day" in inputs:
        raise InputError("job_rate_per_day", inputs["job_rate_per_day"], f"is part of {twice[0]} already, which is of the whole job")
    if "mttf_s" in inputs:
        rate = 1 / float(positive("mttf_s", inputs["mttf_s"]))
        return JobRate(rate, rate, rate, "modelled", "P", _label(inputs, "mean time given for the whole job"))
    gpus = int(count("gpus", inputs["gpus"])) if "gpus" in inputs else None
    if "interruptions" in inputs:
        if "days" not in inputs:
            raise InputError("days", None, "is required with interruptions: the days in which they were counted")
        rate = float(positive("interruptions", inputs["interruptions"])) / (float(positive("days", inputs["days"])) * DAY)
        counted = int(count("counted_gpus", inputs.get("counted_gpus", gpus or 1)))
        rate *= (gpus or counted) / counted
        return JobRate(rate, rate, rate, "modelled", "P", _label(inputs, "from the interruptions given"))
    job_day = float(nonnegative("job_rate_per_day", inputs.get("job_rate_per_day", 0.0)))
    if job_day and not twice and "population" not in inputs:
        return JobRate(job_day / DAY, job_day / DAY, job_day / DAY, "modelled", "P", "stops of the job alone: no node is said to fail")
    if gpus is None:
        raise InputError("gpus", None, "is required (GPUs of one synchronous job), or mttf_h of the whole job")
    per_node = int(count("gpus_per_node", inputs.get("gpus_per_node", 8)))
    given = _given_rate(inputs)
    if given is None:
        if "population" not in inputs:
            known = "population (llama3-405b, rsc-1, good, aegis-h100, ...)"
            raise InputError("failure_rate", None, f"is required: per node-day, or a published {known}")
        name, node, job, row = populations.population(inputs["population"])
        per_node = int(count("gpus_per_node", inputs.get("gpus_per_node", int(row["gpus_per_node"]))))
        low, value, high = ((getattr(node, part) * gpus / per_node + getattr(job, part) + job_day) / DAY for part in ("low", "value", "high"))
        return JobRate(value, low, high, "assumed" if row["kind"] == "assumed" else "modelled", row["grade"],
                       "; ".join(n for n in (f"population {name}: {row['note']}", _beside(inputs)) if n))
    rate, what, note = given
    nodes = {"gpu": gpus, "node": gpus / per_node, "job": 1.0, "rack": gpus / int(count("gpus_per_rack", inputs.get("gpus_per_rack", 72)))}[what]
    per_s = (rate * nodes + job_day) / DAY
    if per_s <= 0:
        raise InputError("failure_rate", rate, "must be > 0")
    return JobRate(per_s, per_s, per_s, "modelled", "P", _label(inputs, note or "rate given"))


def _mttf(inputs: dict) -> Answer:
    rate = job_rate(inputs)
    value, low, high = (seconds / 3600 for seconds in rate.mttf())
    return Answer("mttf", value, "h", rate.how, rate.grade, low, high, basis="one synchronous job, any unit stops it", note=rate.note)


def _interruptions(inputs: dict) -> Answer:
    if "interruptions" in inputs:
        raise InputError("interruptions", inputs["interruptions"], "is what is asked: give a rate, a population or a mean time")
    rate, seconds = job_rate(inputs), float(nonnegative("days", inputs["days"])) * DAY
    value = float(reliability.interruptions(rate.per_s, seconds))
    low, high = min(float(poisson.ppf(0.1, rate.low * seconds)), value), max(float(poisson.ppf(0.9, rate.high * seconds)), value)
    return Answer("interruptions", value, "count", rate.how, rate.grade, low, high, basis="expected, unplanned", note=rate.note)


def _times(inputs: Mapping) -> tuple[float, float, float]:
    """Return (write, restart, lag) [s]; the restart is the sum of detection, restart and load where they are given."""
    write, lag = (float(nonnegative(n, inputs[n])) if n in inputs else 0.0 for n in ("write_s", "lag_s"))
    restart = sum(float(nonnegative(n, inputs[n])) for n in ("restart_s", "detection_s", "load_s") if n in inputs)
    return write, restart, lag


def _waiting(inputs: Mapping, rate: JobRate) -> tuple[float, str]:
    """Return (share of the goodput left by waiting for a spare, note)."""
    if "spares" not in inputs:
        return 1.0, not_used(inputs, "repair_h") and "repair_h not used: without spares every failed node is replaced at once"
    if "repair_h" not in inputs:
        raise InputError("repair_h", None, "is required with spares: the hours a failed node is out of service")
    nodes = -(-int(count("gpus", inputs.get("gpus"))) // int(count("gpus_per_node", inputs.get("gpus_per_node", 8))))
    repair = float(to_base(number("repair_h", inputs["repair_h"], 0.0, 1e6), "h"))
    waits = float(reliability.waiting_fraction(nodes, rate.per_s / nodes, repair, inputs["spares"]))
    if waits > 0.5:
        raise Infeasible("no progress", f"the job waits {waits:.0%} of the time for a repaired node", "more hot spares (see spares_needed)")
    return 1 - waits, f"waits {waits:.1%} of the time for a healthy node"


def _goodput(inputs: dict) -> Answer:
    rate = job_rate(inputs)
    write, restart, lag = _times(inputs)
    left, waits = _waiting(inputs, rate)
    mttf, soon, late = rate.mttf()
    if restart >= mttf:
        raise Infeasible("no progress", f"a restart takes {restart:,.0f} s and the job stops every {mttf:,.0f} s on average: most restarts do not "
                         "end before the next failure", "fewer GPUs in one job, hot spares, or a restart well below the mean time to failure")
    if "interval_s" in inputs:
        interval, chosen = float(positive("interval_s", inputs["interval_s"])), ""
    elif write == 0:
        raise InputError("interval_s", None, "is required where a checkpoint costs nothing (write_s 0)")
    else:
        interval = max(float(reliability.best_interval_seconds(mttf, write)), lag - write)
        chosen = f"best interval: {interval:,.0f} s"
    quantity = inputs["quantity"]
    if inputs["method"] in ("first_order", "young_daly", "young", "daly"):
        value = float(reliability.goodput_fraction_first_order(mttf, interval, write, restart))
        if value < 0:
            raise Infeasible("first order", "the first-order formula is below 0 here: it does not hold at this scale", "use method exact")
        return Answer("goodput", value, "fraction", "modelled", rate.grade, basis="first order, the baseline", note=rate.note)
    if inputs["method"] != "exact":
        raise InputError("method", inputs["method"], "must be exact or first_order")
    values = []
    for mean in (mttf, soon, late):
        parts = {k: v * left for k, v in reliability.lost_fractions(mean, interval, write, restart, lag).items()}
        parts["waiting"] = 1 - left
        if quantity not in parts:
            raise InputError("quantity", quantity, f"must be one of {', '.join(parts)}")
        values.append(float(parts[quantity]))
    good = float(reliability.goodput_fraction(mttf, interval, write, restart, lag))
    if good < LEAST_GOODPUT:
        near = float(reliability.best_interval_seconds(mttf, max(write, 1e-3)))
        raise Infeasible("no progress", f"an interval of {interval:,.4g} s, {write:,.4g} s a checkpoint and a stop every {mttf:,.0f} s on average "
                         f"keep {good:.1g} of the time", f"an interval near {near:,.0f} s, a shorter checkpoint, or fewer GPUs in one job")
    low, high = max(min(values) - SIMULATION_ERROR, 0.0), min(max(values) + SIMULATION_ERROR, 1.0)
    limit = max((k for k in parts if k != "goodput"), key=lambda k: parts[k])
    unsaid = [] if "write_s" in inputs else ["write_s not given: a checkpoint costs nothing"]
    unsaid += [] if any(k in inputs for k in ("restart_s", "detection_s", "load_s")) else ["restart_s not given: a restart takes no time"]
    note = "; ".join(n for n in (rate.note, chosen, waits, *unsaid) if n)
    return Answer("goodput", values[0], "fraction", rate.how, rate.grade, low, high, limit=limit,
                  basis="share of the job's time that ends in kept training work (not a serving goodput)", note=note)


def _checkpoint_interval(inputs: dict) -> Answer:
    rate = job_rate(inputs)
    if "interval_s" in inputs:
        raise InputError("interval_s", inputs["interval_s"], "is what is asked")
    write = float(positive("write_s", inputs["write_s"]))
    lag = float(nonnegative("lag_s", inputs.get("lag_s", 0.0)))
    mttf, soon, late = rate.mttf()
    if inputs["method"] in ("first_order", "young_daly", "young", "daly"):
        rule, basis = reliability.interval_seconds_first_order, "first order: sqrt(2 w M)"
    elif inputs["method"] == "exact":
        rule, basis = reliability.best_interval_seconds, "useful seconds between two checkpoints, exact renewal optimum"
    else:
        raise InputError("method", inputs["method"], "must be exact or first_order")
    value, low, high = (max(float(rule(mean, write)), lag - write) for mean in (mttf, soon, late))
    return Answer("checkpoint_interval", value, "s", rate.how, rate.grade, low, high, basis=basis, note=rate.note)


def _straggler_slowdown(inputs: dict) -> Answer:
    value = float(stragglers.straggler_slowdown(count("gpus", inputs["gpus"]), inputs["spread"], inputs["slow_fraction"], inputs["slow_factor"]))
    if "stretch_fraction" in inputs:  # only the compute of the slow GPU's replica stretches
        value = 1 + (value - 1) * float(fraction("stretch_fraction", inputs["stretch_fraction"]))
    near = max(0.02 * (value - 1), 1e-4)
    return Answer("straggler_slowdown", value, "ratio", "modelled", "P", max(value - near, 1.0), value + near, limit="slowest GPU",
                  basis="mean step over the step of one typical GPU")


def _spares(inputs: dict) -> Answer:
    rate = job_rate(inputs)
    nodes = -(-int(count("gpus", inputs.get("gpus"))) // int(count("gpus_per_node", inputs.get("gpus_per_node", 8))))
    per_node = [r / nodes for r in (rate.per_s, rate.low, rate.high)]
    repair = to_base(number("repair_h", inputs["repair_h"], 0.0, 1e6), "h")
    value, low, high = (float(reliability.spares_needed(nodes, r, repair, inputs["availability"])) for r in per_node)
    return Answer("spares_needed", value, "count", rate.how, rate.grade, low, high, basis="hot spare nodes", note=rate.note)


def _to_buy(inputs: dict) -> Answer:
    for name in ("false_reject", "escape"):
        if inputs[name] == []:
            raise InputError(name, [], "must be one rate, or one a stage")
        if isinstance(inputs[name], list):
            fraction(name, inputs[name])
    stages = {name: len(inputs[name]) for name in ("false_reject", "escape") if isinstance(inputs[name], list) and len(inputs[name]) > 1}
    if len(set(stages.values())) > 1:
        raise InputError("escape", stages["escape"], f"must be of as many stages as false_reject ({stages['false_reject']}), or one")
    chain = stragglers.screening(inputs["slow_fraction"], inputs["false_reject"], inputs["escape"])
    racks = stragglers.units_to_buy(count("in_service", inputs["in_service"]), chain["pass_fraction"], inputs["confidence"])
    note = f"{float(chain['slow_in_service']):.2%} of those in service are slow; {float(chain['pass_fraction']):.2%} pass"
    return exact("racks_to_buy", float(racks), "count", how="modelled", grade=weakest("P"), note=note)


GPUS = Input("GPUs of one synchronous job", "count", also={"num_gpus": "", "gpu_count": "", "n_gpus": "", "ranks": ""})
RATE = {
    "gpus": GPUS,
    "failure_rate": Input("number per 8-GPU node-day, text such as \"6.5 per 1000 node-days\", or {value, unit}", structured=True,
                          also={"failure_rate_per_node_day": "", "node_failure_rate": "", "failures_per_node_day": "", "rate": "",
                                "node_rate_per_day": "", "rate_per_node_day": ""}),
    "failure_rate_unit": Input("per node-day, per 1000 node-days, per GPU-hour, per job-day", also={"rate_unit": "", "per": ""}),
    "failures_per_1000_node_days": Input("rate of one node", also={"failure_rate_per_1000_node_days": "", "per_1000_node_days": ""}),
    "population": Input("a published population: llama3-405b, rsc-1, good, aegis-h100, aegis-a100; or what failure_rate counts",
                        structured=True),
    "gpus_per_node": Input("GPUs of one node", "count"),
    "gpus_per_rack": Input("GPUs of one rack, where the rate is of a rack", "count"),
    "gpu_mttf_days": Input("mean time to failure of one GPU", "day", also=spellings("gpu_mttf", "gpu_mtbf", own="gpu_mttf_days")),
    "node_mttf_days": Input("mean time to failure of one node", "day", also=spellings("node_mttf", "node_mtbf", own="node_mttf_days")),
    "mttf_s": Input("mean time to failure of the whole job", "s", also=spellings("mttf", "mtbf", "mtti", "job_mttf", own="mttf_s")),
    "job_rate_per_day": Input("stops a day that do not grow with the job", also={"job_rate": ""}),
    "interruptions": Input("stops counted in `days`", "count", also={"failures": "", "interruptions_total": ""}),
    "counted_gpus": Input("GPUs of the job in which they were counted, where another", "count"),
    "days": Input("days of the run", "day", also={**spellings("duration", own="days"), "run_days": "day", "hours": "h"}),
}
WRITE = Input("stall per checkpoint", "s", also={**spellings("write", "checkpoint", "checkpoint_write", "stall", "save", own="write_s"), "write": ""})
TIMES = {
    "write_s": WRITE,
    "restart_s": Input("from the failure to the first new step", "s", also={**spellings("restart", "recovery", own="restart_s"), "restart": ""}),
    "detection_s": Input("added to the restart", "s", also=spellings("detection", "detect", own="detection_s")),
    "load_s": Input("added to the restart: reading the checkpoint", "s", also=spellings("load", "read", own="load_s")),
    "lag_s": Input("how long after its stall a checkpoint is durable", "s", also=spellings("lag", "durable_after", own="lag_s")),
    "interval_s": Input("useful time between checkpoints; absent: the best", "s",
                        also={**spellings("interval", "checkpoint_interval", own="interval_s"), "interval": ""}),
}
SPARES = {"spares": Input("hot spare nodes; without it every failed node is replaced at once", "count", also={"hot_spares": "", "spare_nodes": ""}),
          "repair_h": Input("time a failed node is out of service", "h", also=spellings("repair", own="repair_h"))}
METHOD = Input("exact, or first_order (the baseline)", default="exact")

QUESTIONS = (
    Question("mttf", "Mean time between unplanned stops of one job", "h", "planner.models.reliability.mttf_seconds", RATE, _mttf),
    Question("interruptions", "Unplanned stops expected in a run", "count", "planner.models.reliability.interruptions",
             {**RATE, "days": Input("days of the run", "day", required=True, also=RATE["days"].also)}, _interruptions),
    Question("goodput", "Share of a training job's time that ends in kept work", "fraction", "planner.models.reliability.goodput_fraction",
             {**RATE, **TIMES, **SPARES, "method": METHOD,
              "quantity": Input("goodput, checkpoint_stalls, lost_work, restarts, waiting", default="goodput")},
             _goodput),
    Question("checkpoint_interval", "Best time between checkpoints", "s", "planner.models.reliability.best_interval_seconds",
             {**RATE, **TIMES, "method": METHOD, "write_s": Input(WRITE.meaning, "s", required=True, also=WRITE.also)}, _checkpoint_interval),
    Question("straggler_slowdown", "What waiting for the slowest GPU costs", "ratio", "planner.models.stragglers.straggler_slowdown",
             {"gpus": Input(GPUS.meaning, "count", required=True, also=GPUS.also),
              "spread": Input("coefficient of variation of one GPU's step time", default=0.0, also={"cv": "", "step_cv": ""}),
              "slow_fraction": Input("share of GPUs that are slow", default=0.0),
              "slow_factor": Input("time of a slow GPU over a typical one", default=1.0),
              "stretch_fraction": Input("share of the step that a slow GPU stretches (1: all of it)")}, _straggler_slowdown),
    Question("spares_needed", "Hot spare nodes so that a job rarely waits for a repair", "count", "planner.models.reliability.spares_needed",
             {**RATE, "repair_h": Input("time out of service", "h", required=True, also=spellings("repair", own="repair_h")),
              "availability": Input("share of the time with enough healthy nodes", default=0.99)}, _spares),
    Question("racks_to_buy", "Racks to buy so that enough pass the screening", "count", "planner.models.stragglers.units_to_buy",
             {"in_service": Input("racks needed in service", "count", required=True),
              "slow_fraction": Input("share of racks that are slow as received", required=True),
              "false_reject": Input("false-reject rate, one or one a stage", required=True, structured=True),
              "escape": Input("escape rate, one or one a stage", required=True, structured=True),
              "confidence": Input("chance that enough pass", default=0.9)}, _to_buy),
)
