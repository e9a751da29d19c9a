"""Planning on measured or claimed throughput in the model's place: which rows, said beside the number, never blended."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median

from planner.calibration.serving.submissions import SYSTEMS, configurations, models, shape_of
from planner.errors import Infeasible
from planner.facts import mlperf
from planner.facts.evidence import claim
from planner.plan.case import Case
from planner.plan.inputs import Drawn, Range, draw
from planner.plan.throughput import Throughput

# printed of a submission at 2,300 W, the setting of the profile `upto`
CLAIMED = {"qwen3-vl-235b-a22b": "H0072", "deepseek-r1": "H0073"}  # ratios of vr-nvl72 over BASELINE
BASELINE = "gb300-nvl72"


def _benchmark(case: Case) -> tuple[str, str]:
    """Return the benchmark and scenario that a workload names. Raises: Infeasible (facts) where it names none."""
    scenario = case.workload.scenario
    found = [m for m in models() if shape_of(m).name == case.shape.name]
    if scenario is None or not found:
        raise Infeasible("facts", f"basis = {case.scenario.plan.basis} needs a workload with `scenario` and a model that has a benchmark",
                         f"one of {', '.join(models())}, or basis = model")
    return found[0], scenario.capitalize()


def _measured(model: str, scenario: str, system: str) -> tuple[Range, str]:
    """Return output tokens per GPU as measured in the latest round that has rows, and words about them. Raises: Infeasible (facts)."""
    rows = [c for c in configurations(SYSTEMS) if (c.model, c.scenario, c.system) == (model, scenario, system)]
    if not rows:
        raise Infeasible("facts", f"no measured {model} {scenario} result of {system} is held", "basis = model")
    latest = max(c.round for c in rows)
    values = [c.per_gpu for c in rows if c.round == latest]
    ids = tuple(r.id for r in mlperf.runs() if (r.model, r.scenario, r.system, r.round) == (model, scenario, system, latest) and r.compared)
    words = f"measured: MLPerf {latest} {model} {scenario}, {len(ids)} rows on {', '.join(str(c.gpus) for c in rows if c.round == latest)} GPUs"
    return Range(median(values), min(values), max(values), "A", "measured", ids), words


def on_basis(case: Case, found: Throughput) -> Throughput:
    """Return the throughput with measured or claimed output tokens per GPU where the scenario plans on them; latencies stay the model's.

    Claimed: a printed ratio times the measured rows of its own baseline, from 1 to the ratio where it is printed as "up to". Raises: Infeasible
    (facts) where no such row is held.
    """
    basis = case.scenario.plan.basis
    if basis == "model":
        return found
    model, scenario = _benchmark(case)
    if basis == "measured":
        speed, words = _measured(model, scenario, case.rack.name)
    else:
        if (case.rack.name, case.rack.profile) != ("vr-nvl72", "upto") or model not in CLAIMED:
            raise Infeasible("facts", f"no claimed ratio of {case.rack.label} on {model} is held", "basis = model or measured")
        base, words = _measured(model, scenario, BASELINE)
        item = claim(CLAIMED[model])
        low = 1.0 if item.qualifier == "up to" else item.value
        speed = Range(base.value * item.value, base.low * low, base.high * item.value, "F", "claimed", (item.id, *base.claims))
        words = f"claimed: {item.qualifier} {item.value:g} times {BASELINE} ({words})".replace("  ", " ")
    own = mlperf.workload(model, scenario)[0]
    if not 0.75 < case.output_tokens / own.output_tokens.mean < 1.33 or not 0.5 < case.input_tokens / own.input_tokens.mean < 2:
        words += f"; its lengths ({own.input_tokens.mean:,.0f} in, {own.output_tokens.mean:,.0f} out) are not this workload's"
    size = len(found.per_gpu) - 1
    drawn = draw({"throughput": Range(speed.value, min(speed.low, speed.value), max(speed.high, speed.value), speed.grade, speed.how, speed.claims)},
                 1 << max(0, math.ceil(math.log2(size))), case.scenario.plan.seed)["throughput"]
    item = Drawn(drawn.values[: size + 1], drawn.grade, drawn.how, drawn.claims)
    return replace(found, per_gpu=item.values, inputs={"throughput": item}, how=speed.how, words=words)
