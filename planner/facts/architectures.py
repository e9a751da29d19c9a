"""Which tensors a model has, family by family, so that they sum to what its checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InputError
from planner.facts import kimi
from planner.facts.attention import attention_layers, head_dim, kv_heads, layer_kinds, need
from planner.facts.families import Family, family
from planner.facts.quantisation import stored_formats
from planner.facts.vision import vision_weights
from planner.shapes import Experts, ModelShape, Weight

DUPLICATED_EMBEDDING_FOR_MTP = {"deepseek_v3", "deepseek_v32"}


def _latent_attention(c: Mapping, layers: int, indexers: int, part: str = "") -> list[Weight]:
    h, heads, lora = c["hidden_size"], c["num_attention_heads"], need(c, "kv_lora_rank")
    nope, rope, value = need(c, "qk_nope_head_dim"), need(c, "qk_rope_head_dim"), need(c, "v_head_dim")
    at, q_lora = part or "attention", c.get("q_lora_rank")
    found = []
    if q_lora:
        found += [
            Weight(at, "q_a_proj", q_lora, h, layers, layers, True, layers),
            Weight(part or "norm", "q_a_layernorm", q_lora, 0, layers, layers, False, layers),
            Weight(at, "q_b_proj", heads * (nope + rope), q_lora, layers, layers, True, layers),
        ]
    else:
        found += [Weight(at, "q_proj", heads * (nope + rope), h, layers, layers, True, layers)]
    found += [
        Weight(at, "kv_a_proj", lora + rope, h, layers, layers, True, layers),
        Weight(part or "norm", "kv_a_layernorm", lora, 0, layers, layers, False, layers),
        Weight(at, "kv_b_proj", heads * (nope + value), lora, layers, layers, True, layers),
        Weight(at, "o_proj", h, heads * value, layers, layers, True, layers),
    ]
    if c.get("mla_use_output_gate"):
        found.append(Weight(at, "output_gate", heads * value, h, layers, layers, True, layers))
    if c.get("attention_bias"):
        found.append(Weight(at, "bias", (q_lora or 0) + lora + rope + h, 0, layers, layers, False, layers))
    if c.get("index_head_dim") and indexers:
        dim, count = need(c, "index_head_dim"), need(c, "index_n_heads")
        ix = part or "indexer"
        found += [
            Weight(ix, "index_q", count * dim, need(c, "q_lora_rank"), indexers, indexers, True, indexers),
            Weight(ix, "index_k", dim, h, indexers, indexers, True, indexers),
            Weight(ix, "index_k_norm", 2 * dim, 0, indexers, indexers, False, indexers),
            Weight(ix, "index_heads", count, h, indexers, indexers, False, indexers),
        ]
    return found


def _grouped_attention(c: Mapping, layers: int, part: str = "") -> list[Weight]:
    h, heads, dim, groups, of = c["hidden_size"], c["num_attention_heads"], head_dim(c), kv_heads(c), family(c.get("model_type"))
    at = part or "attention"
    value = c.get("v_head_dim") or dim
    gate = 2 if c.get("attn_output_gate", "out_gate_q" in of.extras) else 1
    once = (layers, layers, False, layers)
    found = [
        Weight(at, "q_proj", heads * dim * gate, h, layers, layers, True, layers),
        Weight(at, "k_proj", groups * dim, h, layers, layers, True, layers),
        Weight(at, "v_proj", groups * value, h, layers, layers, True, layers),
        Weight(at, "o_proj", h, heads * value, layers, layers, True, layers),
    ]
    if of.says("qkv_bias", c):
        found.append(Weight(at, "qkv_bias", heads * dim * gate + groups * (dim + value), 0, *once))
    if of.says("o_bias", c):
        found.append(Weight(at, "o_bias", h, 0, *once))
    normed = {"head": 2 * dim, "head_biased": 4 * dim, "all": (heads + groups) * dim}.get(of.qk_norm_of(c))
    if normed:
        found.append(Weight(part or "norm", "qk_norm", normed, 0, *once))
    for extra, rows in (("out_gate", heads * dim), ("head_gate", heads)):
        if extra in of.extras:
            found.append(Weight(at, "output_gate", rows, h, layers, layers, True, layers))
    for extra, rows in (("sinks", heads), ("lambdas", 4 * dim), ("sub_norms", heads * dim)):
        if extra in of.extras:
            found.append(Weight(at, extra, rows, 0, *once))
    return found


def _mlp(part: str, name: str, h: int, width: int, copies: int, used: float, layers: int, gated: bool = True) -> list[Weight]:
    ins = [Weight(part, f"{name}_up", width, h, copies, used, True, layers)]
    if gated:
        ins.append(Weight(part, f"{name}_gate", width, h, copies, used, True, layers))
    return [*ins, Weight(part, f"{name}_down", h, width, copies, used, True, layers)]


def moe_indices(c: Mapping) -> list[int]:
    """Return which layers route tokens to experts. Raises: InputError for contradictions in the fields that say it."""
    layers = need(c, "num_hidden_layers")
    if not c.get("n_routed_experts"):
        return []
    if c.get("model_type") == "nemotron_h" or c.get("hybrid_override_pattern"):
        return [i for i, letter in enumerate(str(c.get("hybrid_override_pattern", ""))) if letter == "E"]
    first = c.get("first_k_dense_replace") or 0
    if c.get("mlp_layer_types"):
        routed = [i for i, kind in enumerate(c["mlp_layer_types"]) if kind != "dense"]
        if "first_k_dense_replace" in c and routed != list(range(first, layers)):
            raise InputError("first_k_dense_replace and mlp_layer_types", first, "must name the same dense layers")
        return routed
    step = next((c[f] for f in ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq", "moe_layer_interval") if c.get(f)), 1)
    if isinstance(step, list):
        return [i for i, routed in enumerate(step) if routed]
    dense = set(c.get("mlp_only_layers") or [])
    if c.get("model_type") == "llama4_text" and c.get("moe_layers"):
        return sorted(set(c["moe_layers"]))
    if first > layers:
        raise InputError("first_k_dense_replace", first, f"must be at most the layers ({layers})")
    last = c.get("moe_layer_end_index", layers - 1)
    return [i for i in range(first, min(layers, last + 1)) if (i + 1 if first == 0 else i) % step == 0 and i not in dense]


def moe_layers(c: Mapping) -> int:
    """Return how many layers route tokens to experts. Raises: InputError for contradictions in the fields that say it."""
    return len(moe_indices(c))


def _part_layers(c: Mapping) -> dict[str, list[int]]:
    """Return the indices of the layers that hold each part; the MTP module counts its own."""
    kinds, routed = layer_kinds(c), moe_indices(c)
    pattern = c.get("hybrid_override_pattern")
    attention = [i for i, kind in enumerate(kinds) if kind in ("full", "sliding")]
    dense = [i for i in range(len(kinds)) if i not in set(routed)] if not pattern else [i for i, letter in enumerate(pattern) if letter == "-"]
    return {
        "attention": attention,
        "indexer": attention,
        "recurrent": [i for i, kind in enumerate(kinds) if kind in ("linear", "mamba")],
        "dense_mlp": dense,
        **dict.fromkeys(("experts", "shared_experts", "router"), routed),
        "mtp": list(range(c.get("num_nextn_predict_layers") or 0)),
    }


def _experts(c: Mapping, layers: int, part: str = "") -> list[Weight]:
    h, kind, num = c["hidden_size"], c.get("model_type"), c["n_routed_experts"]
    top, latent = c.get("num_experts_per_tok"), c.get("moe_latent_size") or c.get("routed_expert_hidden_size")
    width = c.get("moe_intermediate_size") or c.get("intermediate_size")
    if not isinstance(top, int) or top < 1:
        raise InputError("num_experts_per_tok", top, "must be given for a model with experts")
    if top > num:
        raise InputError("num_experts_per_tok", top, f"must be at most the number of experts ({num})")
    if not isinstance(width, int) or width < 1:
        raise InputError("moe_intermediate_size", width, "must be given for a model with experts")
    of, inner = family(kind), latent or h
    gated = of.says("gated", c)
    ex, ro, sh = part or "experts", part or "router", part or "shared_experts"
    found = _mlp(ex, "expert", inner, width, num * layers, top * layers, layers, gated)
    found.append(Weight(ro, "router", num, h, layers, layers, False, layers))
    bias = of.says("router_bias", c) or c.get("use_routing_bias") or c.get("use_moe_router_bias")
    if bias and c.get("topk_method", "noaux_tc") == "noaux_tc":
        found.append(Weight(ro, "router_bias", num, 0, layers, layers, False, layers, 0 if kind == "gpt_oss" else 32))
    if "expert_bias" in of.extras:
        found.append(Weight(ex, "expert_bias", 2 * width + h, 0, num * layers, top * layers, False, layers))
    if latent:
        found += [
            Weight(sh, "latent_in", latent, h, layers, layers, True, layers),
            Weight(sh, "latent_out", h, latent, layers, layers, True, layers),
        ]
    shared = c.get("shared_expert_intermediate_size") or c.get("share_expert_dim") or c.get("moe_shared_expert_intermediate_size")
    shared = shared or c.get("shared_intermediate_size")
    if latent and c.get("latent_moe_use_norm"):
        found.append(Weight(part or "norm", "latent_norm", latent, 0, layers, layers, False, layers))
    number = c.get("n_shared_experts") or 0
    if kind == "llama4_text" and not number:
        number, shared = 1, width
    if shared or number:
        found += _mlp(sh, "shared_expert", h, shared or width * number, layers, layers, layers, gated)
    if c.get("shared_expert_intermediate_size") and "shared_gate" in of.extras:
        found.append(Weight(sh, "shared_gate", 1, h, layers, layers, False, layers))
    return found


def _delta_net(c: Mapping, layers: int) -> list[Weight]:
    h, nk, nv = c["hidden_size"], need(c, "linear_num_key_heads"), need(c, "linear_num_value_heads")
    dk, dv, kernel = need(c, "linear_key_head_dim"), need(c, "linear_value_head_dim"), need(c, "linear_conv_kernel_dim")
    keys, values = nk * dk, nv * dv
    spread = (layers, layers, True, layers)
    return [
        Weight("recurrent", "in_qkv", 2 * keys + values, h, *spread),
        Weight("recurrent", "in_z", values, h, *spread),
        Weight("recurrent", "in_ba", 2 * nv, h, layers, layers, False, layers),
        Weight("recurrent", "out_proj", h, values, *spread),
        Weight("recurrent", "conv", 2 * keys + values, kernel, layers, layers, False, layers),
        Weight("recurrent", "decay", 2 * nv + dv, 0, layers, layers, False, layers),
    ]


def _mamba(c: Mapping, layers: int) -> list[Weight]:
    h, heads, state = c["hidden_size"], need(c, "mamba_num_heads"), need(c, "ssm_state_size")
    inner, groups, kernel = heads * need(c, "mamba_head_dim"), need(c, "n_groups"), need(c, "conv_kernel")
    mixed = inner + 2 * groups * state
    return [
        Weight("recurrent", "in_proj", inner + mixed + heads, h, layers, layers, True, layers),
        Weight("recurrent", "out_proj", h, inner, layers, layers, True, layers),
        Weight("recurrent", "conv", mixed, kernel, layers, layers, False, layers),
        Weight("recurrent", "conv_bias", mixed, 0, layers, layers, False, layers),
        Weight("recurrent", "dt_a_d_norm", 3 * heads + inner, 0, layers, layers, False, layers),
    ]


def _mtp(c: Mapping) -> list[Weight]:
    kind, h = c.get("model_type"), c["hidden_size"]
    number = c.get("num_nextn_predict_layers") or 0
    if not number or kind in ("minimax_m2", "nemotron_h", "mimo", "step3p7"):
        return []
    if c.get("kv_lora_rank"):
        attention = _latent_attention(c, number, number, "mtp")
    else:
        attention = _grouped_attention(c, number, "mtp")
    experts = (
        _experts(c, number, "mtp")
        if c.get("n_routed_experts")
        else _mlp("mtp", "mlp", h, need(c, "intermediate_size"), number, number, number)
    )
    return [
        *attention,
        *experts,
        Weight("mtp", "eh_proj", h, 2 * h, number, number, False, number),
        Weight("mtp", "norms", 3 * h + 2 * h, 0, number, number, False, number),
    ]


def _layers(c: Mapping, attention) -> list[Weight]:
    kinds, h, kind, of = layer_kinds(c), c["hidden_size"], c.get("model_type"), family(c.get("model_type"))
    full = kinds.count("full") + kinds.count("sliding")
    if c.get("kv_lora_rank"):
        found = _latent_attention(c, full, sum(a.layers for a in attention if a.index_elements))
    else:
        found = _grouped_attention(c, full)
    if kinds.count("linear"):
        found += (kimi.delta_layers if kind == "kimi_linear" else _delta_net)(c, kinds.count("linear"))
    found += kimi.block_residuals(c)
    if kinds.count("mamba"):
        found += _mamba(c, kinds.count("mamba"))
    routed = moe_layers(c)
    if kind == "nemotron_h":
        dense = str(c.get("hybrid_override_pattern", "")).count("-")
        norms = Weight("norm", "block_norm", h, 0, len(kinds), len(kinds), False, len(kinds))
    else:
        dense = len(kinds) - routed
        each = of.norms_of(c) * _norm(of, c)
        norms = Weight("norm", "layer_norms", each, 0, len(kinds), len(kinds), False, len(kinds)) if each else None
    if dense:
        width = c.get("intermediate_size_mlp") or c.get("intermediate_size")
        if not isinstance(width, int) or width < 1:
            raise InputError("intermediate_size", width, "must be given: some layers are dense")
        gated = of.says("gated", c)
        found += _mlp("dense_mlp", "mlp", h, width, dense, dense, dense, gated)
        scalars = {"activation_scalars": 2, "sub_norms": width}
        extra = [("mlp_bias", (2 if gated else 1) * width + h)] if of.says("mlp_bias", c) else []
        extra += [(name, rows) for name, rows in scalars.items() if name in of.extras]
        found += [Weight("dense_mlp", name, rows, 0, dense, dense, False, dense) for name, rows in extra]
    if routed:
        found += _experts(c, routed)
    return [*found, norms] if norms else found


def _norm(of: Family, c: Mapping) -> int:
    """Values of one norm over the hidden size: a weight, and a bias where the family has one."""
    return c["hidden_size"] * (2 if of.says("norm_bias", c) else 1)


def build(name: str, config: Mapping, c: Mapping) -> ModelShape:
    """Return the shape of a model.

    Parameters: name; config, the whole config.json; c, its text part with today's field names. Returns: ModelShape.
    Raises: InputError for an architecture whose tensors are not understood, naming the field that decides it.
    """
    kind = c.get("model_type")
    of = family(kind, name)
    of.check(c, name)
    notes = []
    if not of.known:
        notes.append(f"model_type {kind} is not known: read as a Llama-like model with the fields that it names, its cache an upper bound")
    if "num_key_value_heads" not in c and not c.get("kv_lora_rank"):
        notes.append("num_key_value_heads is absent: equal to the number of heads")
    h, vocab = c["hidden_size"], c["vocab_size"]
    attention = attention_layers(c)
    tied = bool(c.get("tie_word_embeddings", of.says("tied", c)))
    weights = [Weight("embedding", "embed_tokens", vocab, h, 1, 0, False)]
    weights += [Weight("head", "lm_head", vocab, h, 0 if tied else 1, 1, False)]
    if of.says("head_bias", c):
        weights.append(Weight("head", "lm_head_bias", vocab, 0, 1, 1, False))
    weights += _layers(c, attention)
    if of.says("final_norm", c):
        weights.append(Weight("norm", "final_norm", _norm(of, c), 0, 1, 1, False))
    mtp = _mtp(c)
    twice = kind in DUPLICATED_EMBEDDING_FOR_MTP or (kind == "glm4_moe" and "4.5" in name)
    duplicated = (Weight("mtp", "mtp_embedding_and_head", 2 * vocab, h, 1, 0, False),) if mtp and twice else ()
    weights += mtp + vision_weights(config, h)
    experts = Experts(c["n_routed_experts"], c["num_experts_per_tok"], moe_layers(c)) if moe_layers(c) else None
    width = c.get("intermediate_size") or c.get("moe_intermediate_size") or 0
    return ModelShape(
        name,
        str(kind),
        h,
        c["num_hidden_layers"],
        vocab,
        c["num_attention_heads"],
        c.get("max_position_embeddings") or 0,
        tuple(weights),
        attention,
        experts,
        width,
        (c.get("num_nextn_predict_layers") or 0) if mtp else 0,
        duplicated,
        tuple(notes),
        not of.known,
        stored_formats(config, c, weights, _part_layers(c)),
    )
