"""What Vera Rubin may cost, and what it must: break-even prices, their curves, the inputs behind them, dated list prices."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.draws import between, sample
from planner.facts.files import table
from planner.models import cost
from planner.sensitivity import pricing, value_of_learning
from planner.units import fraction
from planner.views.style import COLOURS, finished
from planner.views.tables import NOT_AVAILABLE, digits

BASES = ("claim", "model")
NAMES = {"deepseek-r1": "DeepSeek-R1", "qwen3-vl-235b-a22b": "Qwen3-VL 235B"}
WHAT = {"rent": "USD per GPU-hour", "rack": "million USD per rack", "megawatt": "million USD per megawatt and year"}
SCALE = {"rent": 1.0, "rack": 1e-6, "megawatt": 1.0}


def points(kind: str) -> list[pricing.BreakEven]:
    """Return every break-even price of one kind, model by model, scenario by scenario, by claim and by the plan's own throughput."""
    return [pricing.break_even_price(kind, m, s, b) for m in pricing.CLAIMS for s in pricing.SCENARIOS for b in BASES]


def break_even_table(kind: str) -> pd.DataFrame:
    """Return break-even prices with their 80 % interval, the three inputs that move them most and the analyst's figure."""
    rows = []
    for p in points(kind):
        k = SCALE[kind]
        rows.append({"Model": NAMES[p.model], "Scenario": p.scenario, "Ratio by": p.basis, WHAT[kind]: digits(p.value * k),
                     "Low": digits(p.low * k), "High": digits(p.high * k), "Analyst": digits(p.analyst * k if p.analyst else None),
                     "Chance it pays": NOT_AVAILABLE if p.chance is None else f"{p.chance:.0%}", "Moved most by": ", ".join(b.name for b in p.bars),
                     "Grade": p.grade})
    return pd.DataFrame(rows).set_index("Model").rename_axis(None)


def break_even_figure(kind: str) -> go.Figure:
    """Return break-even prices as points with their intervals; the analyst's figure is a line."""
    figure, found = go.Figure(), points(kind)
    for i, basis in enumerate(BASES):
        mine = [p for p in found if p.basis == basis]
        value, low, high = (np.array([getattr(p, n) for p in mine]) * SCALE[kind] for n in ("value", "low", "high"))
        figure.add_scatter(x=value, y=[f"{NAMES[p.model]}, {p.scenario}" for p in mine], mode="markers", name=f"ratio by {basis}",
                           marker={"color": COLOURS[i], "size": 10, "symbol": ("circle", "diamond")[i]},
                           error_x={"type": "data", "symmetric": False, "array": high - value, "arrayminus": value - low, "color": COLOURS[i]},
                           hovertemplate="%{y}: %{x:.3g}<extra>%{fullData.name}</extra>")
    listed = found[0].analyst
    title = f"Break-even {WHAT[kind]}: Vera Rubin against GB300"
    if listed is not None:
        listed *= SCALE[kind]
        above = sum(p.value * SCALE[kind] > listed for p in found)
        rows = [f"{NAMES[p.model]}, {p.scenario}" for p in found if p.basis == BASES[0]]
        figure.add_scatter(x=[listed, listed], y=[rows[0], rows[-1]], mode="lines", name=f"analyst: {digits(listed)}",
                           line={"dash": "dash", "color": COLOURS[6]})  # a trace: an annotation on a logarithmic axis stretches it
        title = f"An analyst's {digits(listed)} {WHAT[kind]} lies below {above} of {len(found)} break-even prices"
    figure.update_xaxes(type="log")
    figure.update_yaxes(autorange="reversed")
    return finished(figure, title, x=WHAT[kind], height=460)


def tornado_figure(kind: str, model: str, scenario: str, basis: str) -> go.Figure:
    """Return the inputs that move one break-even price most, each from its 10th to its 90th percentile."""
    found = pricing.break_even_price(kind, model, scenario, basis)
    figure, k = go.Figure(), SCALE[kind]
    for end, colour in (("low", COLOURS[0]), ("high", COLOURS[1])):
        at = [getattr(b, f"at_{end}") * k for b in found.bars]
        figure.add_bar(x=[v - found.value * k for v in at], y=[b.name for b in found.bars], base=found.value * k, orientation="h",
                       marker_color=colour, name=f"input at its {'10th' if end == 'low' else '90th'} percentile", customdata=at,
                       hovertemplate="%{y}: %{customdata:.4g}<extra>%{fullData.name}</extra>")
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(barmode="overlay")
    title = f"{found.bars[0].name} moves the price most: {digits(found.bars[0].at_low * k)} to {digits(found.bars[0].at_high * k)}"
    return finished(figure, title, x=WHAT[kind], height=320)


