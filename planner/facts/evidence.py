"""Claims: one number, one source, one grade a row; read whole, checked whole, found by words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from planner.errors import InputError
from planner.facts.files import table
from planner.units import UNITS

GRADES = "ABCDEFPX"
FILE = "data/claims.csv"


@dataclass(frozen=True)
class Claim:
    """One row of data/claims.csv, digit for digit in the source's own `unit`.

    A printed range holds low and high and no value; neither means "not available"; text holds facts in words.
    """

    id: str
    subject: str
    quantity: str
    value: float | None
    low: float | None
    high: float | None
    qualifier: str
    text: str
    unit: str
    basis: str
    profile: str
    grade: str
    source: str
    locator: str
    as_of: str
    chosen: bool
    note: str

    @property
    def base_value(self) -> float | None:
        """The value in its base unit, the middle of a printed range; None when not available."""
        if self.value is None and self.low is None:
            return None
        middle = (self.low + self.high) / 2 if self.value is None else self.value
        return middle * UNITS[self.unit][1]

    @property
    def base_range(self) -> tuple[float, float] | None:
        """Low and high in the base unit, both the value where no range is printed; None when not available."""
        if self.value is None and self.low is None:
            return None
        factor = UNITS[self.unit][1]
        return tuple((self.value if v is None else v) * factor for v in (self.low, self.high))


@cache
def vocabulary() -> dict[str, dict[str, str]]:
    """Return data/vocabulary.csv by kind and name: `kind:name` -> row."""
    return {f"{r['kind']}:{r['name']}": r for r in table("vocabulary.csv")}


def _number(row: Mapping[str, str], field: str, line: int) -> float | None:
    if not row[field]:
        return None
    try:
        value = float(row[field])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"line {line}, {field}", row[field], "must be a finite number or empty", FILE)
    return value


def check(rows, words: Mapping, sources: set[str]) -> list[Claim]:
    """Return the claims of a table, checked whole.

    Parameters: rows, dicts with the columns of `Claim`; words, the vocabulary by `kind:name`; sources, the known source keys.
    Raises: InputError naming file, line and field for an unknown unit, quantity, basis, grade or source, a duplicate id, a range
    that does not hold its value, a value beside grade X, or two rows chosen for one (subject, quantity, basis, profile).
    """
    found, ids, picked = [], {}, {}
    for line, row in enumerate(rows, 2):
        if row["id"] in ids or not row["id"]:
            raise _bad(row, line, "id", f"must be given once (also on line {ids.get(row['id'])})")
        ids[row["id"]] = line
        for field, known, allowed in (
            ("unit", row["unit"] in UNITS, "must be a known unit"),
            ("quantity", "quantity:" + row["quantity"] in words, "must be a word of data/vocabulary.csv"),
            ("basis", "basis:" + row["basis"] in words, "must be a word of data/vocabulary.csv"),
            ("grade", row["grade"] in GRADES and len(row["grade"]) == 1, f"must be one of {' '.join(GRADES)}"),
            ("source", row["source"] in sources, "must be a key of data/sources.csv"),
            ("chosen", row["chosen"] in ("", "1"), "must be 1 or empty"),
        ):
            if not known:
                raise _bad(row, line, field, allowed)
        value, low, high = (_number(row, f, line) for f in ("value", "low", "high"))
        _check_range(row, line, value, low, high)
        key = (row["subject"], row["quantity"], row["basis"], row["profile"])
        if row["chosen"] and picked.setdefault(key, line) != line:
            raise _bad(row, line, "chosen", f"must mark one row of {' '.join(k for k in key if k)} (also line {picked[key]})")
        found.append(Claim(**{**row, "value": value, "low": low, "high": high, "chosen": row["chosen"] == "1"}))
    return found


def _bad(row: Mapping, line: int, field: str, allowed: str) -> InputError:
    return InputError(f"line {line}, {field}", row[field], allowed, FILE)


def _check_range(row: Mapping, line: int, value: float | None, low: float | None, high: float | None) -> None:
    if value is None and (low is None) != (high is None):
        raise _bad(row, line, "low" if low is None else "high", "must be given: a range without a value has two ends")
    field, middle = ("value", value) if value is not None else ("low", low)
    if middle is None:
        return
    if not (middle if low is None else low) <= middle <= (middle if high is None else high):
        raise _bad(row, line, field, f"must lie between low ({row['low']}) and high ({row['high']})")
    if row["grade"] == "X":
        raise _bad(row, line, field, "must be empty at grade X (known to be unpublished)")


@cache
def claims() -> dict[str, Claim]:
    """Return every claim by id, the whole table checked. Raises: InputError as `check`."""
    found = check(table("claims.csv"), vocabulary(), {r["source"] for r in table("sources.csv")})
    return {c.id: c for c in found}


def claim(claim_id: str) -> Claim:
    """Return one claim. Raises: InputError for an id that is not there."""
    try:
        return claims()[claim_id]
    except KeyError:
        raise InputError("claim", claim_id, f"must be an id of {FILE}") from None


def chosen(subject: str, quantity: str, basis: str = "", profile: str = "") -> Claim | None:
    """Return the chosen claim of a subject and quantity (and basis, profile where given), None when nothing is known."""
    for item in claims().values():
        if item.chosen and (item.subject, item.quantity, item.profile) == (subject, quantity, profile) and basis in ("", item.basis):
            return item
    return None


@cache
def _groups() -> dict[tuple[str, str, str, str], list[Claim]]:
    found: dict[tuple[str, str, str, str], list[Claim]] = {}
    for item in claims().values():
        if "never chosen" not in item.note:
            found.setdefault((item.subject, item.quantity, item.basis, item.profile), []).append(item)
    return found


def conflicts(item: Claim) -> list[Claim]:
    """Return the other claims of the same subject, quantity, basis and profile that may be chosen."""
    group = _groups().get((item.subject, item.quantity, item.basis, item.profile), [])
    return [c for c in group if c.id != item.id]


def spread(item: Claim) -> tuple[float, float]:
    """Return low and high over a claim's range and over every claim in conflict with it [base unit].

    Raises: InputError for a claim without a number.
    """
    if item.base_range is None:
        raise InputError("claim", item.id, "must hold a number")
    ends = [item.base_range, *(c.base_range for c in conflicts(item) if c.base_range)]
    return min(low for low, _ in ends), max(high for _, high in ends)


def _own(key: str, given) -> tuple[float, float, float]:
    """Return value, low and high of a user's own number, checked: finite, above zero, in order."""
    parts = [given.get(k) if isinstance(given, Mapping) else getattr(given, k, None) for k in ("value", "low", "high")]
    value = given if parts[0] is None and not isinstance(given, Mapping) else parts[0]
    low, high = (value if p is None else p for p in parts[1:])
    for number in (value, low, high):
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number <= 1e300:
            raise InputError(f"facts.{key}", number, "must be a finite number > 0")
    if not low <= value <= high:
        raise InputError(f"facts.{key}", value, f"must lie between low ({low:g}) and high ({high:g})")
    return float(value), float(low), float(high)


