"""The views of the residency notebook: what sits in one GPU, the smallest fit and why, and what more racks keep resident."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.calibration import residency as calibrated
from planner.errors import Infeasible
from planner.facts import catalog, modelcards
from planner.facts.evidence import claim
from planner.facts.formats import stored_bits, weight_formats
from planner.models import residency, transformer
from planner.shapes import Layout, ModelShape
from planner.specs import Rack
from planner.views.style import COLOURS, finished
from planner.views.tables import digits

MODELS = ("deepseek-ai/DeepSeek-R1", "Qwen/Qwen3-VL-235B-A22B-Instruct", "nvidia/Kimi-K2.7-Code-NVFP4", "moonshotai/Kimi-K3")
SYSTEMS = ("gb300-nvl72", "vr-nvl72/upto", "vr-nvl72/maxlps")
MEMORY_FRACTION = 0.95
PARTS = ("weights", "KV cache", "activations", "runtime reserve", "free")


def _rack(system: str) -> Rack:
    name, _, profile = system.partition("/")
    return catalog.system(name, profile or None)


def _short(model: str) -> str:
    return model.split("/")[-1].replace("-Instruct", "").replace("-Code-NVFP4", "")


def _formats(shape: ModelShape, weight_format: str):
    """The chosen format, or MXFP4 experts as released where the checkpoint exists in that form alone."""
    return weight_formats(shape, None if shape.quantisation.get("experts") == "mxfp4" else weight_format)


def gpu_parts(model: str, system: str, layout: dict, weight_format: str, kv_format: str, context_tokens: float, sequences: float) -> dict[str, float]:
    """Return what sits in the HBM of the fullest GPU [B]: weights, KV cache, activations, runtime reserve, free (below 0: does not fit).

    Parameters: model and system names (system/profile); layout, as `residency.check_layout`; formats; context_tokens [token] of each of
    `sequences` [1] of the replica. Raises: InputError, Infeasible (layout).
    """
    shape, rack, split = modelcards.load(model), _rack(system), residency.check_layout(layout)
    found = {
        "weights": sum(residency.weights_bytes_per_gpu(shape, _formats(shape, weight_format), split).values()),
        "KV cache": float(residency.kv_bytes_per_gpu(shape, context_tokens, sequences, stored_bits(kv_format), split)),
        "activations": calibrated.activation_bytes(shape)[0],
        "runtime reserve": claim("P0010").base_value,
    }
    return {**found, "free": rack.accelerator.hbm_bytes - sum(found.values())}


def gpu_figure(model: str, layout: dict, weight_format: str, kv_format: str, context_tokens: float, sequences: float) -> go.Figure:
    """Return the stacked bar of one GPU on each system, with the driver's HBM size marked."""
    figure, rows = go.Figure(), {s: gpu_parts(model, s, layout, weight_format, kv_format, context_tokens, sequences) for s in SYSTEMS}
    for i, part in enumerate(PARTS):
        figure.add_bar(orientation="h", name=part, y=list(rows), x=[max(0.0, r[part]) / 1e9 for r in rows.values()], marker_color=COLOURS[i])
    sizes = [_rack(s).accelerator.hbm_bytes / 1e9 for s in SYSTEMS]
    figure.add_scatter(
        name="HBM, driver", mode="markers", y=list(rows), x=sizes, marker={"symbol": "line-ns", "size": 34, "line": {"width": 3, "color": "#D55E00"}}
    )
    figure.update_layout(barmode="stack", legend_traceorder="normal")
    figure.update_yaxes(autorange="reversed")
    over = [s for s, r in rows.items() if r["free"] < 0]
    most = max(rows.values(), key=lambda r: r["KV cache"])
    title = (
        f"{_short(model)} does not fit on {', '.join(over)}"
        if over
        else (f"{_short(model)}, {sequences:,.0f} sequences of {context_tokens:,.0f} tokens: cache takes {digits(most['KV cache'] / 1e9)} GB a GPU")
    )
    return finished(figure, title, x="GB per GPU (1 GB = 1e9 B)", height=330)


