"""The views of the fabric notebook: from two racks to 131,072 GPUs a rail, three readings of one sentence, failures and growth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.errors import Infeasible, InputError, InputErrors
from planner.facts.catalog import system
from planner.facts.evidence import claim
from planner.facts.files import table
from planner.models.fabric.design import Design, design, max_endpoints
from planner.models.fabric.failures import remaining
from planner.models.fabric.growth import growth
from planner.plan.cabling import cables
from planner.plan.fabric import MODULE_BYTES_PER_S, choose
from planner.scenario import parse_fabric
from planner.specs import Rack
from planner.views.style import COLOURS, finished
from planner.views.tables import digits

PORTS, RADIX, PORT_BYTES_PER_S = 8, 512, 25e9  # two 800G NICs split into eight ports of 200G; a 102.4 Tb/s switch has 512 of them
STATEMENTS = {"H0355": "in the design", "H0069": "per rail", "H0411": "per rail, modular", "H0374": "in two tiers of 102.4 Tb/s switches"}
READINGS = {
    "(a) both NICs of a GPU in its one rail": (524288, 4, 1, 8),
    "(b) one NIC in each of two rails": (131072, 2, 2, 4),
    "(c) 128k counts the whole cluster": (131072, 4, 1, 8),
}


def _rack(name: str) -> Rack:
    name, _, profile = name.partition("/")
    return system(name, profile or None)


def _costs(made: Design, port_bytes_per_s: float) -> dict[str, float]:
    counts = made.counts
    between = counts["links_leaf_spine"] + counts["links_spine_core"]
    optics = 2 * counts["links"] * port_bytes_per_s / MODULE_BYTES_PER_S
    watts = counts["switches"] * claim("P0083").base_value + optics * claim("P0084").base_value
    usd = counts["switches"] * claim("P0080").base_value + between * claim("P0081").base_value
    return {
        "Switches": counts["switches"],
        "Cables": counts["links"],
        "800G modules": optics,
        "Fabric MW (P)": watts / 1e6,
        "Capital MUSD (P)": usd / 1e6,
    }


def readings_table() -> pd.DataFrame:
    """Return the three readings of "about 128k GPUs per rail" side by side: GPUs, endpoints derived, switches, cables, optics, power, cost."""
    rows = []
    for name, (gpus, rails, mine, planes) in READINGS.items():
        made = design(gpus, PORTS, RADIX, rails=rails, rails_per_gpu=mine, planes=planes, tiers=2)
        rows.append(
            {
                "Reading": name,
                "GPUs": gpus,
                "Rails": rails,
                "Planes": planes,
                "GPUs per rail": made.gpus_per_rail,
                "Endpoints per plane": made.net.endpoints,
                **_costs(made, PORT_BYTES_PER_S),
            }
        )
    return pd.DataFrame(rows).set_index("Reading").rename_axis(None).round(1)


def derivation() -> str:
    """Return how 131,072 comes about, computed: the ceiling of two tiers, what planes and rails change, and what was said in public."""
    ceiling = max_endpoints(RADIX, 2)
    return (
        f"{RADIX} ports, two tiers: 2 x ({RADIX}/2)^2 = {ceiling:,} endpoints per plane. "
        f"Planes add bandwidth and isolation, not endpoints; 4 rails give {4 * ceiling:,} GPUs.\n"
        "What was said in public (claim, grade): "
        + "; ".join(
            f"{c.qualifier} {digits(c.value)} GPUs {what} ({c.id}, {c.grade}, {c.as_of})"
            for c, what in ((claim(i), what) for i, what in STATEMENTS.items())
        )
    )


def scale_figure(name: str, lanes: str, planes: int) -> go.Figure:
    """Return switches and fabric watts per GPU from 2 racks to 131,072 GPUs a rail, for the planes given and for one plane."""
    rack, figure = _rack(name), go.Figure()
    racks = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1820]
    last = {}
    for i, count in enumerate(dict.fromkeys((int(planes), 1))):
        xs, ys, ws = [], [], []
        for number in racks:
            try:
                choice = choose(rack, number * rack.gpus, parse_fabric({"lanes": lanes, "planes": count}))
            except (Infeasible, InputError):
                continue
            cost = _costs(choice.made, choice.port_bytes_per_s)
            xs.append(number * rack.gpus)
            ys.append(cost["Switches"] / xs[-1] * 1000)
            ws.append(cost["Fabric MW (P)"] * 1e6 / xs[-1])
        last[count] = (xs, ys, ws)
        figure.add_scatter(
            x=xs, y=ys, mode="lines+markers", name=f"switches per 1,000 GPUs, {count} plane{'s' * (count > 1)}", line={"color": COLOURS[i]}
        )
        figure.add_scatter(
            x=xs,
            y=ws,
            mode="lines+markers",
            name=f"fabric W per GPU, {count} plane{'s' * (count > 1)} (assumed)",
            line={"color": COLOURS[i], "dash": "dot"},
        )
    figure.update_xaxes(type="log")
    first = last[int(planes)]
    title = (
        f"{int(planes)} planes: {digits(first[1][-1])} switches per 1,000 GPUs and {digits(first[2][-1])} W per GPU at {first[0][-1]:,} GPUs"
        if first[0]
        else "no such fabric"
    )
    return finished(figure, title, x="GPUs", y="per GPU (W) or per 1,000 GPUs (switches)", height=460)


def picture(name: str, racks: int, lanes: str, planes: int) -> go.Figure:
    """Return a picture of one rail and one plane: leaves below, spines above, a line for each bundle (at most 24 leaves are drawn)."""
    rack = _rack(name)
    net = choose(rack, int(racks) * rack.gpus, parse_fabric({"lanes": lanes, "planes": planes})).made.net
    leaves, spines = min(net.leaf, 24), min(net.spine, 24)
    low, high = np.linspace(0, 1, leaves + 2)[1:-1], np.linspace(0, 1, spines + 2)[1:-1]
    figure = go.Figure()
    xs = [v for a in low for b in high for v in (a, b, None)]
    figure.add_scatter(
        x=xs,
        y=[0, 1, None] * (leaves * spines),
        mode="lines",
        line={"width": 1, "color": "rgba(128,128,128,0.5)"},
        name=f"bundles of {' or '.join(map(str, sorted(set(net.bundles))))} links",
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=low,
        y=[0] * leaves,
        mode="markers",
        marker={"size": 15, "symbol": "square", "color": COLOURS[0]},
        name=f"leaf ({net.down} down, {net.up} up)",
    )
    if spines:
        figure.add_scatter(x=high, y=[1] * spines, mode="markers", marker={"size": 15, "color": COLOURS[1]}, name=f"spine ({net.radix} ports)")
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, range=[-0.25, 1.25])
    cut = " (24 drawn)" if net.leaf > 24 or net.spine > 24 else ""
    return finished(figure, f"One rail, one plane of {int(racks)} racks: {net.leaf} leaves and {net.spine} spines{cut}", height=330)


def failure_table(name: str, racks: int, lanes: str, planes: int) -> pd.DataFrame:
    """Return what one failure of each kind leaves of a GPU's bandwidth, of an all-reduce and all-to-all, and how many GPUs are touched."""
    rack = _rack(name)
    made = choose(rack, int(racks) * rack.gpus, parse_fabric({"lanes": lanes, "planes": planes})).made
    rows = []
    for kind in ("nic_port", "link", "leaf", "spine", "plane", "rail"):
        try:
            left = remaining(made, {kind: 1}, rack.domain_gpus)
            rows.append(
                {
                    "One failed": kind.replace("_", " "),
                    "GPU, even spraying": left.gpu_even,
                    "GPU, adaptive": left.gpu_adaptive,
                    "All-reduce": left.all_reduce_lower,
                    "All-to-all": left.all_to_all,
                    "Over NVLink": left.over_nvlink,
                    "GPUs touched": left.gpus_touched,
                }
            )
        except InputError:
            continue
    return pd.DataFrame(rows).set_index("One failed").rename_axis(None).round(4)


