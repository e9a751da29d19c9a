"""The command line: exit codes, one line a fault, files only where asked."""

import json
import os
import re

import pytest

from planner.cli import main
from planner.facts.files import folder

MAIN = folder("scenarios") / "rubin-vs-gb300.toml"
TEXT = MAIN.read_text()


def run(tmp_path, text, *words):
    path = tmp_path / "s.toml"
    path.write_text(text)
    return main([words[0] if words else "plan", str(path), *words[1:]])


def test_a_plan_is_zero(capsys):
    assert main(["plan", str(MAIN)]) == 0
    out = capsys.readouterr().out
    assert "racks_total" in out
    assert "not available" in out


@pytest.mark.parametrize(("old", "new", "line"), [
    ('"deepseek-ai/DeepSeek-R1"', '"no/such-model"', "workloads[0].model must be a known model"),
    ('name = "gb300-nvl72"', 'name = "gb400-nvl72"', "systems[2].name must be a known system"),
    ('profile = "upto"\n', "", "systems[0].profile must be named for vr-nvl72: upto or maxlps"),
    ('weight_format = "nvfp4"', 'weight_format = "fp4"', "workloads[0].weight_format is ambiguous"),
    ('kv_format = "fp8"', 'kv_format = "e9m9"', "workloads[0].kv_format must be a known precision"),
    ('"gb300-nvl72" = {', '"gb400-nvl72" = {', "prices.gb400-nvl72 must be a known system"),
    ("input_tokens = 8192", "input_tokens = 9e6", "must fit the model's 163,840 positions"),
    ("pue = 1.2", "pue = 0.9", "site.pue must be greater than or equal to 1"),
])
def test_bad_input_is_two_and_one_line_each(tmp_path, capsys, old, new, line):
    assert old in TEXT
    assert run(tmp_path, TEXT.replace(old, new, 1)) == 2
    error = capsys.readouterr().err
    assert line in error
    assert "Traceback" not in error
    assert [p.name for p in tmp_path.iterdir()] == ["s.toml"]


@pytest.mark.parametrize(("old", "new", "words"), [
    ("tpot_s = 0.0067", "tpot_s = 0.00001", ["slo:", "at best TPOT"]),
    ("facility_watts = 10e6", "facility_watts = 1e5", ["power:", "the site has 100 kW"]),
    ("requests_per_s = 200 ", "requests_per_s = 2000000 ", ["power:", "the site feeds"]),
])
def test_no_plan_is_three_with_the_limit_and_the_nearest(tmp_path, capsys, old, new, words):
    assert old in TEXT
    target = tmp_path / "p.json"
    assert run(tmp_path, TEXT.replace(old, new, 1), "plan", "--json", str(target)) == 3
    out = capsys.readouterr().out
    assert "infeasible" in out
    assert "nearest:" in out
    assert all(w in out for w in words)
    document = json.loads(target.read_text())
    assert document["status"] == "infeasible"
    assert all(o["limit"] and o["next_step"] for o in document["options"])


def test_weights_that_do_not_fit_name_memory(tmp_path, capsys):
    text = TEXT.replace('"deepseek-ai/DeepSeek-R1"', '"moonshotai/Kimi-K2-Instruct"').replace('weight_format = "nvfp4"', 'weight_format = "bf16"')
    text = text[:text.index("[[systems]]")] + '[[systems]]\nname = "h100-sxm"\n\n' + text[text.index("[fabric]"):]
    assert run(tmp_path, text) == 3
    assert "weights: weights need" in capsys.readouterr().out


def test_unknown_facts_give_not_available_and_no_zero(tmp_path, capsys):
    text = TEXT[:TEXT.index("[[systems]]")] + '[[systems]]\nname = "h200-nvl"\n\n' + TEXT[TEXT.index("[fabric]"):]
    code = run(tmp_path, text)
    out = capsys.readouterr()
    assert code == 3
    assert "not available" in out.out


