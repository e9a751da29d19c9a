"""Write environment.yml for conda users from pyproject.toml and requirements.lock: Python 3.11, the lock's versions, the package last."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "3.11"
CONDA_NAMES = {"playwright": "playwright-python", "dask": "dask-core"}


def direct(project: dict) -> list[str]:
    """Return the names of all direct dependencies, in one sorted list."""
    groups = [project["project"]["dependencies"], *project["project"]["optional-dependencies"].values(),
              *project["dependency-groups"].values()]
    return sorted({re.match(r"[A-Za-z0-9._-]+", d)[0].lower() for group in groups for d in group})


def locked(text: str, python: str = PYTHON) -> dict[str, str]:
    """Return name -> version of the lock for one Python version, reading its markers."""
    versions = {}
    for line in text.splitlines():
        found = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\]+))?", line)
        if found and applies((found[3] or "").strip(), python):
            versions[found[1].lower()] = found[2]
    return versions


def applies(marker: str, python: str) -> bool:
    """Tell whether an environment marker holds for `python` on Linux."""
    if not marker:
        return True
    from packaging.markers import Marker

    place = {"python_version": python, "python_full_version": f"{python}.7", "sys_platform": "linux", "os_name": "posix",
             "platform_system": "Linux", "implementation_name": "cpython", "platform_python_implementation": "CPython",
             "platform_machine": "x86_64"}
    return Marker(marker).evaluate(place)


def environment() -> str:
    """Return the text of environment.yml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    versions = locked((ROOT / "requirements.lock").read_text())
    lines = ["# Written by tools/write_environment.py from pyproject.toml and requirements.lock. The conda solve is not checked here.",
             "name: planner", "channels:", "  - conda-forge", "dependencies:", f"  - python ={PYTHON}", "  - pip"]
    lines += [f"  - {CONDA_NAMES.get(name, name)} =={versions[name]}" for name in direct(project)]
    return "\n".join([*lines, "  - pip:", "      - -e ."]) + "\n"


if __name__ == "__main__":
    (ROOT / "environment.yml").write_text(environment())
    sys.stdout.write("environment.yml written\n")
