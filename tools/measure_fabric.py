"""Measure what a wiring plan costs as GPUs grow: seconds and peak memory, a fresh process each, into data/fabric_scaling.csv."""

from __future__ import annotations

import csv
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = (1152, 2304, 4608, 9216, 18432, 36864, 73728, 131072)


def one(gpus: int) -> str:
    """Return gpus, cables, seconds to design and write all cables of 8 planes as Parquet, and the peak memory of this process [B], as CSV text."""
    from planner.facts.catalog import system
    from planner.plan.fabric import choose
    from planner.report.wiring import write_wiring
    from planner.scenario import FabricIn

    rack, given = system("vr-nvl72", "upto"), FabricIn(lanes="4x200G", planes=8, rails=1, tiers=2)
    with tempfile.TemporaryDirectory() as folder:
        write_wiring(choose(rack, 72, given), rack, os.path.join(folder, "first.parquet"))  # imports are not what is measured
        start = time.perf_counter()
        cables = write_wiring(choose(rack, gpus, given), rack, os.path.join(folder, "wiring.parquet"))
        seconds = time.perf_counter() - start
    return f"{gpus},{cables},{seconds:.4g},{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}"


def main(words: list[str]) -> int:
    """Measure every size, or the one named (to standard output)."""
    if words:
        sys.stdout.write(one(int(words[0])) + "\n")
        return 0
    rows = [subprocess.run([sys.executable, __file__, str(n)], check=True, capture_output=True, text=True).stdout.strip() for n in SIZES]
    with (ROOT / "data" / "fabric_scaling.csv").open("w", newline="") as handle:
        csv.writer(handle, lineterminator="\n").writerows([["gpus", "cables", "seconds", "peak_bytes"], *(r.split(",") for r in rows)])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