def test_two_scenarios_of_one_name_are_refused(tmp_path, capsys):
    (tmp_path / "a.toml").write_text(TEXT)
    (tmp_path / "b.toml").write_text(TEXT.replace("pue = 1.2", "pue = 1.3"))
    assert main(["plan", str(tmp_path / "a.toml"), str(tmp_path / "b.toml")]) == 2
    assert "must differ between scenarios" in capsys.readouterr().err


@pytest.mark.parametrize("preset", sorted(p.name for p in folder("scenarios").glob("*.toml")))
def test_every_preset_plans(preset):
    assert main(["plan", str(folder("scenarios") / preset)]) in (0, 3)


def test_schema_is_json(capsys):
    assert main(["schema"]) == 0
    assert "workloads" in json.loads(capsys.readouterr().out)["properties"]


def test_a_users_own_fact_replaces_a_claim_and_says_so(tmp_path, capsys):
    own = TEXT.replace("[timeline]", '[facts]\n"vr-nvl72/upto.hbm_bytes_per_s" = 11e12\n\n[timeline]')
    target = tmp_path / "p.json"
    assert run(tmp_path, own, "plan", "--json", str(target)) == 0
    mine = json.loads(target.read_text())["options"][0]["answers"]["tokens_per_s_per_gpu"]
    assert main(["plan", str(MAIN), "--json", str(target)]) == 0
    theirs = json.loads(target.read_text())["options"][0]["answers"]["tokens_per_s_per_gpu"]
    assert "own:vr-nvl72/upto.hbm_bytes_per_s" in mine["claims"]
    assert mine["value"] < theirs["value"]


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "no such folder"])
def test_a_json_that_cannot_be_written_leaves_nothing(tmp_path, capsys, kind):
    place = tmp_path / "out"
    place.mkdir()
    target = place / ("deep/p.json" if kind == "no such folder" else "p.json")
    if kind == "folder":
        target.mkdir()
    elif kind == "pipe":
        os.mkfifo(target)
    elif kind == "link":
        target.symlink_to(tmp_path / "elsewhere")
    before = sorted(p.name for p in place.iterdir())
    (tmp_path / "c.csv").write_text("case,question,inputs,expected,unit,rtol\na,fabric_max_endpoints,{},1,count,0\n")
    for words in (["plan", str(MAIN)], ["check", str(tmp_path / "c.csv")]):
        assert main([*words, "--json", str(target)]) == 2
        assert "--json must" in capsys.readouterr().err
    assert sorted(p.name for p in place.iterdir()) == before
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(("slo", "words"), [
    ("{ e2e_s = 0.001 }", "the SLO asks end to end 0.001 s"),
    ("{ tpot_s = 1e-5, e2e_s = 0.5 }", "the SLO asks TPOT 0.01 ms and end to end 0.5 s"),
    ("{ ttft_s = 1e-6 }", "the SLO asks TTFT 1e-06 s"),
])
def test_a_slow_plan_names_the_limits_that_were_asked(tmp_path, capsys, slo, words):
    plain = TEXT.replace("{ ttft_s = 2.0, tpot_s = 0.0067, quantile = 0.99 }", slo).replace("facility_watts = 10e6\n", "")
    assert run(tmp_path, plain) == 3
    out = capsys.readouterr().out
    assert words in out
    assert "inf " not in out
    nearest = out.split("nearest: ")[1].splitlines()[0]
    found = dict(re.findall(r"(TPOT|TTFT|end to end) ([\d.e-]+)", nearest))
    keys = {"TPOT": ("tpot_s", 1e-3), "TTFT": ("ttft_s", 1), "end to end": ("e2e_s", 1)}
    again = ", ".join(f"{keys[n][0]} = {float(v) * keys[n][1]}" for n, v in found.items())
    first = plain[plain.index("[[systems]]"):].split("[[systems]]")[1]
    one = plain[:plain.index("[[systems]]")] + "[[systems]]" + first + plain[plain.index("[fabric]"):]
    assert run(tmp_path, one.replace(slo, f"{{ {again} }}")) == 0


