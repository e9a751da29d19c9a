"""Every input of the training, reliability, storage and RL questions refuses what it cannot use by name: no traceback, no infinity."""

import contextlib
import json

import pytest

from planner.errors import Infeasible, InputError
from planner.questions import all_questions

ASK = all_questions()
STEP = {"system": "GB200", "gpus": 1024, "model": "LLAMA3.1_405B", "layout": {"tp": 4, "pp": 8, "dp": 16, "cp": 2, "vpp": 8}, "seq": 8192,
        "global_batch": 768, "micro_batch": 1, "precision": "FP8", "recompute": "none", "fsdp": 0, "release": "MLPerf v5.0"}
CASES = [
    ("mttf", {"gpus": 1024, "population": "rsc-1"}),
    ("goodput", {"gpus": 1024, "failure_rate": 6.5e-3, "write_s": 10, "restart_s": 60, "interval_s": 600, "lag_s": 3, "gpus_per_node": 8}),
    ("checkpoint_interval", {"gpus": 1024, "gpu_mttf_days": 200, "write_s": 5}),
    ("straggler_slowdown", {"gpus": 1024, "spread": 0.02, "slow_fraction": 0.001, "slow_factor": 1.1}),
    ("spares_needed", {"gpus": 1024, "population": "rsc-1", "repair_h": 48, "availability": 0.9}),
    ("racks_to_buy", {"in_service": 14, "slow_fraction": 0.02, "false_reject": [0.01], "escape": [0.1]}),
    ("training_checkpoint_bytes", {"params": 405e9, "state_format": "adam_fp32", "quantity": "per_gpu", "gpus": 8}),
    ("replication_lag", {"params": 405e9, "wan": "100 Gb/s", "interval_s": 600, "wan_efficiency": 0.9, "round_trip_s": 0.1, "mode": "async"}),
    ("object_read_latency", {"hit_rate": 0.9, "hit_ms": 1, "miss_ms": 50}),
    ("object_read_rate", {"hit_rate": 0.9, "hit_gb_per_s": 7, "miss_gb_per_s": 0.5, "gpu_limit_gb_per_s": 6}),
    ("archive_break_even", {"tiers": ["CoreWeave Archive", "Glacier Instant Retrieval"], "reread_fraction": 0.1, "egress": True}),
    ("archive_cost", {"tier": "CoreWeave Archive", "stored_tb": 3, "reread_fraction": 0.1, "objects": 3, "usd_per_1000_requests": 0.1}),
    ("training_step", STEP), ("time_to_train", {**STEP, "tokens": 1e9, "goodput": 0.9, "usd_per_gpu_hour": 3, "quantity": "cost"}),
    ("rl_step", {"rollout_s": 100, "train_s": 30, "sync_s": 5, "mode": "async", "staleness": 1}),
    ("rl_step", {"responses": 512, "mean_tokens": 5698, "spread": 0.5, "max_tokens": 8192, "tokens_per_s_per_gpu": 400, "tpot_s": 0.03,
                 "rollout_gpus": 128, "train_s": 40, "weight_gb": 470}),
    ("rl_step", {"system": "H100", "model": "DeepSeekV3", "gpus": 256, "responses": 512, "mean_tokens": 701, "max_tokens": 1536}),
]
WRONG = [0, -1, float("nan"), float("inf"), "72", 72.5, True, None, 1e308, 10**400, "", [], {}, [1, 2], {"a": 1}, 1e-300, "1e999 s",
         {"value": None, "unit": "s"}]


