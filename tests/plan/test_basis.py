"""Planning on measured or claimed throughput: the rows are named, the number is theirs, and what is not held is not available."""

import pytest

from planner import scenario
from planner.facts import mlperf
from planner.facts.files import folder
from planner.plan import plan

TEXT = (folder("scenarios") / "mlperf-offline.toml").read_text()


def options(basis, text=TEXT):
    made = plan(scenario.loads(text.replace("[plan]", f'[plan]\nbasis = "{basis}"')))
    return {o.system.split(",")[0].strip("("): o for o in made.options}


def test_measured_is_the_median_of_the_latest_round():
    found = options("measured")
    gb300 = found["gb300-nvl72"].answers["tokens_per_s_per_gpu"]
    assert (gb300.how, gb300.grade) == ("measured", "A")
    assert gb300.low <= gb300.value <= gb300.high
    rows = {r.id: r for r in mlperf.runs()}
    assert {rows[c].round for c in gb300.claims} == {"v6.1"}
    assert min(rows[c].per_accelerator for c in gb300.claims) <= gb300.value <= max(rows[c].per_accelerator for c in gb300.claims)
    rubin = found["vr-nvl72 (upto"]
    assert rubin.status == "not available"
    assert "no measured deepseek-r1 Offline result of vr-nvl72" in rubin.limit


def test_claimed_is_the_printed_ratio_on_its_own_baseline():
    measured, claimed = options("measured")["gb300-nvl72"], options("claim")
    rubin = claimed["vr-nvl72 (upto"].answers["tokens_per_s_per_gpu"]
    assert rubin.value == pytest.approx(2.5 * measured.value("tokens_per_s_per_gpu"))
    assert (rubin.how, rubin.grade, rubin.claims[0]) == ("claimed", "F", "H0073")
    assert claimed["gb300-nvl72"].status == claimed["vr-nvl72 (maxlps"].status == "not available"


def test_a_workload_without_a_benchmark_has_no_measured_number():
    found = options("measured", TEXT.replace('scenario = "offline"\n', ""))
    assert all("needs a workload with `scenario`" in o.limit for o in found.values())


def test_other_lengths_are_said():
    text = TEXT.replace("output_tokens = 3886 ", "output_tokens = 500 ")
    assert "are not this workload's" in options("measured", text)["gb300-nvl72"].answers["tokens_per_s_per_gpu"].note
