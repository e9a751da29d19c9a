"""What checkpoints call the tensors of a shape: the module paths that quantisation files name."""

from __future__ import annotations

from planner.shapes import Weight

BLOCKS = ("mlp", "block_sparse_moe", "ffn", "feed_forward", "mixer")
RENAMED = {
    "kv_a_proj": ("kv_a_proj_with_mqa",),
    "output_gate": ("g_proj",),
    "index_q": ("indexer.wq_b",),
    "index_k": ("indexer.wk",),
    "index_heads": ("indexer.weights_proj",),
    "in_qkv": ("in_proj_qkv", "in_proj_qkvz"),
    "in_z": ("in_proj_z", "in_proj_qkvz"),
    "in_ba": ("in_proj_ba", "in_proj_a"),
    "shared_gate": ("shared_expert_gate",),
    "latent_in": ("shared_experts.latent_in", "fc1_latent_proj"),
    "latent_out": ("shared_experts.latent_out", "fc2_latent_proj"),
}
WIDE = {"up": ("up_proj", "w3", "c_fc"), "gate": ("gate_proj", "w1"), "down": ("down_proj", "w2", "c_proj")}
HOLDERS = {"expert": ("experts.0.",), "shared_expert": ("shared_experts.", "shared_expert.", "shared_mlp."), "mlp": ("",)}


def _within(weight: Weight) -> list[str]:
    """Return the paths of a tensor inside its layer."""
    kind, _, end = weight.name.rpartition("_")
    if kind in HOLDERS and end in WIDE:
        first = WIDE[end][0]
        return [f"{block}.{holder}{first}" for block in BLOCKS for holder in HOLDERS[kind]] + [
            f"{block}.{holder}{other}" for block in BLOCKS[1:4] for holder in HOLDERS[kind] for other in WIDE[end][1:]
        ]
    if weight.name == "router":
        return [f"{block}.gate" for block in BLOCKS]
    own = RENAMED.get(weight.name, (weight.name,))
    if weight.part == "recurrent":
        holders = ("linear_attn", "mixer") if weight.name in ("in_qkv", "in_z", "in_ba", "in_proj", "out_proj") else ("self_attn",)
        return [f"{holder}.{name}" for holder in holders for name in own]
    if weight.part == "shared_experts":
        return [f"{block}.{name}" for block in BLOCKS for name in own]
    return [f"{holder}.{name}" for holder in ("self_attn", "mixer") for name in own]


def modules(weight: Weight, layer: int, after: int) -> list[str]:
    """Return the paths under which checkpoints name one layer's tensor.

    Parameters: weight; layer, its index (of an MTP module: its index among these); after, the layers of the model, behind which some
    checkpoints store MTP modules. Returns: paths as the plain decoder spells them, starting with `model.layers.`, `mtp.` or `lm_head`.
    """
    if weight.part == "head":
        return ["lm_head"]
    inner = ["eh_proj"] if weight.name == "eh_proj" else _within(weight)
    if weight.part == "mtp":
        return [f"{start}.{name}" for name in inner for start in (f"model.layers.{after + layer}", f"mtp.layers.{layer}")]
    return [f"model.layers.{layer}.{name}" for name in inner]
