"""Write the fact tables of data/ from a folder of collected reference tables: every row survives, in closed words and with keys.

Run as `python tools/import_reference.py FOLDER`. Values stay digit for digit in the source's own unit; a printed range fills low and
high and leaves the value empty; "about" and ">" go to `qualifier`; unpublished values are empty, grade X. Rows of
tools/assumptions.csv join as they are. The rules stand in import_rules.py.
"""

from __future__ import annotations

import csv
import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import import_rules as rules  # noqa: E402

DATA = ROOT / "data"
COLUMNS = ["id", "subject", "quantity", "value", "low", "high", "qualifier", "text", "unit", "basis", "profile", "grade", "source",
           "locator", "as_of", "chosen", "note"]
COPIED = ("prices.csv", "storage_prices.csv", "power_and_price_estimates.csv", "reliability.csv", "checkpoint_rl.csv",
          "mlperf_results.csv", "mlperf_systems.csv", "mlperf_latency.csv", "mlperf_constraints.csv", "vllm_memory_measured.csv",
          "model_sizes.csv", "serving_published.csv", "serving_oracle.csv")
OWN_SOURCES = (
    ("planner", "This project's own assumption", "", "Planner", "2026-11-30"),
    ("reference-notes", "Notes kept with the collected tables: driver-reported memory sizes", "", "Planner", "2026-11-30"),
    ("mlperf-systems", "MLPerf Inference v5.1, v6.0 and v6.1: system descriptions of submitters", "https://github.com/mlcommons", "MLCommons",
     "2026-09"),
    ("inferencex-estimates", "InferenceX power and price constants by table date", "https://github.com/SemiAnalysisAI/InferenceX-app",
     "SemiAnalysis", "2026-09"))


def rows(path: Path) -> list[dict]:
    """Return a CSV file's rows as dicts."""
    with path.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def units_known() -> set[str]:
    """Return the table units that planner.units knows."""
    from planner.units import UNITS

    return set(UNITS)


def unit_of(quantity: str, printed: str, known: set[str]) -> str:
    """Return the closed unit for a printed one; a noun that is counted becomes `count`, a percent of something `%`."""
    if quantity in rules.UNITS_BY_QUANTITY:
        return rules.UNITS_BY_QUANTITY[quantity]
    if printed in rules.UNITS:
        return rules.UNITS[printed]
    if printed in known:
        return printed
    return "%" if printed.startswith("%") else "count"


def value_of(printed: str) -> dict:
    """Split a printed value into value, low, high, qualifier and text, digit for digit."""
    plain = printed.strip()
    if re.fullmatch(r"-?[\d.]+(e-?\d+)?", plain):
        return {"value": plain}
    if re.search(r"not (published|disclosed)", plain):
        return {"unpublished": True}
    found = re.fullmatch(r"([\d.]+)-([\d.]+)", plain)
    if found and float(found[1]) <= float(found[2]):
        return {"low": found[1], "high": found[2], "qualifier": "range"}
    for pattern, word in ((r"~([\d.]+)", "about"), (r">=([\d.]+)", "at least"), (r">([\d.]+)", "more than"), (r"([\d.]+)\+", "at least")):
        found = re.fullmatch(pattern, plain)
        if found:
            return {"value": found[1], "qualifier": word}
    return {"text": plain}


def basis_of(row: dict, quantity: str, unit: str) -> str:
    """Return the closed basis of a claim from its quantity, unit and printed basis."""
    if row["id"] in rules.BASIS_BY_ID:
        return rules.BASIS_BY_ID[row["id"]]
    words, printed = row["basis"].lower(), row["quantity"]
    if printed in ("tdp_default", "tgp_as_tested"):
        return {"tdp_default": "fallback", "tgp_as_tested": "as_tested"}[printed]
    if "hbm_capacity" in quantity:
        return "driver" if unit == "MiB" else "label"
    if "hbm_bandwidth" in quantity and unit != "fraction":
        return "peak"
    if "dense" in quantity or "sparse" in quantity:
        return "dense" if "dense" in quantity else "sparse"
    if quantity.startswith("nvfp4_inference") and unit != "ratio":
        return "sparse"
    if any(k in quantity for k in rules.LINKS) and unit.endswith("/s"):
        if "per direction" in words and not words.startswith("bidirectional"):
            return "one_direction"
        if any(w in words for w in ("bidirectional", "both", "total")):
            return "both_directions"
        return "one_direction" if unit.endswith("b/s") else "as_printed"  # line rates are per direction
    if unit in ("W", "kW", "MW", "GW"):
        return next((b for k, b in rules.WATTS.items() if k in quantity), "device")
    if unit.startswith(("USD", "MUSD/MW", "JPY")) or unit == "MEUR":
        return "price"
    if "tokens_per" in quantity and unit == "tok/s/MW":
        return "undisclosed"
    if quantity.startswith(("mean_output", "max_output", "mean_input")):
        return "output" if "output" in quantity else "input"
    return "as_printed"


