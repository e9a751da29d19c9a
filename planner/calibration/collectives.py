"""The constants of collectives, fitted to measured runs with each system weighing the same, and the error when a system is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import least_squares

from planner.calibration import expert_parallel
from planner.calibration.table import Constant, constant
from planner.facts.files import table
from planner.models import collectives as model

SOURCE = "data/collectives.csv"
LOW, HIGH = 0.07, 0.93  # of the left-out errors: few systems, so that an interval of eight in ten takes quantiles beyond 0.1 and 0.9
NIC_LINE_GB_S = 50.0  # 400 Gb/s, the line rate of the Spectrum-X row below
REDUCE = ("in_switch_fraction", "ramp_seconds", "ramp_power", "ring_fraction", "network_fraction", "latency_seconds", "blend",
          "one_step_latency_seconds")
REDUCE_START = (0.7, 4e-6, 0.8, 0.82, 0.9, 27e-6, 3.0)


@dataclass(frozen=True)
class Run:
    """One measured run: system, ranks [1], size [B], seconds [s]."""

    system: str
    ranks: int
    size: float
    seconds: float


def _systems() -> dict[str, dict[str, str]]:
    return {r["system"]: r for r in table("collective_systems.csv")}


@cache
def reduce_runs() -> tuple[Run, ...]:
    """Return the measured all-reduce runs whose system is described; a peak without a size stands for 8 GB."""
    found = []
    for row in table("collectives.csv"):
        if row["op"] != "all_reduce" or _systems().get(row["system"], {}).get("kind") != "all_reduce":
            continue
        ranks, size = int(row["ranks"]), float(row["message_bytes"] or 8e9)
        if size < 1024:
            seconds = float(row["latency_us"]) * 1e-6
        else:
            seconds = float(model.collective_seconds("all_reduce", size, ranks, float(row["busbw"]) * 1e9))
        found.append(Run(row["system"], ranks, size, seconds))
    return tuple(found)


STEPS = {  # the low-latency protocol, which small messages take
    "ring_latency_seconds": ("NCCL model baseLatency", "base_ring_LL"),
    "tree_latency_seconds": ("NCCL model baseLatency", "base_tree_LL"),
    "link_hop_seconds": ("NCCL model hwLatency NVLINK", "alpha_ring_LL"),
    "ring_hop_seconds": ("NCCL model hwLatency NET", "alpha_ring_LL"),
    "tree_hop_seconds": ("NCCL model hwLatency NET", "alpha_tree_LL"),
}


@cache
def _given() -> dict[str, float]:
    """Return the constants that are inputs, not fitted: the library's own latencies, and a NIC's share of line rate in a quiet all-to-all."""
    rows = {(r["system"], r["op"]): r for r in table("collectives.csv") if r["op"] != "all_reduce"}
    return {
        "rail_fraction": float(rows["Spectrum-X quiet all-to-all 400G", "all_to_all"]["algbw"]) / NIC_LINE_GB_S,
        "network_latency_seconds": float(rows["NCCL model hwLatency NET NVLSTree", "alpha_Simple"]["latency_us"]) * 1e-6,
        **{name: float(rows[row]["latency_us"]) * 1e-6 for name, row in STEPS.items()},
    }


@cache
def point_to_point_fraction() -> float:
    """Return the share of NVLink's line rate that one GPU reaches to another [1]: the one measured run, with the line it names in its note."""
    row = next(r for r in table("collectives.csv") if r["op"] == "p2p" and "nvbandwidth" in r["system"])
    return float(row["busbw"]) / float(re.search(r"line (\d+)", row["note"])[1])


def _reduce_efficiency(x) -> model.Efficiency:
    return model.Efficiency(**dict(zip(REDUCE, map(float, x), strict=True)), **_given())


def _reduce_seconds(runs: Sequence[Run], e: model.Efficiency) -> np.ndarray:
    """Return the model's times of runs [s], system by system in one call each."""
    found = np.empty(len(runs))
    for system in dict.fromkeys((r.system, r.ranks) for r in runs):
        s, here = _systems()[system[0]], [i for i, r in enumerate(runs) if (r.system, r.ranks) == system]
        links = float(s["nvlink_gb_s"]) * 1e9, float(s["nic_gb_s"]) * 1e9
        found[here] = model.all_reduce_seconds(np.array([runs[i].size for i in here]), system[1], int(s["domain_ranks"]), *links, s["algorithm"],
                                               float(s["generation_fraction"]), e)
    return found


def _hop_seconds() -> float:
    """Return the measured time of 64 bytes over NVLink [s]: what one step of a small exchange must cost at least about."""
    return next(float(r["latency_us"]) for r in table("collectives.csv") if r["op"] == "p2p_64B" and r["system"].startswith("NVLink")) * 1e-6


@dataclass(frozen=True)
class Kind:
    """One kind of exchange: its runs, constants with starting values, the weight that pulls each to its start, and the model."""

    runs: Callable
    names: tuple[str, ...]
    start: Callable
    pull: tuple[float, ...]
    build: Callable
    predict: Callable


