"""Predict every measured serving row by a fit that has not seen its like, and write the error tables. Some minutes on two cores.

Writes outputs/serving_left_out.csv (row by row), outputs/serving_errors.csv (the summary) and data/calibration/serving_errors.csv (the spreads that
intervals are made of).
"""

from __future__ import annotations

import csv
import io
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from planner.calibration import table  # noqa: E402
from planner.calibration.serving import errors, latency  # noqa: E402

HEADER = ("what", "group", "rows", "mean", "median", "p90", "bias", "target")


def main() -> None:
    """Write the three tables."""
    rows = errors.missed()
    (ROOT / "outputs" / "serving_left_out.csv").write_text(errors.left_out_text(rows), encoding="utf-8")
    seen = latency.seen()
    table.write(errors.ERRORS, [*errors.spreads(rows), *latency.constants(seen)])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([HEADER, *errors.summary(rows), *latency.summary(seen)])
    (ROOT / "outputs" / "serving_errors.csv").write_text(out.getvalue(), encoding="utf-8")
    sys.stdout.write(out.getvalue())


if __name__ == "__main__":
    main()
