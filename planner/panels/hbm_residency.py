"""The controls of the residency notebook: model, layout, formats, context and sequences, bound to the stacked bar."""

from __future__ import annotations

import ipywidgets as widgets

from planner.errors import Infeasible, InputError
from planner.panels.decision import widgets_escape
from planner.panels.live import Debounced, live_figure
from planner.views import hbm_residency as view

_WIDE = {"layout": widgets.Layout(width="420px"), "style": {"description_width": "170px"}}


def controls() -> widgets.Widget:
    """Return the panel: model, TP or attention-DP with EP, formats, context and sequences; the takeaway and the bar follow.

    A wrong entry shows its message; the last good plot stays.
    """
    model = widgets.Dropdown(options=list(view.MODELS), description="Model", **_WIDE)
    kind = widgets.Dropdown(options=["attention-DP + EP", "TP"], description="Split", **_WIDE)
    gpus = widgets.SelectionSlider(options=[1, 2, 4, 8, 16, 32, 64], value=8, description="GPUs of a replica", **_WIDE)
    weights = widgets.Dropdown(options=["nvfp4", "mxfp4", "fp8", "bf16"], description="Weights", **_WIDE)
    cache = widgets.Dropdown(options=["fp8", "bf16", "nvfp4"], description="KV cache", **_WIDE)
    context = widgets.IntSlider(value=8192, min=1024, max=131072, step=1024, description="Context, tokens", **_WIDE)
    sequences = widgets.IntSlider(value=1024, min=1, max=8192, step=1, description="Sequences", **_WIDE)
    everything = (model, kind, gpus, weights, cache, context, sequences)
    first = [w.value for w in everything]
    message, text, bars = widgets.HTML(), widgets.HTML(), live_figure(view.gpu_figure)

    def recompute() -> None:
        layout = {"tp": gpus.value} if kind.value == "TP" else {"attention_dp": gpus.value, "ep": gpus.value}
        values = (model.value, layout, weights.value, cache.value, context.value, sequences.value)
        try:
            words = view.takeaway(*values)
            bars.update(*values)
        except (InputError, Infeasible) as error:
            message.value = f"<b>{widgets_escape(str(error))}</b>"
            return
        message.value, text.value = "", widgets_escape(words)

    later = Debounced(recompute)
    for control in everything:
        control.observe(lambda change: later.call(), names="value")
    reset = widgets.Button(description="Reset", tooltip="Back to the first values")
    reset.on_click(lambda _: [setattr(w, "value", value) for w, value in zip(everything, first, strict=True)])
    recompute()
    return widgets.VBox([widgets.VBox([*everything, reset, message]), text, bars.widget])
