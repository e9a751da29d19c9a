"""What an answer is: a value, its range, its unit and basis, how it was got, its grade, and the claims behind it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from planner.errors import InputError

HOWS = ("measured", "modelled", "extrapolated", "claimed", "assumed", "exact")
GRADES = "ABCDEFPX"


@dataclass(frozen=True)
class Answer:
    """One number with everything a reader needs to judge it.

    value, None = not available; low and high, the 10th and 90th percentile (exact counts: equal to value); lower and
    upper, the two ends of a bound pair (never a percentile); unit, a key of `units.UNITS`; basis, which of several
    meanings; how, one of `HOWS`; grade, the weakest among the inputs that matter; claims, ids of `data/claims.csv`;
    limit, the resource that binds; note, what a reader must know beside the number (also the reason for "not available").
    """

    name: str
    value: float | None
    unit: str
    how: str
    grade: str
    low: float | None = None
    high: float | None = None
    lower: float | None = None
    upper: float | None = None
    basis: str = ""
    claims: tuple[str, ...] = ()
    limit: str = ""
    note: str = ""

    def __post_init__(self):
        if self.how not in HOWS:
            raise InputError(f"{self.name}.how", self.how, f"must be one of {', '.join(HOWS)}")
        if self.grade not in GRADES:
            raise InputError(f"{self.name}.grade", self.grade, f"must be one of {GRADES}")
        for part in ("value", "low", "high", "lower", "upper"):
            number = getattr(self, part)
            if number is not None and not math.isfinite(number):
                raise InputError(f"{self.name}.{part}", number, "must be finite, or None for not available")
        for small, large in (("low", "high"), ("lower", "upper")):
            a, b = getattr(self, small), getattr(self, large)
            if a is not None and b is not None and a > b:
                raise InputError(f"{self.name}.{small}", a, f"must be <= {large} ({b!r})")

    def as_dict(self) -> dict:
        """Return the answer as plain JSON types, fields in declaration order."""
        return {**asdict(self), "claims": list(self.claims)}


def exact(name: str, value: float, unit: str, **more) -> Answer:
    """Return an exact count as an Answer: low = value = high, how `exact`, grade A unless given."""
    return Answer(name, value, unit, **{"how": "exact", "grade": "A", "low": value, "high": value, **more})


def missing(name: str, unit: str, note: str, **more) -> Answer:
    """Return "not available": no value, grade X unless given, and the reason."""
    return Answer(name, None, unit, **{"how": "assumed", "grade": "X", "note": note, **more})


def weakest(*grades: str) -> str:
    """Return the weakest of the grades given, in the order A B C D E F P X."""
    return max((g for g in grades if g), key=GRADES.index, default="X")


def ratio(first: Answer, second: Answer) -> float:
    """Return first over second, or refuse: two answers compare only in one unit and on one basis (dense with dense, one per-user speed).

    Raises: InputError naming both bases, or for an answer that is not available.
    """
    for item in (first, second):
        if item.value is None:
            raise InputError(item.name, None, f"is not available: {item.note}")
    if (first.unit, first.basis) != (second.unit, second.basis):
        raise InputError(
            "basis", f"{first.basis or first.unit} against {second.basis or second.unit}", "must be the same on both sides, or converted first"
        )
    return first.value / second.value
