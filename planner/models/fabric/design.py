"""Switch and link counts of a Clos fabric: rails x planes of equal networks, each of one, two or three tiers.

A network joins the ports that the GPUs of one rail have in one plane. Every leaf of a network gives `down` ports to GPUs and
`up` ports to spines, in the same bundles as every other leaf: that is what makes a network non-blocking for any traffic. A
non-blocking leaf whose uplinks split well has equal bundles, as printed tables do; elsewhere bundles of a leaf differ by one link.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from planner.errors import Infeasible, InputError
from planner.units import count, number, whole_down, whole_up

MOST_TIERS = 3
MOST_PORTS = 100_000


def max_endpoints(radix: int, tiers: int) -> int:
    """Return the most endpoints that a non-blocking folded Clos of `tiers` tiers joins: k floor(k/2)^(L-1).

    Parameters: radix k [ports] logical ports of one switch at the endpoints' speed; tiers L [1].
    Returns: endpoints [1], int; 2 (k/2)^L for an even radix.
    Raises: InputError for a radix below 2 or tiers outside 1 to 10.
    Validity: one switch type in all tiers, no oversubscription, no spare ports. Error: exact.
    Source: Al-Fares et al. 2008 (k^2/2 and k^3/4), by the same count for any depth.
    """
    k, tiers = int(count("radix", radix, 2, MOST_PORTS)), int(count("tiers", tiers, 1, 10))
    return k if tiers == 1 else k * (k // 2) ** (tiers - 1)


def oversubscription(down_ports: float, up_ports: float, down_speed: float = 1.0, up_speed: float = 1.0) -> float:
    """Return the bandwidth a leaf takes in over what it can send up: down d / (up u), 1 = non-blocking, 2 = "2:1".

    Parameters: down_ports and up_ports [1]; down_speed and up_speed in one unit [B/s].
    Returns: ratio [1]. Raises: InputError for a value that is not positive.
    Validity: all ports of one side at one speed. Error: exact. Source: definition.
    """
    values = [number(n, v, above=0.0) for n, v in (("down_ports", down_ports), ("up_ports", up_ports),
                                                   ("down_speed", down_speed), ("up_speed", up_speed))]
    return float(values[0] * values[2] / (values[1] * values[3]))


def bisection_bytes_per_s(endpoints: int, port_bytes_per_s: float, oversubscribed: float = 1.0) -> float:
    """Return the bandwidth of one direction from one half of the endpoints to the other: E/2 x port / oversubscription.

    Parameters: endpoints E [1]; port_bytes_per_s [B/s] one direction of one endpoint; oversubscribed [1] >= 1 at the leaf.
    Returns: bandwidth [B/s]. Raises: InputError out of range.
    Validity: equal halves, whole leaves on each side; counting cables instead of endpoints is what goes wrong.
    Error: exact; equal to max-flow between random halves of designs claimed non-blocking. Source: definition.
    """
    half = int(count("endpoints", endpoints)) // 2
    each = number("port_bytes_per_s", port_bytes_per_s, above=0.0)
    return float(half * each / number("oversubscription", oversubscribed, 1.0, MOST_PORTS))


def leaf_split(radix: int, oversubscribed: float, spare: int = 0) -> tuple[int, int]:
    """Return (down, up) ports of a leaf: the most ports to GPUs with down <= oversubscribed x up and `spare` ports left dark.

    Parameters: radix [ports]; oversubscribed [1] >= 1; spare [ports].
    Returns: (down, up) [ports]. Raises: InputError for a ratio below 1 or above the radix, Infeasible when spares leave no port.
    Validity: up ports at the speed of down ports. Error: exact, by search. Source: definition.
    """
    usable = radix - spare
    ratio = float(number("oversubscription", oversubscribed, 1.0, MOST_PORTS))
    if usable < 2:
        raise Infeasible("fabric", f"{spare} spare ports of a {radix}-port leaf leave {max(0, usable)} to wire",
                         f"spare at most {radix - 2}")
    down = max(1, int(whole_down(usable * ratio / (1 + ratio))))
    while down > 1 and down + whole_up(down / ratio) > usable:
        down -= 1
    return down, int(whole_up(down / ratio))


def _splits(endpoints: int, radix: int, oversubscribed: float, spare: int) -> Iterator[tuple[int, int]]:
    """Yield (down, up) of a leaf, one for each number of leaves from the fewest: as few uplinks as the ratio allows, then the most down."""
    usable, seen = radix - spare, 0
    for wanted in range(leaf_split(radix, oversubscribed, spare)[0], 0, -1):
        leaf = -(-endpoints // wanted)
        if leaf != seen:
            seen, least = leaf, -(-endpoints // leaf)
            up = int(whole_up(least / oversubscribed))
            yield max(least, min(int(whole_down(up * oversubscribed)), usable - up)), up


def _evenly(full: int, full_ups: int, tail_ups: int, radix: int) -> int:
    """Return the fewest cores that reach `full` pods of full_ups uplinks and one of tail_ups, all cores the same from each pod."""
    if not full:
        return -(-tail_ups // radix)
    most = (radix - bool(tail_ups)) // full  # links from one full pod to one core

    def need(each: int) -> tuple[int, int]:
        return -(-full_ups // each), -(-tail_ups // (radix - full * each)) if tail_ups else 0

    cross = bisect_left(range(1, most), True, key=lambda each: need(each)[1] >= need(each)[0]) + 1  # one falls with it, one rises
    return min(max(need(each)) for each in {cross, max(1, cross - 1)})


@dataclass(frozen=True)
class Network:
    """One rail in one plane. endpoints [1] GPU ports; down and up [ports] of a leaf; leaf, spine, core [switches].

    pod_leaves and pod_spines [1] of a full pod (three tiers; with two tiers the network is one pod); bundles [links] between
    one leaf and one spine, least and most. The last pod may hold fewer leaves: last_leaves and last_spines; last_planned, the leaves it will hold.
    sized_for [1] endpoints that spines and cores were laid out for.
    """

    endpoints: int
    radix: int
    tiers: int
    down: int
    up: int
    leaf: int
    spine: int = 0
    core: int = 0
    pods: int = 1
    pod_leaves: int = 0
    pod_spines: int = 0
    last_leaves: int = 0
    last_spines: int = 0
    last_planned: int = 0
    sized_for: int = 0

    @property
    def links_host(self) -> int:
        """Links from GPUs to leaves."""
        return self.endpoints

    @property
    def links_leaf_spine(self) -> int:
        """Links from leaves to spines."""
        return self.leaf * self.up if self.tiers > 1 else 0

    @property
    def links_spine_core(self) -> int:
        """Links from spines to cores: as many as come up from the leaves."""
        return self.leaf * self.up if self.tiers > 2 else 0

    @property
    def links(self) -> int:
        """All links."""
        return self.links_host + self.links_leaf_spine + self.links_spine_core

    @property
    def switches(self) -> int:
        """All switches."""
        return self.leaf + self.spine + self.core

    @property
    def ports_used(self) -> int:
        """Switch ports with a link."""
        return self.links_host + 2 * (self.links_leaf_spine + self.links_spine_core)

    @property
    def ports_dark(self) -> int:
        """Switch ports without a link."""
        return self.switches * self.radix - self.ports_used

    @property
    def bundles(self) -> tuple[int, int]:
        """Fewest and most links between one leaf and one spine of its (full) pod: equal, or one apart; 0 with one tier."""
        return (self.up // self.pod_spines, -(-self.up // self.pod_spines)) if self.pod_spines else (0, 0)

    @property
    def nonblocking(self) -> bool:
        """Whether every leaf can send up all it takes in, over the bundles that all leaves have."""
        return self.tiers == 1 or self.up >= min(self.down, self.endpoints)


def _splits_well(up: int) -> bool:
    """Return whether a leaf's uplinks have only the factors 2, 3 and 5, as those of every printed design."""
    for factor in (2, 3, 5):
        while up % factor == 0:
            up //= factor
    return up == 1


