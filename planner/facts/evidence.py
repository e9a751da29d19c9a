"""Claims: one number, one source, one grade a row; read whole, checked whole, found by words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from planner.errors import InputError
from planner.facts.files import table
from planner.units import UNITS, to_base

GRADES = "ABCDEFPX"
FILE = "data/claims.csv"


@dataclass(frozen=True)
class Claim:
    """One row of data/claims.csv. value, low, high in the source's own `unit`; None = not available; text for facts in words."""

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
        """The value in its base unit, None when not available."""
        return None if self.value is None else float(to_base(self.value, self.unit))

    @property
    def base_range(self) -> tuple[float, float] | None:
        """Low and high in the base unit, both the value where no range is printed; None when not available."""
        if self.value is None:
            return None
        low, high = (self.value if v is None else v for v in (self.low, self.high))
        return float(to_base(low, self.unit)), float(to_base(high, self.unit))


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
    claims, ids, picked = [], {}, {}
    for line, row in enumerate(rows, 2):
        def bad(field, allowed, row=row, line=line):
            return InputError(f"line {line}, {field}", row[field], allowed, FILE)

        if row["id"] in ids or not row["id"]:
            raise bad("id", f"must be given once (also on line {ids.get(row['id'])})")
        ids[row["id"]] = line
        if row["unit"] not in UNITS:
            raise bad("unit", "must be a known unit")
        for field in ("quantity", "basis"):
            if f"{field}:{row[field]}" not in words:
                raise bad(field, "must be a word of data/vocabulary.csv")
        if row["grade"] not in GRADES or len(row["grade"]) != 1:
            raise bad("grade", f"must be one of {' '.join(GRADES)}")
        if row["source"] not in sources:
            raise bad("source", "must be a key of data/sources.csv")
        value, low, high = (_number(row, f, line) for f in ("value", "low", "high"))
        if value is None and (low is not None or high is not None):
            raise bad("value", "must be given where low or high is")
        if value is not None and not (value if low is None else low) <= value <= (value if high is None else high):
            raise bad("value", f"must lie between low ({row['low']}) and high ({row['high']})")
        if row["grade"] == "X" and value is not None:
            raise bad("value", "must be empty at grade X (known to be unpublished)")
        chosen = row["chosen"] == "1"
        key = (row["subject"], row["quantity"], row["basis"], row["profile"])
        if chosen and key in picked:
            raise bad("chosen", f"must mark one row of {' '.join(k for k in key if k)} (also line {picked[key]})")
        if chosen:
            picked[key] = line
        claims.append(Claim(**{**row, "value": value, "low": low, "high": high, "chosen": chosen}))
    return claims


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


def find(words: str) -> Iterator[Claim]:
    """Yield every claim in which each word stands in the subject, quantity, text or basis; the order of the table.

    A system's name also finds the claims of its accelerator.
    """
    from planner.facts.names import subjects_of

    wanted = words.lower().replace("_", " ").split()
    subjects = {w: subjects_of(w) for w in wanted}
    for item in claims().values():
        text = " ".join((item.id, item.subject, item.quantity, item.text, item.basis, item.profile)).lower().replace("_", " ")
        if all(w in text or item.subject in subjects[w] for w in wanted):
            yield item
