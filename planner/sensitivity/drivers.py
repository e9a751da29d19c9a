"""The inputs that move the racks of one option most: each at its 10th and 90th percentile, the others at their central values."""

from __future__ import annotations

import numpy as np

from planner.draws import central
from planner.plan import peak_tokens_per_s
from planner.plan.case import Case
from planner.plan.racks import racks_needed
from planner.plan.throughput import best, reach_of
from planner.plan.types import Driver
from planner.sensitivity.analysis import tornado
from planner.sensitivity.plan_draws import best_layouts, inputs_of, with_columns

MISSED = 1e12  # racks that stand for "no layout meets the SLO": more than any plan, so that such an input comes first


def drivers(case: Case, most: int = 3) -> tuple[Driver, ...]:
    """Return the inputs that move the whole racks most, the first first; fewer than `most` where others do not move them.

    Validity: one input at a time, layout and batch chosen again among the best of the central case. Raises: Infeasible as the plan.
    """
    inputs, found, layouts = inputs_of([case]), best(case), best_layouts(case)
    peak, middle = peak_tokens_per_s(case, float(found.tpot[0]), float(found.ttft[0])), central(inputs)

    def racks(columns: dict[str, np.ndarray]) -> np.ndarray:
        size = len(next(iter(columns.values())))
        whole = {n: columns.get(n, np.full(size, v)) for n, v in middle.items()}
        reached, table = reach_of(with_columns(case, whole), layouts)
        per_gpu, replica = table.max(axis=0), np.array([layout.gpus for layout in reached])[table.argmax(axis=0)]
        served = per_gpu > 0
        needed = racks_needed(peak + 0 * per_gpu, np.where(served, per_gpu, 1.0), replica, case.rack, case.scenario.plan)
        return np.where(served, needed.total, MISSED)

    if not any(d.varies for d in inputs.values()):
        return ()
    bars = [b for b in tornado(racks, inputs)[1] if b.swing][:most]
    return tuple(
        Driver(
            b.name.removeprefix(f"{case.label}: "),
            b.low,
            b.high,
            *(None if at == MISSED else int(at) for at in (b.at_low, b.at_high)),
            inputs[b.name].grade,
            inputs[b.name].claims,
        )
        for b in bars
    )
