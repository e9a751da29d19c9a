"""The wheel, in an empty environment and an empty folder, writes a report."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.wheel
def test_wheel_reports_from_an_empty_folder(tmp_path):
    built = tmp_path / "dist"
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = built.glob("*.whl")
    empty = tmp_path / "env"
    venv.create(empty, with_pip=False)
    python = empty / "bin" / "python"
    uv = Path(sys.executable).parent / "uv"
    # the locked packages are linked from uv's cache where it is warm, and fetched where it is not
    for words in (["--require-hashes", "-r", str(ROOT / "requirements.lock")], ["--no-deps", str(wheel)]):
        subprocess.run([str(uv), "pip", "install", "-q", "--python", str(python), *words], check=True, capture_output=True)
    work = tmp_path / "work"
    work.mkdir()
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    where = subprocess.run(
        [str(python), "-c", "import planner; print(planner.__file__)"], cwd=work, env=env, check=True, capture_output=True, text=True
    )
    assert str(empty) in where.stdout
    scenario = subprocess.run(
        [str(python), "-c", "from planner.facts.files import folder; print(folder('scenarios') / 'rubin-vs-gb300.toml')"],
        cwd=work,
        env=env,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    done = subprocess.run([str(empty / "bin" / "planner"), "report", scenario, "-o", "out"], cwd=work, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [p.name for p in work.iterdir()] == ["out"]
    (report,) = (work / "out").iterdir()
    assert (report / "report.html").stat().st_size > 1e6
