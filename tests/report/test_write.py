"""The report folder: whole or absent, same bytes twice, never over other content, nothing outside the folder."""

import json
import os
import re
import shutil

import nbformat
import openpyxl
import pytest

from planner import scenario
from planner.cli import main
from planner.errors import InputError
from planner.facts.files import folder
from planner.report import notebook, write

MAIN = folder("scenarios") / "rubin-vs-gb300.toml"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("reports")
    return out, write.write(scenario.load(MAIN), out)


def test_four_files_and_a_manifest(made):
    out, done = made
    assert sorted(p.name for p in done.path.iterdir()) == sorted([*write.FILES, write.MANIFEST])
    assert [p.name for p in out.iterdir()] == [done.path.name]
    assert (done.path / "report.html").stat().st_size < 6e6


def test_a_second_run_gives_the_same_bytes(made, tmp_path):
    again = write.write(scenario.load(MAIN), tmp_path).path
    for name in write.FILES:
        assert (again / name).read_bytes() == (made[1].path / name).read_bytes(), name


def test_identical_is_reused_and_said(made, capsys):
    out, done = made
    before = {p.name: p.stat().st_mtime_ns for p in done.path.iterdir()}
    assert main(["report", str(MAIN), "-o", str(out)]) == 0
    assert "reused" in capsys.readouterr().out
    assert {p.name: p.stat().st_mtime_ns for p in done.path.iterdir()} == before


def test_other_content_is_never_touched(tmp_path, capsys):
    item = scenario.load(MAIN)
    place = tmp_path / f"{write.slug(item.name)}-{item.digest}"
    place.mkdir()
    (place / "mine.txt").write_text("keep")
    assert main(["report", str(MAIN), "-o", str(tmp_path)]) == 2
    assert "add --force" in capsys.readouterr().err
    assert [p.name for p in place.iterdir()] == ["mine.txt"]
    assert [p.name for p in tmp_path.iterdir()] == [place.name]


def test_force_replaces_the_reports_own_files_and_no_others(tmp_path, made, capsys):
    place = tmp_path / made[1].path.name
    shutil.copytree(made[1].path, place)
    (place / "mine.txt").write_text("keep")
    (place / "report.html").write_text("changed")
    assert main(["report", str(MAIN), "-o", str(tmp_path)]) == 2
    assert main(["report", str(MAIN), "-o", str(tmp_path), "--force"]) == 0
    assert (place / "mine.txt").read_text() == "keep"
    assert (place / "report.html").read_bytes() == (made[1].path / "report.html").read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == [place.name]
    (place / write.MANIFEST).write_text("[]")
    capsys.readouterr()
    assert main(["report", str(MAIN), "-o", str(tmp_path), "--force"]) == 2
    assert "is not a report of the planner" in capsys.readouterr().err


def test_a_symbolic_link_is_refused(tmp_path):
    item = scenario.load(MAIN)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"{write.slug(item.name)}-{item.digest}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="symbolic link"):
        write.write(item, tmp_path / "out", force=True)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_output_that_is_a_file_is_one_clear_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["report", str(MAIN), "-o", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_failure_midway_leaves_nothing(tmp_path, monkeypatch):
    def full(*args, **more):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("planner.report.xlsx.workbook", full)
    with pytest.raises(InputError, match="No space left"):
        write.write(scenario.load(MAIN), tmp_path)
    assert not list(tmp_path.iterdir())


def test_html_names_no_remote_thing_and_escapes_names(tmp_path):
    text = MAIN.read_text().replace('name = "chat"', "name = '<script>alert(1)</script> $x$ `y` | # =1+1'")
    done = write.write(scenario.loads(text), tmp_path)
    page = (done.path / "report.html").read_text()
    assert "<script>alert(1)" not in page
    outside_scripts = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", outside_scripts)
    assert not re.search(r"<script[^>]+src=", page)
    assert not re.search(r"@import|url\(\s*['\"]?https?:", outside_scripts)
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    book = openpyxl.load_workbook(done.path / "report.xlsx")
    assert all(cell.data_type != "f" for sheet in book for row in sheet for cell in row)


def test_title_date_inputs_and_sources_are_in_the_page(made):
    page = (made[1].path / "report.html").read_text()
    body = page[page.index("<main>") :]
    for word in (
        "DeepSeek-R1 on Vera Rubin or GB300",
        "As of 2026-11-30",
        "Inputs as typed",
        "requests_per_s",
        "Sources",
        "P0003",
        "grade P",
        "assumed",
    ):
        assert word in body, word
    assert body.index("chat: ") < body.index("How many racks")


def test_plan_json_equals_the_command(made, tmp_path, capsys):
    assert main(["plan", str(MAIN), "--json", str(tmp_path / "p.json")]) == 0
    assert json.loads((tmp_path / "p.json").read_text()) == json.loads((made[1].path / "plan.json").read_text())


def test_executed_notebook_is_clean(made):
    node = nbformat.read(made[1].path / "report.ipynb", as_version=4)
    assert "widgets" not in node.metadata
    assert "papermill" not in node.metadata
    assert not [o for c in node.cells for o in c.get("outputs", []) if o.output_type == "error"]


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ({"plan": "x"}, "is not one of plan_file"),
        ({"plan_file": 5}, "must be str"),
        ({"plan_file": True}, "must be str"),
        ({"plan_file": ["a"]}, "must be str"),
    ],
)
def test_parameters_are_checked_before_papermill_sees_them(parameters, line):
    with pytest.raises(InputError, match=line):
        notebook.checked(parameters)
