"""How far a figure of each grade may be off where its source prints no range: counted from the figures of the table that conflict."""

from __future__ import annotations

import numpy as np

from planner.calibration.table import Constant, constant
from planner.facts.evidence import GRADES, Claim, claims

ENOUGH = 10
LEAST = 0.02
ASSUMED = {"A": (0.98, 1.02), "B": (0.95, 1.05), "C": (0.85, 1.10), "D": (0.80, 1.15), "E": (0.85, 1.20), "F": (0.75, 1.30), "P": (0.5, 2.0)}
SOURCE = "data/claims.csv"


def ratios() -> dict[str, np.ndarray]:
    """Return grade -> each claim over the best claim of its subject, quantity, basis and profile; only numbers, never-chosen rows left out."""
    groups: dict[tuple, list[Claim]] = {}
    for item in claims().values():
        if item.base_value and item.base_value > 0 and item.qualifier in ("", "about") and "never chosen" not in item.note:
            groups.setdefault((item.subject, item.quantity, item.basis, item.profile), []).append(item)
    found: dict[str, list[float]] = {}
    for group in groups.values():
        best = min(group, key=lambda c: (GRADES.index(c.grade), not c.chosen, c.id))
        for item in group:
            if item is not best:
                found.setdefault(item.grade, []).append(item.base_value / best.base_value)
    return {grade: np.array(values) for grade, values in found.items()}


def fit() -> list[Constant]:
    """Return grade_spread by grade: low and high are factors on the value, the 10th and 90th percentile; counted where ten rows conflict."""
    counted, rows = ratios(), []
    for grade, (low, high) in ASSUMED.items():
        seen = counted.get(grade, np.array([]))
        note = f"assumed: {len(seen)} conflicting rows are too few to count"
        if len(seen) >= ENOUGH and grade != "P":
            low, high = (float(v) for v in np.percentile(seen, [10, 90]))
            note = f"counted over {len(seen)} rows that conflict with a better one, at least {LEAST:.0%} each way"
        before = rows[-1] if rows else None
        low, high = min(low, 1 - LEAST), max(high, 1 + LEAST)
        if before is not None:  # a weaker grade is never taken for surer than a stronger one
            if low > before.low or high < before.high:
                note += f"; held as wide as grade {before.scope}"
            low, high = min(low, before.low), max(high, before.high)
        rows.append(Constant("grade_spread", grade, 1.0, low, high, "ratio", len(seen), SOURCE, note))
    return rows


def grade_spread(grade: str) -> Constant:
    """Return the factors of a grade. Raises: InputError for grade X: what is not published has no number to spread."""
    return constant("grades", "grade_spread", grade)
