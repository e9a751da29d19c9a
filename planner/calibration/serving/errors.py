"""What the serving model misses by on rows it was not fitted on: a system, a generation or a model left out, each from the priors anew."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from planner.calibration.serving.constants import ERRORS, SOURCE, learned  # noqa: F401
from planner.calibration.serving.fit import Fitted, problem
from planner.calibration.serving.join import KINDS
from planner.calibration.serving.submissions import Configuration
from planner.calibration.table import Constant

LEAVES = ("none", "system", "generation", "model", "model_with_offline")
GENERATIONS = {
    "h100-sxm": "hopper",
    "h200-sxm": "hopper",
    "b200-hgx": "blackwell",
    "gb200-nvl72": "blackwell",
    "b300-hgx": "blackwell-ultra",
    "gb300-nvl72": "blackwell-ultra",
}
_Z90 = 1.2815515655446004
SPREADS = np.arange(0.04, 0.805, 0.005)  # tried for the model's time
LEAST_SPREAD = 0.05  # no interval is narrower than a twentieth: submitters differ by as much on one system
COLUMNS = ("table", "left_out", "kind", "case", "model", "scenario", "system", "gpus", "round", "unit", "measured", "predicted", "error", "note")


def _group(row, leave: str) -> str:
    """Return what a row is left out with."""
    if leave == "system":
        return row.system
    if leave == "generation":
        return GENERATIONS[row.system]
    return row.model if leave.startswith("model") else ""


def _keep(leave: str, group: str) -> tuple[Callable | None, Callable | None]:
    if leave == "none":
        return None, None

    def other(row) -> bool:
        return _group(row, leave) != group

    if leave == "model_with_offline":
        anchor = _anchor(group)
        return None, lambda c: other(c) or c == anchor
    return (None if leave == "model" else other), other


def _anchor(model: str) -> Configuration:
    """Return the one Offline row that may set what is unknown of a model: of the latest round, with the most rows behind it."""
    rows = [c for kind in KINDS for c in problem(kind).submitted.rows if c.model == model and c.scenario == "Offline"]
    return max(rows, key=lambda c: (c.round, c.num, c.gpus, c.system))


@dataclass(frozen=True)
class Missed:
    """One row predicted without its like: table mlperf or published; predicted and measured in one unit."""

    table: str
    left_out: str
    kind: str
    row: object
    measured: float
    predicted: float
    note: str = ""

    @property
    def error(self) -> float:
        """Relative error."""
        return self.predicted / self.measured - 1


def fitted(kind: str, use: str, leave: str, group: str) -> Fitted:
    """Return the constants for a use fitted without a group, from the priors."""
    return problem(kind).fit(use, *_keep(leave, group))


def _job(job: tuple[str, str, str]) -> list[Missed]:
    kind, leave, group = job
    asked = problem(kind)
    log = asked.submissions_log(fitted(kind, "tuned", leave, group).x)
    anchor = _anchor(group) if leave == "model_with_offline" else None
    mine = [
        Missed("mlperf", leave, kind, row, float(row.per_gpu), float(np.exp(y)))
        for row, y in zip(asked.submitted.rows, log, strict=True)
        if _group(row, leave) == group and row != anchor
    ]
    if leave.startswith("model"):
        return mine
    if not any(_group(run, leave) == group for run in asked.public.runs):
        return mine
    tpot, _, batch = asked.runs_solved(fitted(kind, "public", leave, group).x)
    full = batch >= 0.999 * asked.public.capacity
    for i, run in enumerate(asked.public.runs):
        if _group(run, leave) == group:
            note = " ".join(w for w, holds in (("beyond capacity", full[i]), ("queue limited", run.queued)) if holds)
            mine.append(Missed("published", leave, kind, run, run.tpot, float(tpot[i]), note))
    return mine


def missed(leaves: Iterable[str] = LEAVES, workers: int = 2) -> list[Missed]:
    """Return every row as predicted by a fit without its group; `none` is the fit on all rows. Some minutes on two cores."""
    jobs = []
    for leave in leaves:
        for kind in KINDS:
            asked = problem(kind)
            rows = [*asked.submitted.rows, *([] if leave.startswith("model") else asked.public.runs)]
            jobs += [(kind, leave, group) for group in sorted({_group(r, leave) for r in rows})]
    with ProcessPoolExecutor(workers) as pool:
        return [m for found in pool.map(_job, jobs) for m in found]


def left_out_text(rows: Iterable[Missed]) -> str:
    """Return the rows as CSV text, the table that notebooks show beside the model."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for m in rows:
        row, is_run = m.row, m.table == "published"
        case = f"serving_published.csv:{row.line}" if is_run else f"{row.model} {row.scenario} {row.system} x{row.gpus} {row.round}"
        scenario = ("disaggregated" if row.disaggregated else "aggregated") if is_run else row.scenario
        gpus = row.decode.gpus * row.decode_workers + row.prefill.gpus * row.prefill_workers if is_run else row.gpus
        writer.writerow(
            [
                m.table,
                m.left_out,
                m.kind,
                case,
                row.model,
                scenario,
                row.system,
                gpus,
                row.engine if is_run else row.round,
                "s" if is_run else "tok/s/GPU",
                f"{m.measured:.5g}",
                f"{m.predicted:.5g}",
                f"{m.error:.4f}",
                m.note,
            ]
        )
    return out.getvalue()


