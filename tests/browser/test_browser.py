"""Two notebooks in JupyterLab and the report as a file: they run, they change, and nothing leaves the machine."""

import pytest
from lab import Lab

from planner import scenario
from planner.facts.files import folder
from planner.report.write import write

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.mark.parametrize("name", ["00_decision.ipynb", "01_hbm_residency.ipynb"])
def test_notebook_runs_in_lab(lab, page, name):
    lab.run(page, name)
    assert lab.errors(page) == []
    assert page.locator(".js-plotly-plot").count() >= 2
    assert page.outside == []
    assert page.faults == []


def test_a_slider_changes_the_number(lab, page):
    lab.run(page, "00_decision.ipynb")
    readout = page.locator(".widget-html-content").last
    before = page.locator(".jp-OutputArea .widget-vbox .widget-html-content").all_inner_texts()
    handle = page.locator(".widget-slider .noUi-handle").first
    handle.focus()
    for _ in range(25):
        handle.press("ArrowUp")
    page.wait_for_function("(old) => [...document.querySelectorAll('.jp-OutputArea .widget-vbox .widget-html-content')]"
                           ".map(e => e.innerText).join() !== old.join()", arg=before)
    assert readout.count() == 1
    assert page.outside == []


def test_report_opens_offline(page, tmp_path):
    done = write(scenario.load(folder("scenarios") / "rubin-vs-gb300.toml"), tmp_path)
    page.context.set_offline(True)
    page.goto((done.path / "report.html").resolve().as_uri())
    page.wait_for_selector(".js-plotly-plot .main-svg")
    assert page.locator(".js-plotly-plot").count() >= 3
    assert "Vera Rubin" in page.title()
    assert page.outside == []
    assert page.faults == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
