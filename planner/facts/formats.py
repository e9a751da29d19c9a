"""Number formats by name, and which parts of a model a chosen format is applied to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from planner.errors import InputError
from planner.facts.files import table
from planner.facts.names import resolve_precision
from planner.shapes import Format, ModelShape

LOW_PARTS = ("attention", "indexer", "dense_mlp", "experts", "shared_experts", "recurrent", "mtp")
KEPT_HIGH_IN_FP4 = ("attention", "indexer", "mtp")  # of latent-attention models, as their published FP4 checkpoints do
AS_RELEASED = ("as_released", "released", "as released", "native", "auto")


@cache
def formats() -> dict[str, Format]:
    """Return every format of data/formats.csv by name."""
    return {r["name"]: Format(r["name"], float(r["bits"]), int(r["block_rows"]), int(r["block_cols"]), int(r["scale_bits"]),
                              int(r["tensor_bytes"]))
            for r in table("formats.csv")}


def number_format(spelling: str) -> Format:
    """Return a format by any spelling. Raises: InputError for an unknown or ambiguous one ("fp4")."""
    if not isinstance(spelling, str):
        raise InputError("format", spelling, "must be the name of a number format")
    if spelling in formats():
        return formats()[spelling]
    if isinstance(spelling, str) and spelling.lower() == "auto":
        raise InputError("format", spelling, "must be named (nvfp4, mxfp4, fp8, bf16, ...)")
    return formats()[resolve_precision(spelling)]


def stored_bits(spelling: str) -> float:
    """Return the bits [1] of a KV-cache element in a format, its share of the block's scale with it. Raises: InputError as `number_format`."""
    return number_format(spelling).bits_per_value


def peak_format(spelling: str) -> str:
    """Return the name of the dense peak that products in this format run at (a key of `Accelerator.peak_flops_per_s`)."""
    name = number_format(spelling).name
    return next(r["peak"] for r in table("formats.csv") if r["name"] == name) or "bf16"


def _stored(value: str | Mapping[str, float], base: str) -> Format:
    """Return the format of a tensor that some layers store low and the others not: the mean, under the low one's name."""
    if isinstance(value, str):
        return number_format(value)
    low = number_format(next(name for name in value if name != "bf16"))
    share = value[low.name]
    return replace(low, bits=share * low.bits + (1 - share) * number_format(base).bits, scale_bits=share * low.scale_bits,
                   tensor_bytes=share * low.tensor_bytes)


def _released(shape: ModelShape) -> dict[str, Format]:
    """Return the formats of a checkpoint as released. Raises: InputError where its files do not tell its bytes."""
    if "refused" in shape.quantisation:
        raise InputError("weight_format", "as released", shape.quantisation["refused"], shape.name)
    base = shape.quantisation.get("base", "bf16")
    formats = {part: _stored(base if value == "bf16" else value, base) for part, value in shape.quantisation.items() if part != "assumed"}
    return {**dict.fromkeys(LOW_PARTS, number_format(base)), **formats} if "base" in formats else formats


def assumed(shape: ModelShape, chosen: str | Mapping[str, str] | None) -> str:
    """Return what the bytes as released take for granted, empty where the files tell all or another format is chosen."""
    released = chosen is None or (isinstance(chosen, str) and chosen.lower() in AS_RELEASED)
    return str(shape.quantisation.get("assumed", "")) if released else ""


def weight_formats(shape: ModelShape, chosen: str | Mapping[str, str] | None) -> dict[str, Format]:
    """Return part -> Format of a model's linear weights; parts not named stay in BF16, or in the format of the key `base`.

    Parameters: shape; chosen, a format's name for every linear layer, a mapping part -> name, or None (or "as_released") for the
    checkpoint's own formats. FP4 on a latent-attention model leaves attention and the MTP module high, as published checkpoints do.
    FP32 is held throughout. Returns: dict. Raises: InputError for an unknown format or part, or a checkpoint whose own bytes are not known.
    """
    if chosen is None or (isinstance(chosen, str) and chosen.lower() in AS_RELEASED):
        return _released(shape)
    if isinstance(chosen, Mapping):
        for part in chosen:
            if part not in (*LOW_PARTS, "base"):
                raise InputError("weight_format", part, f"must name parts of {', '.join(LOW_PARTS)}, base")
        if chosen.get("base") is not None and number_format(chosen["base"]).name not in ("bf16", "fp32"):
            raise InputError("weight_format.base", chosen["base"], "must be bf16 or fp32")
        return {part: number_format(name) for part, name in chosen.items()}
    low = number_format(chosen)
    if low.name in ("bf16", "fp32"):
        return dict.fromkeys((*LOW_PARTS, "base"), low) if low.name == "fp32" else {}
    if low.name == "fp8" and "fp8_block" in [v for v in shape.quantisation.values() if isinstance(v, str)]:
        low = formats()["fp8_block"]
    latent = any(a.shared_latent for a in shape.attention)
    kept = KEPT_HIGH_IN_FP4 if latent and low.bits < 8 else ()
    if low.name == "mxfp4" and shape.experts and shape.quantisation == {"experts": "mxfp4"}:
        return {"experts": low}
    return {part: low for part in LOW_PARTS if part not in kept}
