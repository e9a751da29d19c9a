"""How long a user waits for the commands: help, import, plan, a second report and its papermill part."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAIN = str(ROOT / "scenarios" / "rubin-vs-gb300.toml")


def _run(*words: str) -> None:
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)


def _report() -> None:
    folder = tempfile.mkdtemp()
    try:
        _run("-m", "planner.cli", "report", MAIN, "-o", folder)
    finally:
        shutil.rmtree(folder)


def _papermill() -> None:
    import json

    from planner import scenario
    from planner.plan import plan
    from planner.report.notebook import execute

    answer = plan(scenario.load(MAIN))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plan.json").write_text(json.dumps(answer.as_dict()))
        execute(Path(folder), answer)


def cases():
    """Return the benchmarks of this area: (name, callable, target text, target seconds)."""
    return [
        ("planner --help", lambda: _run("-m", "planner.cli", "--help"), "0.4 s", 0.4),
        ("import planner", lambda: _run("-c", "import planner"), "0.3 s", 0.3),
        ("planner plan, main scenario", lambda: _run("-m", "planner.cli", "plan", MAIN), "1.5 s", 1.5),
        ("planner report, environment ready", _report, "8 s", 8.0),
        ("the report's papermill part", _papermill, "4 s", 4.0),
    ]
