"""One look for every figure: colour-blind safe colours, readable sizes, transparent ground for light and dark pages."""

from __future__ import annotations

import math
import textwrap

import plotly.graph_objects as go

# Okabe and Ito's palette, black left out so that marks show on a dark page
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F", "#B3A800")
_GRID = "rgba(128,128,128,0.28)"
_INK = "#6b7280"


def finished(figure: go.Figure, title: str, x: str = "", y: str = "", height: int = 420) -> go.Figure:
    """Return the figure with its title, axis names (with units) and the house's look; changed in place.

    Parameters: title, states the finding; x and y, axis names; height in pixels.
    """
    title = "<br>".join("<br>".join(textwrap.wrap(part, 74)) for part in title.split("<br>"))
    lines = title.count("<br>") + 1
    figure.update_layout(
        title={"text": title, "x": 0.01, "xanchor": "left", "xref": "container", "font": {"size": 16}}, height=height + 22 * (lines - 1),
        font={"size": 13, "color": _INK}, paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", colorway=list(COLOURS),
        margin={"l": 12, "r": 24, "t": 62 + 22 * (lines - 1), "b": 54}, hovermode="closest", template="none",
        legend={"orientation": "h", "y": -0.3, "yref": "paper", "x": 0, "yanchor": "top"})
    lines = {"gridcolor": _GRID, "zerolinecolor": _GRID, "linecolor": _GRID, "automargin": True}
    figure.update_xaxes(title={"text": x or None, "font": {"size": 13}, "standoff": 6}, **lines)
    figure.update_yaxes(title={"text": y or None, "font": {"size": 13}}, **lines)
    return figure


def log_ticks(values, steps=(1, 2, 5)) -> dict:
    """Return the settings of a logarithmic axis that holds all positive values: plain numbers at 1, 2 and 5 of every decade.

    Parameters: values, numbers; steps within a decade. Raises: nothing; without a positive value the axis has no ticks.
    """
    seen = [float(v) for v in values if math.isfinite(v) and v > 0]
    if not seen:
        return {"type": "log"}
    decades = range(math.floor(math.log10(min(seen))) - 1, math.ceil(math.log10(max(seen))) + 1)
    ticks = [step * 10.0**d for d in decades for step in steps]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{t:,.0f}" if t >= 1 else f"{t:g}" for t in ticks]}
