"""The constants of collectives, fitted to measured runs with each system weighing the same, and the error when a system is left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import least_squares

from planner.calibration.table import Constant, constant
from planner.facts.files import table
from planner.models import collectives as model

SOURCE = "data/collectives.csv"
# constants that the collective library itself publishes: inputs, not fitted
NETWORK_LATENCY, RING_LATENCY, RAIL_FRACTION, LOW_LATENCY = 20.9e-6, 8.4e-6, 0.984, 60e-6
REDUCE = ("in_switch_fraction", "ramp_seconds", "ramp_power", "ring_fraction", "network_fraction", "latency_seconds", "blend")
REDUCE_START = (0.7, 4e-6, 0.8, 0.82, 0.9, 27e-6, 3.0)
EXPERT = ("nic_fraction", "nvlink_fraction", "full_units", "api_factor", "narrow_factor")
EXPERT_START = (0.9, 0.8, 2.0, 1.3, 1.1)


@dataclass(frozen=True)
class Run:
    """One measured run: system, ranks [1], size [B], seconds [s], and for expert kernels how they ran."""

    system: str
    ranks: int
    size: float
    seconds: float
    low_latency: bool = False
    narrow: bool = False
    through_api: bool = False
    units: int = 0


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


@cache
def expert_runs() -> tuple[Run, ...]:
    """Return the measured dispatch and combine runs: payload and time from the logical bandwidth that was printed."""
    found = []
    for row in table("collectives.csv"):
        system = _systems().get(row["system"])
        if system is None or system["kind"] != "expert":
            continue
        note, quick = row["note"], "low-latency" in row["system"]
        tokens = re.search(r"(\d+)(K?) tok", note)
        number = int(tokens[1]) * (1024 if tokens[2] else 1) if tokens else 8192 if "SM90" in row["system"] or "SM100" in row["system"] else 4096
        number = 128 if quick else number
        narrow = ("fp8" in row["op"] or "FP8" in note) and "combine" not in row["op"]
        units = re.search(r"SMs=(\d+)", note)
        size = float(model.expert_payload_bytes(number, 8, 7168, 1 if narrow else 2))
        found.append(
            Run(
                row["system"],
                int(row["ranks"]),
                size,
                size / (float(row["algbw"]) * 1e9),
                quick,
                narrow,
                "torch API" in note,
                int(units[1]) if units else 0,
            )
        )
    return tuple(found)


def _reduce_efficiency(x) -> model.Efficiency:
    return model.Efficiency(
        **dict(zip(REDUCE, map(float, x), strict=True)),
        rail_fraction=RAIL_FRACTION,
        network_latency_seconds=NETWORK_LATENCY,
        ring_latency_seconds=RING_LATENCY,
    )


def _expert_efficiency(x) -> model.ExpertEfficiency:
    return model.ExpertEfficiency(**dict(zip(EXPERT, map(float, x), strict=True)), latency_seconds=LOW_LATENCY)


def _reduce_seconds(run: Run, e: model.Efficiency) -> float:
    s = _systems()[run.system]
    return float(
        model.all_reduce_seconds(
            run.size,
            run.ranks,
            int(s["domain_ranks"]),
            float(s["nvlink_gb_s"]) * 1e9,
            float(s["nic_gb_s"]) * 1e9,
            s["algorithm"],
            float(s["generation_fraction"]),
            e,
        )
    )


def _expert_seconds(run: Run, e: model.ExpertEfficiency) -> float:
    s = _systems()[run.system]
    domain = int(s["domain_ranks"])
    local = domain / run.ranks if s["counts_local"] == "1" and run.ranks > domain else 0.0
    return float(
        model.expert_exchange_seconds(
            run.size,
            run.ranks,
            domain,
            float(s["nvlink_gb_s"]) * 1e9,
            float(s["nic_gb_s"]) * 1e9,
            e,
            low_latency=run.low_latency,
            narrow=run.narrow,
            through_api=run.through_api,
            units=run.units,
            local_fraction=local,
        )
    )


def _fit(runs, names, start, build, predict) -> np.ndarray:
    weights = {s: 1 / np.sqrt(sum(r.system == s for r in runs)) for s in {r.system for r in runs}}

    def residuals(x):
        e = build(np.exp(x))
        return [weights[r.system] * np.clip(np.log(predict(r, e) / r.seconds), -1, 1) for r in runs]

    return np.exp(least_squares(residuals, np.log(start), loss="soft_l1", f_scale=0.05).x)


_KINDS = {
    "all_reduce": (reduce_runs, REDUCE, REDUCE_START, _reduce_efficiency, _reduce_seconds),
    "expert": (expert_runs, EXPERT, EXPERT_START, _expert_efficiency, _expert_seconds),
}


@cache
def left_out(kind: str) -> dict[str, tuple[float, ...]]:
    """Return per system the errors (predicted over measured time - 1) of constants fitted without it. kind: all_reduce or expert."""
    runs, names, start, build, predict = _KINDS[kind]
    found = {}
    for system in dict.fromkeys(r.system for r in runs()):
        e = build(_fit([r for r in runs() if r.system != system], names, start, build, predict))
        found[system] = tuple(predict(r, e) / r.seconds - 1 for r in runs() if r.system == system)
    return found


def summary(kind: str) -> dict[str, float]:
    """Return the left-out error with each system weighing the same: median and share within 20 % [1], and the interval's two factors [1]."""
    errors = left_out(kind)
    values = np.concatenate([np.array(e) for e in errors.values()])
    weights = np.concatenate([np.full(len(e), 1 / len(e)) for e in errors.values()]) / len(errors)

    def quantile(of, q):
        order = np.argsort(of)
        return float(of[order][min(np.searchsorted(np.cumsum(weights[order]), q), len(of) - 1)])

    # measured = predicted / (1 + error): the factors between which 80 % of the systems' weight lies
    ratio = 1 / (1 + values)
    return {
        "median": quantile(np.abs(values), 0.5),
        "within_20": float(weights[np.abs(values) <= 0.2].sum()),
        "p90": quantile(np.abs(values), 0.9),
        "low": quantile(ratio, 0.1),
        "high": quantile(ratio, 0.9),
    }