@pytest.mark.parametrize(
    ("words", "line", "code"),
    [
        (["facts", ""], "WORDS must name something", 2),
        (["facts", " ", "\t"], "WORDS must name something", 2),
        (["facts", "zzz", "qqq"], "nothing is known about 'zzz qqq'", 3),
        (["plan", str(MAIN), "--json", ""], "--json must name a file", 2),
        (["report", str(MAIN), "-o", ""], "output folder must be named", 2),
        (["report", str(MAIN), "-o", " "], "output folder must be named", 2),
    ],
)
def test_empty_words_are_one_clear_line(words, line, code, capsys):
    assert main(words) == code
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1


def test_a_report_that_is_refused_leaves_no_folder(tmp_path, capsys):
    path = tmp_path / "bad.toml"
    path.write_text(MAIN.read_text().replace("deepseek-ai/DeepSeek-R1", "nobody/Nothing", 1))
    assert main(["report", str(path), "-o", str(tmp_path / "a" / "b")]) == 2
    assert "bad.toml: workloads[0].model must be a known model" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["bad.toml"]


def test_a_fault_of_ours_is_one_line(monkeypatch, capsys):
    def broken(item):
        raise RuntimeError("first line\nsecond\nthe cause")

    monkeypatch.delenv("PLANNER_DEBUG", raising=False)
    monkeypatch.setattr("planner.decide.decide", broken)
    assert main(["plan", str(MAIN)]) == 1
    assert capsys.readouterr().err == "planner failed: RuntimeError: the cause (PLANNER_DEBUG=1 shows where)\n"


CASES = "case,question,inputs,expected,unit,rtol\na,kv_bytes,\"{\"\"model\"\": \"\"own.json\"\"}\",1,B,0\n"


def others(place, name):
    """Return other ways to write the path of a file, among them a link to it."""
    (place / "sub").mkdir()
    (place / "link").symlink_to(place / name)
    os.link(place / name, place / "hard")
    (place / "folder").symlink_to(place)
    return [name, f"./{name}", f"sub/../{name}", str(place / name), f"folder/{name}", "link", "hard"]


@pytest.mark.parametrize(("name", "text", "command"), [("own.toml", TEXT, "plan"), ("b.csv", CASES, "check")])
def test_no_output_goes_over_the_file_that_is_read(tmp_path, monkeypatch, capsys, name, text, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    for place in others(tmp_path, name):
        before = sorted(p.name for p in tmp_path.iterdir())
        assert main([command, name, "--json", place]) == 2
        assert main([command, place, "--json", name]) == 2
        if command == "plan":
            assert main(["report", name, "-o", place]) == 2
        assert "Traceback" not in capsys.readouterr().err
        assert (tmp_path / name).read_text() == text
        assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_no_output_goes_over_a_file_that_an_input_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = next((folder("data") / "models").glob("*Llama-3.1-8B_config.json")).read_text()
    (tmp_path / "own.json").write_text(config)
    (tmp_path / "batch.csv").write_text("".join(f"{n}\n" for n in range(100, 200)))
    (tmp_path / "b.csv").write_text(CASES)
    own = TEXT.replace('"deepseek-ai/DeepSeek-R1"', '"own.json"').replace("input_tokens = 8192", 'input_tokens = "batch.csv"')
    (tmp_path / "own.toml").write_text(own)
    before = {p.name: p.read_text() for p in tmp_path.iterdir()}
    for words in (["plan", "own.toml", "--json", "own.json"], ["plan", "own.toml", "--json", "batch.csv"], ["check", "b.csv", "--json", "own.json"],
                  ["batch", ".", "-o", ".", "--plan-only"]):
        assert main(words) == 2
        assert "must not be a file that is read" in capsys.readouterr().err
        assert {p.name: p.read_text() for p in tmp_path.iterdir()} == before


def test_a_fact_in_another_unit_is_refused_at_its_key(tmp_path, capsys):
    assert run(tmp_path, TEXT.replace("[timeline]", '[facts]\n"gb300-nvl72.hbm_bytes" = 288\n\n[timeline]')) == 2
    assert "s.toml: facts.gb300-nvl72.hbm_bytes must be 1e+09 to 1e+14 B of one GPU, got 288" in capsys.readouterr().err
