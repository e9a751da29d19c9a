"""Published fabrics by name: the rows of data/fabric_rules.csv joined with the counting model."""

from __future__ import annotations

import re
from dataclasses import fields
from difflib import get_close_matches
from functools import cache

from planner.errors import InputError
from planner.facts.files import table as read_table
from planner.models.fabric.rules import Rule

_NUMBERS = {f.name for f in fields(Rule) if f.type == "int"}


def folded(text: str) -> str:
    """Return a spelling without case, punctuation and double spaces: what names are compared by."""
    return " ".join(re.sub(r"[^0-9a-z]+", " ", str(text).lower()).split())


@cache
def rules() -> tuple[Rule, ...]:
    """Return every published design, in file order. Raises: InputError naming file and line for a cell that is not a count."""
    found = []
    for line, row in enumerate(read_table("fabric_rules.csv"), 2):
        values = {}
        for name, text in row.items():
            if name == "aliases" or (name in _NUMBERS and not text):
                continue
            if name in _NUMBERS and not text.isdigit():
                raise InputError(f"line {line}, {name}", text, "must be a whole number or empty", "data/fabric_rules.csv")
            values[name] = int(text) if name in _NUMBERS else text
        found.append(Rule(**values))
    return tuple(found)


@cache
def _by_name() -> dict[str, tuple[Rule, ...]]:
    names: dict[str, tuple[Rule, ...]] = {}
    for rule, row in zip(rules(), read_table("fabric_rules.csv"), strict=True):
        for spelling in {folded(rule.design), folded(f"{rule.design} {rule.table}"), *map(folded, filter(None, row["aliases"].split(";")))}:
            names[spelling] = (*names.get(spelling, ()), rule)
    return names


def named(design: str, table: str | None = None) -> tuple[Rule, ...]:
    """Return the rules a printed name stands for: one, or several where it has several tables and none is named.

    Parameters: design, any printed spelling; table, as the published tables name it (a part that only one holds will do).
    Raises: InputError with the nearest names, or with the design's tables.
    """
    if not isinstance(design, str) or not folded(design):
        raise InputError("design", design, "must be the name of a published design, or general")
    found = _by_name().get(folded(design))
    if found is None:
        near = [_by_name()[n][0].design for n in get_close_matches(folded(design), _by_name(), 3, 0.5)]
        known = list(dict.fromkeys(near)) or list(dict.fromkeys(r.design for r in rules()))
        raise InputError("design", design, f"must be general or a published design (nearest: {'; '.join(known)})")
    if table in (None, ""):
        return found
    wanted = folded(table)
    chosen = tuple(r for r in found if folded(r.table) == wanted) or tuple(r for r in found if wanted in folded(r.table))
    if len(chosen) != 1:
        raise InputError("table", table, f"of {found[0].design} must be one of: {'; '.join(r.table for r in found)}")
    return chosen
