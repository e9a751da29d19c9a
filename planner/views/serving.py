"""How many tokens at what speed: frontiers with what was measured and what a peer predicts beside them, one step by part, and the errors."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.errors import Infeasible, InputError
from planner.facts import catalog, modelcards
from planner.facts.files import table
from planner.facts.names import resolve_model, resolve_system
from planner.plan import frontier as model
from planner.plan.frontier import Asked, Frontier
from planner.views.style import COLOURS, finished, log_ticks
from planner.views.tables import NOT_AVAILABLE, digits

NEAR = 1.3  # lengths count as similar within this factor
STEP_PARTS = ("weights", "cache", "linear", "attention", "activations", "communication", "launch", "sampling")
FOREIGN = {"nvidia/DeepSeek-V3.1-NVFP4": "deepseek-ai/DeepSeek-V3"}  # of the shape of one that ships with the planner


def ask(
    name: str,
    input_tokens: float,
    output_tokens: float,
    *,
    cache_hits: float = 0.0,
    ttft_s: float | None = None,
    mtp: bool = False,
    software: str = "current",
    largest_gpus: int | None = None,
    pools: str = "both",
) -> Asked:
    """Return what is asked of every system. Raises: InputError for an unknown model, a share that is no share, no positive length."""
    return Asked(resolve_model(name), float(input_tokens), float(output_tokens), float(cache_hits), ttft_s, mtp, software, largest_gpus, pools)


def label(system: str) -> str:
    """Return `name/profile` as it is printed."""
    name, _, profile = system.partition("/")
    return catalog.system(name, profile or None).label


@cache
def _shape_key(name: str) -> tuple | None:
    """What two checkpoints of one architecture and size share; None for a model that is not known."""
    try:
        shape = modelcards.load(resolve_model(FOREIGN.get(name, name)))
    except InputError:
        return None
    return shape.layers, shape.hidden, shape.vocab, shape.experts.num if shape.experts else 0


def _beside(file: str, asked: Asked, system: str) -> list[dict[str, str]]:
    """Return the rows of a table that are of the same shape of model, system and similar lengths."""
    wanted, found = _shape_key(asked.model), []
    for row in table(file):
        try:
            near = all(1 / NEAR <= float(row[k]) / v <= NEAR for k, v in (("isl", asked.input_tokens), ("osl", asked.output_tokens)))
        except ValueError:
            continue
        if near and resolve_system(row["system"]) == system.partition("/")[0] and _shape_key(row["model"]) == wanted:
            found.append(row)
    return found


def measured(asked: Asked, system: str) -> pd.DataFrame:
    """Return the public runs of a model's shape on a system at similar lengths: speed, output tokens per GPU, and what is known of each."""
    rows = []
    for row in _beside("serving_published.csv", asked, system):
        speed, rate = row["interactivity_tok_s_user"] or (1e3 / float(row["tpot_ms"]) if row["tpot_ms"] else ""), row["out_tok_s_gpu"]
        if not speed or not rate or row["mode"] not in ("agg", "disagg"):
            continue
        about = f"{row['engine']}, {row['precision']}, {row['mode']}, {row['config']}, concurrency {row['concurrency'] or 'not given'}"
        about += f"<br>MTP {row['mtp']}; {row['flag'] or 'as printed'}; {row['date']}"
        rows.append({"speed": float(speed), "per_gpu": float(rate), "about": about, "disaggregated": row["mode"] == "disagg"})
    return pd.DataFrame(rows, columns=["speed", "per_gpu", "about", "disaggregated"])