def _spread(errors: np.ndarray) -> float:
    """Return the log spread of relative errors that holds 80 % of them around zero, as one standard deviation of a normal law."""
    return max(LEAST_SPREAD, float(np.quantile(np.abs(np.log1p(errors)), 0.8)) / _Z90)


@dataclass(frozen=True)
class Response:
    """A left-out configuration: measured over predicted [1], and what its throughput becomes over the model's with all times at the 90th and the
    10th percentile of each spread of `SPREADS` [1]."""

    row: Configuration
    left_out: str
    ratio: float
    low: np.ndarray
    high: np.ndarray

    @property
    def inside(self) -> np.ndarray:
        """Whether the measured value lies inside, by spread."""
        return (self.low <= self.ratio) & (self.ratio <= self.high)

    @property
    def group(self) -> str:
        """Offline, or served where a latency limit holds."""
        return "served" if self.row.served else "Offline"


def responses(rows: list[Missed]) -> list[Response]:
    """Return how the throughput of every left-out configuration moves with the model's time: near a limit a little time moves much throughput."""
    found = []
    for kind in KINDS:
        asked, one = problem(kind).submitted, learned(kind)

        def reached(slowdown: float, asked=asked, one=one) -> np.ndarray:
            each = asked.reached(one.eff, one.values, slowdown=slowdown).per_gpu.max(axis=1)
            best = np.zeros(len(asked.rows))
            np.maximum.at(best, asked.owner, each)
            return best

        base = reached(1.0)
        low, high = (np.array([reached(float(np.exp(side * _Z90 * s))) for s in SPREADS]) / base for side in (1, -1))
        place = {row: i for i, row in enumerate(asked.rows)}
        mine = [m for m in rows if m.table == "mlperf" and m.kind == kind and m.left_out in ("system", "generation", "model")]
        found += [Response(m.row, m.left_out, m.measured / m.predicted, low[:, place[m.row]], high[:, place[m.row]]) for m in mine]
    return found


def _time_spread(some: list[Response]) -> int:
    """Return the index of the least spread that holds 80 % of the rows."""
    shares = np.mean([r.inside for r in some], axis=0)
    return int(np.argmax(shares >= 0.8)) if (shares >= 0.8).any() else len(SPREADS) - 1


def spreads(rows: list[Missed]) -> list[Constant]:
    """Return the log spread of the model's time by kind of load and by what was left out, as rows of the constants' table: the least that holds 80 %
    of the configurations. And that of the TPOT of public runs."""
    found, all_of_them = [], responses(rows)
    for leave in ("system", "generation", "model"):
        for group in ("Offline", "served"):
            mine = [r for r in all_of_them if (r.left_out, r.group) == (leave, group)]
            value = float(SPREADS[_time_spread(mine)])
            found.append(
                Constant("time_spread", f"{group}|{leave}", value, value, value, "ratio", len(mine), SOURCE, "one standard deviation of the log")
            )
    mine = np.array([m.error for m in rows if m.table == "published" and m.left_out == "system" and m.note == ""])
    found.append(Constant("time_spread", "tpot|system", _spread(mine), _spread(mine), _spread(mine), "ratio", len(mine), SOURCE, "public runs"))
    return found


