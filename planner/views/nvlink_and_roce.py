"""The views of the collectives notebook: what bus bandwidth to expect, what sets it, and whether a cluster is slow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.calibration import collectives as calibrated
from planner.calibration.table import constant
from planner.facts import catalog
from planner.facts.files import table
from planner.models import collectives as model
from planner.plan.collectives import busbw, combine, dispatch
from planner.views.style import COLOURS, finished
from planner.views.tables import digits

SYSTEMS = ("h100-sxm", "gb200-nvl72", "gb300-nvl72", "vr-nvl72/upto")
SIZES = tuple(float(2**k) for k in range(16, 35))


def _inputs(system: str, ranks: int, message_bytes: float) -> dict:
    name, _, profile = system.partition("/")
    return {"system": name, **({"profile": profile} if profile else {}), "op": "all_reduce", "ranks": ranks, "message_bytes": message_bytes}


def domain(system: str) -> int:
    """Return the GPUs of one NVLink domain of a system (system/profile)."""
    name, _, profile = system.partition("/")
    return catalog.system(name, profile or None).domain_gpus


def busbw_figure(domains: int) -> go.Figure:
    """Return the expected all-reduce bus bandwidth against message size on `domains` full NVLink domains of each system, with its interval."""
    figure, best = go.Figure(), {}
    for i, system in enumerate(SYSTEMS):
        ranks = domain(system) * int(domains)
        answers = [busbw(_inputs(system, ranks, size)) for size in SIZES]
        best[system] = answers[-1]
        colour = COLOURS[i]
        figure.add_scatter(
            x=SIZES + SIZES[::-1],
            y=[a.high for a in answers] + [a.low for a in answers][::-1],
            fill="toself",
            opacity=0.18,
            line={"width": 0},
            fillcolor=colour,
            hoverinfo="skip",
            showlegend=False,
            name=f"{system} interval",
        )
        figure.add_scatter(
            x=SIZES,
            y=[a.value for a in answers],
            name=f"{system}, {ranks} GPUs, {answers[-1].how}",
            line={"color": colour},
            text=[f"{digits(a.low)} to {digits(a.high)} GB/s<br>set by {a.limit}" for a in answers],
            hovertemplate="%{x:.3s}B: %{y:.4g} GB/s<br>%{text}<extra>%{fullData.name}</extra>",
        )
    for name in ("GB200 NVL72 1 rack", "8x H100 NVLink4 NVLS") if domains == 1 else ("GB200 NVL72 2 racks IB 400G/GPU", "2x8 H100 CoreWeave"):
        runs = [r for r in calibrated.reduce_runs() if r.system == name and r.size >= SIZES[0]]
        figure.add_scatter(
            x=[r.size for r in runs],
            y=[model.busbw_bytes_per_s("all_reduce", r.size, r.ranks, r.seconds) / 1e9 for r in runs],
            mode="markers",
            name=f"measured: {name}",
            marker={"symbol": "x", "size": 8, "color": "#888888"},
        )
    figure.update_xaxes(type="log", exponentformat="SI", ticksuffix="B")
    first = best["gb200-nvl72"]
    title = f"At 16 GiB, {int(domains) * 72} GB200 GPUs should show {digits(first.value)} GB/s ({digits(first.low)} to {digits(first.high)})"
    return finished(figure, title, x="message size of one rank", y="all-reduce bus bandwidth, GB/s", height=520)


def operations_table(system: str, message_bytes: float) -> pd.DataFrame:
    """Return the bus bandwidth of every operation on one domain, two, and 64 of a system: interval, what sets it, whether it was measured.

    Parameters: system (system/profile); message_bytes [B]. Raises: InputError.
    """
    rows, one = [], domain(system)
    for op in model.OPS:
        for domains in (1, 2, 64):
            answer = busbw({**_inputs(system, one * domains, message_bytes), "op": op})
            rows.append({"Operation": op.replace("_", " "), "GPUs": one * domains, "GB/s": answer.value, "Low": answer.low, "High": answer.high,
                         "Set by": answer.limit, "How": answer.how, "Not validated": answer.note.split(":")[0].replace("not validated ", "")})
    return pd.DataFrame(rows).set_index("Operation").rename_axis(None).round(1)


def slow_table(system: str, ranks: int, message_bytes: float, measured_gb_per_s: float) -> pd.DataFrame:
    """Return a measured bus bandwidth beside what to expect: value, low, high, what sets it, and the verdict in words.

    Parameters: system (system/profile); ranks [1]; message_bytes [B]; measured_gb_per_s [GB/s] bus bandwidth. Raises: InputError.
    """
    answer = busbw(_inputs(system, ranks, message_bytes))
    verdict = (
        "slow: below what nine of ten such systems reach"
        if measured_gb_per_s < answer.low
        else "faster than expected: check the size and the factor"
        if measured_gb_per_s > answer.high
        else "as expected"
    )
    return pd.DataFrame(
        [
            {
                "Measured GB/s": measured_gb_per_s,
                "Expected": answer.value,
                "Low": answer.low,
                "High": answer.high,
                "Set by": answer.limit,
                "How": answer.how,
                "Grade": answer.grade,
                "Verdict": verdict,
            }
        ],
        index=[f"{system}, {ranks} GPUs"],
    ).round(1)


def expert_table(tokens_per_rank: int) -> pd.DataFrame:
    """Return dispatch and combine times of 8 experts a token, hidden 7,168, on each system and several EP sizes."""
    rows = []
    for system in SYSTEMS:
        for ep in (8, 32, 64):
            place = {k: v for k, v in _inputs(system, 2, 1).items() if k in ("system", "profile")}
            given = {**place, "ep": ep, "tokens_per_rank": tokens_per_rank}
            out, back = (
                dispatch({**given, "topk": 8, "hidden": 7168, "format": "fp8"}),
                combine({**given, "topk": 8, "hidden": 7168, "format": "bf16"}),
            )
            rows.append(
                {
                    "System": system,
                    "EP": ep,
                    "Dispatch us": out.value,
                    "Low": out.low,
                    "High": out.high,
                    "Combine us": back.value,
                    "Set by": out.limit,
                    "How": out.how,
                }
            )
    return pd.DataFrame(rows).set_index("System").rename_axis(None).round(0)


def error_table(kind: str) -> pd.DataFrame:
    """Return each measured system's error when the constants are fitted without it: runs, median and largest. kind: all_reduce or expert."""
    rows = [
        {"System": s, "Runs": len(e), "Median error": float(np.median(np.abs(e))), "Largest": float(np.max(np.abs(e)))}
        for s, e in calibrated.left_out(kind).items()
    ]
    return pd.DataFrame(rows).set_index("System").rename_axis(None).round(3)


def takeaway() -> str:
    """Return the accuracy in one line a kind, from the stored calibration: what was aimed at is said beside what was reached."""
    return "\n".join(
        f"{kind.replace('_', '-')}: {constant('collectives', 'time_factor', kind).note} (aim: median 8 %, 90 % within 20 %)"
        for kind in ("all_reduce", "expert")
    )


def latency_check() -> pd.DataFrame:
    """Return the measured small-message latencies that were not fitted, as their sources print them."""
    rows = [r for r in table("collectives.csv") if r["op"] == "p2p_64B"]
    return pd.DataFrame([{"Path": r["system"], "Latency us": float(r["latency_us"])} for r in rows]).set_index("Path").rename_axis(None)
