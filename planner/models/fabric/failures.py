"""What a failure leaves: bandwidth of one GPU, of an all-reduce and of an all-to-all, and how many GPUs are touched.

Parts are named as the wiring plan names them: `rail0`, `r0p3` (plane 3 of rail 0) or `plane3` (of every rail), `r0p3-leaf12`,
`r0p3-spine4`, `r0p3-core1`, `r0p3-leaf12:40` (the link at that port of a switch), `gpu17:3` (NIC port 3 of GPU 17).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from planner.errors import Infeasible, InputError
from planner.models.fabric.cables import leaf_spine_ends, spine_core_ends
from planner.models.fabric.design import Design, Network
from planner.units import count

MOST_FAILED, MOST_PARTS = 100_000, 10_000_000  # down at once; NIC ports, and leaves times spines of a network
KINDS = ("nic_port", "link", "leaf", "spine", "core", "plane", "rail")
_NAME = re.compile(r"rail(?P<rail>\d+)|plane(?P<plane>\d+)|r(?P<r>\d+)p(?P<p>\d+)(-(?P<tier>leaf|spine|core)(?P<switch>\d+)(:(?P<port>\d+))?)?"
                   r"|gpu(?P<gpu>\d+):(?P<nic>\d+)")


@dataclass(frozen=True)
class Remaining:
    """Shares 0..1 of what the healthy fabric gives, all GPUs sending at once to GPUs under other leaves (and in other pods).

    gpu_even [1] the worst GPU when its NICs spray evenly over the ports that are left, so that the slowest sets the pace;
    gpu_adaptive [1] when they weigh the planes by what is left, ports sharing each plane fairly: the max-flow.
    all_reduce_lower and _upper [1], the slowest pair of GPUs as ring neighbours and the slowest GPU; all_to_all [1], the slowest
    GPU; mean [1] over GPUs, adaptive; over_nvlink [1], the worst domain where the GPUs of one NVLink domain share their NICs;
    gpus_touched [1], those that lose anything.
    """

    gpu_even: float
    gpu_adaptive: float
    all_reduce_lower: float
    all_reduce_upper: float
    all_to_all: float
    mean: float
    over_nvlink: float
    gpus_touched: int


def _inside(field: str, value: int, most: int, what: str) -> int:
    if value >= most:
        raise InputError("failed", field, f"does not exist: {what} are numbered 0 to {most - 1}" if most else f"does not exist: there are no {what}")
    return value


def _few(many: int) -> None:
    if many > MOST_FAILED:
        raise Infeasible("fabric", f"{many:,} parts down at once", f"at most {MOST_FAILED:,}, or a plane or a rail as a whole")


def _small(what: str, many: int) -> None:
    if many > MOST_PARTS:
        raise Infeasible("fabric", f"{many:,} {what}, and failures are worked out for at most {MOST_PARTS:,}",
                         "ask about one rail, fewer planes or fewer endpoints: rails and planes are alike")


def worst_placed(made: Design, failed: Mapping[str, int]) -> list[str]:
    """Return names of parts for counts of failures, placed where they hurt GPU 0 most.

    Parameters: made; failed, kind -> how many [1], kinds of `KINDS` (link: between leaf and spine).
    Returns: list of names for `remaining`. Planes, leaves and NIC ports are taken from GPU 0's planes in turn, spines, cores and
    leaf-spine links from the next plane, all together.
    Raises: InputError for an unknown kind, or more parts than exist, naming how many there are; Infeasible past `MOST_FAILED`.
    Validity: worst for GPU 0 with even spraying. Error: exact against brute force at small sizes. Source: this module.
    """
    net, names = made.net, []
    for kind in failed:
        if kind not in KINDS:
            raise InputError("failed", kind, f"must be of {', '.join(KINDS)}")
    wanted = {k: int(count(f"failed.{k}", failed.get(k, 0), 0)) for k in KINDS}
    there = {"rail": made.rails, "plane": made.planes, "leaf": made.counts["leaf"], "spine": made.counts["spine"],
             "core": made.counts["core"], "nic_port": made.counts["links_host"], "link": made.counts["links_leaf_spine"]}
    for kind, many in wanted.items():
        if many > there[kind]:
            raise InputError(f"failed.{kind}", many, f"does not exist: this fabric has {there[kind]:,}")
    _few(sum(wanted.values()))
    names += [f"rail{r}" for r in range(wanted["rail"])]
    names += [f"plane{p}" for p in range(wanted["plane"])]
    slots = [(r, p) for p in range(made.planes) for r in range(made.rails_per_gpu)][wanted["plane"] * made.rails_per_gpu:]
    ports = [f"gpu0:{(r * made.planes + p) * made.ports_per_plane + i}" for r, p in slots[wanted["leaf"]:] for i in range(made.ports_per_plane)]
    others = (f"gpu{g}:{i}" for g in range(1, made.gpus) for i in range(made.ports_per_gpu))
    names += [f"r{r}p{p}-leaf0" for r, p in slots[:wanted["leaf"]]]
    spread = [f"r{r}p{p}-leaf{i}" for i in range(net.leaf) for r in range(made.rails) for p in range(made.planes)]
    taken = set(names)
    names += [n for n in spread if n not in taken][:max(0, wanted["leaf"] - len(slots))]
    names += ports[:wanted["nic_port"]]
    names += [next(others) for _ in range(wanted["nic_port"] - len(ports))]
    used = wanted["leaf"] + -(-wanted["nic_port"] // made.ports_per_plane)
    rest = slots[used:] or slots[-1:] or [(0, 0)]
    order = rest + [s for s in ((r, p) for r in range(made.rails) for p in range(made.planes)) if s not in rest]
    for kind, per in (("spine", net.spine), ("core", net.core)):
        names += [f"r{r}p{p}-{kind}{i}" for r, p in order for i in range(per)][:wanted[kind]]
    dead = {n for n in names if "-spine" in n}
    if wanted["link"]:
        ends = leaf_spine_ends(net)
        every = (f"r{r}p{p}-leaf{leaf}:{port}" for r, p in order for leaf, port, spine in zip(*(e.tolist() for e in ends[:3]), strict=True)
                 if f"r{r}p{p}-spine{spine}" not in dead)
        names += [name for name, _ in zip(every, range(wanted["link"]), strict=False)]
    return names


def _parsed(made: Design, names: Iterable[str]) -> tuple[dict, set]:
    """Return the failed parts by network, {(rail, plane): {"whole", "leaf", "spine", "core", "link"}}, and the NIC ports (gpu, port)."""
    net, nets, ports = made.net, {}, set()

    def of(rail: int, plane: int) -> dict:
        return nets.setdefault((rail, plane), {"whole": False, "leaf": set(), "spine": set(), "core": set(), "link": set()})

    for name in names:
        found = _NAME.fullmatch(str(name))
        if not found:
            raise InputError("failed", name, "must be a part such as rail0, plane3, r0p3-leaf12, r0p3-leaf12:40, r0p3-spine4 or gpu17:3")
        part = {k: int(v) if v is not None and v.isdigit() else v for k, v in found.groupdict().items()}
        if part["rail"] is not None:
            rail = _inside(name, part["rail"], made.rails, "rails")
            for plane in range(made.planes):
                of(rail, plane)["whole"] = True
        elif part["plane"] is not None:
            plane = _inside(name, part["plane"], made.planes, "planes")
            for rail in range(made.rails):
                of(rail, plane)["whole"] = True
        elif part["gpu"] is not None:
            ports.add((_inside(name, part["gpu"], made.gpus, "GPUs"), _inside(name, part["nic"], made.ports_per_gpu, "NIC ports")))
        else:
            here = of(_inside(name, part["r"], made.rails, "rails"), _inside(name, part["p"], made.planes, "planes"))
            if part["tier"] is None:
                here["whole"] = True
                continue
            switch = _inside(name, part["switch"], getattr(net, part["tier"]), f"{part['tier']} switches of a network")
            if part["port"] is None:
                here[part["tier"]].add(switch)
            else:
                here["link"].add((part["tier"], switch, _inside(name, part["port"], max(net.radix, net.down + net.up), "ports")))
    return nets, ports


def _live_links(net: Network, down: dict, name: str, faults: set) -> dict[str, np.ndarray]:
    """Return which leaf-spine (or spine-core) links live, as boolean arrays beside their ends."""
    lower, upper = ("leaf", "spine") if name == "up" else ("spine", "core")
    ends = leaf_spine_ends(net) if name == "up" else spine_core_ends(net)
    live = ~(np.isin(ends[0], list(down[lower])) | np.isin(ends[2], list(down[upper])))
    ports = net.radix + net.down + net.up  # more than any port's number
    for side, tier in ((0, lower), (2, upper)):
        named = [link for link in down["link"] if link[0] == tier]
        wanted, there = np.array([switch * ports + port for _, switch, port in named], np.int64), ends[side] * ports + ends[side + 1]
        live &= ~np.isin(there, wanted)
        faults.difference_update(link for link, known in zip(named, np.isin(wanted, there).tolist(), strict=True) if known)
    return {"low": ends[0], "high": ends[2], "live": live}


def _filled(caps: np.ndarray, hosts: np.ndarray, total: float) -> np.ndarray:
    """Return max-min fair shares below `caps` whose sum over hosts is `total`: the leaves with the least keep what they have."""
    order = np.argsort(caps)
    kept = np.cumsum(np.concatenate([[0.0], (caps * hosts)[order][:-1]]))
    rest = np.cumsum(hosts[order][::-1])[::-1]
    level = (total - kept) / np.maximum(rest, 1)
    first = np.argmax(caps[order] >= level)
    return np.minimum(caps, level[first])


def leaf_shares(net: Network, hosts: np.ndarray, down: dict) -> np.ndarray:
    """Return what each leaf of one network can still send up, as a share of what its live hosts could send when all was well.

    Parameters: net; hosts (leaf,) [1] live endpoints per leaf; down, failed parts: sets `leaf`, `spine`, `core` of switch numbers
    and `link` of (tier, switch, port).
    Returns: (leaf,) [1] 0..1; 0 for a leaf that is down. A leaf's max-flow to the others over live links; with three tiers also its
    pod's share of the live uplinks.
    Raises: InputError for a port that carries no link between switches; Infeasible past `MOST_PARTS` pairs of switches.
    Validity: every host sends to hosts under other leaves (three tiers: of other pods). Error: equal to max-flow in the tests for
    failures in one tier; an upper bound where tiers fail together. Source: max-flow of a bipartite graph.
    """
    faults = set(down["link"])
    gone = np.isin(np.arange(net.leaf), list(down["leaf"]))
    if net.tiers == 1:
        if faults:
            raise InputError("failed", sorted(faults)[0], "does not exist: one switch has no links to others")
        return np.where(gone, 0.0, 1.0)
    _small("leaf-spine pairs of one network", net.leaf * net.spine)
    _small("pod-core pairs of one network", net.pods * net.core)
    hosts = np.where(gone, 0, hosts)
    full = np.maximum(hosts, 1)
    healthy = np.maximum(np.minimum(net.down, net.endpoints - np.arange(net.leaf) * net.down), 1)
    up = _live_links(net, down, "up", faults)
    grid = np.bincount(up["low"] * net.spine + up["high"], up["live"], net.leaf * net.spine).reshape(net.leaf, net.spine)
    if net.tiers == 3 and net.pods > 1:
        top = _live_links(net, down, "top", faults)
        pod_of = top["low"] // net.pod_spines
        per_core = np.bincount(pod_of * net.core + top["high"], top["live"], net.pods * net.core).reshape(net.pods, net.core)
        wired = np.bincount(pod_of * net.core + top["high"], minlength=net.pods * net.core).reshape(net.pods, net.core)
        most = np.minimum(per_core, wired.sum(0) - wired)  # of its links, those the other pods could fill when all was well
        others = per_core.sum(0) - per_core
        reach = np.divide(np.minimum(others, most), most, out=np.zeros(most.shape), where=most > 0)
        out = np.bincount(top["low"], top["live"] * reach[pod_of, top["high"]], net.spine)
        pod = np.arange(net.leaf) // net.pod_leaves
        pod_out = np.bincount(np.arange(net.spine) // net.pod_spines, np.minimum(grid.sum(0), out), net.pods)
        share = np.minimum(np.minimum(grid, out).sum(1) / full, 1.0)
        for short in np.flatnonzero(np.bincount(pod, share * hosts, net.pods) > pod_out * (1 + 1e-12)):
            share[pod == short] = _filled(share[pod == short], hosts[pod == short], pod_out[short])
    else:
        share = np.minimum(grid, grid.sum(0) - grid).sum(1) / full
    if faults:
        tier, switch, port = sorted(faults)[0]
        raise InputError("failed", f"{tier}{switch}:{port}", "does not exist: that port has no link to another switch")
    return np.where(gone, 0.0, np.minimum(share / np.minimum(1.0, net.up / healthy), 1.0))


def _kinds(shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of `shares` and how many GPUs have each."""
    code = np.zeros(len(shares), np.int64)
    for column in shares.T:
        values, place = np.unique(column, return_inverse=True)
        if len(values) > 1:
            code = code * len(values) + place
            code = np.unique(code, return_inverse=True)[1]
    first, many = np.unique(code, return_index=True, return_counts=True)[1:]
    return shares[first], many


