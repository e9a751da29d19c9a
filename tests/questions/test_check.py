"""`planner check`: reading, comparing, summing up, and refusing bad files row by row."""

import json
import math

import pytest

from planner import questions
from planner.cli import main
from planner.errors import Infeasible, InputErrors
from planner.plan.answer import Answer, missing
from planner.questions import check
from planner.questions.registry import Input, Question

HEADER = "case,question,inputs,expected,unit,rtol\n"


def double(inputs):
    if inputs["x"] == 97:
        return {}["x"]
    if inputs["x"] == 99:
        raise Infeasible("layout", "99 does not fit", "98")
    if inputs["x"] == 98:
        return missing("double", "GB", "no fact")
    return Answer("double", 2.0 * inputs["x"], "GB", "modelled", "B", 1.9 * inputs["x"], 2.1 * inputs["x"])


@pytest.fixture(autouse=True)
def one_question(monkeypatch):
    question = Question("double", "twice x", "GB", "tests.double", {"x": Input("a number", "GB", required=True)}, double)
    monkeypatch.setattr(check, "all_questions", lambda: {"double": question})
    monkeypatch.setattr(questions, "all_questions", lambda: {"double": question})


def outcome(tmp_path, expected, unit="GB", rtol="0.01", inputs='{""x"": 3}', question="double"):
    path = tmp_path / "c.csv"
    path.write_text(HEADER + f'a,{question},"{inputs}",{expected},{unit},{rtol}\n')
    (case,) = check.read(path)
    return check.run(case)


def test_ok_miss_and_unit(tmp_path):
    good = outcome(tmp_path, 6)
    assert (good.status, good.got, good.error_fraction, good.inside) == ("ok", 6.0, 0.0, True)
    assert outcome(tmp_path, 6000, "MB").status == "ok"
    bad = outcome(tmp_path, 6.5)
    assert bad.status == "miss"
    assert bad.error_fraction == pytest.approx(6 / 6.5 - 1)
    assert not bad.inside
    assert outcome(tmp_path, 5.9, rtol="0").status == "miss"


def test_a_right_number_under_a_wrong_unit_is_refused(tmp_path):
    assert outcome(tmp_path, 6, "GiB").status == "miss"
    assert outcome(tmp_path, 6, "W").status == "refused"


@pytest.mark.parametrize("expected", ["194", "refused"])
def test_a_fault_in_one_row_leaves_the_others_and_shows(tmp_path, capsys, expected):
    path = tmp_path / "c.csv"
    path.write_text(HEADER + f'a,double,"{{""x"": 97}}",{expected},GB,0\nb,double,"{{""x"": 3}}",6,GB,0\n')
    assert main(["check", str(path)]) == 1
    printed = capsys.readouterr().out
    assert "refused a double" in printed
    assert "failed: KeyError: 'x'" in printed
    assert "ok      b double" in printed


def test_refusals(tmp_path):
    assert outcome(tmp_path, "refused", inputs='{""x"": 99}').status == "ok"
    assert outcome(tmp_path, 198, inputs='{""x"": 99}').status == "refused"
    assert "does not fit" in outcome(tmp_path, 198, inputs='{""x"": 99}').reason
    assert outcome(tmp_path, 196, inputs='{""x"": 98}').reason == "no fact"
    assert outcome(tmp_path, "refused").status == "miss"
    assert "is required" in outcome(tmp_path, 6, inputs="{}").reason
    assert "not an input" in outcome(tmp_path, 6, inputs='{""x"": 1, ""y"": 2}').reason


@pytest.mark.parametrize(("row", "line"), [
    ('a,none,"{}",1,GB,0', "question must be one of"), ('a,double,"{",1,GB,0', "inputs must be one JSON object"),
    ('a,double,"[1]",1,GB,0', "inputs must be one JSON object"), ('a,double,"{""x"": NaN}",1,GB,0', "must be one JSON object"),
    ('a,double,"{""x"": 1e400}",1,GB,0', "must be one JSON object"), ('a,double,"{""x"":1,""x"":2}",1,GB,0', "given twice"),
    ('a,double,"{}",many,GB,0', "expected must be a number or refused"), ('a,double,"{}",1,GB,-1', "rtol must be finite and >= 0"),
    ('a,double,"{}",1,GB', "must have 6 cells"), ("a,double," + "[" * 100_000 + ",1,GB,0", "must be one JSON object")])
def test_every_bad_row_is_named(tmp_path, row, line):
    path = tmp_path / "c.csv"
    path.write_text(HEADER + row + "\n" + 'b,none,"{}",1,GB,0\n')
    with pytest.raises(InputErrors) as refusal:
        check.read(path)
    assert line in str(refusal.value)
    assert "line 2" in str(refusal.value)
    assert "line 3" in str(refusal.value)


def test_command_and_json(tmp_path, capsys):
    path, target = tmp_path / "c.csv", tmp_path / "o.json"
    path.write_text(HEADER + 'a,double,"{""x"": 3}",6,GB,0.01\nb,double,"{""x"": 3}",7,GB,0.01\n')
    assert main(["check", str(path), "--json", str(target)]) == 1
    document = json.loads(target.read_text())
    assert [c["status"] for c in document["cases"]] == ["ok", "miss"]
    (row,) = document["questions"]
    assert (row["cases"], row["ok"], row["refused"], row["coverage"]) == (2, 1, 0, 0.5)
    assert row["median_abs_error"] == pytest.approx(1 / 14)
    assert "double: 2 cases, 1 ok" in capsys.readouterr().out
    path.write_text(HEADER + 'a,double,"{""x"": 3}",6,GB,0.01\n')
    assert main(["check", str(path)]) == 0
    assert main(["check", str(tmp_path / "absent.csv")]) == 2
    assert main(["check"]) == 2


def test_no_number_reads_as_infinite_error(tmp_path):
    assert math.isfinite(outcome(tmp_path, 0).error_fraction)


def test_a_file_without_cases_is_refused(tmp_path, capsys):
    path = tmp_path / "none.csv"
    path.write_text("case,question,inputs,expected,unit,rtol\n")
    assert main(["check", str(path)]) == 2
    assert "none.csv: rows must be at least one" in capsys.readouterr().err
