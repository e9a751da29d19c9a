"""The fabric: the article's 131,072-GPU design without and with its cables, a failure, and one of each published count."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace

from planner.facts.catalog import system
from planner.models.fabric.design import design
from planner.models.fabric.failures import remaining
from planner.plan.cabling import cables
from planner.plan.fabric import choose
from planner.report.wiring import write_wiring
from planner.scenario import FabricIn

RACK = system("vr-nvl72", "upto")
GIVEN = FabricIn(lanes="4x200G", planes=8, rails=1, tiers=2)


def _wiring(gpus: int, ending: str) -> None:
    choice = choose(RACK, gpus, GIVEN)
    with tempfile.TemporaryDirectory() as folder:
        written = write_wiring(choice, RACK, os.path.join(folder, f"wiring.{ending}"))
    if written != choice.made.counts["links"]:
        raise RuntimeError(f"{written} cables written, {choice.made.counts['links']} designed")


def cases():
    """Return the benchmarks of this area: (name, callable, target text, target seconds)."""
    made = design(131072, 8, 512, planes=8)
    choice = replace(choose(RACK, 1152, GIVEN), made=made)
    linear = [(f"wiring of {n:,} GPUs x 8 planes", lambda n=n: _wiring(n, "parquet"), "linear in GPUs", 20 * n / 131072) for n in (8192, 32768)]
    return [
        ("design of 131,072 GPUs x 8 planes", lambda: design(131072, 8, 512, planes=8), "5 ms", 0.005),
        *linear,
        ("wiring of 131,072 GPUs x 8 planes, Parquet", lambda: _wiring(131072, "parquet"), "20 s and 2 GB", 20.0),
        ("wiring of 131,072 GPUs x 8 planes, CSV", lambda: _wiring(131072, "csv"), "20 s and 2 GB", 20.0),
        ("cables by layer and medium, 131,072 GPUs", lambda: cables(choice, RACK), "5 s", 5.0),
        ("one failed link in 131,072 GPUs", lambda: remaining(made, {"link": 1}, 72), "0.3 s", 0.3),
    ]
