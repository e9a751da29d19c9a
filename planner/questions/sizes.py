"""Questions about a model's own size: parameters and checkpoint bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.errors import InputError
from planner.facts import modelcards
from planner.facts.fields import NAMES, text_part
from planner.facts.files import table
from planner.facts.formats import AS_RELEASED, assumed, weight_formats
from planner.models import transformer
from planner.plan.answer import Answer, exact
from planner.questions.memory import FORMATS, MODEL, flag, formats_of, opened
from planner.questions.registry import Input, Question
from planner.shapes import ModelShape

PART_NAMES = {"shared": "shared_experts", "routed_experts": "experts", "embeddings": "embedding", "lm_head": "head", "mlp": "dense_mlp"}


def _counted(shape: ModelShape) -> dict[str, str]:
    """How a count of this shape was got: exact, or assumed where its model_type is read as a Llama-like model."""
    unknown = any(note.startswith("model_type") for note in shape.notes)
    return {"how": "assumed", "grade": "P"} if unknown else {"how": "exact", "grade": "A"}


COUNTED = {
    "main": "without the MTP module",
    "all": "vision and MTP included",
    "text": "without the vision tower and MTP",
    "stored": "stored values, what is stored twice for MTP included",
    "stored_with_scales": "stored values, block scales and MTP included",
    "stored_packed": "stored values, two of four bits counted as one, block scales and MTP included",
}


def _variant(name: object) -> tuple[object, str]:
    """Return (model, what its printed total counts) for a spelling of the published sizes; other names count the main model."""
    row = next((r for r in table("model_variants.csv") if r["printed"] == name), None)
    return (row["model"], row["counted"]) if row else (name, "main_and_vision")


def _sized(model: object) -> ModelShape:
    """Return the shape of a model whose size alone is asked: how many experts a token uses does not change what is stored.

    A config's content that names its experts and not how many a token uses is read, with a note; its active parameters are not known.
    """
    if isinstance(model, Mapping):
        text = text_part(model)
        if any(text.get(n) for n in NAMES["n_routed_experts"]) and not any(n in text for n in NAMES["num_experts_per_tok"]):
            shape = modelcards.load({**text, "num_experts_per_tok": 1})
            return replace(shape, notes=(*shape.notes, "num_experts_per_tok is absent: what a token uses is not known"))
    return modelcards.load(model)


def _total(shape: ModelShape, counted: str) -> int:
    parts = transformer.parameters(shape)
    whole = sum(parts.values())
    twice = sum(w.total for w in shape.duplicated)
    formats = weight_formats(shape, None) if counted in ("stored_with_scales", "stored_packed") else {}
    scales = transformer.scale_elements(shape, formats)
    pairs = sum(w.total // 2 for w in shape.weights if transformer.stored_format(w, formats).bits == 4) if counted == "stored_packed" else 0
    return {
        "main": whole - parts.get("mtp", 0) - parts.get("vision", 0),
        "main_and_vision": whole - parts.get("mtp", 0),
        "all": whole,
        "text": whole - parts.get("vision", 0) - parts.get("mtp", 0),
        "stored": whole + twice,
        "stored_with_scales": whole + twice + scales,
        "stored_packed": whole + twice + scales - pairs,
    }[counted]


def _parameters(inputs: dict) -> Answer:
    model, counted = _variant(inputs["model"])
    part = str(inputs["part"]).strip().lower().replace(" ", "_")
    part = PART_NAMES.get(part, part)
    shape = modelcards.load(model) if part == "active" else _sized(model)
    note = "; ".join(shape.notes)
    parts = transformer.parameters(shape)
    if part == "total":
        counted = "all" if flag(inputs, "include_mtp", False) else counted
        wanted = _total(shape, counted)
        note = "; ".join([*shape.notes, *([COUNTED.get(counted, COUNTED["main"])] if counted != "main_and_vision" or "mtp" in parts else [])])
    elif part in ("main", "text", "stored"):
        wanted = _total(shape, part)
    elif part == "active":
        definition = inputs.get("definition", "without_embedding")
        wanted, note = transformer.active_parameters(shape, definition), f"definition: {definition.replace('_', ' ')}"
    elif part == "attention":
        wanted = parts.get("attention", 0) + parts.get("indexer", 0) + parts.get("recurrent", 0)
    elif part in ("embedding", "head", "indexer", "recurrent", "dense_mlp", "router", "shared_experts", "experts", "norm", "mtp", "vision"):
        wanted = parts.get(part, 0)
    else:
        allowed = (
            "total, main, text, stored, active, embedding, attention, experts, shared_experts, vision, mtp, head, router, norm, dense_mlp, indexer"
        )
        raise InputError("part", inputs["part"], f"must be one of {allowed}, recurrent")
    return exact("parameters", float(wanted), "count", basis=part, note=note, **_counted(shape))


def _checkpoint_bytes(inputs: dict) -> Answer:
    model, counted = _variant(inputs["model"])
    shape = _sized(model)
    chosen = inputs.get("weight_format")
    parts = transformer.checkpoint_bytes(shape, formats_of(inputs, shape))
    if counted == "text":
        parts.pop("vision", None)
    taken = assumed(shape, chosen)
    released = chosen is None or str(chosen).lower() in AS_RELEASED
    return exact(
        "checkpoint_bytes",
        sum(parts.values()),
        "B",
        basis="tensors, as released" if released else f"tensors, {chosen}",
        note="; ".join(["file headers not counted (5e-8 to 2e-5 of a repository)", *([taken] if taken else []), *shape.notes]),
        **({"how": "assumed", "grade": "P"} if taken else _counted(shape)),
    )


QUESTIONS = (
    Question(
        "parameters",
        "parameters of a model",
        "count",
        "planner.models.transformer.parameters",
        {
            "model": MODEL,
            "part": Input("total, active, embedding, attention, experts, shared_experts, vision, mtp, ...", default="total"),
            "definition": Input("of active: without_embedding, with_embeddings or without_head"),
            "include_mtp": Input("whether total holds the MTP module", default=False),
        },
        _parameters,
    ),
    Question(
        "checkpoint_bytes",
        "bytes of a checkpoint's tensors",
        "B",
        "planner.models.transformer.checkpoint_bytes",
        {"model": MODEL, "weight_format": FORMATS["weight_format"], "formats": FORMATS["formats"]},
        opened(_checkpoint_bytes),
    ),
)