def profile_of(row: dict, quantity: str) -> str:
    """Return the named profile of a claim: the columns of one Vera Rubin profile are carried together, others hold conditions apart."""
    if row["id"] in rules.PROFILES:
        return rules.PROFILES[row["id"]]
    if row["subject"] not in ("rubin-gpu", "vr-nvl72") or quantity not in rules.COLUMNS or row["evidence_grade"] != "B":
        return ""
    if "maxlps" in row["basis"].lower():
        return "maxlps"
    return "upto" if "hbm" in quantity or "nvlink" in quantity else ""


def locator_of(row: dict) -> str:
    """Return the place that the source's own title or the printed basis names; empty where neither does."""
    found = [m.group(0) for p in rules.LOCATORS for m in p.finditer(row["source_title"])][:2]
    item = rules.ITEM_LOCATOR.search(row["basis"])
    return ", ".join(found + ([item.group(0)] if item else []))


def source_key(row: dict, taken: dict) -> str:
    """Return a stable key for a claim's source: publisher, year and a few letters of a digest of title and address."""
    identity = (row["source_title"].strip(), row["source_url"].strip())
    if identity not in taken:
        publisher = re.sub(r"[^a-z0-9]+", "-", (row["publisher"] or "unnamed").lower()).strip("-")[:24].strip("-") or "unnamed"
        year = (re.findall(r"20\d\d", row["date"] or "") or ["undated"])[0]
        taken[identity] = f"{publisher}-{year}-{hashlib.sha256('|'.join(identity).encode()).hexdigest()[:5]}"
    return taken[identity]


def claim(row: dict, known: set[str], sources: dict) -> dict:
    """Return one claim row in the house's columns."""
    parts, unit = value_of(row["value"]), unit_of(row["quantity"], row["unit"], known)
    quantity = rules.MERGED_BY_SUBJECT.get((row["quantity"], row["subject"])) or rules.MERGED_BY_UNIT.get((row["quantity"], unit))
    quantity = quantity or rules.MERGED.get(row["quantity"], row["quantity"])
    grade, notes = row["evidence_grade"], [row["note"].strip("; ")] if row["note"].strip("; ") else []
    notes += [rules.NOTES[row["id"]]] if row["id"] in rules.NOTES else []
    if rules.LOWER_GRADE in row["note"] or row["id"] in rules.PRESS_AS_A:
        grade = "F"
    if parts.pop("unpublished", False):
        grade = "X"
    if not parts.get("qualifier") and "value" in parts:
        parts["qualifier"] = next((w for p, w in rules.QUALIFIERS if p.search(row["basis"].lower())), "")
    for name, printed, closed in (("basis", row["basis"], ""), ("unit", row["unit"], unit), ("quantity", row["quantity"], quantity)):
        if printed and printed != closed:
            notes.append(f"{name} as printed: {printed}")
    return {**dict.fromkeys(COLUMNS, ""), **parts, "id": row["id"], "subject": row["subject"], "quantity": quantity, "unit": unit,
            "basis": basis_of(row, quantity, unit), "grade": grade, "profile": profile_of(row, quantity), "source": source_key(row, sources),
            "locator": locator_of(row), "as_of": "" if row["date"] == "undated" else row["date"], "note": "; ".join(notes)}


def never(row: dict) -> str:
    """Return why a claim is never chosen, empty where it may be."""
    if row["grade"] == "P":
        return ""
    if rules.AMBIGUOUS.fullmatch(row["subject"]):
        return "its subject stands for several systems"
    if rules.SUPERSEDED.fullmatch(row["subject"]):
        return "superseded roadmap"
    if row["id"] in rules.NEVER:
        return rules.NEVER[row["id"]]
    found = rules.DOUBTED.search(row["note"])
    return f"its own note says so ({found.group(0).strip('; ')})" if found else ""


