"""Write the fact tables of data/ from a folder of collected reference tables: every row survives, in closed words and with keys.

Run as `python tools/import_reference.py FOLDER`. Values stay digit for digit in the source's own unit; printed ranges fill low and
high; "about" and ">" go to `qualifier`; unpublished values are empty, grade X. Rows of tools/assumptions.csv join as grade P.
"""

from __future__ import annotations

import csv
import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
COLUMNS = ["id", "subject", "quantity", "value", "low", "high", "qualifier", "text", "unit", "basis", "profile", "grade", "source",
           "locator", "as_of", "chosen", "note"]
COPIED = ("prices.csv", "storage_prices.csv", "power_and_price_estimates.csv", "reliability.csv", "checkpoint_rl.csv",
          "mlperf_results.csv", "mlperf_systems.csv", "mlperf_latency.csv", "mlperf_constraints.csv", "vllm_memory_measured.csv",
          "model_sizes.csv")
MERGED = {"scale_up_per_gpu": "nvlink_bandwidth_per_gpu", "scale_out_per_gpu": "scale_out_bandwidth_per_gpu",
          "fp4_dense": "nvfp4_dense", "bf16_fp16_dense": "bf16_dense"}
AMBIGUOUS = {"gb-nvl72", "nvl72", "vr-or-gb300-nvl72", "all-nvidia", "vr-nvl144-2025", "vr200-2025", "vr300-2025", "vr-nvl144-cpx"}
NEVER = {"H0118", "H0119", "H0120", "H0287", "H0109", "H0331", "H0414", "H0015", "H0016"}
LOWER_GRADE = "treat as grade F at best"
PRESS_AS_A = {"H0072", "H0073", "H0407", "H0408", "H0409", "H0410"}
UNIT_WORDS = {
    "F": "degF", "billion": "billion", "million": "million", "tokens": "tokens", "years": "years", "weeks": "weeks", "min": "min",
    "bytes": "B", "x": "ratio", "fraction": "fraction", "L/min per kW": "L/min/kW", "L/min for 100 kW": "L/min", "h/yr": "h/year",
    "V DC": "V", "VAC": "V", "USD per rack": "USD", "GB/s per GPU": "GB/s", "TiB per AZ": "TiB", "USD/GB": "USD/GB", "lb": "lb",
    "kJ/kg K": "kJ/kg/K", "kg/m3": "kg/m3", "pJ/bit": "pJ/bit", "ns/m": "ns/m", "W/GB": "W/GB", "MUSD/MW-yr": "MUSD/MW-year",
    "USD/MW-day": "USD/MW-day", "failures/day": "1/day", "TOPS": "TOPS", "MUSD/yr": "MUSD/year", "Mgal/MW-yr": "Mgal/MW-year",
    "queries/s": "queries/s", "MB/s per W": "MB/s/W", "MEUR": "MEUR", "JPY": "JPY", "million IOPS": "million", "IOPS": "count",
    "Gpps": "Gpps", "U": "U", "": "1"}


def rows(path: Path) -> list[dict]:
    """Return a CSV file's rows as dicts."""
    with path.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def units_known() -> set[str]:
    """Return the table units that planner.units knows."""
    sys.path.insert(0, str(ROOT))
    from planner.units import UNITS

    return set(UNITS)


def unit_of(printed: str, known: set[str]) -> str:
    """Return the closed unit for a printed one; a noun that is counted becomes `count`, a percent of something `%`."""
    if printed in UNIT_WORDS:
        return UNIT_WORDS[printed]
    if printed in known:
        return printed
    if printed.startswith("%"):
        return "%"
    if printed.startswith("x ") or printed.endswith(("GPUs", "cables", "switches", "links")):
        return "ratio" if printed in ("x lower", "x fewer", "x steady state") else "count"
    return "count"


def value_of(printed: str) -> dict:
    """Split a printed value into value, low, high, qualifier and text."""
    plain = printed.strip()
    try:
        float(plain)
        return {"value": plain}
    except ValueError:
        pass
    if re.search(r"not (published|disclosed)", plain):
        return {"unpublished": True}
    found = re.fullmatch(r"([\d.]+)-([\d.]+)", plain)
    if found and float(found[1]) <= float(found[2]):
        middle = (float(found[1]) + float(found[2])) / 2
        return {"value": f"{middle:.10g}", "low": found[1], "high": found[2], "qualifier": "range"}
    for pattern, word in ((r"~([\d.]+)", "about"), (r">=?([\d.]+)", "at least"), (r"([\d.]+)\+", "at least")):
        found = re.fullmatch(pattern, plain)
        if found:
            return {"value": found[1], "qualifier": word}
    return {"text": plain}


