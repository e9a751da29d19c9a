"""The controls of the timeline notebook: site, growth, lead times and price; the plan follows."""

from __future__ import annotations

import ipywidgets as widgets

from planner.errors import Infeasible, InputError
from planner.panels.decision import widgets_escape
from planner.panels.live import Debounced, live_figure
from planner.timeline.story import STRATEGIES
from planner.views import timeline as view

_WIDE = {"layout": widgets.Layout(width="460px"), "style": {"description_width": "210px"}, "continuous_update": False}


def controls() -> widgets.Widget:
    """Return the panel: each change searches the three strategies again, so sliders act when they are let go."""
    site = widgets.FloatSlider(value=20.0, min=2.0, max=60.0, step=1.0, description="Site, MW at the meter", **_WIDE)
    growth = widgets.FloatSlider(value=0.08, min=-0.05, max=0.2, step=0.01, description="Growth a month", readout_format=".2f", **_WIDE)
    later = widgets.IntSlider(value=9, min=1, max=15, description="Vera Rubin lead time, months", **_WIDE)
    price = widgets.FloatSlider(value=7.8, min=3.0, max=14.0, step=0.2, description="Vera Rubin rack, million USD", **_WIDE)
    chance = widgets.FloatSlider(value=0.8, min=0.5, max=0.95, step=0.05, description="Chance never short", **_WIDE)
    strategy = widgets.Dropdown(options=list(STRATEGIES), value="both", description="Show", layout=_WIDE["layout"], style=_WIDE["style"])
    everything = (site, growth, later, price, chance, strategy)
    first = [w.value for w in everything]
    text, message, racks = widgets.HTML(), widgets.HTML(), live_figure(view.racks_figure)

    def recompute() -> None:
        try:
            found = view.story(site_mw=site.value, growth=round(growth.value, 4), later_lead_months=later.value, later_musd=round(price.value, 3),
                               chance=round(chance.value, 3))
            text.value = "<br>".join(widgets_escape(line) for line in view.takeaway(found).splitlines())
            racks.update(found, strategy.value)
        except (InputError, Infeasible) as error:
            message.value = f"<b>{widgets_escape(str(error))}</b>"
            return
        message.value = ""

    later_call = Debounced(recompute)
    for control in everything:
        control.observe(lambda change: later_call.call(), names="value")
    reset = widgets.Button(description="Reset", tooltip="Back to the first values")
    reset.on_click(lambda _: [setattr(w, "value", value) for w, value in zip(everything, first, strict=True)])
    recompute()
    return widgets.VBox([widgets.VBox([*everything, reset, message]), text, racks.widget])
