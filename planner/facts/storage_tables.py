"""Storage tiers and training-state formats as their tables print them: names and spellings to rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from planner.errors import InputError
from planner.facts.files import table
from planner.units import to_base

SECONDS_PER_MONTH = 2628000.0


@dataclass(frozen=True)
class Tier:
    """One storage tier, None = unknown. storage_usd [USD/B/month]; retrieval_usd and egress_usd [USD/B]; minimum_days [day]."""

    name: str
    provider: str
    storage_usd: float | None
    retrieval_usd: float | None
    egress_usd: float | None
    minimum_days: float | None
    grade: str
    date: str
    note: str = ""


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", str(text).lower())


def _per_byte(price: str, unit: str) -> float | None:
    """Return a price per byte from one per GB or GiB, as the unit column says; None where blank."""
    if price == "":
        return None
    return float(to_base(float(price), "USD/GiB" if unit.startswith("GiB") else "USD/GB"))


@cache
def tiers() -> tuple[Tier, ...]:
    """Return every tier of data/storage_prices.csv, prices per byte by the unit its provider bills (GB or GiB)."""
    found = []
    for r in table("storage_prices.csv"):
        unit = r["unit"]
        found.append(Tier(f"{r['provider']} {r['tier']}", r["provider"], _per_byte(r["usd_per_gb_month"], unit),
                          _per_byte(r["retrieval_usd_per_gb"], unit), _per_byte(r["egress_usd_per_gb"], unit),
                          float(r["min_duration_days"]) if r["min_duration_days"] else None, r["evidence_grade"], r["date"], r["note"]))
    return tuple(found)


def tier(given: str | Mapping) -> Tier:
    """Return a tier by its name ("CoreWeave Archive", "Glacier Deep Archive (standard)"), or from an object with its prices.

    An object has storage_usd_per_gb_month, retrieval_usd_per_gb, egress_usd_per_gb, minimum_days and unit (GB or GiB; GB where absent); a price
    that is absent or null is not available, never 0. Raises: InputError for an unknown or ambiguous name.
    """
    if isinstance(given, Mapping):
        return _own(given)
    wanted = _plain(given)
    if not wanted:
        raise InputError("tier", given, "must name a tier of data/storage_prices.csv")
    whole = [t for t in tiers() if wanted in (_plain(t.name), _plain(t.name.replace("(us-east-1)", "").replace("(us-central1)", "")))]
    inside = whole or [t for t in tiers() if t.name.lower().endswith(str(given).strip().lower())]
    words = [w for w in re.split(r"[^a-z0-9]+", str(given).lower()) if w]
    inside = inside or [t for t in tiers() if all(w in re.split(r"[^a-z0-9]+", t.name.lower()) for w in words)]
    if len(inside) != 1:
        names = "; ".join(t.name for t in (inside or tiers()))
        raise InputError("tier", given, f"must be one of: {names}" if not inside else f"names {len(inside)} tiers, say which: {names}")
    return inside[0]


_OWN = {"storage": "storage_usd_per_gb_month", "usd_per_gb_month": "storage_usd_per_gb_month", "storage_price": "storage_usd_per_gb_month",
        "price": "storage_usd_per_gb_month", "storage_usd": "storage_usd_per_gb_month", "retrieval": "retrieval_usd_per_gb",
        "retrieval_fee": "retrieval_usd_per_gb", "retrieval_usd": "retrieval_usd_per_gb", "egress": "egress_usd_per_gb",
        "egress_fee": "egress_usd_per_gb", "egress_usd": "egress_usd_per_gb", "min_duration_days": "minimum_days"}


def _own(given: Mapping) -> Tier:
    names = ("name", "provider", "tier", "unit", "storage_usd_per_gb_month", "retrieval_usd_per_gb", "egress_usd_per_gb", "minimum_days")
    own = {_OWN.get(k, k): v for k, v in given.items()}
    unknown = [k for k in own if k not in names]
    if unknown:
        raise InputError(f"tier.{unknown[0]}", own[unknown[0]], f"must be one of {', '.join(names)}")
    if "storage_usd_per_gb_month" not in own and own.get("tier"):
        return tier(f"{own.get('provider', '')} {own['tier']}".strip())
    unit = str(own.get("unit", "GB"))
    if unit not in ("GB", "GiB"):
        raise InputError("tier.unit", unit, "must be GB or GiB")

    def price(name):
        value = own.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e6:
            raise InputError(f"tier.{name}", value, "must be a number >= 0 in USD, or null for not available")
        return _per_byte(str(float(value)), unit)

    return Tier(str(own.get("name") or own.get("tier") or "own tier"), str(own.get("provider", "own")), price("storage_usd_per_gb_month"),
                price("retrieval_usd_per_gb"), price("egress_usd_per_gb"), own.get("minimum_days"), "P", "", "the user's own prices")


def state_format(name: str) -> tuple[str, dict[str, float], str]:
    """Return (id, component -> bytes per parameter, weakest grade) of a training-state format. Raises: InputError naming the known ones."""
    rows = table("state_formats.csv")
    wanted = _plain(name)
    for row in rows:
        if wanted in (_plain(row["name"]), *(_plain(s) for s in row["spellings"].split(";") if s)):
            own = [r for r in rows if r["name"] == row["name"]]
            return row["name"], {r["component"]: float(r["bytes_per_param"]) for r in own}, max(r["grade"] for r in own)
    known = ", ".join(dict.fromkeys(r["name"] for r in rows))
    raise InputError("state_format", name, f"must be one of {known}, or an object component -> bytes per parameter")
