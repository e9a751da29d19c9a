"""Dated prices of GPU-hours: what a provider lists, what an index settles, what an analyst estimates; a missing one stays missing."""

from __future__ import annotations

import datetime
import re
import statistics
from dataclasses import dataclass
from functools import cache

from planner.errors import InputError
from planner.facts.files import table
from planner.facts.names import resolve_system

KINDS = ("on-demand", "spot", "preemptible", "index", "owning, hyperscaler", "owning, neocloud giant", "3-year rental", "contract index")
REPEATS = ("average of listings",)  # rows that repeat list prices
ESTIMATES = {"owning, hyperscaler": "usd_gpu_hr_hyperscaler_own", "owning, neocloud giant": "usd_gpu_hr_neocloud_own",
             "3-year rental": "usd_gpu_hr_rental_3yr"}
GRADES = "ABCDEFPX"


@dataclass(frozen=True)
class Rent:
    """A price of one GPU for one hour [USD]: the middle of what is listed and its ends, None = not available; with its date and rows.

    usd_per_gpu_hour, low, high; as_of, the newest date among the rows; claims, `prices.csv:<line>` or
    `power_and_price_estimates.csv:<line>`; grade, the weakest among them; note, why nothing is known, or what a reader must know.
    """

    system: str
    kind: str
    usd_per_gpu_hour: float | None
    low: float | None
    high: float | None
    as_of: str
    grade: str
    claims: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Estimate:
    """An analyst's constants for one system at one table date: USD per GPU-hour by way of holding it, and all-in power.

    usd_per_gpu_hour by kind of `KINDS`; all_in_watts [W] per GPU inside `boundary`, which changes between table dates: never mix them.
    """

    system: str
    table_date: str
    usd_per_gpu_hour: dict[str, float]
    all_in_watts: float
    boundary: str
    claim: str


def _day(text: str | datetime.date, name: str = "as_of") -> datetime.date:
    """Return the first day that a date, a month or a year names. Raises: InputError."""
    if isinstance(text, datetime.datetime):
        return text.date()
    if isinstance(text, datetime.date):
        return text
    parts = str(text).strip().split("-")
    try:
        return datetime.date(*(int(p) for p in [*parts, "1", "1"][:3])) if 1 <= len(parts) <= 3 else datetime.date.fromisoformat(str(text))
    except (ValueError, OverflowError, TypeError):
        raise InputError(name, text, "must be a date such as 2026-11-30") from None


@dataclass(frozen=True)
class _Listing:
    system: str
    kind: str
    product: str
    price: float | None
    size: int
    day: datetime.date
    grade: str
    id: str
    note: str


@cache
def _listed() -> tuple[_Listing, ...]:
    """Return every listed price of one known system; rows of two GPUs under one price and of others are left out."""
    found = []
    for line, row in enumerate(table("prices.csv"), 2):
        if row["system"] in REPEATS or row["gpu"] == "any":
            continue
        try:
            system = resolve_system(row["gpu"])
        except InputError:
            continue
        kind = "index" if row["pricing_model"] == "on-demand index" else row["pricing_model"]
        product = f"{row['provider']} {re.sub(r'^[0-9]+x ', '', row['system'])} {row['region']}"
        price, size = (float(row[c]) if row[c] else None for c in ("usd_per_gpu_hour", "gpus_per_instance"))
        day = _day(row["date"], f"line {line}, date")
        found.append(_Listing(system, kind, product, price, int(size or 0), day, row["evidence_grade"], f"prices.csv:{line}", row["note"]))
    return tuple(found)


def rent(system: str, as_of: str | datetime.date, kind: str = "on-demand") -> Rent:
    """Return what one GPU-hour of a system costs on a day.

    Parameters: system, any spelling; as_of, a date: of each provider's product the newest row up to that day counts, of the largest
    instance, and prices announced for later do not; kind, one of `KINDS`. Returns: Rent with the median and the two ends; all None
    where nobody lists a price.
    Raises: InputError for an unknown system or kind, or a value that is no date.
    """
    name, day = resolve_system(system), _day(as_of)
    if kind not in KINDS:
        raise InputError("kind", kind, f"must be one of {', '.join(KINDS)}")
    if kind in ESTIMATES:
        return _estimated(name, day, kind)
    newest: dict[str, _Listing] = {}
    asked = ""
    for item in _listed():
        if item.system != name or item.kind not in (kind, "any") or item.day > day:
            continue
        asked = item.note or "providers say to contact sales"
        held = newest.get(item.product)
        if item.price is not None and (held is None or (held.day, held.size) <= (item.day, item.size)):
            newest[item.product] = item
    if not newest:
        why = asked or f"no {kind} price is listed up to {day}"
        return Rent(name, kind, None, None, None, "", "X", (), f"not available: {why}")
    rows = sorted(newest.values(), key=lambda r: (r.price, r.id))
    values = [r.price for r in rows]
    note = f"median of {len(rows)} listings" if len(rows) > 1 else "one listing"
    return Rent(name, kind, round(statistics.median(values), 6), values[0], values[-1], str(max(r.day for r in rows)),
                max((r.grade for r in rows), key=GRADES.index), tuple(r.id for r in rows), note)


def estimates(system: str, as_of: str | datetime.date) -> list[Estimate]:
    """Return the analyst's tables that hold the system up to a day, oldest first; [] where none does. Raises: InputError."""
    name, day, boundary, found = resolve_system(system), _day(as_of), "", []
    for line, row in enumerate(table("power_and_price_estimates.csv"), 2):
        boundary = row["power_definition"] if not row["power_definition"].startswith("same") else boundary
        try:
            its = resolve_system(row["gpu"])
        except InputError:
            continue
        if its == name and _day(row["table_date"].split("..")[0]) <= day:
            prices = {k: float(row[c]) for k, c in ESTIMATES.items() if row[c]}
            found.append(Estimate(name, row["table_date"], prices, float(row["all_in_kw_per_gpu"]) * 1e3, boundary,
                                  f"power_and_price_estimates.csv:{line}"))
    return sorted(found, key=lambda e: e.table_date)


def _estimated(name: str, day: datetime.date, kind: str) -> Rent:
    """Return the newest analyst estimate of a kind up to a day; low and high span the tables of the last year."""
    held = [e for e in estimates(name, day) if kind in e.usd_per_gpu_hour]
    if not held:
        return Rent(name, kind, None, None, None, "", "X", (), f"not available: no analyst table holds it up to {day}")
    last = held[-1]
    values = [e.usd_per_gpu_hour[kind] for e in held]
    return Rent(name, kind, last.usd_per_gpu_hour[kind], min(values), max(values), last.table_date, "E", tuple(e.claim for e in held[::-1]),
                f"one analyst, tables of {', '.join(e.table_date for e in held)}")
