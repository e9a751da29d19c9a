"""The controls of the pricing notebook: a break-even explorer."""

from __future__ import annotations

import ipywidgets as widgets

from planner.errors import InputError
from planner.panels.decision import widgets_escape
from planner.panels.live import Debounced, live_figure
from planner.sensitivity import pricing
from planner.views import pricing as view

_WIDE = {"layout": widgets.Layout(width="460px"), "style": {"description_width": "200px"}}


def controls() -> widgets.Widget:
    """Return the panel: kind of price, model, scenario, whose ratio, and the inputs that matter; the break-even price and its curve follow."""
    kind = widgets.Dropdown(options=list(pricing.KINDS), value="rent", description="Price", **_WIDE)
    model = widgets.Dropdown(options=[(view.NAMES[m], m) for m in pricing.CLAIMS], value="deepseek-r1", description="Model", **_WIDE)
    scenario = widgets.Dropdown(options=list(pricing.SCENARIOS), value="Server", description="MLPerf scenario", **_WIDE)
    whose = [("the claim", "claim"), ("the plan's own throughput", "model")]
    basis = widgets.Dropdown(options=whose, value="claim", description="Throughput ratio by", **_WIDE)
    ratio = widgets.FloatSlider(value=2.5, min=0.5, max=6.0, step=0.1, description="Throughput ratio", **_WIDE)
    load = widgets.FloatSlider(value=1.0, min=0.5, max=1.5, step=0.05, description="Load of the fleets, ratio", **_WIDE)
    rent = widgets.FloatSlider(value=5.0, min=1.0, max=15.0, step=0.1, description="GB300, USD per GPU-hour", **_WIDE)
    everything = (kind, model, scenario, basis, ratio, load, rent)
    first = [w.value for w in everything]
    text, message, curve = widgets.HTML(), widgets.HTML(), live_figure(view.curve_figure)

    def recompute() -> None:
        own = {"throughput_ratio": ratio.value, "load_of_the_fleets": load.value}
        if kind.value == "rent":
            own["GB300_price"] = rent.value
        rent.disabled = kind.value != "rent"
        try:
            found = pricing.break_even_price(kind.value, model.value, scenario.value, basis.value, **own)
            along = {"rent": "GB300 price", "rack": "electricity", "megawatt": "price of a megawatt"}[kind.value]
            curve.update(kind.value, model.value, scenario.value, basis.value, along)
        except InputError as error:
            message.value = f"<b>{widgets_escape(str(error))}</b>"
            return
        message.value = ""
        scale = view.SCALE[kind.value]
        value, low, high = (view.digits(v * scale) for v in (found.value, found.low, found.high))
        said = f"break-even {value} {view.WHAT[kind.value]} ({low} to {high}) with the ratio and load set here"
        text.value = widgets_escape(f"{said}; the curve draws them from their ranges")

    later = Debounced(recompute)
    for control in everything:
        control.observe(lambda change: later.call(), names="value")
    reset = widgets.Button(description="Reset", tooltip="Back to the first values")
    reset.on_click(lambda _: [setattr(w, "value", value) for w, value in zip(everything, first, strict=True)])
    recompute()
    return widgets.VBox([widgets.VBox([*everything, reset, message]), text, curve.widget])
