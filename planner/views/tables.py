"""How numbers and tables are shown: few digits, the range beside the value, how and grade where a reader must see them."""

from __future__ import annotations

import math
import re

import pandas as pd

from planner.plan.answer import Answer

NOT_AVAILABLE = "not available"
LOUD = ("extrapolated", "assumed")


def digits(value: float | None, significant: int = 3) -> str:
    """Return a number at a few significant digits with thousands separators; "not available" for None."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    if value == 0:
        return "0"
    places = significant - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, places):,.{max(0, places)}f}"


def whole_or_digits(value: float | None, unit: str) -> str:
    """Return counts whole and everything else at three digits."""
    counted = unit in ("racks", "GPUs", "switches", "links", "count", "1") and value is not None and float(value).is_integer()
    return f"{value:,.0f}" if counted else digits(value)


def shown(answer: Answer | None) -> str:
    """Return an answer as text: value, range, and the words extrapolated or assumed where they apply."""
    if answer is None or answer.value is None:
        return NOT_AVAILABLE
    text = whole_or_digits(answer.value, answer.unit)
    ends = (answer.low, answer.high) if answer.low is not None else (answer.lower, answer.upper)
    if ends[0] is not None and ends[0] != ends[1]:
        dash = "…" if answer.low is None else "–"
        text += f" ({whole_or_digits(ends[0], answer.unit)}{dash}{whole_or_digits(ends[1], answer.unit)})"
    return f"{text} {answer.how}" if answer.how in LOUD else text


def readable() -> None:
    """Let pandas print whole tables in a notebook: every column, long text uncut. Returns nothing; call it once."""
    pd.set_option("display.max_columns", None, "display.max_rows", 200, "display.width", 200, "display.max_colwidth", None)


def escape_markdown(text: str) -> str:
    """Return text that Markdown, HTML and formula readers show as it is."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+\-.!|$~])", r"\\\1", text)
