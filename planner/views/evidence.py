"""Every claim of the announcement: what it says, its grade, what the models say of it, and what would settle it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.calibration import cooling as coolants
from planner.calibration import power as powers
from planner.errors import Infeasible, InputError
from planner.facts import catalog
from planner.facts.evidence import claim, claims
from planner.facts.files import table
from planner.models import cooling, storage
from planner.sensitivity import headline, pricing
from planner.sensitivity.analysis import WhatMustHold
from planner.units import base_unit
from planner.views.style import COLOURS, finished
from planner.views.tables import NOT_AVAILABLE, digits

PROVIDERS = ("coreweave", "nebius", "crusoe", "oracle", "azure", "lambda")
MODELS = {"gpt-oss-120b": "GPT-OSS-120B", "llama2-70b-99.9": "Llama 2 70B"}
BLACKWELL = ("b200-hgx", "gb200-nvl72", "b300-hgx", "gb300-nvl72")
HEADLINES = {"10x tokens per MW": 10.0, "30x, if meant against the same baseline": 30.0}


def _rack_sums() -> str:
    rows = [catalog.system("vr-nvl72", p) for p in ("maxlps", "upto")]
    sums = [f"{r.profile}: {r.gpus * r.accelerator.hbm_bytes / 1e12:.1f} TB, {r.gpus * r.accelerator.hbm_bytes_per_s / 1e12:,.0f} TB/s, "
            f"{r.gpus * r.accelerator.peak_flops_per_s['nvfp4'] / 1e15:,.0f} PFLOPS dense" for r in rows]
    return "; ".join(sums)


def _ports() -> str:
    rack = catalog.system("vr-nvl72", "upto")
    return f"{rack.nics_per_gpu} NICs a GPU, {rack.nics_per_gpu * rack.nic.bytes_per_s * 8 / 1e12:g} Tb/s one direction"


def _rails() -> str:
    return ", ".join(f"{2 * (k // 2) ** 2:,} endpoints a plane with {k} ports a switch" for k in (512, 256, 128))


def _flow() -> str:
    watts = sum(powers.rack_parts(catalog.system("vr-nvl72", "maxlps")).values())
    heat, density = coolants.properties("pg25", 50)
    flow = float(cooling.coolant_litres_per_s(watts, coolants.usual_rise(), heat, density)) * 60
    return f"{flow:,.0f} L/min of PG25 carry {watts / 1e3:,.0f} kW from 45 to {45 + coolants.usual_rise():g} C"


def _ratios() -> str:
    found = [f"{pricing.CLAIMS[m]} {m}: " + ", ".join(f"{s} {float(pricing.modelled_ratio(m, s)[0]):.1f}" for s in pricing.SCENARIOS)
             for m in pricing.CLAIMS]
    return "the plan's own throughput gives, a GPU: " + "; ".join(found)


def _curves() -> str:
    new, old = (headline.curve(*place, [20.0, headline.SPEED], num=2)[0] for place in (headline.NEW, headline.OLD))
    said = f"{new[0] / old[0]:.1f} times at 20 tok/s per user and {new[1] / old[1]:.1f} at 150"
    return f"the plan's own throughput gives {said}; the megawatt's boundary is not said"


def _hits() -> str:
    found = [f"{storage.hit_fraction_for(8, r, 1.0):.1%} where a hit takes {r:g} of a miss" for r in (0.001, 0.01, 0.05)]
    return "needs hit rates of " + ", ".join(found)


def _price() -> str:
    found = pricing.break_even_price("rent", "deepseek-r1", "Server")
    return f"break-even {digits(found.value)} USD per GPU-hour ({digits(found.low)} to {digits(found.high)}) by claim; no list price"


def _leads() -> str:
    ranks = lead_table()
    return f"CoreWeave is first of those that compete in {(ranks['Rank'] == 1).sum()} of {len(ranks)} categories"


SAYS = {1: _rack_sums, 4: _ports, 5: _rails, 11: _flow, 12: _ratios, 16: _curves, 21: _hits, 25: _price, 27: _leads}


def claims_table(first: int = 1, last: int = 31) -> pd.DataFrame:
    """Return the claims by number: what each says, its grade, the verdict so far, what the models say, and what would settle it."""
    settled = {r["number"]: r["settled_by"] for r in table("claims_settled_by.csv")}
    rows = []
    for row in table("seed_claims.csv"):
        number = int(row["number"])
        if first <= number <= last:
            said = SAYS[number]() if number in SAYS else f"see: {row['where']}"
            rows.append({"#": number, "Claim": row["claim"], "Grade": row["grade"], "Verdict": row["verdict"] or "open", "The models say": said,
                         "Settled by": settled.get(row["number"], "")})
    return pd.DataFrame(rows).set_index("#").rename_axis(None)


def grades_figure() -> go.Figure:
    """Return how many claims of the announcement have each grade, and how many the models speak to."""
    letters = "ABCDEFX"
    rows = list(table("seed_claims.csv"))
    count = {g: [r for r in rows if r["grade"].strip()[:1] == g] for g in letters}
    figure = go.Figure()
    for i, (name, keep) in enumerate((("the models give a number", True), ("elsewhere, or open", False))):
        heights = [sum((int(r["number"]) in SAYS) is keep for r in count[g]) for g in letters]
        figure.add_bar(x=list(letters), y=heights, name=name, marker_color=COLOURS[i])
    figure.update_layout(barmode="stack")
    weak = sum(len(count[g]) for g in "CDEFX")
    title = f"{weak} of {len(rows)} claims rest on a vendor's word, an analyst, the press or nothing published"
    return finished(figure, title, x="first grade of the claim", y="claims", height=360)


@cache
def what_must_hold(name: str, num: int = 256) -> WhatMustHold | str:
    """Return what would have to be true for one headline, or the reason why nothing inside the ranges does it."""
    try:
        return headline.what_ten_fold_needs(HEADLINES[name], num=num)
    except Infeasible as error:
        return error.limit


def must_hold_table(name: str) -> pd.DataFrame:
    """Return each input's plausible range, what it would have to be alone, and where it stands at the least unlikely joint point.

    Raises: InputError for a headline that is not known.
    """
    if name not in HEADLINES:
        raise InputError("name", name, f"must be one of {', '.join(HEADLINES)}")
    found, ranges, rows = what_must_hold(name), headline.inputs(), []
    for input_name, item in ranges.items():
        row = {"Input": input_name, "Low": digits(item.low), "Central": digits(item.value), "High": digits(item.high)}
        if isinstance(found, str):
            row |= {"Alone": found, "Together": "", "At percentile": ""}
        else:
            alone = found.alone.get(input_name)
            row |= {"Alone": digits(alone.value) if alone and alone.value is not None else "cannot", "Together": digits(found.point[input_name]),
                    "At percentile": f"{found.percentile[input_name]:.0%}"}
        rows.append(row)
    return pd.DataFrame(rows).set_index("Input").rename_axis(None)


def must_hold_text() -> str:
    """Return, a line each, how the headlines stand against the models: today's ratio, the chance over the draws, the distance to where it holds."""
    lines = []
    for name in HEADLINES:
        found = what_must_hold(name)
        if isinstance(found, str):
            lines.append(f"{name}: {found}")
        else:
            lines.append(f"{name}: {found.central:.1f} times in the central case, held in {found.chance:.0%} of draws, "
                         f"{found.distance:.2f} standard deviations away at its nearest")
    for model, item in pricing.CLAIMS.items():
        held = [f"{s} {float((pricing.modelled_ratio(model, s)[1:] >= claim(item).value).mean()):.0%}" for s in pricing.SCENARIOS]
        lines.append(f"{claim(item).value:g}x on {model} against GB300, a GPU: reached in {', '.join(held)} of draws")
    lines.append(f"8x shorter reads: {_hits()}")
    lines.append(f"about 128k a rail: {_rails()}; rails multiply GPUs, planes do not")
    lines.append("The baselines differ (GB200, GB300, none given): no claim is multiplied or divided into another")
    return "\n".join(lines)


