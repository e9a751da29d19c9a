"""The views of the decision notebook and the report: how many racks, at what power and price, and how sure."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go

from planner.decide import decide
from planner.errors import InputError
from planner.facts.files import folder
from planner.plan import plan as make_plan
from planner.plan.answer import Answer
from planner.plan.types import Driver, Growth, Option, Ordered, Plan
from planner.scenario import parse
from planner.views.style import COLOURS, finished
from planner.views.tables import digits, escape_markdown, shown, whole_or_digits

HEADLINE = {"racks_total": "Racks", "facility_power": "Facility MW", "tokens_per_s_per_gpu": "Output tok/s per GPU",
            "tokens_per_s_per_user": "tok/s per user", "usd_per_h": "USD per hour", "usd_per_mtok_output": "USD per M output tokens"}


def from_document(document: Mapping) -> Plan:
    """Return the Plan that a plan.json document holds. Raises: InputError for another schema number."""
    if document.get("schema") != 1:
        raise InputError("plan.json schema", document.get("schema"), "must be 1")
    options = tuple(
        Option(o["workload"], o["system"], o["status"], {k: Answer(**{**a, "claims": tuple(a["claims"])}) for k, a in o["answers"].items()},
               o["parts"], o["binding"], o["cause"], o["limit"], o["next_step"], tuple(o["warnings"]), o["layout"], _growth(o.get("growth")),
               tuple(Driver(**{**d, "claims": tuple(d["claims"])}) for d in o.get("drivers", ())))
        for o in document["options"])
    return Plan(document["scenario"], document["as_of"], document["input_digest"], document["planner_version"], options,
                document["inputs"], tuple(document["warnings"]), document.get("limit", ""))


def _growth(document: Mapping | None) -> Growth | None:
    if document is None:
        return None
    lists = {k: tuple(v) if isinstance(v, list) else v for k, v in document.items()}
    return Growth(**{**lists, "orders": tuple(Ordered(**o) for o in document["orders"])})


def load(plan_file: str) -> Plan:
    """Read a plan from a plan.json file. Raises: InputError when it cannot be read."""
    try:
        return from_document(json.loads(Path(plan_file).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError) as error:
        raise InputError("plan_file", plan_file, f"must be a plan.json ({type(error).__name__})") from None


def make(scenario_name: str, *, requests_per_s: float | None = None, tpot_s: float | None = None,
         utilisation_fraction: float | None = None, pue: float | None = None, gpu_hour_usd: float | None = None) -> Plan:
    """Plan a scenario that ships with the planner, with the first workload's load and SLO, the site and the price replaced.

    Parameters: scenario_name, a file of scenarios/ without its ending; requests_per_s [1/s]; tpot_s [s]; utilisation_fraction
    [1]; pue [1]; gpu_hour_usd [USD], the price of every system that has one. None keeps the file's value. Returns: Plan.
    Raises: InputErrors for a value that the scenario door refuses.
    """
    content = read_shipped(scenario_name)
    workload = content["workloads"][0]
    if requests_per_s is not None:
        for load in ("output_tokens_per_s", "concurrency", "users", "think_s"):
            workload.pop(load, None)
        workload["requests_per_s"] = requests_per_s
    if tpot_s is not None:
        workload.setdefault("slo", {})["tpot_s"] = tpot_s
    if utilisation_fraction is not None:
        content.setdefault("plan", {})["utilisation_fraction"] = utilisation_fraction
    if pue is not None:
        content["site"]["pue"] = pue
    if gpu_hour_usd is not None:
        for price in content.get("prices", {}).values():
            price["gpu_hour_usd"] = gpu_hour_usd
    return make_plan(parse(content, f"{scenario_name}.toml"))


def read_shipped(scenario_name: str) -> dict:
    """Return the content of a scenario file that ships with the planner. Raises: InputError for a name that is not there."""
    names = sorted(p.stem for p in folder("scenarios").glob("*.toml"))
    if scenario_name not in names:
        raise InputError("scenario_name", scenario_name, f"must be one of {', '.join(names)}")
    return tomllib.loads((folder("scenarios") / f"{scenario_name}.toml").read_text(encoding="utf-8"))


def load_or_make(plan_file: str, scenario_name: str) -> Plan:
    """Return the plan of `plan_file`, or with an empty name the whole answer to a scenario that ships with the planner."""
    if not isinstance(plan_file, str):
        raise InputError("plan_file", plan_file, "must be text")
    return load(plan_file) if plan_file else decide(parse(read_shipped(scenario_name), f"{scenario_name}.toml"))


def rack_power_check(plan: Plan) -> pd.DataFrame:
    """Return each system's provisioned rack power beside the published maximum of the whole rack, with their ratio."""
    rows = []
    for option in {o.system: o for o in plan.options if "rack_power" in o.answers}.values():
        ours, printed = option.value("rack_power"), option.value("rack_power_published")
        rows.append({"System": option.system, "Planned kW": ours, "Published kW": printed, "Ratio": ours / printed if printed else None})
    return pd.DataFrame(rows, columns=["System", "Planned kW", "Published kW", "Ratio"]).set_index("System").rename_axis(None).round(3)


