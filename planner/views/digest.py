"""A short text under each figure: per trace its size and range at 4 digits, so that a changed number shows in a text diff."""

from __future__ import annotations

import math

import numpy as np
import plotly.graph_objects as go


def _four(value) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float, np.number)) and math.isfinite(value) else str(value)


def _numbers(values) -> np.ndarray:
    try:
        return np.asarray([np.nan if v is None else v for v in (values if values is not None else [])], float).ravel()
    except (TypeError, ValueError):
        return np.array([])


def digest(figure: go.Figure) -> str:
    """Return one line per trace: name, n, and min, max, last of its values at 4 significant digits.

    Parameters: figure, a plotly figure; bars laid along x are read from x. Returns: text, the figure's title first.
    Raises: nothing. Validity: two-dimensional traces and tables of z.
    """
    title = (figure.layout.title.text or "").replace("<br>", " ").replace("<b>", "").replace("</b>", "")
    lines = [title] if title else []
    for trace in figure.data:
        across = getattr(trace, "orientation", None) == "h"
        for axis in (("x",) if across else ("z", "y", "x")):
            values = _numbers(getattr(trace, axis, None))
            if len(values):
                break
        seen = values[np.isfinite(values)]
        numbers = f"min {_four(seen.min())}  max {_four(seen.max())}  last {_four(seen[-1])}" if len(seen) else "no numbers"
        lines.append(f"{trace.name or trace.type}: n {len(values)}  {numbers}")
    return "\n".join(lines)
