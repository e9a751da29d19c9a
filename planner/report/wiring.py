"""The wiring plan as a file: every cable with both ends, streamed batch by batch to Parquet or CSV."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from planner.errors import InputError
from planner.models.fabric.cables import Batch, batches
from planner.plan.cabling import floor_of, media, medium_of, nics_per_gpu
from planner.plan.fabric import Choice
from planner.report.whole import whole_file
from planner.specs import Rack


def _columns(batch: Batch, rack: Rack, choice: Choice) -> dict[str, np.ndarray | list[str]]:
    """Name both ends of a batch of cables: rack, tray, GPU, NIC and port, or switch and port."""
    number, place = len(batch), f"r{batch.rail}p{batch.plane}"
    low, high = {"host": ("", "leaf"), "leaf-spine": ("leaf", "spine"), "spine-core": ("spine", "core")}[batch.layer]
    found: dict[str, np.ndarray | list[str]] = {
        "layer": np.full(number, batch.layer),
        "rail": np.full(number, batch.rail, np.int32),
        "plane": np.full(number, batch.plane, np.int32),
    }
    if low:
        found |= {
            "a_rack": np.full(number, -1),
            "a_tray": np.full(number, -1),
            "a_device": np.char.add(f"{place}-{low}", batch.a["switch"].astype(str)),
            "a_nic": np.full(number, -1),
            "a_port": batch.a["port"],
        }
    else:
        gpu = batch.a["gpu"]
        found |= {
            "a_rack": gpu // rack.gpus,
            "a_tray": gpu % rack.gpus // rack.gpus_per_tray,
            "a_device": np.char.add("gpu", gpu.astype(str)),
            "a_nic": batch.a["nic"],
            "a_port": batch.a["port"],
        }
    kinds = np.array([m.name for m in media(choice.switch)])[medium_of(choice.switch, batch.length_m)]
    return {
        **found,
        "b_device": np.char.add(f"{place}-{high}", batch.b["switch"].astype(str)),
        "b_port": batch.b["port"],
        "length_m": np.round(batch.length_m, 1),
        "media": kinds,
    }


def tables(choice: Choice, rack: Rack) -> Iterator[dict]:
    """Yield the wiring plan as column tables, one a layer and network; lengths in metres are of an assumed hall."""
    for batch in batches(choice.made, floor_of(rack, nics_per_gpu(choice))):
        if len(batch):
            yield _columns(batch, rack, choice)


def check_place(path: str | Path) -> Path:
    """Return `path` as a place that a wiring plan can be written to, before hours of work go into it. Raises: InputError."""
    target = Path(path)
    if target.suffix not in (".parquet", ".csv"):
        raise InputError("--wiring", str(path), "must end in .parquet or .csv")
    with whole_file(target, "--wiring", keep=False):
        return target


def write_wiring(choice: Choice, rack: Rack, path: str | Path) -> int:
    """Write every cable to `path` (.parquet or .csv), whole or not at all. Returns the number of cables.

    Raises: InputError for another ending, or a place that cannot be written.
    """
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    target = check_place(path)
    written, writer = 0, None
    with whole_file(target, "--wiring") as stage:
        for columns in tables(choice, rack):
            table = pa.table({k: pa.array(v) for k, v in columns.items()})
            if writer is None:
                writer = pq.ParquetWriter(stage, table.schema) if target.suffix == ".parquet" else pa_csv.CSVWriter(stage, table.schema)
            writer.write_table(table)
            written += table.num_rows
        writer.close()
    return written
