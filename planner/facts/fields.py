"""The fields of a config.json under today's names, each checked to be what it is read as; contradictions are refused."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InputError

MAX_LAYERS = 10_000
MAX_DEPTH = 4
# old and rival names of one field, in the order in which they are looked up
NAMES = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim", "model_dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "num_key_value_heads": (
        "num_key_value_heads",
        "n_kv_heads",
        "num_kv_heads",
        "n_kv_groups",
        "n_head_kv",
        "multi_query_group_num",
        "num_query_groups",
    ),
    "head_dim": ("head_dim", "kv_channels", "attention_head_dim"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "inter_dim"),
    "vocab_size": ("vocab_size", "padded_vocab_size", "n_vocab"),
    "n_routed_experts": ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", "n_experts"),
    "num_experts_per_tok": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "moe_top_k",
        "moe_topk",
        "top_k_experts",
        "moe_k",
        "num_activated_experts",
        "n_activated_experts",
        "experts_per_token",
    ),
    "n_shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "first_k_dense_replace": ("first_k_dense_replace", "first_k_dense", "moe_layer_start_index", "n_dense_layers", "num_dense_layers"),
    "moe_intermediate_size": ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_intermediate_size", "moe_inter_dim"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "n_ctx", "max_sequence_length"),
    "num_nextn_predict_layers": ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "n_mtp_layers"),
    "tie_word_embeddings": ("tie_word_embeddings", "tie_embeddings"),
}
WHOLE = {
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "n_routed_experts",
    "num_experts_per_tok",
    "first_k_dense_replace",
    "moe_intermediate_size",
    "max_position_embeddings",
    "n_shared_experts",
    "num_nextn_predict_layers",
}
MAY_DIFFER = {"max_position_embeddings"}  # Qwen's first models give the trained and the longest length under two of its names
ZERO_ALLOWED = {"n_shared_experts", "num_nextn_predict_layers", "first_k_dense_replace", "n_routed_experts", "num_experts_per_tok"}
SIZES = {
    "intermediate_size",
    "intermediate_size_mlp",
    "kv_lora_rank",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "index_head_dim",
    "index_n_heads",
    "index_topk",
    "index_topk_freq",
    "index_skip_topk_offset",
    "sliding_window",
    "attention_chunk_size",
    "full_attention_interval",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
    "mamba_num_heads",
    "mamba_head_dim",
    "mamba_d_state",
    "mamba_n_groups",
    "mamba_d_conv",
    "ssm_state_size",
    "n_groups",
    "conv_kernel",
    "moe_latent_size",
    "routed_expert_hidden_size",
    "shared_expert_intermediate_size",
    "share_expert_dim",
    "shared_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "global_head_dim",
    "num_global_key_value_heads",
    "no_rope_layer_interval",
    "max_window_layers",
    "mamba_n_heads",
    "mamba_d_head",
    "cla_share_factor",
    "global_attn_every_n_layers",
    "attn_layer_period",
    "attn_layer_offset",
    "decoder_sparse_step",
    "interleave_moe_layer_step",
    "moe_layer_interval",
    "moe_layer_end_index",
    "attn_res_block_size",
}
BOOLS = {
    "tie_word_embeddings",
    "multi_query",
    "multi_query_attention",
    "new_decoder_architecture",
    "attention_bias",
    "add_qkv_bias",
    "qkv_bias",
    "mlp_bias",
    "use_bias",
    "use_qk_norm",
    "attn_output_gate",
    "use_sliding_window",
    "mla_use_output_gate",
    "use_routing_bias",
    "use_moe_router_bias",
    "latent_moe_use_norm",
    "attention_k_eq_v",
    "is_encoder_decoder",
    "use_conv_bias",
    "mamba_proj_bias",
}
LISTS = {
    "layer_types",
    "layers_block_type",
    "compress_ratios",
    "mlp_only_layers",
    "mlp_layer_types",
    "attn_layer_indices",
    "indexer_types",
    "moe_layers",
    "attn_type_list",
    "index_layer_types",
    "no_rope_layers",
}
TEXTS = {"hybrid_override_pattern", "model_type", "topk_method"}


MEMORY = ("quantization_config", "dtype", "torch_dtype", "sliding_window_pattern", "moe_layer_freq", "linear_attn_config", "layers_block_type")
INHERITED = ("tie_word_embeddings", "quantization_config", "architectures", "dtype", "torch_dtype")


def _one_size(config: Mapping, part: Mapping, key: str) -> None:
    """Refuse a field that changes memory and says one thing beside the language model's part and another inside it."""
    names = [spellings for name, spellings in NAMES.items() if name not in (*MAY_DIFFER, "tie_word_embeddings")]
    names += [(field,) for field in sorted({*SIZES, *LISTS, *BOOLS, *TEXTS, *MEMORY} - {"model_type", *NAMES["tie_word_embeddings"]})]
    for spellings in names:
        outer, inner = ([(s, c[s]) for s in spellings if c.get(s) is not None] for c in (config, part))
        for (one, said), (other, own) in ((o, i) for o in outer for i in inner):
            if said != own:
                shown = "two objects" if isinstance(said, Mapping) else f"{said} and {own}"
                raise InputError(f"{one} and {key}.{other}", shown, "are one field said twice and must agree")


