"""Measured latencies of submissions held against the model: TPOT from its own batch, TTFT from the share of the limit that submitters use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.calibration.serving.constants import of_model
from planner.calibration.serving.submissions import SYSTEMS, Configuration, Submissions, models
from planner.calibration.table import Constant
from planner.facts import mlperf

SOURCE = "data/mlperf_latency.csv"


@dataclass(frozen=True)
class Seen:
    """One submission under a latency limit: measured TPOT p50 and p99 and TTFT p99 [s], None where not recorded; the model's mean TPOT, its p99 and
    its own p99 TTFT at full load [s]; ttft_limit [s], infinite where the benchmark limits the whole time instead."""

    system: str
    model: str
    scenario: str
    tpot_p50: float | None
    tpot_p99: float | None
    ttft_p99: float | None
    own_tpot: float
    own_tpot_p99: float
    own_ttft: float
    ttft_limit: float


def seen() -> list[Seen]:
    """Return every compared Server and Interactive row whose latencies are recorded, beside the model. No latency was fitted."""
    held, solved, found = mlperf.latencies(), {}, []
    for run in mlperf.runs():
        known = run.key in held and run.compared and "virtual" not in run.flags and run.system in SYSTEMS and run.model in models()
        if not known or run.scenario == "Offline":
            continue
        key = (run.model, run.scenario, run.system, run.accelerators, run.round)
        if key not in solved:
            solved[key] = _solve(Configuration(*key, 1.0, 1, 0.0))
        one = held[run.key]
        found.append(Seen(run.system, run.model, run.scenario, one.tpot_p50, one.tpot_p99, one.ttft_p99, *solved[key]))
    return found


def _solve(row: Configuration) -> tuple[float, float, float, float]:
    one, asked = of_model(row.shape), Submissions([row])
    served = asked.reached(one.eff, one.values)
    at = np.unravel_index(served.per_gpu.argmax(), served.per_gpu.shape)
    tpot = float(served.tpot[at])
    return tpot, tpot / min(1.0, one.values["headroom"]), float(served.ttft[at]), float(asked.limits[0][0, 0])


def margin(rows: list[Seen]) -> np.ndarray:
    """Return the logs of measured TTFT p99 over its limit, of the rows that have both."""
    return np.array([np.log(r.ttft_p99 / r.ttft_limit) for r in rows if r.ttft_p99 and np.isfinite(r.ttft_limit)])


def constants(rows: list[Seen]) -> list[Constant]:
    """Return the share of the TTFT limit that submissions use at the 99th percentile, as a row."""
    low, middle, high = np.exp(np.quantile(margin(rows), [0.1, 0.5, 0.9]))
    return [Constant("ttft_share", "", float(middle), float(low), float(high), "ratio", len(margin(rows)), SOURCE, "p99 over its limit, median")]


def summary(rows: list[Seen]) -> list[list]:
    """Return lines of the error table: TPOT p50 and p99, and the share of TTFT p99 within a factor 2, its constant without the row's own system."""
    lines = []
    for name, own, target in (("tpot_p50", "own_tpot", "median 0.20"), ("tpot_p99", "own_tpot_p99", "median 0.30")):
        for group in ("all", *sorted({r.model for r in rows})):
            errors = np.array([getattr(r, own) / getattr(r, name) - 1 for r in rows if getattr(r, name) and group in ("all", r.model)])
            if len(errors):
                size = np.abs(errors)
                numbers = (size.mean(), np.median(size), np.quantile(size, 0.9), np.median(errors))
                lines.append(
                    [
                        f"MLPerf {name.replace('_', ' ').upper()}, not fitted",
                        group,
                        len(errors),
                        *(f"{v:.4f}" for v in numbers),
                        target if group == "all" else "",
                    ]
                )
    inside = []
    for row in rows:
        if row.ttft_p99:
            share = np.exp(np.median(margin([r for r in rows if r.system != row.system])))
            own = max(row.own_ttft, share * row.ttft_limit) if np.isfinite(row.ttft_limit) else row.own_ttft
            inside.append(0.5 <= own / row.ttft_p99 <= 2)
    lines.append(
        ["MLPerf TTFT p99 within a factor 2 (share of rows), system left out", "all", len(inside), "", f"{np.mean(inside):.4f}", "", "", "0.80"]
    )
    return lines
