"""Kimi K3: delta attention in three of four layers, experts in a latent space, residuals attended over blocks of layers.

The tensor list reproduces the printed total (2,779,931,837,184) and the printed checkpoint bytes exactly. Two small groups were placed
by that agreement and not by a field: 32 more decay values a delta layer than it has heads, and one norm of the projector.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.facts.attention import need
from planner.shapes import Weight

SLACK = 32  # decay values of a delta layer beyond one a head, as the printed bytes imply


def delta_layers(c: Mapping, layers: int) -> list[Weight]:
    """Return the tensors of Kimi delta attention: projections, short convolutions, gate and decay."""
    inner, h = c["linear_attn_config"], c["hidden_size"]
    heads, dim, kernel = need(inner, "num_heads"), need(inner, "head_dim"), need(inner, "short_conv_kernel_size")
    wide = heads * dim
    whole = (layers, layers, True, layers)
    found = [Weight("recurrent", f"{n}_proj", wide, h, *whole) for n in "qkv"]
    if inner.get("use_full_rank_gate"):
        found.append(Weight("recurrent", "gate", wide, h, *whole))
    else:
        found += [Weight("recurrent", "gate_a", dim, h, *whole), Weight("recurrent", "gate_b", wide, dim, *whole)]
    found += [
        Weight("recurrent", "o_proj", h, wide, *whole),
        Weight("recurrent", "beta", heads, h, *whole),
        Weight("recurrent", "decay_a", dim, h, *whole),
        Weight("recurrent", "decay_b", wide, dim, *whole),
        Weight("recurrent", "conv", 3 * wide, kernel, layers, layers, False, layers, 32),
        Weight("recurrent", "decay_and_norm", wide + heads + SLACK + dim, 0, layers, layers, False, layers, 32),
    ]
    return found


def block_residuals(c: Mapping) -> list[Weight]:
    """Return the queries and norms of attention over earlier blocks: two a layer and one at the end."""
    if not c.get("attn_res_block_size"):
        return []
    layers, h = c["num_hidden_layers"], c["hidden_size"]
    number = 2 * layers + 1
    return [
        Weight("attention", "residual_query", 1, h, number, number, False, layers),
        Weight("norm", "residual_norm", h, 0, number, number, False, layers),
    ]


def vision(v: Mapping) -> list[Weight]:
    """Return the tensors of K3's image encoder (no biases, RMS norms) and its projector."""
    h, f, wide, layers, text = (
        v["vt_hidden_size"],
        v["vt_intermediate_size"],
        v["qkv_hidden_size"],
        v["vt_num_hidden_layers"],
        v["text_hidden_size"],
    )
    merged = v["merge_kernel_size"][0] * v["merge_kernel_size"][1] * h
    block = 4 * wide * h + 2 * h * f + 2 * h
    first = 3 * v["patch_size"] ** 2 * h + v["init_pos_emb_height"] * v["init_pos_emb_width"] * h
    return [
        Weight("vision", "vision_blocks", block, 0, layers, 0, False),
        Weight("vision", "patch_and_positions", first, 0, 1, 0, False),
        Weight("vision", "final_norm_and_projector", h + merged * merged + merged * text + text, 0, 1, 0, False),
    ]