def choose(claims: list[dict], pinned: set[str]) -> None:
    """Mark one claim per (subject, quantity, basis, profile) and say why; say of the others why they never are.

    The catalogue's own row first; else a number before words before "unpublished", then best grade, newest, first in the table.
    """
    groups: dict[tuple, list[dict]] = {}
    for row in claims:
        why = never(row)
        if why:
            row["note"] = "; ".join(n for n in (row["note"], f"never chosen: {why}") if n)
        else:
            groups.setdefault((row["subject"], row["quantity"], row["basis"], row["profile"]), []).append(row)
    for group in groups.values():
        ours = [r for r in group if r["id"] in pinned]
        newest = sorted(group, key=lambda r: r["as_of"], reverse=True)
        best = ours[0] if ours else min(newest, key=rank)
        best["chosen"] = "1"
        if len(group) > 1:
            best["note"] = "; ".join(n for n in (best["note"], f"chosen of {len(group)}: {reason(best, group)}") if n)


def reason(best: dict, group: list[dict]) -> str:
    """Return why a claim was chosen among several."""
    if best["id"] in rules.REASONS:
        return rules.REASONS[best["id"]]
    if len({(r["value"], r["low"], r["high"], r["text"], r["unit"]) for r in group}) == 1:
        return "all agree"
    peers = [r for r in group if rank(r) == rank(best)]
    if len(peers) == 1:
        return f"best grade ({best['grade']})"
    newest = all(r["as_of"] <= best["as_of"] for r in peers)
    return f"best grade ({best['grade']}), " + ("newest" if newest else "and the source of this part's other figures")


def rank(row: dict) -> tuple:
    """Return the order of preference of a claim inside its group."""
    kind = 0 if row["value"] or row["low"] else 1 if row["text"] else 2
    return kind, "ABCDEFPX".index(row["grade"])


def write(name: str, columns: list[str], table: list[dict]) -> None:
    """Write one CSV table of data/ with Unix line ends."""
    with (DATA / name).open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, columns, lineterminator="\n", extrasaction="raise")
        writer.writeheader()
        writer.writerows(table)


def main(folder: str) -> int:
    """Write all tables. Returns 0."""
    place, known, sources = Path(folder), units_known(), {}
    raw = rows(place / "claims.csv") + rows(place / "claims_extra.csv")
    claims = [claim(row, known, sources) for row in raw]
    publishers = {source_key(r, sources): (r["publisher"], r["date"]) for r in raw}
    assumed = sorted(rows(ROOT / "tools" / "assumptions.csv"), key=lambda r: r["id"])
    claims += [{**dict.fromkeys(COLUMNS, ""), **row} for row in assumed]
    pinned = {word for name in ("systems.csv", "switches.csv") for r in rows(DATA / name) for v in r.values() for word in v.split()}
    choose(claims, pinned)
    write("claims.csv", COLUMNS, claims)
    header = ["source", "title", "address", "publisher", "date"]
    table = [dict(zip(header, (k, *identity, *publishers[k]), strict=True)) for identity, k in sources.items()]
    table = sorted(table, key=lambda r: r["source"]) + [dict(zip(header, own, strict=True)) for own in OWN_SOURCES]
    write("sources.csv", header, table)
    for name in COPIED:
        (DATA / name).write_bytes((place / name).read_bytes().replace(b"\r\n", b"\n"))
    seed_claims(place / "seed_claims.md")
    sys.stdout.write(f"{len(claims)} claims, {len(table)} sources, {len(COPIED)} tables copied\n")
    return 0


def seed_claims(path: Path) -> None:
    """Write the rows of the table of first claims as data/seed_claims.csv."""
    lines = [ln for ln in path.read_text(encoding="utf-8").splitlines() if re.match(r"\| \d+ \|", ln)]
    header = ["number", "claim", "grade", "verdict", "where"]
    write("seed_claims.csv", header, [dict(zip(header, re.split(r"\s*\|\s*", ln.strip("| ")), strict=True)) for ln in lines])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
