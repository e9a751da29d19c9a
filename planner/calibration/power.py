"""Power constants from published readings: load by kind of work, fans, conversion, and throughput under a cap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.calibration.table import Constant, constant
from planner.errors import InputError
from planner.facts import catalog
from planner.facts.evidence import claim
from planner.facts.files import table
from planner.models import power
from planner.specs import Rack

SOURCE = "data/claims.csv"
NODE = "eight-gpu node"
IDLE, PEAK_NODE, RATED_NODE, TRAINING = ("X0065", "X0072"), "X0033", "H0334", "X0031"
SATURATED, LOADED, SMALL_BATCH, SUSTAINED = (("X0069", 1), ("X0071", 0)), ("X0066",), (("X0069", 0), ("X0064", 0)), "X0035"
SETTINGS = {"h100-sxm": "H0150", "h200-sxm": "H0158", "b200-sxm": "H0167"}
TITANIUM, SHELF, CONTEXT = "X0296", "P0175", "X0074"
CAPPED = "Power Cap 1000 W"


@dataclass(frozen=True)
class Part:
    """One part of a node or rack: power [W] of all of its pieces (or an assumption in its own unit) with low and high, grade and claim."""

    value: float
    low: float
    high: float
    grade: str
    claims: tuple[str, ...]
    note: str


def parts(scope: str) -> dict[str, Part]:
    """Return part -> Part of data/power_parts.csv for a scope; empty where none is listed."""
    found = {}
    for row in table("power_parts.csv"):
        if row["scope"] != scope:
            continue
        n = int(row["count"])
        if row["claim"]:
            item = claim(row["claim"])
            numbers, grade, behind = (item.base_value, *item.base_range), item.grade, (item.id,)
        else:
            numbers, grade, behind = tuple(float(row[k]) for k in ("value", "low", "high")), "P", ()
        found[row["part"]] = Part(*(n * v for v in numbers), grade, behind, row["note"])
    return found


def assumption(name: str) -> Part:
    """Return one assumption of data/power_parts.csv (scope all). Raises: InputError for a name that is not there."""
    try:
        return parts("all")[name]
    except KeyError:
        raise InputError("power_parts.csv", name, "must be a part of scope all") from None


def _setting(subject: str) -> float:
    return claim(SETTINGS[subject]).base_value


def _load(watts: float, subject: str, idle: float) -> float:
    """The share of the way from idle to the limit that a reading of one GPU stands for."""
    share = watts / _setting(subject)
    return float((share - idle) / (1 - idle))


def _ends(item: str, end: int) -> tuple[float, str]:
    found = claim(item)
    return (found.base_range[end] if found.value is None else found.base_value), found.subject


def _host() -> float:
    return sum(p.value for p in parts(NODE).values())


def _exponent(idle: float) -> list[float]:
    """Exponents of throughput over power from each pair of runs of one submitter, model and scenario with and without the cap."""
    rows = [r for r in table("mlperf_results.csv") if r["accelerator"].startswith("AMD Instinct MI355X 288GB HBM3e")]
    found = []
    for row in rows:
        if CAPPED not in row["accelerator"]:
            continue
        key = ("round", "submitter", "model", "scenario", "accelerators_total", "division")
        (free,) = [r for r in rows if r is not row and CAPPED not in r["accelerator"] and all(r[k] == row[k] for k in key)]
        cap, setting = claim("P0112").base_value, claim("P0111").base_value
        share = (cap / setting - idle) / (1 - idle)
        found.append(float(np.log(float(row["value"]) / float(free["value"])) / np.log(share)))
    return found


def fit() -> list[Constant]:
    """Return the constants of this area: idle_fraction, load_fraction by kind of work, fan_fraction by cooling, supply_efficiency, cap_exponent.

    No constant is fitted to the two MLPerf rows with measured wall power; they judge.
    """
    idles = [claim(i).base_value / _setting("h200-sxm") for i in IDLE]
    idle, context = float(np.mean(idles)), claim(CONTEXT).base_range
    saturated = [_load(*_ends(i, e), idle) for i, e in SATURATED]
    loaded = _load(*_ends(LOADED[0], 0), idle)
    small = [_load(*_ends(i, e), idle) for i, e in SMALL_BATCH]
    sustained = [_load(claim(SUSTAINED).base_range[e], "h100-sxm", idle) for e in (0, 1)]
    titanium, shelf = claim(TITANIUM), claim(SHELF)
    efficiency = titanium.base_value
    fan = float(power.fan_fraction_from_wall(claim(PEAK_NODE).base_value, 8 * _setting("h100-sxm"), _host(), efficiency))
    wall = claim(TRAINING).base_value * claim(RATED_NODE).base_value
    training = _load((wall * efficiency * (1 - fan) - _host()) / 8, "h100-sxm", idle)
    air = assumption("air share of heat")
    exponents = _exponent(idle)

    def row(name, scope, value, low, high, unit, rows, note):
        return Constant(name, scope, float(value), float(low), float(high), unit, rows, SOURCE, note)

    server = (np.mean(saturated) + loaded) / 2
    return [
        row("idle_fraction", "", idle, min(idles), idle + context[1] / _setting("h200-sxm"), "fraction", 2,
            "idle H200 over its limit (X0065 X0072); high end with a CUDA context (X0074)"),
        row("load_fraction", "offline", np.mean(saturated), loaded, 1.0, "fraction", 2, "highest inference readings of B200 and H200 (X0069 X0071)"),
        row("load_fraction", "server", server, loaded, np.mean(saturated), "fraction", 3, "between a loaded H200 (X0066) and the saturated readings"),
        row("load_fraction", "interactive", np.mean(sustained), min(small), loaded, "fraction", 2,
            "sustained inference of H100 (X0035); low end batch 1 (X0064)"),
        row("load_fraction", "batch 1", np.mean(small), min(small), max(small), "fraction", 2,
            "lowest inference readings of B200 and H100 (X0069 X0064)"),
        row("load_fraction", "training", training, 0.9 * training, 1.0, "fraction", 1,
            "0.76 of 10.2 kW at an H100 node (X0031), fans and host taken off"),
        row("load_fraction", "idle", 0.0, 0.0, 0.0, "fraction", 0, "by definition"),
        row("load_fraction", "provisioned", 1.0, 1.0, 1.0, "fraction", 0, "by definition: every part at its limit"),
        row("fan_fraction", "air", fan, 0.6 * fan, 1.3 * fan, "fraction", 1,
            "H100 node at its measured peak of 8.4 kW (X0033), GPUs at 700 W; range assumed; holds the baseboard's switches too"),
        row("fan_fraction", "liquid", fan * air.value, 0.0, 1.3 * fan * air.high, "fraction", 1,
            "the air share of the heat times the air-cooled fans"),
        row("supply_efficiency", "node", efficiency, shelf.base_range[0], shelf.base_range[1], "fraction", 1, "Titanium at its rating point (X0296)"),
        row("supply_efficiency", "rack", shelf.base_value, *shelf.base_range, "fraction", 0, "assumed (P0175)"),
        row("cap_exponent", "", np.mean(exponents), 1 / 3, 1.0, "1", len(exponents),
            "MI355X at 1,000 and 1,400 W, Llama 2 70B; low end clock cubed in power, high end proportional"),
    ]


def idle_fraction() -> Constant:
    """Return the idle power of a GPU over its limit."""
    return constant("power", "idle_fraction")


def load_fraction(kind: str) -> Constant:
    """Return the load of a kind of work: offline, server, interactive, batch 1, training, idle or provisioned. Raises: InputError."""
    kinds = [r["scope"] for r in table("calibration/power.csv") if r["name"] == "load_fraction"]
    if kind not in kinds:
        raise InputError("load", kind, f"must be a share in 0..1 or one of {', '.join(kinds)}")
    return constant("power", "load_fraction", kind)


def fan_fraction(cooling: str) -> Constant:
    """Return the share of a node's DC power that moves air: cooling is air or liquid. Raises: InputError."""
    if cooling not in ("air", "liquid"):
        raise InputError("cooling", cooling, "must be air or liquid")
    return constant("power", "fan_fraction", cooling)


