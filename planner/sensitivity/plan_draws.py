"""Many draws through the whole plan at once: throughput, racks, power and cost of each system, on inputs that the systems share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.draws import Distribution, between, central, fixed, sample
from planner.errors import Infeasible, InputError
from planner.plan import peak_tokens_per_s
from planner.plan.case import Case
from planner.plan.inputs import Drawn
from planner.plan.power import rack_watts
from planner.plan.racks import racks_needed
from planner.plan.serving import Pairing
from planner.plan.throughput import best, reach_of

SHARED = ("mtp_tokens_per_step",)
MOST_LAYOUTS = 8  # of the 16 that the plan looks at
CHUNK = 2048  # draws worked at once: small enough to stay in cache
QUANTITIES = ("tokens_per_s_per_gpu", "racks", "facility_watts", "tokens_per_s_per_mw", "usd_per_mtok")


def column(case: Case, name: str) -> str:
    """Return the name of an input over all systems: software is shared between them, hardware and prices are each one's own."""
    return name if name in SHARED else f"{case.label}: {name}"


def inputs_of(cases: Sequence[Case]) -> dict[str, Distribution]:
    """Return the uncertain inputs of several cases by `column`, each by its central value and its 10th and 90th percentile."""
    found: dict[str, Distribution] = {}
    for case in cases:
        for name, item in case.inputs.items():
            low, high = np.percentile(item.values[1:], [10, 90])
            value = float(item.values[0])
            if low < high:
                made = between(value, min(float(low), value), max(float(high), value), item.grade, item.how, item.claims)
            else:
                made = fixed(value, item.grade, item.how, item.claims)
            found.setdefault(column(case, name), made)
    return found


def with_columns(case: Case, columns: Mapping[str, np.ndarray]) -> Case:
    """Return the case with its inputs replaced by columns (n,), the first value being the central one."""
    mine = replace(case)
    drawn = {n: Drawn(np.asarray(columns[column(case, n)], float), d.grade, d.how, d.claims) for n, d in case.inputs.items()}
    mine.__dict__["inputs"] = drawn  # the place in which the cached property looks
    return mine


@dataclass(frozen=True)
class Through:
    """What one system gives over the draws, central first: quantity -> (n,), usd_per_mtok None without a price; layout -> share of draws it wins."""

    label: str
    values: Mapping[str, np.ndarray | None]
    wins: Mapping[str, float]
    unserved: float


def best_layouts(case: Case, most: int = MOST_LAYOUTS) -> list[Pairing]:
    """Return the best layout of the central case, then those that add most over the plan's own draws. Raises: Infeasible."""
    return reach_of(case)[0][:most]


def through_plan(case: Case, columns: Mapping[str, np.ndarray], most_layouts: int | None = MOST_LAYOUTS) -> Through:
    """Run draws through the plan of one case, each draw choosing its layout and batch again among the best of the central case.

    Parameters: case; columns, `column` -> (n,), central first; most_layouts, None = all that fit. Returns: Through.
    Raises: Infeasible as the plan. Validity: as the plan; a draw in which no layout meets the SLO counts as the worst that any draw reached.
    Error: 10th and 90th percentile within 2 % of a full search on 200 draws (tests).
    """
    size = len(next(iter(columns.values())))
    chosen = None if most_layouts is None else best_layouts(case, most_layouts)
    per_gpu, replica, winners, names = np.empty(size), np.empty(size), np.zeros(0), []
    for start in range(0, size, CHUNK):
        part = with_columns(case, {k: v[start:start + CHUNK] for k, v in columns.items()})
        found, table = reach_of(part, chosen, everything=chosen is None)
        names = [layout.label for layout in found]
        winners = winners if len(winners) else np.zeros(len(names))
        winner = table.argmax(axis=0)
        per_gpu[start:start + CHUNK] = table[winner, np.arange(table.shape[1])]
        replica[start:start + CHUNK] = np.array([layout.gpus for layout in found])[winner]
        winners += np.bincount(winner[table.max(axis=0) > 0], minlength=len(names))
    if not (per_gpu > 0).any():
        raise Infeasible("slo", "no draw meets the SLO on any layout", "a looser SLO")
    served = per_gpu > 0
    per_gpu = np.where(served, per_gpu, per_gpu[served].min())
    wins = {n: float(w / winners.sum()) for n, w in sorted(zip(names, winners, strict=True), key=lambda pair: -pair[1]) if w}
    return Through(case.label, _quantities(case, columns, per_gpu, np.where(served, replica, replica[served][0])), wins, float(1 - served.mean()))


def _quantities(case: Case, columns: Mapping[str, np.ndarray], per_gpu: np.ndarray, replica: np.ndarray) -> dict[str, np.ndarray | None]:
    found = best(case)
    plan, site = case.scenario.plan, case.scenario.site
    peak = peak_tokens_per_s(case, float(found.tpot[0]), float(found.ttft[0]))
    racks = racks_needed(peak + 0 * per_gpu, per_gpu, replica, case.rack, plan).total.astype(float)
    watts = rack_watts(case.rack, {"overhead_watts": Drawn(columns[column(case, "overhead_watts")], "P", "assumed")}) * site.pue
    price = columns.get(column(case, "gpu_hour_usd"))
    mean = peak / case.workload.peak_to_mean
    usd = None if price is None else price * racks * case.rack.gpus / 3600 / mean * 1e6
    return dict(zip(QUANTITIES, (per_gpu, racks, racks * watts, peak / (racks * watts) * 1e6, usd), strict=True))


def compare(cases: Sequence[Case], num: int = 512, seed: int = 0,
            most_layouts: int | None = MOST_LAYOUTS) -> tuple[dict[str, np.ndarray], dict[str, Through]]:
    """Return (columns drawn, label -> Through) of several cases on one set of draws. Raises: InputError for two cases of one label; Infeasible."""
    if len({c.label for c in cases}) < len(cases):
        raise InputError("cases", [c.label for c in cases], "must be of different systems")
    columns = sample(inputs_of(cases), num, seed)
    return columns, {c.label: through_plan(c, columns, most_layouts) for c in cases}


def model_of(case: Case, quantity: str):
    """Return a `Model` for the analyses: the columns of `inputs_of([case])` -> one quantity of the plan. Raises: InputError for its name."""
    if quantity not in QUANTITIES:
        raise InputError("quantity", quantity, f"must be one of {', '.join(QUANTITIES)}")
    names = inputs_of([case])

    def model(columns: dict[str, np.ndarray]) -> np.ndarray:
        size = len(next(iter(columns.values())))
        middle = {n: np.concatenate([[v], columns.get(n, np.full(size, v))]) for n, v in central(names).items()}
        values = through_plan(case, middle).values[quantity]
        if values is None:
            raise InputError(quantity, None, f"is not available: no price for {case.label}")
        return values[1:]

    return model
