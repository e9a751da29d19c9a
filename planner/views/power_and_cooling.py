"""From the GPU's setting to the meter, tokens per megawatt with its five words, caps, coolant and hours without chillers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.calibration import cooling as coolants
from planner.calibration import power as calibrated
from planner.calibration.table import constant
from planner.errors import Infeasible, InputError
from planner.facts import catalog, metered
from planner.models import cooling, power
from planner.sensitivity import headline
from planner.views.style import COLOURS, finished
from planner.views.tables import NOT_AVAILABLE, digits

SYSTEMS = {"GB200 NVL72": ("gb200-nvl72", None), "GB300 NVL72": ("gb300-nvl72", None), "Vera Rubin maxlps": ("vr-nvl72", "maxlps"),
           "Vera Rubin upto": ("vr-nvl72", "upto")}
LOADS = ("idle", "interactive", "training", "server", "offline", "provisioned")


def rack(system: str):
    """Return a rack by the name that the notebook prints. Raises: InputError."""
    return catalog.system(*SYSTEMS.get(system, (system, None)))


def node_check() -> pd.DataFrame:
    """Return every run with metered wall power beside the node's modelled power: parts, error, and whether the interval holds it."""
    rows = []
    for run in metered.runs():
        chassis, measured = metered.cooling(run["platform"]), float(run["power_w_measured"])
        load, setting = calibrated.load_fraction(run["scenario"].lower()), catalog.system(run["accelerator"]).accelerator.gpu_watts
        watts = sum(calibrated.node_watts(int(run["accelerators_total"]), setting, load, metered.cooling_kind(chassis)).values())
        low, high = np.percentile(watts[1:], [10, 90])
        rows.append({"Run": f"{run['model']}, {run['scenario']}", "Chassis": chassis, "Measured kW": round(measured / 1e3, 3),
                     "Modelled kW": round(float(watts[0]) / 1e3, 3), "Low": round(float(low) / 1e3, 2), "High": round(float(high) / 1e3, 2),
                     "Error": f"{watts[0] / measured - 1:+.1%}"})
    return pd.DataFrame(rows).set_index("Run").rename_axis(None)


def node_takeaway() -> str:
    """Return what the metered runs say of the node model, in one line."""
    table = node_check()
    worst = max(table["Error"], key=lambda e: abs(float(e.strip("%"))))
    order = table["Measured kW"].rank().tolist() == table["Modelled kW"].rank().tolist()
    return (f"{len(table)} metered runs are all there is; the worst error is {worst}, their order is {'right' if order else 'wrong'}, "
            "and no constant was fitted to them. They differ in model and in cooling: the two cannot be told apart")


def parts_figure() -> go.Figure:
    """Return the provisioned power of each rack by part; the parts sum to the rack."""
    figure, totals, names = go.Figure(), {}, {}
    for system in SYSTEMS:
        parts = calibrated.rack_parts(rack(system))
        totals[system] = sum(parts.values())
        for name, watts in parts.items():
            short = "CPUs" if name.endswith("CPUs") else name.split(" (")[0]
            names.setdefault(short, {})[system] = watts / 1e3
    for i, (name, by_system) in enumerate(names.items()):
        figure.add_bar(x=list(by_system), y=list(by_system.values()), name=name, marker_color=COLOURS[i % len(COLOURS)],
                       hovertemplate="%{x}: %{y:.1f} kW<extra>%{fullData.name}</extra>")
    figure.update_layout(barmode="stack")
    first, last = next(iter(totals)), list(totals)[-1]
    title = f"{last} is provisioned at {totals[last] / 1e3:,.0f} kW, {totals[last] / totals[first]:.2f} times {first}"
    return finished(figure, title, y="kW at the rack's input", height=460)


def loads_table() -> pd.DataFrame:
    """Return the power of each rack by kind of work [kW], with the 80 % interval, and what is published."""
    rows = []
    for system in SYSTEMS:
        row = {"System": system}
        for load in LOADS:
            watts = sum(calibrated.rack_watts(rack(system), calibrated.load_fraction(load)).values()) / 1e3
            low, high = np.percentile(watts[1:], [10, 90])
            row[load] = f"{watts[0]:,.0f} ({min(low, watts[0]):,.0f}–{max(high, watts[0]):,.0f})"
        published = rack(system).rack_watts
        row["published"] = f"{published / 1e3:,.0f}" if published else NOT_AVAILABLE
        rows.append(row)
    return pd.DataFrame(rows).set_index("System").rename_axis(None)