def _sentence(plan: Plan, workload: str) -> str:
    best, name = plan.fewest_racks(workload), escape_markdown(workload)
    if best is None:
        reasons = "; ".join(f"{escape_markdown(o.system)}: {escape_markdown(o.limit or o.cause)}" for o in plan.options
                            if o.workload == workload)
        return f"**{name}: no system serves it.** {reasons}"
    racks, power = best.answers["racks_total"], best.answers.get("facility_power")
    price = best.answers.get("usd_per_h")
    cost = f"at {shown(price)} USD per hour" if price and price.value is not None else "at a price that is not available"
    sure = "" if racks.low == racks.high else f" (80 % of the draws: {racks.low:,.0f} to {racks.high:,.0f})"
    return (f"**{name}: {racks.value:,.0f} racks of {escape_markdown(best.system)}**{sure}, {shown(power)} MW at the meter, {cost}. "
            f"Binding: {escape_markdown(best.binding)}. Throughput is {best.answers['tokens_per_s_per_gpu'].how}, "
            f"grade {best.answers['tokens_per_s_per_gpu'].grade}.{_when(best.growth)}")


def _when(grown: Growth | None) -> str:
    """Return what to order first and where the site ends, as sentences."""
    if grown is None:
        return ""
    if not grown.orders:
        return " Nothing ordered today serves before the timeline ends."
    first = grown.orders[0]
    full = f" The site is full from {grown.site_full} on." if grown.site_full else ""
    return (f" The load of {grown.months[-1]} needs {grown.racks[-1]:,} racks: order {first.racks:,} by {first.order_by}, they serve from "
            f"{first.serves_from}.{full}")


def answer(plan: Plan) -> str:
    """Return the answer in Markdown: title, date, one sentence per workload, and what to know before using it."""
    lines = [f"# {escape_markdown(plan.scenario)}",
             f"As of {plan.as_of} · inputs {plan.digest} · planner {plan.version} · plan **{plan.status}**", ""]
    lines += [f"> **{escape_markdown(plan.limit)}**\n"] if plan.limit else []
    lines += [f"> {_sentence(plan, w)}\n" for w in plan.workloads]
    warnings = list(dict.fromkeys([*plan.warnings, *(f"{o.system}: {w}" for o in plan.options for w in o.warnings)]))
    lines += [f"- {escape_markdown(w)}" for w in warnings]
    return "\n".join(lines)


