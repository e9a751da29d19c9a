"""Every spelling that the fact tables print, resolved to one name: systems, models, precisions, units, engines."""

from __future__ import annotations

import difflib
from functools import cache

from planner.errors import InputError
from planner.facts.files import folder, table
from planner.units import UNITS

KINDS = ("system", "model", "precision", "unit", "engine", "release", "switch")


def _folded(text: str) -> str:
    return " ".join(text.lower().replace("_", "-").split())


@cache
def shipped_models() -> dict[str, str]:
    """Return folded name -> name (`owner/model`) of every config that ships with the planner, also without the owner."""
    found: dict[str, str] = {}
    for path in sorted((folder("data") / "models").glob("*_config.json")):
        if not path.name.endswith("hf_quant_config.json"):
            full = path.name.removesuffix("_config.json").replace("--", "/", 1)
            found[_folded(full)] = full
            found.setdefault(_folded(full.split("/")[-1]), full)
    return found


@cache
def _aliases(kind: str) -> dict[str, tuple[str, str]]:
    """Return folded spelling -> (name, note); two names under one folded spelling are ambiguous (GBps and Gbps)."""
    found = {k: (v, "") for k, v in shipped_models().items()} if kind == "model" else {}
    for row in table("aliases.csv"):
        if row["kind"] == kind:
            found.setdefault(_folded(row["name"]), (row["name"], ""))
            name, _ = found.setdefault(_folded(row["alias"]), (row["name"], row["note"]))
            if name != row["name"] and "ambiguous" not in (name, row["name"]) and kind == "unit":
                found[_folded(row["alias"])] = ("ambiguous", f"{name} or {row['name']}: case matters")
    found.pop("ambiguous", None)
    return found


def resolve(kind: str, spelling: str) -> str:
    """Return the catalogue's name for a spelling.

    Parameters: kind, one of `KINDS`; spelling, as a table or a user writes it (case, underscores and spaces do not count).
    Returns: the name. Raises: InputError for an unknown or ambiguous spelling, with the nearest names.
    """
    if not isinstance(spelling, str) or not spelling.strip():
        raise InputError(kind, spelling, f"must be the name of a {kind}")
    names = _aliases(kind)
    found, note = names.get(_folded(spelling[:200]), (None, ""))
    if found == "ambiguous":
        raise InputError(kind, spelling, f"is ambiguous: {note}")
    if found is None:
        near = difflib.get_close_matches(_folded(spelling[:200]), names, n=3, cutoff=0.5)
        hint = ", ".join(dict.fromkeys(names[n][0] for n in near if names[n][0] != "ambiguous"))
        hint = f"nearest: {hint}" if hint else "such as " + ", ".join(sorted({n for n, _ in names.values()} - {"ambiguous"})[:6])
        raise InputError(kind, spelling, f"must be a known {kind} ({hint})")
    return found


def resolve_system(spelling: str) -> str:
    """Return the catalogue id of a system. Raises: InputError."""
    return resolve("system", spelling)


def resolve_switch(spelling: str) -> str:
    """Return the catalogue id of a switch, also by its chip or its capacity. Raises: InputError."""
    return resolve("switch", spelling)


def resolve_model(spelling: str) -> str:
    """Return the catalogue name of a model: that of its config, with or without its owner, or any printed spelling. Raises: InputError."""
    return resolve("model", spelling)


def resolve_precision(spelling: str) -> str:
    """Return the name of a number format; "fp4" alone is refused as ambiguous. Raises: InputError."""
    return resolve("precision", spelling)


def resolve_unit(spelling: str) -> str:
    """Return the table unit for a spelling: a key of `units.UNITS` as it is, then an alias with its case, then without.

    Raises: InputError for an unknown spelling, or one whose case would decide ("gbps").
    """
    if isinstance(spelling, str) and spelling in UNITS:
        return spelling
    exact = next((r["name"] for r in table("aliases.csv") if r["kind"] == "unit" and r["alias"] == spelling), None)
    return exact or resolve("unit", spelling)


@cache
def subjects_of(name: str) -> frozenset[str]:
    """Return the subjects of claims that a system's name stands for, itself included; empty for a word that is no system."""
    try:
        system = resolve_system(name)
    except InputError:
        return frozenset()
    return frozenset({system, *(r["name"] for r in table("aliases.csv") if r["kind"] == "subject" and r["alias"] == system)})
