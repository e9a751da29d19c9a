"""A Hugging Face config.json -> ModelShape. A field that changes memory and is not understood is refused, never guessed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from planner.errors import InputError
from planner.facts import architectures
from planner.facts.attention import attention_layers
from planner.facts.files import folder
from planner.facts.quantisation import as_spelled
from planner.shapes import Attention, ModelShape

MAX_BYTES = 2_000_000
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
        "num_activated_experts",
        "n_activated_experts",
        "experts_per_token",
    ),
    "n_shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "first_k_dense_replace": ("first_k_dense_replace", "first_k_dense", "moe_layer_start_index", "n_dense_layers"),
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
ZERO_ALLOWED = {"n_shared_experts", "num_nextn_predict_layers", "first_k_dense_replace", "n_routed_experts", "num_experts_per_tok"}


def strict_json(text: str, file: str):
    """Return the value of a JSON text. Raises: InputError for NaN, infinities, 1e400, repeated keys, unreadable text, with the line."""

    def pairs(items):
        keys = [k for k, _ in items]
        if len(set(keys)) < len(keys):
            twice = next(k for k in keys if keys.count(k) > 1)
            raise InputError(twice, "given twice", "must be given once", file)
        for key, value in items:  # the one field that Hugging Face itself writes with an infinity: a clamp, not a size
            if key != "time_step_limit" and any(v == math.inf for v in (value if isinstance(value, list) else [value]) if isinstance(v, float)):
                raise InputError(key, "Infinity", "must be finite", file)
        return dict(items)

    def real(digits):
        value = float(digits)
        if not math.isfinite(value):
            raise InputError("number", digits, "must be finite", file)
        return value

    def constant(name):
        return math.inf if name == "Infinity" else real("nan")

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=real)
    except json.JSONDecodeError as error:
        raise InputError(
            f"line {error.lineno}", text.splitlines()[error.lineno - 1] if text.strip() else "", f"must be JSON: {error.msg}", file
        ) from None
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError("JSON", str(error), "must hold readable numbers and few brackets", file) from None


def read(path: str | Path) -> dict:
    """Return the content of a config.json. Raises: InputError naming the file."""
    path = Path(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError("file", path.stat().st_size, f"must be at most {MAX_BYTES} bytes", path.name)
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("model", str(path), "must be a readable config.json", path.name) from None
    content = strict_json(text, path.name)
    if not isinstance(content, dict):
        raise InputError("model", type(content).__name__, "must be one JSON object", path.name)
    return content


INHERITED = ("tie_word_embeddings", "quantization_config", "architectures", "dtype", "torch_dtype")


def text_part(config: Mapping) -> dict:
    """Return the language model's part of a config: nested under text_config, thinker_config, llm_config or language_config."""
    for key in ("thinker_config", "text_config", "llm_config", "language_config"):
        if isinstance(config.get(key), Mapping):
            inner = {k: v for k, v in config.items() if k in INHERITED}
            return text_part({**inner, **config[key]})
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
            least = 0 if name in ZERO_ALLOWED else 1
            if isinstance(value, list) and name == "num_key_value_heads":
                continue  # one count a layer: attention_layers reads it
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10**9:
                raise InputError(found[0][0], value, f"must be a whole number of at least {least}", file)
        text[name] = value
    _kinds(text, file)
    blocks = text.get("layers_block_type")
    if text.get("model_type") == "nemotron_h" and isinstance(blocks, list):
        letters = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}
        text["hybrid_override_pattern"] = "".join(letters.get(b, "?") for b in blocks)
        text.setdefault("num_hidden_layers", len(blocks))
    return text


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
    "moe_shared_expert_intermediate_size",
    "global_head_dim",
    "num_global_key_value_heads",
    "sliding_window_pattern",
    "global_attn_every_n_layers",
    "attn_layer_period",
    "attn_layer_offset",
    "decoder_sparse_step",
    "interleave_moe_layer_step",
    "attn_res_block_size",
}
LISTS = {"layer_types", "layers_block_type", "compress_ratios", "mlp_only_layers", "attn_layer_indices", "indexer_types"}
TEXTS = {"hybrid_override_pattern", "model_type", "topk_method"}


