"""What a plan does not use is said, what it does not survive is said, and words that mean nothing are refused."""

import pytest

from planner import scenario
from planner.errors import InputErrors
from planner.facts.files import folder
from planner.plan import plan

TEXT = (folder("scenarios") / "rubin-vs-gb300.toml").read_text()


def planned(*changes, text=TEXT):
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return plan(scenario.loads(text))


def gb300(*changes):
    return next(o for o in planned(*changes).options if o.system.startswith("gb300"))


def survive(*names, spares=1):
    return gb300(('survive = ["rack"]', f"survive = {list(names)}"), ("spare_racks = 1", f"spare_racks = {spares}"))


def test_spares_are_said_to_cover_only_what_they_cover():
    assert "spare racks run hot and cover the loss" in survive("rack").answers["racks_survival"].note
    for option in (survive("rack", spares=0), survive("plane"), survive("site"), survive(spares=0)):
        assert "spare" not in option.answers["racks_survival"].note
    bare = survive("rack", spares=0)
    assert bare.value("racks_total") == bare.value("racks_serving") + 1
    assert survive("plane").answers["racks_survival"].how == "exact"


def test_a_plane_down_is_planned_on_the_fabric():
    option = survive("plane")
    assert option.value("fabric_left_plane_down") == 0.75  # one of four
    assert option.value("racks_total") == gb300(('survive = ["rack"]', "survive = []")).value("racks_total")
    assert "fabric_left_plane_down" not in survive("rack").answers
    one = gb300(('survive = ["rack"]', 'survive = ["plane"]'), ("planes = 4", "planes = 1"))
    assert one.value("fabric_left_plane_down") == 0
    assert any("survive plane is not met" in w for w in one.warnings)
    assert not any("plane" in w for w in option.warnings)


def test_a_site_and_a_shared_feed_are_said_not_to_be_planned():
    option = survive("site", "power_feed")
    said = " ".join(option.warnings)
    assert f"survive site is not planned: this scenario has one site, another needs {option.value('racks_serving'):,.0f} serving racks" in said
    assert "feeds that more racks share are not planned" in said
    assert "a site is not planned" in option.answers["racks_survival"].note


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gpu_watts = 2300", "gpu_watts = 1200", "gpu_watts 1,200 (catalogue: 2,300) changes power and not speed"),
        ("[timeline]", '[facts]\n"gb300-nvl72.gpu_watts" = 1000\n[timeline]', "gpu_watts 1,000 (catalogue: 1,400)"),
        ('"deepseek-ai/DeepSeek-R1"', '"Qwen/Qwen3-30B-A3B"', "no module for multi-token prediction"),
        ("output_tokens = 1024", "output_tokens = 1024\nimages = 2\nimage_tokens = 500", "the model has no vision part"),
        ("input_tokens = 8192 ", "input_tokens = { mean = 8192, p99 = 170000 } ", "requests of 170,000 tokens (p99) do not fit the model's 163,840"),
    ],
)
def test_an_option_says_what_has_no_effect(old, new, words):
    assert words in " ".join(w for o in planned((old, new)).options for w in o.warnings)
    assert words not in " ".join(w for o in planned().options for w in o.warnings)


def test_a_format_without_a_peak_of_its_own_is_said():
    text = TEXT[: TEXT.index("[[systems]]")] + '[[systems]]\nname = "h200-sxm"\n\n' + TEXT[TEXT.index("[fabric]") :]
    (option,) = planned(text=text).options
    assert any("weights in nvfp4 are computed at the fp8 peak" in w for w in option.warnings)


def test_a_scenario_says_what_the_plan_does_not_use():
    assert "site.electricity_usd_per_kwh and site.inlet_celsius" in " ".join(planned().warnings)
    assert "800% a month" in " ".join(planned(("growth_per_month = 0.08", "growth_per_month = 8")).warnings)
    assert "growth_per_month" not in " ".join(planned().warnings)
    labelled = planned(("slo = { ttft_s = 2.0, tpot_s = 0.0067, quantile = 0.99 }", 'scenario = "server"'))
    assert "scenario = server is a label" in " ".join(labelled.warnings)


def test_the_software_of_a_system_moves_its_throughput_and_says_how():
    def speed(word):
        option = planned(('software = "preview" ', f'software = "{word}" ')).options[0]
        return option.answers["tokens_per_s_per_gpu"]

    assert speed("preview").value < speed("mature").value
    assert "software preview at" in speed("preview").note
    assert "software" not in speed("mature").note


def test_a_tail_of_lengths_costs_throughput():
    def speed(p99):
        lengths = f"input_tokens = {{ mean = 8192, p50 = 7000, p99 = {p99} }} "
        return planned(("input_tokens = 8192 ", lengths)).options[2].value("tokens_per_s_per_gpu")

    assert speed(30000) <= speed(9000)


@pytest.mark.parametrize("word", ["bananas", "", "v6", "V6.1", "6.1", "v6.1 ", "v6.1.2.3", "preview2"])
def test_unknown_software_is_refused(word):
    with pytest.raises(InputErrors, match=r"software must be preview, current, mature or a release such as v6\.1"):
        scenario.loads(TEXT.replace('software = "preview"', f'software = "{word}"'))
    for good in ("mature", "v5.1", "v6.1.2"):
        assert scenario.loads(TEXT.replace('software = "preview"', f'software = "{good}"')).systems[0].software == good