def peer(asked: Asked, system: str) -> pd.DataFrame:
    """Return a peer tool's predictions for a model's shape on a system at similar lengths: its own trade-off curves, MTP off."""
    rows = []
    for row in _beside("serving_oracle.csv", asked, system):
        if row["row_kind"] == "pareto" and row["tok_s_user"] and row["tok_s_gpu_cluster"]:
            about = f"{row['model']}, {row['mode']}, {row['parallelism']}, TTFT {float(row['ttft_ms'] or 'nan') / 1e3:.2f} s"
            rows.append({"speed": float(row["tok_s_user"]), "per_gpu": float(row["tok_s_gpu_cluster"]), "about": about})
    return pd.DataFrame(rows, columns=["speed", "per_gpu", "about"])


def fronts(asked: Asked, systems) -> list[Frontier]:
    """Return the frontier of every system, up to three. Raises: InputError for more, or for a name that is not known."""
    if not 1 <= len(systems) <= 3:
        raise InputError("systems", len(systems), "must be one to three systems")
    return [model.frontier(asked, system) for system in systems]


def _hover(front: Frontier, points) -> list[str]:
    tail = f"{front.how}, grade {front.grade}<br>{', '.join(front.claims)}"
    return [
        f"{digits(p.per_gpu)} tok/s per GPU (80 %: {digits(p.low)} to {digits(p.high)}) at {digits(p.speed)} tok/s per user<br>"
        f"limited by {p.limit}<br>{p.layout}, {p.batch:,.0f} sequences a decode replica, TTFT {digits(p.ttft)} s<br>{tail}"
        for p in points
    ]


def frontier_figure(asked: Asked, systems, tpot_s: float) -> go.Figure:
    """Return output tokens per GPU against tokens per second per user: the model with its 80 % interval, public runs and a peer beside it.

    Parameters: tpot_s [s], the SLO; what each system does under it is a star. Measured points are never blended into the model's. Raises: InputError.
    """
    figure, found = go.Figure(), fronts(asked, systems)
    seen = [v for front in found for p in front.points for v in (p.low, p.high)]
    for front, colour in zip(found, COLOURS, strict=False):
        xs, ys, low, high = (np.array([getattr(p, k) for p in front.points]) for k in ("speed", "per_gpu", "low", "high"))
        band = {"fill": "toself", "opacity": 0.15, "line": {"width": 0}, "fillcolor": colour, "hoverinfo": "skip"}
        name = label(front.system)
        figure.add_scatter(
            x=np.r_[xs, xs[::-1]], y=np.r_[high, low[::-1]], mode="lines", name=f"{name}, 80 %", legendgroup=name, showlegend=False, **band
        )
        said = f"{name} ({front.how})" if front.how == "extrapolated" else name
        shown = {"legendgroup": name, "line": {"color": colour}, "hoverinfo": "text"}
        figure.add_scatter(x=xs, y=ys, mode="lines+markers", name=said, text=_hover(front, front.points), **shown)
    for front, colour in zip(found, COLOURS, strict=False):
        runs, others, name = measured(asked, front.system), peer(asked, front.system), label(front.system)
        seen += [*runs.per_gpu, *others.per_gpu]
        if len(runs):
            figure.add_scatter(
                x=runs.speed, y=runs.per_gpu, mode="markers", name=f"{name}, {len(runs)} public runs", text=runs.about, marker_color=colour,
                marker_symbol="x", marker_size=7, hovertemplate="measured: %{y:.4g} at %{x:.3g} tok/s per user<br>%{text}<extra></extra>",
            )  # fmt: skip
        if len(others):
            figure.add_scatter(
                x=others.speed, y=others.per_gpu, mode="markers", name=f"{name}, a peer's predictions", text=others.about, marker_color=colour,
                marker_symbol="triangle-up-open", marker_size=8, hovertemplate="peer: %{y:.4g} at %{x:.3g}<br>%{text}<extra></extra>",
            )  # fmt: skip
    stars = {front.system: _under(asked, front.system, tpot_s) for front in found}
    served = [(front, stars[front.system]) for front in found if stars[front.system]]
    figure.add_scatter(
        x=[p.speed for _, p in served], y=[p.per_gpu for _, p in served], mode="markers", name=f"under TPOT p99 {1e3 * tpot_s:g} ms",
        text=[_hover(f, [p])[0] for f, p in served], hoverinfo="text", marker={"symbol": "star-open", "size": 16, "color": COLOURS[3]},
    )  # fmt: skip
    figure.update_xaxes(**log_ticks([p.speed for f in found for p in f.points]))
    figure.update_yaxes(**log_ticks(seen))
    finished(figure, _frontier_title(stars, tpot_s), x="tokens/s per user (1 / mean TPOT)", y="output tokens/s per deployed GPU", height=560)
    figure.update_layout(legend={"y": -0.16})
    return figure


