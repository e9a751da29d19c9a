"""The controls of the storage notebook: job, failures, stall and lag, bound to the goodput curve over the checkpoint interval."""

from __future__ import annotations

import ipywidgets as widgets

from planner.errors import Infeasible, InputError
from planner.facts.files import table
from planner.panels.decision import widgets_escape
from planner.panels.live import Debounced, live_figure
from planner.views import checkpoints_and_storage as view

_WIDE = {"layout": widgets.Layout(width="440px"), "style": {"description_width": "190px"}}


def controls() -> widgets.Widget:
    """Return the panel: goodput over the interval; a contradiction shows its message, the last plot stays."""
    gpus = widgets.SelectionSlider(options=[72, 144, 512, 1024, 4096, 16384, 65536, 131072], value=16384, description="GPUs of the job", **_WIDE)
    population = widgets.Dropdown(options=[r["population"] for r in table("failure_populations.csv")], description="Failures as in", **_WIDE)
    stall = widgets.FloatLogSlider(value=10, base=10, min=-1, max=2.5, description="Stall a checkpoint (s)", **_WIDE)
    lag = widgets.IntSlider(value=0, min=0, max=600, step=10, description="Durable after (s)", **_WIDE)
    restart = widgets.IntSlider(value=600, min=30, max=1800, step=30, description="Restart (s)", **_WIDE)
    everything = (gpus, population, stall, lag, restart)
    first = [w.value for w in everything]
    message, drawing = widgets.HTML(), live_figure(view.interval_figure)

    def recompute() -> None:
        try:
            drawing.update(*(w.value for w in everything))
        except (InputError, Infeasible) as error:
            message.value = f"<b>{widgets_escape(str(error))}</b>"
            return
        message.value = ""

    later = Debounced(recompute)
    for control in everything:
        control.observe(lambda change: later.call(), names="value")
    reset = widgets.Button(description="Reset", tooltip="Back to the first values")
    reset.on_click(lambda _: [setattr(w, "value", value) for w, value in zip(everything, first, strict=True)])
    recompute()
    return widgets.VBox([widgets.VBox([*everything, reset, message]), drawing.widget])
