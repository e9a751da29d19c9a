"""Racks added later: how far a fabric grows without moving a cable, and what ends the promise."""

from __future__ import annotations

from dataclasses import dataclass

from planner.models.fabric.design import Design, Network


@dataclass(frozen=True)
class Growth:
    """gpus [1] with every cable where it is; ceiling_gpus [1] with the same switches and tiers, cables moved; what ends either."""

    gpus: int
    ceiling_gpus: int
    fill: float
    ends: str
    then: str


def _without_moving(net: Network) -> tuple[int, str]:
    """Return the endpoints one network grows to with all cables kept, and what stops it."""
    if net.tiers == 1:
        return net.down, f"the {net.down} ports of the one switch are taken: leaves and spines are another fabric"
    bundle = -(-net.up // net.last_spines)
    if net.tiers == 2:
        leaves = net.radix // bundle
        return leaves * net.down, (f"leaf {leaves + 1} finds no free port on the {net.spine} spines: bundles of {bundle} must be split over more "
                                   "spines" if bundle > 1 else f"leaf {leaves + 1} finds no free port on the {net.spine} spines: a third tier")
    full = -(-net.pod_leaves * net.up // net.core)
    pods = max(net.pods, net.radix // full) if net.last_spines == net.pod_spines else net.pods
    last = min(net.pod_leaves, (net.radix // 2) // bundle)
    free = net.radix - (pods - 1) * full
    room = last if -(-last * net.up // net.core) <= free else net.last_leaves
    leaves = (pods - 1) * net.pod_leaves + room
    return leaves * net.down, f"pod {pods + 1} finds no free port on the {net.core} cores: links from spines must be moved to more cores"


def growth(made: Design) -> Growth:
    """Return how far a fabric grows by adding GPUs, leaves and pods to the spines and cores it has.

    Parameters: made. Returns: Growth, GPUs [1] and fill, the share [1] of `gpus` that is there today.
    Raises: nothing. Validity: equal networks grow together; new leaves bring their own cables. Error: exact; the cables of the
    smaller fabric are a subset of the larger one's in the tests. Source: free ports of the tier above.
    """
    net = made.net
    per_gpu = made.rails_per_gpu * made.ports_per_plane
    most, ends = _without_moving(net)
    if net.sized_for > most:  # a last, smaller pod was laid out with the rest
        most, ends = net.sized_for, f"spines and cores were laid out for {net.sized_for:,} endpoints: more need links moved"
    most = max(most, net.endpoints)
    ceiling = {1: net.down, 2: net.radix * net.down, 3: net.radix * (net.radix // 2) * net.down}[net.tiers]
    gpus = most * made.rails // per_gpu
    then = "lay out spines and cores for the final size (sized_for)" if most < ceiling else "another tier, more rails, or a larger radix"
    return Growth(gpus, max(ceiling, most) * made.rails // per_gpu, made.gpus / gpus, ends, then)
