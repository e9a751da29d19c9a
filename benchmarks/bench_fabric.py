"""The 131,072-GPU, eight-plane fabric: the design, and its whole cable list; how the time grows with GPUs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from planner.facts.catalog import system
from planner.models.fabric.design import design
from planner.plan.fabric import choose
from planner.report.wiring import write_wiring
from planner.scenario import FabricIn

RACK = system("vr-nvl72", "upto")


def _wire(gpus: int) -> None:
    choice = choose(RACK, gpus, FabricIn(lanes="4x200G", planes=8))
    with tempfile.TemporaryDirectory() as folder:
        assert write_wiring(choice, RACK, Path(folder) / "w.parquet") == choice.made.counts["links"]


def cases():
    """Return the benchmarks of this area: (name, callable, target text, target seconds)."""
    return [
        ("design of 131,072 GPUs, 8 planes, no cables", lambda: design(131072, 8, 512, rails=4, planes=8), "5 ms", 0.005),
        ("the same with its 2,097,152 cables written", lambda: _wire(131072), "20 s", 20.0),
        ("half of it: 65,536 GPUs", lambda: _wire(65536), "10 s", 10.0),
        ("a quarter: 32,768 GPUs", lambda: _wire(32768), "5 s", 5.0),
    ]
