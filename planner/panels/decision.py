"""The controls of the decision notebook: load, SLO, utilisation, PUE and price, bound to the racks, power and cost views."""

from __future__ import annotations

import ipywidgets as widgets

from planner.errors import Infeasible, InputError, InputErrors
from planner.panels.live import Debounced, live_figure
from planner.plan.types import Plan
from planner.views import decision as view

_WIDE = {"layout": widgets.Layout(width="420px"), "style": {"description_width": "170px"}}


def _slider(label: str, value: float, low: float, high: float, step: float, readout: str) -> widgets.FloatSlider:
    return widgets.FloatSlider(value=value, min=low, max=high, step=step, description=label, readout_format=readout, **_WIDE)


def controls(scenario_name: str) -> widgets.Widget:
    """Return the panel: five sliders with units, a reset button, the answer as text and two plots that update in place.

    Parameters: scenario_name, a scenario that ships with the planner. A wrong entry shows its message; the last good plot stays.
    """
    start = view.read_shipped(scenario_name)
    workload, slo = start["workloads"][0], start["workloads"][0].get("slo", {})
    sliders = {
        "requests_per_s": _slider("Requests/s", workload.get("requests_per_s", 200), 1, 1000, 1, ".0f"),
        "tpot_s": _slider("TPOT limit, s", slo.get("tpot_s", 0.05), 0.002, 0.1, 0.0001, ".4f"),
        "utilisation_fraction": _slider("Utilisation, 0..1", start.get("plan", {}).get("utilisation_fraction", 0.7), 0.1, 1, 0.01, ".2f"),
        "pue": _slider("PUE", start["site"]["pue"], 1, 2, 0.01, ".2f"),
        "gpu_hour_usd": _slider("Price, USD/GPU-h", 5.0, 0.5, 20, 0.1, ".2f"),
    }
    first = {name: s.value for name, s in sliders.items()}
    message, text = widgets.HTML(), widgets.HTML()
    racks, cost = live_figure(view.racks_figure), live_figure(view.cost_figure)

    def show(plan: Plan) -> None:
        text.value = "<br>".join(widgets_escape(part) for part in view.takeaway(plan).split(" | "))
        racks.update(plan)
        cost.update(plan)

    def recompute() -> None:
        try:
            plan = view.make(scenario_name, **{name: s.value for name, s in sliders.items()})
        except (InputError, InputErrors, Infeasible) as error:
            message.value = f"<b>{widgets_escape(str(error))}</b>"
            return
        message.value = ""
        show(plan)

    later = Debounced(recompute)
    for slider in sliders.values():
        slider.observe(lambda change: later.call(), names="value")
    reset = widgets.Button(description="Reset", tooltip="Back to the scenario file's values")
    reset.on_click(lambda _: [setattr(sliders[name], "value", value) for name, value in first.items()])
    recompute()
    left = widgets.VBox([*sliders.values(), reset, message])
    return widgets.VBox([left, text, racks.widget, cost.widget])


def widgets_escape(text: str) -> str:
    """Return text safe inside HTML."""
    import html

    return html.escape(text)
