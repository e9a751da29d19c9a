"""The views of the storage notebook: what a checkpoint weighs, what it stalls, how far it is safe, caches and archives."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.calibration import reliability as populations
from planner.errors import Infeasible, InputError
from planner.facts import storage_tables
from planner.facts.files import table
from planner.models import reliability, storage
from planner.views.style import COLOURS, finished
from planner.views.tables import digits

DAY = 86400.0


def _state(params: float, state_format: str) -> dict[str, float]:
    _, parts, _ = storage_tables.state_format(state_format)
    return {k: float(v) for k, v in storage.training_state_bytes(params, parts).items()}


def state_figure(params: float) -> go.Figure:
    """Return the bytes of a full training state by component, for every format of the table."""
    formats = list(dict.fromkeys(r["name"] for r in table("state_formats.csv")))
    states = {name: _state(params, name) for name in formats}
    order = sorted(formats, key=lambda n: -sum(states[n].values()))
    figure = go.Figure()
    for i, part in enumerate(dict.fromkeys(p for n in formats for p in states[n])):
        figure.add_bar(y=order, x=[states[n].get(part, 0.0) / 1e12 for n in order], name=part, orientation="h", marker={"color": COLOURS[i]})
    figure.update_layout(barmode="stack")
    figure.update_yaxes(autorange="reversed")
    top, mixed = sum(states[order[0]].values()), sum(states["adam_bf16_fp32"].values())
    title = f"{params / 1e9:,.0f} billion parameters: {digits(mixed / 1e12)} TB with BF16 weights and FP32 state, {digits(top / 1e12)} TB at most"
    return finished(figure, title, x="TB (decimal)", height=440)


def stall_table(params: float, state_format: str, gpus: int, gpus_per_node: int, writer_gb_s: float, store_gb_s: float, copy_gb_s: float,
                interval_s: float) -> pd.DataFrame:
    """Return what a checkpoint stalls, blocking and asynchronous, and the host memory it needs."""
    total = sum(_state(params, state_format).values())
    write = float(storage.write_seconds(total, gpus // gpus_per_node, writer_gb_s * 1e9, store_gb_s * 1e9))
    rows = []
    for name, asynchronous, buffers in (("blocking", False, 1), ("asynchronous, one host buffer", True, 1), ("asynchronous, two buffers", True, 2)):
        stall = float(storage.checkpoint_stall_seconds(total / gpus, copy_gb_s * 1e9, write, interval_s, asynchronous, buffers))
        staged = float(storage.staging_bytes_per_node(total, gpus // gpus_per_node, buffers)) if asynchronous else 0.0
        rows.append({"Way": name, "Stall": f"{stall:,.2f} s", "Share of the time": f"{stall / (stall + interval_s):.2%}",
                     "Durable after": f"{write:,.0f} s", "Host memory a node": f"{staged / 1e9:,.0f} GB"})
    return pd.DataFrame(rows).set_index("Way").rename_axis(None)


def write_takeaway(params: float, state_format: str, gpus: int, gpus_per_node: int, writer_gb_s: float, store_gb_s: float) -> str:
    """Return the size, the rate that one minute needs, and what binds the write."""
    total = sum(_state(params, state_format).values())
    writers = gpus // gpus_per_node
    write = float(storage.write_seconds(total, writers, writer_gb_s * 1e9, store_gb_s * 1e9))
    binds = "the store binds" if store_gb_s < writers * writer_gb_s else "the writers bind"
    return (f"{digits(total / 1e12)} TB; one minute needs {digits(float(storage.write_bytes_per_s_needed(total, 60)) / 1e9)} GB/s. "
            f"{writers:,} writers of {writer_gb_s:g} GB/s into a store of {store_gb_s:g} GB/s: {write:,.0f} s, {binds}.")


def interval_figure(gpus: int, population: str, stall_s: float, lag_s: float, restart_s: float) -> go.Figure:
    """Return goodput against the checkpoint interval: exact, and by the first-order formula."""
    _, node, job, row = populations.population(population)
    mttf = float(1 / reliability.failure_rate_per_second(gpus, node.value / DAY, int(row["gpus_per_node"]), job.value / DAY))
    if restart_s >= mttf:
        raise Infeasible("no progress", f"{gpus:,} GPUs stop every {mttf:,.0f} s and a restart takes {restart_s:,.0f} s")
    best = max(float(reliability.best_interval_seconds(mttf, max(stall_s, 1e-3))), lag_s)
    xs = np.geomspace(max(lag_s, 5.0, best / 30), best * 30, 60)
    exact = reliability.goodput_fraction(mttf, xs, stall_s, restart_s, np.minimum(lag_s, xs))
    first = reliability.goodput_fraction_first_order(mttf, xs, stall_s, restart_s)
    figure = go.Figure()
    figure.add_scatter(x=xs, y=exact, mode="lines", name="exact", line={"color": COLOURS[0]})
    figure.add_scatter(x=xs, y=np.where(first > -0.5, first, np.nan), mode="lines", name="first order", line={"color": COLOURS[1], "dash": "dot"})
    top = float(reliability.goodput_fraction(mttf, best, stall_s, restart_s, min(lag_s, best)))
    figure.add_scatter(x=[best], y=[top], mode="markers", name="best", marker={"color": COLOURS[5], "size": 11})
    figure.update_xaxes(type="log")
    figure.update_yaxes(tickformat=".0%")
    title = f"{gpus:,} GPUs stop every {mttf / 3600:,.1f} h: every {best:,.0f} s is best and leaves {top:.1%}"
    return finished(figure, title, x="useful seconds between checkpoints", y="goodput")


def region_table(params: float, state_format: str, interval_s: float, wan_gbps: float, round_trip_ms: float, write_s: float) -> pd.DataFrame:
    """Return what the second region costs, copied at the same time or afterwards, on three links; "never catches up" where it does not."""
    total = sum(_state(params, state_format).values())
    rows = []
    for link in (wan_gbps / 4, wan_gbps, wan_gbps * 4):
        for name, asynchronous in (("synchronous", False), ("asynchronous", True)):
            head = {"Copy": f"{name}, {link:,.4g} Gb/s"}
            try:
                found = storage.replication(total, interval_s, link * 1e9 / 8, round_trip_ms / 1e3, write_s, asynchronous)
            except Infeasible as error:
                rows.append({**head, "Stall": "-", "Lag": "never catches up", "Work at risk": "-", "Link in use": "above 100 %",
                             "Needs": error.next_step.split(",")[0]})
                continue
            rows.append({**head, "Stall": f"{found['stall_seconds']:,.0f} s", "Lag": f"{found['lag_seconds']:,.0f} s",
                         "Work at risk": f"{found['work_at_risk_seconds']:,.0f} s", "Link in use": f"{found['wan_utilisation']:.0%}",
                         "Needs": f"{found['wan_needed_bytes_per_s'] / 1e9:,.3g} GB/s"})
    return pd.DataFrame(rows).set_index("Copy").rename_axis(None)


def cache_figure(hit_ms: float, miss_ms: float, speedup: float) -> go.Figure:
    """Return the gain in mean latency against the hit rate, and the hit rate that gives the gain asked for."""
    xs = np.linspace(0, 1, 101)
    gain = miss_ms / 1e3 / storage.read_latency_seconds(xs, hit_ms / 1e3, miss_ms / 1e3)
    figure = go.Figure()
    figure.add_scatter(x=xs, y=gain, mode="lines", name="uncached over mean latency", line={"color": COLOURS[0]})
    try:
        wanted = storage.hit_fraction_for(speedup, hit_ms / 1e3, miss_ms / 1e3)
        figure.add_scatter(x=[wanted], y=[speedup], mode="markers", name=f"{speedup:g}x", marker={"color": COLOURS[5], "size": 11})
        title = f"{speedup:g}x needs {wanted:.1%} hits of {hit_ms:g} ms against misses of {miss_ms:g} ms"
    except Infeasible as error:
        title = error.limit
    figure.update_xaxes(tickformat=".0%")
    return finished(figure, title, x="hit rate", y="times faster", height=380)


def cache_table(hit_gb_s: float, miss_gb_s: float) -> pd.DataFrame:
    """Return the read rate of one GPU at several hit rates: one stream, and the bounds of many."""
    shares = [0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0]
    rows = [{"Hit rate": f"{s:.0%}", "One stream": f"{float(storage.read_bytes_per_s(s, hit_gb_s * 1e9, miss_gb_s * 1e9)) / 1e9:,.2f} GB/s"}
            for s in shares]
    return pd.DataFrame(rows).set_index("Hit rate").rename_axis(None)


def archive_figure(stored_tb: float, tiers: list[str]) -> go.Figure:
    """Return the monthly cost of stored data against the share re-read in a month, with retrieval and egress, for the tiers named."""
    xs = np.linspace(0, 0.5, 51)
    figure, last = go.Figure(), {}
    for i, name in enumerate(tiers):
        kind = storage_tables.tier(name)
        if None in (kind.storage_usd, kind.retrieval_usd, kind.egress_usd):
            continue
        parts = storage.tier_monthly_usd(stored_tb * 1e12, kind.storage_usd, xs, kind.retrieval_usd, kind.egress_usd)
        ys = sum(np.broadcast_to(v, xs.shape) for v in parts.values())
        last[kind.name] = (float(ys[0]), float(ys[-1]))
        figure.add_scatter(x=xs, y=ys, mode="lines", name=f"{kind.name} ({kind.grade}, {kind.date})", line={"color": COLOURS[i]})
    figure.update_xaxes(tickformat=".0%")
    rest, read = min(last, key=lambda k: last[k][0]), min(last, key=lambda k: last[k][1])
    title = f"{stored_tb:,.0f} TB: {rest} is cheapest at rest, {read} when half of it is read back each month"
    return finished(figure, title, x="share of the stored data read in a month", y="USD a month", height=460)


def break_even_table(tier: str, rivals: list[str]) -> pd.DataFrame:
    """Return the re-read share above which a tier is the cheaper one, with egress and without; "unknown" where a price is not published."""
    own, rows = storage_tables.tier(tier), []
    for name in rivals:
        other = storage_tables.tier(name)
        row = {"Rival": other.name}
        for title, egress in (("Reads leave the provider", 1.0), ("Reads stay inside", 0.0)):
            row[title] = _break_even(own, other, egress)
        row["Minimum"] = f"{other.minimum_days:g} days" if other.minimum_days else "none printed"
        rows.append(row)
    return pd.DataFrame(rows).set_index("Rival").rename_axis(None)


def _break_even(own, other, egress: float) -> str:
    if None in (own.storage_usd, other.storage_usd, own.retrieval_usd, other.retrieval_usd) or (
            egress and None in (own.egress_usd, other.egress_usd)):
        return "unknown: a price is not published"
    fees = [t.retrieval_usd + egress * (t.egress_usd or 0.0) for t in (own, other)]
    try:
        if own.storage_usd >= other.storage_usd:
            return f"above {storage.reread_break_even(own.storage_usd, other.storage_usd, *fees):.1%} a month"
        return f"below {storage.reread_break_even(other.storage_usd, own.storage_usd, *fees[::-1]):.1%} a month"
    except Infeasible:
        return "never" if own.storage_usd > other.storage_usd or (own.storage_usd == other.storage_usd and fees[0] >= fees[1]) else "always"


def check_table() -> pd.DataFrame:
    """Return estimates against published values: the host memory of one save, a sharded write, a remote save, a plain checkpoint."""
    rows = [
        ("host staging, 744 billion on 16 nodes", float(storage.staging_bytes_per_node(744e9 * 14, 16)) / 1e9, 650.0, "GB", "C084"),
        ("2.3 TB by 384 writers of 0.15 GB/s", float(storage.write_seconds(2.3e12, 384, 0.15e9)), 40.0, "s", "C080"),
        ("530 billion, FP32 state, at 20 Gb/s", 530e9 * 12 / (20e9 / 8) / 60, 42.0, "min", "C082"),
        ("FP32 model with Adam", 3 * 19253929 / 1e6, 57.73858, "MB", "CK01"),
    ]
    shown = [{"What": what, "Estimate": f"{got:,.4g} {unit}", "Published": f"{known:,.4g} {unit}", "Ratio": f"{got / known:.3f}", "Row": row}
             for what, got, known, unit, row in rows]
    return pd.DataFrame(shown).set_index("What").rename_axis(None)


def refused(state_format: str) -> str:
    """Return what the table of formats says to a name: its bytes per parameter, or the refusal."""
    try:
        name, parts, grade = storage_tables.state_format(state_format)
    except InputError as error:
        return str(error)
    return f"{name}: {sum(parts.values()):g} B a parameter ({', '.join(f'{k} {v:g}' for k, v in parts.items())}), grade {grade}"
