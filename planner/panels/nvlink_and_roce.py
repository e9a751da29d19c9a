"""The controls of the collectives notebook: is my cluster slow?"""

from __future__ import annotations

import ipywidgets as widgets

from planner.errors import InputError
from planner.panels.decision import widgets_escape
from planner.panels.live import Debounced, live_figure
from planner.views import nvlink_and_roce as view

_WIDE = {"layout": widgets.Layout(width="420px"), "style": {"description_width": "170px"}}


def controls() -> widgets.Widget:
    """Return the panel: system, domains, message size and a measured bus bandwidth; the verdict and the curve follow."""
    system = widgets.Dropdown(options=list(view.SYSTEMS), value="gb200-nvl72", description="System", **_WIDE)
    domains = widgets.IntSlider(value=1, min=1, max=16, description="NVLink domains", **_WIDE)
    steps = [(f"{2**k} MiB", float(2 ** (k + 20))) for k in range(15)]
    size = widgets.SelectionSlider(options=steps, value=float(2**32), description="Message", **_WIDE)
    measured = widgets.BoundedFloatText(value=600.0, min=0.1, max=5000, step=1, description="Measured, GB/s", **_WIDE)
    everything, first = (system, domains, size, measured), [w.value for w in (system, domains, size, measured)]
    text, message, curve = widgets.HTML(), widgets.HTML(), live_figure(view.busbw_figure)

    def recompute() -> None:
        try:
            row = view.slow_table(system.value, view.domain(system.value) * domains.value, size.value, measured.value).iloc[0]
            curve.update(domains.value)
        except InputError as error:
            message.value = f"<b>{widgets_escape(str(error))}</b>"
            return
        message.value = ""
        expected = f"expected {row['Expected']:.0f} GB/s ({row['Low']:.0f} to {row['High']:.0f})"
        text.value = widgets_escape(f"{row['Verdict']}: {expected}, set by {row['Set by']}, {row['How']}, grade {row['Grade']}")

    later = Debounced(recompute)
    for control in everything:
        control.observe(lambda change: later.call(), names="value")
    reset = widgets.Button(description="Reset", tooltip="Back to the first values")
    reset.on_click(lambda _: [setattr(w, "value", value) for w, value in zip(everything, first, strict=True)])
    recompute()
    return widgets.VBox([widgets.VBox([*everything, reset, message]), text, curve.widget])
