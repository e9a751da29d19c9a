"""Agentic sessions on a rack: what its caches find, tier by tier, and what that leaves it to serve."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.errors import Infeasible
from planner.plan import sessions as model
from planner.plan.frontier import Asked
from planner.views.serving import label
from planner.views.style import COLOURS, finished, log_ticks
from planner.views.tables import NOT_AVAILABLE, digits

DASHES = {"hbm": "dot", "lpddr": "dash", "nvme": "solid"}
NAMES = {"hbm": "HBM", "lpddr": "and LPDDR", "nvme": "and NVMe"}


def _carried(asked: Asked, systems, tpot_s: float, calls: int, think_s: float) -> dict[str, model.Carried | str]:
    found = {}
    for system in systems:
        try:
            found[system] = model.carried(asked, system, tpot_s, calls, think_s)
        except Infeasible as error:
            found[system] = error.limit
    return found


def sessions_table(asked: Asked, systems, tpot_s: float, calls: int, think_s: float) -> pd.DataFrame:
    """Return one full rack of each system with the hit share that its own load leaves: sessions, hits by tier, what is prefilled and brought back."""
    rows = []
    for system, one in _carried(asked, systems, tpot_s, calls, think_s).items():
        row = {"System": label(system)}
        if isinstance(one, str):
            rows.append(row | {"tok/s per GPU": NOT_AVAILABLE, "Layout": one})
            continue
        row |= {"tok/s per GPU": digits(one.per_gpu), "Live sessions a rack": f"{one.live:,.0f}", "Input found": f"{sum(one.hits.values()):.1%}"}
        row |= {f"in {n.upper()}": f"{v:.1%}" for n, v in one.hits.items()}
        row |= {"Endless cache": f"{one.structural:.1%}", "Prefill a call, tokens": f"{one.prefill_tokens:,.0f}"}
        back = {n: s for n, s in one.restore_seconds.items() if n != "hbm"}
        rows.append(row | {"Brought back, ms": ", ".join(f"{n} {1e3 * s:.2g}" for n, s in back.items()), "Layout": one.layout})
    return pd.DataFrame(rows).set_index("System").rename_axis(None).fillna("")


def sessions_figure(asked: Asked, systems, tpot_s: float, calls: int, think_s: float) -> go.Figure:
    """Return the share of input found in the caches of one rack against its live sessions, tier by tier; the load it carries itself is a star."""
    figure, found = go.Figure(), _carried(asked, systems, tpot_s, calls, think_s)
    served = {s: c for s, c in found.items() if isinstance(c, model.Carried)}
    most = max((c.live for c in served.values()), default=100.0)
    live = np.geomspace(most / 100, most * 30, 90)
    for i, (system, one) in enumerate(served.items()):
        for name, share in model.hits_along(asked, system, tpot_s, calls, think_s, live).items():
            figure.add_scatter(
                x=live, y=share, mode="lines", name=f"{label(system)}, {NAMES[name]}", line={"color": COLOURS[i], "dash": DASHES[name]},
                hovertemplate="%{x:,.0f} live sessions: %{y:.1%} found<extra>%{fullData.name}</extra>",
            )  # fmt: skip
        figure.add_scatter(x=[one.live], y=[sum(one.hits.values())], mode="markers", name=f"{label(system)}, carried under the SLO",
                           marker={"symbol": "star-open", "size": 14, "color": COLOURS[i]}, hovertemplate="%{x:,.0f}: %{y:.1%}<extra></extra>")
    figure.update_xaxes(**log_ticks(live))
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    said = "Found by a full rack: " + ", ".join(f"{sum(c.hits.values()):.0%} with {c.live:,.0f} sessions ({label(s)})" for s, c in served.items())
    said = said if served else ""
    finished(figure, said or "No system serves these sessions", x="live sessions on one rack", y="input tokens found in a cache", height=480)
    figure.update_layout(legend={"y": -0.18})
    return figure


def sessions_takeaway(asked: Asked, systems, tpot_s: float, calls: int, think_s: float) -> str:
    """Return, a line a system, the share of input that a full rack finds in its caches, its sessions and what it serves, or why it does not."""
    lines = []
    for system, one in _carried(asked, systems, tpot_s, calls, think_s).items():
        if isinstance(one, str):
            lines.append(f"{label(system)}: cannot serve this: {one}")
            continue
        lines.append(f"{label(system)} finds {sum(one.hits.values()):.0%} of its input ({one.hits['hbm']:.0%} in HBM) with {one.live:,.0f} live "
                     f"sessions a rack, {digits(one.per_gpu)} output tok/s per GPU")
    return "\n".join(lines)
