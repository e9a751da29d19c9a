"""Collectives joined: a system of the catalogue or of the measured runs -> expected bus bandwidth and exchange times, with ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.calibration import collectives as calibrated
from planner.calibration import expert_parallel as expert_calibrated
from planner.calibration.table import constant
from planner.errors import InputError
from planner.facts import catalog
from planner.facts.files import table
from planner.facts.formats import number_format
from planner.models import collectives as model
from planner.models import expert_parallel as expert
from planner.plan.answer import Answer
from planner.plan.inputs import number

GENERATION_FRACTION = {"hopper": "nvlsEfficiency Hopper", "blackwell": "nvlsEfficiency Blackwell"}
MOST_RANKS = {"all_reduce": 144, "expert": 64}
SMALL_BATCH = 512  # tokens a rank up to which engines take the low-latency kernels
MEASURED_BYTES, MEASURED_TOKENS = (4.0, 2.0**34), (128, 8192)  # smallest and largest that a run measured


@dataclass(frozen=True)
class Wires:
    """What a collective runs over: domain [1], nvlink and nic [B/s] one direction of one GPU, in-switch factor [1], algorithm, and
    whether fitted; switched, whether a domain has a switch that can reduce."""

    domain: int
    nvlink: float
    nic: float | None
    generation: float
    algorithm: str
    fitted: bool
    kernel: str = ""
    units: int = 0
    usable: int = 0
    switched: bool = True
    name: str = ""


def _generation(name: str) -> float:
    wanted = GENERATION_FRACTION.get(name, GENERATION_FRACTION["blackwell"])
    return next(float(r["algbw"]) for r in table("collectives.csv") if r["system"].endswith(wanted))


def _wires(inputs: Mapping) -> Wires:
    """Look a system up: a row of the measured runs by its printed name, else the catalogue."""
    name = inputs["system"]
    row = next((r for r in table("collective_systems.csv") if r["system"] == name), None)
    if row is not None:
        return Wires(
            int(row["domain_ranks"]),
            float(row["nvlink_gb_s"]) * 1e9,
            float(row["nic_gb_s"]) * 1e9,
            float(row["generation_fraction"] or _generation("hopper")),
            row["algorithm"] or "in_switch",
            True,
            row["kernel"],
            int(row["units"] or 0),
            switched=row["switch"] != "0",
            name=name,
        )
    rack = catalog.system_from(name, inputs.get("profile"), inputs.get("gpu_watts"))
    if rack.accelerator.nvlink is None:
        raise InputError("system", rack.name, "has no published link between its GPUs: not available")
    generation = rack.accelerator.generation
    switched = not generation.startswith("cdna")
    nic = rack.nic.bytes_per_s * rack.nics_per_gpu if rack.nic else None
    return Wires(
        rack.domain_gpus,
        rack.accelerator.nvlink.bytes_per_s,
        nic,
        _generation(generation),
        "in_switch" if switched else "ring",
        generation in ("hopper", "blackwell"),
        usable=rack.usable_gpus,
        switched=switched,
        name=rack.name,
    )


def _algorithm(inputs: Mapping, wires: Wires) -> str:
    names = {
        **dict.fromkeys(("nvls", "in-switch", "sharp", "nvlstree", "hierarchical"), "in_switch"),
        **dict.fromkeys(("symmetric", "low_latency"), "one_step"),
        "auto": wires.algorithm,
    }
    chosen = str(inputs.get("algorithm") or wires.algorithm).lower()
    chosen = names.get(chosen, chosen)
    if chosen not in model.ALGORITHMS:
        raise InputError("algorithm", inputs.get("algorithm"), f"must be one of {', '.join([*model.ALGORITHMS, *names])}")
    if chosen == "in_switch" and not wires.switched:
        raise InputError("algorithm", inputs["algorithm"], f"needs a switch between the GPUs of a domain, which {wires.name} has not: "
                                                           "use ring, tree or one_step")
    return chosen


def _widened(value: float, kind: str, ranks: int, fitted: bool, *, rate: bool = False, size: tuple = ()) -> dict:
    """Return low, high, how, grade and note of a time, or of a rate: wider and `extrapolated` where nothing was fitted.

    The calibrated factors are measured over predicted time, so a rate takes their inverses. size: (value, smallest, largest measured, unit).
    """
    factor = constant("collectives", "time_factor", kind)
    most = MOST_RANKS["expert" if kind == "expert" else "all_reduce"]
    past, odd = ranks > most, bool(size) and not size[1] <= size[0] <= size[2]
    wide = 2.0 if past else 1.0 if fitted and not odd else 1.5
    short, long = min(1.0, factor.low**wide), max(1.0, factor.high**wide) * (2.0 if past else 1.0)
    said = [f"not validated past {most} ranks: software can halve a large ring or tree"] if past else []
    said += [f"not validated outside {size[1]:,.0f} to {size[2]:,.0f} {size[3]}"] if odd else []
    note = "; ".join(said)
    return {
        "low": value / long if rate else value * short,
        "high": value / short if rate else value * long,
        "how": "modelled" if fitted and not past and not odd else "extrapolated",
        "grade": "C",
        "note": note,
    }


def busbw(inputs: dict) -> Answer:
    """Return the bus bandwidth to expect [GB/s]: inputs as the question `busbw`. Raises: InputError."""
    wires, op = _wires(inputs), inputs["op"]
    ranks = int(number(inputs, "ranks", low=2, high=1e7, whole=True))
    size = number(inputs, "message_bytes", low=1, high=1e14)
    usual = wires.usable if ranks > wires.domain and ranks % wires.domain and wires.usable and ranks % wires.usable == 0 else wires.domain
    domain = int(number(inputs, "ranks_per_domain", low=1, high=wires.domain, whole=True, default=min(usual, ranks)))
    measured = (size, *MEASURED_BYTES, "bytes")
    if op == "all_reduce":
        algorithm = _algorithm(inputs, wires)
        given = (size, ranks, domain, wires.nvlink, wires.nic, algorithm, wires.generation, calibrated.reduce_efficiency())
        value = float(model.busbw_bytes_per_s(op, size, ranks, model.all_reduce_seconds(*given)))
        scope = "one_step" if algorithm == "one_step" else "all_reduce"
        more, limit = _widened(value, scope, ranks, wires.fitted, rate=True, size=measured), model.limiting_resource(*given)
    else:
        asked = inputs.get("algorithm")
        if asked:
            _algorithm(inputs, wires)  # one that is unknown, or that this system cannot run, is refused for every operation
        unused = f"algorithm {asked} has no effect: {op} is bounded by the wires, whatever the algorithm" if asked else ""
        e, links = calibrated.reduce_efficiency(), (ranks, domain, wires.nvlink, wires.nic)
        seconds, limit = model.direct_seconds(op, size, *links, calibrated.point_to_point_fraction(), e)
        value, limit = float(model.busbw_bytes_per_s(op, size, ranks, float(seconds))), str(limit)
        more = _widened(value, "all_reduce", ranks, False, rate=True, size=measured)
        more["high"] = min(more["high"], *model.line_rate_bytes_per_s(op, *links).values())  # no line carries more than it has
        more["note"] = "; ".join(n for n in (more["note"], "only all-reduce is fitted", unused) if n)
    return Answer(
        "busbw",
        value / 1e9,
        "GB/s",
        basis=f"bus bandwidth, {op}, {ranks} ranks in domains of {domain}",
        limit=limit,
        **{**more, "low": more["low"] / 1e9, "high": more["high"] / 1e9},
    )


def _exchange(inputs: dict, name: str) -> Answer:
    wires = _wires(inputs)
    ep = int(number(inputs, "ep", low=2, high=1e6, whole=True))
    tokens, topk = number(inputs, "tokens_per_rank", low=1, high=1e9), int(number(inputs, "topk", low=1, high=1e4, whole=True))
    wire = number_format(inputs["format"])
    width = expert_calibrated.FORMATS.get(wire.name, wire.bits / 8)
    token = number(inputs, "hidden", low=1, high=1e6) * width
    domain = int(number(inputs, "ranks_per_domain", low=1, high=wires.domain, whole=True, default=wires.domain))
    quick = inputs.get("low_latency")
    if quick is not None and not isinstance(quick, bool):
        raise InputError("low_latency", quick, "must be true or false")
    kernel = wires.kernel or ("low_latency" if tokens <= SMALL_BATCH else "normal")
    kernel = kernel if quick is None else "low_latency" if quick else "normal"
    normal = kernel == "normal"
    groups = int(number(inputs, "most_nodes", high=1e6, whole=True, default=4 if wires.kernel == "normal" else 0))
    units = int(number(inputs, "units", high=1e4, whole=True, default=wires.units))
    what = expert.Exchange(ep, domain, topk, token, groups if normal else 0, kernel, units if normal else 0)
    kind = "combine" if name == "expert_combine" else "dispatch_fp8" if width < 2 else "dispatch_bf16"
    seconds, limit = expert.exchange_seconds(tokens, what, wires.nvlink, wires.nic, expert_calibrated.efficiency()[kind],
                                             inputs.get("through_api") is True)
    seconds = float(seconds)
    more = _widened(seconds, "expert", ep, wires.fitted, size=(tokens, *MEASURED_TOKENS, "tokens"))
    if wire.name not in expert_calibrated.FORMATS:
        more["how"], more["note"] = "extrapolated", "; ".join(n for n in (more["note"], f"no run measured {wire.name}") if n)
    moved, crossing = tokens * token / 1e6, "NICs" if what.domains > 1 else "NVLink"
    copies = what.copies["nic" if what.domains > 1 else "link"]
    return Answer(
        name,
        seconds * 1e6,
        "us",
        basis=f"one {name.split('_')[1]}, EP{ep}, {kernel.replace('_', '-')} kernels: {moved * copies:,.1f} MB of a rank cross the {crossing}",
        limit=expert.LIMITS[int(limit)],
        **{**more, "low": more["low"] * 1e6, "high": more["high"] * 1e6},
    )


def dispatch(inputs: dict) -> Answer:
    """Return the time of one expert dispatch [us]: inputs as the question `expert_dispatch`. Raises: InputError."""
    return _exchange(inputs, "expert_dispatch")


def combine(inputs: dict) -> Answer:
    """Return the time of one expert combine [us]: inputs as the question `expert_combine`. Raises: InputError."""
    return _exchange(inputs, "expert_combine")