def lead_table() -> pd.DataFrame:
    """Return CoreWeave's rank per GPU among submitters on Blackwell, by model, round, scenario and system; closed division, available."""
    best: dict[tuple, dict[str, float]] = {}
    for r in table("mlperf_results.csv"):
        if r["model"] not in MODELS or r["division"] != "closed" or r["availability"] != "available" or not r["per_accelerator"]:
            continue
        try:
            system = catalog.resolve_system(r["accelerator"])
        except InputError:
            continue
        if system in BLACKWELL:
            key = (r["model"], r["round"], r["scenario"], system)
            mine = best.setdefault(key, {})
            mine[r["submitter"]] = max(mine.get(r["submitter"], 0.0), float(r["per_accelerator"]))
    rows = []
    for (model, part, scenario, system), found in sorted(best.items()):
        if "CoreWeave" in found and len(found) > 1:
            order = sorted(found, key=lambda s: -found[s])
            rows.append({"Model": MODELS[model], "Round": part, "Scenario": scenario, "System": system, "Rank": order.index("CoreWeave") + 1,
                         "Of": len(order), "CoreWeave, tok/s a GPU": digits(found["CoreWeave"]), "First": order[0],
                         "Behind": f"{1 - found['CoreWeave'] / found[order[0]]:.1%}"})
    return pd.DataFrame(rows).set_index("Model").rename_axis(None)