def text_part(config: Mapping, depth: int = 0) -> dict:
    """Return the language model's part of a config: nested under text_config, thinker_config, llm_config or language_config.

    Raises: InputError for a part that is no object, parts nested too deep, or two answers about tied embeddings.
    """
    if depth > MAX_DEPTH:
        raise InputError("text_config", f"more than {MAX_DEPTH} of them", "must not be nested so deep")
    for key in ("thinker_config", "text_config", "llm_config", "language_config"):
        if config.get(key) is not None and not isinstance(config[key], Mapping):
            raise InputError(key, config[key], "must be an object")
        if isinstance(config.get(key), Mapping):
            _one_size(config, config[key], key)
            inner = {k: v for k, v in config.items() if k in INHERITED}
            outer, own = config.get("tie_word_embeddings"), config[key].get("tie_word_embeddings")
            if outer is not None and own is not None and outer != own:
                raise InputError(f"tie_word_embeddings and {key}.tie_word_embeddings", f"{outer} and {own}", "must agree")
            return text_part({**inner, **config[key]}, depth + 1)
    return dict(config)


def normalised(config: Mapping, file: str = "") -> dict:
    """Return the text part with today's field names.

    Raises: InputError for a size that is not a whole number > 0, or two names of one field that disagree.
    """
    text = text_part(config)
    for name, spellings in NAMES.items():
        found = [(s, text[s]) for s in spellings if s in text and text[s] is not None]
        if not found:
            text.pop(name, None)
            continue
        value = found[0][1]
        if name in WHOLE:
            _whole(found[0][0], value, 0 if name in ZERO_ALLOWED else 1, file)
        for other, told in found[1:]:
            if name not in MAY_DIFFER and (told != value or isinstance(told, bool) != isinstance(value, bool)):
                raise InputError(f"{found[0][0]} and {other}", f"{value} and {told}", "are two names of one field and must agree", file)
        text[name] = value
    _kinds(text, file)
    _per_layer(text, file)
    blocks = text.get("layers_block_type")
    if text.get("model_type") == "nemotron_h" and isinstance(blocks, list):
        letters = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}
        pattern = "".join(letters.get(b, "?") for b in blocks)
        if text.get("hybrid_override_pattern", pattern) != pattern:
            raise InputError("hybrid_override_pattern and layers_block_type", text["hybrid_override_pattern"], f"must agree: {pattern}", file)
        text["hybrid_override_pattern"] = pattern
        text.setdefault("num_hidden_layers", len(blocks))
    return text


def _whole(field: str, value: object, least: int, file: str) -> None:
    """Refuse a size that is no whole number, or one that no model has."""
    if isinstance(value, list):
        raise InputError(field, value, "must be one whole number: a list of one a layer is not understood", file)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10**9:
        raise InputError(field, value, f"must be a whole number of at least {least}", file)
    if field in (*NAMES["num_hidden_layers"], *NAMES["num_nextn_predict_layers"]) and value > MAX_LAYERS:
        raise InputError(field, value, f"must be at most {MAX_LAYERS:,} layers", file)