KINDS = {
    "all_reduce": Kind(reduce_runs, REDUCE, lambda: (*REDUCE_START, _hop_seconds()), (*[0.0] * len(REDUCE_START), 1.0), _reduce_efficiency,
                       _reduce_seconds),
    "expert": Kind(expert_parallel.runs, expert_parallel.NAMES, expert_parallel.start, (expert_parallel.PRIOR,) * len(expert_parallel.NAMES),
                   expert_parallel.build, expert_parallel.seconds),
}


def _fit(kind: Kind, without: str = "") -> np.ndarray:
    runs = [r for r in kind.runs() if r.system != without]
    of = [r.system for r in runs]
    weights, measured = np.array([of.count(s) for s in of]) ** -0.5, np.array([r.seconds for r in runs])
    start, pull = np.log(kind.start()), np.array(kind.pull)

    def residuals(x):
        e = kind.build(np.exp(x))
        return np.concatenate([weights * np.clip(np.log(kind.predict(runs, e) / measured), -1, 1), pull * (x - start)])

    tenfold = np.log(10.0)
    return np.exp(least_squares(residuals, start, bounds=(start - tenfold, start + tenfold), loss="soft_l1", f_scale=0.05).x)


@cache
def _fits(kind: str) -> dict[str, np.ndarray]:
    """Return the constants fitted without each system in turn."""
    return {s: _fit(KINDS[kind], s) for s in dict.fromkeys(r.system for r in KINDS[kind].runs())}


@cache
def left_out(kind: str) -> dict[str, tuple[float, ...]]:
    """Return per system the errors (predicted over measured time - 1) of constants fitted without it. kind: all_reduce or expert."""
    of, found = KINDS[kind], {}
    for system, x in _fits(kind).items():
        runs = [r for r in of.runs() if r.system == system]
        found[system] = tuple((of.predict(runs, of.build(x)) / np.array([r.seconds for r in runs]) - 1).tolist())
    return found


def _quantiles(errors: Mapping[str, tuple[float, ...]], shares: tuple[float, ...]) -> list[float]:
    """Return quantiles of measured over predicted time [1], each system weighing the same."""
    ratio = np.concatenate([1 / (1 + np.array(e)) for e in errors.values()])
    weights = np.concatenate([np.full(len(e), 1 / len(e)) for e in errors.values()]) / len(errors)
    order = np.argsort(ratio)
    reached = np.cumsum(weights[order])
    return [float(ratio[order][min(np.searchsorted(reached, q), len(ratio) - 1)]) for q in shares]


def _like(kind: str, system: str) -> dict[str, tuple[float, ...]]:
    """Return the left-out errors of the systems that an interval for `system` is drawn from: one-step kernels, of which there are few, take all."""
    errors = left_out(kind)
    few = {s for s, r in _systems().items() if r["algorithm"] == "one_step"}
    return {s: e for s, e in errors.items() if system in few or s not in few}


def coverage(kind: str) -> float:
    """Return the share of a left-out system's runs inside the interval that the other systems' errors give, each system weighing the same."""
    inside = []
    for system, own in left_out(kind).items():
        low, high = _quantiles({s: e for s, e in _like(kind, system).items() if s != system}, (LOW, HIGH))
        inside.append(np.mean([low <= 1 / (1 + e) <= high for e in own]))
    return float(np.mean(inside))


def summary(kind: str) -> dict[str, float]:
    """Return the left-out error of all systems, each weighing the same: median, share within 20 % and p90 [1]."""
    errors = left_out(kind)
    values = np.abs(np.concatenate([np.array(e) for e in errors.values()]))
    weights = np.concatenate([np.full(len(e), 1 / len(e)) for e in errors.values()]) / len(errors)
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    median, p90 = (float(values[order][np.searchsorted(reached, q)]) for q in (0.5, 0.9))
    return {"median": median, "within_20": float(weights[values <= 0.2].sum()), "p90": p90}


def fit() -> list[Constant]:
    """Return all constants as rows: fitted on every run, with the spread over the fits that leave one system out, and the errors left."""
    rows = []
    for kind, of in KINDS.items():
        every, fits = _fit(of), np.array(list(_fits(kind).values()))
        for i, name in enumerate(of.names):
            unit = "s" if name.endswith("seconds") else "B/s" if "bytes_per_s" in name else "1"
            low, high = (float(end([*fits[:, i], every[i]])) for end in (min, max))
            rows.append(Constant(name, kind, float(every[i]), low, high, unit, len(of.runs()), SOURCE, "range: fits with one system left out"))
        found = summary(kind)
        note = (f"median {found['median']:.1%}, within 20 % {found['within_20']:.0%}, p90 {found['p90']:.1%}, interval holds {coverage(kind):.0%}; "
                "one system left out, each weighing the same")
        for scope, system in ((kind, ""), ("one_step", "8x B200 symmetric memory NCCL 2.27+")):
            if scope == kind or kind == "all_reduce":
                low, high = _quantiles(_like(kind, system), (LOW, HIGH))
                rows.append(Constant("time_factor", scope, 1.0, low, high, "ratio", len(of.runs()), SOURCE, note))
    return rows


@cache
def reduce_efficiency() -> model.Efficiency:
    """Return the fitted constants of all-reduce from data/calibration/collectives.csv."""
    return _reduce_efficiency([constant("collectives", n, "all_reduce").value for n in REDUCE])
