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
