"""A plan that says no is a report like any other: every cell of the template runs on it."""

import json
import os

import nbformat
import pytest

from planner import scenario
from planner.decide import decide
from planner.facts.files import folder

MAIN = (folder("scenarios") / "rubin-vs-gb300.toml").read_text()
SLO = "slo = { ttft_s = 2.0, tpot_s = 0.0067, quantile = 0.99 }"


def cells():
    template = nbformat.read(folder("notebooks") / "report.ipynb", as_version=4)
    return [c.source for c in template.cells if c.cell_type == "code" and "parameters" not in c.metadata.get("tags", [])]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("facility_watts = 10e6", "facility_watts = 10e3"),
        (SLO, "slo = { ttft_s = 1e-9 }"),
        ('"deepseek-ai/DeepSeek-R1" ', '"moonshotai/Kimi-K3" '),
    ],
    ids=["site below a rack", "limits below the floor", "a large model"],
)
def test_every_cell_of_the_report_runs(tmp_path, monkeypatch, old, new):
    text = MAIN.replace(old, new, 1)
    assert text != MAIN
    made = decide(scenario.loads(text))
    (tmp_path / "plan.json").write_text(json.dumps(made.as_dict(), allow_nan=False))
    monkeypatch.chdir(tmp_path)
    names = {"plan_file": "plan.json", "display": lambda *_: None}
    for source in cells():
        exec(source, names)
    assert os.listdir(tmp_path) == ["plan.json"]
