"""The controls of the fabric notebook: system, racks, lane split and planes, bound to the design and the scale curve."""

from __future__ import annotations

import ipywidgets as widgets

from planner.errors import Infeasible, InputError, InputErrors
from planner.panels.decision import widgets_escape
from planner.panels.live import Debounced, live_figure
from planner.views import fabric as view

_WIDE = {"layout": widgets.Layout(width="420px"), "style": {"description_width": "170px"}}


def controls() -> widgets.Widget:
    """Return the panel: the design in words, one rail and plane as a picture; a contradiction shows its message, the last plot stays."""
    system = widgets.Dropdown(options=["vr-nvl72/upto", "vr-nvl72/maxlps", "gb300-nvl72", "gb200-nvl72"], description="System", **_WIDE)
    racks = widgets.IntSlider(value=16, min=2, max=1820, description="Racks", **_WIDE)
    lanes = widgets.Dropdown(
        options=["1x800G", "2x400G", "4x200G", "8x100G", "1x400G", "2x200G"], value="4x200G", description="Lanes of a NIC", **_WIDE
    )
    planes = widgets.Dropdown(options=[1, 2, 4, 8], value=4, description="Planes", **_WIDE)
    everything = (system, racks, lanes, planes)
    first = [w.value for w in everything]
    text, message, drawing = widgets.HTML(), widgets.HTML(), live_figure(view.picture)

    def recompute() -> None:
        values = tuple(w.value for w in everything)
        try:
            words = view.design_takeaway(*values)
            drawing.update(*values)
        except (InputError, InputErrors, Infeasible) as error:
            message.value = f"<b>{widgets_escape(str(error))}</b>"
            return
        message.value, text.value = "", widgets_escape(words)

    later = Debounced(recompute)
    for control in everything:
        control.observe(lambda change: later.call(), names="value")
    reset = widgets.Button(description="Reset", tooltip="Back to the first values")
    reset.on_click(lambda _: [setattr(w, "value", value) for w, value in zip(everything, first, strict=True)])
    recompute()
    return widgets.VBox([widgets.VBox([*everything, reset, message]), text, drawing.widget])
