"""Collectives over an NVLink domain, over rails, and over both: bus bandwidth, time and the resource that sets it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.errors import InputError
from planner.units import count, fraction, nonnegative, positive

OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "p2p")
ALGORITHMS = ("in_switch", "ring", "tree", "one_step")


@dataclass(frozen=True)
class Efficiency:
    """The effective constants of one software generation, fitted to measurements, not physics.

    in_switch_fraction [1] of NVLink that in-switch reduction reaches per hardware generation's own factor; ring_fraction [1] of NVLink;
    network_fraction [1] of the hierarchical bound; rail_fraction [1] of a NIC on a ring; ramp_seconds [s] per rank and ramp_power [1] of the
    message-size ramp; latency_seconds [s] of an empty in-switch reduction and network_latency_seconds [s] of each doubling of its domains;
    blend [1] between latency and bandwidth; one_step_latency_seconds [s] of kernels that read every rank's memory in one step. Rings and trees:
    ring_latency_seconds and tree_latency_seconds [s] to start, and per step over NVLink (link_hop_seconds) and over the network
    (ring_hop_seconds, tree_hop_seconds) [s].
    """

    in_switch_fraction: float
    ring_fraction: float
    network_fraction: float
    rail_fraction: float
    ramp_seconds: float
    ramp_power: float
    latency_seconds: float
    network_latency_seconds: float
    ring_latency_seconds: float
    tree_latency_seconds: float
    link_hop_seconds: float
    ring_hop_seconds: float
    tree_hop_seconds: float
    blend: float
    one_step_latency_seconds: float

    def __post_init__(self):
        for name in self.__dataclass_fields__:
            positive(f"efficiency.{name}", getattr(self, name))


def _whole(ranks: int, domain: int) -> str:
    below = ranks // domain * domain
    return f"must be whole domains of {domain} (nearest: {below:,} or {below + domain:,}): name ranks_per_domain where fewer take part"


def bus_factor(op: str, ranks):
    """Return busbw / algbw of an operation: 2(n-1)/n all-reduce; (n-1)/n gather, scatter, all-to-all; 1 broadcast and point to point.

    Parameters: op, one of `OPS`; ranks n [1], scalar or array. Returns: factor [1], shape of ranks. Raises: InputError.
    Validity: any. Error: exact by definition. Source: nccl-tests performance notes.
    """
    if op not in OPS:
        raise InputError("op", op, f"must be one of {', '.join(OPS)}")
    n = count("ranks", ranks, 2).astype(float)
    return {"all_reduce": 2 * (n - 1) / n, "broadcast": np.ones_like(n), "p2p": np.ones_like(n)}.get(op, (n - 1) / n)[()]


def one_direction_bytes_per_s(listed_bytes_per_s, both_directions: bool, links=1, efficiency_fraction=1.0):
    """Return what one direction carries of a listed rate: links x rate x efficiency, halved where the list adds both directions.

    Parameters: listed_bytes_per_s [B/s] of one link or of the whole device (links 1); both_directions, whether the list counts both; links [1];
    efficiency_fraction [1] of protocol; broadcast. Returns: bandwidth [B/s]. Raises: InputError. Validity: symmetric links. Error: exact.
    Source: definition of full duplex.
    """
    rate = positive("listed_bytes_per_s", listed_bytes_per_s) * count("links", links)
    return (rate * fraction("efficiency_fraction", efficiency_fraction, zero=False) / (2 if both_directions else 1))[()]


def collective_seconds(op: str, message_bytes, ranks, busbw_bytes_per_s):
    """Return the time of a collective from its bus bandwidth: t = S f / busbw.

    Parameters: op; message_bytes S [B]: the buffer of one rank (for gathers, the whole result); ranks [1]; busbw_bytes_per_s [B/s].
    Returns: time [s], broadcast shape. Raises: InputError. Validity: any. Error: exact identity. Source: nccl-tests performance notes.
    """
    return (nonnegative("message_bytes", message_bytes) * bus_factor(op, ranks) / positive("busbw_bytes_per_s", busbw_bytes_per_s))[()]


def busbw_bytes_per_s(op: str, message_bytes, ranks, seconds):
    """Return the bus bandwidth of a measured collective: busbw = S f / t; arguments as `collective_seconds`, the inverse of it.

    Parameters: op; message_bytes [B]; ranks [1]; seconds [s]. Returns: bandwidth [B/s], broadcast shape. Raises: InputError.
    Validity: any. Error: exact identity. Source: nccl-tests performance notes.
    """
    return (nonnegative("message_bytes", message_bytes) * bus_factor(op, ranks) / positive("seconds", seconds))[()]


def hierarchical_bound_bytes_per_s(domain_ranks: int, domains: int, nic_bytes_per_s: float, op: str = "all_reduce") -> float:
    """Return the bus bandwidth at which the NICs of a domain are full: B d N / (2 (N-1)) x 2(n-1)/n for an all-reduce.

    Parameters: domain_ranks d [1] GPUs of one NVLink domain; domains N [1]; nic_bytes_per_s B [B/s] one direction of one GPU's NICs; op.
    Returns: bandwidth [B/s]; infinite for one domain. Raises: InputError.
    Validity: reduction inside domains first, every rail used. Error: measured runs reach 0.90 to 0.95 of it. Source: counting bytes on the NICs.
    """
    d, n = int(count("domain_ranks", domain_ranks)), int(count("domains", domains))
    if n == 1:
        return float("inf")
    full = positive("nic_bytes_per_s", nic_bytes_per_s) * d
    share = n / (n - 1) / (2 if op == "all_reduce" else 1)
    return float(full * share * bus_factor(op, d * n))


def inter_domain_traffic_factor(domains: int, ranks: int) -> float:
    """Return the buffers that each domain sends to others in a hierarchical all-reduce: 2(N-1)/N.

    Parameters: domains N [1]; ranks n [1]. Returns: factor [1] of the buffer's size, for each domain as a whole.
    Raises: InputError. Validity: reduction inside domains first. Error: exact by count. Source: definition of a ring over domains.
    """
    n = int(count("domains", domains))
    if int(count("ranks", ranks)) < n:
        raise InputError("ranks", ranks, f"must be at least the domains ({n})")
    return 2.0 * (n - 1) / n


def all_reduce_caps_bytes_per_s(ranks: int, domain_ranks: int, nvlink_bytes_per_s: float, nic_bytes_per_s: float | None, algorithm: str,
                                generation_fraction: float, e: Efficiency) -> dict[str, float]:
    """Return the bus bandwidth that each resource allows a large all-reduce: the least of them is reached.

    Parameters: ranks n [1]; domain_ranks [1] in one NVLink domain; nvlink_bytes_per_s and nic_bytes_per_s [B/s] one direction of one GPU;
    algorithm, one of `ALGORITHMS`; generation_fraction [1] of in-switch reduction; e. Returns: dict resource -> [B/s]: `in-rack cap`, and with
    more than one domain `NIC`. Raises: InputError, also for ranks that do not fill whole domains.
    Validity: `ranks` a multiple of the domain or inside one. Error: see `all_reduce_seconds`. Source: definition; constants fitted.
    """
    if algorithm not in ALGORITHMS:
        raise InputError("algorithm", algorithm, f"must be one of {', '.join(ALGORITHMS)}")
    n, d = int(count("ranks", ranks, 2)), int(count("ranks_per_domain", domain_ranks))
    d = min(d, n)
    if n % d:
        raise InputError("ranks", n, _whole(n, d))
    link = positive("nvlink_bytes_per_s", nvlink_bytes_per_s)
    inside = e.in_switch_fraction * fraction("generation_fraction", generation_fraction, zero=False) * bus_factor("all_reduce", n)
    share = {"in_switch": inside, "one_step": e.ring_fraction * 2 / n}.get(algorithm, e.ring_fraction)  # one step: every rank reads all others
    caps = {"in-rack cap": float(link * share)}
    if n > d:
        if nic_bytes_per_s is None:
            raise InputError("nic_bytes_per_s", None, "must be given for more than one domain")
        bound = hierarchical_bound_bytes_per_s(d, n // d, nic_bytes_per_s)
        caps["NIC"] = float(d * nic_bytes_per_s * e.rail_fraction) if algorithm == "ring" else float(bound * e.network_fraction)
    return caps


def start_seconds(algorithm: str, ranks: int, domain_ranks: int, e: Efficiency) -> float:
    """Return the time of an empty all-reduce, by the steps that follow one another.

    In-switch: one reduction, and a doubling of domains adds a step of a tree between them; ring: 2 (n - N) steps inside N domains and 2 (N - 1)
    between them; tree: 2 (d - 1) inside a domain of d and 2 log2 N between. Parameters: algorithm, one of `ALGORITHMS`; ranks n [1];
    domain_ranks [1]; e. Returns: time [s]. Raises: InputError for one-step kernels past one domain. Validity: whole domains; steps of the
    library's low-latency protocol. Error: 47 us measured on 2 domains (6 % of it); no run with more domains at small sizes. Source: NCCL's own
    latency constants in data/collectives.csv; the in-switch start is fitted.
    """
    n, d = int(count("ranks", ranks, 2)), min(int(count("domain_ranks", domain_ranks)), int(ranks))
    domains = n // d
    if algorithm == "one_step":
        if domains > 1:
            raise InputError("algorithm", algorithm, "works inside one NVLink domain: use in_switch, ring or tree")
        return e.one_step_latency_seconds
    if algorithm == "in_switch":
        return float(e.latency_seconds + e.network_latency_seconds * np.log2(domains))
    if algorithm == "tree":
        return float(e.tree_latency_seconds + 2 * (d - 1) * e.link_hop_seconds + 2 * np.log2(domains) * e.tree_hop_seconds)
    return float(e.ring_latency_seconds + 2 * (n - domains) * e.link_hop_seconds + 2 * (domains - 1) * e.ring_hop_seconds)


def all_reduce_seconds(message_bytes, ranks: int, domain_ranks: int, nvlink_bytes_per_s: float, nic_bytes_per_s: float | None, algorithm: str,
                       generation_fraction: float, e: Efficiency):
    """Return the time of an all-reduce: a power blend of latency and S f / [cap / (1 + (S_half / S)^p)].

    S_half = ramp_seconds x NVLink x ranks of a domain x (1 + log2 domains), 0 for one-step kernels. Parameters: message_bytes S [B], scalar or
    array; the rest as `all_reduce_caps_bytes_per_s`. Returns: time [s], shape of message_bytes. Raises: InputError.
    Validity: 8 to 144 ranks, 4 B to 16 GiB; past that, not validated. Error: leaving out one of 16 systems in turn, each system weighing the same:
    median 7.8 %, 91 % within 20 %; 8-GPU messages of 64 KB to 1 MB differ by 30 % between two measured series, one-step latencies by 40 %.
    Source: data/collectives.csv.
    """
    caps = all_reduce_caps_bytes_per_s(ranks, domain_ranks, nvlink_bytes_per_s, nic_bytes_per_s, algorithm, generation_fraction, e)
    size, n = positive("message_bytes", message_bytes), int(ranks)
    d = min(int(domain_ranks), n)
    half = e.ramp_seconds * nvlink_bytes_per_s * d * (1 + np.log2(n // d))
    chunked = 0.0 if algorithm == "one_step" else (half / size) ** e.ramp_power
    bandwidth = min(caps.values()) / (1 + chunked)
    start = start_seconds(algorithm, n, d, e)
    moved = collective_seconds("all_reduce", size, n, bandwidth)
    most = np.maximum(moved, start)  # taken out of the powers, which a sharp blend would overflow
    return (most * ((moved / most) ** e.blend + (start / most) ** e.blend) ** (1 / e.blend))[()]


def limiting_resource(message_bytes: float, ranks: int, domain_ranks: int, nvlink_bytes_per_s: float, nic_bytes_per_s: float | None,
                      algorithm: str, generation_fraction: float, e: Efficiency) -> str:
    """Return which bound sets an all-reduce: latency, message size (software), in-rack cap or NIC.

    Parameters: as `all_reduce_seconds`, scalars. Returns: text [one of four]. Raises: InputError. Validity: as `all_reduce_seconds`.
    Error: none. Source: as `all_reduce_seconds`.
    """
    caps = all_reduce_caps_bytes_per_s(ranks, domain_ranks, nvlink_bytes_per_s, nic_bytes_per_s, algorithm, generation_fraction, e)
    total = float(all_reduce_seconds(message_bytes, ranks, domain_ranks, nvlink_bytes_per_s, nic_bytes_per_s, algorithm, generation_fraction, e))
    ideal = float(collective_seconds("all_reduce", message_bytes, ranks, min(caps.values())))
    start = start_seconds(algorithm, ranks, domain_ranks, e)
    if start > 0.5 * total:
        return "latency"
    return min(caps, key=caps.get) if ideal > 0.6 * total else "message size (software)"


def line_rate_bytes_per_s(op: str, ranks: int, domain_ranks: int, nvlink_bytes_per_s: float, nic_bytes_per_s: float | None) -> dict[str, float]:
    """Return the bus bandwidth of an operation other than all-reduce at which each resource is full: nothing measured can be above the least of them.

    Parameters: op of `OPS`; ranks n [1]; domain_ranks d [1]; nvlink_bytes_per_s and nic_bytes_per_s [B/s] one direction of one GPU.
    Returns: dict resource -> [B/s]: `in-rack cap`, and past one domain `NIC`: B for point to point, B (n-1)/(n-d) for an all-to-all (what stays
    inside needs no NIC), B d for gathers, scatters and broadcasts over every rail. Raises: InputError, also for ranks that do not fill whole domains
    where the operation joins all of them, or a NIC rate that is missing.
    Validity: whole domains, every rail used. Error: exact bound. Source: counting bytes on the lines.
    """
    bus_factor(op, ranks)
    n = int(ranks)
    d = min(int(count("ranks_per_domain", domain_ranks)), n)
    link = float(positive("nvlink_bytes_per_s", nvlink_bytes_per_s))
    if n == d:
        return {"in-rack cap": link}
    if op != "p2p" and n % d:
        raise InputError("ranks", n, _whole(n, d))
    if nic_bytes_per_s is None:
        raise InputError("nic_bytes_per_s", None, "must be given for more than one domain")
    nic = float(positive("nic_bytes_per_s", nic_bytes_per_s))
    if op == "p2p":
        return {"NIC": nic}
    return {"in-rack cap": link, "NIC": nic * ((n - 1) / (n - d) if op == "all_to_all" else d)}


def direct_seconds(op: str, message_bytes, ranks: int, domain_ranks: int, nvlink_bytes_per_s: float, nic_bytes_per_s: float | None,
                   link_fraction: float, e: Efficiency):
    """Return the time of any operation but an all-reduce, and what sets it: latency, the in-rack cap or the NIC.

    The blend of `all_reduce_seconds` with the caps of `line_rate_bytes_per_s` times their efficiencies: link_fraction of NVLink for point to point,
    the ring's for the rest, the rail's of a NIC. Steps: n - N inside and N - 1 between domains for gathers, scatters and broadcasts, one otherwise.
    Parameters: op; message_bytes S [B], scalar or array; the rest as `line_rate_bytes_per_s`; link_fraction [1]; e.
    Returns: (time [s], limit as text), shapes of message_bytes. Raises: InputError.
    Validity: a bound with the all-reduce's efficiencies, none of it fitted to these operations. Error: two published rates that it did not see are
    4.6 % (64 nodes, the slowest of a hundred pairs) and 7 % (42,000 GPUs) below it. Source: data/collectives.csv; constants of the all-reduce.
    """
    full = line_rate_bytes_per_s(op, ranks, domain_ranks, nvlink_bytes_per_s, nic_bytes_per_s)
    inside = link_fraction if op == "p2p" else e.ring_fraction
    caps = {"in-rack cap": inside, "NIC": e.rail_fraction}
    caps = {name: rate * caps[name] for name, rate in full.items()}
    n, d = int(ranks), min(int(domain_ranks), int(ranks))
    size, domains = positive("message_bytes", message_bytes), -(-n // d)
    chained = op in ("all_gather", "reduce_scatter", "broadcast")
    steps = (n - domains, domains - 1) if chained else (int(domains == 1), int(domains > 1))
    start = e.ring_latency_seconds + steps[0] * e.link_hop_seconds + steps[1] * e.ring_hop_seconds
    limit = min(caps, key=caps.get)
    rank_rate = nvlink_bytes_per_s if "in-rack cap" in full else full["NIC"]  # between domains alone, no message waits for NVLink
    half = e.ramp_seconds * rank_rate * (d if chained or op == "all_to_all" else 1)
    moved = collective_seconds(op, size, n, caps[limit] / (1 + (half / size) ** e.ramp_power))
    most = np.maximum(moved, start)
    total = most * ((moved / most) ** e.blend + (start / most) ** e.blend) ** (1 / e.blend)
    return total[()], np.where(start > 0.5 * total, "latency", limit)[()]
