"""What Vera Rubin changes, by scenario and along the speed, and where each headline holds: per GPU, per IT megawatt, per dollar."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.calibration.serving.submissions import output_tokens
from planner.draws import interval
from planner.errors import InputError
from planner.facts.evidence import Claim, claim
from planner.models import cost
from planner.sensitivity import headline, pricing, rubin
from planner.sensitivity.rubin import Along, Level
from planner.views import serving_errors
from planner.views.pricing import NAMES
from planner.views.style import COLOURS, finished, log_ticks
from planner.views.tables import NOT_AVAILABLE, digits

SYMBOLS = ("circle", "diamond", "square", "triangle-up", "triangle-down")
ASSUMED = {"Agentic": "agentic (assumed)"}
PER = {"GPU": "output tokens/s per GPU", "IT megawatt": "million output tokens/s per IT megawatt"}
HEADLINE_LENGTHS = (8192.0, 1024.0)  # of the ten-fold claim: assumed, it names none


def _claim(model: str) -> Claim:
    if model not in pricing.CLAIMS:
        raise InputError("model", model, f"must be one of {', '.join(pricing.CLAIMS)}")
    return claim(pricing.CLAIMS[model])


def _said(item: Claim) -> str:
    return f"{item.qualifier} {item.value:g}x".strip()


def scenario_name(scenario: str) -> str:
    """Return a scenario as printed: agentic lengths, cache hits and limits are assumed, and say so."""
    return ASSUMED.get(scenario, scenario.lower())


def name_of(level: Level) -> str:
    """Return a system with its profile, power setting and software, as printed."""
    if level.system != rubin.NEW:
        return "GB300"
    return f"VR {level.profile} {rubin.SETTINGS[level.profile]:,.0f} W, {level.software}"


def measured_gb300(model: str, scenario: str) -> tuple[float, float, float] | None:
    """Return GB300's audited result in output tokens per GPU [1/s]: median, lowest and highest of whole racks; None without one."""
    if scenario not in pricing.SCENARIOS:
        return None
    median, least, most, metric = pricing.measured(model, scenario)
    factor = 1.0 if metric == "Tokens/s" else output_tokens(model, scenario)
    return median * factor, least * factor, most * factor


def _scaled(level: Level, per: str) -> tuple[float, float, float]:
    factor = {"GPU": 1.0, "IT megawatt": 1e-3 / level.kw}
    if per not in factor:
        raise InputError("per", per, f"must be one of {', '.join(factor)}")
    return tuple(v * factor[per] for v in (level.value, level.low, level.high))


def _about(level: Level) -> str:
    if level.why:
        return level.why
    return f"{level.layout}, limited by {level.limit}<br>{digits(1 / level.tpot)} tok/s per user, TTFT {digits(level.ttft)} s, {level.how}"