def _per_layer(text: Mapping, file: str) -> None:
    """Refuse lists over the layers that do not fit the number of layers."""
    layers = text.get("num_hidden_layers")
    steps = text.get("moe_layer_freq")
    if isinstance(steps, list) and layers and len(steps) != layers:
        raise InputError("moe_layer_freq", f"{len(steps)} entries", f"must have one entry for each of {layers} layers", file)
    for field in ("indexer_types", "index_layer_types", "compress_ratios"):
        entries = text.get(field)
        if entries and layers and len(entries) < layers:  # a longer list may count the MTP module's layers
            raise InputError(field, f"{len(entries)} entries", f"must have one entry for each of {layers} layers", file)
    for ratio in text.get("compress_ratios") or []:
        if not isinstance(ratio, int) or ratio < 0:
            raise InputError("compress_ratios", ratio, "must be whole numbers >= 0", file)
    if layers and (text.get("cla_share_factor") or 1) > layers:
        raise InputError("cla_share_factor", text["cla_share_factor"], f"must be at most the layers ({layers})", file)
    types = text.get("mlp_layer_types")
    if types and layers and len(types) != layers:
        raise InputError("mlp_layer_types", f"{len(types)} entries", f"must have one entry for each of {layers} layers", file)
    for kind in types or []:
        if kind not in ("dense", "sparse", "moe"):
            raise InputError("mlp_layer_types", kind, "must be dense or sparse", file)
    for field in ("mlp_only_layers", "attn_layer_indices", "moe_layers"):
        for index in text.get(field) or []:
            if not isinstance(index, int) or (layers and not 0 <= index < layers):
                raise InputError(field, index, f"must name layers from 0 to {layers - 1 if layers else 'the last'}", file)
    inner = text.get("linear_attn_config")
    for field in ("full_attn_layers", "kda_layers"):
        for index in (inner.get(field) if isinstance(inner, Mapping) else None) or []:
            if isinstance(index, bool) or not isinstance(index, int) or (layers and not 1 <= index <= layers):
                raise InputError(f"linear_attn_config.{field}", index, f"must name layers from 1 to {layers}", file)


def _kinds(text: Mapping, file: str) -> None:
    """Refuse a field that is read as a size, a list or a text and is something else."""
    for field, value in text.items():
        if value is None:
            continue
        if field in SIZES and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**9):
            raise InputError(field, value, "must be a whole number >= 0", file)
        if field in LISTS and not (isinstance(value, list) and all(isinstance(v, (str, int)) and not isinstance(v, bool) for v in value)):
            raise InputError(field, value, "must be a list of names or whole numbers", file)
        if field in BOOLS and not isinstance(value, bool):
            raise InputError(field, value, "must be true or false", file)
        if field == "moe_layer_freq":
            steps = value if isinstance(value, list) else [value]
            if any(isinstance(v, bool) or not isinstance(v, int) or v < 0 for v in steps) or value == 0 or (steps is value and set(steps) - {0, 1}):
                raise InputError(field, value, "must be a whole number >= 1 or a list of 0 and 1", file)
        if field == "sliding_window_pattern" and not (
            (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_LAYERS)
            or (isinstance(value, str) and value and set(value) <= set("LG"))
        ):
            raise InputError(field, value, "must be a whole number or letters L (window) and G (all)", file)
        if field in TEXTS and not isinstance(value, str):
            raise InputError(field, value, "must be text", file)
        if field == "linear_attn_config":
            inner = value if isinstance(value, Mapping) else {}
            sizes = [inner.get(k) for k in ("num_heads", "head_dim", "short_conv_kernel_size")]
            if not inner or any(isinstance(v, bool) or not isinstance(v, (int, type(None))) for v in sizes):
                raise InputError(field, value, "must be an object with whole sizes", file)
