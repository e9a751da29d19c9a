"""Notebook hygiene, and a check that the comparison with stored outputs bites."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from planner.report.notebook import clean

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with", str(ROOT / "tests" / "nbval.cfg"), "--nbval-cell-timeout", "120"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_cells_are_prose_and_single_calls(path):
    notebook = nbformat.read(path, as_version=4)
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert len(notebook.cells) < 25
    assert path.name == "report.ipynb" or notebook.cells[0].source.splitlines()[0].endswith("?")
    assert sum("parameters" in c.metadata.get("tags", []) for c in code) == 1
    assert sum("nbval-ignore-output" in c.metadata.get("tags", []) for c in code) <= 2
    for cell in code:
        words = cell.source.split()
        assert not {"def", "for", "while", "class", "lambda"} & set(words), cell.source
        assert "open(" not in cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_stored_without_widget_state_times_or_errors(path):
    text = path.read_text()
    notebook = json.loads(text)
    assert len(text) < 300_000
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    for cell in notebook["cells"]:
        assert set(cell["metadata"]) <= {"tags"}
        assert not [o for o in cell.get("outputs", []) if o["output_type"] == "error" or "widget-view" in str(o.get("data", {}).keys())]
        assert cell["cell_type"] == "markdown" or cell["execution_count"]


@pytest.mark.parametrize(("change", "passes"), [("", True), ("MUTATE", False)])
def test_a_changed_number_fails_the_comparison(tmp_path, change, passes):
    """The stored outputs of the decision notebook must differ when the power of a rack is 0.2 % off."""
    shutil.copy(ROOT / "notebooks" / "conftest.py", tmp_path)
    notebook = nbformat.read(ROOT / "notebooks" / "00_decision.ipynb", as_version=4)
    if change == "MUTATE":
        setup = next(c for c in notebook.cells if "setup" in c.metadata.get("tags", []))
        setup.source = (
            "import planner.plan\nkept = planner.plan.rack_watts\nplanner.plan.rack_watts = lambda *given: kept(*given) * 1.002\n"
        ) + setup.source
    nbformat.write(notebook, tmp_path / "n.ipynb")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *NBVAL, "-p", "no:cacheprovider", "-q", "n.ipynb"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode == 0) is passes, done.stdout[-2000:]


def test_a_print_that_was_cut_is_stored_as_one():
    parts = [nbformat.v4.new_output("stream", name=n, text=t) for n, t in (("stdout", "a"), ("stdout", "b\n"), ("stderr", "c"), ("stdout", "d"))]
    cell = nbformat.v4.new_code_cell("print()", outputs=parts)
    found = clean(nbformat.v4.new_notebook(cells=[cell])).cells[0].outputs
    assert [(o.name, o.text) for o in found] == [("stdout", "ab\n"), ("stderr", "c"), ("stdout", "d")]
