"""What cables a fabric needs: by layer, length class and media, with the modules at their ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.facts.evidence import claim
from planner.facts.files import table
from planner.models.fabric.cables import LAYERS, Floor, batches
from planner.plan.fabric import MODULE_BYTES_PER_S, Choice
from planner.specs import Rack, Switch

HALL = {"racks_per_row": "P0085", "rack_pitch_m": "P0086", "row_pitch_m": "P0087", "drop_m": "P0088"}


@dataclass(frozen=True)
class Medium:
    """One kind of cable at a switch's lane rate: longest run [m], whether its ends are optical modules, and the claims it rests on."""

    name: str
    reach_m: float
    optical: bool
    claims: tuple[str, ...]
    note: str


def lane_gbps(switch: Switch) -> int:
    """Return the rate of one electrical lane [Gb/s]: the switch's capacity over its most ports."""
    return round(switch.total_bytes_per_s * 8 / 1e9 / max(switch.ports.values()))


def media(switch: Switch) -> tuple[Medium, ...]:
    """Return the media offered at a switch's lane rate, shortest reach first (data/fabric_media.csv)."""
    rate = lane_gbps(switch)
    return tuple(
        Medium(r["media"], float(r["reach_m"]), r["module"] == "1", tuple(filter(None, (r["reach_claim"], r["module_watts_claim"]))), r["note"])
        for r in table("fabric_media.csv")
        if int(r["lane_gbps"]) == rate
    )


def medium_of(switch: Switch, length_m) -> np.ndarray:
    """Return which of `media(switch)` each length takes: the shortest reach that suffices, the longest past all.

    Parameters: switch; length_m [m] array. Returns: int array of places in `media(switch)`.
    """
    reaches = [m.reach_m for m in media(switch)]
    return np.minimum(np.searchsorted(reaches, length_m), len(reaches) - 1)


def floor_of(rack: Rack, nics_per_gpu: int) -> Floor:
    """Return the hall that lengths are measured in: this project's assumed rows, the rack's GPUs and trays."""
    size = {name: claim(row).value for name, row in HALL.items()}
    return Floor(int(size["racks_per_row"]), size["rack_pitch_m"], size["row_pitch_m"], size["drop_m"], rack.gpus, rack.gpus_per_tray, nics_per_gpu)


def nics_per_gpu(choice: Choice) -> int:
    """Return the NICs of one GPU behind a choice: its ports over the lanes of one NIC."""
    return choice.made.ports_per_gpu // int(choice.lanes.split("x")[0])


def cables(choice: Choice, rack: Rack) -> list[dict]:
    """Return cables by layer and medium: layer, media, cables [1], shortest and longest [m], modules [1] of 800G at their ends, too_long [1].

    Lengths are walks in an assumed hall, so the split between media is an assumption; the counts by layer are exact. too_long are those past the
    longest reach offered. The planes of a rail are alike, so one is measured and counted as many times.
    """
    offered, found = media(choice.switch), {}
    share = choice.port_bytes_per_s / MODULE_BYTES_PER_S
    for batch in batches(choice.made, floor_of(rack, nics_per_gpu(choice)), planes=1):
        if not len(batch):
            continue
        kind = medium_of(choice.switch, batch.length_m)
        for place in np.unique(kind):
            lengths = batch.length_m[kind == place]
            row = found.setdefault((LAYERS.index(batch.layer), int(place)), {"layer": batch.layer, "media": offered[place].name, "cables": 0,
                                                                           "shortest_m": np.inf, "longest_m": 0.0, "modules": 0.0, "too_long": 0})
            many = len(lengths) * choice.made.planes
            row["cables"] += many
            row["shortest_m"] = min(row["shortest_m"], float(lengths.min()))
            row["longest_m"] = max(row["longest_m"], float(lengths.max()))
            row["modules"] += 2 * many * share if offered[place].optical else 0.0
            row["too_long"] += int((lengths > offered[place].reach_m).sum()) * choice.made.planes
    return [found[key] for key in sorted(found)]
