"""Files that a scenario names: found beside it from any working folder, part of its digest, and never a pipe."""

import os
import shutil

import pytest

from planner import batch, scenario
from planner.cli import main
from planner.errors import InputError, InputErrors
from planner.facts import modelcards
from planner.facts.files import folder
from planner.plan import lengths
from planner.plan.case import resolve
from planner.questions import check
from planner.report import write

TEXT = (folder("scenarios") / "rubin-vs-gb300.toml").read_text()
OWN = TEXT.replace('"deepseek-ai/DeepSeek-R1"', '"models/mine.json"')


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A scenario with its own model in a folder that is not the working folder."""
    place, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (place / "models").mkdir(parents=True)
    elsewhere.mkdir()
    shutil.copy(modelcards.catalogue()["deepseek-ai/DeepSeek-R1"], place / "models" / "mine.json")
    (place / "s.toml").write_text(OWN)
    monkeypatch.chdir(elsewhere)
    return place


def test_a_model_lies_beside_the_scenario(beside, tmp_path):
    assert resolve(scenario.load(beside / "s.toml"))[0].shape.layers == 61
    (tmp_path / "elsewhere" / "models").mkdir()
    (tmp_path / "elsewhere" / "models" / "mine.json").write_text("{}")  # a file of that name in the working folder is another model
    assert resolve(scenario.load(beside / "s.toml"))[0].shape.layers == 61
    absolute = OWN.replace("models/mine.json", str(beside / "models" / "mine.json"))
    assert resolve(scenario.loads(absolute))[0].shape.layers == 61


def test_without_a_file_of_its_own_the_working_folder_counts(beside, monkeypatch):
    with pytest.raises(InputError, match=r"readable config\.json"):
        resolve(scenario.loads(OWN))
    monkeypatch.chdir(beside)
    assert resolve(scenario.loads(OWN))[0].shape.layers == 61


def test_content_of_a_model_is_part_of_the_digest(beside):
    first = scenario.load(beside / "s.toml").digest
    assert scenario.load(beside / "s.toml").digest == first
    config = beside / "models" / "mine.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 61', '"num_hidden_layers": 60'))
    assert scenario.load(beside / "s.toml").digest != first
    assert scenario.loads(TEXT).digest == scenario.load(folder("scenarios") / "rubin-vs-gb300.toml").digest


def test_a_quantisation_file_beside_config_json_counts(beside):
    (beside / "models" / "mine.json").rename(beside / "models" / "config.json")
    (beside / "s.toml").write_text(OWN.replace("mine.json", "config.json"))
    before = scenario.load(beside / "s.toml").digest
    (beside / "models" / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "NVFP4"}}')
    assert scenario.load(beside / "s.toml").digest != before


def test_a_changed_model_is_another_report(beside, tmp_path):
    first = write.write(scenario.load(beside / "s.toml"), tmp_path / "out")
    config = beside / "models" / "mine.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 61', '"num_hidden_layers": 60'))
    second = write.write(scenario.load(beside / "s.toml"), tmp_path / "out")
    assert first.path != second.path
    assert not second.reused


def test_a_grid_finds_the_model_beside_its_base(beside):
    (beside / "g.toml").write_text('base = "s.toml"\n[grid]\n"site.pue" = [1.1]\n')
    ((_, item),) = batch.expand(beside / "g.toml")
    assert resolve(item)[0].shape.layers == 61
    (record,) = batch.run(beside / "g.toml", beside / "out", workers=1, plan_only=True)
    assert record.status == "ok"
    (beside / "h.toml").write_text('base = "rubin-vs-gb300"\n[grid]\n"workloads[0].model" = ["models/mine.json"]\n')
    ((_, item),) = batch.expand(beside / "h.toml")
    assert resolve(item)[0].shape.layers == 61


@pytest.mark.parametrize(
    ("text", "mean"),
    [
        ("input_tokens\n10\n20\n60\n", 30),
        ("10\n20\n60", 30),
        ("\ufeffid,tokens\r\na,10\r\nb,20\r\n\r\nc,60\r\n", 30),
        ("output_tokens, input_tokens \n1,10\n2,50\n", 30),
        ("30", 30),
    ],
)
def test_a_file_of_lengths(tmp_path, text, mean):
    (tmp_path / "l.csv").write_bytes(text.encode())
    found = lengths.read(tmp_path / "l.csv", "input_tokens")
    assert found.mean == mean
    assert found.p50 <= found.p99


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "at least one length"),
        ("tokens\n", "at least one length"),
        ("tokens\nten\n", "line 2 must be a number of tokens"),
        ("5\n0\n", "line 2"),
        ("5\nnan\n", "line 2"),
        ("5\n1e400\n", "line 2"),
        ("a,b\n1,2\n", "header must be one column"),
        ("1,2\n3,4\n", "header must be one column"),
        ("id,tokens\n1\n", "line 2 must have at least 2 cells"),
        ("tokens\n-3\n", "line 2"),
    ],
)
def test_lengths_that_are_none_are_refused_by_line(tmp_path, text, line):
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(InputError, match=line):
        lengths.read(tmp_path / "l.csv", "input_tokens")


def test_lengths_reach_the_plan_and_the_digest(beside):
    (beside / "l.csv").write_text("tokens\n4096\n12288\n")
    (beside / "s.toml").write_text(TEXT.replace("input_tokens = 8192", 'input_tokens = "l.csv"'))
    item = scenario.load(beside / "s.toml")
    assert resolve(item)[0].input_tokens == 8192
    assert resolve(item)[0].workload.input_tokens.p99 == pytest.approx(4096 + 0.99 * 8192)
    before = item.digest
    (beside / "l.csv").write_text("tokens\n4096\n12289\n")
    assert scenario.load(beside / "s.toml").digest != before
    (beside / "l.csv").write_text("tokens\nx\n")
    with pytest.raises(InputError, match=r"l.csv: workloads\[0\].input_tokens.line 2 must be a number of tokens"):
        resolve(scenario.load(beside / "s.toml"))


def test_a_pipe_is_refused_and_never_read(beside, capsys):
    pipe = beside / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(InputErrors, match="regular file"):
        scenario.load(pipe)
    with pytest.raises(InputErrors, match="regular file"):
        check.read(pipe)
    with pytest.raises(InputError, match="regular file"):
        lengths.read(pipe)
    with pytest.raises(InputErrors, match="regular file"):
        list(batch.expand(pipe))
    (beside / "s.toml").write_text(OWN.replace("models/mine.json", "pipe.json"))
    assert len(scenario.load(beside / "s.toml").digest) == 12
    assert main(["plan", str(beside / "s.toml")]) == 2
    assert "workloads[0].model must be a regular file" in capsys.readouterr().err
    assert main(["plan", "/dev/zero"]) == 2
    (beside / "g.toml").write_text(f'base = "{"x" * 300}"\n[grid]\n"site.pue" = [1.1]\n')
    assert main(["batch", str(beside / "g.toml"), "-o", str(beside / "out")]) == 2
