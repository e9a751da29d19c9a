"""The controls of the serving notebook: model, systems, SLO, lengths, software and layout limits, bound to the frontier."""

from __future__ import annotations

import ipywidgets as widgets

from planner.errors import Infeasible, InputError, InputErrors
from planner.panels.decision import widgets_escape
from planner.panels.live import Debounced, live_figure
from planner.views import serving as view
from planner.views.serving_sessions import sessions_takeaway

MODELS = ("deepseek-ai/DeepSeek-R1", "Qwen/Qwen3-VL-235B-A22B-Instruct", "openai/gpt-oss-120b", "meta-llama/Llama-3.1-405B")
SYSTEMS = ("vr-nvl72/upto", "vr-nvl72/maxlps", "gb300-nvl72", "gb200-nvl72", "b300-hgx", "b200-hgx", "h200-sxm", "h100-sxm")
SOFTWARE = ("current", "preview", "mature", "v5.1", "v6.0", "v6.1")
_WIDE = {"layout": widgets.Layout(width="460px"), "style": {"description_width": "200px"}}


def controls() -> widgets.Widget:
    """Return the panel: the frontier follows; an entry that nothing serves shows its reason, the last plot stays."""
    name = widgets.Dropdown(options=MODELS, description="Model", **_WIDE)
    systems = widgets.SelectMultiple(options=SYSTEMS, value=SYSTEMS[:1] + SYSTEMS[2:4], rows=4, description="Systems, up to three", **_WIDE)
    inputs = widgets.BoundedIntText(value=8192, min=1, max=1_000_000, description="Input tokens", **_WIDE)
    outputs = widgets.BoundedIntText(value=1024, min=1, max=1_000_000, description="Output tokens", **_WIDE)
    hits = widgets.FloatSlider(value=0.0, min=0.0, max=0.99, step=0.01, description="Cache hits, share of input", continuous_update=False, **_WIDE)
    ttft = widgets.BoundedFloatText(value=2.0, min=0.0, max=1000.0, step=0.5, description="TTFT p99, s (0: none)", **_WIDE)
    tpot = widgets.BoundedFloatText(value=20.0, min=1.0, max=1000.0, step=1.0, description="TPOT p99, ms", **_WIDE)
    software = widgets.Dropdown(options=SOFTWARE, description="Software or release", **_WIDE)
    mtp = widgets.Checkbox(value=False, description="Multi-token prediction", **_WIDE)
    sizes = [("the NVLink domain", None), *((str(n), n) for n in (4, 8, 16, 32))]
    largest = widgets.Dropdown(options=sizes, description="Largest replica, GPUs", **_WIDE)
    pools = widgets.Dropdown(options=["both", "aggregated", "disaggregated"], description="Pools", **_WIDE)
    calls = widgets.BoundedIntText(value=1, min=1, max=1000, description="Calls a session (1: none)", **_WIDE)
    think = widgets.BoundedFloatText(value=8.0, min=0.0, max=86400.0, step=1.0, description="Pause between calls, s", **_WIDE)
    everything = (name, systems, inputs, outputs, hits, calls, think, ttft, tpot, software, mtp, largest, pools)
    first = [w.value for w in everything]
    text, message, drawing = widgets.HTML(), widgets.HTML(), live_figure(view.frontier_figure)

    def recompute() -> None:
        try:
            asked = view.ask(
                name.value, inputs.value, outputs.value, cache_hits=hits.value, ttft_s=ttft.value or None, mtp=mtp.value, software=software.value,
                largest_gpus=largest.value, pools=pools.value,
            )  # fmt: skip
            words = view.takeaway(asked, systems.value, tpot.value / 1e3)
            if calls.value > 1:
                own = sessions_takeaway(asked, systems.value, tpot.value / 1e3, calls.value, think.value)
                words += f"\nAs sessions of {calls.value} calls, the share found being an output:\n{own}"
            drawing.update(asked, systems.value, tpot.value / 1e3)
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
    return widgets.VBox([widgets.VBox([*everything, reset, message]), text, drawing.widget])