def _under(asked: Asked, system: str, tpot_s: float) -> model.Point | None:
    """Return what a system does under the SLO, None where it cannot."""
    try:
        return model.as_point(1 / tpot_s, model.point_of(asked, system, tpot_s))
    except Infeasible:
        return None


def _frontier_title(stars: dict[str, model.Point | None], tpot_s: float) -> str:
    served = {label(s): p.per_gpu for s, p in stars.items() if p}
    limit = f"TPOT p99 {1e3 * tpot_s:g} ms"
    if not served:
        return f"None of {', '.join(label(s) for s in stars)} serves {limit} in the central case"
    first = max(served, key=served.get)
    text = f"Under {limit} {first} gives {digits(served[first])} output tok/s per GPU"
    others = [f"{digits(served[first] / v)} times {n}" for n, v in served.items() if n != first]
    text += f", {' and '.join(others)}" if others else ""
    missing = [label(s) for s, p in stars.items() if not p]
    return text + (f"; {' and '.join(missing)} cannot" if missing else "")


def slo_table(asked: Asked, systems, tpot_s: float) -> pd.DataFrame:
    """Return the best that every system does under the SLO: tokens per GPU with the 80 % interval, layout, what limits it, or why it cannot."""
    rows = []
    for system in systems:
        row = {"System": label(system)}
        try:
            found = model.point_of(asked, system, tpot_s)
        except Infeasible as error:
            rows.append(row | {"tok/s per GPU": NOT_AVAILABLE, "Limited by": error.limit})
            continue
        case = model.case_of(asked, system, tpot_s)
        p = model.as_point(1 / tpot_s, found)
        rows.append(
            row
            | {
                "tok/s per GPU": f"{digits(p.per_gpu)} ({digits(p.low)}–{digits(p.high)})",
                "tok/s per user": digits(p.speed),
                "TTFT p99, s": digits(p.ttft),
                "Layout": p.layout,
                "Limited by": p.limit,
                "How": "extrapolated" if case.extrapolated else "modelled",
                "Software": f"{case.given.software}, {case.software_state[0]:.2f} of mature",
            }
        )
    return pd.DataFrame(rows).set_index("System").rename_axis(None).fillna("")


def step_figure(asked: Asked, systems, tpot_s: float) -> go.Figure:
    """Return where one decode step's time goes under the SLO, by part, in the central case of each system."""
    figure, steps = go.Figure(), {}
    for system in systems:
        try:
            found = model.point_of(asked, system, tpot_s)
        except Infeasible:
            continue
        steps[f"{label(system)}<br>{found.layout.label}"] = found.step
    for i, part in enumerate(STEP_PARTS):
        figure.add_bar(
            x=[1e3 * s[part] for s in steps.values()], y=list(steps), orientation="h", name=part, marker_color=COLOURS[i % len(COLOURS)],
            hovertemplate="%{y}: %{x:.3g} ms<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack", legend={"traceorder": "normal"})
    figure.update_yaxes(autorange="reversed")
    heavy = {n: max(s, key=s.get) for n, s in steps.items()}
    whole = {n: sum(s.values()) for n, s in steps.items()}
    said = [f"{n.split('<br>')[0]}: {1e3 * whole[n]:.1f} ms, the largest part {heavy[n]} ({s[heavy[n]] / whole[n]:.0%})" for n, s in steps.items()]
    return finished(figure, "<br>".join(said) or "No system meets the SLO", x="ms of one decode step (with its share of prefill)", height=330)