def _spines(leaf: int, up: int, ports: int, equal: bool) -> int:
    """Return the fewest spines with `ports` ports down that serve `leaf` leaves in bundles that are the same at every leaf.

    equal: the smallest divisor of `up` that does, so that all bundles of a leaf are equal; else they differ by one link at most.
    """
    fewest = -(-up // (ports // leaf))
    return next(s for s in range(fewest, up + 1) if up % s == 0) if equal else fewest


def network(endpoints: int, radix: int, tiers: int | None = None, *, oversubscribed: float = 1.0, spare: int = 0,
            sized_for: int | None = None, split: tuple[int, int] | None = None, pod: tuple[int, int] | None = None) -> Network:
    """Return one network: leaf = ceil(E/d), spines and cores the fewest with the same bundles at every leaf.

    Parameters: endpoints E [1] ports of GPUs in this network; radix k [ports]; tiers, 1 to 3, or None for the fewest;
    oversubscribed [1] at the leaf; spare [ports] left dark on every leaf; sized_for [1], endpoints that spines and cores are
    laid out for when the network must grow without moving a cable (default: endpoints); split (d, u) [ports] of a leaf where
    a published design fixes it; pod (leaves, spines) [1] of a full pod where a published design fixes it.
    Returns: Network. Without oversubscription d and u = k/2 and, where u has no factor but 2, 3 and 5, spine = the smallest divisor
    of u whose ports hold the leaves; with it, the split of a leaf that needs the fewest switches and then the fewest links, its
    ratio at most as asked. Three tiers: pods of k/2 leaves, spine = leaf and core = leaf u / k where pods are full and divide the
    core's ports; elsewhere a little more.
    Raises: InputError for numbers out of range; Infeasible when E is above the ceiling of the tiers, naming the nearest design.
    Validity: one switch type throughout. Error: exact against the published tables of data/superpod_tables.csv.
    Source: Al-Fares et al. 2008; rounding to equal bundles as DGX SuperPOD reference architectures print it.
    """
    size, k = int(count("endpoints", endpoints)), int(count("radix", radix, 2, MOST_PORTS))
    spare = int(count("spare_ports", spare, 0, MOST_PORTS))
    final = max(size, int(count("sized_for", sized_for))) if sized_for is not None else size
    down, up = split or leaf_split(k, oversubscribed, spare)
    pod_leaves = pod[0] if pod else k // 2
    limits = {1: k - spare, 2: k * down, 3: k * pod_leaves * down}
    if tiers is None:
        chosen = next((t for t, most in limits.items() if final <= most), MOST_TIERS)
    else:
        chosen = int(count("tiers", tiers, 1, MOST_TIERS))
    if final > limits[chosen]:
        deeper = next((f"{t} tiers, or " for t in limits if t > chosen and final <= limits[t]), "")
        raise Infeasible("fabric", f"{final:,} endpoints in one network, and {chosen} tier{'s' * (chosen > 1)} of {k}-port switches "
                         f"hold {limits[chosen]:,}", f"{deeper}at most {limits[chosen]:,} endpoints, or a larger radix, or more rails")
    if chosen == 1:
        return Network(size, k, 1, k - spare, 0, 1, last_leaves=1)
    if split or oversubscribed == 1:
        return _laid_out(size, final, k, chosen, (down, up), pod, sized_for is not None, _splits_well(up))
    best = None
    for tried in _splits(final, k, oversubscribed, spare):
        leaf = -(-final // tried[0])
        if leaf > k * (1 if chosen == 2 else pod_leaves) or (best and leaf > best[0]):
            break
        whole = _laid_out(final, final, k, chosen, tried, pod, sized_for is not None, False)
        best = min(filter(None, (best, (whole.switches, whole.links, -tried[0], tried))))
    return _laid_out(size, final, k, chosen, best[-1], pod, sized_for is not None, False)


def _laid_out(size: int, final: int, k: int, tiers: int, split: tuple[int, int], pod: tuple[int, int] | None, kept: bool, equal: bool) -> Network:
    """Return two or three tiers over leaves of one split; kept: spines and cores are laid out for `final` endpoints; equal as in `_spines`."""
    down, up = split
    leaf, planned = -(-size // down), -(-final // down)
    if tiers == 2:
        spine = _spines(planned, up, k, equal)
        return Network(size, k, 2, down, up, leaf, spine, 0, 1, leaf, spine, leaf, spine, planned, final)
    pod_leaves, pod_spines = pod or (k // 2, _spines(min(planned, k // 2), up, k // 2, equal))
    pods, planned_pods = -(-leaf // pod_leaves), -(-planned // pod_leaves)
    last, planned_last = leaf - (pods - 1) * pod_leaves, planned - (planned_pods - 1) * pod_leaves
    whole = pods == 1 or pod is not None or kept
    last_spines = pod_spines if whole else _spines(last, up, k // 2, equal)
    last_planned = last
    if kept:
        last_planned = pod_leaves if planned_pods > pods else planned_last
    core = _evenly(planned_pods - 1, pod_leaves * up, planned_last * up, k)
    return Network(size, k, 3, down, up, leaf, (pods - 1) * pod_spines + last_spines, core, pods, min(planned, pod_leaves), pod_spines,
                   last, last_spines, last_planned, final)


@dataclass(frozen=True)
class Design:
    """A fabric: `rails` x `planes` equal networks. gpus [1]; ports_per_gpu [1] NIC ports after the lane split.

    rails_per_gpu [1], how many rails one GPU has ports in; ports_per_plane [1] of one GPU in one network.
    """

    gpus: int
    ports_per_gpu: int
    rails: int
    rails_per_gpu: int
    planes: int
    net: Network = field(repr=False)
    port_bytes_per_s: float | None = None

    @property
    def networks(self) -> int:
        """Rails times planes."""
        return self.rails * self.planes

    @property
    def ports_per_plane(self) -> int:
        """Ports of one GPU in one plane of one of its rails."""
        return self.ports_per_gpu // (self.rails_per_gpu * self.planes)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Totals over all networks: gpus, leaf, spine, core, switches, links by layer, links, ports used and dark."""
        net, n = self.net, self.networks
        found = {"gpus": self.gpus, **{t: getattr(net, t) * n for t in ("leaf", "spine", "core", "switches")},
                 "links_host": self.gpus * self.ports_per_gpu, "links_leaf_spine": net.links_leaf_spine * n,
                 "links_spine_core": net.links_spine_core * n}
        between = found["links_leaf_spine"] + found["links_spine_core"]
        used = found["links_host"] + 2 * between
        return {**found, "links": found["links_host"] + between, "ports_used": used, "ports_dark": found["switches"] * net.radix - used}

    @property
    def gpus_per_rail(self) -> int:
        """GPUs that have ports in one rail."""
        return self.gpus * self.rails_per_gpu // self.rails

    @property
    def bisection_bytes_per_s(self) -> float | None:
        """One direction between two halves of the GPUs of a rail, all rails and planes together [B/s]; None without a port speed."""
        if self.port_bytes_per_s is None:
            return None
        thin = 1.0 if self.net.tiers == 1 else max(1.0, min(self.net.down, self.net.endpoints) / self.net.up)
        return bisection_bytes_per_s(self.gpus * self.ports_per_gpu, self.port_bytes_per_s, thin)

    @property
    def disjoint_paths(self) -> int:
        """Paths between two GPUs of one rail under different leaves that share no link: one per NIC port (shared leaves: the same)."""
        return self.ports_per_plane * self.planes * min(self.rails_per_gpu, self.rails)

    @property
    def shortest_paths(self) -> int:
        """Shortest paths between two such GPUs: links up a leaf, over its planes and rails (each way down is then fixed by the bundle)."""
        return self.planes * self.rails_per_gpu * max(1, self.net.up)


def design(gpus: int, ports_per_gpu: int, radix: int, *, rails: int = 1, rails_per_gpu: int = 1, planes: int = 1, tiers: int | None = None,
           oversubscribed: float = 1.0, spare: int = 0, sized_for: int | None = None, port_bytes_per_s: float | None = None) -> Design:
    """Return the fabric of a cluster: E = gpus ports_per_gpu / (rails planes) endpoints in each of rails x planes networks.

    Parameters: gpus [1]; ports_per_gpu [1] = NICs per GPU x lane split; radix [ports] at the port's speed; rails [1];
    rails_per_gpu [1], 1 when all NICs of a GPU lie in its one rail; planes [1]; tiers, oversubscribed, spare as in `network`;
    sized_for [GPUs] to grow to without moving a cable; port_bytes_per_s [B/s] one direction of one port.
    Returns: Design. Raises: InputError for ports that do not spread evenly over planes and rails, Infeasible past the ceiling.
    Validity: GPUs dealt to rails in turn, so that a last rail may hold one GPU less. Error: exact. Source: `network`.
    """
    values = {n: int(count(n, v)) for n, v in (("gpus", gpus), ("ports_per_gpu", ports_per_gpu), ("rails", rails),
                                              ("rails_per_gpu", rails_per_gpu), ("planes", planes))}
    gpus, ports, rails, mine, planes = values.values()
    if mine > rails:
        raise InputError("rails_per_gpu", mine, f"must be at most {rails} (rails)")
    if rails % mine or ports % mine:  # a GPU's rails are a group of their own: 2 of 3 cannot be dealt out
        fit = [m for m in range(1, min(rails, ports) + 1) if rails % m == 0 and ports % m == 0]
        raise InputError("rails_per_gpu", mine, f"must divide {rails} (rails) and the {ports} ports of a GPU: {', '.join(map(str, fit))}")
    if gpus * mine < rails:
        raise InputError("rails", rails, f"must be at most {gpus * mine}: every rail needs a GPU")
    if ports % (mine * planes):
        even = [p for p in range(1, ports + 1) if ports % (mine * p) == 0]
        raise InputError("planes", planes, f"must divide the {ports} ports of a GPU over its {mine} rail{'s' * (mine > 1)}: "
                         f"{', '.join(map(str, even))}")

    def endpoints(of: int) -> int:
        return -(-of * mine // rails) * (ports // (mine * planes))

    net = network(endpoints(gpus), radix, tiers, oversubscribed=oversubscribed, spare=spare,
                  sized_for=None if sized_for is None else endpoints(int(count("sized_for", sized_for))))
    return Design(gpus, ports, rails, mine, planes, net, port_bytes_per_s)