def levels_figure(model: str, per: str = "GPU") -> go.Figure:
    """Return every system at every scenario with its 80 % interval, and GB300's audited results beside the model. Raises: InputError."""
    figure, by_name = go.Figure(), {}
    for scenario in rubin.SCENARIOS:
        for level in rubin.levels(model, scenario):
            by_name.setdefault(name_of(level), []).append((scenario, level))
    step, places = 0.14, {s: i for i, s in enumerate(rubin.SCENARIOS)}
    for i, (name, mine) in enumerate(by_name.items()):
        value, low, high = np.array([_scaled(level, per) for _, level in mine]).T
        about = [_about(level) for _, level in mine]
        figure.add_scatter(
            x=[places[s] + (i - 2.5) * step for s, _ in mine], y=value, mode="markers", name=name, text=about, customdata=np.array([low, high]).T,
            error_y={"type": "data", "symmetric": False, "array": high - value, "arrayminus": value - low, "color": COLOURS[i]},
            marker={"color": COLOURS[i], "symbol": SYMBOLS[i], "size": 9},
            hovertemplate="%{y:.4g} (80 %: %{customdata[0]:.3g} to %{customdata[1]:.3g})<br>%{text}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    seen = {s: m for s in rubin.SCENARIOS if (m := measured_gb300(model, s))}
    kw = rubin.levels(model, rubin.SCENARIOS[0])[-1].kw
    factor = 1.0 if per == "GPU" else 1e-3 / kw
    figure.add_scatter(
        x=[places[s] + 2.5 * step for s in seen], y=[m[0] * factor for m in seen.values()], mode="markers", name="GB300 measured (MLPerf v6.1)",
        marker={"symbol": "x", "size": 10, "color": COLOURS[6]}, hovertemplate="measured: %{y:.4g}<extra>MLPerf v6.1, closed, whole racks</extra>",
    )  # fmt: skip
    figure.update_xaxes(tickvals=list(places.values()), ticktext=[scenario_name(s) for s in places])
    figure.update_yaxes(**log_ticks([v for t in figure.data for v in t.y] + [v for t in figure.data[:-1] for v in t.customdata[:, 0]]))
    ends = [_ratio_text(model, s, "upto", "preview", per) for s in rubin.SCENARIOS]
    title = f"{NAMES[model]}: Vera Rubin (upto, preview) over GB300 per {per}: " + ", ".join(
        f"{e} {scenario_name(s)}" for s, e in zip(rubin.SCENARIOS, ends, strict=True))
    finished(figure, title, y=PER[per], height=460)
    figure.update_layout(legend={"y": -0.12})
    return figure


def _ratio_text(model: str, scenario: str, profile: str, software: str, per: str = "GPU") -> str:
    found = rubin.ratio(model, scenario, profile, software, per)
    return NOT_AVAILABLE if found is None else digits(float(found[0]))


def verdict(value: float, low: float, high: float, claimed: float) -> str:
    """Return where a claim lies against a model's value with its 80 % interval, in words."""
    if claimed > high:
        return "above the interval"
    if claimed < low:
        return "below the interval"
    return "inside, at or below the central value" if claimed <= value else "inside, above the central value"


def ratio_table(software: str = "preview") -> pd.DataFrame:
    """Return Vera Rubin over GB300 per GPU and per IT megawatt with 80 % intervals, each model's claim beside it, and where the claim lies."""
    rows = []
    for model, scenario in ((m, s) for m in pricing.CLAIMS for s in rubin.SCENARIOS):
        item = _claim(model)
        for profile, watts in rubin.SETTINGS.items():
            found = [rubin.ratio(model, scenario, profile, software, per) for per in rubin.BASES]
            texts = [NOT_AVAILABLE if f is None else "{} ({}–{})".format(*map(digits, interval(f))) for f in found]
            row = {"Model": NAMES[model], "Scenario": scenario_name(scenario), "Vera Rubin": f"{profile}, {watts:,.0f} W", "Per GPU": texts[0]}
            row |= {"Claimed, per GPU": f"{_said(item)} ({item.id}, {item.grade})", "Per IT megawatt": texts[1]}
            rows.append(row | {"Claim": NOT_AVAILABLE if found[0] is None else verdict(*interval(found[0]), item.value)})
    return pd.DataFrame(rows).set_index("Model").rename_axis(None)


def ratio_figure(software: str = "preview") -> go.Figure:
    """Return Vera Rubin over GB300 per GPU for both models and four scenarios, with 80 % intervals, and each model's claim as a mark."""
    figure, rows = go.Figure(), [(m, s) for m in pricing.CLAIMS for s in rubin.SCENARIOS]
    places = np.arange(len(rows), dtype=float)
    inside = []
    for i, profile in enumerate(rubin.SETTINGS):
        found = [rubin.ratio(m, s, profile, software) for m, s in rows]
        value, low, high = np.array([(np.nan,) * 3 if f is None else interval(f) for f in found]).T
        figure.add_scatter(
            x=value, y=places + (i - 0.5) * 0.3, mode="markers", name=f"model, {profile} {rubin.SETTINGS[profile]:,.0f} W",
            error_x={"type": "data", "symmetric": False, "array": high - value, "arrayminus": value - low, "color": COLOURS[i]},
            marker={"color": COLOURS[i], "symbol": SYMBOLS[i], "size": 9}, text=[f"{NAMES[m]}, {scenario_name(s)}" for m, s in rows],
            hovertemplate="%{text}: %{x:.3g}<extra>%{fullData.name}, extrapolated</extra>",
        )  # fmt: skip
        if profile == "upto":
            inside = [bool(v >= _claim(m).value) for (m, _), v in zip(rows, value, strict=True)]
    figure.add_scatter(
        x=[_claim(m).value for m, _ in rows], y=places, mode="markers", name="claim (names no scenario)",
        marker={"symbol": "line-ns-open", "size": 22, "color": COLOURS[5], "line": {"width": 3}},
        text=[f"{_said(_claim(m))}, {_claim(m).id}, grade {_claim(m).grade}" for m, _ in rows], hovertemplate="%{text}<extra>claim</extra>",
    )  # fmt: skip
    figure.update_xaxes(**log_ticks([v for t in figure.data for v in t.x if np.isfinite(v)] + [0.2, 40]))
    figure.update_yaxes(tickvals=places, ticktext=[f"{NAMES[m]}, {scenario_name(s)}" for m, s in rows], autorange="reversed")
    held = [f"{NAMES[m]} {scenario_name(s)}" for (m, s), yes in zip(rows, inside, strict=True) if yes]
    title = f"The model's central ratio reaches the claim in {len(held)} of {len(rows)} cases" + (f": {', '.join(held)}" if held else "")
    return finished(figure, title, x="Vera Rubin over GB300, output tokens/s per GPU", height=460)


def dollars_table(model: str, software: str = "preview") -> pd.DataFrame:
    """Return cost a million output tokens on GB300 at an analyst's rent, and the rent at which Vera Rubin costs the same; no price of it is held."""
    rows, rent = [], float(rubin.gb300_price(rubin.NUM)[0])
    for scenario in rubin.SCENARIOS:
        level = rubin.levels(model, scenario)[-1]
        own = NOT_AVAILABLE if level.why else digits(float(cost.usd_per_million_tokens(rent, level.value, 1.0)))
        row = {"Scenario": scenario_name(scenario), "GB300, USD per GPU-hour": f"{digits(rent)} (E)", "GB300, USD per M output tokens": own,
               "Vera Rubin, USD per GPU-hour": NOT_AVAILABLE}
        for profile in rubin.SETTINGS:
            found = rubin.break_even(model, scenario, profile, software)
            row[f"Break-even, {profile}"] = NOT_AVAILABLE if found is None else "{} ({}–{})".format(*map(digits, found))
        rows.append(row)
    return pd.DataFrame(rows).set_index("Scenario").rename_axis(None)


def _band(figure: go.Figure, found: Along, name: str, colour: str, symbol: str) -> None:
    ok = np.isfinite(found.central)
    xs, low, high = found.speeds[ok], found.low[ok], found.high[ok]
    shown = {"fill": "toself", "mode": "lines", "line": {"width": 0}, "opacity": 0.15, "fillcolor": colour, "showlegend": False, "hoverinfo": "skip"}
    figure.add_scatter(x=np.r_[xs, xs[::-1]], y=np.r_[high, low[::-1]], name=f"{name}, 80 %", **shown)
    figure.add_scatter(
        x=xs, y=found.central[ok], mode="lines+markers", name=name, line={"color": colour}, marker_symbol=symbol, customdata=found.unserved[ok],
        hovertemplate="%{x:.0f} tok/s per user: %{y:.3g}<br>%{customdata:.0%} of draws miss the speed<extra>%{fullData.name}, extrapolated</extra>",
    )  # fmt: skip


def along_figure(model: str, software: str = "preview") -> go.Figure:
    """Return Vera Rubin over GB300 per GPU at equal speed for both settings, with the model's claim as a line."""
    figure, item = go.Figure(), _claim(model)
    found = {p: rubin.along(model, p, software) for p in rubin.SETTINGS}
    for i, (profile, one) in enumerate(found.items()):
        _band(figure, one, f"{profile}, {rubin.SETTINGS[profile]:,.0f} W", COLOURS[i], SYMBOLS[i])
    figure.add_hline(y=item.value, line={"dash": "dash", "color": COLOURS[5]})
    figure.update_xaxes(**log_ticks(rubin.SPEEDS))
    figure.update_yaxes(**log_ticks([v for one in found.values() for v in (*one.low, *one.high)]))
    title = f"{NAMES[model]}, claim dashed: {where_it_holds(found['upto'], item.value)}"
    return finished(figure, title, x="tokens/s per user asked of both", y="Vera Rubin over GB300, per GPU", height=440)


def where_it_holds(one: Along, claimed: float) -> str:
    """Return at which speeds the central ratio reaches a claim, at which the interval holds it, and where the comparison ends, in words."""
    (central, inside), said = one.holds(claimed), f"{claimed:g}x"
    ends = [float(s) for s, c in zip(one.speeds, one.central, strict=True) if np.isfinite(c)]
    if not ends:
        return f"{said} cannot be compared: a side serves at none of these speeds"
    speeds = [float(s) for s in one.speeds]
    first = f"the central ratio reaches {said} at {_speeds(central, speeds)}" if central else f"the central ratio reaches {said} at no speed"
    middle = f"the 80 % interval holds it at {_speeds(inside, speeds)}" if inside else "the 80 % interval never holds it"
    last = "" if ends[-1] == one.speeds[-1] else f"; past {ends[-1]:.0f} one side serves nothing"
    return f"{first}; {middle} tok/s per user{last}"


def _speeds(values: list[float], of: list[float]) -> str:
    """Return speeds as a range where all between them are there, else one by one."""
    whole = of[of.index(values[0]) : of.index(values[-1]) + 1] == values and len(values) > 1
    return f"{values[0]:.0f} to {values[-1]:.0f}" if whole else ", ".join(f"{v:.0f}" for v in values)


def megawatt_figure(software: str = "preview") -> go.Figure:
    """Return DeepSeek-R1 on Vera Rubin over GB200 per IT megawatt along the speed, MTP on both sides, with the ten-fold claim as a point."""
    figure, item = go.Figure(), claim(headline.CLAIM)
    found = {p: rubin.along("deepseek-r1", p, software, rubin.GB200, "IT megawatt", HEADLINE_LENGTHS, True) for p in rubin.SETTINGS}
    for i, (profile, one) in enumerate(found.items()):
        _band(figure, one, f"{profile}, {rubin.SETTINGS[profile]:,.0f} W", COLOURS[i], SYMBOLS[i])
    figure.add_scatter(x=[headline.SPEED], y=[item.value], mode="markers", name=f"claim {item.value:g}x at {headline.SPEED:.0f} tok/s per user",
                       marker={"symbol": "star", "size": 15, "color": COLOURS[5]}, hovertemplate=f"{item.id}, grade {item.grade}<extra>claim</extra>")
    figure.update_xaxes(**log_ticks(rubin.SPEEDS))
    figure.update_yaxes(**log_ticks([v for one in found.values() for v in (*one.low, *one.high)]))
    return finished(figure, megawatt_takeaway(software), x="tokens/s per user asked of both", y="Vera Rubin over GB200, per IT megawatt", height=460)


def megawatt_takeaway(software: str = "preview") -> str:
    """Return what the model gives at the ten-fold claim's speed, with its interval, beside the claim."""
    item, parts = claim(headline.CLAIM), []
    for profile in rubin.SETTINGS:
        one = rubin.along("deepseek-r1", profile, software, rubin.GB200, "IT megawatt", HEADLINE_LENGTHS, True)
        at = int(np.argmin(abs(one.speeds - headline.SPEED)))
        value, low, high = (float(v[at]) for v in (one.central, one.low, one.high))
        parts.append(f"{profile} {digits(value)} ({digits(low)} to {digits(high)})" if np.isfinite(value) else f"{profile}: a side does not serve")
    return f"Per IT MW over GB200 at {headline.SPEED:.0f} tok/s per user: {', '.join(parts)}; {item.value:g} claimed"


def check_table() -> pd.DataFrame:
    """Return GB300 as modelled over GB300 as measured: the plan at the benchmark's limits, and the prediction by a fit that left GB300 out."""
    rows, left = [], serving_errors.left_out_rows("system")
    for model, scenario in ((m, s) for m in pricing.CLAIMS for s in pricing.SCENARIOS):
        seen, level = measured_gb300(model, scenario), rubin.levels(model, scenario)[-1]
        mine = left[(left.model == model) & (left.scenario == scenario) & (left.system == rubin.GB300) & (left["round"] == pricing.ROUND)]
        mine = mine[mine.gpus.astype(int) == 72]
        ratio = float((mine.predicted / mine.measured).median()) if len(mine) else None
        texts = ("{} ({}–{})".format(*map(digits, v)) for v in (seen, (level.value, level.low, level.high)))
        row = {"Model": NAMES[model], "Scenario": scenario_name(scenario), **dict(zip(("Measured, tok/s per GPU", "Modelled"), texts, strict=True))}
        rows.append(row | {"Modelled over measured": digits(level.value / seen[0]), "The same, GB300 left out": digits(ratio)})
    return pd.DataFrame(rows).set_index("Model").rename_axis(None)


def takeaway(model: str, software: str = "preview") -> str:
    """Return what changes and which claim holds where, in four lines; claims on different baselines stand apart."""
    item, lines = _claim(model), []
    for profile in rubin.SETTINGS:
        said = []
        for scenario in rubin.SCENARIOS:
            found = rubin.ratio(model, scenario, profile, software)
            said.append(f"{scenario_name(scenario)} " + (NOT_AVAILABLE if found is None else "{} ({} to {})".format(*map(digits, interval(found)))))
        lines.append(f"{NAMES[model]}, {profile} {rubin.SETTINGS[profile]:,.0f} W over GB300 per GPU, {software}, extrapolated: {', '.join(said)}")
    lines.append(f"Claim {_said(item)} over GB300 ({item.id}, grade {item.grade}, no scenario named; measured at "
                 f"{claim('H0127').value:,.0f} W): at equal speed {where_it_holds(rubin.along(model, 'upto', software), item.value)}")
    tokens = "{} (80 %: {} to {})".format(*map(digits, pricing.prompt_tokens(model)))
    lines.append(f"Offline, server and interactive rest on a mean prompt of {tokens} tokens: not published, fitted once for all systems")
    known = {s: m for s in rubin.SCENARIOS if (m := measured_gb300(model, s))}
    over = [f"{scenario_name(s)} {digits(rubin.levels(model, s)[-1].value / m[0])}" for s, m in known.items()]
    lines.append(f"How far the model is off where it can be held to results, GB300 modelled over measured: {', '.join(over)}")
    odd = [scenario_name(s) for s in rubin.SCENARIOS if _mature_below_preview(model, s)]
    if odd:
        lines.append(f"Odd: mature software is below preview in {', '.join(odd)}: the fitted first round of a new platform was not slower there")
    return "\n".join(lines)


def _mature_below_preview(model: str, scenario: str) -> bool:
    values = {lv.software: lv.value for lv in rubin.levels(model, scenario) if lv.profile == "upto"}
    return values["mature"] < values["preview"] * (1 - 1e-3)