def remaining(made: Design, failed: Iterable[str] | Mapping[str, int], domain_gpus: int = 1) -> Remaining:
    """Return what is left with parts down.

    Parameters: made; failed, names of parts (see the head of this module), or counts by kind, placed where they hurt most;
    domain_gpus [1], GPUs in one NVLink domain for `over_nvlink` (1: none).
    Returns: Remaining, shares [1] of the healthy fabric and GPUs touched [1].
    Raises: InputError for a part that does not exist, naming how many there are; Infeasible for a fabric or failures past `MOST_PARTS`
    and `MOST_FAILED`, naming them.
    Validity: routing knows of the failure; a port that is dead, or whose leaf is, is left out; all GPUs send at once.
    Error: gpu_adaptive and all_to_all equal max-flow on the built graph at small sizes (tests). gpu_even follows the published
    0.4 % of a NIC for one leaf-spine link of 256 with 8 planes; adaptive weighing would lose 1/2048.
    Source: max-flow; MRC + SRv6 paper 2026 (secondary) for even spraying.
    """
    _small("NIC ports", made.counts["links_host"])
    names = worst_placed(made, failed) if isinstance(failed, Mapping) else list(failed)
    _few(len(names))
    nets, dead = _parsed(made, names)
    groups = max(1, made.rails // made.rails_per_gpu)
    adaptive, even, pair, per = np.ones(made.gpus), 1.0, 1.0, made.ports_per_plane
    for group in range(groups):
        own = [(r, p) for r in range(group * made.rails_per_gpu, (group + 1) * made.rails_per_gpu) for p in range(made.planes)]
        broken = [(g // groups, i) for g, i in dead if g % groups == group]
        here = len(range(group, made.gpus, groups))
        if not broken and not any(n in nets for n in own):
            continue
        shares = np.ones((here, len(own), per))  # of every NIC port
        for g, i in broken:
            shares[g, i // per, i % per] = 0.0
        for column, key in enumerate(own):
            if key in nets:
                ports = shares[:, column].ravel()
                leaf = np.arange(len(ports)) // made.net.down
                left = np.zeros(1) if nets[key]["whole"] else leaf_shares(made.net, np.bincount(leaf, ports, made.net.leaf), nets[key])
                shares[:, column] = (ports * left[leaf if len(left) > 1 else 0]).reshape(here, per)
        rows, times = _kinds(shares.reshape(here, -1))
        adaptive[group::groups] = shares.mean((1, 2))
        live = (rows > 0).mean(1)
        even = min(even, float((live * np.where(rows > 0, rows, 1.0).min(1)).min()))
        by_plane = rows.reshape(len(rows), len(own), per).mean(2)
        for i, one in enumerate(by_plane):
            others = by_plane[i + (times[i] == 1):]
            pair = min([pair, *np.minimum(one, others).mean(1).tolist()])
    worst = float(adaptive.min())
    domain = min(made.gpus, int(count("domain_gpus", domain_gpus)))
    whole = adaptive[: made.gpus // domain * domain].reshape(-1, domain).mean(1)
    return Remaining(even, worst, min(pair, worst), worst, worst, float(adaptive.mean()),
                     float(whole.min()), int((adaptive < 1 - 1e-12).sum()))
