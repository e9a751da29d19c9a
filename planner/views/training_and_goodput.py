"""The views of the training notebook: one step by part, how well it is known, scale, failures, slow units, RL and time to train."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from planner.calibration import reliability as populations
from planner.calibration import rl as rl_runs
from planner.calibration import training, training_estimate
from planner.calibration.table import constant, constants
from planner.errors import Infeasible
from planner.facts import training_models
from planner.facts.catalog import system
from planner.facts.files import table
from planner.facts.training_runs import release, runs
from planner.models import reliability, rl, stragglers
from planner.models.training.job import TrainingLayout, work
from planner.views.style import COLOURS, finished
from planner.views.tables import digits

SIZES = (72, 1024, 16384, 131072)
DAY = 86400.0


def _rack(name: str):
    name, _, profile = name.partition("/")
    return system(name, profile or None)


def _estimates(name: str, model: str, gpus: int, seq: int, batch: int, precision: str, best: int = 5):
    shape, rack = training_models.load(model), _rack(name)
    found = training_estimate.best_layouts(shape, rack, gpus, seq, batch, precision, best=best)
    return shape, [(f, training_estimate.estimate(shape, rack, f.layout, seq, batch, f.micro_batch, precision)) for f in found]


def step_figure(name: str, model: str, gpus: int, seq: int, batch: int, precision: str) -> go.Figure:
    """Return the parts of one step of the fastest layouts that fit, fastest first."""
    _, found = _estimates(name, model, gpus, seq, batch, precision)
    figure = go.Figure()
    labels = [f"{f.layout.label}, micro-batch {f.micro_batch}" for f, _ in found]
    parts = [p for p in found[0][1].parts if any(e.parts[p] > 0.002 * e.seconds for _, e in found)]
    for i, part in enumerate(parts):
        figure.add_bar(y=labels, x=[e.parts[part] for _, e in found], name=part, orientation="h",
                       marker={"color": COLOURS[i % len(COLOURS)], "pattern": {"shape": "/" if i >= len(COLOURS) else ""}})
    figure.update_layout(barmode="stack")
    figure.update_yaxes(autorange="reversed")
    best = found[0][1]
    title = f"{labels[0]}: {digits(best.seconds)} s a step, {best.limit} takes {best.parts[best.limit] / best.seconds:.0%}"
    return finished(figure, title, x="seconds", height=380)


def step_takeaway(name: str, model: str, gpus: int, seq: int, batch: int, precision: str) -> str:
    """Return step, rates and MFU of the fastest layout with ranges, under each FLOP convention."""
    shape, found = _estimates(name, model, gpus, seq, batch, precision, 1)
    chosen, best = found[0]
    rate = best.tokens_per_s_per_gpu
    peak = training.machine(_rack(name), precision).peak_flops_per_s
    lines = [f"{chosen.layout.label} on {gpus:,} x {name}: {digits(best.seconds)} s ({digits(best.low)}–{digits(best.high)}, {best.how}), "
             f"{rate:,.0f} tokens/s per GPU. " + "; ".join(best.notes)]
    for kind in ("causal", "full", "hardware"):
        flops, said = training_estimate.convention(shape, model, seq, "", kind)
        lines.append(f"{said}: {flops / 1e12:.4g} TFLOP a token, {rate * flops / 1e12:,.0f} TFLOP/s per GPU, {rate * flops / peak:.1%} of the peak")
    return "\n".join(lines)


def left_out_table() -> pd.DataFrame:
    """Return how far predictions were off on series that took no part in the fit, and on rows of the table never fitted."""
    rows = []
    for kind, said in (("dense", "dense, series left out"), ("experts", "mixture of experts, series left out")):
        value = {n: constant("training", f"left_out_{n}", kind).value for n in ("median", "p90", "within_12", "coverage")}
        rows.append({"Runs": said, "Rows": constant("training", "left_out_median", kind).rows, **_shares(value)})
    for dense, said in ((True, "dense, context rows never fitted"), (False, "mixture of experts, context rows never fitted")):
        errors, inside = [], []
        for run in runs():
            row = training.joined(run)
            if run.use == "context" and row.dense == dense:
                found = training_estimate.estimate(training_models.load(run.model), system(run.system), row.layout, run.seq_tokens, run.global_batch,
                                                   run.micro_batch, run.precision, run.full_recompute, run.release)
                errors.append(abs(found.seconds / run.step_seconds - 1))
                inside.append(found.low <= run.step_seconds <= found.high)
        value = {"median": np.median(errors), "p90": np.quantile(errors, 0.9), "within_12": np.mean(np.array(errors) <= 0.12),
                 "coverage": np.mean(inside)}
        rows.append({"Runs": said, "Rows": len(errors), **_shares(value)})
    return pd.DataFrame(rows).set_index("Runs").rename_axis(None)


def _shares(value: dict) -> dict:
    names = {"median": "Median error", "p90": "90 % below", "within_12": "Within 12 %", "coverage": "Inside the 80 % interval"}
    return {names[k]: f"{v:.1%}" for k, v in value.items()}


def worst_table(kind: str = "dense", rows: int = 6) -> pd.DataFrame:
    """Return the left-out rows that came out worst: what the equations do not know."""
    errors = {scope.split()[1]: c.value for (name, scope), c in constants("training").items() if name == "left_out_error" and scope.startswith(kind)}
    worst = sorted(errors, key=lambda r: -abs(errors[r]))[:rows]
    by_row = {r.row: r for r in runs()}
    return pd.DataFrame([{"Row": r, "Run": by_row[r].source, "Model": by_row[r].model, "GPUs": f"{by_row[r].gpus} {by_row[r].system}",
                          "Error": f"{errors[r]:+.1%}"} for r in worst]).set_index("Row").rename_axis(None)


def _pairs() -> list[tuple[dict[str, str], float]]:
    """Return (pair of row ids, error of the larger run carried over from the smaller row) of data/training_pairs.csv."""
    values, rows = training_estimate.fitted(True), tuple(r for r in training.calibration_rows() if r.dense)
    return [(pair, training.from_one_row(values, rows, pair["small"], pair["large"])) for pair in table("training_pairs.csv")]


def pairs_table() -> pd.DataFrame:
    """Return larger runs of one layout predicted from one smaller row: the aim is 3 %, what misses it says so."""
    by_row, found = {r.row: r for r in runs()}, []
    for pair, error in _pairs():
        small, large = by_row[pair["small"]], by_row[pair["large"]]
        found.append({"Rows": f"{small.row} to {large.row}", "GPUs": f"{small.gpus:,} to {large.gpus:,} {large.system}",
                      "Batch": f"{small.global_batch:,} to {large.global_batch:,}", "Error": f"{error:+.1%}",
                      "Within 3 %": "yes" if abs(error) <= 0.03 else "missed", "Run": large.source})
    return pd.DataFrame(found).set_index("Rows").rename_axis(None)


def interruption_shares() -> str:
    """Return the causes of the one long published run by count, and where a printed share contradicts its own count."""
    shares = populations.cause_shares()
    first = ", ".join(f"{cause} {share:.1%}" for cause, (_, share, _) in list(shares.items())[:4])
    wrong = [f"{cause}: {count} is {share:.1%}, printed {printed:.1%}" for cause, (count, share, printed) in shares.items()
             if printed is not None and abs(share - printed) > 0.001]
    return f"Causes of {sum(c for c, _, _ in shares.values())} unexpected stops of Llama 3 405B, by count: {first}. " + (
        f"Printed otherwise: {'; '.join(wrong)}" if wrong else "")


def _rl_left_out() -> dict[str, float]:
    return {scope: c.value for (name, scope), c in constants("rl").items() if name == "left_out_error"}


def rl_errors() -> str:
    """Return how far the fitted RL step is off on published steps left out one at a time, and what it cannot explain."""
    errors, published = _rl_left_out(), rl_runs.steps()
    size, worst = np.abs(list(errors.values())), max(errors, key=lambda row: abs(errors[row]))
    slower = [f"{b.gpus} {b.system} took {b.step_seconds:,.0f} s, {a.gpus} took {a.step_seconds:,.0f} s" for a in published for b in published
              if (a.shape.name, a.system, 2 * a.gpus) == (b.shape.name, b.system, b.gpus) and b.step_seconds > a.step_seconds]
    return (f"{len(errors)} published steps, each left out: median {np.median(size):.1%}, largest {size.max():.0%} ({worst}). "
            f"No law of work and tail explains {'; '.join(slower)}")


def error_rows() -> list[dict]:
    """Return every stated accuracy of training and reinforcement learning beside what was aimed at, misses included; aims are for dense models."""
    aims = {"median": ("at most", 0.04), "within_12": ("at least", 0.9), "coverage": ("at least", 0.8), "p90": ("", None)}
    found = [(f"dense step, series left out: {name}", *aim, constant("training", f"left_out_{name}", "dense").value) for name, aim in aims.items()]
    found += [(f"mixture of experts, series left out: {name}", "", None, constant("training", f"left_out_{name}", "experts").value) for name in aims]
    found += [(f"larger run from one row, {pair['small']} to {pair['large']}", "at most", 0.03, abs(error)) for pair, error in _pairs()]
    size = np.abs(list(_rl_left_out().values()))
    found += [(f"RL step left out: {name}", "", None, float(value)) for name, value in
              (("median", np.median(size)), ("largest", size.max()), ("root mean square", np.sqrt(np.mean(size**2))))]
    return [{"quantity": name, "aim": f"{word} {aim:g}" if aim else "", "reached": reached,
             "met": "" if aim is None else "yes" if (reached <= aim) == (word == "at most") else "missed"} for name, word, aim, reached in found]


def scaling_figure(name: str, model: str, gpus: int, seq: int, batch: int, precision: str, population: str, write_s: float,
                   restart_s: float) -> go.Figure:
    """Return tokens/s per GPU from 72 (64 in use) to 131,072 GPUs: the step alone, and what failures leave; batch grown with the job."""
    shape, found = _estimates(name, model, gpus, seq, batch, precision, 1)
    base, micro, rack = found[0][0].layout, found[0][0].micro_batch, _rack(name)
    replica = int(base.gpus / base.dp)
    _, node, job, row = populations.population(population)
    xs, plain, kept, ideal = [], [], [], []
    for power in range(12):
        dp = max(1, 64 // replica) * 2**power
        size = replica * dp
        if size > 131072:
            break
        layout = TrainingLayout(int(base.tp), int(base.pp), int(base.vpp), dp, int(base.cp), int(base.ep), 0)
        one = training_estimate.estimate(shape, rack, layout, seq, int(batch / base.dp) * dp, micro, precision)
        mttf = 1 / reliability.failure_rate_per_second(size, node.value / DAY, int(row["gpus_per_node"]), job.value / DAY)
        share = reliability.goodput_fraction(mttf, reliability.best_interval_seconds(mttf, write_s), write_s, restart_s)
        xs.append(size)
        plain.append(one.tokens_per_s_per_gpu)
        kept.append(one.tokens_per_s_per_gpu * float(share) if restart_s < mttf else None)
        ideal.append(plain[0])
    figure = go.Figure()
    for i, (label, ys) in enumerate((("first size held", ideal), ("step time alone", plain), ("with failures", kept))):
        figure.add_scatter(x=xs, y=ys, mode="lines+markers", name=label, line={"color": COLOURS[i], "dash": "dot" if i == 0 else "solid"})
    figure.update_xaxes(type="log")
    figure.update_yaxes(rangemode="tozero")
    failures = "no progress past restarts" if kept[-1] is None else f"{1 - kept[-1] / plain[-1]:.0%} more to failures"
    title = f"From {xs[0]:,} to {xs[-1]:,} GPUs: {1 - plain[-1] / plain[0]:.0%} lost to scale, {failures} ({population})"
    return finished(figure, title, x="GPUs", y="tokens/s per GPU")


def goodput_rows() -> list[dict]:
    """Return the headline table: each population at four sizes, 10 s of stall a checkpoint, 10 minutes to restart, best interval."""
    rows = []
    for entry in table("failure_populations.csv"):
        name, node, job, _ = populations.population(entry["population"])
        for gpus in SIZES:
            rate = reliability.failure_rate_per_second(gpus, node.value / DAY, int(entry["gpus_per_node"]), job.value / DAY)
            mttf, write, restart = float(1 / rate), 10.0, 600.0
            interval = float(reliability.best_interval_seconds(mttf, write))
            parts = {k: float(v) for k, v in reliability.lost_fractions(mttf, interval, write, restart).items()}
            first = float(reliability.goodput_fraction_first_order(mttf, interval, write, restart))
            stuck = restart >= mttf
            if stuck:
                parts, first = dict.fromkeys(parts, None), None
            rows.append({"population": name, "gpus": gpus, "mttf_h": mttf / 3600, "interval_s": interval, **parts, "first_order": first,
                         "status": "no progress" if stuck else "ok", "grade": entry["grade"]})
    return rows


def goodput_table(population: str, write_s: float, restart_s: float) -> pd.DataFrame:
    """Return goodput at four sizes: exact, walked event by event, and by the first-order formula."""
    _, node, job, row = populations.population(population)
    rows = []
    for gpus in SIZES:
        per_node = int(row["gpus_per_node"])
        mttf = float(1 / reliability.failure_rate_per_second(gpus, node.value / DAY, per_node, job.value / DAY))
        interval = float(reliability.best_interval_seconds(mttf, write_s))
        rng = np.random.default_rng(gpus)
        times = reliability.failure_times(rng, gpus // per_node, node.value / DAY, 4000 * mttf, job.value / DAY)
        rows.append({"GPUs": f"{gpus:,}", "Mean time to failure": f"{mttf / 3600:,.1f} h", "Best interval": f"{interval:,.0f} s",
                     "Exact": f"{reliability.goodput_fraction(mttf, interval, write_s, restart_s):.1%}",
                     "Simulated": f"{reliability.goodput_simulated(rng, times, interval, write_s, restart_s):.1%}",
                     "First order": f"{reliability.goodput_fraction_first_order(mttf, interval, write_s, restart_s):.1%}"})
    return pd.DataFrame(rows).set_index("GPUs").rename_axis(None)


def populations_figure(write_s: float, restart_s: float) -> go.Figure:
    """Return goodput against GPUs for each published population, kept apart."""
    gpus = np.unique(np.round(np.geomspace(8, 131072, 40) / 8) * 8).astype(int)
    figure, last = go.Figure(), {}
    for i, entry in enumerate(table("failure_populations.csv")):
        name, node, job, _ = populations.population(entry["population"])
        mttf = 1 / reliability.failure_rate_per_second(gpus, node.value / DAY, int(entry["gpus_per_node"]), job.value / DAY)
        share = reliability.goodput_fraction(mttf, reliability.best_interval_seconds(mttf, write_s), write_s, restart_s)
        share = np.where(mttf > restart_s, share, np.nan)  # restarts longer than the mean time to failure: no progress
        last[name] = float(share[-1])
        ys = [None if np.isnan(v) else v for v in share]
        figure.add_scatter(x=gpus, y=ys, mode="lines", name=f"{name} ({entry['grade']})", line={"color": COLOURS[i]})
    figure.update_xaxes(type="log")
    figure.update_yaxes(rangemode="tozero", tickformat=".0%")
    stuck = [k for k, v in last.items() if np.isnan(v)]
    going = {k: v for k, v in last.items() if k not in stuck}
    high = max(going, key=lambda k: going[k]) if going else ""
    words = f"no progress with {', '.join(stuck)}" if stuck else f"{min(going.values()):.0%} at worst"
    title = f"At 131,072 GPUs: {words}" + (f", {going[high]:.0%} with {high}: the population decides" if going else "")
    return finished(figure, title, x="GPUs of one job", y="goodput")


def causes_table(gpus: int) -> pd.DataFrame:
    """Return what each cause of slow GPUs costs a job alone, and all together."""
    rows = table("straggler_causes.csv")
    shares = np.array([float(r["unit_fraction"]) for r in rows])
    # a property of the whole job is there or not, whatever its size; jitter acts through the slowest of many
    units = np.array([gpus if r["unit"] in ("gpu", "node") else 1 for r in rows]) // np.array([8 if r["unit"] == "node" else 1 for r in rows])
    factors = [float(r["slow_factor"]) for r in rows]
    jitter = next(i for i, r in enumerate(rows) if r["cause"] == "jitter")
    factors[jitter] = 1 + (factors[jitter] - 1) * float(stragglers.largest_of_normals(gpus))
    present = -np.expm1(units * np.log1p(-np.minimum(shares, 1 - 1e-12)))
    together = stragglers.causes_slowdown(1, present, factors, [float(r["time_fraction"]) for r in rows])
    found = [{"Cause": r["cause"].replace("_", " "), "Kind": r["persistence"], "Shows under": r["shows_under"].replace("_", " "),
              "In this job": f"{p:.0%}", "Factor": f"{f:.2f}", "Cost alone": f"{a:.1%}", "Grade": r["grade"]}
             for r, p, f, a in zip(rows, present, factors, together["alone"], strict=True)]
    blank = dict.fromkeys(("Kind", "Shows under", "In this job", "Factor"), "")
    found.append({"Cause": "all together", **blank, "Cost alone": f"{together['together']:.1%}", "Grade": "P"})
    return pd.DataFrame(found).set_index("Cause").rename_axis(None)


def screening_table(racks: int, slow_fraction: float, slow_factor: float, only_under_load: bool) -> pd.DataFrame:
    """Return the tests before service stage by stage: false rejects, escapes, what is still slow, and racks to buy after all of them."""
    stages = sorted(table("screening_stages.csv"), key=lambda r: int(r["order"]))
    rejects, escapes = [], []
    for stage in stages:
        shown = float(stage["under_load_shown_fraction" if only_under_load else "effect_shown_fraction"])
        spread, band, repeats = float(stage["measurement_spread"]), float(stage["band_fraction"]), int(stage["repeats"])
        reject, escape = stragglers.band_rates(band, spread, 1 + (slow_factor - 1) * shown, repeats)
        rejects.append(float(reject))
        escapes.append(float(escape))
    rows = []
    for n, stage in enumerate(stages, 1):
        chain = stragglers.screening(slow_fraction, rejects[:n], escapes[:n])
        rows.append({"After": stage["stage"].replace("_", " "), "False rejects": f"{chain['false_reject']:.2%}", "Escapes": f"{chain['escape']:.1%}",
                     "Slow among those passed": f"{chain['slow_in_service']:.3%}",
                     "Racks to buy": int(stragglers.units_to_buy(racks, chain["pass_fraction"], 0.9))})
    return pd.DataFrame(rows).set_index("After").rename_axis(None)


def rl_figure(total_gpus: int) -> go.Figure:
    """Return the published synchronous RL step of one model on more GPUs, and the best split into two pools, by the fitted steps."""
    run = next(r for r in rl_runs.steps() if r.row == "C047")
    parts = rl_runs.step(run.shape, run.system, run.gpus, run.responses, run.mean_tokens, run.cap_tokens)
    work_gpu_s, train_share = parts["work"] * run.gpus, 0.14
    xs = [int(total_gpus * 2**k) for k in range(6)]
    together = [parts["fixed"] + parts["longest_response"] + work_gpu_s / n for n in xs]
    split = [rl.split_seconds(n, (1 - train_share) * work_gpu_s, parts["longest_response"], train_share * work_gpu_s, 0.0, parts["fixed"])
             for n in xs]
    figure = go.Figure()
    figure.add_scatter(x=xs, y=together, mode="lines+markers", name="one pool, synchronous", line={"color": COLOURS[0]})
    figure.add_scatter(x=xs, y=[s["asynchronous"] for s in split], mode="lines+markers", name="two pools, samples one update old",
                       line={"color": COLOURS[1]})
    measured = [r for r in rl_runs.steps() if r.shape.name == run.shape.name and r.system == run.system]
    figure.add_scatter(x=[r.gpus for r in measured], y=[r.step_seconds for r in measured], mode="markers", name="published",
                       marker={"color": COLOURS[2], "size": 11})
    figure.update_xaxes(type="log")
    figure.update_yaxes(rangemode="tozero")
    doubled = [a.step_seconds / b.step_seconds for a in rl_runs.steps() for b in rl_runs.steps()
               if (a.shape.name, a.system, 2 * a.gpus) == (b.shape.name, b.system, b.gpus)]
    title = (f"Published doublings of the GPUs gave {min(doubled):.2f} to {max(doubled):.2f}x, the fit {together[0] / together[1]:.2f}x "
             f"from {xs[0]}: the longest response ({run.cap_tokens:,.0f} tokens) does not shrink")
    return finished(figure, title, x="GPUs", y="seconds a step")


def time_to_train_table() -> pd.DataFrame:
    """Return the MLPerf 405B runs: steps counted in the rows' notes x step time, against the printed minutes."""
    rows = []
    for run in runs():
        steps = re.search(r"over (\d+) steps of 3 runs", run.note)
        minutes = re.search(r"time-to-train min ([\d.]+)-([\d.]+)", run.note)
        if not steps or not minutes:
            continue
        per_run = int(steps[1]) / 3 + 3  # the note drops the first three steps of each run
        row = training.joined(run)
        found = training_estimate.estimate(training_models.load(run.model), system(run.system), row.layout, run.seq_tokens, run.global_batch,
                                           run.micro_batch, run.precision, False, run.release)
        printed = (float(minutes[1]) + float(minutes[2])) / 2
        rows.append({"Run": f"{run.row}, {run.gpus} {run.system}", "Steps": f"{per_run:,.0f}", "Printed min": f"{printed:,.1f}",
                     "Steps x measured": f"{per_run * run.step_seconds / 60 / printed - 1:+.1%}",
                     "Steps x modelled": f"{per_run * found.seconds / 60 / printed - 1:+.1%}",
                     "Tokens": f"{per_run * run.global_batch * run.seq_tokens / 1e9:.2f} billion"})
    return pd.DataFrame(rows).set_index("Run").rename_axis(None)