def providers_table() -> pd.DataFrame:
    """Return what is claimed of each provider with its date and grade; an undated row says so."""
    rows = [{"Provider": c.subject, "What": c.quantity, "Value": c.text or (f"{c.value:g} {c.unit}" if c.value is not None else NOT_AVAILABLE),
             "As of": c.as_of or "undated", "Grade": c.grade, "Source": c.source} for c in claims().values() if c.subject.startswith(PROVIDERS)]
    return pd.DataFrame(rows).set_index("Provider").rename_axis(None)


def check_table() -> pd.DataFrame:
    """Return claimed levels of tokens per megawatt beside the plan's own at the same per-user speed, ratio printed."""
    levels = headline.claimed_levels()
    rows = []
    for name, place, level in zip(("Vera Rubin", "GB200"), (headline.NEW, headline.OLD), levels, strict=True):
        central, low, high = (float(v[0]) for v in headline.curve(*place, [headline.SPEED]))
        rows.append({"System": name, "Claimed tok/s/MW": digits(level), "The plan's own": digits(central), "Low": digits(low),
                     "High": digits(high), "Ratio": round(central / level, 3), "Inside": bool(low <= level <= high)})
    return pd.DataFrame(rows).set_index("System").rename_axis(None)


def cheapest_fix() -> str:
    """Return which single disclosure would narrow the ten-fold claim most: the input with the largest swing of the ratio."""
    from planner.sensitivity import tornado

    middle, bars = tornado(headline.ratio_model(), headline.inputs())
    top = bars[0]
    return f"{top.name}: the ratio goes from {min(top.at_low, top.at_high):.1f} to {max(top.at_low, top.at_high):.1f} around {middle:.1f}"


def worst_conflicts(most: int = 8) -> pd.DataFrame:
    """Return the quantities whose printed figures differ most between sources, widest first."""
    groups: dict[tuple, list] = {}
    for c in claims().values():
        if c.base_value and c.base_value > 0 and "never chosen" not in c.note and c.source != "planner":
            groups.setdefault((c.subject, c.quantity, c.basis, c.profile), []).append(c)
    rows = []
    for (subject, quantity, _, _), found in groups.items():
        values = np.array([c.base_value for c in found])
        if len({base_unit(c.unit) for c in found}) == 1 and len(found) > 1 and values.max() > 1.05 * values.min():
            chosen = next((c for c in found if c.chosen), found[0])
            rows.append({"Subject": subject, "Quantity": quantity, "Figures": len(found),
                         "Largest over smallest": round(float(values.max() / values.min()), 2),
                         "Chosen": f"{digits(chosen.value)} {chosen.unit}" if chosen.value is not None else "a range", "Grade": chosen.grade})
    rows.sort(key=lambda r: -r["Largest over smallest"])
    return pd.DataFrame(rows[:most]).set_index("Subject").rename_axis(None)