def coverage(rows: list[Missed]) -> tuple[float, Mapping[str, float]]:
    """Return the share of configurations inside the 80 % interval, and the intervals' widths over their value by scenario, medians.

    A system's spread of time comes from the rows of the other systems alone.
    """
    mine = [r for r in responses(rows) if r.left_out == "system"]
    inside, widths = [], {}
    for system in sorted({r.row.system for r in mine}):
        for group in ("Offline", "served"):
            at = _time_spread([r for r in mine if r.group == group and r.row.system != system])
            for r in (r for r in mine if r.group == group and r.row.system == system):
                inside.append(bool(r.inside[at]))
                widths.setdefault(r.row.scenario, []).append(float(r.high[at] - r.low[at]))
    return float(np.mean(inside)), {k: float(np.median(v)) for k, v in widths.items()}


def pairs(rows: list[Missed], leave: str = "system") -> list[tuple[str, str, str, str, float, float]]:
    """Return (model, scenario, new, old, measured ratio, predicted ratio) of every two systems in one round, per GPU, medians over GPU counts."""
    table: dict[tuple, list[Missed]] = {}
    for m in rows:
        if m.table == "mlperf" and m.left_out == leave:
            table.setdefault((m.row.model, m.row.scenario, m.row.round, m.row.system), []).append(m)
    middle = {k: tuple(float(np.median([getattr(m, a) for m in v])) for a in ("measured", "predicted")) for k, v in table.items()}
    order = list(GENERATIONS)
    found = []
    for (model, scenario, year, new), (measured, predicted) in sorted(middle.items()):
        for old in order[: order.index(new)]:
            other = middle.get((model, scenario, year, old))
            if other:
                found.append((model, f"{scenario} {year}", new, old, measured / other[0], predicted / other[1]))
    return found


def _line(what: str, group: str, errors: Iterable[float], target: str = "") -> list:
    signed = np.array(list(errors))
    size = np.abs(signed)
    if not len(size):
        return [what, group, 0, "", "", "", "", target]
    return [
        what,
        group,
        len(size),
        f"{np.mean(size):.4f}",
        f"{np.median(size):.4f}",
        f"{np.quantile(size, 0.9):.4f}",
        f"{np.median(signed):.4f}",
        target,
    ]


def summary(rows: list[Missed]) -> list[list]:
    """Return the error table: what, group, rows, mean, median, p90 of the absolute relative error, bias (median of the signed), target."""
    lines = []
    targets = {
        "system": "median 0.10, p90 0.30, no system above 0.20",
        "generation": "median 0.13",
        "model": "median 0.30",
        "model_with_offline": "median 0.12",
        "none": "",
    }
    for leave in LEAVES:
        mine = [m for m in rows if m.table == "mlperf" and m.left_out == leave]
        what = f"MLPerf throughput, {leave.replace('_', ' ')} left out" if leave != "none" else "MLPerf throughput, fitted on all"
        lines.append(_line(what, "all", (m.error for m in mine), targets[leave]))
        for name in ("system", "scenario", "model"):
            for value in sorted({getattr(m.row, name) for m in mine}):
                lines.append(_line(what, value, (m.error for m in mine if getattr(m.row, name) == value)))
    public = [m for m in rows if m.table == "published" and m.left_out == "system"]
    for label, word, single, target in (
        ("DeepSeek disaggregated", "DeepSeek", True, "mean 0.15, median 0.12"),
        ("Llama 70B", "70B", None, "median 0.10"),
        ("gpt-oss-120b", "gpt-oss", None, "median 0.15"),
    ):
        of = [m for m in public if word in m.row.model and (single is None or m.row.disaggregated is single)]
        free = [m for m in of if single or not m.note]
        lines.append(_line(f"published TPOT, system left out: {label}", "all" if single else "below capacity", (m.error for m in free), target))
        for value in sorted({m.row.system for m in free}):
            lines.append(_line(f"published TPOT, system left out: {label}", value, (m.error for m in free if m.row.system == value)))
        if not single:
            lines.append(_line(f"published TPOT, system left out: {label}", "beyond capacity or queued", (m.error for m in of if m.note)))
    found = pairs(rows)
    lines.append(_line("ratio of two systems, each left out", "all", (p / m - 1 for *_, m, p in found), "median 0.15"))
    share, widths = coverage(rows)
    lines.append(["share of configurations inside the 80 % interval", "all", len(found), "", f"{share:.4f}", "", "", "0.75 to 0.90"])
    for scenario, width in sorted(widths.items()):
        lines.append(
            ["median width of the interval over its value", scenario, "", "", f"{width:.4f}", "", "", "0.70" if scenario == "Interactive" else "0.50"]
        )
    return lines
