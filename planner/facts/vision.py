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


def _siglip(v: Mapping, hidden: int, config: Mapping) -> list[Weight]:
    """Gemma 3: SigLIP with biases and learned positions, an attention-pooling head unless told otherwise, and a linear projection."""
    h, f, layers = _sizes(v, "hidden_size", "intermediate_size", "num_hidden_layers")
    image, patch = _sizes(v, "image_size", "patch_size")
    mlp = 2 * h * f + f + h
    head = h + 4 * (h * h + h) + 2 * h + mlp if v.get("vision_use_head", True) else 0
    patches = _channels(v) * patch**2 * h + h + (image // patch) ** 2 * h
    return _tower((4 * h + 4 * (h * h + h) + mlp, layers), patches, 2 * h + head + h * hidden + h)


def _llama4(v: Mapping, hidden: int, config: Mapping) -> list[Weight]:
    """Llama 4: a ViT with biases, a class embedding, a two-layer adapter over shuffled pixels and a linear projection."""
    h, f, layers = _sizes(v, "hidden_size", "intermediate_size", "num_hidden_layers")
    image, patch, inner, out, wide = _sizes(v, "image_size", "patch_size", "projector_input_dim", "projector_output_dim", "vision_output_dim")
    block = 4 * h + 4 * (h * h + h) + 2 * h * f + f + h
    patches = h + ((image // patch) ** 2 + 1) * h + _channels(v) * patch**2 * h
    return _tower((block, layers), patches, 4 * h + inner * f + out * inner + wide * hidden)


def _pixtral(v: Mapping, hidden: int, config: Mapping) -> list[Weight]:
    """Mistral 3: Pixtral without biases, RMS norms and a gated MLP, then patches merged and projected in two layers."""
    h, f, layers, patch = _sizes(v, "hidden_size", "intermediate_size", "num_hidden_layers", "patch_size")
    (merge,) = _sizes(config, "spatial_merge_size", inside="")
    bias = 2 * hidden if config.get("multimodal_projector_bias") else 0
    block = 2 * h + 4 * h * h + 3 * h * f
    projector = h + h * h * merge**2 + h * hidden + hidden * hidden + bias
    return _tower((block, layers), _channels(v) * patch**2 * h, h + projector)


def _qwen2(v: Mapping, hidden: int, config: Mapping) -> list[Weight]:
    """Qwen2-VL: a ViT with biases and no position table; its merger ends in the language model's width."""
    h, layers, ratio, out = _sizes(v, "embed_dim", "depth", "mlp_ratio", "hidden_size")
    patch, time, merge = _sizes(v, "patch_size", "temporal_patch_size", "spatial_merge_size")
    merged = merge**2 * h
    block = 4 * h + 4 * (h * h + h) + 2 * ratio * h * h + ratio * h + h
    return _tower((block, layers), _channels(v) * patch**2 * time * h, 2 * h + merged * merged + merged + merged * out + out)


def _qwen2_5(v: Mapping, hidden: int, config: Mapping) -> list[Weight]:
    """Qwen2.5-VL: as Qwen2-VL with RMS norms and a gated MLP with biases."""
    h, f, layers, out = _sizes(v, "hidden_size", "intermediate_size", "depth", "out_hidden_size")
    patch, time, merge = _sizes(v, "patch_size", "temporal_patch_size", "spatial_merge_size")
    merged = merge**2 * h
    block = 2 * h + 4 * (h * h + h) + 3 * h * f + 2 * f + h
    return _tower((block, layers), _channels(v) * patch**2 * time * h, h + merged * merged + merged + merged * out + out)


def _tower(blocks: tuple[int, int], patches: int, rest: int) -> list[Weight]:
    return [
        Weight("vision", "vision_blocks", blocks[0], 0, blocks[1], 0, False),
        Weight("vision", "patch_and_positions", patches, 0, 1, 0, False),
        Weight("vision", "final_norm_and_projector", rest, 0, 1, 0, False),
    ]


def _sizes(v: Mapping, *names: str, inside: str = "vision_config.") -> list[int]:
    """Return sizes that must be there. Raises: InputError naming the first that is no whole number of at least 1."""
    for name in names:
        value = v.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**7:
            raise InputError(inside + name, value, "must be a whole number >= 1")
    return [v[name] for name in names]


def _channels(v: Mapping) -> int:
    """Colours of an image: three where none of the names of the field is there."""
    name = next((n for n in ("num_channels", "in_channels", "in_chans") if n in v), None)
    return _sizes(v, name)[0] if name else 3


TOWERS = {"gemma3": _siglip, "llama4": _llama4, "mistral3": _pixtral, "qwen2_vl": _qwen2, "qwen2_5_vl": _qwen2_5}
MORE = ("vision_config", "audio_config", "vq_config", "qformer_config", "speech_config", "talker_config", "vision_tower", "mm_vision_tower")


def _checked(vision: Mapping) -> Mapping:
    """Refuse a tower whose sizes are not whole numbers, and one that lacks a size that its kind needs."""
    needs = {"vt_hidden_size": KIMI_SIZES, "num_position_embeddings": QWEN_SIZES}
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

    Parameters: config, the whole config.json; hidden [1] of the language model. Raises: InputError for a tower, or another part beside the
    language model, whose tensors are not understood: to leave them out would be a total that is too small.
    """
    inner = config.get("thinker_config")
    if isinstance(inner, Mapping):
        config = {**{k: v for k, v in config.items() if k in MORE}, **inner}
    for field in MORE[1:]:
        if config.get(field):
            raise InputError(field, _kind(config[field]), REFUSAL)
    vision, kind = config.get("vision_config"), config.get("model_type")
    if not vision:
        return []
    if not isinstance(vision, Mapping):
        raise InputError("vision_config", vision, "must be an object")
    if kind is not None and not isinstance(kind, str):
        raise InputError("model_type", kind, "must be text")
    if kind in TOWERS:
        return TOWERS[kind](vision, hidden, config)
    vision = _checked(vision)
    if "vt_hidden_size" in vision and vision.get("mm_projector_type") == "patchmerger":
        return _moonvit(vision)
    if vision.get("mm_projector_type") == "patchmergerv2":
        return kimi.vision(vision)
    if "spatial_merge_size" in vision and "depth" in vision and "num_position_embeddings" in vision:
        return _qwen(vision, hidden)
    raise InputError("vision_config", _kind(vision), REFUSAL)


REFUSAL = "is a part whose tensors are not understood: give the text_config alone to size the language model"


def _kind(part: object) -> object:
    return part.get("model_type") or "no model_type" if isinstance(part, Mapping) else part
