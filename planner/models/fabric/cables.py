"""Every cable of a fabric with both ends, as arrays: one batch a layer and network, so that any size streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.errors import InputError
from planner.models.fabric.design import Design, Network
from planner.units import count, nonnegative, positive

LAYERS = ("host", "leaf-spine", "spine-core")


@dataclass(frozen=True)
class Floor:
    """Where things stand, for lengths. racks_per_row [1]; rack_pitch_m and row_pitch_m [m] between centres; drop_m [m] up and down at one end.

    gpus_per_rack and gpus_per_tray [1]; nics_per_gpu [1]. GPU racks fill rows in order; a leaf stands in the middle of the racks it
    serves, spines and cores in the middle of the hall.
    """

    racks_per_row: int
    rack_pitch_m: float
    row_pitch_m: float
    drop_m: float
    gpus_per_rack: int
    gpus_per_tray: int
    nics_per_gpu: int

    def __post_init__(self):
        for name in ("racks_per_row", "gpus_per_rack", "gpus_per_tray", "nics_per_gpu"):
            count(f"floor.{name}", getattr(self, name))
        positive("floor.rack_pitch_m", self.rack_pitch_m)
        positive("floor.row_pitch_m", self.row_pitch_m)
        nonnegative("floor.drop_m", self.drop_m)
        if self.gpus_per_rack % self.gpus_per_tray:
            raise InputError("floor.gpus_per_tray", self.gpus_per_tray, f"must divide {self.gpus_per_rack} (gpus_per_rack)")


@dataclass(frozen=True)
class Batch:
    """The cables of one layer of one network. a and b, columns of whole numbers by name; length_m [m].

    host: a holds gpu, nic, port (of the NIC), b holds switch and port; other layers: switch and port at both ends, the lower tier at a.
    """

    layer: str
    rail: int
    plane: int
    a: dict[str, np.ndarray]
    b: dict[str, np.ndarray]
    length_m: np.ndarray

    def __len__(self):
        return len(self.length_m)


def host_ends(made: Design, rail: int, plane: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the GPU and the GPU's port behind every endpoint of one network, endpoint by endpoint.

    Parameters: made; rail and plane, from 0. Returns: (gpu, port) int64 arrays [1], port 0..ports_per_gpu-1 of that GPU.
    Raises: InputError for a rail or plane that does not exist.
    Validity: GPUs are dealt to rails in turn (the tray position), so the last endpoints of a short rail are absent.
    Error: exact. Source: definition.
    """
    rail, plane = int(count("rail", rail, 0, made.rails - 1)), int(count("plane", plane, 0, made.planes - 1))
    groups = made.rails // made.rails_per_gpu
    gpus = np.arange(rail // made.rails_per_gpu, made.gpus, groups, dtype=np.int64)
    own = rail % made.rails_per_gpu  # which of the GPU's own rails this is
    per = made.ports_per_plane
    ports = (own * made.planes + plane) * per + np.arange(per, dtype=np.int64)
    return np.repeat(gpus, per), np.tile(ports, len(gpus))


def leaf_spine_ends(net: Network) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the leaf-spine links of one network: (leaf, leaf port, spine, spine port), the first spines of a pod with the larger bundles.

    Parameters: net. Returns: four int64 arrays [1] of links_leaf_spine entries; leaf ports start after the `down` ports.
    Raises: nothing. Validity: two or three tiers; empty with one. Error: exact. Source: definition of a folded Clos.
    """
    if net.tiers == 1:
        return (np.zeros(0, np.int64),) * 4
    leaf = np.repeat(np.arange(net.leaf, dtype=np.int64), net.up)
    uplink = np.tile(np.arange(net.up, dtype=np.int64), net.leaf)
    pod, inside = leaf // net.pod_leaves, leaf % net.pod_leaves
    least, more = np.divmod(net.up, np.where(pod == net.pods - 1, net.last_spines, net.pod_spines))
    larger = uplink < more * (least + 1)
    bundle, place = least + larger, uplink - np.where(larger, 0, more * (least + 1))
    spine = np.where(larger, 0, more) + place // bundle
    return leaf, net.down + uplink, pod * net.pod_spines + spine, inside * bundle + place % bundle


def spine_core_ends(net: Network) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the spine-core links of one network: (spine, spine port, core, core port), each core alike from every full pod.

    Parameters: net. Returns: four int64 arrays [1] of links_spine_core entries; the uplinks of a pod are dealt to the cores in turn,
    those of a smaller last pod evenly over all cores.
    Raises: nothing. Validity: three tiers; empty otherwise. Error: exact. Source: definition of a folded Clos.
    """
    if net.tiers < 3:
        return (np.zeros(0, np.int64),) * 4
    full, parts = -(-net.pod_leaves * net.up // net.core), []
    for pod in range(net.pods):
        leaves, planned, spines = (net.pod_leaves, net.pod_leaves, net.pod_spines)
        if pod == net.pods - 1:
            leaves, planned, spines = net.last_leaves, net.last_planned, net.last_spines
        bundle = net.up // spines + (np.arange(spines, dtype=np.int64) < net.up % spines)
        used, room = leaves * bundle, planned * bundle  # as many ports up as down
        spine = np.repeat(np.arange(spines, dtype=np.int64), used)
        port = np.arange(len(spine), dtype=np.int64) - (np.cumsum(used) - used)[spine]
        place = (np.cumsum(room) - room)[spine] + port  # numbered for the full pod, so that growth moves no cable
        core, again = place % net.core, place // net.core
        if planned < net.pod_leaves:  # a smaller last pod meets cores under every spine of the full pods, not those of the first alone
            ups = planned * net.up
            core = place * net.core // ups
            again = place - -(-core * ups // net.core)
        parts.append((pod * net.pod_spines + spine, net.radix // 2 + port, core, pod * full + again))
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _metres(floor: Floor, rack_a, rack_b) -> np.ndarray:
    along = np.abs(rack_a % floor.racks_per_row - rack_b % floor.racks_per_row) * floor.rack_pitch_m
    across = np.abs(rack_a // floor.racks_per_row - rack_b // floor.racks_per_row) * floor.row_pitch_m
    return along + across + 2 * floor.drop_m


def batches(made: Design, floor: Floor, planes: int | None = None) -> Iterator[Batch]:
    """Yield every cable of the fabric, network by network, layer by layer.

    Parameters: made; floor; planes [1], only the first so many planes of each rail (planes are alike).
    Yields: Batch, at most max(endpoints, leaf x up) cables each; counts over all batches equal made.counts.
    Returns: an iterator. Raises: InputError for a tray that the lanes do not divide (ports per GPU over NICs).
    Validity: lengths [m] are walks along and across the rows of an assumed hall, for classes of media, not for ordering.
    Error: counts exact; lengths not validated. Source: this module.
    """
    if made.ports_per_gpu % floor.nics_per_gpu:
        raise InputError("nics_per_gpu", floor.nics_per_gpu, f"must divide the {made.ports_per_gpu} ports of a GPU")
    lanes = made.ports_per_gpu // floor.nics_per_gpu
    racks = -(-made.gpus // floor.gpus_per_rack)
    net = made.net
    centre = (racks // 2 // floor.racks_per_row) * floor.racks_per_row + min(floor.racks_per_row, racks) // 2
    up, top = leaf_spine_ends(net), spine_core_ends(net)
    for rail in range(made.rails):
        for plane in range(made.planes if planes is None else min(planes, made.planes)):
            gpu, port = host_ends(made, rail, plane)
            place = np.arange(len(gpu), dtype=np.int64)
            leaf = place // net.down
            rack = gpu // floor.gpus_per_rack
            middle = np.minimum(leaf * net.down + net.down // 2, len(gpu) - 1)
            leaf_rack = rack[middle]
            yield Batch(LAYERS[0], rail, plane, {"gpu": gpu, "nic": port // lanes, "port": port % lanes},
                        {"switch": leaf, "port": place % net.down}, _metres(floor, rack, leaf_rack))
            if net.tiers > 1:
                first = np.minimum(np.arange(net.leaf) * net.down + net.down // 2, len(gpu) - 1)
                lengths = _metres(floor, rack[first][up[0]], centre)
                yield Batch(LAYERS[1], rail, plane, {"switch": up[0], "port": up[1]}, {"switch": up[2], "port": up[3]}, lengths)
            if net.tiers > 2:
                yield Batch(LAYERS[2], rail, plane, {"switch": top[0], "port": top[1]}, {"switch": top[2], "port": top[3]},
                            np.full(len(top[0]), 2 * floor.drop_m + floor.rack_pitch_m * floor.racks_per_row / 4))