def choices_table(name: str, racks: int) -> pd.DataFrame:
    """Return what rails, planes and tiers change at one size: each lane split with every number of planes, the fewest tiers and one more.

    Columns: tiers, switches, cables, power and capital (assumed parts), what one failed leaf or spine leaves of a GPU, and GPUs a leaf touches.
    """
    rack, rows = _rack(name), []
    for lanes in ("1x800G", "2x400G", "4x200G", "8x100G"):
        for planes in (1, 2, 4, 8, 16):
            for more in (0, 1):
                try:
                    first = choose(rack, int(racks) * rack.gpus, parse_fabric({"lanes": lanes, "planes": planes})).made.net.tiers
                    choice = choose(rack, int(racks) * rack.gpus, parse_fabric({"lanes": lanes, "planes": planes, "tiers": first + more}))
                except (Infeasible, InputError, InputErrors):
                    continue
                made, cost = choice.made, _costs(choice.made, choice.port_bytes_per_s)
                leaf = remaining(made, {"leaf": 1})
                rows.append(
                    {
                        "Lanes": lanes,
                        "Planes": planes,
                        "Tiers": made.net.tiers,
                        "Switches": cost["Switches"],
                        "Cables": cost["Cables"],
                        "MW (P)": round(cost["Fabric MW (P)"], 3),
                        "MUSD (P)": round(cost["Capital MUSD (P)"], 1),
                        "Left, 1 leaf": round(leaf.gpu_even, 3),
                        "GPUs touched": leaf.gpus_touched,
                        "Left, 1 spine": round(remaining(made, {"spine": 1}).gpu_even, 4) if made.net.spine else None,
                    }
                )
    return pd.DataFrame(rows).set_index("Lanes").rename_axis(f"{rack.nic.bytes_per_s * rack.nics_per_gpu * 8e-12:.1f} Tb/s a GPU")


