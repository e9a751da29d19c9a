"""What is known, as lines and rows for people: every claim with its grade and source, conflicts side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from planner.facts.evidence import Claim, claims, find
from planner.facts.files import table


@cache
def sources() -> dict[str, dict[str, str]]:
    """Return data/sources.csv by key."""
    return {r["source"]: r for r in table("sources.csv")}


def value_text(item: Claim) -> str:
    """Return a claim's value as printed by its source, or its text, or "not available"."""
    if item.value is None and item.low is None:
        return item.text or "not available"
    large = item.unit == "B" and max(n for n in (item.value, item.low) if n is not None) >= 1e9  # whole bytes read badly
    unit, scale = ("GB", 1e9) if large else (item.unit, 1.0)
    ends = f"{_plain(item.low / scale)} to {_plain(item.high / scale)}" if item.low is not None and item.high is not None else ""
    if item.value is None:
        return f"{ends} {unit}"
    return f"{item.qualifier} {_plain(item.value / scale)} {unit}".strip() + (f" ({ends})" if ends and item.low != item.high else "")


def _plain(number: float) -> str:
    return f"{number:,.15g}" if number < 1e15 else f"{number:.6g}"


def _disagreement(group: list[Claim]) -> str:
    """Return how the numbers of one subject and quantity differ: between sources, or only between bases and profiles."""
    live = [c for c in group if c.base_range and "never chosen" not in c.note]
    by_key: dict[tuple[str, str], set[tuple[float, float]]] = {}
    for item in live:
        by_key.setdefault((item.basis, item.profile), set()).add(tuple(float(f"{e:.9g}") for e in item.base_range))
    if any(len(v) > 1 for v in by_key.values()):
        return "  (sources differ)"
    return "  (differs by basis or profile)" if len({v for values in by_key.values() for v in values}) > 1 else ""


def _why(item: Claim) -> str:
    """Return why a claim was chosen, never is, or was assumed, as far as its note says so."""
    if item.grade == "P":
        return f"; {item.note}" if item.note else ""
    return "".join(f"; {part}" for part in item.note.split("; ") if part.startswith(("chosen of", "never chosen")))


def lines(words: str) -> Iterator[str]:
    """Yield one line per claim found by the words, grouped by subject and quantity, the chosen one marked with * and its reason."""
    groups: dict[tuple[str, str], list[Claim]] = {}
    for item in find(words):
        groups.setdefault((item.subject, item.quantity), []).append(item)
    for (subject, quantity), group in groups.items():
        yield f"{subject} {quantity}{_disagreement(group)}"
        for item in group:
            tags = " ".join(t for t in (item.basis, item.profile) if t)
            place = f", {item.locator}" if item.locator and item.locator not in sources()[item.source]["title"] else ""
            yield (f"  {'*' if item.chosen else ' '} {item.id} {value_text(item)} [{tags}] grade {item.grade}, {item.as_of or 'undated'}, "
                   f"{sources()[item.source]['title']}{place}{_why(item)}")


def claim_rows(ids: Iterable[str]) -> list[dict[str, str]]:
    """Return a row per claim id for a sources table: claim, subject, quantity, value, basis, grade, date and source.

    An id `<table>.csv:<line>` is a row of that table; an id that no table holds is a user's own value and says so.
    """
    rows = []
    for claim_id in ids:
        item, (file, _, line) = claims().get(claim_id), claim_id.partition(":")
        if item is not None:
            cells = (item.subject, item.quantity, value_text(item), " ".join(t for t in (item.basis, item.profile) if t), item.grade, item.as_of,
                     sources()[item.source]["title"])
        elif file.endswith(".csv") and line.isdigit():
            cells = _table_cells(file, int(line))
        else:
            cells = ("", "", "the scenario's own", "", "P", "", "scenario file")
        rows.append(dict(zip(("Claim", "Subject", "Quantity", "Value", "Basis", "Grade", "As of", "Source"), (claim_id, *cells), strict=True)))
    return rows


def _table_cells(file: str, line: int) -> tuple[str, ...]:
    """Return the cells of one line of a price or result table, empty where it has no such column."""
    row = table(file)[line - 2]

    def first(*names: str) -> str:
        return next((row[n] for n in names if row.get(n)), "")

    price = first("usd_per_gpu_hour", "usd_gpu_hr_rental_3yr")
    value = f"{price} USD/GPU-h" if price else f"{first('value', 'all_in_kw_per_gpu')} {first('metric', 'unit')}".strip()
    grade = first("evidence_grade") or ("A" if file.startswith("mlperf") else "E")
    return (f"{first('provider', 'submitter')} {first('gpu', 'accelerator')}".strip(), first("pricing_model", "scenario", "metric"), value,
            "price" if price else "", grade, first("date", "table_date", "round"), first("source_title", "source"))
