"""`make pythons`: the tests without browser and wheel on Python 3.12 and 3.13, each where it is found, in an environment from the lock."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def find(version: str) -> str | None:
    """Return a Python of this version: on PATH, or among pyenv's; None when there is none."""
    candidates = [shutil.which(f"python{version}"), *sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))]
    for path in candidates:
        if path and subprocess.run([str(path), "-c", "pass"], capture_output=True).returncode == 0:
            return str(path)
    return None


def main() -> int:
    """Run the tests on each version found; say which were not. Returns 1 when a run failed."""
    code, uv = 0, str(Path(sys.executable).parent / "uv")
    for version in ("3.12", "3.13"):
        python = find(version)
        if python is None:
            sys.stdout.write(f"Python {version}: not found, not tested\n")
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "env"
            subprocess.run([python, "-m", "venv", "--without-pip", str(place)], check=True)
            target = str(place / "bin" / "python")
            subprocess.run([uv, "pip", "install", "-q", "--python", target, "--require-hashes", "-r", str(ROOT / "requirements.lock")], check=True)
            subprocess.run([uv, "pip", "install", "-q", "--python", target, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)
            words = ["-m", "pytest", "tests", "-q", "-m", "not browser and not wheel", "--ignore=tests/test_notebooks.py"]
            done = subprocess.run([target, *words], cwd=ROOT)
            sys.stdout.write(f"Python {version}: {'passed' if done.returncode == 0 else 'FAILED'}\n")
            code = code or done.returncode
    return code


if __name__ == "__main__":
    sys.exit(main())