def curve_figure(kind: str, model: str, scenario: str, basis: str, name: str) -> go.Figure:
    """Return the break-even price along one input, with its 80 % interval over all the others."""
    item = pricing.inputs(kind, model, scenario, basis)[name]
    values = np.linspace(0.7 * item.low, 1.3 * item.high, 31)
    central, low, high = pricing.curve(kind, model, scenario, basis, name, values) * SCALE[kind]
    figure = go.Figure()
    figure.add_scatter(x=np.concatenate([values, values[::-1]]), y=np.concatenate([high, low[::-1]]), fill="toself", opacity=0.2, line={"width": 0},
                       fillcolor=COLOURS[0], name="80 % of draws", hoverinfo="skip")
    figure.add_scatter(x=values, y=central, name="others central", line={"color": COLOURS[0]}, hovertemplate="%{x:.3g}: %{y:.4g}<extra></extra>")
    listed = pricing.break_even_price(kind, model, scenario, basis).analyst
    if listed is not None:
        figure.add_hline(y=listed * SCALE[kind], line={"dash": "dash", "color": COLOURS[6]}, annotation_text="analyst's price")
    title = f"{digits(central[0])} to {digits(central[-1])} {WHAT[kind]} as {name} goes from {digits(values[0])} to {digits(values[-1])}"
    return finished(figure, title, x=name, y=WHAT[kind], height=420)


SPEEDS = (20.0, 50.0, 100.0, 150.0, 200.0)


def slo_figure(kind: str, model: str) -> go.Figure:
    """Return the break-even price along the SLO, with its 80 % interval; the ratio is the plan's own at each speed."""
    found = pricing.slo_curve(kind, model, SPEEDS) * SCALE[kind]
    reached = np.isfinite(found[0])
    xs, (central, low, high) = np.array(SPEEDS)[reached], found[:, reached]
    figure = go.Figure()
    figure.add_scatter(x=np.concatenate([xs, xs[::-1]]), y=np.concatenate([high, low[::-1]]), fill="toself", mode="lines", opacity=0.2,
                       line={"width": 0}, fillcolor=COLOURS[1], name="80 % of draws", hoverinfo="skip")
    figure.add_scatter(x=xs, y=central, mode="lines+markers", name="ratio by model", line={"color": COLOURS[1]},
                       hovertemplate="%{x:.0f} tok/s: %{y:.4g}<extra></extra>")
    listed = pricing.analyst("rent", 0) if kind == "rent" else None
    if listed is not None:
        figure.add_scatter(x=[SPEEDS[0], SPEEDS[-1]], y=[listed, listed], mode="lines", name="analyst's price",
                           line={"dash": "dash", "color": COLOURS[6]})
    figure.update_yaxes(type="log")
    title = "Neither system reaches these speeds" if not len(xs) else (
        f"{NAMES[model]}: {digits(central[0])} {WHAT[kind]} at {xs[0]:.0f} tok/s per user, {digits(central[-1])} at {xs[-1]:.0f}")
    return finished(figure, title, x="tokens/s per user asked for", y=WHAT[kind], height=420)


