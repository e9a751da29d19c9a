"""Batch: grids expand, one failure never stops the rest, tables and index are whole and escaped, a second batch is kept out."""

import csv
import fcntl

import pytest

from planner import batch
from planner.cli import main
from planner.errors import InputError, InputErrors
from planner.facts.files import folder

MAIN = (folder("scenarios") / "rubin-vs-gb300.toml").read_text()


def grid(tmp_path, text):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    return path


def read(path):
    with path.open(encoding="utf-8-sig", newline="") as handle:
        return list(csv.DictReader(handle))


def test_a_grid_is_every_combination_and_a_bad_point_is_listed(tmp_path):
    path = grid(tmp_path, 'base = "rubin-vs-gb300"\n[grid]\n"site.pue" = [1.1, 1.3, 0.5]\n"workloads[0].requests_per_s" = [50, 100]\n')
    records = batch.run(path, tmp_path / "out", workers=1, plan_only=True)
    assert [r.status for r in records] == ["ok", "ok", "ok", "ok", "failed", "failed"]
    failures = read(tmp_path / "out" / "failures.csv")
    assert len(failures) == 2
    assert all("site.pue must be greater than or equal to 1" in f["reason"] for f in failures)
    assert len(read(tmp_path / "out" / "batch.csv")) == 6
    assert "6 scenarios" in (tmp_path / "out" / "index.html").read_text()


def test_a_folder_with_a_broken_file_and_a_name_given_twice(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.toml").write_text(MAIN)
    (source / "b.toml").write_text(MAIN.replace("pue = 1.2", "pue = 1.3"))
    (source / "c.toml").write_text("not toml [")
    (source / "d.toml").write_text(MAIN.replace('name = "DeepSeek-R1 on Vera Rubin or GB300"', "name = '=1+1 <script>'"))
    records = {r.name: r for r in batch.run(source, tmp_path / "out", workers=1, plan_only=True)}
    assert [records[n].status for n in "abcd"] == ["ok", "failed", "failed", "ok"]
    assert "two scenarios of one name" in records["b"].reason
    assert "TOML must be readable" in records["c"].reason


def test_reports_are_made_reused_and_linked(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.toml").write_text(MAIN)
    (first,) = batch.run(source, tmp_path / "out", workers=1)
    (second,) = batch.run(source, tmp_path / "out", workers=1)
    assert (first.reused, second.reused) == (False, True)
    page = (tmp_path / "out" / "index.html").read_text()
    assert f'href="{first.path}/report.html"' in page
    assert (tmp_path / "out" / first.path / "report.html").is_file()


def test_cells_never_become_formulas_and_names_are_escaped():
    record = batch.Record("=1+1", "d", "ok", "<x>", reason="<script>")
    assert batch._csv([record]).splitlines()[1].startswith("'=1+1")
    assert "<script>" not in batch._index([record])


def test_a_second_batch_in_the_same_folder_is_kept_out(tmp_path):
    path = grid(tmp_path, 'base = "rubin-vs-gb300"\n[grid]\n"site.pue" = [1.1]\n')
    out = tmp_path / "out"
    out.mkdir()
    with (out / ".batch.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another batch"):
            batch.run(path, out, workers=1, plan_only=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "base = 5",
        'base = "rubin-vs-gb300"',
        'base = "../x"\n[grid]\na = [1]',
        'base = "rubin-vs-gb300"\n[grid]\n"a" = 5',
        'base = "rubin-vs-gb300"\nfoo = 1\n[grid]\n"site.pue" = [1.1]',
        "base = [",
        'base = "no-such"\n[grid]\na = [1]',
    ],
)
def test_bad_grids_are_refused_whole(tmp_path, text, capsys):
    path = grid(tmp_path, text)
    assert main(["batch", str(path), "-o", str(tmp_path / "out")]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_keys_that_do_not_exist_are_refused_by_point(tmp_path):
    path = grid(tmp_path, 'base = "rubin-vs-gb300"\n[grid]\n"workloads[7].requests_per_s" = [1]\n"a-b.c" = [2]\n')
    (record,) = batch.run(path, tmp_path / "out", workers=1, plan_only=True)
    assert record.status == "failed"
    assert "must be a place that exists" in record.reason


def test_too_many_points_are_refused(tmp_path):
    many = ", ".join(str(i + 1) for i in range(400))
    lists = f'"workloads[0].requests_per_s" = [{many}]\n"workloads[0].output_tokens" = [{many}]\n'
    path = grid(tmp_path, f'base = "rubin-vs-gb300"\n[grid]\n{lists}')
    with pytest.raises((InputError, InputErrors), match="at most"):
        list(batch.expand(path))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "foo://x:1", ""])
def test_a_scheduler_that_does_not_answer_is_named(tmp_path, monkeypatch, capsys, address):
    monkeypatch.setattr(batch, "ANSWER_SECONDS", 0.3)
    path = grid(tmp_path, 'base = "rubin-vs-gb300"\n[grid]\n"site.pue" = [1.1]\n')
    assert main(["batch", str(path), "-o", str(tmp_path / "out"), "--plan-only", "--scheduler", address]) == 2
    error = capsys.readouterr().err
    assert "--scheduler must be the address of a Dask scheduler that answers" in error
    assert "output folder" not in error


def test_an_empty_cell_stays_empty():
    record = batch.Record("a", "d", "ok", reason="-x")
    cells = batch._csv([record]).splitlines()[1].split(",")
    assert cells == ["a", "d", "ok", "", "False", "'-x", "", "", ""]