def growth_table(plan: Plan) -> pd.DataFrame:
    """Return how each option grows: racks and power in the first, middle and last month, the first orders, and when site and fabric are full."""
    rows = []
    for o in (o for o in plan.options if o.growth is not None):
        g = o.growth
        shown = {g.months[i]: f"{g.racks[i]:,} ({g.racks_low[i]:,}–{g.racks_high[i]:,})" for i in (0, len(g.months) // 2, len(g.months) - 1)}
        orders = "; ".join(f"{x.racks:,} by {x.order_by}" for x in g.orders[:3]) + (f"; {len(g.orders) - 3} more" if len(g.orders) > 3 else "")
        rows.append({"": f"{o.workload}: {o.system}", **{f"Racks {m}": text for m, text in shown.items()},
                     f"MW {g.months[-1]}": digits(g.facility_mw[-1]),
                     "Order": orders or "nothing serves in time", "Serves from": g.first_served, "Site full from": g.site_full or "not in sight",
                     "Fabric recabled from": g.fabric_full or "not in sight", "Note": g.note})
    return pd.DataFrame(rows, columns=list(dict.fromkeys(k for r in rows for k in r)) or [""]).set_index("").rename_axis(None)


def months_table(plan: Plan) -> pd.DataFrame:
    """Return months as columns: per option the racks needed with their range, power at the meter, racks to order, and racks that begin to serve."""
    months = list(dict.fromkeys(m for o in plan.options if o.growth is not None for m in o.growth.months))
    rows = []
    for o in (o for o in plan.options if o.growth is not None):
        g = o.growth
        lines = {"racks needed": g.racks, "racks needed, low": g.racks_low, "racks needed, high": g.racks_high, "facility MW": g.facility_mw,
                 "racks to order": [sum(x.racks for x in g.orders if x.order_by == m) for m in g.months],
                 "racks that begin to serve": [sum(x.racks for x in g.orders if x.serves_from == m) for m in g.months]}
        rows += [{"workload": o.workload, "system": o.system, "quantity": name, **dict(zip(g.months, values, strict=True))}
                 for name, values in lines.items()]
    return pd.DataFrame(rows, columns=["workload", "system", "quantity", *months], dtype=object)


def drivers_table(plan: Plan) -> pd.DataFrame:
    """Return the inputs that move the racks of each workload's best system most, one at a time; none where none moves a whole rack."""
    def racks(number: int | None) -> str:
        return "SLO missed" if number is None else f"{number:,}"

    rows = [{"": f"{o.workload}: {o.system}", "Input": d.input.replace("_", " "), "From": digits(d.low), "To": digits(d.high),
             "Racks there": f"{racks(d.racks_at_low)} to {racks(d.racks_at_high)}", "Grade": d.grade, "Claims": " ".join(d.claims)}
            for o in plan.options for d in o.drivers]
    return pd.DataFrame(rows, columns=["", "Input", "From", "To", "Racks there", "Grade", "Claims"]).set_index("").rename_axis(None)


def headline_table(plan: Plan) -> pd.DataFrame:
    """Return a row per workload and system: racks, power, speed, cost with ranges, how, grade and what binds."""
    rows = []
    for o in plan.options:
        row = {"": f"{o.workload}: {o.system}", "Status": o.status}
        row |= {title: shown(o.answers.get(name)) for name, title in HEADLINE.items()}
        speed = o.answers.get("tokens_per_s_per_gpu")
        row |= {"How": speed.how if speed else "", "Grade": speed.grade if speed else "", "Binding": o.binding or o.limit}
        rows.append(row)
    return pd.DataFrame(rows).set_index("").rename_axis(None)


def answers_table(plan: Plan) -> pd.DataFrame:
    """Return a row per answer: value, low, high, lower, upper, unit, basis, how, grade, limit and claims; numbers stay numbers."""
    return pd.DataFrame([{"workload": o.workload, "system": o.system, "answer": a.name, "value": a.value, "unit": a.unit, "low": a.low,
                          "high": a.high, "lower": a.lower, "upper": a.upper, "basis": a.basis, "how": a.how, "grade": a.grade,
                          "limit": a.limit, "note": a.note, "claims": " ".join(a.claims)}
                         for o in plan.options for a in o.answers.values()])


def detail_table(plan: Plan) -> pd.DataFrame:
    """Return the answers for reading: value with range, unit, basis, how and grade, the note last."""
    frame = [{"": f"{o.workload}: {o.system}", "Answer": a.name.replace("_", " "), "Value": shown(a).removesuffix(f" {a.how}"),
              "Unit": a.unit, "Basis": a.basis, "How": a.how, "Grade": a.grade, "Note": a.note}
             for o in plan.options for a in o.answers.values()]
    return pd.DataFrame(frame, columns=["", "Answer", "Value", "Unit", "Basis", "How", "Grade", "Note"]).set_index("").rename_axis(None)


def inputs_table(plan: Plan) -> pd.DataFrame:
    """Return the inputs as typed: a row per key."""
    def walk(value, key):
        if isinstance(value, Mapping):
            for name, part in value.items():
                yield from walk(part, f"{key}.{name}" if key else name)
        elif isinstance(value, (list, tuple)):
            if not value:
                yield key, "none"
            for i, part in enumerate(value, 1):
                yield from walk(part, f"{key}[{i}]")
        elif value is not None:
            yield key, whole_or_digits(value, "1") if isinstance(value, float) and value >= 1000 else str(value)
    return pd.DataFrame(list(walk(plan.inputs, "")), columns=["Input", "Value"]).set_index("Input").rename_axis(None)


def parts_table(plan: Plan) -> pd.DataFrame:
    """Return every breakdown: workload, system, total, part, value and share of the total."""
    return pd.DataFrame([{"workload": o.workload, "system": o.system, "of": total, "part": part, "value": value,
                          "share": value / sum(parts.values()) if sum(parts.values()) else None}
                         for o in plan.options for total, parts in o.parts.items() for part, value in parts.items()])


def sources_table(plan: Plan) -> pd.DataFrame:
    """Return the claims behind the answers, each with value, unit, grade, source and date."""
    from planner.facts.show import claim_rows

    used = dict.fromkeys(c for o in plan.options for a in o.answers.values() for c in a.claims)
    rows = claim_rows(used) or [dict.fromkeys(("Claim", "Subject", "Quantity", "Value", "Basis", "Grade", "As of", "Source"), "")]
    return pd.DataFrame(rows).set_index("Claim").rename_axis(None).head(len(used))


def _bars(plan: Plan, name: str, title: str, axis: str) -> go.Figure:
    options = [o for o in plan.options if o.value(name) is not None]
    figure = go.Figure()
    for i, workload in enumerate(dict.fromkeys(o.workload for o in options)):
        mine = [(o, o.answers[name]) for o in options if o.workload == workload]
        figure.add_scatter(
            mode="markers+text", name=workload, y=[o.system for o, _ in mine], x=[a.value for _, a in mine],
            marker={"size": 13, "color": COLOURS[i % len(COLOURS)], "symbol": i},
            error_x={"type": "data", "symmetric": False, "color": COLOURS[i % len(COLOURS)], "thickness": 2, "width": 7,
                     "array": [(a.value if a.high is None else a.high) - a.value for _, a in mine],
                     "arrayminus": [a.value - (a.value if a.low is None else a.low) for _, a in mine]},
            text=[f"{whole_or_digits(a.value, a.unit)} · {a.how} · grade {a.grade}" for _, a in mine], textposition="top right",
            hovertext=[f"{o.system}: {shown(a)} {a.unit}<br>{a.basis}<br>claims: {', '.join(a.claims[:8]) or 'none'}" for o, a in mine],
            hoverinfo="text", cliponaxis=False)
    figure.update_xaxes(rangemode="tozero")
    figure.update_layout(showlegend=len(figure.data) > 1)
    figure.update_yaxes(autorange="reversed")
    return finished(figure, title, x=axis, height=150 + 58 * max(1, len({o.system for o in options})))


def _extreme(plan: Plan, name: str, least: bool) -> Option | None:
    options = [o for o in plan.options if o.status == "ok" and o.value(name) is not None]
    return (min if least else max)(options, key=lambda o: o.value(name)) if options else None


def racks_figure(plan: Plan) -> go.Figure:
    """Return the rack count per system, with the range of the draws."""
    best = _extreme(plan, "racks_total", True)
    title = f"{best.system} needs the fewest racks: {best.value('racks_total'):,.0f}" if best else "No system serves the load"
    return _bars(plan, "racks_total", title, "racks, spares included (mark: central case; whisker: 80 % of draws)")


def power_figure(plan: Plan) -> go.Figure:
    """Return facility power per system, with the range of the draws."""
    best = _extreme(plan, "facility_power", True)
    title = f"{best.system} draws the least: {digits(best.value('facility_power'))} MW at the meter" if best else "Power is not available"
    return _bars(plan, "facility_power", title, "facility power, MW (IT power times PUE)")


def cost_figure(plan: Plan) -> go.Figure:
    """Return the cost per million output tokens per system; systems without a price are left out and named in the title."""
    best = _extreme(plan, "usd_per_mtok_output", True)
    lacking = list(dict.fromkeys(o.system for o in plan.options if o.value("usd_per_mtok_output") is None))
    title = f"{best.system}: {digits(best.value('usd_per_mtok_output'))} USD per million output tokens" if best else "No price is available"
    if lacking:
        title += f"<br>no price or no plan: {', '.join(lacking)}"
    return _bars(plan, "usd_per_mtok_output", title, "USD per million output tokens, all cost on output")


def hbm_figure(plan: Plan) -> go.Figure:
    """Return what sits in the HBM of one GPU, stacked, per option."""
    options = [o for o in plan.options if "hbm_bytes" in o.parts]
    figure = go.Figure()
    for i, part in enumerate(dict.fromkeys(p for o in options for p in o.parts["hbm_bytes"])):
        figure.add_bar(orientation="h", name=part, y=[f"{o.system}, {o.workload}" for o in options],
                       x=[o.parts["hbm_bytes"].get(part, 0) / 1e9 for o in options], marker_color=COLOURS[i % len(COLOURS)])
    figure.update_layout(barmode="stack", legend_traceorder="normal")
    figure.update_yaxes(autorange="reversed")
    top = max(options, key=lambda o: o.parts["hbm_bytes"].get("weights", 0), default=None)
    share = top.parts["hbm_bytes"]["weights"] / sum(top.parts["hbm_bytes"].values()) if top else 0
    return finished(figure, f"Weights take up to {share:.0%} of a GPU's HBM" if top else "No layout fits", x="GB per GPU (1 GB = 1e9 B)",
                    height=160 + 62 * max(1, len(options)))


def takeaway(plan: Plan) -> str:
    """Return one line of text with the computed finding, for notebooks whose outputs are compared."""
    return " | ".join(f"{o.workload}, {o.system}: {shown(o.answers.get('racks_total'))} racks, {o.binding or o.limit}"
                      for o in plan.options)


def tables(plan: Plan) -> dict[str, pd.DataFrame]:
    """Return the tables of the workbook by sheet title, in the order a reader wants them."""
    return {"Summary": headline_table(plan).reset_index(names="Option"), "Answers": answers_table(plan), "Breakdowns": parts_table(plan),
            "Months": months_table(plan), "What moves it": drivers_table(plan).reset_index(names="Option"),
            "Inputs": inputs_table(plan).reset_index(names="Input"), "Sources": sources_table(plan).reset_index(names="Claim")}