def choices_takeaway(name: str, racks: int) -> str:
    """Return the cheapest choice and the one that loses least by a leaf, in one line."""
    every = choices_table(name, racks).reset_index(names="Lanes")
    cheap, safe = every.loc[every["MUSD (P)"].idxmin()], every.sort_values(["Left, 1 leaf", "MUSD (P)"], ascending=[False, True]).iloc[0]

    def words(row: pd.Series) -> str:
        return (
            f"{row['Lanes']} over {row['Planes']} planes in {row['Tiers']} tiers ({row['MUSD (P)']:,.0f} MUSD, a lost leaf costs a GPU "
            f"{1 - row['Left, 1 leaf']:.1%})"
        )

    return f"{int(racks)} racks: cheapest {words(cheap)}; least lost {words(safe)}"


def cables_table(name: str, racks: int, lanes: str, planes: int) -> pd.DataFrame:
    """Return cables by layer and medium with their lengths in an assumed hall, and the 800G modules at their ends."""
    rack = _rack(name)
    rows = cables(choose(rack, int(racks) * rack.gpus, parse_fabric({"lanes": lanes, "planes": planes})), rack)
    frame = pd.DataFrame(rows).rename(columns={"layer": "Layer", "media": "Media", "cables": "Cables", "shortest_m": "From m", "longest_m": "To m",
                                               "modules": "800G modules", "too_long": "Past every reach"})
    return frame.set_index("Layer").rename_axis(None).round(1)


def growth_table(name: str, lanes: str, planes: int) -> pd.DataFrame:
    """Return how far a fabric grows without moving a cable, by its first size, and what ends the promise."""
    rack, rows = _rack(name), []
    for racks in (2, 16, 128, 1024):
        grown = growth(choose(rack, racks * rack.gpus, parse_fabric({"lanes": lanes, "planes": planes})).made)
        rows.append(
            {
                "Racks on day one": racks,
                "GPUs": racks * rack.gpus,
                "Grows to": grown.gpus,
                "Full on day one": round(grown.fill, 3),
                "What ends it": grown.ends,
            }
        )
    return pd.DataFrame(rows).set_index("Racks on day one").rename_axis(None)


def design_takeaway(name: str, racks: int, lanes: str, planes: int) -> str:
    """Return the design in one line: rails, planes, tiers, switches, cables, whether it is non-blocking, and which switch."""
    rack = _rack(name)
    choice = choose(rack, int(racks) * rack.gpus, parse_fabric({"lanes": lanes, "planes": planes}))
    counts, net = choice.made.counts, choice.made.net
    return (
        f"{int(racks)} racks: {choice.made.rails} rails x {choice.made.planes} planes, {net.tiers} tiers of {choice.switch.name}: "
        f"{counts['leaf']:,} leaves, {counts['spine']:,} spines, {counts['core']:,} cores, {counts['links']:,} cables, "
        f"{counts['ports_dark']:,} ports dark, {'non-blocking' if net.nonblocking else 'oversubscribed'}, "
        f"{choice.made.disjoint_paths} disjoint paths between two GPUs of a rail, "
        f"{digits(choice.made.bisection_bytes_per_s / 1e12)} TB/s one way between two halves of every rail"
    )


def effort_figure() -> go.Figure:
    """Return what every cable of a two-tier, 8-plane fabric costs to write, as measured: seconds and peak memory against GPUs, and their power.

    The rows of data/fabric_scaling.csv were measured once, on a shared machine of two cores; the limits are 20 s and 2 GB at 131,072 GPUs.
    """
    rows = table("fabric_scaling.csv")
    gpus, seconds, peak = (np.array([float(r[name]) for r in rows]) for name in ("gpus", "seconds", "peak_bytes"))
    power = float(np.polyfit(np.log(gpus[-5:]), np.log(seconds[-5:]), 1)[0])
    figure = go.Figure()
    figure.add_scatter(x=gpus, y=seconds, mode="lines+markers", name="seconds", line={"color": COLOURS[0]})
    figure.add_scatter(x=gpus, y=seconds[-1] * gpus / gpus[-1], mode="lines", name="linear in GPUs", line={"color": COLOURS[6], "dash": "dot"})
    figure.add_scatter(x=gpus, y=peak / 1e9, mode="lines+markers", name="peak memory, GB", line={"color": COLOURS[1]})
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="log")
    title = f"Every cable of {gpus[-1]:,.0f} GPUs in {digits(seconds[-1])} s and {digits(peak[-1] / 1e9)} GB: time grows as GPUs to the {power:.2f}"
    return finished(figure, title, x="GPUs (8 ports each)", y="seconds, or GB", height=420)
