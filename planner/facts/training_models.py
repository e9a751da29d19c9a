"""Shapes of the models that published training runs name: a config of the catalogue, or the row of data/training_models.csv."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from planner.errors import InputError
from planner.facts import modelcards
from planner.facts.files import table
from planner.shapes import Attention, ModelShape, Weight
from planner.units import count

# names as the training tables print them -> the catalogue's model of the same shape
PRINTED = {"llama3.1_405b": "meta-llama/Meta-Llama-3.1-405B", "llama3_70b": "meta-llama/Meta-Llama-3.1-70B",
           "llama3_8b": "meta-llama/Meta-Llama-3.1-8B", "llama3.1_70b": "meta-llama/Meta-Llama-3.1-70B",
           "llama3.1_8b": "meta-llama/Meta-Llama-3.1-8B", "deepseekv3": "deepseek-ai/DeepSeek-V3", "qwen3_235b_a22b": "Qwen/Qwen3-235B-A22B",
           "qwen3_30b_a3b": "Qwen/Qwen3-30B-A3B", "qwen3_30b3a": "Qwen/Qwen3-30B-A3B", "kimi_k2": "moonshotai/Kimi-K2-Instruct",
           "gpt_oss_120b": "openai/gpt-oss-120b", "gpt_oss_20b": "openai/gpt-oss-20b", "nemotron_h_56b": "nvidia/Nemotron-H-56B-Base-8K",
           "nemotron_3_nano": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
           "nemotron_3_super": "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"}


def _folded(name: str) -> str:
    return str(name).strip().lower().replace("-", "_").replace(" ", "_")


@cache
def _tabled() -> dict[str, dict[str, str]]:
    """Return folded name -> row of the models whose sizes the table carries itself."""
    rows = {_folded(r["model"]): r for r in table("training_models.csv") if r["hidden"]}
    rows["gpt_175b"] = rows[_folded("GPT-175B (MegaScale Table 2)")]
    return rows


def names() -> list[str]:
    """Return the names of models that only the training table describes."""
    return [r["model"] for r in table("training_models.csv") if r["hidden"]]


SIZES = ("hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "ffn_matrices", "vocab", "seq", "tied_embeddings")


def load(model: str | Mapping | Path) -> ModelShape:
    """Return the shape of a model by its name in the training tables, or any name, path or content that `modelcards.load` takes.

    An object may carry the sizes of a row of data/training_models.csv instead (hidden, layers, heads, ffn, vocab, ...). Raises: InputError
    for a name that neither knows, or sizes that are not whole numbers.
    """
    if isinstance(model, Mapping) and "hidden" in model and "layers" in model:
        return _from_sizes(model)
    if isinstance(model, str):
        folded = _folded(model)
        if folded in _tabled():
            return _built(folded)
        if folded in PRINTED:
            return modelcards.load(PRINTED[folded])
    return modelcards.load(model)


def printed_flops_per_token(model: str, seq_tokens: float) -> tuple[float, str] | None:
    """Return (FLOP per trained token, the convention in words) as a table prints it for this model and length, None where it does not.

    Parameters: model, its name in the training tables or the catalogue; seq_tokens [token]. Raises: nothing.
    """
    shape = load(model).name
    for row in table("training_models.csv"):
        try:
            same = row["tflop_per_token"] and (_folded(row["model"]) == _folded(model) or load(row["model"]).name == shape)
        except InputError:
            continue
        if same and float(row["seq"]) == float(seq_tokens):
            return float(row["tflop_per_token"]) * 1e12, row["flop_convention"]
    return None


def _from_sizes(model: Mapping) -> ModelShape:
    """Return the shape of a user's own sizes: as many KV heads as heads, 4 x hidden wide, two matrices, tied, where they are left out."""
    given = {k: v for k, v in model.items() if k in SIZES and v not in (None, "")}
    for name in ("heads", "vocab"):
        if name not in given:
            raise InputError(f"model.{name}", None, "is required beside hidden and layers")
    for name, value in given.items():
        count(f"model.{name}", int(value) if isinstance(value, str) and value.isdigit() else value, 0)
    if int(given["hidden"]) % int(given["heads"]) and "head_dim" not in given:
        raise InputError("model.heads", given["heads"], f"must divide hidden ({given['hidden']}), or head_dim must be given")
    plain = {"kv_heads": given["heads"], "head_dim": int(given["hidden"]) // int(given["heads"]), "ffn": 4 * int(given["hidden"]),
             "ffn_matrices": 2, "seq": 2048, "tied_embeddings": 1}
    words = {"model": str(model.get("name") or model.get("model") or "own model"), "positions": str(model.get("positions") or "learned"),
             "source": "the user's own sizes"}
    return _shape({**words, **{k: str(v) for k, v in {**plain, **given}.items()}})


@cache
def _built(folded: str) -> ModelShape:
    """Return the ModelShape of a row of the table."""
    return _shape(_tabled()[folded])


def _shape(row: Mapping[str, str]) -> ModelShape:
    """Return attention, a feed-forward of two or three matrices and embeddings as a ModelShape."""
    hidden, layers, heads, kv, dim, ffn, vocab = (int(row[k]) for k in ("hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "vocab"))
    if kv > heads or heads % kv:
        raise InputError("kv_heads", kv, f"must divide heads ({heads})", "data/training_models.csv")
    tied, seq = row["tied_embeddings"] == "1", int(row["seq"])

    def each(part, name, rows, cols, linear=True):
        return Weight(part, name, rows, cols, layers, layers, linear, layers)

    weights = [Weight("embedding", "embed_tokens", vocab, hidden, 1, 0, False, 1)]
    if row["positions"] == "learned":
        weights.append(Weight("embedding", "position_embeddings", seq, hidden, 1, 0, False, 1))
    weights += [each("attention", "q_proj", heads * dim, hidden), each("attention", "kv_proj", 2 * kv * dim, hidden),
                each("attention", "o_proj", hidden, heads * dim)]
    weights += [each("dense_mlp", f"ffn_{i}", ffn, hidden) for i in range(int(row["ffn_matrices"]))]
    # layer norms with biases, and the biases of the matrices where the family has them (as many KV heads as heads)
    weights.append(each("norm", "norms_and_biases", (13 if kv == heads else 4) * hidden, 0, False))
    if kv != heads:
        weights.append(Weight("norm", "final_norm", 2 * hidden, 0, 1, 1, False, 1))
    if not tied:
        weights.append(Weight("head", "lm_head", vocab, hidden, 1, 1, False, 1))
    attention = Attention("full", layers, heads, kv, dim, dim, 2 * kv * dim)
    note = f"sizes from a table of training runs: {row['source']}"
    return ModelShape(row["model"], "gpt", hidden, layers, vocab, heads, seq, tuple(weights), (attention,), mlp_width=ffn, notes=(note,))