@pytest.mark.parametrize(("question", "inputs"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_wrong_values_are_refused_or_answered_in_numbers(question, inputs):
    assert ASK[question].ask(inputs).value is not None
    for name in inputs:
        for value in WRONG:
            with contextlib.suppress(InputError, Infeasible):
                json.dumps(ASK[question].ask({**inputs, name: value}).as_dict(), allow_nan=False)


@pytest.mark.parametrize("size", ["tp", "pp", "vpp", "dp", "cp", "ep", "fsdp"])
def test_wrong_sizes_of_a_layout(size):
    for value in WRONG:
        with contextlib.suppress(InputError, Infeasible):
            json.dumps(ASK["training_step"].ask({**STEP, "layout": {**STEP["layout"], size: value}}).as_dict(), allow_nan=False)


def test_true_is_not_one_gpu():
    for question in ("mttf", "training_step"):
        with pytest.raises(InputError, match="gpus"):
            ASK[question].ask({**(STEP if question == "training_step" else {"population": "rsc-1"}), "gpus": True})


def test_fine_tuning_is_not_mistaken_for_training():
    with pytest.raises(InputError, match="low-rank"):
        ASK["training_step"].ask({**STEP, "release": "Megatron-Bridge 26.06 lora"})


def test_a_models_own_sizes():
    """A model that no table has, by the fields of the table of training models."""
    sizes = {"name": "GPT-3.6B", "hidden": 3072, "layers": 30, "heads": 32, "vocab": 51200, "seq": 2048}
    answer = ASK["training_step"].ask({"system": "A100", "gpus": 64, "model": sizes, "layout": {"tp": 2, "dp": 32}, "seq": 2048, "global_batch": 512,
                                       "precision": "FP16", "recompute": "full"})
    assert answer.value > 0
    for change in ({"heads": None}, {"heads": 7}, {"layers": 2.5}, {"vocab": "many"}):
        with pytest.raises(InputError, match="model"):
            ASK["training_step"].ask({"system": "A100", "gpus": 64, "model": {**sizes, **change}, "layout": {"dp": 64}, "seq": 2048,
                                      "global_batch": 512, "precision": "bf16"})


SERVED = {"tokens_per_s_per_gpu": 5, "tpot_s": 0.1, "train_s": 3}
RUN = {"step_s": 10, "steps": 1e5, "gpus": 16384}


@pytest.mark.parametrize(("question", "inputs", "words"), [
    ("time_to_train", {**RUN, "write_s": 10, "interval_s": 600}, "write_s needs how often the job stops"),
    ("time_to_train", {**RUN, "population": "rsc-1", "goodput": 0.9}, "has no effect beside a goodput"),
    ("time_to_train", {**RUN, "population": "rsc-1", "write_s": 9, "copy_gb_per_s": 9}, "no effect without store_bytes_per_s"),
    ("time_to_train", {**RUN, "population": "rsc-1", "write_s": 9, "wan_gbps": 400}, "model is required"),
    ("time_to_train", {**RUN, "tokens": 1e9, "seq": 4096, "global_batch": 2}, "a second time"),
    ("time_to_train", {**RUN, "steps": 0.5}, "steps must be 1"),
    ("training_step", {**STEP, "layout": "TP8 TP4 DP2"}, "names a size twice"),
    ("training_step", {**STEP, "layout": {"tp": 8, "tensor": 4}}, "says tp a second time"),
    ("mttf", {"gpus": 8, "failure_rate": 0.001, "gpu_mttf_days": 30}, "a second time"),
    ("mttf", {"mttf_h": 3, "job_rate_per_day": 1}, "of the whole job"),
    ("mttf", {"gpus": 8, "failure_rate": "6.5 per 1000 node-days", "population": "gpu"}, "contradicts a rate"),
    ("mttf", {"gpus": 8, "failure_rate": 1, "population": {"failure_rate": 2}}, "a second time"),
    ("interruptions", {"gpus": 8, "failure_rate": 1, "days": 3, "interruptions": 4}, "is what is asked"),
    ("checkpoint_interval", {"mttf_h": 3, "write_s": 5, "interval_s": 600}, "is what is asked"),
    ("goodput", {"mttf_h": 3, "write_s": 5, "spares": 2, "repair_h": 3}, "gpus is required"),
    ("racks_to_buy", {"in_service": 14, "slow_fraction": 0.02, "false_reject": [0.01] * 2, "escape": [0.1] * 3}, "as many stages"),
    ("racks_to_buy", {"in_service": 14, "slow_fraction": 0.02, "false_reject": 2, "escape": 0.1}, "share, not a percent"),
    ("racks_to_buy", {"in_service": 14, "slow_fraction": 0.02, "false_reject": [2], "escape": 0.1}, "false_reject"),
    ("training_checkpoint_bytes", {"model_gb": 810, "state_format": {"master": 4}}, "bytes of the weights"),
    ("training_checkpoint_bytes", {"params": 1e9, "quantity": "per_gpu"}, "gpus is required"),
    ("training_checkpoint_bytes", {"total_gb": 405, "params": 1e9}, "a second time"),
    ("training_checkpoint_bytes", {"total_gb": 405, "ema": True}, "hold it already"),
    ("rl_step", {"responses": 4, "mean_tokens": 9, "longest_tokens": 20, "spread": 0.5, "gpus": 8, **SERVED}, "a second time"),
    ("rl_step", {"rollout_s": 4, "training": 5}, "training must be an object"),
    ("rl_step", {"responses": 4, "mean_tokens": 9, "max_tokens": 20, "gpus": 8, "serving": 5, "train_s": 3}, "serving must be an object"),
    ("rl_step", {"responses": 4, "mean_tokens": 9, "max_tokens": 8, "gpus": 8, **SERVED}, "at most max_tokens"),
    ("rl_step", {"responses": 4, "mean_tokens": 9, "longest_tokens": 8, "gpus": 8, **SERVED}, "at most longest"),
    ("rl_step", {"responses": 4, "mean_tokens": 9, "max_tokens": 20, **SERVED}, "rollout_gpus is required"),
    ("annuity", {"capital": 100, "rate": 0.1, "years": 2.5}, "whole number of payments")])
def test_what_contradicts_or_would_be_ignored_is_refused(question, inputs, words):
    with pytest.raises(InputError, match=words):
        ASK[question].ask(inputs)


@pytest.mark.parametrize("rate", [{"interruptions": 419, "days": 54}, {"job_rate_per_day": 3}, {"population": "rsc-1"}, {"mttf_h": 3}])
def test_a_run_takes_as_much_longer_as_its_goodput_says_with_range_and_grade(rate):
    times = {"write_s": 10, "restart_s": 600, "interval_s": 600}
    plain, run = ASK["time_to_train"].ask(RUN), ASK["time_to_train"].ask({**RUN, **rate, **times})
    good = ASK["goodput"].ask({"gpus": 16384, **rate, **times})
    assert run.value * good.value == pytest.approx(plain.value)
    assert run.low * good.high == pytest.approx(plain.value)
    assert run.high * good.low == pytest.approx(plain.value)
    assert run.grade == max(plain.grade, good.grade)


@pytest.mark.parametrize(("question", "inputs", "words"), [
    ("rl_step", {"rollout_s": 100, "train_s": 30, "mean_tokens": 50, "training": {}, "system": "H100"}, "mean_tokens, training, system not used"),
    ("rl_step", {"system": "H100", "model": "DeepSeekV3", "gpus": 256, "responses": 512, "mean_tokens": 701, "max_tokens": 1536, "sync_s": 9},
     "sync_s not used"),
    ("mttf", {"gpus": 1024, "population": "rsc-1", "failure_rate_unit": "per gpu-day"}, "failure_rate_unit not used"),
    ("mttf", {"gpus": 1024, "failure_rate": 0.001, "counted_gpus": 8}, "counted_gpus not used"),
    ("goodput", {"mttf_h": 3, "write_s": 9, "restart_s": 9, "repair_h": 3}, "repair_h not used"),
    ("usd_per_mtok", {"price": 3, "tps": 1000, "pue": 1.2}, "pue not used"),
    ("gpu_hour_usd", {"capital": 3e4, "years": 4, "pue": 1.2}, "pue not used"),
    ("break_even_gpu_hour", {"price": 3, "speedup": 2, "usd_kwh": 0.1, "watts": 9}, "power and its price not used")])
def test_what_has_no_part_in_an_answer_is_named(question, inputs, words):
    assert words in ASK[question].ask(inputs).note


def test_an_answer_says_what_it_does_not_use_or_takes_as_zero():
    note = ASK["goodput"].ask({"mttf_h": 3, "interval_s": 600}).note
    assert "write_s not given" in note
    assert "restart_s not given" in note
    assert "gpu_watts does not change the step" in ASK["training_step"].ask({**STEP, "gpu_watts": 1000}).note
    assert "system not used" in ASK["time_to_train"].ask({**RUN, "system": "GB200"}).note
    rate = {"gpus": 1024, "failure_rate": 1e-3}
    assert "label" in ASK["mttf"].ask({**rate, "population": "rsc-1"}).note
    by_gpu = ASK["mttf"].ask({**rate, "population": "gpu"})
    assert by_gpu.value == pytest.approx(24 / 1.024)
    assert "per gpu-day" in by_gpu.note
    assert ASK["mttf"].ask({"gpus": 1024, "failure_rate": {"value": 1e-3, "population": "gpu"}}).value == by_gpu.value
