"""Handed cases that no other file holds by name: collectives, broken model files, limits that every recommended layout meets."""

import pytest

from planner import scenario
from planner.errors import Infeasible, InputError
from planner.facts import modelcards
from planner.facts.files import folder
from planner.models import collectives, expert_parallel
from planner.plan.case import resolve
from planner.plan.throughput import best, reach_of
from planner.questions import all_questions


def test_co02_all_gather_has_its_factor():
    assert collectives.busbw_bytes_per_s("all_gather", 8e9, 8, 0.020) == pytest.approx(350e9, rel=1e-9)


def test_co04_tokens_kept_local_are_not_sent():
    assert expert_parallel.moved_bytes_per_s(43.24e9, 2) == pytest.approx(21.62e9, rel=1e-9)


def test_co06_combine_carries_every_pick():
    assert expert_parallel.payload_bytes(128, 8, 7168, 2) == 14680064


def test_mc06_a_merge_marker_is_named_by_file_and_line(tmp_path):
    place = tmp_path / "config.json"
    place.write_text('<<<<<<< HEAD\n{"hidden_size": 8}\n')
    with pytest.raises(InputError) as refusal:
        modelcards.load(str(place))
    assert "config.json" in str(refusal.value)
    assert "line 1" in str(refusal.value)


def test_sl01_sl02_memory_is_the_cause_and_the_smallest_fit_is_named():
    ask = all_questions()["serving"].ask
    lengths = {"input_tokens": 1000, "output_tokens": 500}
    base = {"system": "h200-sxm", "model": "deepseek-ai/DeepSeek-R1", "weight_format": "fp8", "workload": lengths}
    with pytest.raises(Infeasible) as refusal:
        ask({**base, "gpus": 2, "slo": {"ttft_s": 0.6, "tpot_s": 0.03}})
    assert refusal.value.cause == "weights"
    assert "8 GPUs" in refusal.value.next_step
    with pytest.raises(Infeasible) as slow:
        ask({**base, "gpus": 8, "slo": {"ttft_s": 0.6, "tpot_s": 0.0003}})
    assert slow.value.cause == "slo"


@pytest.mark.parametrize("tpot", [0.03, 0.0067])
def test_sl05_every_recommended_layout_meets_each_limit(tpot):
    text = (folder("scenarios") / "rubin-vs-gb300.toml").read_text().replace("tpot_s = 0.0067", f"tpot_s = {tpot}")
    for case in resolve(scenario.loads(text)):
        found = best(case)
        served = found.per_gpu > 0
        assert served.all()
        assert found.tpot[0] <= tpot
        assert found.ttft[0] <= 2.0 + 1e-9
        layouts, table = reach_of(case)
        assert table.shape == (len(layouts), len(found.per_gpu))
        assert (table.max(axis=0) <= found.per_gpu + 1e-9).all()