def learning_table(model: str, scenario: str, basis: str) -> pd.DataFrame:
    """Return what it is worth, in USD a million tokens of cost avoided, to learn each input before choosing between the two systems.

    The choice: rent Vera Rubin at the analyst's price, with its grade's spread, or GB300. Ask first for what stands first.
    """
    given = pricing.inputs("rent", model, scenario, basis)
    asked = pricing.analyst("rent", 0)
    given["Vera Rubin price"] = between(asked, asked * 0.8, asked * 1.15, "E", "claimed")
    x = sample(given, 4096)
    rate = pricing.measured(model, scenario)[0]
    own = cost.usd_per_million_tokens(x["Vera Rubin price"], rate, 1.0) / (pricing.price("rent", x) / x["GB300 price"])
    other = cost.usd_per_million_tokens(x["GB300 price"], rate, 1.0)
    found = value_of_learning({"Vera Rubin": -own[1:], "GB300": -other[1:]}, {n: v[1:] for n, v in x.items()})
    rows = [{"Input": n, "Worth, USD a million": round(v, 5), "Of knowing all": f"{v / found.perfect:.0%}" if found.perfect > 0 else "0%"}
            for n, v in found.by_input.items()]
    rows.append({"Input": "all of them", "Worth, USD a million": round(found.perfect, 5), "Of knowing all": "100%"})
    return pd.DataFrame(rows).set_index("Input").rename_axis(f"choose today: {found.best}")


def cost_table(gb300_usd_per_gpu_hour: float, utilisation: float) -> pd.DataFrame:
    """Return the cost of a million output tokens (or thousand samples) on GB300 as measured, and of Vera Rubin at the analyst's price by claim.

    Parameters: price [USD]; utilisation in 0..1. Raises: InputError for a percent.
    """
    used, asked, rows = float(fraction("utilisation", utilisation, zero=False)), pricing.analyst("rent", 0), []
    for model in pricing.CLAIMS:
        for scenario in pricing.SCENARIOS:
            rate, _, _, metric = pricing.measured(model, scenario)
            per = 1.0 if metric == "Tokens/s" else 1e-3
            ratio = pricing.claimed_ratio(model).value
            own, other = (float(cost.usd_per_million_tokens(p, r, used)) * per for p, r in ((asked, rate * ratio), (gb300_usd_per_gpu_hour, rate)))
            rows.append({"Model": NAMES[model], "Scenario": scenario, "GB300 measured, per GPU": f"{digits(rate)} {metric}",
                         "USD": "a million output tokens" if per == 1 else "a thousand samples", "GB300": digits(other),
                         "Vera Rubin, claimed": digits(own)})
    return pd.DataFrame(rows).set_index("Model").rename_axis(None)


def takeaway(model: str, scenario: str) -> str:
    """Return what may be said of one point: break-even by claim and by bound, the analyst's price, and how sure."""
    by = {b: pricing.break_even_price("rent", model, scenario, b) for b in BASES}
    lines = [f"{NAMES[model]}, {scenario}: Vera Rubin costs as much a token as GB300 at {digits(p.value)} USD per GPU-hour "
             f"({digits(p.low)} to {digits(p.high)}) with the throughput ratio by {b}; grade {p.grade}" for b, p in by.items()]
    claimed, bound = by["claim"], by["model"]
    lines.append(f"No provider lists a price. At an analyst's {digits(claimed.analyst)} USD it is cheaper a token in {claimed.chance:.0%} of draws "
                 f"by the claim, in {bound.chance:.0%} by the plan's own throughput")
    return "\n".join(lines)


def prices_table() -> pd.DataFrame:
    """Return dated prices of the rack systems and B300 as listed: what has no price is not available."""
    rows = [{"Provider": r["provider"], "System": r["system"], "Kind": r["pricing_model"],
             "USD per GPU-hour": r["usd_per_gpu_hour"] or NOT_AVAILABLE, "As of": r["date"], "Grade": r["evidence_grade"]}
            for r in table("prices.csv") if any(w in r["system"] for w in ("NVL72", "HGX B300"))]
    return pd.DataFrame(rows).set_index("Provider").rename_axis(None)


def estimates_check() -> pd.DataFrame:
    """Return the analyst's rental price over own cost, by system and table date: the kW behind them change between dates and are never mixed."""
    rows = []
    for r in table("power_and_price_estimates.csv"):
        own, rental = r["usd_gpu_hr_hyperscaler_own"], r["usd_gpu_hr_rental_3yr"]
        if r["gpu"] in ("gb200", "gb300", "b300", "vr200") and rental:
            rows.append({"System": r["gpu"], "Table": r["table_date"], "Own, hyperscaler": own, "Rental, 3 years": rental,
                         "Rental over own": digits(float(rental) / float(own))})
    return pd.DataFrame(rows).set_index("System").rename_axis(None)