def _spread(rng: np.random.Generator, draws: int):
    """Return a function from (value, low, high) to central and draws (draws + 1,): uniform in two halves, 80 % between low and high."""
    def drawn(item) -> np.ndarray:
        u = 2 * rng.random(draws) - 1
        return np.concatenate([[item.value], item.value + u * np.where(u > 0, item.high - item.value, item.value - item.low) / 0.8])
    return drawn


def node_watts(gpus: int, setting_watts: float, load: Constant, cooling: str, draws: int = 512, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the wall power of an eight-GPU node by part, central first and draws after it (n,) [W].

    Parameters: gpus [1]; setting_watts [W]; load, a Constant; cooling, air or liquid; draws [1] and seed of the uncertain inputs.
    Returns: parts that sum to the wall power. Raises: InputError.
    """
    drawn = _spread(np.random.default_rng(seed), draws)
    idle, share, fans, supply = (drawn(c) for c in (idle_fraction(), load, fan_fraction(cooling), constant("power", "supply_efficiency", "node")))
    each = power.gpu_watts(setting_watts, np.clip(share, 0, 1), np.clip(idle, 0, 1))
    host = sum(p.value for p in parts(NODE).values()) * gpus / 8
    found = drawn(Part(host, 0.7 * host, 1.3 * host, "P", (), "range assumed: memory, drives and CPUs are a buyer's choice"))
    return power.node_parts_watts(gpus * each, found, np.clip(fans, 0, 0.9), np.clip(supply, 0.5, 1))


def rack_watts(rack: Rack, load: Constant, draws: int = 512, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the power of a rack at its input, GPUs and the rest, central first and draws after it (n,) [W].

    Parameters: rack with a power setting and an overhead; load, a Constant (1 = provisioned); draws [1] and seed. Returns: ordered dict `GPUs`,
    `rest of the rack`. Raises: InputError where the setting or the overhead is not available.
    """
    gpu = rack.accelerator.gpu_watts
    if gpu is None or rack.overhead_watts is None:
        raise InputError("system", rack.label, "has no power setting or no overhead: rack power is not available")
    behind = catalog.claims_behind(rack).get("overhead_watts")
    low, high = (behind.low, behind.high) if behind else (rack.overhead_watts, rack.overhead_watts)
    drawn = _spread(np.random.default_rng(seed), draws)
    rest = drawn(Part(rack.overhead_watts, min(low, rack.overhead_watts), max(high, rack.overhead_watts), "P", (), ""))
    share, idle, fixed = (np.clip(drawn(c), 0, 1) for c in (load, idle_fraction(), assumption("rest fixed fraction")))
    each = power.gpu_watts(gpu, share, idle)
    return {"GPUs": rack.gpus * each, "rest of the rack": power.loaded_watts(0.0, np.maximum(rest, 0.0), fixed, share)}


def tray_watts(rack: Rack, load: Constant, draws: int = 512, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the power of one compute tray of a rack at the busbar by part, central first and draws after it (n,) [W].

    Parameters: as `rack_watts`. Returns: GPUs, each named part that a tray holds, and what else the rack's overhead leaves a tray in the draws
    (0 in the central case: a remainder is no part). Raises: InputError as `rack_watts`, or for a system without a list of parts.
    """
    whole, trays = rack_watts(rack, load, draws, seed), rack.gpus / rack.gpus_per_tray
    named = {k: p for k, p in parts(rack.name).items() if "switch" not in k}
    if not named:
        raise InputError("system", rack.label, "has no list of parts of a tray")
    drawn = _spread(np.random.default_rng(seed + 1), draws)
    found = {"GPUs": whole["GPUs"] / trays, **{k: drawn(p) / trays for k, p in named.items()}}
    share = np.concatenate([[0.0], np.random.default_rng(seed + 2).random(draws)])
    left = whole["rest of the rack"] / trays - sum(v for k, v in found.items() if k != "GPUs")
    return {**found, "other": share * np.maximum(left, 0.0)}


def rack_parts(rack: Rack) -> dict[str, float]:
    """Return the provisioned power of a rack by named part [W]; parts sum to the rack. Raises: InputError as `rack_watts`."""
    total = rack.gpus * (rack.accelerator.gpu_watts or 0.0) + (rack.overhead_watts or 0.0)
    if rack.accelerator.gpu_watts is None or rack.overhead_watts is None:
        raise InputError("system", rack.label, "has no power setting or no overhead: rack power is not available")
    own = parts(rack.name) or {k: p for k, p in parts(NODE).items() if rack.gpus == 8}
    named = {"GPUs": rack.gpus * rack.accelerator.gpu_watts, **{k: p.value for k, p in own.items()}}
    return {k: float(v) for k, v in power.rack_parts_watts(named, total, constant("power", "supply_efficiency", "rack").value).items()}