def minutes_only() -> str:
    """Return the tokens that runs which publish only minutes imply by the step model, held against the runs with counted steps."""
    counted = [float(v.split()[0]) for v in time_to_train_table()["Tokens"]]
    lines = [f"runs with counted steps trained on {min(counted):.2f} to {max(counted):.2f} billion tokens"]
    for row in table("training_steps.csv"):
        minutes = re.search(r"time to target ([\d.]+) min", row["note"])
        if row["global_batch"] or not minutes or row["model"] not in ("LLAMA3.1_405B", "DeepSeekV3"):
            continue
        dense = row["model"] == "LLAMA3.1_405B"
        gpus, seq, precision = int(row["gpus"]), 8192 if dense else 4096, "nvfp4" if dense else "mxfp8"
        shape, rack = training_models.load(row["model"]), _rack(row["gpu_type"])
        batch = gpus // 2 if dense else 2 * gpus
        software = release("MLPerf v5.1") if dense else None
        try:
            found = training_estimate.best_layouts(shape, rack, gpus, seq, batch, precision, release=software, best=1)[0]
        except Infeasible as error:
            lines.append(f"{row['row_id']}: {error}")
            continue
        one = training_estimate.estimate(shape, rack, found.layout, seq, batch, found.micro_batch, precision, release=software)
        tokens = one.tokens_per_s_per_gpu * gpus * float(minutes[1]) * 60
        lines.append(f"{row['row_id']} {row['model']} on {gpus:,} {row['gpu_type']}, {minutes[1]} min: {tokens / 1e9:.2f} billion tokens "
                     f"if it ran in {precision} with a batch of {batch:,} (both assumed; {one.how})")
    return "\n".join(lines)


def flops_of(model: str, seq: int) -> float:
    """Return the FLOPs of training one token, causal attention [FLOP/token]."""
    return work(training_models.load(model), seq).flops_per_token()
