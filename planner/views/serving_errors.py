"""What the serving model misses by on rows it was not fitted on, against the targets, in tables, words and a picture."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.errors import InputError
from planner.facts.files import table
from planner.views.style import COLOURS, finished, log_ticks
from planner.views.tables import NOT_AVAILABLE

LEFT_OUT = ("system", "generation", "model", "model_with_offline", "none")
SYMBOLS = ("circle", "diamond", "square", "x", "triangle-up")


@dataclass(frozen=True)
class Aim:
    """One target of the error table: what and group, the words of the measure, the value reached and the bound(s), whether it was met."""

    what: str
    group: str
    measure: str
    value: float
    bound: str
    met: bool


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def aims() -> list[Aim]:
    """Return every target of outputs/serving_errors.csv with what was reached. A value that is not there counts as a miss."""
    found, rows = [], table("serving_errors.csv", "outputs")
    for row in rows:
        for part in filter(None, (p.strip() for p in row["target"].split(","))):
            if part.startswith("no system above"):
                bound = float(part.rsplit(" ", 1)[1])
                each = {r["group"]: _number(r["median"]) for r in rows if r["what"] == row["what"] and "-" in r["group"] and _is_system(r["group"])}
                worst = max(each, key=each.get)
                found.append(Aim(row["what"], worst, "median of the worst system", each[worst], f"at most {bound:.0%}", each[worst] <= bound))
            elif band := re.fullmatch(r"([\d.]+) to ([\d.]+)", part):
                low, high = map(float, band.groups())
                value = _number(row["median"])
                found.append(Aim(row["what"], row["group"], "share", value, f"{low:.0%} to {high:.0%}", low <= value <= high))
            else:
                name, _, text = part.removeprefix("at least ").rpartition(" ")
                value, bound = _number(row[name or "median"]), float(text)
                if "share of" in row["what"] or part.startswith("at least "):  # the more the better
                    found.append(Aim(row["what"], row["group"], "share", value, f"at least {bound:.0%}", value >= bound))
                else:
                    found.append(Aim(row["what"], row["group"], name or "median", value, f"at most {bound:.0%}", value <= bound))
    return found


def _is_system(name: str) -> bool:
    return name.endswith(("-sxm", "-hgx", "-nvl72"))


def aims_table() -> pd.DataFrame:
    """Return every target: what was left out, the measure, what was reached, and met or MISSED."""
    rows = []
    for a in aims():
        row = {"What": a.what, "Of": a.group, "Measure": a.measure, "Reached": _reached(a), "Target": a.bound}
        rows.append(row | {"Result": "met" if a.met else "MISSED"})
    return pd.DataFrame(rows).set_index("What").rename_axis(None)


def _percent(value: float) -> str:
    return NOT_AVAILABLE if math.isnan(value) else f"{value:.1%}"


def _reached(aim: Aim) -> str:
    """A value with as many digits as show on which side of its bound it lies."""
    text = _percent(aim.value)
    return f"{aim.value:.2%}" if not aim.met and text.replace(".0%", "%") in aim.bound else text


def misses() -> str:
    """Return the misses in words, the widest first, and how many targets are met."""
    found = aims()
    missed = [a for a in found if not a.met]
    lines = [f"{len(found) - len(missed)} of {len(found)} targets are met, {len(missed)} are missed"]
    lines += [f"missed: {a.what} ({a.group}), {a.measure} {_reached(a)} against {a.bound}" for a in missed]
    return "\n".join(lines)


def groups_table(left_out: str = "system") -> pd.DataFrame:
    """Return the errors of benchmark throughput by system, scenario and model with one kind of group left out. Raises: InputError."""
    if left_out not in LEFT_OUT:
        raise InputError("left_out", left_out, f"must be one of {', '.join(LEFT_OUT)}")
    what = "MLPerf throughput, fitted on all" if left_out == "none" else f"MLPerf throughput, {left_out.replace('_', ' ')} left out"
    measures = {"Median": "median", "Mean": "mean", "p90": "p90", "Bias": "bias"}
    rows = [{"Group": r["group"], "Rows": int(r["rows"]), **{k: _percent(_number(r[c])) for k, c in measures.items()}}
            for r in table("serving_errors.csv", "outputs") if r["what"] == what]
    return pd.DataFrame(rows).set_index("Group").rename_axis(None)


def left_out_rows(left_out: str = "system", kind: str = "mlperf") -> pd.DataFrame:
    """Return the rows predicted without their like: case, model, scenario, system, measured, predicted, error. Raises: InputError."""
    if left_out not in LEFT_OUT:
        raise InputError("left_out", left_out, f"must be one of {', '.join(LEFT_OUT)}")
    rows = [r for r in table("serving_left_out.csv", "outputs") if (r["table"], r["left_out"]) == (kind, left_out)]
    found = pd.DataFrame(rows)
    for name in ("measured", "predicted", "error"):
        found[name] = found[name].astype(float)
    return found


def left_out_figure(left_out: str = "system") -> go.Figure:
    """Return predictions of benchmark configurations by fits that have not seen their like, against what was measured, by scenario."""
    rows, figure = left_out_rows(left_out), go.Figure()
    ends = np.array([min(rows.measured.min(), rows.predicted.min()) * 0.8, max(rows.measured.max(), rows.predicted.max()) * 1.25])
    figure.add_scatter(x=np.r_[ends, ends[::-1]], y=np.r_[ends * 1.2, ends[::-1] / 1.2], fill="toself", mode="lines", line={"width": 0}, opacity=0.15,
                       fillcolor=COLOURS[6], name="within a factor 1.2", hoverinfo="skip")
    figure.add_scatter(x=ends, y=ends, mode="lines", line={"dash": "dash", "color": COLOURS[6]}, showlegend=False, name="equal", hoverinfo="skip")
    for i, (scenario, mine) in enumerate(rows.groupby("scenario")):
        figure.add_scatter(x=mine.measured, y=mine.predicted, mode="markers", name=f"{scenario} ({len(mine)})", text=mine.case, customdata=mine.error,
                           marker={"color": COLOURS[i], "symbol": SYMBOLS[i], "size": 7, "opacity": 0.8},
                           hovertemplate="%{text}<br>measured %{x:.4g}, predicted %{y:.4g} (%{customdata:+.0%})<extra></extra>")
    figure.update_xaxes(**log_ticks(ends, (1,)))
    figure.update_yaxes(**log_ticks(ends, (1,)))
    size = rows.error.abs()
    worst = rows.loc[size.idxmax()]
    title = (f"{(size <= 0.2).mean():.0%} of {len(rows)} configurations are predicted within 20 % with their {left_out.replace('_', ' ')} left out; "
             f"worst {worst.case}: {worst.error:+.0%}")
    return finished(figure, title, x="measured output tokens/s per GPU", y="predicted", height=520)


def check_table(model: str, systems, left_out: str = "system") -> pd.DataFrame:
    """Return one benchmark's configurations of the latest round with 8 or more GPUs: measured, predicted without their like, and the ratio."""
    rows = left_out_rows(left_out)
    names = {s.partition("/")[0] for s in systems}
    mine = rows[(rows.model == model) & rows.system.isin(names)]
    mine = mine[(mine["round"] == mine["round"].max()) & (mine.gpus.astype(int) >= 8)]
    shown = [{"Configuration": f"{r.scenario}, {r.system} x{r.gpus}, {r['round']}", "Measured tok/s per GPU": f"{r.measured:,.0f}",
              "Model": f"{r.predicted:,.0f}", "Ratio": f"{r.predicted / r.measured:.3f}"} for _, r in mine.iterrows()]
    return pd.DataFrame(shown, columns=["Configuration", "Measured tok/s per GPU", "Model", "Ratio"]).set_index("Configuration").rename_axis(None)
