"""Every spelling that the fact tables print, resolved to one name: systems, models, precisions, units, engines."""

from __future__ import annotations

import difflib
from functools import cache

from planner.errors import InputError
from planner.facts.files import table

KINDS = ("system", "model", "precision", "unit", "engine", "release", "switch")


def _folded(text: str) -> str:
    return " ".join(text.lower().replace("_", "-").split())


@cache
def _aliases(kind: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in table("aliases.csv"):
        if row["kind"] == kind:
            found[_folded(row["alias"])] = row["name"]
            found.setdefault(_folded(row["name"]), row["name"])
    return found


def resolve(kind: str, spelling: str) -> str:
    """Return the catalogue's name for a spelling.

    Parameters: kind, one of `KINDS`; spelling, as a table or a user writes it (case, underscores and spaces do not count).
    Returns: the name. Raises: InputError for an unknown or ambiguous spelling, with the nearest names.
    """
    if not isinstance(spelling, str) or not spelling.strip():
        raise InputError(kind, spelling, f"must be the name of a {kind}")
    names = _aliases(kind)
    found = names.get(_folded(spelling))
    if found == "ambiguous":
        choices = [r["note"] for r in table("aliases.csv") if r["kind"] == kind and _folded(r["alias"]) == _folded(spelling)]
        raise InputError(kind, spelling, f"is ambiguous: {choices[0]}")
    if found is None:
        near = difflib.get_close_matches(_folded(spelling), names, n=3, cutoff=0.5)
        hint = ", ".join(dict.fromkeys(names[n] for n in near)) or ", ".join(sorted(set(names.values()) - {"ambiguous"})[:12])
        raise InputError(kind, spelling, f"must be a known {kind} (nearest: {hint})")
    return found


def resolve_system(spelling: str) -> str:
    """Return the catalogue id of a system. Raises: InputError."""
    return resolve("system", spelling)


def resolve_switch(spelling: str) -> str:
    """Return the catalogue id of a switch, also by its chip or its capacity. Raises: InputError."""
    return resolve("switch", spelling)


def resolve_model(spelling: str) -> str:
    """Return the catalogue name of a model. Raises: InputError."""
    return resolve("model", spelling)


def resolve_precision(spelling: str) -> str:
    """Return the name of a number format; "fp4" alone is refused as ambiguous. Raises: InputError."""
    return resolve("precision", spelling)


def resolve_unit(spelling: str) -> str:
    """Return the table unit for a spelling; a key of `units.UNITS` passes as it is, case kept. Raises: InputError."""
    from planner.units import UNITS

    return spelling if spelling in UNITS else resolve("unit", spelling)


@cache
def subjects_of(name: str) -> frozenset[str]:
    """Return the subjects of claims that a system's name stands for, itself included; empty for a word that is no system."""
    try:
        system = resolve_system(name)
    except InputError:
        return frozenset()
    return frozenset({system, *(r["name"] for r in table("aliases.csv") if r["kind"] == "subject" and r["alias"] == system)})
