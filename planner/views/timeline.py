"""When a site runs out and what to order now: plans side by side, racks and power by month, order-by dates, one fleet for several workloads."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.calibration import power as powers
from planner.draws import between
from planner.errors import Infeasible
from planner.facts import catalog
from planner.facts.evidence import claim
from planner.sensitivity import pricing
from planner.timeline import fleet, search
from planner.timeline.ledger import STATES, Supply
from planner.timeline.simulate import simulate
from planner.timeline.story import STRATEGIES, Story, Told, future_of, tell
from planner.views.style import COLOURS, finished
from planner.views.tables import NOT_AVAILABLE, digits

WORKLOAD = "DeepSeek-R1"
HOURS_A_MONTH = 730.0
RATE = 0.08


def supply(system: str, profile: str | None, lead_months: int, usd: float, pue: float, utilisation: float, **more) -> Supply:
    """Return one system as an order sees it: MLPerf Server throughput (Vera Rubin: by claim) at a utilisation, rack power, running cost.

    Parameters: usd [USD] of a rack, its share of the network added; pue; utilisation in 0..1. Raises: InputError.
    """
    rack = catalog.system(system, profile)
    rate = pricing.measured("deepseek-r1", "Server")[0] * (1.0 if system == "gb300-nvl72" else pricing.claimed_ratio("deepseek-r1").value)
    watts = sum(powers.rack_parts(rack).values())
    kw_month = claim(pricing.COLOCATION).value + claim(pricing.ELECTRICITY).value * HOURS_A_MONTH * pue
    return Supply(rack.label, {WORKLOAD: rate * rack.gpus * utilisation}, rack.gpus, watts * pue, lead_months,
                  usd=usd * (1 + claim(pricing.NETWORK).base_value), running_usd_per_month=watts / 1e3 * kw_month, residual_fraction=0.1, **more)


@cache
def story(site_mw: float = 20.0, growth: float = 0.08, start_tokens_per_s: float = 4e6, months: int = 24, chance: float = 0.8, lead_months: int = 6,
          later_lead_months: int = 9, later_musd: float = 7.8, pue: float = 1.2, utilisation: float = 0.7, racks_at_hand: int = 12) -> Story:
    """Return the site of the notebook: DeepSeek-R1 grows, GB300 can be ordered now, Vera Rubin from month 4 with preview software.

    Parameters in the units of their names; start_tokens_per_s is the peak of month 0. Raises: InputError.
    """
    now = supply("gb300-nvl72", None, lead_months, claim(pricing.GB_RACK).value, pue, utilisation, acceptance_months=1, initial=racks_at_hand)
    later = supply("vr-nvl72", "upto", later_lead_months, later_musd * 1e6, pue, utilisation, acceptance_months=2, first_month=4, start_fraction=0.7,
                   mature_months=12)
    start = between(start_tokens_per_s, start_tokens_per_s / 1.2, start_tokens_per_s * 1.25)
    span = max(0.03, abs(growth) * 0.4)
    grows = between(growth, growth - span, growth + span)
    return Story(now, later, WORKLOAD, start, grows, months, site_mw * 1e6, chance, serve_from=lead_months + 2)


@cache
def told(site: Story, strategy: str, num: int = 512) -> Told:
    """Return what becomes of one strategy. Raises: InputError."""
    return tell(site, strategy, num)


def _rule(site: Story, num: int = 512):
    """The fixed rule at the median future, run through all of them: (found, timeline)."""
    demand, drawn = site.futures(num)
    supplies = site.supplies("both")
    middle = {w: np.quantile(d, 0.5, axis=0) for w, d in demand.items()}
    found = search.fixed_rule(supplies, middle, site.limits())
    return found, simulate(supplies, found.orders, demand, site=site.limits().site, future=future_of(site, drawn, supplies))


def _kept(timeline, serve_from: int) -> float:
    return float(1 - (timeline.fleet.short[:, :, serve_from:] > 0).any((1, 2)).mean())


def strategies_table(site: Story) -> pd.DataFrame:
    """Return the cheapest plan of each strategy beside a fixed rule: cost, racks, chance that no month is short, or why there is none."""
    rows = []
    for strategy in STRATEGIES:
        found = told(site, strategy)
        if found.chosen is None:
            rows.append({"Strategy": strategy, "Present cost, MUSD": NOT_AVAILABLE, "Racks": "", "Never short": "", "Why not": found.reason})
            continue
        rows.append(_row(strategy, found.chosen.found, found.chosen.timeline, site))
    rule, timeline = _rule(site)
    rows.append(_row("fixed rule at the median", rule, timeline, site))
    return pd.DataFrame(rows).set_index("Strategy").rename_axis(None)


def _row(name: str, found, timeline, site: Story) -> dict:
    racks: dict[str, int] = {}
    for order in found.orders:
        racks[order.supply] = racks.get(order.supply, 0) + order.racks
    return {"Strategy": name, "Present cost, MUSD": digits(found.usd / 1e6), "Racks": ", ".join(f"{n} {k}" for k, n in racks.items()),
            "Never short": f"{_kept(timeline, site.serve_from):.0%}", "Why not": ""}


def takeaway(site: Story) -> str:
    """Return the answer in words: which strategies hold, what to order in the first month, and when power ends."""
    lines, held = [], [s for s in STRATEGIES if told(site, s).chosen is not None]
    for strategy in STRATEGIES:
        found = told(site, strategy)
        if found.chosen is None:
            lines.append(f"{strategy}: {found.reason}")
    if held:
        best = min(held, key=lambda s: told(site, s).chosen.found.usd)
        chosen = told(site, best).chosen
        first = [o for o in chosen.found.orders if o.month == min(o.month for o in chosen.found.orders)]
        said = ", ".join(f"{o.racks} {o.supply} by month {o.month}" for o in first)
        lines.insert(0, f"{best} is the cheapest that holds the {site.chance:.0%}: order {said or 'nothing'}")
    else:
        lines.insert(0, f"no strategy holds {site.chance:.0%} inside {site.site_watts / 1e6:g} MW")
    return "\n".join(lines)


def _shown(site: Story, strategy: str):
    found = told(site, strategy)
    if found.chosen is None:
        raise Infeasible("timeline", found.reason, "another strategy, chance or site")
    return found.chosen


def racks_figure(site: Story, strategy: str) -> go.Figure:
    """Return racks in service by month and system, and the megawatts they take against the site. Raises: Infeasible."""
    chosen = _shown(site, strategy)
    figure, months, ledger = go.Figure(), np.arange(site.months), chosen.timeline.ledger
    for i, name in enumerate(ledger.supplies):
        figure.add_bar(x=months, y=ledger.in_service[0, i], name=f"{name} in service", marker_color=COLOURS[i],
                       hovertemplate="month %{x}: %{y:.0f} racks<extra>%{fullData.name}</extra>")
    figure.add_scatter(x=months, y=chosen.timeline.watts[0] / 1e6, name="MW at the meter", yaxis="y2", line={"color": COLOURS[5]},
                       hovertemplate="month %{x}: %{y:.1f} MW<extra></extra>")
    figure.update_layout(barmode="stack", yaxis2={"overlaying": "y", "side": "right", "title": {"text": "MW at the meter"}, "rangemode": "tozero",
                                                  "showgrid": False})
    peak = float(chosen.timeline.watts.max()) / 1e6
    title = f"{strategy}: up to {ledger.in_service.sum(1).max():,.0f} racks and {peak:.1f} of {site.site_watts / 1e6:g} MW in {site.months} months"
    return finished(figure, title, x="month", y="racks", height=440)


def out_figure(site: Story) -> go.Figure:
    """Return the chance that demand is not met, by month, for every strategy that has a plan and the fixed rule."""
    figure, lines = go.Figure(), {}
    for strategy in STRATEGIES:
        if told(site, strategy).chosen is not None:
            lines[strategy] = told(site, strategy).chosen.timeline.out_by_month
    lines["fixed rule at the median"] = _rule(site)[1].out_by_month
    for i, (name, chance) in enumerate(lines.items()):
        figure.add_scatter(x=np.arange(site.months), y=100 * chance, name=name, line={"color": COLOURS[i]},
                           hovertemplate="month %{x}: %{y:.1f} %<extra>%{fullData.name}</extra>")
    figure.add_vline(x=site.serve_from, line={"dash": "dash", "color": COLOURS[6]}, annotation_text="promised from here")
    last = {n: v[-1] for n, v in lines.items()}
    title = "Chance of running out in the last month: " + ", ".join(f"{n} {v:.0%}" for n, v in last.items())
    return finished(figure, title, x="month", y="chance of a shortfall, %", height=420)


def orders_table(site: Story, strategy: str) -> pd.DataFrame:
    """Return what to order when, and when it serves, in the central future. Raises: Infeasible."""
    chosen, delay = _shown(site, strategy), {s.name: s.delay for s in site.supplies("both")}
    rows = [{"Order by month": o.month, "System": o.supply, "Racks": o.racks, "In service from": o.month + delay[o.supply]}
            for o in chosen.found.orders]
    return pd.DataFrame(rows).set_index("Order by month")


def months_table(site: Story, strategy: str) -> pd.DataFrame:
    """Return the central future with months as columns: racks by state, megawatts, and cash by part in million USD. Raises: Infeasible."""
    timeline = _shown(site, strategy).timeline
    rows = {}
    for i, name in enumerate(timeline.ledger.supplies):
        for state in STATES:
            if timeline.ledger.states[state][0, i].any():
                rows[f"{name}, {state}"] = timeline.ledger.states[state][0, i].astype(int).tolist()
    rows["MW at the meter"] = np.round(timeline.watts[0] / 1e6, 2).tolist()
    if timeline.cash is not None:
        for part, flow in timeline.cash.items():
            if flow.any():
                rows[f"{part}, MUSD"] = np.round(flow[0] / 1e6, 2).tolist()
        rows["cash, MUSD"] = np.round(sum(timeline.cash.values())[0] / 1e6, 2).tolist()
    return pd.DataFrame.from_dict(rows, orient="index", columns=[f"m{m}" for m in range(site.months)], dtype=object)


def sensitivity_table(**changes) -> pd.DataFrame:
    """Return how the answer moves with lead time and price of the later system: the cheapest strategy, its cost, and its share of racks."""
    lead, price = story(**changes).later.lead_months, changes.get("later_musd", 7.8)
    cases = {"as above": {}, "later system 3 months sooner": {"later_lead_months": max(0, lead - 3)},
             "later system 3 months later": {"later_lead_months": lead + 3}, "later rack 20 % cheaper": {"later_musd": 0.8 * price},
             "later rack 20 % dearer": {"later_musd": 1.2 * price}}
    rows = []
    for name, change in cases.items():
        site = story(**{**changes, **change})
        found = {s: told(site, s).chosen for s in STRATEGIES}
        held = {s: c for s, c in found.items() if c is not None}
        if not held:
            rows.append({"Case": name, "Cheapest": "none holds", "Present cost, MUSD": NOT_AVAILABLE, "Later racks of all ordered": ""})
            continue
        best = min(held, key=lambda s: held[s].found.usd)
        racks = [(o.racks, o.supply == site.later.name) for o in held[best].found.orders]
        share = sum(n for n, later in racks if later) / max(1, sum(n for n, _ in racks))
        rows.append({"Case": name, "Cheapest": best, "Present cost, MUSD": digits(held[best].found.usd / 1e6),
                     "Later racks of all ordered": f"{share:.0%}"})
    return pd.DataFrame(rows).set_index("Case").rename_axis(None)


def fleet_table(chat_racks: float, batch_racks: float, night_fraction: float) -> pd.DataFrame:
    """Return two workloads on one fleet of whole NVLink domains: chat by day, batch by night, sharing hour by hour.

    Parameters: racks that each needs at its busiest hour; night_fraction of chat's peak at night in 0..1. Raises: InputError.
    """
    day = [chat_racks * (1.0 if 8 <= h < 20 else night_fraction) for h in range(24)]
    night = [batch_racks * (night_fraction if 8 <= h < 20 else 1.0) for h in range(24)]
    found = fleet.shared_racks({"chat": 1.0, "batch": 1.0}, {"chat": day, "batch": night}, 72)
    one = fleet.one_more({"chat": 1.0, "batch": 1.0}, {"chat": day, "batch": night}, "batch", 72, None)
    rows = {"chat alone": found["alone"]["chat"], "batch alone": found["alone"]["batch"], "apart": found["apart"], "shared": found["shared"],
            "batch adds to chat": one["extra"], "idle rack-hours a day": found["valley_rack_hours"],
            "stranded GPUs at the peak": sum(found["stranded_gpus"].values())}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["racks or as said"])


def survival_table(serving: int, trays_tolerated: int, feeds: int) -> pd.DataFrame:
    """Return the racks to buy so that the SLO holds with a failure domain down, as parts that sum. Raises: InputError, Infeasible."""
    cases = {"nothing down": {}, "one rack": {"rack": 1}, "one tray": {"tray": 1}, "one of the feeds": {"power_feed": 1},
             "a feed and a rack": {"power_feed": 1, "rack": 1}}
    rows = {}
    for name, down in cases.items():
        parts = fleet.survival(serving, 72, 4, down, trays_tolerated=trays_tolerated, feeds=feeds)
        rows[name] = {**parts, "racks to buy": sum(parts.values())}
    return pd.DataFrame.from_dict(rows, orient="index")


def hand_check() -> pd.DataFrame:
    """Return three months that anyone can count: one rack at hand, two more from month 1, two stronger ones from month 2 or a month late."""
    from planner.timeline.ledger import Order
    from planner.timeline.simulate import Future

    plain = Supply("plain", {"chat": 10.0}, 8, 1.0, 1, initial=1)
    strong = Supply("strong", {"chat": 25.0}, 8, 1.0, 1, first_month=1)
    found = simulate([plain, strong], [Order("plain", 0, 2), Order("strong", 1, 2)], {"chat": np.array([10.0, 30.0, 60.0])},
                     future=Future(late=np.array([[0, 0], [0, 1]])))
    served = found.fleet.served[:, 0].tolist()
    rows = {"demand": [10.0, 30.0, 60.0], "served on time": served[0], "served, delivery a month late": served[1],
            "by hand, on time": [10.0, 30.0, 60.0], "by hand, late": [10.0, 30.0, 30.0]}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["month 0", "month 1", "month 2"])