def fit() -> list[Constant]:
    """Return all constants as rows: fitted on every run, with the spread over the fits that leave one system out, and the errors left."""
    rows = []
    for kind, (runs, names, start, build, predict) in _KINDS.items():
        every = _fit(runs(), names, start, build, predict)
        systems = list(dict.fromkeys(r.system for r in runs()))
        fits = np.array([_fit([r for r in runs() if r.system != s], names, start, build, predict) for s in systems])
        for i, name in enumerate(names):
            unit = "s" if name.endswith("seconds") else "1"
            rows.append(
                Constant(
                    name,
                    kind,
                    float(every[i]),
                    float(min(fits[:, i].min(), every[i])),
                    float(max(fits[:, i].max(), every[i])),
                    unit,
                    len(runs()),
                    SOURCE,
                    "range: fits with one system left out",
                )
            )
        found = summary(kind)
        note = (
            f"median {found['median']:.1%}, within 20 % {found['within_20']:.0%}, p90 {found['p90']:.1%}; one system left out, each weighing the same"
        )
        rows.append(Constant("time_factor", kind, 1.0, found["low"], found["high"], "ratio", len(runs()), SOURCE, note))
    return rows


@cache
def reduce_efficiency() -> model.Efficiency:
    """Return the fitted constants of all-reduce from data/calibration/collectives.csv."""
    return _reduce_efficiency([constant("collectives", n, "all_reduce").value for n in REDUCE])


@cache
def expert_efficiency() -> model.ExpertEfficiency:
    """Return the fitted constants of expert-parallel kernels from data/calibration/collectives.csv."""
    return _expert_efficiency([constant("collectives", n, "expert").value for n in EXPERT])
