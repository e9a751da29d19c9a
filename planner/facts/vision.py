"""Vision towers: the tensors of the image encoders and projectors that the catalogue's models carry."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InputError
from planner.facts import kimi
from planner.shapes import Weight

KIMI_SIZES = ("vt_hidden_size", "vt_intermediate_size", "vt_num_hidden_layers", "text_hidden_size", "patch_size", "init_pos_emb_height",
              "init_pos_emb_width")
QWEN_SIZES = ("hidden_size", "intermediate_size", "depth", "patch_size", "temporal_patch_size", "num_position_embeddings", "spatial_merge_size")


def _moonvit(v: Mapping) -> list[Weight]:
    """Kimi K2.5 to K2.7: a ViT with biases and a learned position table, then a two-layer projector over merged patches."""
    h, f, layers, text = v["vt_hidden_size"], v["vt_intermediate_size"], v["vt_num_hidden_layers"], v["text_hidden_size"]
    table = v["init_pos_emb_height"] * v["init_pos_emb_width"] * h
    patch = 3 * v["patch_size"] ** 2 * h + h
    block = 4 * h + (3 * h * h + 3 * h) + (h * h + h) + (h * f + f) + (f * h + h)
    merged = v["merge_kernel_size"][0] * v["merge_kernel_size"][1] * h
    projector = 2 * h + merged * merged + merged + merged * text + text
    return [
        Weight("vision", "vision_blocks", block, 0, layers, 0, False),
        Weight("vision", "patch_and_positions", patch + table, 0, 1, 0, False),
        Weight("vision", "final_norm_and_projector", 2 * h + projector, 0, 1, 0, False),
    ]


def _qwen(v: Mapping, hidden: int) -> list[Weight]:
    """Qwen3-VL and Qwen3.5: a ViT with biases, a position table, a merger and one deepstack merger for each index."""
    h, f, layers = v["hidden_size"], v["intermediate_size"], v["depth"]
    patch = v.get("in_channels", 3) * v["patch_size"] ** 2 * v["temporal_patch_size"] * h + h
    table = v["num_position_embeddings"] * h
    block = 4 * h + (3 * h * h + 3 * h) + (h * h + h) + (h * f + f) + (f * h + h)
    merged, out = v["spatial_merge_size"] ** 2 * h, v.get("out_hidden_size", hidden)
    plain = merged * merged + merged + merged * out + out
    deep = len(v.get("deepstack_visual_indexes") or [])
    return [
        Weight("vision", "vision_blocks", block, 0, layers, 0, False),
        Weight("vision", "patch_and_positions", patch + table, 0, 1, 0, False),
        Weight("vision", "merger", 2 * h + plain, 0, 1, 0, False),
        Weight("vision", "deepstack_mergers", 2 * merged + plain, 0, deep, 0, False),
    ]


def _checked(vision: Mapping) -> Mapping:
    """Refuse a tower whose sizes are not whole numbers, and one that lacks a size that its kind needs."""
    needs = {"vt_hidden_size": KIMI_SIZES, "spatial_merge_size": QWEN_SIZES}
    for marker, sizes in needs.items():
        if marker in vision:
            for name in sizes:
                value = vision.get(name)
                if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**7:
                    raise InputError(f"vision_config.{name}", value, "must be a whole number >= 1")
            for name in ("in_channels", "out_hidden_size", "qkv_hidden_size"):
                value = vision.get(name, 1)
                if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**7:
                    raise InputError(f"vision_config.{name}", value, "must be a whole number >= 1")
            merge = vision.get("merge_kernel_size", [1, 1])
            if not (isinstance(merge, list) and len(merge) == 2 and all(isinstance(m, int) and not isinstance(m, bool) for m in merge)):
                raise InputError("vision_config.merge_kernel_size", merge, "must be two whole numbers")
            deep = vision.get("deepstack_visual_indexes") or []
            if not isinstance(deep, list):
                raise InputError("vision_config.deepstack_visual_indexes", deep, "must be a list")
    return vision


def vision_weights(config: Mapping, hidden: int) -> list[Weight]:
    """Return the tensors of a config's vision tower, none without one.

    Parameters: config, the whole config.json; hidden [1] of the language model. A tower of a kind that is not understood gives none: the
    shape's notes must say so (see `vision_note`).
    """
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping):
        return []
    vision = _checked(vision)
    if "vt_hidden_size" in vision and vision.get("mm_projector_type") == "patchmerger":
        return _moonvit(vision)
    if vision.get("mm_projector_type") == "patchmergerv2":
        return kimi.vision(vision)
    if "spatial_merge_size" in vision and "depth" in vision and "num_position_embeddings" in vision:
        return _qwen(vision, hidden)
    return []