def fit_table(weight_format: str, kv_format: str, context_tokens: float, sequences: float) -> pd.DataFrame:
    """Return the smallest fit of each model on each system: GPUs, layout, the reason one step fewer fails, and sequences on a rack."""
    rows = []
    for model in MODELS:
        shape = modelcards.load(model)
        for system in SYSTEMS:
            rack, bits = _rack(system), stored_bits(kv_format)
            reserve = claim("P0010").base_value + calibrated.activation_bytes(shape)[0]
            try:
                gpus, layout, why = residency.smallest_fit(
                    shape,
                    _formats(shape, weight_format),
                    rack.accelerator.hbm_bytes,
                    MEMORY_FRACTION,
                    reserve,
                    context_tokens,
                    sequences,
                    bits,
                    rack.domain_gpus,
                )
                rows.append({"Model": _short(model), "System": system, "GPUs": str(gpus), "Layout": layout.label, "One step fewer": why})
            except Infeasible as error:
                rows.append({"Model": _short(model), "System": system, "GPUs": "none", "Layout": "", "One step fewer": error.limit})
    return pd.DataFrame(rows).set_index("Model").rename_axis(None)


def _working_set(model: str, replicas: float, weight_format: str, kv_format: str, session_tokens: float, sessions: float) -> tuple[float, float]:
    shape = modelcards.load(model)
    weights = sum(transformer.checkpoint_bytes(shape, _formats(shape, weight_format)).values()) * replicas
    cache = float(
        transformer.kv_bytes(shape.attention, session_tokens, sessions, stored_bits(kv_format))
        + transformer.state_bytes(shape.attention, sessions)
    )
    return weights, cache


def tiers(system: str) -> dict[str, float]:
    """Return the bytes of one rack by tier, fastest first: HBM, LPDDR over NVLink-C2C, local NVMe [B]."""
    rack = _rack(system)
    return {
        "HBM": rack.gpus * rack.accelerator.hbm_bytes * MEMORY_FRACTION,
        "LPDDR": rack.gpus * (rack.accelerator.host_bytes or 0.0),
        "NVMe": claim("P0063").base_value,
    }


def tier_table(system: str) -> pd.DataFrame:
    """Return each tier's capacity per rack, bandwidth per GPU (one direction) and latency, with the grade of each."""
    rack, size = _rack(system), tiers(system)
    nvme = claim("P0064")
    behind = catalog.claims_behind(rack)
    rows = [
        {
            "Tier": "HBM",
            "TB per rack": size["HBM"] / 1e12,
            "GB/s per GPU": rack.accelerator.hbm_bytes_per_s / 1e9,
            "Latency us": claim("P0067").value,
            "Grade": behind["hbm_bytes_per_s"].grade,
        },
        {
            "Tier": "LPDDR",
            "TB per rack": size["LPDDR"] / 1e12,
            "GB/s per GPU": rack.accelerator.c2c.bytes_per_s / 1e9,
            "Latency us": claim("P0065").value,
            "Grade": behind["c2c"].grade,
        },
        {"Tier": "NVMe", "TB per rack": size["NVMe"] / 1e12, "GB/s per GPU": nvme.base_value / 1e9, "Latency us": claim("P0066").value, "Grade": "P"},
    ]
    return pd.DataFrame(rows).set_index("Tier").rename_axis(None).round(2)


