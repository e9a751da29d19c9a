"""What tells one decoder family from another: biases, norms, gates and what is tied, one row a model_type in data/model_families.csv."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from planner.errors import InputError
from planner.facts.fields import BOOLS, LISTS, NAMES, SIZES, TEXTS
from planner.facts.files import table

PLAIN_CACHES = {"deepseek_v4", "gemma4_text", "gpt2", "gpt_neox", "gptj", "opt", "bloom", "falcon", "codegen", "persimmon"}
MORE_TENSORS = (
    "hc_mult",
    "laurel_rank",
    "vocab_size_per_layer_input",
    "hidden_size_per_layer_input",
    "altup_num_inputs",
    "mamba_dt_rank",
    "conv_L_cache",
    "num_attention_heads_per_layer",
    "num_key_value_heads_per_layer",
    "zero_expert_num",
    "word_embed_proj_dim",
    "embedding_size",
    "ffn_config",
    "intermediate_multiple_size",
    "cross_attention_frequency",
    "use_mem_rope",
    "per_layer_config",
    "num_sliding_attention_heads",
    "use_double_wide_mlp",
    "prefix_dense_intermediate_size",
    "o_lora_rank",
)
UNKNOWN = "llama"  # the row that a model_type without a row of its own is read by, and said to be


@dataclass(frozen=True)
class Family:
    """One row: each trait is `yes`, `no`, a field of the config that says it (absent: no), the field with + (absent: yes), or ! and a field
    that is refused where it is true.

    qk_norm may add `:head`, `:head_biased` or `:all` (one norm a head, with biases, or over all heads); norms, the norms of one layer, or
    field:if_true:if_false; extras, tensors that few families have.
    """

    model_type: str
    known: bool
    tied: str
    qkv_bias: str
    o_bias: str
    qk_norm: str
    norms: str
    norm_bias: str
    final_norm: str
    gated: str
    mlp_bias: str
    router_bias: str
    head_bias: str
    extras: frozenset[str]

    def says(self, trait: str, config: Mapping) -> bool:
        """Return whether a trait holds for a config."""
        return flag(getattr(self, trait), config)

    def check(self, config: Mapping, model: str = "") -> None:
        """Raises: InputError for a field of ours that is true and not understood, or one that adds tensors that no family here reads."""
        for trait in ("qkv_bias", "o_bias", "mlp_bias"):
            self.says(trait, config)
        for field in MORE_TENSORS:
            if config.get(field):
                raise InputError(field, config[field], "changes the tensors and is not understood", model)

    def norms_of(self, config: Mapping) -> int:
        """Return the norms of one layer."""
        field, *counts = self.norms.split(":")
        return int(counts[0] if flag(field, config) else counts[1]) if counts else int(field)

    def qk_norm_of(self, config: Mapping) -> str:
        """Return `head`, `head_biased`, `all`, or an empty text where queries and keys have no norm."""
        field, _, kind = self.qk_norm.rpartition(":")
        if not field:
            return "" if kind == "no" else kind
        return kind if flag(field, config) else ""


def flag(rule: str, config: Mapping) -> bool:
    """Return what a rule says of a config: yes, no, a field, a field with + that holds where it is absent, or ! and a field that must not.

    Raises: InputError for a field that is there and is neither true nor false, and for one of ! that is true: its tensors are not known.
    """
    if rule in ("yes", "no"):
        return rule == "yes"
    field, otherwise = rule.strip("!+"), rule.endswith("+")
    value = config.get(field)
    if value is None:
        return otherwise
    if not isinstance(value, bool):
        raise InputError(field, value, "must be true or false")
    if value and rule.startswith("!"):
        raise InputError(field, value, f"is not understood for a {config.get('model_type')}: it adds tensors that are not known")
    return value


@cache
def _rows() -> dict[str, Family]:
    return {r["model_type"]: Family(**{**r, "known": True, "extras": frozenset(r["extras"].split())}) for r in table("model_families.csv")}


def _named(model_type: str | None) -> str | None:
    """Return the name that a row has for a type: its own, or that of the text part of a model that is not text alone."""
    return next((name for name in (model_type, f"{model_type}_text") if name in _rows()), None)


def family(model_type: str | None, model: str = "") -> Family:
    """Return the row of a model_type; without one, the row of a Llama-like model, marked as not known.

    Raises: InputError naming the model for a type whose tensors are known to differ and are not understood.
    """
    for name in (model_type, f"{model_type}_text"):
        if name in refused():
            raise InputError("model_type", model_type, f"is not understood: {refused()[name]}", model)
    name = UNKNOWN if model_type is None else _named(model_type)
    return _rows()[name] if name else replace(_rows()[UNKNOWN], model_type=str(model_type), known=False)


@cache
def refused() -> dict[str, str]:
    """Return model_type -> why its tensors are not understood, of every type in data/model_families_refused.csv."""
    return {r["model_type"]: r["reason"] for r in table("model_families_refused.csv")}


@cache
def _fields() -> frozenset[str]:
    ours = {spelling for spellings in NAMES.values() for spelling in spellings} | SIZES | BOOLS | LISTS | TEXTS
    return frozenset(r["field"] for r in table("config_fields.csv")) | ours


def unread(config: Mapping, shown: int = 5) -> str:
    """Return a note of the fields that no reader here knows, an empty text where there are none."""
    found = sorted("".join(c if c.isprintable() else "?" for c in str(k)[:40]) for k, v in config.items() if k not in _fields() and v is not None)
    more = f" and {len(found) - shown} more" if len(found) > shown else ""
    return f"fields that are not known are not read: {', '.join(found[:shown])}{more}" if found else ""


def known(model_type: str | None) -> bool:
    """Return whether a model_type has a row of its own; a config that names no type is taken as it is written."""
    return model_type is None or _named(model_type) is not None


def known_cache(model_type: str | None) -> bool:
    """Return whether what a model_type keeps per token is read by rules of its own, whatever its tensors are."""
    return known(model_type) or model_type in PLAIN_CACHES
