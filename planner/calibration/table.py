"""Calibrated constants as rows: read by name, written by the fits, each with its range, its rows and its source."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from planner.errors import InputError
from planner.facts.files import folder, table

COLUMNS = ("name", "scope", "value", "low", "high", "unit", "rows", "source", "note")


@dataclass(frozen=True)
class Constant:
    """One calibrated constant: value, and low and high (10th and 90th percentile) in its unit; rows, how many it was fitted on."""

    name: str
    scope: str
    value: float
    low: float
    high: float
    unit: str
    rows: int
    source: str
    note: str


@cache
def constants(area: str) -> dict[tuple[str, str], Constant]:
    """Return the constants of one area by (name, scope), from data/calibration/<area>.csv. Raises: InputError for a row that is not a number."""
    found = {}
    for line, row in enumerate(table(f"calibration/{area}.csv"), 2):
        try:
            numbers = {k: float(row[k]) for k in ("value", "low", "high")}
            found[row["name"], row["scope"]] = Constant(**{**row, **numbers, "rows": int(row["rows"])})
        except ValueError:
            raise InputError(f"line {line}", row["value"], "must be numbers", f"data/calibration/{area}.csv") from None
    return found


def constant(area: str, name: str, scope: str = "") -> Constant:
    """Return one constant. Raises: InputError for a name and scope that were not fitted."""
    try:
        return constants(area)[name, scope]
    except KeyError:
        raise InputError(f"calibration {area}", f"{name} {scope}".strip(), "must be a fitted constant") from None


def text(rows: Iterable[Constant]) -> str:
    """Return the constants as CSV text, 6 significant digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in (getattr(row, c) for c in COLUMNS)])
    return out.getvalue()


def write(area: str, rows: Iterable[Constant]) -> None:
    """Write data/calibration/<area>.csv and forget what was read. Returns nothing."""
    place = folder("data") / "calibration"
    place.mkdir(exist_ok=True)
    (place / f"{area}.csv").write_text(text(rows), encoding="utf-8")
    table.cache_clear()
    constants.cache_clear()