def basis_of(quantity: str, unit: str, printed: str) -> str:
    """Return the closed basis of a claim from its quantity, unit and printed basis."""
    words = printed.lower()
    if "hbm_capacity" in quantity:
        return "driver" if unit == "MiB" else "label"
    if "dense" in quantity:
        return "dense"
    if "sparse" in quantity or quantity.startswith("nvfp4_inference"):
        return "sparse"
    if any(k in quantity for k in ("nvlink", "scale_out", "scale_up", "pcie", "c2c")) and unit.endswith("/s"):
        if "bidirectional" in words or "both" in words or "total" in words:
            return "both_directions"
        return "one_direction"
    if unit in ("W", "kW", "MW"):
        if "rack" in quantity:
            return "rack"
        if "system" in quantity or "node" in quantity or "server" in quantity:
            return "system"
        if "facility" in words or "all_in" in quantity or "utility" in words:
            return "facility"
        return "device"
    if unit in ("USD", "USD/kWh", "MUSD/MW"):
        return "price"
    return "as_printed"


def profile_of(subject: str, quantity: str, value: str, printed: str) -> str:
    """Return the named profile of a Vera Rubin claim: the columns of one profile are carried together."""
    if subject not in ("rubin-gpu", "vr-nvl72"):
        return ""
    words = printed.lower()
    if "maxlps" in words or (quantity == "rack_power" and "max-q" in words) or (quantity == "tdp" and "max-q" in words):
        return "maxlps"
    if ("up to" in words and "bandwidth" in quantity) or value == "3.6" or (quantity in ("rack_power", "tdp") and "max-p" in words):
        return "upto"
    if quantity == "nvlink_bandwidth_per_rack" and value == "260":
        return "upto"
    if quantity == "tgp_as_tested":
        return "upto"
    return ""


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
    parts = value_of(row["value"])
    unit = unit_of(row["unit"], known)
    quantity = MERGED.get(row["quantity"], row["quantity"])
    grade, notes = row["evidence_grade"], [row["note"]] if row["note"] else []
    if LOWER_GRADE in row["note"] or row["id"] in PRESS_AS_A:
        grade = "F"
    if parts.pop("unpublished", False):
        grade = "X"
    if row["basis"]:
        notes.append(f"basis as printed: {row['basis']}")
    if unit != row["unit"] and row["unit"]:
        notes.append(f"unit as printed: {row['unit']}")
    if quantity != row["quantity"]:
        notes.append(f"quantity as printed: {row['quantity']}")
    key = source_key(row, sources)
    return {**dict.fromkeys(COLUMNS, ""), **parts, "id": row["id"], "subject": row["subject"], "quantity": quantity, "unit": unit,
            "basis": basis_of(quantity, unit, row["basis"]), "grade": grade,
            "profile": profile_of(row["subject"], quantity, row["value"], row["basis"]),
            "source": key, "as_of": row["date"], "note": "; ".join(notes)}


def choose(claims: list[dict], pinned: set[str]) -> None:
    """Mark one claim per (subject, quantity, basis, profile): the one the catalogue names, else best grade, newest, lowest id."""
    groups: dict[tuple, list[dict]] = {}
    for row in claims:
        if row["value"] and row["subject"] not in AMBIGUOUS and row["id"] not in NEVER and row["grade"] != "X":
            groups.setdefault((row["subject"], row["quantity"], row["basis"], row["profile"]), []).append(row)
    for group in groups.values():
        ours = [r for r in group if r["id"] in pinned]
        newest = sorted(group, key=lambda r: r["as_of"], reverse=True)
        best = ours[0] if ours else min(newest, key=lambda r: "ABCDEFP".index(r["grade"]))
        best["chosen"] = "1"
        why = "the catalogue's row" if ours else f"best grade ({best['grade']}), newest"
        best["note"] = "; ".join(n for n in (best["note"], f"chosen of {len(group)}: {why}" if len(group) > 1 else "") if n)


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
    names = {key: identity for identity, key in sources.items()}
    publishers = {source_key(r, sources): (r["publisher"], r["date"]) for r in raw}
    assumed = rows(ROOT / "tools" / "assumptions.csv")
    claims += [{**dict.fromkeys(COLUMNS, ""), **row} for row in assumed]
    pinned = {r["claim"] for r in rows(DATA / "systems.csv")} | {r["claim"] for r in rows(DATA / "switches.csv")}
    choose(claims, pinned)
    write("claims.csv", COLUMNS, claims)
    table = [{"source": k, "title": names[k][0], "address": names[k][1], "publisher": publishers[k][0], "date": publishers[k][1]}
             for k in sorted(names)]
    table += [{"source": "planner", "title": "This project's own assumption", "address": "", "publisher": "Planner", "date": "2026-11-30"},
              {"source": "reference-notes", "title": "Notes kept with the collected tables: driver-reported memory sizes",
               "address": "", "publisher": "Planner", "date": "2026-11-30"}]
    write("sources.csv", ["source", "title", "address", "publisher", "date"], table)
    for name in COPIED:
        (DATA / name).write_bytes((place / name).read_bytes().replace(b"\r\n", b"\n"))
    sys.stdout.write(f"{len(claims)} claims, {len(table)} sources, {len(COPIED)} tables copied\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