def _kinds(text: Mapping, file: str) -> None:
    """Refuse a field that is read as a size, a list or a text and is something else."""
    for field, value in text.items():
        if value is None:
            continue
        if field in SIZES and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**9):
            raise InputError(field, value, "must be a whole number >= 0", file)
        if field in LISTS and not (isinstance(value, list) and all(isinstance(v, (str, int)) and not isinstance(v, bool) for v in value)):
            raise InputError(field, value, "must be a list of names or whole numbers", file)
        if field == "moe_layer_freq":
            steps = value if isinstance(value, list) else [value]
            if any(isinstance(v, bool) or not isinstance(v, int) or v < 0 for v in steps) or value == 0:
                raise InputError(field, value, "must be a whole number >= 1 or a list of 0 and 1", file)
        if field in TEXTS and not isinstance(value, str):
            raise InputError(field, value, "must be text", file)
        if field == "linear_attn_config":
            inner = value if isinstance(value, Mapping) else {}
            sizes = [inner.get(k) for k in ("num_heads", "head_dim", "short_conv_kernel_size")]
            if not inner or any(isinstance(v, bool) or not isinstance(v, (int, type(None))) for v in sizes):
                raise InputError(field, value, "must be an object with whole sizes", file)


@cache
def catalogue() -> dict[str, Path]:
    """Return name -> file of every model that ships with the planner (`owner/name`)."""
    return {
        p.name.removesuffix("_config.json").replace("--", "/", 1): p
        for p in sorted((folder("data") / "models").glob("*_config.json"))
        if not p.name.endswith("hf_quant_config.json")
    }


def source(model: str | Mapping | Path) -> tuple[str, dict]:
    """Return (name, config) of a catalogue name, any spelling of it, a path to a config.json, or a config object."""
    if isinstance(model, Mapping):
        return str(model.get("_name_or_path") or model.get("name") or "own model"), dict(model)
    text = str(model)
    if text in catalogue():
        return text, read(catalogue()[text])
    if len(text) > 4096 or "\0" in text:
        raise InputError("model", text, "must be a catalogue name or a path")
    if text.endswith(".json") or (len(text) < 256 and Path(text).is_file()):
        return Path(text).stem.removesuffix("_config"), {**read(text), **_beside(Path(text))}
    from planner.facts.names import resolve_model

    short = {}
    for full in catalogue():
        short.setdefault(full.lower(), full)
        short.setdefault(full.split("/")[-1].lower(), full)
    name = short.get(text.lower()) or resolve_model(text)
    return name, read(catalogue()[name])


def _beside(path: Path) -> dict:
    quant = path.with_name("hf_quant_config.json")
    return {"hf_quant_config": read(quant)} if path.name == "config.json" and quant.is_file() else {}


def understood(model: str | Mapping | Path) -> bool:
    """Return whether the layers of a model are read by rules of its own family; False where they are read as a Llama-like model's."""
    kind = normalised(source(model)[1]).get("model_type")
    return kind is None or kind in architectures.UNDERSTOOD or kind in ("deepseek_v4", "kimi_linear")


def cache_layers(model: str | Mapping | Path) -> tuple[Attention, ...]:
    """Return the attention layers alone: enough for a KV size where a config names no vocabulary or feed-forward width."""
    return attention_layers(normalised(source(model)[1]))


def load(model: str | Mapping | Path) -> ModelShape:
    """Return the shape of a model.

    Parameters: model, a catalogue name or a spelling of it, a path to a config.json, or the content of one.
    Returns: ModelShape. Raises: InputError naming the missing or contradictory field, or the architecture that is not understood.
    """
    if isinstance(model, str) and model in catalogue():
        return _shipped(model)
    name, config = source(model)
    if name not in catalogue() or isinstance(model, Mapping):
        return _build(name, config)
    shape = _shipped(name)
    stored = as_spelled(str(model), name, shape.quantisation, catalogue())
    return shape if stored is None else replace(shape, name=str(model).strip(), quantisation=stored)


@cache
def _shipped(name: str) -> ModelShape:
    config = read(catalogue()[name])
    quant = catalogue()[name].with_name(catalogue()[name].name.replace("_config.json", "_hf_quant_config.json"))
    if quant.is_file():
        config["hf_quant_config"] = read(quant)
    return _build(name, config)


def _build(name: str, config: Mapping) -> ModelShape:
    text = normalised(config)
    missing = [f for f in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size") if f not in text]
    if missing:
        raise InputError("model", ", ".join(missing), "must name its sizes: missing", name)
    return architectures.build(name, dict(config), text)
