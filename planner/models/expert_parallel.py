"""Dispatch and combine of expert parallelism: which copies a token makes, where they cross, and how long that takes.

Two kinds of kernels: `normal` ones send a token once to each node that holds one of its experts and forward it over NVLink (large
batches); `low_latency` ones send every copy straight to its rank (decode batches). Times count bytes that really move; published
"logical" bandwidths also count the copies that stay on the sender's own node or rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.errors import InputError
from planner.units import count, nonnegative, positive

KERNELS = ("normal", "low_latency")
LIMITS = ("in-rack cap", "NIC", "software", "latency")


def distinct_places(places, picks):
    """Return how many of `places` equal places `picks` experts fall in on average: N (1 - (1 - 1/N)^k).

    Parameters: places N [1]; picks k [1], numbers or arrays (picks may be a mean, not whole).
    Returns: places [1]. Raises: InputError below 1 place or for negative picks.
    Validity: experts chosen evenly and independently. Error: exact for that; real routers pick distinct experts, 2 % more at most.
    Source: occupancy of urns.
    """
    n, k = positive("places", places), nonnegative("picks", picks)
    return (n * (1 - (1 - 1 / np.maximum(n, 1)) ** k))[()]


def payload_bytes(tokens, topk, hidden, bytes_per_value):
    """Return the bytes of all copies of a rank's tokens: tokens x topk x hidden x bytes.

    Parameters: tokens [1] per rank; topk [1] experts a token; hidden [1]; bytes_per_value [B], scales included.
    Returns: [B]. Raises: InputError out of range.
    Validity: one copy an expert, before copies to one rank are merged. Error: exact. Source: case CO06.
    """
    return (positive("tokens", tokens) * count("topk", topk) * count("hidden", hidden) * positive("bytes_per_value", bytes_per_value))[()]


def moved_bytes_per_s(reported_bytes_per_s, places):
    """Return the rate that really crosses from a reported one that counts copies kept local: reported (N-1)/N.

    Parameters: reported_bytes_per_s [B/s]; places N [1], nodes (or ranks) that hold experts.
    Returns: [B/s]. Raises: InputError out of range.
    Validity: copies spread evenly over places. Error: exact. Source: DeepEP issues; case CO04.
    """
    n = count("places", places)
    return (positive("reported_bytes_per_s", reported_bytes_per_s) * (n - 1) / n)[()]


@dataclass(frozen=True)
class Exchange:
    """One dispatch or combine. ranks [1]; ranks_per_domain [1]; topk [1] experts a token; token_bytes [B] of one copy;
    groups [1], most nodes a token may visit (0: no limit); kernel, one of `KERNELS`; sms [1] streaming multiprocessors given to it (0: enough).
    """

    ranks: int
    ranks_per_domain: int
    topk: int
    token_bytes: float
    groups: int = 0
    kernel: str = "normal"
    sms: int = 0

    def __post_init__(self):
        for name in ("ranks", "ranks_per_domain", "topk"):
            count(name, getattr(self, name))
        count("groups", self.groups, 0)
        count("sms", self.sms, 0)
        positive("token_bytes", self.token_bytes)
        if self.kernel not in KERNELS:
            raise InputError("kernel", self.kernel, f"must be one of {', '.join(KERNELS)}")
        if self.ranks < 2:
            raise InputError("ranks", self.ranks, "must be at least 2: one rank exchanges nothing")

    @property
    def domains(self) -> int:
        """NVLink domains that take part, ranks spread evenly over the fewest."""
        return -(-self.ranks // self.ranks_per_domain)

    @cached_property
    def copies(self) -> dict[str, float]:
        """Copies of one token: `logical` as published bandwidths count them, `nic` leaving the node, `link` crossing NVLink."""
        nodes = self.domains
        inside = self.ranks / nodes
        if self.kernel == "low_latency":
            if nodes == 1:
                return {"logical": float(self.topk), "nic": 0.0, "link": self.topk * (inside - 1) / inside}
            return {"logical": float(self.topk), "nic": self.topk * (nodes - 1) / nodes, "link": self.topk * (inside - 1) / self.ranks}
        if nodes == 1:
            ranks = float(distinct_places(inside, self.topk))
            return {"logical": ranks, "nic": 0.0, "link": ranks * (inside - 1) / inside}
        visited = float(distinct_places(nodes, self.topk))
        visited = float(min(nodes, self.groups)) if self.groups else visited
        forwarded = float(distinct_places(inside, self.topk / visited)) * (inside - 1) / inside
        return {"logical": visited, "nic": visited * (nodes - 1) / nodes, "link": visited * forwarded}


@dataclass(frozen=True)
class ExchangeEfficiency:
    """Calibrated constants of one direction and number format. link and nic [1] of the line rates; sm_bytes_per_s [B/s] copied by
    one SM; caller_fraction [1] kept when the framework's call is timed, not the kernel; latency_seconds [s] of an empty exchange;
    blend [1], how sharply the slower bound wins.
    """

    link: float
    nic: float
    sm_bytes_per_s: float
    caller_fraction: float
    latency_seconds: float
    blend: float = 4.0


def exchange_seconds(tokens, what: Exchange, link_bytes_per_s: float, nic_bytes_per_s: float | None, eff: ExchangeEfficiency,
                     whole_call: bool = False):
    """Return the time of one dispatch or combine and what sets it.

    t = copies x token bytes / (rate x efficiency) over NICs, NVLink and SMs, the slowest of them winning softly; low-latency kernels add
    the latency of an empty exchange, normal ones hide it.
    Parameters: tokens [1] per rank, number or array; what; link_bytes_per_s and nic_bytes_per_s [B/s] one direction of one GPU (nic
    may be None inside one domain); eff; whole_call, the framework's call instead of the kernel.
    Returns: (seconds [s], limit), shapes of tokens; limit indexes `LIMITS`.
    Raises: InputError out of range, or without a NIC rate where ranks span domains.
    Validity: 4 to 64 ranks, Hopper and Blackwell, 128 to 8,192 tokens were measured; past that, not validated. Error: leaving out one of
    10 systems in turn, each weighing the same: median 3.6 %, 96 % within 20 %; kernels given few processors over RDMA are missed by
    up to 40 %.
    Source: DeepEP and Hybrid-EP measurements in data/collectives.csv; equations of this module.
    """
    n = positive("tokens", tokens)
    copies = what.copies
    parts = [copies["link"] / (positive("link_bytes_per_s", link_bytes_per_s) * eff.link)]
    if what.domains > 1:
        if nic_bytes_per_s is None:
            raise InputError("nic_bytes_per_s", None, "is required where ranks span domains")
        parts.append(copies["nic"] / (positive("nic_bytes_per_s", nic_bytes_per_s) * eff.nic))
    else:
        parts.append(0.0)
    normal = what.kernel == "normal"
    parts.append(copies["link"] / (what.sms * eff.sm_bytes_per_s) if what.sms and normal else 0.0)
    parts = [float(p) * what.token_bytes for p in parts]
    most = max(parts)
    per_token = most * sum((p / most) ** eff.blend for p in parts) ** (1 / eff.blend) if normal else most
    transfer = n * per_token / (eff.caller_fraction if whole_call else 1.0)
    if normal:
        seconds = (transfer ** eff.blend + eff.latency_seconds ** eff.blend) ** (1 / eff.blend)
    else:
        seconds = transfer + eff.latency_seconds
    return seconds[()], np.where(transfer < eff.latency_seconds, 3, parts.index(most))[()]


def logical_bytes_per_s(tokens, what: Exchange, seconds):
    """Return the bandwidth that published tables print: logical copies x bytes over time.

    Parameters: tokens [1]; what; seconds [s]. Returns: [B/s]. Raises: InputError out of range.
    Validity: counts copies kept on the own node (or rank, inside one domain) as the tables do. Error: exact. Source: DeepEP README.
    """
    return (positive("tokens", tokens) * what.copies["logical"] * what.token_bytes / positive("seconds", seconds))[()]
