"""How a checkpoint is stored: which parts in which format, as its quantisation files say."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping

from planner.errors import InputError

# a tensor of each part under the name that exclusion patterns are written for
EXAMPLES = {
    "attention": ("model.layers.5.self_attn.q_proj", "model.layers.5.self_attn.o_proj"),
    "indexer": ("model.layers.5.self_attn.indexer.wq_b",),
    "dense_mlp": ("model.layers.0.mlp.gate_proj", "model.layers.0.mlp.down_proj"),
    "experts": ("model.layers.5.mlp.experts.7.gate_proj",),
    "shared_experts": ("model.layers.5.mlp.shared_experts.gate_proj",),
    "recurrent": ("model.layers.5.linear_attn.in_proj_qkv",),
    "mtp": ("model.layers.61.eh_proj",),
}


def declared(config: Mapping, text: Mapping) -> Mapping:
    """Return the quantisation part of a config, from wherever it stands: empty when there is none."""
    for place in (config.get("hf_quant_config"), config.get("quantization_config"), text.get("quantization_config")):
        if isinstance(place, Mapping):
            return place.get("quantization", place) if isinstance(place.get("quantization"), Mapping) else place
    return {}


def low_format(quant: Mapping) -> str | None:
    """Return the format name that a quantisation section declares for the layers it converts; None when it declares none."""
    method, algo = str(quant.get("quant_method", "")).lower(), str(quant.get("quant_algo", "")).upper()
    if not quant:
        return None
    if "MXFP8" in algo:
        return "mxfp8"
    if "NVFP4" in algo or "FP4" in algo:
        return "nvfp4"
    if "FP8" in algo:
        return "fp8_block" if "BLOCK" in algo or "PB_WO" in algo else "fp8"
    if method == "fp8" or "float8" in str(quant.get("fmt", "")):
        return "fp8_block" if quant.get("weight_block_size") else "fp8"
    if method == "mxfp4":
        return "mxfp4"
    groups = quant.get("config_groups")
    if isinstance(groups, Mapping) and groups:
        weights = next(iter(groups.values())).get("weights") or {}
        bits, group = weights.get("num_bits"), weights.get("group_size")
        if bits == 4 and weights.get("type") == "float":
            return "mxfp4" if group == 32 else "nvfp4"
        if bits == 4:
            return "int4_group32" if group == 32 else "int4"
        if bits == 8:
            return "fp8_block" if weights.get("strategy") == "block" else "fp8" if weights.get("type") == "float" else "int8"
    return None


def _excluded(name: str, patterns: list[str]) -> bool:
    for pattern in patterns:
        if pattern.startswith("re:"):
            if re.match(pattern[3:], name):
                return True
        elif (
            fnmatch.fnmatch(name, pattern)
            or fnmatch.fnmatch(name, f"{pattern}*")
            or pattern in name.split(".")
            or name.startswith(f"{pattern}.")
        ):
            return True
    return False


def _checked(quant: Mapping) -> None:
    """Refuse a quantisation section whose lists are no lists."""
    for key in ("exclude_modules", "ignore", "modules_to_not_convert", "ignored_layers"):
        if not isinstance(quant.get(key) or [], list):
            raise InputError(f"quantization_config.{key}", quant[key], "must be a list of names")
    if not isinstance(quant.get("config_groups") or {}, Mapping):
        raise InputError("quantization_config.config_groups", quant["config_groups"], "must be an object")
    for group in (quant.get("config_groups") or {}).values():
        if not isinstance(group, Mapping) or not isinstance(group.get("weights") or {}, Mapping):
            raise InputError("quantization_config.config_groups", group, "must hold objects with weights")


def stored_formats(config: Mapping, text: Mapping) -> dict[str, str]:
    """Return part -> format of a checkpoint as released; parts not named are stored in the model's own 16-bit format.

    MXFP4 by quant_method is applied to expert weights only, as its checkpoints do.
    """
    quant = declared(config, text)
    _checked(quant)
    low = low_format(quant)
    if low is None:
        return {}
    if str(quant.get("quant_method", "")).lower() == "mxfp4":
        return {"experts": "mxfp4"}
    patterns = [str(p) for key in ("exclude_modules", "ignore", "modules_to_not_convert", "ignored_layers") for p in (quant.get(key) or [])]
    examples = dict(EXAMPLES)
    if "linear_attn_config" in text:
        examples["recurrent"] = EXAMPLES["attention"]
    elif "mamba_num_heads" in text:
        examples |= {"recurrent": ("backbone.layers.0.mixer.in_proj",), "attention": ("backbone.layers.5.mixer.q_proj",)}
    found = {}
    for part, names in examples.items():
        if not all(_excluded(n, patterns) for n in names):
            found[part] = low
    return found
