"""What one GPU of a replica must hold, read and compute for a token: a model in its formats, over many layouts at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.errors import Infeasible
from planner.models import transformer
from planner.models.residency import REPLICATED
from planner.shapes import Format, Layout, ModelShape
from planner.units import nonnegative

WIDTHS = ("low", "byte", "wide", "unpacked")  # products of 4-, 8- and 16-bit numbers; 4-bit weights multiplied at the 16-bit peak


@dataclass(frozen=True)
class Served:
    """One model in chosen formats, condensed: bytes by how they are split, FLOPs of a token by the peak they run at.

    split_bytes over TP; grouped_bytes over TP up to kv_heads; copied_bytes on each GPU; expert_bytes over EP and expert TP; ends_bytes, the head
    (embedding_bytes and vision_bytes are held and not read by a decode step). flops and expert_flops [FLOP/token], one entry a width of `WIDTHS`.
    """

    shape: ModelShape
    split_bytes: float
    grouped_bytes: float
    copied_bytes: float
    expert_bytes: float
    head_bytes: float
    embedding_bytes: float
    vision_bytes: float
    flops: tuple[float, ...]
    expert_flops: tuple[float, ...]
    head_flops: float
    vision_flops: float

    @cached_property
    def kv_heads(self) -> int:
        """The KV heads that TP can split; latents cannot be split and are not counted."""
        return max((a.kv_heads for a in self.shape.attention if not a.shared_latent), default=1 << 20)


def condense(shape: ModelShape, formats: Mapping[str, Format], widths: Mapping[str, int]) -> Served:
    """Return a model in its formats, condensed once for any number of layouts.

    Parameters: shape; formats, part -> Format; widths, part -> index into `WIDTHS` of the peak its products run at (absent: wide).
    Returns: Served, bytes [B] and FLOPs [FLOP/token]. Raises: nothing.
    Validity: MTP weights left out. Error: bytes as `residency.weights_bytes_per_gpu`. Source: the checkpoints' tensor lists.
    """
    size = dict.fromkeys(("split", "grouped", "copied", "experts", "head", "embedding", "vision"), 0.0)
    for weight in shape.weights:
        if not weight.total or weight.part == "mtp":
            continue
        if weight.part in ("experts", "head", "embedding", "vision"):
            kind = weight.part
        elif weight.part in ("norm", "router") or weight.name in REPLICATED or not weight.cols:
            kind = "copied"
        else:
            kind = "grouped" if weight.name in ("k_proj", "v_proj") else "split"
        size[kind] += transformer.weight_bytes(weight, transformer.stored_format(weight, formats))
    flops, experts = [0.0] * len(WIDTHS), [0.0] * len(WIDTHS)
    for part, amount in transformer.linear_flops_per_token(shape, head=False).items():
        (experts if part == "experts" else flops)[widths.get(part, 2)] += amount
    vision = sum(2.0 * w.total for w in shape.weights if w.part == "vision" and w.cols)
    return Served(
        shape,
        size["split"],
        size["grouped"],
        size["copied"],
        size["experts"],
        size["head"],
        size["embedding"],
        size["vision"],
        tuple(flops),
        tuple(experts),
        2.0 * shape.vocab * shape.hidden,
        vision,
    )


@dataclass(frozen=True)
class Terms:
    """The same for many layouts: one entry a layout (or a scalar), all for one GPU of one pipeline stage.

    fixed_bytes, expert_bytes read by a step (experts in full); held_bytes, all weights; cache_read_bytes and cache_held_bytes of one sequence;
    flops (4, n) per token of an attention rank, expert_flops (4, n) per token of the replica; head_flops, decode_attention_flops,
    prefill_attention_flops, vision_flops per token of a rank [FLOP]; expert_share k/E; top_k, moe_layers, layers, hidden; tp, dp, ep, pp, gpus [1];
    crosses, whether the replica leaves one NVLink domain.
    """

    fixed_bytes: np.ndarray
    expert_bytes: np.ndarray
    held_bytes: np.ndarray
    cache_read_bytes: np.ndarray
    cache_held_bytes: np.ndarray
    flops: np.ndarray
    expert_flops: np.ndarray
    head_flops: np.ndarray
    decode_attention_flops: np.ndarray
    prefill_attention_flops: np.ndarray
    vision_flops: np.ndarray
    expert_share: np.ndarray
    top_k: np.ndarray
    moe_layers: np.ndarray
    layers: np.ndarray
    hidden: np.ndarray
    tp: np.ndarray
    dp: np.ndarray
    ep: np.ndarray
    pp: np.ndarray
    gpus: np.ndarray
    crosses: np.ndarray


def lifted(one: Terms) -> Terms:
    """Return the same terms with a new last axis, to broadcast over batches.

    Parameters: one. Returns: Terms, units as before [B, FLOP]. Raises: nothing. Validity: any terms. Error: none. Source: reshaping.
    """
    return Terms(**{k: np.asarray(v)[..., None] for k, v in vars(one).items()})


def chosen(one: Terms, index) -> Terms:
    """Return the terms of chosen layouts: an index array, a slice or a mask over the last axis.

    Parameters: one; index. Returns: Terms, units as before [B, FLOP]. Raises: IndexError outside. Validity: any terms. Error: none. Source: indexing.
    """
    return Terms(**{k: np.asarray(v)[..., index] if np.ndim(v) else v for k, v in vars(one).items()})


def attention_terms(shape: ModelShape, tp, context_tokens, prompt_tokens, kv_bits: float, held_tokens=None) -> dict[str, np.ndarray]:
    """Return what attention reads, holds and computes for one sequence on one GPU: sum over layers of entries x elements x copies / tp.

    Parameters: shape; tp [1], array (n,); context_tokens [token] that a decode step sees, prompt_tokens [token] of a prompt, held_tokens [token] in
    memory (context unless given), scalars; kv_bits [1]. Returns: dict of cache_read_bytes, cache_held_bytes [B], decode_attention_flops [FLOP/token],
    prefill_attention_flops [FLOP/token, mean over a causal prompt], arrays (n,). Raises: InputError for negative tokens.
    Validity: latents are copied under TP; windows and top-k cap what is read. Error: exact by count. Source: the layers' fields.
    """
    tp = np.asarray(tp, dtype=float)
    context = float(nonnegative("context_tokens", context_tokens))
    prompt = float(nonnegative("prompt_tokens", prompt_tokens))
    held = context if held_tokens is None else float(nonnegative("held_tokens", held_tokens))
    read, kept = np.zeros(tp.shape), np.zeros(tp.shape)
    for layer in shape.attention:
        share = np.vectorize(lambda n, one=layer: transformer.kv_copies(one, int(n)))(tp) / tp if tp.size else tp
        seen = float(transformer.entries_seen(layer, context))
        state = float(transformer.state_bytes((layer,)))
        index = layer.layers * layer.index_elements * context / layer.stride * kv_bits / 8
        read = read + share * (layer.layers * seen * layer.cache_elements * kv_bits / 8 + index + 2 * state)
        kept = kept + share * (float(transformer.kv_bytes((layer,), held, 1.0, kv_bits)) + state)
    return {
        "cache_read_bytes": read,
        "cache_held_bytes": kept,
        "decode_attention_flops": transformer.attention_flops_per_token(shape, context, absorbed=True) / tp,
        "prefill_attention_flops": transformer.attention_flops_per_token(shape, prompt / 2) / tp,
    }


def terms(
    served: Served, layouts: Sequence[Layout], attention: Mapping[str, np.ndarray], domain_gpus: int, vision_tokens_per_token: float = 0.0
) -> Terms:
    """Return the terms of every layout at once.

    Parameters: served; layouts, n of them; attention, `attention_terms` for their tp; domain_gpus [1] in one NVLink domain; vision_tokens_per_token
    [1], patches that the vision part sees for each input token. Returns: Terms, bytes [B], FLOPs [FLOP/token]. Raises: Infeasible (layout) for
    experts spread wider than their number.
    Validity: stages of equal depth; the fullest stage rounds its layers up. Error: weights within 1 % of `residency.weights_bytes_per_gpu`.
    Source: engines' sharding rules.
    """
    shape = served.shape
    tp, dp, ep, pp, moe_tp = (np.array([getattr(one, k) for one in layouts], dtype=float) for k in ("tp", "dp", "ep", "pp", "moe_tp"))
    experts = shape.experts
    if experts and (ep > experts.num).any():
        raise Infeasible("layout", f"EP{int(ep.max())} for {experts.num} experts", f"at most EP{experts.num}")
    stage = np.ceil(shape.layers / pp) / shape.layers
    held = np.ceil(experts.num / ep) / experts.num / moe_tp if experts else np.zeros(tp.shape)
    expert_bytes = served.expert_bytes * held * stage
    fixed = (served.split_bytes / tp + served.grouped_bytes / np.minimum(tp, served.kv_heads) + served.copied_bytes) * stage + served.head_bytes / tp
    resident = served.embedding_bytes / tp + served.vision_bytes
    gpus = tp * dp
    spread = {k: v * stage for k, v in attention.items()}
    return Terms(
        fixed,
        expert_bytes,
        fixed + expert_bytes + resident,
        flops=np.multiply.outer(served.flops, stage / tp),
        expert_flops=np.multiply.outer(served.expert_flops, stage / gpus),
        head_flops=served.head_flops / tp,
        vision_flops=served.vision_flops * vision_tokens_per_token / tp,
        expert_share=np.full(tp.shape, experts.top_k / experts.num if experts else 0.0),
        top_k=np.full(tp.shape, float(experts.top_k if experts else 0)),
        moe_layers=(experts.layers if experts else 0) * stage,
        layers=shape.layers * stage,
        hidden=np.full(tp.shape, float(shape.hidden)),
        tp=tp,
        dp=dp,
        ep=ep,
        pp=pp,
        gpus=gpus * pp,
        crosses=gpus > domain_gpus,
        **spread,
    )


def with_attention(one: Terms, attention: Mapping[str, np.ndarray]) -> Terms:
    """Return terms with another context: what `attention_terms` gives replaces what they held.

    Parameters: one; attention, its arrays [B and FLOP/token]. Returns: Terms. Raises: nothing. Validity: the same layouts, one stage.
    Error: none. Source: replacement.
    """
    return replace(one, **attention)
