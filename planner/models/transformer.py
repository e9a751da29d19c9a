"""Parameters, FLOPs and bytes of one model shape: every quantity from its tensors and attention layers, parts that sum to the total."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.errors import InputError
from planner.shapes import PARTS, Attention, Format, ModelShape, Weight
from planner.units import nonnegative

ACTIVE = ("without_embedding", "with_embeddings", "without_head")
ALLOCATORS = ("window_capped", "uniform_pages")
BF16 = Format("bf16", 16)


def parameters(shape: ModelShape) -> dict[str, int]:
    """Return the parameters by part: n = sum of rows x cols x copies.

    Parameters: shape. Returns: ordered dict part -> count [1], int; the parts sum to the total. A second embedding stored for MTP is no
    parameter (`ModelShape.duplicated`). Raises: nothing.
    Validity: the architectures of `facts.architectures`. Error: exact for each known total (data/references/parameters.csv).
    Source: the checkpoints' own tensor lists.
    """
    found = {part: sum(w.total for w in shape.weights if w.part == part) for part in PARTS}
    return {part: n for part, n in found.items() if n}


def active_parameters(shape: ModelShape, definition: str = "without_embedding") -> int:
    """Return the parameters that one token's forward pass uses: sum of rows x cols x used copies; MTP and vision are left out.

    Parameters: shape; definition [text]: `without_embedding` (the output head counted, the input look-up not), `with_embeddings` (both), or
    `without_head` (neither). Returns: count [1], int. Raises: InputError for another definition.
    Validity: text tokens. Error: exact for DeepSeek-V3, Qwen3-235B and gpt-oss-120b. Source: model cards, named definitions.
    """
    if definition not in ACTIVE:
        raise InputError("definition", definition, f"must be one of {', '.join(ACTIVE)}")
    body = sum(int(w.elements * w.used) for w in shape.weights if w.part not in ("embedding", "head", "mtp", "vision"))
    head = shape.vocab * shape.hidden
    return body + {"without_embedding": head, "with_embeddings": 2 * head, "without_head": 0}[definition]


def linear_flops_per_token(shape: ModelShape, head: bool = True) -> dict[str, float]:
    """Return the FLOPs of one token's matrix products by part: F = 2 x rows x cols x used.

    Parameters: shape; head, whether the output head is computed for this token (every decoded token; one token a prompt).
    Returns: ordered dict part -> FLOP [FLOP/token]. Raises: nothing.
    Validity: forward pass, text tokens; norms, biases and element-wise work left out (below 1 %). Error: exact by count.
    Source: 2 FLOPs a multiply-add.
    """
    found = {}
    for part in PARTS:
        if part in ("embedding", "mtp", "vision") or (part == "head" and not head):
            continue
        flops = sum(2.0 * w.elements * (1 if part == "head" else w.used) for w in shape.weights if w.part == part and w.cols)
        if part == "head" and head:
            flops = 2.0 * shape.vocab * shape.hidden
        if flops:
            found[part] = flops
    return found


def attention_flops_per_token(shape: ModelShape, context_tokens, absorbed: bool = False):
    """Return the FLOPs of scores and values for one new token: F = 2 layers heads (d_qk + d_v) x entries seen.

    Parameters: shape; context_tokens [token] before it, scalar or array; absorbed, the latent form of decode (queries against the latent:
    d_qk = latent + rope, d_v = latent). Windows, strides and the indexer's top-k cap what is seen; the indexer itself looks at all.
    Returns: FLOP [FLOP/token], shape of context_tokens. Raises: InputError for a negative context.
    Validity: decode, or one position of a causal prefill (mean over a prompt of n: context n / 2). Error: exact by count.
    Source: definition of attention; DeepSeek-V2 section 2.1 for the absorbed form.
    """
    context = nonnegative("context_tokens", context_tokens)
    total = np.zeros(context.shape)
    for layer in shape.attention:
        seen = entries_seen(layer, context)
        qk, value = layer.qk_dim, layer.v_dim
        if absorbed and layer.latent:
            qk, value = layer.cache_elements, layer.latent
        total = total + 2.0 * layer.layers * layer.heads * (qk + value) * seen
        if layer.kind == "linear":
            total = total + 4.0 * layer.layers * layer.heads * layer.qk_dim * layer.v_dim
        if layer.index_elements:
            total = total + 2.0 * layer.layers * layer.index_heads * layer.index_elements * context / layer.stride
    return total[()]


def entries_seen(layer: Attention, context_tokens):
    """Return how many cache entries one new token reads in one layer: min(context, window or top-k), over the stride.

    Parameters: layer; context_tokens [token]. Returns: entries [1], shape of context_tokens; 0 for recurrent layers.
    Raises: InputError for a negative context. Validity: causal decode. Error: exact. Source: the layer's own fields.
    """
    context = nonnegative("context_tokens", context_tokens)
    if layer.kind == "linear":
        return np.zeros(context.shape)[()]
    seen = context / layer.stride
    for cap in (layer.window, layer.top_k):
        if cap:
            seen = np.minimum(seen, cap)
    return seen[()]


def training_flops_per_token(shape: ModelShape, seq_tokens, causal: bool = True, passes: float = 3.0):
    """Return the FLOPs of training one token: passes x (linear + attention), forward 1 and backward 2.

    Parameters: shape; seq_tokens [token] sequence length; causal, a token sees half the sequence on average (else all of it); passes, 3, or 4
    with full recompute. Returns: FLOP [FLOP/token], shape of seq_tokens. Raises: InputError.
    Validity: MTP left out. Error: conventions differ by 4 %: name causal or full. Source: 6 N + attention.
    """
    seq = nonnegative("seq_tokens", seq_tokens)
    linear = sum(linear_flops_per_token(shape).values())
    return passes * (linear + attention_flops_per_token(shape, seq / 2 if causal else seq))


def weight_bytes(weight: Weight, stored: Format) -> float:
    """Return the bytes of all copies of a tensor: values x bits / 8, and a scale for each block, part blocks counted whole.

    Parameters: weight; stored, its format. Returns: bytes [B]. Raises: nothing.
    Validity: 2-D blocks of the format; vectors have no scales. Error: exact but for one scale a tensor. Source: the formats' definitions.
    """
    values = weight.elements * (weight.bits or stored.bits) / 8
    if not (stored.block_rows and weight.cols) or weight.bits:
        return weight.copies * values
    blocks = -(-weight.rows // stored.block_rows) * -(-weight.cols // stored.block_cols)
    return weight.copies * (values + blocks * stored.scale_bits / 8 + stored.tensor_bytes)


def stored_format(weight: Weight, formats: Mapping[str, Format], base: Format = BF16) -> Format:
    """Return the format one tensor is stored in: its own (`part/name`) where given, its part's for linear layers, else the base format.

    Parameters: weight; formats, part or `part/name` or `base` -> Format; base [16 bits] unless `formats` has one. Returns: Format.
    Raises: nothing. Validity: embeddings, head, norms and routers stay in the base format unless named. Error: none.
    Source: published quantisation files.
    """
    base = formats.get("base", base)
    own = formats.get(f"{weight.part}/{weight.name}")
    return own or (formats.get(weight.part, base) if weight.linear else base)


def checkpoint_bytes(shape: ModelShape, formats: Mapping[str, Format], base: Format = BF16) -> dict[str, float]:
    """Return the bytes on disk by part, tensors only, what is stored twice for MTP included.

    Parameters: shape; formats, part -> Format (linear layers of other parts in `base`). Returns: ordered dict part -> bytes [B].
    Raises: nothing. Validity: tensors without file headers. Error: exact for each known tensor total; repositories add headers of 5e-8 to 2e-5
    (data/references/checkpoint_bytes.csv). Source: formats' definitions.
    """
    found: dict[str, float] = {}
    for weight in (*shape.weights, *shape.duplicated):
        if weight.total:
            found[weight.part] = found.get(weight.part, 0.0) + weight_bytes(weight, stored_format(weight, formats, base))
    return found


def scale_elements(shape: ModelShape, formats: Mapping[str, Format]) -> int:
    """Return the number of stored block scales: one for each block of each low-precision linear layer.

    Parameters: shape; formats, part -> Format. Returns: count [1], int. Raises: nothing.
    Validity: block formats. Error: exact for DeepSeek-V3, GLM-5, Qwen3-235B, MiniMax-M2.5 in FP8. Source: formats' definitions.
    """
    total = 0
    for weight in shape.weights:
        stored = stored_format(weight, formats)
        if stored.block_rows and weight.cols:
            total += weight.copies * -(-weight.rows // stored.block_rows) * -(-weight.cols // stored.block_cols)
    return total


def kv_bytes(attention: tuple[Attention, ...], tokens, sequences=1.0, bits: float = 16.0, allocator: str = "window_capped",
             index_bits: float | None = None):
    """Return the KV cache of sequences of one length: sum over layers of elements x bits / 8 x entries kept.

    Parameters: attention, the layers; tokens [token] a sequence, scalar or array; sequences [1]; bits [1] an element; allocator [text]:
    `window_capped` (a sliding layer keeps its window) or `uniform_pages` (every layer keeps every token, as allocators with one page table do);
    index_bits [1], the indexer's keys (as `bits` unless given). Returns: bytes [B], broadcast shape; recurrent layers add nothing here
    (`state_bytes`).
    Raises: InputError for negative tokens or another allocator.
    Validity: per replica, before tensor parallelism. Error: exact by count. Source: the layers' fields.
    """
    if allocator not in ALLOCATORS:
        raise InputError("allocator", allocator, f"must be one of {', '.join(ALLOCATORS)}")
    tokens, sequences = nonnegative("tokens", tokens), nonnegative("sequences", sequences)
    per_sequence = np.zeros(tokens.shape)
    for layer in attention:
        kept = np.floor(tokens / layer.stride)
        if layer.window and allocator == "window_capped":
            kept = np.minimum(kept, layer.window)
        index = layer.index_elements * (bits if index_bits is None else index_bits)
        per_sequence = per_sequence + layer.layers * kept * (layer.cache_elements * bits + index) / 8
    return (per_sequence * sequences)[()]


def state_bytes(attention: tuple[Attention, ...], sequences=1.0):
    """Return the state that recurrent layers keep for each sequence, whatever its length: sum of elements x bits / 8.

    Parameters: attention, the layers; sequences [1], scalar or array. Returns: bytes [B], shape of sequences; 0 without such layers.
    Raises: InputError for negative sequences. Validity: state and convolution tail in the widths that the config names.
    Error: exact by count. Source: the layers' fields.
    """
    each = sum(layer.layers * layer.state_elements * layer.state_bits / 8 for layer in attention)
    return (each * nonnegative("sequences", sequences))[()]


def kv_copies(layer: Attention, tp: int) -> float:
    """Return how many times tensor parallelism stores one layer's cache: tp / min(tp, KV heads); tp for a latent.

    Parameters: layer; tp [1]. Returns: copies [1]; 1 = each GPU holds 1/tp. Raises: nothing.
    Validity: heads split evenly, replicated beyond the KV heads. Error: exact. Source: engines' sharding rule.
    """
    heads = 1 if layer.shared_latent else layer.kv_heads
    return tp / min(tp, heads) if layer.kind != "linear" else tp / min(tp, layer.kv_heads)
