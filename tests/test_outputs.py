"""Committed outputs and calibrations are what the code makes: a changed number is a reviewed change of a file."""

import runpy
from pathlib import Path

import pytest

from planner.calibration import collectives, residency, table
from planner.facts.files import folder

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "write_outputs.py"))


@pytest.mark.parametrize("name", TOOL["TABLES"])
def test_outputs_are_rebuilt(name):
    assert TOOL["differences"]((ROOT / "outputs" / name).read_text(), TOOL["text"](TOOL["TABLES"][name]())) == []


def test_the_readme_shows_the_stored_numbers():
    page = (ROOT / "README.md").read_text()
    assert page.split(TOOL["OPENS"])[1].split(TOOL["CLOSES"])[0] == TOOL["readme_block"](), "run make outputs"


def test_a_changed_number_is_seen():
    stored = (ROOT / "outputs" / "residency.csv").read_text()
    assert TOOL["differences"](stored, stored.replace("671026", "671027", 1) if "671026" in stored else stored.replace("1", "2", 1))


@pytest.mark.parametrize(("area", "fit"), [("residency", residency.fit), ("collectives", collectives.fit)])
def test_calibrations_are_rebuilt(area, fit):
    stored = (folder("data") / "calibration" / f"{area}.csv").read_text()
    assert TOOL["differences"](stored, table.text(fit())) == []
