"""A user's own facts and prices reach the plan, in any spelling, and never twice."""

import pytest

from planner import scenario
from planner.errors import InputError
from planner.facts.files import folder
from planner.facts.show import claim_rows
from planner.plan.case import resolve

TEXT = (folder("scenarios") / "rubin-vs-gb300.toml").read_text()


def cases(facts="", text=TEXT):
    return {c.label: c for c in resolve(scenario.loads(text.replace("[timeline]", f"[facts]\n{facts}\n[timeline]")))}


def test_a_field_and_a_claim_reach_rack_and_draws():
    plain = cases()
    own = cases('"gb300-nvl72.hbm_bytes" = 100e9\n"GB300.fp8" = { value = 4e15, low = 3e15, high = 5e15 }\nH0189 = 7.0\n'
                '"gb300-nvl72.speed_against_model" = 0.4\nP0010 = 9.0')
    before, after = plain["gb300-nvl72"], own["gb300-nvl72"]
    gpu = after.rack.accelerator
    assert (gpu.hbm_bytes, gpu.peak_flops_per_s["fp8"], gpu.hbm_bytes_per_s) == (100e9, 4e15, 7e12)
    assert after.memory_bytes()["runtime reserve"] == 9 * 2**30
    assert before.rack.accelerator.hbm_bytes == 284208 * 2**20
    own_speed = "own:gb300-nvl72.speed_against_model"
    for field, source in {"hbm_bytes": "own:gb300-nvl72.hbm_bytes", "hbm_bytes_per_s": "own:H0189", "speed_against_model": own_speed}.items():
        assert (after.inputs[field].claims, after.inputs[field].how) == ((source,), "exact")
    others = [label for label in plain if label != "gb300-nvl72"]
    assert all(own[label].rack.accelerator.hbm_bytes == plain[label].rack.accelerator.hbm_bytes for label in others)


def test_a_price_in_another_spelling_counts():
    text = TEXT.replace('"gb300-nvl72" = { gpu_hour_usd', '"GB300 NVL72" = { gpu_hour_usd')
    assert text != TEXT
    assert "gpu_hour_usd" in cases(text=text)["gb300-nvl72"].inputs


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ("H9999 = 1", "facts.H9999"),
        ('"gb300-nvl72.speed" = 1', "facts.gb300-nvl72.speed"),
        ('"gb301.hbm_bytes" = 1', "facts.gb301.hbm_bytes"),
        ('"vr-nvl72.gpu_watts" = 2000', "facts.vr-nvl72.gpu_watts"),
    ],
)
def test_a_fact_that_fits_nothing_is_named(facts, field):
    with pytest.raises(InputError) as refusal:
        cases(facts)
    assert refusal.value.field == field


def test_rows_behind_a_number():
    rows = claim_rows(["H0189", "own:H0189", "prices.csv:2", "power_and_price_estimates.csv:11"])
    assert [r["Grade"] for r in rows] == ["B", "P", "B", "E"]
    assert rows[1]["Value"] == "the scenario's own"
    assert rows[2]["Value"] == "10.5 USD/GPU-h"
    assert rows[3]["Value"] == "8.50 USD/GPU-h"


def with_systems(*blocks):
    return TEXT[: TEXT.index("[[systems]]")] + "".join(f"[[systems]]\n{b}\n" for b in blocks) + TEXT[TEXT.index("[fabric]") :]


@pytest.mark.parametrize("second", ['name = "gb300-nvl72"', 'name = "GB300 NVL72"', 'name = "gb300"\ngpu_watts = 1400'])
def test_the_same_system_twice_is_refused(second):
    with pytest.raises(InputError, match=r"systems\[1\].name must differ from systems\[0\]"):
        cases(text=with_systems('name = "gb300-nvl72"', second))


def test_systems_that_differ_in_one_thing_are_told_apart():
    found = cases(text=with_systems('name = "gb300"', 'name = "gb300"\ngpu_watts = 1200', 'name = "gb300"\nsoftware = "v5.1"'))
    assert list(found) == ["gb300-nvl72 (software current)", "gb300-nvl72 (1,200 W, software current)", "gb300-nvl72 (software v5.1)"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('model = "deepseek-ai/DeepSeek-R1"', 'model = "nobody/Nothing"', r"^mine.toml: workloads\[0\].model must be a known model"),
        ('model = "deepseek-ai/DeepSeek-R1"', 'model = "absent.json"', r"^mine.toml: absent.json: workloads\[0\].model must be a readable"),
        ('weight_format = "nvfp4"', 'weight_format = "fp4"', r"^mine.toml: workloads\[0\].weight_format is ambiguous"),
        ('profile = "upto"', "", r"^mine.toml: systems\[0\].profile must be named"),
        ('"gb300-nvl72" = {', '"gb900" = {', r"^mine.toml: prices.gb900 must be a known system"),
    ],
)
def test_what_the_plan_refuses_names_the_scenario_file(tmp_path, old, new, line):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(InputError, match=line):
        resolve(scenario.load(path))


def test_a_model_may_be_the_folder_of_a_checkpoint(tmp_path):
    inside = tmp_path / "my model"
    inside.mkdir()
    (inside / "config.json").write_text((folder("data") / "models" / "Qwen--Qwen3-8B_config.json").read_text())
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace("deepseek-ai/DeepSeek-R1", "./my model", 1))
    read = scenario.load(path)
    before = read.digest
    assert resolve(read)[0].shape.name == "my model"
    (inside / "config.json").write_text((folder("data") / "models" / "Qwen--Qwen3-32B_config.json").read_text())
    assert scenario.load(path).digest != before
