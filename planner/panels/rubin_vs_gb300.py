"""The controls of the Vera Rubin notebook: model, software and basis, bound to the levels and to the ratio along the speed."""

from __future__ import annotations

import ipywidgets as widgets

from planner.errors import Infeasible, InputError, InputErrors
from planner.panels.decision import widgets_escape
from planner.panels.live import Debounced, live_figure
from planner.sensitivity import pricing, rubin
from planner.views import rubin_vs_gb300 as view

_WIDE = {"layout": widgets.Layout(width="460px"), "style": {"description_width": "200px"}}


def controls() -> widgets.Widget:
    """Return the panel: levels by scenario and the ratio at equal speed follow; what cannot be compared shows its reason, the last plot stays."""
    model = widgets.Dropdown(options=[(view.NAMES[m], m) for m in pricing.CLAIMS], description="Model", **_WIDE)
    software = widgets.Dropdown(options=list(rubin.SOFTWARE), description="Vera Rubin software", **_WIDE)
    per = widgets.Dropdown(options=list(rubin.BASES), description="Per", **_WIDE)
    everything = (model, software, per)
    first = [w.value for w in everything]
    text, message, levels, along = widgets.HTML(), widgets.HTML(), live_figure(view.levels_figure), live_figure(view.along_figure)

    def recompute() -> None:
        try:
            words = view.takeaway(model.value, software.value)
            levels.update(model.value, per.value)
            along.update(model.value, software.value)
        except (InputError, InputErrors, Infeasible) as error:
            message.value = f"<b>{widgets_escape(str(error))}</b>"
            return
        message.value, text.value = "", "<br>".join(widgets_escape(line) for line in words.splitlines())

    later = Debounced(recompute)
    for control in everything:
        control.observe(lambda change: later.call(), names="value")
    reset = widgets.Button(description="Reset", tooltip="Back to the first values")
    reset.on_click(lambda _: [setattr(w, "value", value) for w, value in zip(everything, first, strict=True)])
    recompute()
    return widgets.VBox([widgets.VBox([*everything, reset, message]), text, levels.widget, along.widget])
