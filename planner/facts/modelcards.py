"""A Hugging Face config.json -> ModelShape. A field that changes memory and is not understood is refused, never guessed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from planner.errors import InputError
from planner.facts import architectures, families
from planner.facts.attention import attention_layers
from planner.facts.fields import normalised
from planner.facts.files import folder
from planner.facts.quantisation import as_spelled
from planner.shapes import Attention, ModelShape

MAX_BYTES = 2_000_000


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
        # the line itself is not shown: what is no config may be any file
        raise InputError(f"line {error.lineno}", "something else", f"must be JSON: {error.msg}", file) from None
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError("JSON", str(error), "must hold readable numbers and few brackets", file) from None


def read(path: str | Path) -> dict:
    """Return the content of a config.json. Raises: InputError naming the file."""
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise InputError("model", str(path), "must be a file", path.name)
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
    if not isinstance(model, (str, Path)):
        raise InputError("model", model, "must be a catalogue name, a path to a config.json, or its content")
    text = str(model)
    if text in catalogue():
        return text, read(catalogue()[text])
    if len(text) > 4096 or "\0" in text:
        raise InputError("model", text, "must be a catalogue name or a path")
    if text.endswith(".json") or (len(text) < 256 and Path(text).is_file()):
        return _from_file(Path(text))
    if os.sep in text and len(text) < 256 and (Path(text) / "config.json").is_file():  # a checkpoint's own folder
        return _from_file(Path(text) / "config.json")
    from planner.facts.names import resolve_model

    short = {}
    for full in catalogue():
        short.setdefault(full.lower(), full)
        short.setdefault(full.split("/")[-1].lower(), full)
    name = short.get(text.lower()) or resolve_model(text)
    return name, read(catalogue()[name])


def _from_file(path: Path) -> tuple[str, dict]:
    """Return (name, config) of a file: named as the file, or as its folder where the file has the name that all have."""
    name = path.absolute().parent.name if path.name == "config.json" else path.stem.removesuffix("_config")
    return name or "own model", {**read(path), **_beside(path)}


def _beside(path: Path) -> dict:
    quant = path.with_name("hf_quant_config.json")
    return {"hf_quant_config": read(quant)} if path.name == "config.json" and quant.is_file() else {}


def understood(model: str | Mapping | Path) -> bool:
    """Return whether the cache of a model is read by rules of its own family; False where its layers are read as a Llama-like model's."""
    kind = normalised(source(model)[1]).get("model_type")
    return families.known_cache(kind)


def positions(model: str | Mapping | Path) -> int:
    """Return the longest sequence that a model's config names [token], 0 where it names none."""
    name, config = source(model)
    with _named(name):
        return normalised(config, name).get("max_position_embeddings") or 0


def cache_layers(model: str | Mapping | Path) -> tuple[Attention, ...]:
    """Return the attention layers alone: enough for a KV size where a config names no vocabulary or feed-forward width."""
    name, config = source(model)
    with _named(name):
        return attention_layers(normalised(config, name))


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
    with _named(name):
        return _built(name, config)


@contextmanager
def _named(name: str):
    """Say of which model a refusal is, where it does not."""
    try:
        yield
    except InputError as error:
        if error.file:
            raise
        raise InputError(error.field, error.value, error.allowed, name) from None


def _built(name: str, config: Mapping) -> ModelShape:
    text = normalised(config, name)
    missing = [f for f in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size") if f not in text]
    if missing:
        raise InputError("model", ", ".join(missing), "must name its sizes: missing", name)
    shape = architectures.build(name, dict(config), text)
    if name in catalogue() or isinstance(shape.quantisation.get("refused"), str):
        return shape
    said = [families.unread(text)]
    if not any(part.get(field) for part in (text, config) for field in ("dtype", "torch_dtype", "quantization_config")):
        said.append("no dtype is named: as released is taken as BF16")
    return replace(shape, notes=(*shape.notes, *(n for n in said if n)))
