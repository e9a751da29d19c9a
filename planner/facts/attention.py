"""What each layer of a model keeps per token, read from a config: windows, latents, indexers, compressed and recurrent layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from planner.errors import InputError
from planner.shapes import Attention

# fields that change what a layer keeps, and that no reader below understands
NOT_UNDERSTOOD = (
    "block_configs",
    "num_kv_shared_layers",
    "ssm_cfg",
    "cross_attention_layers",
    "attn_config",
    "attn_type_list",
    "block_types",
    "_block_types",
    "attention_types",
    "attention_window_size",
    "hybrid_layer_pattern",
    "full_attn_idxs",
    "mixer_types",
    "layer_group_size",
    "interleaved_attention",
    "use_cla",
    "mamba_d_ssm",
    "is_encoder_decoder",
    "encoder_layers",
    "num_encoder_layers",
    "num_decoder_layers",
    "per_layer_config",
)
LATENT_TYPES = ("deepseek", "kimi", "glm_moe_dsa", "longcat", "minicpm3")


def need(config: Mapping, field: str) -> int:
    """Return a size that must be there as a whole number > 0. Raises: InputError naming it."""
    value = config.get(field)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(field, value, "must be given as a whole number >= 1")
    return value


def head_dim(config: Mapping) -> int:
    """Return the size of one head: the field where it is given, else hidden over heads, which must divide."""
    if config.get("head_dim"):
        return need(config, "head_dim")
    hidden, heads = need(config, "hidden_size"), need(config, "num_attention_heads")
    if hidden % heads:
        raise InputError("head_dim", None, f"must be given: hidden_size {hidden} over {heads} heads is not whole")
    return hidden // heads


def kv_heads(config: Mapping) -> int:
    """Return the number of KV heads: the field, else the number of heads. A fixed multi_query flag means one.

    Falcon's flag holds against its field, unless the config is of the newer kind (new_decoder_architecture). Raises: InputError.
    """
    falcon = config.get("model_type") in ("falcon", "RefinedWeb", "RefinedWebModel")
    if config.get("multi_query") is True and ("num_key_value_heads" not in config or (falcon and config.get("new_decoder_architecture") is not True)):
        return 1
    value = config.get("num_key_value_heads", config.get("num_attention_heads"))
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError("num_key_value_heads", value, "must be a whole number >= 1")
    heads = config.get("num_attention_heads")
    if heads and value > heads:
        raise InputError("num_key_value_heads", value, f"must be at most the heads ({heads})")
    if heads and heads % value:
        raise InputError("num_key_value_heads", value, f"must divide the heads ({heads})")
    return value


KINDS = {
    "full_attention": "full",
    "sliding_attention": "sliding",
    "linear_attention": "linear",
    "chunked_attention": "sliding",
    "attention": "full",
    "mamba": "mamba",
    "moe": "mlp",
    "mlp": "mlp",
    "deepseek_sparse_attention": "full",
    "indexed_attention": "full",
}
SLIDING_THROUGHOUT = ("mistral", "mixtral", "phi3", "phimoe", "starcoder2", "ministral", None)
EVERY = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6, "cohere2": 4}  # each how manieth layer sees all, where the config does not say
FROM_LAYER = ("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen3")  # these slide from max_window_layers on, when told to


def _listed(config: Mapping, layers: int) -> list[tuple[str, list[str]]]:
    """Return (field, kinds) of every field that says each layer's kind outright."""
    found = []
    pattern = config.get("hybrid_override_pattern")
    if pattern:
        if len(pattern) != layers or set(pattern) - set("M*-E"):
            raise InputError("hybrid_override_pattern", pattern, f"must be {layers} letters of M, *, -, E")
        found.append(("hybrid_override_pattern", [{"M": "mamba", "*": "full", "-": "mlp", "E": "mlp"}[c] for c in pattern]))
    for field in ("layer_types", "layers_block_type"):
        types = config.get(field)
        if types:
            if len(types) != layers:
                raise InputError(field, f"{len(types)} entries", f"must have one entry for each of {layers} layers")
            unknown = [t for t in types if t not in KINDS]
            if unknown:
                raise InputError(field, unknown[0], "is a kind of layer that is not understood")
            found.append((field, [KINDS[t] for t in types]))
    if config.get("full_attention_interval"):
        interval = need(config, "full_attention_interval")
        found.append(("full_attention_interval", ["full" if (i + 1) % interval == 0 else "linear" for i in range(layers)]))
    linear = config.get("linear_attn_config")
    if isinstance(linear, Mapping) and "full_attn_layers" in linear:
        full = set(linear["full_attn_layers"] or [])
        found.append(("linear_attn_config", ["full" if i + 1 in full else "linear" for i in range(layers)]))
    if config.get("attn_layer_indices"):
        full = set(config["attn_layer_indices"])
        found.append(("attn_layer_indices", ["full" if i in full else "mamba" for i in range(layers)]))
    if config.get("attn_layer_period"):
        period, offset = need(config, "attn_layer_period"), config.get("attn_layer_offset") or 0
        if offset >= period:
            raise InputError("attn_layer_offset", offset, f"must be below attn_layer_period ({period})")
        found.append(("attn_layer_period", ["full" if i % period == offset else "mamba" for i in range(layers)]))
    return found


