"""The controls of the training notebook: system, GPUs, batch, format, failures, bound to the step and to the scale curve."""

from __future__ import annotations

import ipywidgets as widgets

from planner.errors import Infeasible, InputError
from planner.facts.files import table
from planner.panels.decision import widgets_escape
from planner.panels.live import Debounced, live_figure
from planner.views import training_and_goodput as view

_WIDE = {"layout": widgets.Layout(width="440px"), "style": {"description_width": "190px"}}
SYSTEMS = ["gb300-nvl72", "gb200-nvl72", "b300-hgx", "b200-hgx", "h100-sxm", "vr-nvl72/upto", "vr-nvl72/maxlps"]
MODELS = ["meta-llama/Llama-3.1-405B", "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-235B-A22B"]


def controls() -> widgets.Widget:
    """Return the panel: the step in words, the scale curve with failures; a contradiction shows its message, the last plot stays."""
    system = widgets.Dropdown(options=SYSTEMS, description="System", **_WIDE)
    model = widgets.Dropdown(options=MODELS, description="Model", **_WIDE)
    gpus = widgets.SelectionSlider(options=[64, 128, 256, 512, 1024, 2048, 4096, 8192], value=512, description="GPUs", **_WIDE)
    per_gpu = widgets.SelectionSlider(options=[0.5, 1, 2, 4, 8], value=2, description="Sequences a GPU and step", **_WIDE)
    precision = widgets.Dropdown(options=["bf16", "fp8", "mxfp8", "nvfp4"], value="fp8", description="Format", **_WIDE)
    population = widgets.Dropdown(options=[r["population"] for r in table("failure_populations.csv")], description="Failures as in", **_WIDE)
    stall = widgets.FloatLogSlider(value=10, base=10, min=-1, max=2.5, description="Stall a checkpoint (s)", **_WIDE)
    restart = widgets.IntSlider(value=600, min=30, max=1800, step=30, description="Restart (s)", **_WIDE)
    everything = (system, model, gpus, per_gpu, precision, population, stall, restart)
    first = [w.value for w in everything]
    text, message, drawing = widgets.HTML(), widgets.HTML(), live_figure(view.scaling_figure)

    def recompute() -> None:
        name, shape, size, each, kind, fleet, write, again = (w.value for w in everything)
        case = (name, shape, size, 8192, int(size * each), kind)
        try:
            words = view.step_takeaway(*case)
            drawing.update(*case, fleet, write, float(again))
        except (InputError, Infeasible) as error:
            message.value = f"<b>{widgets_escape(str(error))}</b>"
            return
        message.value, text.value = "", f"<pre>{widgets_escape(words)}</pre>"

    later = Debounced(recompute)
    for control in everything:
        control.observe(lambda change: later.call(), names="value")
    reset = widgets.Button(description="Reset", tooltip="Back to the first values")
    reset.on_click(lambda _: [setattr(w, "value", value) for w, value in zip(everything, first, strict=True)])
    recompute()
    return widgets.VBox([widgets.VBox([*everything, reset, message]), text, drawing.widget])
