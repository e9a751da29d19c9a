"""The controls of the power notebook: a site, its PUE and redundancy, a GPU cap and the coolant."""

from __future__ import annotations

import ipywidgets as widgets

from planner.errors import InputError
from planner.panels.decision import widgets_escape
from planner.panels.live import Debounced, live_figure
from planner.views import power_and_cooling as view

_WIDE = {"layout": widgets.Layout(width="440px"), "style": {"description_width": "190px"}}


def controls() -> widgets.Widget:
    """Return the panel: site power, PUE, redundancy and system; racks that fit and the curve under a cap follow."""
    site = widgets.BoundedFloatText(value=20.0, min=0.01, max=10_000, step=1, description="Site, MW at the meter", **_WIDE)
    pue = widgets.FloatSlider(value=1.2, min=1.0, max=2.0, step=0.01, description="PUE", **_WIDE)
    redundancy = widgets.Dropdown(options=["N", "2N"], value="N", description="Feeds", **_WIDE)
    system = widgets.Dropdown(options=list(view.SYSTEMS), value="Vera Rubin upto", description="System under a cap", **_WIDE)
    everything = (site, pue, redundancy, system)
    first = [w.value for w in everything]
    text, message, curve = widgets.HTML(), widgets.HTML(), live_figure(view.cap_figure)

    def recompute() -> None:
        try:
            table = view.site_table(site.value, pue.value, redundancy.value)
            curve.update(system.value)
        except InputError as error:
            message.value = f"<b>{widgets_escape(str(error))}</b>"
            return
        message.value = ""
        text.value = "<br>".join(widgets_escape(f"{n}: {r['Racks']} racks, {r['GPUs']} GPUs. {r['Limit']}") for n, r in table.iterrows())

    later = Debounced(recompute)
    for control in everything:
        control.observe(lambda change: later.call(), names="value")
    reset = widgets.Button(description="Reset", tooltip="Back to the first values")
    reset.on_click(lambda _: [setattr(w, "value", value) for w, value in zip(everything, first, strict=True)])
    recompute()
    return widgets.VBox([widgets.VBox([*everything, reset, message]), text, curve.widget])