def own_claim(item: Claim, facts: Mapping) -> Claim:
    """Return a claim, or the user's own value in its place where `facts` names its id (in the claim's unit).

    The own value keeps subject, quantity, unit and basis; its id is `own:<id>`, its grade P, its source `user`.
    Raises: InputError for a value that is not a finite number > 0.
    """
    if item.id not in facts:
        return item
    value, low, high = _own(item.id, facts[item.id])
    return replace(item, id=f"own:{item.id}", value=value, low=low, high=high, qualifier="", text="", grade="P", source="user", locator="",
                   as_of="", note=f"the user's own value in place of {item.id}")


def own_number(key: str, quantity: str, given) -> Claim:
    """Return a user's own value of a catalogue field as a claim in the field's base unit. Raises: InputError as `own_claim`."""
    value, low, high = _own(key, given)
    return Claim(f"own:{key}", key.rpartition(".")[0], quantity, value, low, high, "", "", "1", "as_printed", "", "P", "user", "", "", True,
                 "the user's own value")


def find(words: str) -> Iterator[Claim]:
    """Yield every claim in which each word stands in the subject, quantity, text or basis; the order of the table.

    A system's name, in any spelling and also of several words ("GB300 NVL72"), finds the claims of its accelerator too.
    """
    from planner.facts.names import subjects_of

    given, wanted = words.replace("_", " ").split(), []
    while given:
        size = next((n for n in (3, 2) if len(given) >= n and subjects_of(" ".join(given[:n]))), 1)
        word = " ".join(given[:size])
        wanted.append((word.lower(), subjects_of(word)))
        given = given[size:]
    for item in claims().values():
        text = " ".join((item.id, item.subject, item.quantity, item.text, item.basis, item.profile)).lower().replace("_", " ")
        if all(word in text or item.subject in subjects for word, subjects in wanted):
            yield item