def rack_curve(replicas: float, weight_format: str, kv_format: str, session_tokens: float, sessions: float, most_racks: int) -> go.Figure:
    """Return the share of weights and session caches held in HBM as racks are added, one line per model and system."""
    racks = np.arange(1, int(most_racks) + 1)
    figure, needed = go.Figure(), {}
    for i, model in enumerate(MODELS):
        weights, cache = _working_set(model, replicas, weight_format, kv_format, session_tokens, sessions)
        for system, dash in zip(SYSTEMS, ("solid", "dash", "dot"), strict=True):
            share = residency.tier_shares(weights + cache, tiers(system), racks)["HBM"]
            figure.add_scatter(
                x=racks,
                y=share,
                mode="lines+markers",
                name=f"{_short(model)}, {system}",
                line={"color": COLOURS[i], "dash": dash},
                marker={"size": 5},
                hovertemplate="%{y:.0%} in HBM with %{x} racks<extra>%{fullData.name}</extra>",
            )
            full = np.flatnonzero(share >= 1 - 1e-12)
            needed[model, system] = int(racks[full[0]]) if len(full) else None
    figure.update_yaxes(tickformat=".0%", range=[0, 1.05])
    largest = needed[MODELS[-1], "gb300-nvl72"]
    title = f"{_short(MODELS[-1])} with its sessions is wholly in HBM " + (
        f"from {largest} racks of GB300" if largest else f"on none of 1 to {most_racks} racks of GB300"
    )
    return finished(figure, title, x="racks", y="share in HBM", height=520)


def pool_table(weight_format: str, kv_format: str, session_tokens: float, sessions: float, replicas: float, racks: int) -> pd.DataFrame:
    """Return where one pool of all models, with replicas and sessions of each, sits on a number of racks: the share in each tier."""
    pairs = [_working_set(m, replicas, weight_format, kv_format, session_tokens, sessions) for m in MODELS]
    total = sum(w + c for w, c in pairs)
    rows = {system: residency.tier_shares(total, tiers(system), racks) for system in SYSTEMS}
    return (
        pd.DataFrame([{"System": s, "TB needed": total / 1e12, **{k: float(v) for k, v in r.items()}} for s, r in rows.items()])
        .set_index("System")
        .rename_axis(None)
        .round(4)
    )


def takeaway(model: str, layout: dict, weight_format: str, kv_format: str, context_tokens: float, sequences: float) -> str:
    """Return one line: free HBM of each system in GB and GiB, or by how much it is exceeded."""
    words = []
    for system in SYSTEMS:
        free = gpu_parts(model, system, layout, weight_format, kv_format, context_tokens, sequences)["free"]
        words.append(f"{system}: {'free' if free >= 0 else 'short by'} {abs(free) / 1e9:,.1f} GB = {abs(free) / 2**30:,.1f} GiB")
    return f"{_short(model)} {residency.check_layout(layout).label}: " + "; ".join(words)


def engine_check() -> pd.DataFrame:
    """Return weights and KV pool against what an engine printed: GiB, ratio; the activation peak is modelled, not given."""
    from planner.facts.files import table

    rows = []
    for row in table("vllm_memory_measured.csv"):
        shape, tp = modelcards.load(calibrated.NAMES[row["model"]]), int(row["tp"])
        weights = sum(
            residency.weights_bytes_per_gpu(
                shape, weight_formats(shape, None), Layout(tp=tp), expert_width_multiple=calibrated.EXPERT_WIDTH_MULTIPLE
            ).values()
        )
        pool = residency.kv_pool_bytes(
            float(row["gpu_gib"]) * 2**30,
            float(row["gpu_memory_utilization"]),
            weights,
            calibrated.activation_bytes(shape)[0],
            calibrated.other_bytes(tp)[0],
        )
        rows.append(
            {
                "Model": row["model"],
                "TP": tp,
                "Weights, GiB": weights / 2**30,
                "Engine ": float(row["weights_gib"]),
                "KV pool, GiB": pool / 2**30,
                "Engine": float(row["kv_cache_gib"]),
                "Pool ratio": pool / 2**30 / float(row["kv_cache_gib"]),
            }
        )
    return pd.DataFrame(rows).set_index("Model").rename_axis(None).round(4)