def pools_figure(asked: Asked, systems) -> go.Figure:
    """Return what separate prefill and decode pools give over one pool that does both, along the speed; both at their best layouts."""
    figure, crossings = go.Figure(), []
    for system, colour in zip(systems, COLOURS, strict=False):
        rows = [r for r in model.aggregated_against_disaggregated(asked, system) if r[1] > 0 or r[2] > 0]
        both = [(x, b / a) for x, a, b in rows if a > 0]
        first = next((x for x, r in both if r > 1), None)
        alone = [x for x, a, _ in rows if a <= 0]
        name = label(system)
        said = "one pool serves more at every speed" if first is None else f"two pools serve more from {first:.0f} tok/s per user"
        crossings.append(f"{name}: {said}" + (f", alone from {alone[0]:.0f}" if alone else ""))
        figure.add_scatter(
            x=[x for x, _ in both], y=[r for _, r in both], mode="lines+markers", name=name, line={"color": colour},
            hovertemplate="%{x:.0f} tok/s per user: two pools give %{y:.2f} times one<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    figure.add_hline(y=1, line={"dash": "dash", "color": COLOURS[6]})
    figure.update_xaxes(**log_ticks([x for t in figure.data for x in t.x]))
    figure.update_yaxes(**log_ticks([y for t in figure.data for y in t.y]))
    return finished(figure, "<br>".join(crossings), x="tokens/s per user asked for", y="disaggregated over aggregated", height=400)


def beside_table(asked: Asked, systems) -> pd.DataFrame:
    """Return public runs and a peer's predictions over the model's frontier at their own speed: how many, the median and the highest ratio."""
    rows = []
    for front in fronts(asked, systems):
        for what, points in (("public runs", measured(asked, front.system)), ("a peer's predictions", peer(asked, front.system))):
            ratios = np.array([y / front.at(x) for x, y in zip(points.speed, points.per_gpu, strict=True)])
            ratios = ratios[np.isfinite(ratios)]
            row = {"System": label(front.system), "What": what, "Points": len(points), "Within the frontier's speeds": len(ratios)}
            shown = {"Median ratio": np.median, "Highest ratio": np.max}
            rows.append(row | {k: digits(float(f(ratios))) if len(ratios) else NOT_AVAILABLE for k, f in shown.items()})
    return pd.DataFrame(rows).set_index("System").rename_axis(None)


def takeaway(asked: Asked, systems, tpot_s: float) -> str:
    """Return what may be said: the best system under the SLO and how sure, what limits each, and what was measured beside it."""
    lines = []
    for system in systems:
        name = label(system)
        try:
            p = model.as_point(1 / tpot_s, model.point_of(asked, system, tpot_s))
        except Infeasible as error:
            lines.append(f"{name}: cannot serve this SLO: {error.limit}; {error.next_step}")
            continue
        ends = f"80 % interval {digits(p.low)} to {digits(p.high)}, {(p.high - p.low) / p.per_gpu:.0%} of the value"
        lines.append(f"{name}: {digits(p.per_gpu)} output tok/s per GPU ({ends}), limited by {p.limit}")
    seen = beside_table(asked, systems)
    runs = seen[(seen["What"] == "public runs") & (seen["Points"] > 0)]
    for name, r in runs.iterrows():
        lines.append(f"{name}: {r['Points']} public runs at similar lengths, median {r['Median ratio']} and best {r['Highest ratio']} of the model's "
                     "frontier at their own speed (1 or less is expected of runs that are not tuned; whether MTP was on is mostly not recorded)")
    unseen = [label(s) for s in systems if label(s) not in set(runs.index)]
    if unseen:
        lines.append(f"No public run of this model at similar lengths is held for {', '.join(unseen)}")
    return "\n".join(lines)
