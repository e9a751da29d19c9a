"""What the door for users says no to, and how: one line a fault with file, key, value and what is allowed."""

from __future__ import annotations

import math

from pydantic import ValidationError

from planner.errors import InputError

MAX_DEPTH = 32


def refuse_unusable(value, key: str, file: str, depth: int = 0) -> None:
    """Refuse what TOML reads and no plan can use: NaN, infinities, huge integers, deep nesting. Raises: InputError naming the key."""
    if depth > MAX_DEPTH:
        raise InputError(key.split(".")[0], "…", f"must be nested at most {MAX_DEPTH} deep", file)
    if isinstance(value, dict):
        for name, part in value.items():
            refuse_unusable(part, f"{key}.{name}" if key else name, file, depth + 1)
    elif isinstance(value, list):
        for i, part in enumerate(value):
            refuse_unusable(part, f"{key}[{i}]", file, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(key, value, "must be a finite number", file)
    elif isinstance(value, int) and abs(value) > 10**18:
        raise InputError(key, value, "must be at most 1e18", file)


PLAIN_WORDS = {  # pydantic's names of a fault -> what a user is told
    "missing": "is required",
    "model_type": "must be a table of keys",
    "model_attributes_type": "must be a table of keys",
    "dict_type": "must be a table of keys",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "too_short": "must have at least one entry",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "date_type": "must be a date such as 2026-11-30, not in quotes",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
}
_HINTS = {"utilisation_fraction": "a share in 0..1", "cache_hit_fraction": "a share in 0..1"}


def in_plain_words(error: ValidationError, file: str) -> list[InputError]:
    """Return one InputError for each fault that pydantic found, in words of the scenario file.

    Parameters: error; file, the name for the messages. Returns: list, in the order of the file. Raises: nothing.
    """
    found: list[InputError] = []
    items = error.errors()
    for item in items:
        if item["type"] == "too_short" and any(other["loc"][:1] == item["loc"] and other is not item for other in items):
            continue  # the list is "too short" only because an entry of it was refused
        key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in item["loc"]).lstrip(".")
        allowed = item["msg"].removeprefix("Value error, ").replace("Input should", "must").replace("String should", "must")
        allowed = allowed[:1].lower() + allowed[1:]
        if item["type"] == "extra_forbidden":
            allowed = "is not a key of the scenario file (see `planner schema`)"
        elif item["type"] in PLAIN_WORDS:
            allowed = PLAIN_WORDS[item["type"]]
        value = item.get("input")
        leaf = key.rsplit(".", 1)[-1]
        if leaf == "utilisation_fraction" and item["type"] == "greater_than_equal":
            allowed += ": a fleet loaded to less than 1 % is no plan"
        if leaf in _HINTS and isinstance(value, (int, float)) and not isinstance(value, bool) and 1 < value <= 100:
            allowed += f" ({_HINTS[leaf]}: {value:g} % is {value / 100:g})"
        if item["type"] == "missing":
            value = None
        elif isinstance(value, (dict, list)):
            value = f"{len(value)} entries"
        stem, _, end = key.rpartition(".")
        if end in ("value", "high") and any(e.field == f"{stem}.low" and e.value == value and e.allowed == allowed for e in found):
            continue  # one number was typed and stands for all three
        found.append(InputError(key or "scenario", value, allowed, file))
    return found
