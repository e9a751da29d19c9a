"""Facts into the serving model: a system's rates, a model's condensed work in its formats, and which constants a model is read with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from planner.errors import Infeasible
from planner.facts.files import table
from planner.facts.formats import peak_format, weight_formats
from planner.models.serving.amounts import Served, condense
from planner.models.serving.step import Rates
from planner.shapes import Format, ModelShape
from planner.specs import Accelerator, Rack

KINDS = ("dense", "latent", "moe")
PLAIN_ATTENTION = ("hopper", "blackwell", "ampere", "cdna3", "cdna4")  # generations without the doubled exponent units
ENGINE_BYTES = 3e9  # activations and what is not the engine's, of one GPU
MEMORY_FRACTION = 0.92  # of the HBM that the engine takes at start


def kind_of(shape: ModelShape) -> str:
    """Return which set of constants a model is read with: dense, latent (experts over a compressed cache) or moe (other experts)."""
    if not shape.experts:
        return "dense"
    return "latent" if any(a.shared_latent for a in shape.attention) else "moe"


def widths(formats: Mapping[str, Format], peaks: Mapping[str, float]) -> dict[str, int]:
    """Return, part by part, the index of the peak its products run at on a GPU with these peaks (`amounts.WIDTHS`)."""
    found = {}
    for part, stored in formats.items():
        peak = peak_format(stored.name)
        if peak in ("nvfp4", "mxfp4"):
            found[part] = 0 if {"nvfp4", "mxfp4"} & set(peaks) else 3
        elif peak in ("fp8", "mxfp8"):
            found[part] = 1 if "fp8" in peaks else 2
        else:
            found[part] = 3 if stored.bits < 8 else 2
    return found


def condensed(shape: ModelShape, formats: Mapping[str, Format], gpu: Accelerator) -> Served:
    """Return a model in its formats as one GPU type computes it."""
    return condense(shape, formats, widths(formats, gpu.peak_flops_per_s))


def work_in(shape: ModelShape, weights: str, gpu: Accelerator) -> Served:
    """Return the same for a format by name."""
    return condensed(shape, weight_formats(shape, weights), gpu)


def newer_attention(gpu: Accelerator) -> bool:
    """Return whether the generation has the doubled exponent units."""
    return gpu.generation not in PLAIN_ATTENTION


def rates(racks: list[Rack], attention_speed=1.0) -> Rates:
    """Return the peaks of systems, arrays (n,); attention_speed [1] of the generations with doubled exponent units.

    Raises: Infeasible (facts) for a system without a published peak, memory or NVLink bandwidth. A system without a known network counts
    50 GB/s a GPU outside its domain.
    """
    for rack in racks:
        gpu = rack.accelerator
        if gpu.hbm_bytes_per_s is None or "bf16" not in gpu.peak_flops_per_s or (gpu.nvlink is None and rack.domain_gpus > 1):
            raise Infeasible(
                "facts", f"{rack.label} has no published peak, memory or NVLink bandwidth: throughput is not available", "give them under [facts]"
            )

    def peaks(rack: Rack) -> list[float]:
        held = rack.accelerator.peak_flops_per_s
        byte = held.get("fp8", held["bf16"])
        return [held.get("nvfp4", held.get("mxfp4", held["bf16"])), byte, held["bf16"], held["bf16"]]

    return Rates(
        np.array([r.accelerator.hbm_bytes_per_s for r in racks]),
        np.array([peaks(r) for r in racks]).T,
        np.array([r.accelerator.nvlink.bytes_per_s if r.accelerator.nvlink else 5e10 for r in racks]),
        np.array([r.nic.bytes_per_s * r.nics_per_gpu if r.nic else 5e10 for r in racks]),
        np.where([newer_attention(r.accelerator) for r in racks], attention_speed, 1.0),
    )


@cache
def prior(name: str, scope: str = "") -> tuple[float, float]:
    """Return a constant's prior: value, nan where a claim gives it, and log spread (data/serving_priors.csv)."""
    rows = {row["scope"]: row for row in table("serving_priors.csv") if row["name"] == name}
    row = rows.get(scope) or rows[""]
    return float(row["value"] or "nan"), float(row["log_sd"])


@cache
def vision_patches(model: str) -> float:
    """Return the patches that a model's vision part sees for each prompt token, 0 for a model without."""
    found = [float(r["value"]) for r in table("serving_priors.csv") if r["name"] == "vision_patches" and r["scope"] == model]
    return found[0] if found else 0.0