def _windowed(config: Mapping, layers: int) -> list[str]:
    """Return the kinds of a model whose layers differ, if at all, in whether they see a window only."""
    kind, window = config.get("model_type"), config.get("sliding_window")
    if config.get("attention_chunk_size") and str(kind or "").startswith("llama4"):
        # three of four layers attend within a chunk, the fourth without positions to all, unless a list says which
        listed = config.get("no_rope_layers")
        if listed:
            if len(listed) != layers or set(listed) - {0, 1}:
                raise InputError("no_rope_layers", f"{len(listed)} entries", f"must be 0 or 1 for each of {layers} layers")
            return ["sliding" if rotated else "full" for rotated in listed]
        interval = config.get("no_rope_layer_interval") or 4
        return ["full" if (i + 1) % interval == 0 else "sliding" for i in range(layers)]
    if not window or config.get("use_sliding_window") is False or config.get("compress_ratios"):
        return ["full"] * layers
    every = config.get("sliding_window_pattern") or config.get("global_attn_every_n_layers") or EVERY.get(kind)
    if isinstance(every, str):
        return ["full" if every[i % len(every)] == "G" else "sliding" for i in range(layers)]
    if every:
        return ["full" if (i + 1) % every == 0 else "sliding" for i in range(layers)]
    if kind in SLIDING_THROUGHOUT:
        return ["sliding"] * layers
    if kind in FROM_LAYER and config.get("use_sliding_window") is not True:
        return ["full"] * layers
    if kind in FROM_LAYER and isinstance(config.get("max_window_layers"), int):
        return ["sliding" if i >= config["max_window_layers"] else "full" for i in range(layers)]
    raise InputError("sliding_window", window, f"does not say which layers of a {kind} slide: give layer_types")


def layer_kinds(config: Mapping) -> list[str]:
    """Return the kind of each layer (`full`, `sliding`, `linear`, `mamba`, `mlp`), from whichever field says it.

    Raises: InputError for a list whose length is not the number of layers, a name that is not understood, two fields that disagree, or a
    window of which no field and no family says which layers have it.
    """
    layers = need(config, "num_hidden_layers")
    said = _listed(config, layers)
    for field, kinds in said[1:]:
        if kinds != said[0][1]:
            where = next(i for i, (a, b) in enumerate(zip(kinds, said[0][1], strict=True)) if a != b)
            raise InputError(f"{said[0][0]} and {field}", f"{said[0][1][where]} and {kinds[where]}", f"must agree on layer {where}")
    return said[0][1] if said else _windowed(config, layers)


def _compressed(config: Mapping, kinds: list[str]) -> tuple[Attention, ...]:
    """DeepSeek-V4: each layer keeps a window of latents and, per `ratio` tokens, one compressed latent; ratio 4 adds an indexer."""
    layers, heads, dim = len(kinds), need(config, "num_attention_heads"), need(config, "head_dim")
    ratios = config["compress_ratios"][:layers]
    if len(config["compress_ratios"]) < layers:
        raise InputError("compress_ratios", f"{len(ratios)} entries", f"must have one entry for each of {layers} layers")
    found = []
    window = need(config, "sliding_window")
    for ratio, number in Counter(ratios).items():
        found.append(Attention("compressed", number, heads, 1, dim, dim, dim, window=window))
        if ratio:
            index = config.get("index_head_dim", 0) if ratio == min(r for r in ratios if r) and config.get("index_topk") else 0
            found.append(
                Attention(
                    "compressed",
                    number,
                    heads,
                    1,
                    dim,
                    dim,
                    dim,
                    stride=ratio,
                    top_k=config.get("index_topk", 0) if index else 0,
                    index_elements=index,
                    index_heads=config.get("index_n_heads", 0) if index else 0,
                )
            )
    return tuple(found)


