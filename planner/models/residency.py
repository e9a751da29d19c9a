"""What must sit in the HBM of one GPU for a layout, what is left for context, and the largest load that fits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from planner.errors import Infeasible, InputError
from planner.models import transformer
from planner.shapes import Format, Layout, ModelShape, Weight
from planner.units import fraction, nonnegative, positive, whole_down, whole_up

REPLICATED = ("q_a_proj", "kv_a_proj", "index_k", "index_heads", "index_q", "residual_query", "router", "eh_proj")


def spare_experts(num_experts: int, ep: int) -> int:
    """Return the fewest redundant expert copies so that every GPU holds equally many: ceil(E / ep) ep - E.

    Parameters: num_experts E [1]; ep [1]. Returns: copies [1], int. Raises: InputError for a count below 1.
    Validity: one replica. Error: exact. Source: even placement.
    """
    positive("num_experts", num_experts)
    positive("ep", ep)
    return -(-int(num_experts) // int(ep)) * int(ep) - int(num_experts)


def stage_layers(shape: ModelShape, pp: int) -> list[tuple[int, int]]:
    """Return the (first, last + 1) layers of each pipeline stage: as even as whole layers allow, the longer stages first.

    Parameters: shape; pp [1]. Returns: pp pairs [layer]. Raises: Infeasible (layout) for more stages than layers.
    Validity: contiguous stages. Error: exact. Source: usual placement.
    """
    if pp > shape.layers:
        raise Infeasible("layout", f"{pp} pipeline stages for {shape.layers} layers", f"at most PP{shape.layers}")
    cuts = [round(i * shape.layers / pp + 1e-9) for i in range(pp + 1)]
    return list(pairwise(cuts))


def _share_per_gpu(weight: Weight, shape: ModelShape, layout: Layout) -> float:
    """The share of one layer's tensor (all its copies) that one GPU of a stage holds."""
    if weight.part == "experts" or (weight.part == "mtp" and weight.name.startswith("expert")):
        held = -(-shape.experts.num // layout.ep) / shape.experts.num
        return held / layout.moe_tp
    if weight.part in ("norm", "router", "vision") or weight.name in REPLICATED or not weight.cols:
        return 1.0
    if weight.name in ("k_proj", "v_proj"):
        heads = max((a.kv_heads for a in shape.attention if not a.shared_latent), default=layout.tp)
        return 1.0 / min(layout.tp, heads)
    return 1.0 / layout.tp


def weights_bytes_per_gpu(shape: ModelShape, formats: Mapping[str, Format], layout: Layout, mtp: bool = False,
                          expert_width_multiple: int = 0) -> dict[str, float]:
    """Return the weight bytes on the fullest GPU by part: per tensor, bytes x share of its layers in the stage x share of a GPU.

    Parameters: shape; formats, part -> Format; layout; mtp, whether the MTP module is loaded; expert_width_multiple [1], to which an engine
    pads the width of quantised experts (0: not). Returns: ordered dict part -> bytes [B] of the heaviest stage's GPU.
    Raises: Infeasible (layout) for EP on a model without experts, EP beyond the experts, TP that does not divide the heads or leaves parts of
    KV heads, or more stages than layers.
    Validity: heads split over TP, KV heads replicated beyond their number; latents' down-projections, routers and norms replicated; experts
    dealt evenly with spare copies. Error: 1 % against an engine's own print (data/references/residency.csv). Source: engines' sharding rules.
    """
    if layout.ep > 1 and shape.experts is None:
        raise Infeasible("layout", f"EP{layout.ep} for a model without experts", "use EP1")
    if shape.experts and layout.ep > shape.experts.num:
        raise Infeasible("layout", f"EP{layout.ep} for {shape.experts.num} experts", f"at most EP{shape.experts.num}")
    if shape.heads % layout.tp:
        raise Infeasible("layout", f"TP{layout.tp} for {shape.heads} heads", f"a TP that divides {shape.heads}")
    for heads in {a.kv_heads for a in shape.attention if not a.shared_latent and a.kind != "linear"}:
        if heads % layout.tp and layout.tp % heads:
            raise Infeasible("layout", f"TP{layout.tp} for {heads} KV heads", f"a TP that divides {heads} or is a multiple of it")
    routed = shape.experts.layers if shape.experts else 0
    dense_first = shape.layers - routed
    best: dict[str, float] = {}
    for first, last in stage_layers(shape, layout.pp):
        found: dict[str, float] = {}
        for weight in shape.weights:
            if not weight.total or (weight.part == "mtp" and not mtp):
                continue
            share = _stage_share(weight, shape, first, last, dense_first)
            if not share:
                continue
            stored = transformer.stored_format(weight, formats)
            size = transformer.weight_bytes(weight, stored)
            if expert_width_multiple and weight.part == "experts" and weight.linear and stored.bits < 8:
                narrow = min(weight.rows, weight.cols) if weight.name.endswith("down") else weight.rows
                size *= -(-narrow // expert_width_multiple) * expert_width_multiple / narrow
            found[weight.part] = found.get(weight.part, 0.0) + size * share * _share_per_gpu(weight, shape, layout)
        if sum(found.values()) > sum(best.values()):
            best = found
    return best


def _stage_share(weight: Weight, shape: ModelShape, first: int, last: int, dense_first: int) -> float:
    """The share of a tensor's layers that lie in the stage first..last; dense layers come first, embeddings and heads at the ends."""
    if weight.part in ("embedding", "vision"):
        return float(first == 0)
    if weight.part in ("head", "mtp") or weight.name == "final_norm":
        return float(last == shape.layers)
    if weight.part in ("experts", "shared_experts", "router") and shape.experts:
        return max(0, last - max(first, dense_first)) / shape.experts.layers
    if weight.part == "dense_mlp" and shape.experts and dense_first:
        return max(0, min(last, dense_first) - first) / dense_first
    return (last - first) / shape.layers


def kv_bytes_per_gpu(shape: ModelShape, tokens, sequences, bits: float, layout: Layout, allocator: str = "window_capped",
                     index_bits: float | None = None):
    """Return the KV cache on one GPU: sequences / dp of them, a layer's cache over tp (latents and heads beyond KV heads replicated).

    Parameters: shape; tokens [token] of one sequence, scalar or array; sequences [1] of the replica, scalar or array; bits [1]; layout;
    allocator and index_bits as `transformer.kv_bytes`. Returns: bytes [B], broadcast shape. Raises: InputError.
    Validity: even load; the fullest stage. Error: exact by count. Source: engines' sharding rules.
    """
    sequences = nonnegative("sequences", sequences)
    total = 0.0
    for layer in shape.attention:
        own = transformer.kv_bytes((layer,), tokens, 1.0, bits, allocator, index_bits) + transformer.state_bytes((layer,))
        total = total + own * transformer.kv_copies(layer, layout.tp) / layout.tp
    fullest = max(last - first for first, last in stage_layers(shape, layout.pp)) / shape.layers
    return (total * fullest * np.ceil(sequences / layout.dp))[()]


def activation_bytes(shape: ModelShape, batched_tokens: float, sampled_sequences: float, bytes_per_logit: float, bytes_per_hidden: float):
    """Return the peak of activations: sampled x vocab x bytes_per_logit + batched x hidden x bytes_per_hidden.

    Parameters: shape; batched_tokens [token] in one step; sampled_sequences [1] whose logits are held; bytes_per_logit and
    bytes_per_hidden [B], calibrated. Returns: bytes [B] of one GPU. Raises: InputError.
    Validity: an engine's profiling run, sampler unsplit; 5 models on one GPU kind. Error: 3 % of the peak. Source: data/calibration/residency.csv.
    """
    values = [nonnegative(n, v) for n, v in (("batched_tokens", batched_tokens), ("sampled_sequences", sampled_sequences),
                                             ("bytes_per_logit", bytes_per_logit), ("bytes_per_hidden", bytes_per_hidden))]
    return (values[1] * shape.vocab * values[2] + values[0] * shape.hidden * values[3])[()]


def kv_pool_bytes(device_bytes, memory_fraction, weights_bytes, activations_bytes, other_bytes):
    """Return what an engine gives to its KV cache: fraction x device - weights - activations - other, not below 0.

    Parameters: device_bytes [B] as the driver reports it; memory_fraction [1] an engine may use; weights_bytes, activations_bytes, other_bytes
    [B] of one GPU (non-torch memory; graphs only where the engine counts them). Returns: bytes [B] of one GPU, broadcast shape.
    Raises: InputError for a fraction outside (0, 1]. Validity: vLLM-like engines. Error: 0.01 GiB where all parts are given.
    Source: data/vllm_memory_measured.csv.
    """
    budget = positive("device_bytes", device_bytes) * fraction("memory_utilisation", memory_fraction, zero=False)
    used = nonnegative("weights_bytes", weights_bytes) + nonnegative("activations_bytes", activations_bytes)
    return np.maximum(0.0, budget - used - nonnegative("other_bytes", other_bytes))[()]


def kv_pool_bytes_after_weights(device_bytes, weights_bytes, free_fraction):
    """Return the pool of engines that give the cache a share of what is free once the weights are loaded: f x (device - weights).

    Parameters: device_bytes [B]; weights_bytes [B] of one GPU; free_fraction f [1]. Returns: bytes [B] of one GPU, broadcast shape, not below 0.
    Raises: InputError. Validity: engines with that rule (a rival of `kv_pool_bytes`). Error: exact by definition. Source: engines' documentation.
    """
    free = positive("device_bytes", device_bytes) - nonnegative("weights_bytes", weights_bytes)
    return (fraction("free_fraction", free_fraction) * np.maximum(0.0, free))[()]


def over_budget_bytes(device_bytes, memory_fraction, held_bytes):
    """Return by how much a process holds more than its budget: max(0, held - fraction x device).

    Parameters: device_bytes [B]; memory_fraction [1]; held_bytes [B]. Returns: bytes [B], broadcast shape. Raises: InputError.
    Validity: one process a GPU. Error: exact. Source: subtraction.
    """
    budget = positive("device_bytes", device_bytes) * fraction("memory_utilisation", memory_fraction, zero=False)
    return np.maximum(0.0, nonnegative("held_bytes", held_bytes) - budget)[()]


def free_bytes(shape: ModelShape, formats: Mapping[str, Format], layouts: list[Layout], tokens, sequences, bits: float, device_bytes, other_bytes):
    """Return what is left of a GPU's memory for every layout, context and batch at once: device - weights - cache - other (below 0: short).

    Parameters: shape; formats; layouts, L of them; tokens [token] and sequences [1], arrays that broadcast to S; bits [1] of the cache;
    device_bytes and other_bytes [B] of one GPU. Returns: bytes [B], shape (L, *S). Raises: InputError, Infeasible (layout).
    Validity: as `weights_bytes_per_gpu` and `kv_bytes_per_gpu`. Error: as those. Source: subtraction.
    """
    left = positive("device_bytes", device_bytes) - nonnegative("other_bytes", other_bytes)
    rows = [
        left - sum(weights_bytes_per_gpu(shape, formats, one).values()) - kv_bytes_per_gpu(shape, tokens, sequences, bits, one)
        for one in layouts
    ]
    return np.stack(np.broadcast_arrays(*rows))


def longest_context(pool_bytes: float, shape: ModelShape, sequences: float, bits: float, layout: Layout) -> int:
    """Return the most tokens a sequence may have so that `sequences` of them fit the pools of a replica, by bisection.

    Parameters: pool_bytes [B] of one GPU; shape; sequences [1] of the replica; bits [1]; layout. Returns: tokens [token], int, at most 1e9.
    Raises: Infeasible (kv_cache) when not one token fits. Validity: the cache grows with context. Error: exact. Source: bisection.
    """
    def fits(tokens: int) -> bool:
        return float(kv_bytes_per_gpu(shape, tokens, sequences, bits, layout)) <= pool_bytes

    if not fits(1):
        raise Infeasible("kv_cache", f"{sequences:,.0f} sequences of one token do not fit {pool_bytes / 1e9:,.2f} GB a GPU",
                         "fewer sequences or more GPUs")
    low, high = 1, 10**9
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def max_sequences(pool_bytes: float, shape: ModelShape, tokens: float, bits: float, layout: Layout, allocator: str = "window_capped") -> int:
    """Return the most sequences of one length that fit the KV pools of a replica: dp x floor(pool / bytes of one sequence).

    Parameters: pool_bytes [B] of one GPU; shape; tokens [token] a sequence; bits [1]; layout; allocator. Returns: sequences [1], int.
    Raises: Infeasible (kv_cache) when not one fits. Validity: all sequences at full length. Error: exact by count. Source: division.
    """
    one = float(kv_bytes_per_gpu(shape, tokens, layout.dp, bits, layout, allocator))
    number = int(whole_down(pool_bytes / one)) if one > 0 else 10**9
    if number < 1:
        most = int(tokens * pool_bytes / one)
        raise Infeasible("kv_cache", f"one sequence of {tokens:,.0f} tokens needs {one / 1e9:,.2f} GB a GPU, {pool_bytes / 1e9:,.2f} GB are left",
                         f"at most {most:,} tokens, or more GPUs" if most else "more GPUs, or a smaller format")
    return number * layout.dp


def candidate_layouts(shape: ModelShape, gpus: int) -> list[Layout]:
    """Return the layouts of one replica on exactly `gpus` GPUs that heads, experts and layers allow.

    Parameters: shape; gpus [1]. Returns: layouts: TP a power of two that divides the heads, the rest in PP; for experts also EP over TP and
    attention-DP with EP in every number of stages. Raises: InputError for gpus below 1.
    Validity: common layouts, not all. Error: none. Source: published runs.
    """
    positive("gpus", gpus)
    found = []
    tp = 1
    while tp <= gpus:
        if gpus % tp == 0 and shape.heads % tp == 0 and gpus // tp <= shape.layers:
            found.append(Layout(tp=tp, pp=gpus // tp))
            if shape.experts and tp > 1 and tp <= shape.experts.num:
                found.append(Layout(tp=tp, ep=tp, pp=gpus // tp))
        tp *= 2
    if shape.experts:
        stages = (pp for pp in range(1, min(gpus, shape.layers) + 1) if gpus % pp == 0)
        found += [Layout(dp=gpus // pp, ep=gpus // pp, pp=pp) for pp in stages if 1 < gpus // pp <= shape.experts.num]
    return found


def smallest_fit(shape: ModelShape, formats: Mapping[str, Format], device_bytes: float, memory_fraction: float, reserve_bytes: float,
                 tokens: float, sequences: float, bits: float, limit: int = 4096, group_reserve_bytes: float | None = None,
                 expert_width_multiple: int = 0) -> tuple[int, Layout, str]:
    """Return the fewest GPUs that hold the weights and the KV cache of a load, the layout, and why one step fewer does not.

    Parameters: shape; formats; device_bytes [B]; memory_fraction [1]; reserve_bytes [B] a GPU besides; tokens [token] and sequences [1], 0 for
    weights alone; bits [1] of the cache; limit [1] GPUs; group_reserve_bytes [B] of a GPU that others work with (absent: the same);
    expert_width_multiple as `weights_bytes_per_gpu`. Returns: (gpus [1], Layout, reason). Raises: Infeasible (weights or kv_cache).
    Validity: the layouts of `candidate_layouts`. Error: exact for those. Source: search.
    """
    usable = device_bytes * fraction("memory_utilisation", memory_fraction, zero=False)
    alone, grouped = (usable - (reserve_bytes if r is None else r) for r in (reserve_bytes, group_reserve_bytes))
    budget = max(alone, grouped)
    total = sum(weights_bytes_per_gpu(shape, formats, Layout()).values())
    context = float(kv_bytes_per_gpu(shape, tokens, sequences, bits, Layout())) if sequences and tokens else 0.0
    if budget <= 0:
        raise Infeasible("weights", f"{reserve_bytes / 1e9:,.1f} GB a GPU are reserved and leave nothing of its memory", "a smaller reserve")
    start = max(1, int(whole_up((total + context) / budget)))  # however split, one copy of both must be held
    sizes = f"weights {total / 1e9:,.1f} GB and cache {context / 1e9:,.1f} GB, a GPU has {budget / 1e9:,.1f} GB"
    reason = sizes if start > 1 else "one GPU is the least"
    for gpus in range(start, limit + 1):
        budget = alone if gpus == 1 else grouped
        for layout in candidate_layouts(shape, gpus):
            weights = sum(weights_bytes_per_gpu(shape, formats, layout, expert_width_multiple=expert_width_multiple).values())
            cache = float(kv_bytes_per_gpu(shape, tokens, sequences, bits, layout)) if sequences and tokens else 0.0
            if weights + cache <= budget:
                return gpus, layout, reason
            part = "weights do not fit" if weights > budget else "cache does not fit"
            reason = f"{layout.label}: {part}: weights {weights / 1e9:,.1f} GB and cache {cache / 1e9:,.1f} GB of {budget / 1e9:,.1f} GB a GPU"
    raise Infeasible("weights" if total > budget * limit else "kv_cache", f"one replica needs more than {limit} GPUs: {reason}",
                     "more replicas of fewer sequences, or a shorter context")


def tier_shares(needed_bytes, tiers_bytes: Mapping[str, float], racks) -> dict[str, np.ndarray]:
    """Return the share of a working set that each memory tier holds as racks are added, the fastest tier filled first.

    Parameters: needed_bytes [B], scalar or array; tiers_bytes, ordered dict tier -> bytes [B] of one rack, fastest first; racks [1], scalar or
    array. Returns: ordered dict tier -> share [1], then `not held`; the shares sum to 1. Raises: InputError.
    Validity: perfect placement, nothing kept twice. Error: exact by count; an upper bound on what placement reaches. Source: greedy filling.
    """
    needed, racks = positive("needed_bytes", needed_bytes), nonnegative("racks", racks)
    left, found = np.broadcast_to(needed, np.broadcast_shapes(needed.shape, racks.shape)).astype(float), {}
    for tier, size in tiers_bytes.items():
        held = np.minimum(left, nonnegative(f"tiers_bytes.{tier}", size) * racks)
        found[tier], left = (held / needed)[()], left - held
    found["not held"] = (left / needed)[()]
    return found


def _layout_in_words(text: str) -> dict[str, int]:
    """Return the sizes of a label such as TP4 PP2 or DEP16 (attention-DP with EP). Raises: InputError for anything else, or a size twice."""
    found: dict[str, int] = {}
    if not re.fullmatch(r"\s*((DEP|TEP|TP|EP|DP|PP)\d{1,6}[\s,x_-]*)+", text, re.IGNORECASE):
        raise InputError("layout", text, 'must be an object such as {"tp": 8}, or words such as TP8 EP8')
    for name, size in re.findall(r"(DEP|TEP|TP|EP|DP|PP)(\d+)", text.upper()):
        for key in {"DEP": ("dp", "ep"), "TEP": ("tp", "ep")}.get(name, (name.lower(),)):
            if found.setdefault(key, int(size)) != int(size):
                raise InputError("layout", text, f"says {key} twice")
    return found


def check_layout(layout: Mapping | str) -> Layout:
    """Return a Layout from its plain sizes: tp, ep, dp (or attention_dp), pp, moe_tp (or etp), moe_ep; or from words such as TP4 PP2.

    Parameters: layout, mapping name -> count [1], or text. A dp that is absent follows from ep / tp where ep is larger. Returns: Layout.
    Raises: InputError for an unknown name, a size below 1, or products that differ (both named).
    Validity: any. Error: none. Source: engines' flags.
    """
    if isinstance(layout, str):
        layout = _layout_in_words(layout)
    if not isinstance(layout, Mapping):
        raise InputError("layout", layout, 'must be an object such as {"tp": 8}, or words such as TP8 EP8')
    names = {"attention_dp": "dp", "etp": "moe_tp", "expert_tp": "moe_tp", "moe_ep": "ep"}
    plain = {names.get(k, k): v for k, v in layout.items() if v is not None}
    for name, size in plain.items():
        if name not in ("tp", "ep", "dp", "pp", "moe_tp"):
            raise InputError(f"layout.{name}", size, "is not one of tp, ep, dp, attention_dp, pp, moe_tp, moe_ep")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(f"layout.{name}", size, "must be a whole number >= 1")
    tp, ep = plain.get("tp", 1), plain.get("ep", 1)
    if "dp" not in plain and ep * plain.get("moe_tp", 1) > tp and ep * plain.get("moe_tp", 1) % tp == 0:
        plain["dp"] = ep * plain.get("moe_tp", 1) // tp
    return Layout(**plain)
