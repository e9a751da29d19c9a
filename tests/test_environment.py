"""pyproject, the lock and environment.yml say the same, and name no address."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from rattler import MatchSpec

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "write_environment.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()
ALL = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["app"], *PROJECT["dependency-groups"]["dev"]]


def test_environment_file_is_the_generated_one():
    assert (ROOT / "environment.yml").read_text() == TOOL["environment"]()


def test_every_conda_spec_parses():
    specs = re.findall(r"^  - ([a-z].*)$", (ROOT / "environment.yml").read_text(), re.M)
    specs = [s for s in specs if s not in ("conda-forge", "pip:")]
    assert len(specs) > 25
    for spec in specs:
        MatchSpec(spec, strict=True)


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("wanted", ALL)
def test_locked_version_lies_in_the_declared_range(wanted, python):
    requirement = Requirement(wanted)
    assert TOOL["locked"](LOCK, python)[requirement.name.lower()] in requirement.specifier


def test_every_locked_package_has_hashes_and_no_address():
    blocks = re.split(r"\n(?=[a-zA-Z0-9])", LOCK)
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in LOCK


def test_uv_is_pinned_once():
    version = re.search(r"^UV_VERSION := (.+)$", (ROOT / "Makefile").read_text(), re.M)[1]
    assert f"uv=={version}" in PROJECT["dependency-groups"]["dev"]
    assert TOOL["locked"](LOCK)["uv"] == version


def test_required_packages_are_direct_dependencies():
    names = set(TOOL["direct"](PROJECT))
    assert {"jupyterlab", "numpy", "scipy", "pandas", "plotly", "ipywidgets", "papermill", "nbval"} <= names
