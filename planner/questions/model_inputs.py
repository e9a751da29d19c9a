"""What questions about a model have in common: its formats in any of their spellings, yes and no, and lengths beyond its positions."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InputError
from planner.facts.formats import number_format, stored_bits, weight_formats
from planner.plan.inputs import number
from planner.shapes import Format, ModelShape


def cache_bits(inputs: Mapping, default: str = "bf16") -> tuple[float, str]:
    """Return (bits, note) of the KV cache from kv_format, or from kv_bytes an element; the default is said in the note.

    Raises: InputError for both where they contradict.
    """
    if "kv_bytes" in inputs:
        bits = 8.0 * number(inputs, "kv_bytes", low=0.25, high=8)
        if "kv_format" not in inputs:
            return bits, "kv_bytes is taken as all of an element, scales included" if bits < 8 else ""
        if bits not in (number_format(inputs["kv_format"]).bits, stored_bits(inputs["kv_format"])):
            raise InputError("kv_format and kv_bytes", f"{inputs['kv_format']} and {inputs['kv_bytes']}", "must agree: give one of them")
    name = number_format(inputs.get("kv_format", default))
    said = [] if "kv_format" in inputs else [f"kv_format not given: {default}"]
    if name.bits_per_value > name.bits:
        said.append(f"{name.name} cache at {name.bits_per_value:g} bits a value, its block scales included")
    return name.bits_per_value, "; ".join(said)


def beyond(tokens: float, positions: int) -> list[str]:
    """Return in words, where it is so, that a sequence is longer than the positions that a model's config names (0: none named)."""
    return [f"{tokens:,.0f} tokens do not fit the model's {positions:,} positions"] if positions and tokens > positions else []


def flag(inputs: Mapping, name: str, default: bool) -> bool:
    """Return an input that is true or false. Raises: InputError for anything else, "false" as text among it."""
    value = inputs.get(name, default)
    if not isinstance(value, bool):
        raise InputError(name, value, "must be true or false")
    return value


def formats_of(inputs: Mapping, shape: ModelShape) -> dict[str, Format]:
    """Return part -> Format of the chosen weights (weight_format or formats.weights), as released where none is named."""
    return weight_formats(shape, inputs.get("weight_format"))


def _shared(inputs: Mapping, text: str = "weight_format") -> dict:
    """Return the inputs with `formats` opened: {weights, kv} or {weight_format, kv_format} become plain inputs; one word is the input `text`."""
    opened = dict(inputs)
    given = opened.pop("formats", None)
    if isinstance(given, Mapping):
        names = {"weights": "weight_format", "weight": "weight_format", "weight_format": "weight_format", "kv": "kv_format", "kv_format": "kv_format"}
        for key, value in given.items():
            if key not in names:
                raise InputError(f"formats.{key}", value, f"is not one of {', '.join(names)}")
            if opened.setdefault(names[key], value) != value:
                raise InputError(f"formats.{key} and {names[key]}", f"{value} and {opened[names[key]]}", "must agree")
    elif isinstance(given, str):
        if opened.setdefault(text, given) != given:
            raise InputError(f"formats and {text}", f"{given} and {opened[text]}", "must agree")
    elif given is not None:
        raise InputError("formats", given, "must be {weights, kv}")
    return opened


def opened(answer, text: str = "weight_format"):
    """Return the answer function with `formats` opened into weight_format and kv_format first; one word alone is the input `text`."""
    return lambda inputs: answer(_shared(inputs, text))