def site_table(site_mw: float, pue: float, redundancy: str) -> pd.DataFrame:
    """Return the racks and GPUs that a site feeds at provisioned power, by system. Raises: InputError."""
    rows = []
    feeds = {"N": (1, 0), "2N": (2, 1)}.get(redundancy)
    if feeds is None:
        raise InputError("redundancy", redundancy, "must be N or 2N")
    for system in SYSTEMS:
        each = sum(calibrated.rack_parts(rack(system)).values())
        try:
            racks = int(power.racks_that_fit(site_mw * 1e6, each, pue, *feeds))
            used = racks * each * pue / 1e6
            rows.append({"System": system, "Racks": f"{racks:,}", "GPUs": f"{racks * rack(system).gpus:,}", "MW used": f"{used:.2f}", "Limit": ""})
        except Infeasible as error:
            rows.append({"System": system, "Racks": "0", "GPUs": "0", "MW used": "0", "Limit": error.limit})
    return pd.DataFrame(rows).set_index("System").rename_axis(None)


def cap_figure(system: str) -> go.Figure:
    """Return throughput and tokens per megawatt under a GPU power cap, against the setting; extrapolated from one GPU at two caps."""
    which = rack(system)
    setting, idle, exponent = which.accelerator.gpu_watts, calibrated.idle_fraction().value, constant("power", "cap_exponent")
    cap = np.linspace(max(1.5 * idle, 0.35) * setting, setting, 60)
    figure, others = go.Figure(), which.overhead_watts / which.gpus

    def per_watt(y):
        return y / (cap + others) * (setting + others)

    exponents = {"": exponent.value, "high": exponent.high, "low": exponent.low}
    curves = {n: power.capped_throughput_fraction(cap, setting, idle, e) for n, e in exponents.items()}
    figure.add_scatter(x=np.concatenate([cap, cap[::-1]]), y=np.concatenate([per_watt(curves["low"]), per_watt(curves["high"])[::-1]]), fill="toself",
                       opacity=0.2, line={"width": 0}, fillcolor=COLOURS[1], name="tokens per MW, exponent 1/3 to 1", hoverinfo="skip")
    for name, y, colour in (("throughput of a GPU", curves[""], COLOURS[0]), ("tokens per MW of the rack", per_watt(curves[""]), COLOURS[1])):
        figure.add_scatter(x=cap, y=y, name=name, line={"color": colour}, hovertemplate="%{x:,.0f} W: %{y:.3f}<extra>%{fullData.name}</extra>")
    best = int(np.argmax(per_watt(curves[""])))
    title = (f"Extrapolated: a cap of {cap[best]:,.0f} W gives {per_watt(curves[''])[best]:.2f} times the tokens per MW at "
             f"{curves[''][best]:.2f} of a GPU's throughput")
    return finished(figure, title, x=f"power cap of a {system} GPU, W", y="over the value at the setting", height=430)


def headline_figure(mtp: bool) -> go.Figure:
    """Return tokens per second per megawatt along per-user speed on Vera Rubin and GB200: DeepSeek-R1, output, GPUs deployed, IT, provisioned."""
    speeds = np.array([10, 20, 35, 50, 75, 100, 125, 150, 175, 200.0])
    figure, at, missed = go.Figure(), {}, []
    for i, (label, place) in enumerate((("Vera Rubin (upto)", headline.NEW), ("GB200", headline.OLD))):
        central, low, high = headline.curve(*place, speeds, mtp) / 1e3
        seen, drawn = central > 0, high > 0
        lowest = np.where(low > 0, low, 1.0)  # a draw in ten that does not reach the speed at all: the band falls out of the picture
        missed += [f"{label} from {speeds[drawn & (low == 0)][0]:.0f}"] if (drawn & (low == 0)).any() else []
        figure.add_scatter(x=np.concatenate([speeds[drawn], speeds[drawn][::-1]]), y=np.concatenate([high[drawn], lowest[drawn][::-1]]),
                           fill="toself", mode="lines", opacity=0.15, line={"width": 0}, fillcolor=COLOURS[i], hoverinfo="skip",
                           name=f"{label}, 80 % of draws")
        figure.add_scatter(x=speeds[seen], y=central[seen], name=f"{label}, {_how(place)}", line={"color": COLOURS[i]},
                           hovertemplate="%{x:.0f} tok/s per user: %{y:,.0f}<extra>%{fullData.name}</extra>")
        at[label] = dict(zip(speeds.tolist(), central.tolist(), strict=True))
    for i, level in enumerate(headline.claimed_levels()):
        figure.add_scatter(x=[headline.SPEED], y=[level / 1e3], mode="markers", name=("claimed, Vera Rubin", "claimed, GB200")[i],
                           marker={"symbol": "x", "size": 12, "color": COLOURS[i]})
    new, old = at.values()
    ratio = {s: new[s] / old[s] for s in (20.0, headline.SPEED) if old[s] > 0}
    title = "One ratio hides a curve: " + ", ".join(f"{r:.1f} times at {s:.0f} tok/s per user" for s, r in ratio.items())
    title += f"<br>A draw in ten or more misses the speed: {', '.join(missed)}" if missed else ""
    figure.update_yaxes(type="log", range=[1, 3.5])
    return finished(figure, title, x="output tokens per second per user", y="thousand output tok/s per IT megawatt", height=480)


