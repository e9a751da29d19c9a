"""Which tensors a model has, family by family, so that they sum to what its checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InputError
from planner.facts import kimi
from planner.facts.attention import attention_layers, head_dim, kv_heads, layer_kinds, need
from planner.facts.quantisation import stored_formats
from planner.facts.vision import vision_weights
from planner.shapes import Experts, ModelShape, Weight

QKV_BIAS = {"qwen2", "qwen2_moe", "gpt_oss", "glm4_moe", "chatglm", "qwen2_vl", "qwen2_5_vl"}
NO_O_BIAS = {"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "glm4_moe", "chatglm", "mimo", "step3p7"}  # the output projection has none
TIED = {"gemma", "gemma2", "gemma3_text", "starcoder2", "cohere", "cohere2"}  # where the config does not say
ONE_NORM = {"cohere", "cohere2"}
BIASED_NORMS = {"starcoder2"}
UNGATED = {"nemotron_h", "starcoder2"}
QK_NORM_PER_HEAD = {
    "qwen3",
    "exaone4",
    "qwen3_moe",
    "qwen3_vl_text",
    "qwen3_vl_moe_text",
    "qwen3_vl_moe",
    "qwen3_vl",
    "qwen3_5_text",
    "qwen3_5_moe_text",
    "qwen3_next",
    "gemma3_text",
    "gemma3",
    "gemma4_text",
}
ROUTER_BIAS = {"deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe", "gpt_oss", "nemotron_h", "deepseek_v4", "kimi_linear"}
FOUR_NORMS = {"gemma2", "gemma3_text", "gemma3", "gemma4_text"}
DUPLICATED_EMBEDDING_FOR_MTP = {"deepseek_v3", "deepseek_v32"}
UNDERSTOOD = (
    {
        "llama",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen2_moe",
        "gemma",
        "gemma2",
        "gemma3_text",
        "phi3",
        "mimo",
        "gpt_oss",
        "glm4_moe",
        "minimax_m2",
        "deepseek_v2",
        "nemotron_h",
        "qwen3_next",
        "step3p7",
        "llama4_text",
        "olmo2",
        "granite",
        "internlm2",
        "yi",
        "baichuan",
        "cohere",
        "cohere2",
        "starcoder2",
        "exaone",
    }
    | QK_NORM_PER_HEAD
    | ROUTER_BIAS
)
REFUSED = {
    "nemotron-nas": "block_configs",
    "deepseek_ref": "model_type",
    "gemma4_text": "vocab_size_per_layer_input",
    "gemma3n_text": "laurel_rank",
    "jamba": "mamba_dt_rank",
    "falcon_mamba": "model_type",
    "deepseek_v4": "hc_mult",
    "mllama": "cross_attention_layers",
    "t5": "model_type",
    "gpt2": "n_positions",
    "opt": "word_embed_proj_dim",
    "bloom": "model_type",
    "gpt_neox": "use_parallel_residual",
    "gptj": "rotary_dim",
    "gpt_neo": "attention_types",
    "mpt": "attn_config",
    "falcon": "new_decoder_architecture",
    "RefinedWeb": "parallel_attn",
    "RefinedWebModel": "parallel_attn",
    "dbrx": "ffn_config",
    "minimax_text_01": "attn_type_list",
    "recurrent_gemma": "block_types",
    "whisper": "encoder_layers",
}


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


def _biased_throughout(c: Mapping) -> bool:
    """Return whether every linear layer has a bias: starcoder2, unless its use_bias says otherwise."""
    return c.get("model_type") == "starcoder2" and c.get("use_bias") is not False


def _grouped_attention(c: Mapping, layers: int, part: str = "") -> list[Weight]:
    h, heads, dim, groups, kind = c["hidden_size"], c["num_attention_heads"], head_dim(c), kv_heads(c), c.get("model_type")
    at = part or "attention"
    value = c.get("v_head_dim") or dim
    gate = 2 if c.get("attn_output_gate") else 1
    found = [
        Weight(at, "q_proj", heads * dim * gate, h, layers, layers, True, layers),
        Weight(at, "k_proj", groups * dim, h, layers, layers, True, layers),
        Weight(at, "v_proj", groups * value, h, layers, layers, True, layers),
        Weight(at, "o_proj", h, heads * value, layers, layers, True, layers),
    ]
    whole = _biased_throughout(c)
    biased = bool(c.get("attention_bias", kind in QKV_BIAS)) or bool(c.get("add_qkv_bias")) or bool(c.get("qkv_bias")) or whole
    if biased:
        found.append(Weight(at, "qkv_bias", heads * dim * gate + groups * (dim + value), 0, layers, layers, False, layers))
    if whole or (c.get("attention_bias", kind == "gpt_oss") and kind not in NO_O_BIAS):
        found.append(Weight(at, "o_bias", h, 0, layers, layers, False, layers))
    if kind in QK_NORM_PER_HEAD or (kind == "glm4_moe" and c.get("use_qk_norm", False)):
        found.append(Weight(part or "norm", "qk_norm", 2 * dim, 0, layers, layers, False, layers))
    if (kind in ("minimax_m2", "cohere") and c.get("use_qk_norm")) or kind == "olmo2":
        found.append(Weight(part or "norm", "qk_norm", (heads + groups) * dim, 0, layers, layers, False, layers))
    if kind == "gpt_oss":
        found.append(Weight(at, "sinks", heads, 0, layers, layers, False, layers))
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
    step = c.get("decoder_sparse_step") or c.get("interleave_moe_layer_step") or c.get("moe_layer_freq") or 1
    if isinstance(step, list):
        return [i for i, routed in enumerate(step) if routed]
    dense = set(c.get("mlp_only_layers") or [])
    if c.get("model_type") == "llama4_text" and c.get("moe_layers"):
        return sorted(set(c["moe_layers"]))
    if first > layers:
        raise InputError("first_k_dense_replace", first, f"must be at most the layers ({layers})")
    return [i for i in range(first, layers) if (i + 1 if first == 0 else i) % step == 0 and i not in dense]


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
    gated, inner = kind != "nemotron_h", latent or h
    ex, ro, sh = part or "experts", part or "router", part or "shared_experts"
    found = _mlp(ex, "expert", inner, width, num * layers, top * layers, layers, gated)
    found.append(Weight(ro, "router", num, h, layers, layers, False, layers))
    bias = c.get("use_routing_bias") or c.get("use_moe_router_bias") or kind in ROUTER_BIAS
    if bias and c.get("topk_method", "noaux_tc") == "noaux_tc":
        found.append(Weight(ro, "router_bias", num, 0, layers, layers, False, layers, 0 if kind == "gpt_oss" else 32))
    if kind == "gpt_oss":
        found.append(Weight(ex, "expert_bias", 2 * width + h, 0, num * layers, top * layers, False, layers))
    if latent:
        found += [
            Weight(sh, "latent_in", latent, h, layers, layers, True, layers),
            Weight(sh, "latent_out", h, latent, layers, layers, True, layers),
        ]
    shared = c.get("shared_expert_intermediate_size") or c.get("share_expert_dim") or c.get("moe_shared_expert_intermediate_size")
    if latent and c.get("latent_moe_use_norm"):
        found.append(Weight(part or "norm", "latent_norm", latent, 0, layers, layers, False, layers))
    number = c.get("n_shared_experts") or 0
    if kind == "llama4_text" and not number:
        number, shared = 1, width
    if shared or number:
        found += _mlp(sh, "shared_expert", h, shared or width * number, layers, layers, layers, gated)
    if c.get("shared_expert_intermediate_size") and kind in ("qwen2_moe", "qwen3_next", "qwen3_5_moe_text"):
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
    kinds, h, kind = layer_kinds(c), c["hidden_size"], c.get("model_type")
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
        each = (4 if kind in FOUR_NORMS else 1 if kind in ONE_NORM else 2) * (2 * h if kind in BIASED_NORMS else h)
        norms = Weight("norm", "layer_norms", each, 0, len(kinds), len(kinds), False, len(kinds))
    if dense:
        width = c.get("intermediate_size_mlp") or c.get("intermediate_size")
        if not isinstance(width, int) or width < 1:
            raise InputError("intermediate_size", width, "must be given: some layers are dense")
        found += _mlp("dense_mlp", "mlp", h, width, dense, dense, dense, kind not in UNGATED)
        if c.get("mlp_bias") or _biased_throughout(c):
            ins = 1 if kind in UNGATED else 2
            found.append(Weight("dense_mlp", "mlp_bias", ins * width + h, 0, dense, dense, False, dense))
    if routed:
        found += _experts(c, routed)
    return [*found, norms]


def build(name: str, config: Mapping, c: Mapping) -> ModelShape:
    """Return the shape of a model.

    Parameters: name; config, the whole config.json; c, its text part with today's field names. Returns: ModelShape.
    Raises: InputError for an architecture whose tensors are not understood, naming the field that decides it.
    """
    kind = c.get("model_type")
    if kind in REFUSED:
        raise InputError("model_type", kind, f"is not understood (its {REFUSED[kind]} changes the tensors)", name)
    notes = []
    if kind not in UNDERSTOOD:
        notes.append(f"model_type {kind} is read as a Llama-like model with the fields that it names")
    if "num_key_value_heads" not in c and not c.get("kv_lora_rank"):
        notes.append("num_key_value_heads is absent: equal to the number of heads")
    h, vocab = c["hidden_size"], c["vocab_size"]
    attention = attention_layers(c)
    tied = bool(c.get("tie_word_embeddings", kind in TIED))
    weights = [Weight("embedding", "embed_tokens", vocab, h, 1, 0, False)]
    weights += [Weight("head", "lm_head", vocab, h, 0 if tied else 1, 1, False)]
    weights += [*_layers(c, attention), Weight("norm", "final_norm", 2 * h if kind in BIASED_NORMS else h, 0, 1, 1, False)]
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
        False,
        stored_formats(config, c, weights, _part_layers(c)),
    )
