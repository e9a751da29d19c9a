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
    ends = f"{item.low:,.10g} to {item.high:,.10g}" if item.low is not None and item.high is not None else ""
    if item.value is None:
        return f"{ends} {item.unit}"
    number = f"{item.value:,.10g}" if item.value < 1e15 else f"{item.value:.6g}"
    return f"{item.qualifier} {number} {item.unit}".strip() + (f" ({ends})" if ends and item.low != item.high else "")


def lines(words: str) -> Iterator[str]:
    """Yield one line per claim found by the words, grouped by subject and quantity, the chosen one marked with *."""
    groups: dict[tuple[str, str], list[Claim]] = {}
    for item in find(words):
        groups.setdefault((item.subject, item.quantity), []).append(item)
    for (subject, quantity), group in groups.items():
        values = {(c.value, c.unit, c.basis, c.profile) for c in group if c.value is not None}
        conflict = "  (sources differ)" if len({v[0] for v in values}) > 1 else ""
        yield f"{subject} {quantity}{conflict}"
        for item in group:
            tags = " ".join(t for t in (item.basis, item.profile) if t)
            yield (f"  {'*' if item.chosen else ' '} {item.id} {value_text(item)} [{tags}] grade {item.grade}, {item.as_of or 'undated'}, "
                   f"{sources()[item.source]['title']}")


def claim_rows(ids: Iterable[str]) -> list[dict[str, str]]:
    """Return a row per claim id for a sources table: claim, subject, quantity, value, basis, grade, date and source.

    An id that no table holds is a user's own value and says so.
    """
    rows = []
    for claim_id in ids:
        item = claims().get(claim_id)
        if item is None:
            rows.append({"Claim": claim_id, "Subject": "", "Quantity": "", "Value": "the scenario's own", "Basis": "", "Grade": "P",
                         "As of": "", "Source": "scenario file"})
            continue
        source = sources()[item.source]
        rows.append({"Claim": item.id, "Subject": item.subject, "Quantity": item.quantity, "Value": value_text(item),
                     "Basis": " ".join(t for t in (item.basis, item.profile) if t), "Grade": item.grade, "As of": item.as_of,
                     "Source": source["title"]})
    return rows