def _how(place: tuple[str, str]) -> str:
    """Return how the throughput of a system's curve is known: modelled where it was calibrated, extrapolated where not."""
    return "extrapolated" if headline.case_at(*place, headline.SPEED, True, 8192, 1024).extrapolated else "modelled"


def shares_table(old_mtp: bool) -> pd.DataFrame:
    """Return the factors of the ratio at 150 tokens/s per user, which multiply to it, and their shares of the gain in logs; a pair of columns for
    each power setting of the new system. Software is 1 where both sides run the same."""
    columns = {}
    for profile in ("upto", "maxlps"):
        place = (headline.NEW[0], profile)
        found = headline.shares(old_mtp=old_mtp, new=place)
        product = float(np.prod(list(found.values())))
        name = f"Vera Rubin {profile}, {catalog.system(*place).accelerator.gpu_watts:,.0f} W"
        columns[name] = {**{n: digits(v) for n, v in found.items()}, "product": digits(product)}
        columns[f"of the gain, {profile}"] = {**{n: f"{np.log(v) / np.log(product):+.0%}" for n, v in found.items()}, "product": "100%"}
    return pd.DataFrame(columns)


def cooling_table(inlet_celsius: float, rise_kelvin: float) -> pd.DataFrame:
    """Return flow, pump power and heat to air of each rack at provisioned power. Raises: InputError."""
    rows = []
    heat_capacity, density = coolants.properties("pg25", inlet_celsius + rise_kelvin / 2)
    for system, (name, _) in SYSTEMS.items():
        watts = sum(calibrated.rack_watts(rack(system), calibrated.load_fraction("provisioned")).values())
        parts = cooling.heat_split_watts(watts, coolants.liquid_fraction(name))
        flow = cooling.coolant_litres_per_s(parts["liquid"], rise_kelvin, heat_capacity, density)
        low, high = np.percentile(flow[1:], [10, 90])
        pump = [digits(p / 1e3) for p in coolants.pump_watts(float(flow[0]))]
        rows.append({"System": system, "Outlet C": inlet_celsius + rise_kelvin, "Flow L/min": digits(flow[0] * 60),
                     "Low": digits(min(low, flow[0]) * 60), "High": digits(max(high, flow[0]) * 60),
                     "Heat to liquid kW": digits(parts["liquid"][0] / 1e3), "Heat to air kW": digits(parts["air"][0] / 1e3),
                     "Pump kW": f"{pump[0]} ({pump[1]}–{pump[2]})"})
    return pd.DataFrame(rows).set_index("System").rename_axis(None)


def chiller_figure(inlet_celsius: float) -> go.Figure:
    """Return the share of a year without chillers along the coolant's inlet temperature, for each assumed climate."""
    approach, inlets = coolants.approach_kelvin()[0], np.arange(18.0, 51.0)
    figure, at = go.Figure(), {}
    for i, name in enumerate(coolants.climates()):
        share = cooling.chiller_free_fraction(coolants.climate_celsius(name)[0], inlets, approach)
        at[name] = float(cooling.chiller_free_fraction(coolants.climate_celsius(name)[0], inlet_celsius, approach))
        figure.add_scatter(x=inlets, y=100 * share, name=name, line={"color": COLOURS[i % len(COLOURS)]},
                           hovertemplate="%{x:.0f} C: %{y:.1f} %<extra>%{fullData.name}</extra>")
    figure.add_vline(x=inlet_celsius, line={"dash": "dash", "color": COLOURS[6]})
    worst = min(at, key=at.get)
    title = f"At {inlet_celsius:g} C at the inlet the {worst} climate needs no chiller in {at[worst]:.0%} of the hours (climates are assumed)"
    return finished(figure, title, x="coolant at the rack's inlet, C", y="hours without chillers, %", height=430)
