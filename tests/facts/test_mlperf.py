"""MLPerf rows: joins hold, quirks are flagged, lengths that nobody publishes are said to be assumed."""

import collections

import pytest

from planner.errors import InputError
from planner.facts import mlperf


def test_every_latency_row_has_its_result():
    by_key = collections.defaultdict(list)
    for run in mlperf.runs():
        by_key[run.key].append(run)
    assert len(mlperf.latencies()) == 290
    for key, measured in mlperf.latencies().items():
        rows = by_key[key]
        assert rows
        for run in rows:
            if run.metric == "tok/s":
                assert measured.tokens_per_s == pytest.approx(run.value, rel=1e-3)
                assert measured.samples_per_s * measured.mean_output_tokens == pytest.approx(run.value, rel=2e-3)


def test_compared_rows_have_one_key_and_one_kind_of_gpu():
    compared = [r for r in mlperf.runs() if r.compared]
    assert len({r.key for r in compared}) == len(compared)
    assert all(r.system for r in compared)
    assert not [r for r in compared if "open/" in r.source]


def test_rows_that_ran_another_model_keep_its_name():
    other = [r for r in mlperf.runs() if "other_model" in r.flags]
    assert {(len(other), r.model, r.compared) for r in other} == {(11, "llama3.1-70b", False)}


@pytest.mark.parametrize(("flag", "count"), [("open", 34), ("inferred", 31), ("unavailable", 6), ("low_accuracy", 2), ("virtual", 2)])
def test_flags_match_the_notes_on_the_tables(flag, count):
    assert sum(flag in r.flags for r in mlperf.runs()) == count


def test_per_accelerator_and_watts():
    run = next(r for r in mlperf.runs() if r.submitter == "AMD" and r.platform == "8xMI325X_2xEPYC_9575F_1")
    assert run.per_accelerator == pytest.approx(4315.05)
    assert {r.wall_watts is None for r in mlperf.runs() if r.submitter == "Lenovo" and r.round == "v5.1"} == {True, False}
    assert {r.gpu_watts for r in mlperf.runs() if r.system == "b300-hgx"} <= {1100, None}


def test_single_stream_is_seconds():
    slow = [r for r in mlperf.runs() if r.scenario == "SingleStream"]
    assert slow
    assert {r.metric for r in slow} == {"s"}


def test_systems_are_not_double():
    assert len(mlperf.system_rows()) == 136
    assert "closed/" in mlperf.system_rows()["v6.0", "AMD", "8xMI355X_2xEPYC_9575F"]["source"]


def test_limits_by_round():
    rules = mlperf.limits("deepseek-ai/DeepSeek-R1", "interactive")
    assert (rules["ttft_seconds"], rules["tpot_seconds"], rules["mean_output_tokens"]) == (1.5, 0.015, 3886.2274)
    assert mlperf.limits("llama2-70b-99.9", "Server")["tpot_seconds"] == 0.2
    with pytest.raises(InputError, match=r"v6\.0 or later"):
        mlperf.limits("deepseek-r1", "Interactive", "v5.1")
    with pytest.raises(InputError, match="must be one of"):
        mlperf.limits("deepseek-r1", "Fast")
    with pytest.raises(InputError, match="benchmark"):
        mlperf.limits("openai/gpt-oss-20b", "Server")
    with pytest.raises(InputError, match="round"):
        mlperf.limits("deepseek-r1", "Server", "latest")


def test_a_workload_names_its_assumed_lengths():
    found, claims = mlperf.workload("qwen3-vl-235b-a22b", "Server")
    assert (found.slo.e2e_seconds, found.output_tokens.mean, claims) == (12.0, 42.93, ("P0052",))
    with pytest.raises(InputError, match="language model"):
        mlperf.workload("dlrm-v3", "Server")
