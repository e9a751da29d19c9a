"""The constants of expert-parallel exchanges, and the measured runs they are fitted to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from planner.calibration.table import constant
from planner.facts.files import table
from planner.models import expert_parallel as model

TOPK, HIDDEN = 8, 7168  # of every measured run: the published kernels test DeepSeek-V3's shape
FORMATS = {"fp8": 1 + 4 / 128, "bf16": 2.0}  # bytes a value; FP8 travels with one float scale per 128 values
KINDS = ("dispatch_fp8", "dispatch_bf16", "combine")
NAMES = ("nic_fraction", "link_fraction", *(f"unit_bytes_per_s_{k}" for k in KINDS), *(f"caller_fraction_{k}" for k in KINDS), "latency_seconds")
PRIOR = 0.03  # weight of the starting values: they only decide what the rows at hand leave open


@dataclass(frozen=True)
class Run:
    """One measured run: system, what was exchanged, tokens [1] a rank, seconds [s] from the printed logical bandwidth, kind of `KINDS`."""

    system: str
    what: model.Exchange
    tokens: float
    seconds: float
    kind: str
    whole_call: bool
    link_bytes_per_s: float
    nic_bytes_per_s: float


def start() -> tuple[float, ...]:
    """Return the starting constants, in the order of `NAMES`: line-rate shares, bytes a processor copies, the library's own latencies."""
    published = {(r["system"], r["op"]): float(r["latency_us"]) for r in table("collectives.csv") if r["system"].startswith("NCCL model")
                 and r["latency_us"]}
    empty = published["NCCL model baseLatency", "base_ring_Simple"] + 2 * published["NCCL model hwLatency NET", "alpha_ring_Simple"]
    return (0.9, 0.7, 22e9, 30e9, 28e9, 0.72, 0.75, 0.82, empty * 1e-6)


@cache
def runs() -> tuple[Run, ...]:
    """Return the measured dispatch and combine runs whose system is described in data/collective_systems.csv."""
    systems = {r["system"]: r for r in table("collective_systems.csv") if r["kind"] == "expert"}
    found = []
    for row in table("collectives.csv"):
        system = systems.get(row["system"])
        if system is None:
            continue
        note, narrow = row["note"], ("fp8" in row["op"] or "FP8" in row["note"]) and "combine" not in row["op"]
        units = re.search(r"SMs=(\d+)|(\d+) SMs", note)
        kind = "combine" if "combine" in row["op"] else f"dispatch_{'fp8' if narrow else 'bf16'}"
        token = HIDDEN * FORMATS["fp8" if narrow else "bf16"]
        quick = system["kernel"] == "low_latency"
        what = model.Exchange(int(row["ranks"]), int(system["domain_ranks"]), TOPK, token, 0 if quick else 4, system["kernel"],
                              0 if quick else int(units[1] or units[2]) if units else int(system["units"]))
        tokens = float(row["message_bytes"]) / token / what.copies["logical"] if row["message_bytes"] else float(system["tokens"])
        seconds = tokens * what.copies["logical"] * token / (float(row["algbw"]) * 1e9)
        found.append(Run(row["system"], what, tokens, seconds, kind, "torch API" in note, float(system["nvlink_gb_s"]) * 1e9,
                         float(system["nic_gb_s"]) * 1e9))
    return tuple(found)


def build(x) -> dict[str, model.ExchangeEfficiency]:
    """Return the constants as one ExchangeEfficiency a kind, from values in the order of `NAMES`."""
    v = dict(zip(NAMES, map(float, x), strict=True))
    return {k: model.ExchangeEfficiency(v["link_fraction"], v["nic_fraction"], v[f"unit_bytes_per_s_{k}"], v[f"caller_fraction_{k}"],
                                        v["latency_seconds"]) for k in KINDS}


def seconds(some: Sequence[Run], e: dict[str, model.ExchangeEfficiency]) -> np.ndarray:
    """Return the model's times of measured runs [s]."""
    return np.array([model.exchange_seconds(r.tokens, r.what, r.link_bytes_per_s, r.nic_bytes_per_s, e[r.kind], r.whole_call)[0] for r in some])


@cache
def efficiency() -> dict[str, model.ExchangeEfficiency]:
    """Return the fitted constants by kind from data/calibration/collectives.csv."""
    return build([constant("collectives", n, "expert").value for n in NAMES])
