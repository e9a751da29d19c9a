"""The controls of the evidence notebook: one claim at a time, or one headline with what it would need."""

from __future__ import annotations

import html

import ipywidgets as widgets

from planner.facts.files import table
from planner.panels.decision import widgets_escape
from planner.panels.live import Debounced
from planner.views import evidence as view

_WIDE = {"layout": widgets.Layout(width="620px"), "style": {"description_width": "110px"}}


def controls() -> widgets.Widget:
    """Return the panel: pick a claim and read its grade, its verdict, what the models say and what would settle it."""
    options = [(f"{r['number']}. {r['claim'][:90]}", int(r["number"])) for r in table("seed_claims.csv")]
    number = widgets.Dropdown(options=options, value=16, description="Claim", **_WIDE)
    text = widgets.HTML()

    def recompute() -> None:
        row = view.claims_table(number.value, number.value).iloc[0]
        text.value = "".join(f"<p><b>{html.escape(name)}</b>: {widgets_escape(str(value))}</p>" for name, value in row.items())

    later = Debounced(recompute)
    number.observe(lambda change: later.call(), names="value")
    reset = widgets.Button(description="Reset", tooltip="Back to the first claim shown")
    reset.on_click(lambda _: setattr(number, "value", 16))
    recompute()
    return widgets.VBox([number, reset, text])