def _latent(config: Mapping, kinds: list[str]) -> list[Attention]:
    heads = config.get("num_attention_heads") or 1
    lora, rope = need(config, "kv_lora_rank"), need(config, "qk_rope_head_dim")
    nope, value = config.get("qk_nope_head_dim") or 0, config.get("v_head_dim") or 0
    full = kinds.count("full")
    index_dim = config.get("index_head_dim") or 0
    sharing = config.get("indexer_types") or config.get("index_layer_types")
    own = full if not sharing else sum(1 for t in sharing[: len(kinds)] if t in ("full", "compute", "own"))
    if index_dim and not sharing and config.get("index_topk_freq", 1) > 1:
        first = config.get("index_skip_topk_offset") or 0
        own = first + -(-(full - first) // config["index_topk_freq"])
    kind, top_k = ("sparse", need(config, "index_topk")) if index_dim else ("latent", 0)
    with_index = (
        [
            Attention(
                kind,
                own,
                heads,
                1,
                nope + rope,
                value,
                lora + rope,
                top_k=top_k,
                index_elements=index_dim,
                index_heads=config.get("index_n_heads") or 0,
                latent=lora,
            )
        ]
        if own
        else []
    )
    rest = full - own
    return with_index + ([Attention(kind, rest, heads, 1, nope + rope, value, lora + rope, top_k=top_k, latent=lora)] if rest else [])


def _recurrent(config: Mapping, kinds: list[str]) -> list[Attention]:
    linear, mamba = kinds.count("linear"), kinds.count("mamba")
    found = []
    if linear:
        inner = config.get("linear_attn_config") or {}
        heads_v = config.get("linear_num_value_heads") or inner.get("num_heads")
        heads_k = config.get("linear_num_key_heads") or inner.get("num_heads")
        dim_k = config.get("linear_key_head_dim") or inner.get("head_dim")
        dim_v = config.get("linear_value_head_dim") or inner.get("head_dim")
        kernel = config.get("linear_conv_kernel_dim") or inner.get("short_conv_kernel_size") or 1
        if not all((heads_v, heads_k, dim_k, dim_v)):
            raise InputError("linear_num_value_heads", heads_v, "must be given with the other sizes of linear attention")
        conv = (2 * heads_k * dim_k + heads_v * dim_v) * (kernel - 1)
        bits = 32 if "float32" in str(config.get("mamba_ssm_dtype", "float32")) else 16
        found.append(
            Attention("linear", linear, heads_v, heads_v, dim_k, dim_v, 0, state_elements=heads_v * dim_k * dim_v + conv // 2, state_bits=bits)
        )
    if mamba:
        heads = config.get("mamba_num_heads") or config.get("mamba_n_heads")
        dim = config.get("mamba_head_dim") or config.get("mamba_d_head")
        state, groups = (
            config.get("ssm_state_size") or config.get("mamba_d_state"),
            config.get("n_groups") or config.get("mamba_n_groups", 1),
        )
        kernel = config.get("conv_kernel") or config.get("mamba_d_conv", 4)
        if not all((heads, dim, state)):
            raise InputError("mamba_num_heads", heads, "must be given with mamba_head_dim and ssm_state_size")
        conv = (heads * dim + 2 * groups * state) * (kernel - 1)
        found.append(Attention("linear", mamba, heads, heads, state, dim, 0, state_elements=heads * dim * state + conv // 2, state_bits=32))
    return found


def attention_layers(config: Mapping) -> tuple[Attention, ...]:
    """Return the layers that keep something per token or per sequence, alike ones together.

    Parameters: config, with today's field names (`modelcards.normalised`). Returns: Attention groups; the MTP module's own layers are not
    counted. Raises: InputError for a contradiction, or a field that changes the cache and is not understood.
    """
    kinds = layer_kinds(config)
    for field in NOT_UNDERSTOOD:
        if config.get(field) and not (field == "attn_type_list" and config[field] == [1] * len(kinds)):  # ones: all layers are softmax layers
            raise InputError(field, config[field], "changes the cache and is not understood")
    if config.get("compress_ratios"):
        return _compressed(config, kinds)
    if config.get("kv_lora_rank"):
        if "sliding" in kinds:
            raise InputError("sliding_window", config.get("sliding_window"), "is not understood on latent attention (kv_lora_rank)")
        return tuple(_latent(config, kinds) + _recurrent(config, kinds))
    if str(config.get("model_type", "")).startswith(LATENT_TYPES) and config.get("model_type") != "deepseek":
        raise InputError("kv_lora_rank", None, "must be given for a latent-attention model")
    share = config.get("cla_share_factor") or 1
    if isinstance(share, bool) or not isinstance(share, int) or share < 1:
        raise InputError("cla_share_factor", share, "must be a whole number >= 1")
    found = []
    full, sliding = kinds.count("full"), kinds.count("sliding")
    groups = kv_heads(config)
    if full or sliding:
        heads, dim = config.get("num_attention_heads") or groups, head_dim(config)
        value = config.get("v_head_dim") or dim
    if full:
        wide_dim, wide_groups = config.get("global_head_dim") or dim, config.get("num_global_key_value_heads") or groups
        tied = 1 if config.get("attention_k_eq_v") else 2
        each = wide_groups * (wide_dim + (config.get("v_head_dim") or wide_dim)) * tied // 2
        found.append(Attention("full", -(-full // share), heads, wide_groups, wide_dim, wide_dim if value == dim else value, each))
    if sliding:
        window = config.get("sliding_window") or config.get("attention_chunk_size")
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise InputError("sliding_window", window, "must be a whole number >= 1 where layers slide")
        found.append(Attention("sliding", -(-sliding // share), heads, groups, dim, value, groups * (dim + value), window=window))
    return tuple(found + _recurrent(config, kinds))
