"""Collectives joined: a system of the catalogue or of the measured runs -> expected bus bandwidth and exchange times, with ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.calibration import collectives as calibrated
from planner.calibration.table import constant
from planner.errors import InputError
from planner.facts import catalog
from planner.facts.files import table
from planner.facts.formats import number_format
from planner.models import collectives as model
from planner.plan.answer import Answer
from planner.plan.inputs import number

GENERATION_FRACTION = {"hopper": "nvlsEfficiency Hopper", "blackwell": "nvlsEfficiency Blackwell"}
MOST_RANKS = {"all_reduce": 144, "expert": 64}
P2P_FRACTION = 770 / 900  # data/collectives.csv, nvbandwidth on GB200


@dataclass(frozen=True)
class Wires:
    """What a collective runs over: domain [1], nvlink and nic [B/s] one direction of one GPU, in-switch factor [1], algorithm, and whether fitted."""

    domain: int
    nvlink: float
    nic: float | None
    generation: float
    algorithm: str
    fitted: bool
    counts_local: bool = True


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
            row["counts_local"] != "0",
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
    )


def _algorithm(inputs: Mapping, wires: Wires) -> str:
    names = {"nvls": "in_switch", "in-switch": "in_switch", "sharp": "in_switch", "nvlstree": "in_switch", "hierarchical": "in_switch"}
    chosen = str(inputs.get("algorithm") or wires.algorithm).lower()
    chosen = names.get(chosen, chosen)
    if chosen not in model.ALGORITHMS:
        raise InputError("algorithm", inputs.get("algorithm"), f"must be one of {', '.join([*model.ALGORITHMS, *names])}")
    return chosen


def _widened(value: float, kind: str, ranks: int, fitted: bool) -> dict:
    """Return low, high, how and note of a bandwidth or a time: wider and `extrapolated` where nothing was fitted."""
    factor = constant("collectives", "time_factor", kind)
    past = ranks > MOST_RANKS[kind]
    wide = 2.0 if past else 1.0 if fitted else 1.5
    note = f"not validated past {MOST_RANKS[kind]} ranks: software can halve a large ring or tree" if past else ""
    return {
        "low": value * min(1.0, factor.low**wide) / (2.0 if past else 1.0),
        "high": value * max(1.0, factor.high**wide),
        "how": "modelled" if fitted and not past else "extrapolated",
        "grade": "C",
        "note": note,
    }


def busbw(inputs: dict) -> Answer:
    """Return the bus bandwidth to expect [GB/s]: inputs as the question `busbw`. Raises: InputError."""
    wires, op = _wires(inputs), inputs["op"]
    ranks = int(number(inputs, "ranks", low=2, high=1e7, whole=True))
    size = number(inputs, "message_bytes", low=1, high=1e14)
    domain = int(number(inputs, "ranks_per_domain", low=1, high=1e6, whole=True, default=min(wires.domain, ranks)))
    if op == "all_reduce":
        given = (size, ranks, domain, wires.nvlink, wires.nic, _algorithm(inputs, wires), wires.generation, calibrated.reduce_efficiency())
        value = float(model.busbw_bytes_per_s(op, size, ranks, model.all_reduce_seconds(*given)))
        more, limit = _widened(value, "all_reduce", ranks, wires.fitted), model.limiting_resource(*given)
    else:
        value, limit = _other(op, ranks, domain, wires, size)
        more = _widened(value, "all_reduce", ranks, False)
        more["note"] = "; ".join(n for n in (more["note"], "only all-reduce is fitted") if n)
    return Answer(
        "busbw",
        value / 1e9,
        "GB/s",
        basis=f"bus bandwidth, {op}, {ranks} ranks in domains of {domain}",
        limit=limit,
        **{**more, "low": more["low"] / 1e9, "high": more["high"] / 1e9},
    )


def _other(op: str, ranks: int, domain: int, wires: Wires, size: float) -> tuple[float, str]:
    e = calibrated.reduce_efficiency()
    model.bus_factor(op, ranks)
    across = ranks > domain
    if across and wires.nic is None:
        raise InputError("system", op, "needs a scale-out link, which is not published for this system")
    if op == "p2p":
        cap, limit = (wires.nic * e.rail_fraction, "NIC") if across else (wires.nvlink * P2P_FRACTION, "in-rack cap")
    elif op == "all_to_all" and across:
        cap, limit = wires.nic * e.rail_fraction * (ranks - 1) / (ranks - domain), "NIC"
    elif across:
        cap, limit = min((wires.nvlink * e.ring_fraction, "in-rack cap"), (wires.nic * domain * e.rail_fraction, "NIC"))
    else:
        cap, limit = wires.nvlink * e.ring_fraction, "in-rack cap"
    half = e.ramp_seconds * wires.nvlink * min(domain, ranks)
    seconds = float(model.collective_seconds(op, size, ranks, cap / (1 + (half / size) ** e.ramp_power)))
    total = (seconds**e.blend + e.ring_latency_seconds**e.blend) ** (1 / e.blend)
    return float(model.busbw_bytes_per_s(op, size, ranks, total)), "latency" if e.ring_latency_seconds > 0.5 * total else limit


def _exchange(inputs: dict, name: str, width: float) -> Answer:
    wires = _wires(inputs)
    ep = int(number(inputs, "ep", low=2, high=1e6, whole=True))
    tokens = number(inputs, "tokens_per_rank", low=1, high=1e9)
    payload = float(model.expert_payload_bytes(tokens, number(inputs, "topk", low=1, high=1e4), number(inputs, "hidden", low=1, high=1e6), width))
    domain = int(number(inputs, "ranks_per_domain", low=1, high=1e6, whole=True, default=wires.domain))
    quick = bool(inputs.get("low_latency", tokens <= 512))
    local = domain / ep if ep > domain and wires.counts_local else 0.0
    seconds = float(
        model.expert_exchange_seconds(
            payload,
            ep,
            domain,
            wires.nvlink,
            wires.nic,
            calibrated.expert_efficiency(),
            low_latency=quick,
            narrow=width < 2,
            through_api=bool(inputs.get("through_api", False)),
            units=int(number(inputs, "units", high=1e4, whole=True, default=0)),
            local_fraction=local,
        )
    )
    more = _widened(seconds, "expert", ep, wires.fitted)
    limit = "latency" if quick and 0.5 * seconds < calibrated.LOW_LATENCY else "NIC" if ep > domain else "NVLink"
    return Answer(
        name,
        seconds * 1e6,
        "us",
        basis=f"one {name.split('_')[1]} of {payload / 1e6:,.1f} MB a rank, EP{ep}",
        limit=limit,
        **{**more, "low": more["low"] * 1e6, "high": more["high"] * 1e6},
    )


def dispatch(inputs: dict) -> Answer:
    """Return the time of one expert dispatch [us]: inputs as the question `expert_dispatch`. Raises: InputError."""
    return _exchange(inputs, "expert_dispatch", number_format(inputs["format"]).bits / 8)


def combine(inputs: dict) -> Answer:
    """Return the time of one expert combine [us]: inputs as the question `expert_combine`. Raises: InputError."""
    return _exchange(inputs, "expert_combine", number_format(inputs["format"]).bits / 8)
