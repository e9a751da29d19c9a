"""Published steps of reinforcement learning and weight updates, fitted: fixed time, latency of the longest response, work."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import nnls

from planner.calibration.table import Constant, constant
from planner.errors import InputError
from planner.facts import training_models
from planner.facts.files import table
from planner.facts.names import resolve_system
from planner.shapes import ModelShape

SOURCE = "data/checkpoint_rl.csv"
NAMES = {"deepseek v3": "DeepSeekV3", "qwen3-235b": "Qwen3_235B_a22B", "qwen3-30b3a": "Qwen3_30B_a3B"}
SYSTEMS = ("h100-sxm", "gb200-nvl72")


@dataclass(frozen=True)
class RlRun:
    """One published synchronous step: responses [1], mean and longest tokens [token], gpus [1], step [s]."""

    row: str
    shape: ModelShape
    system: str
    gpus: int
    responses: int
    mean_tokens: float
    cap_tokens: float
    step_seconds: float


@cache
def steps() -> tuple[RlRun, ...]:
    """Return the on-policy steps of data/checkpoint_rl.csv whose note carries the lengths."""
    found = []
    for row in table("checkpoint_rl.csv"):
        note = row["note"]
        lengths = re.search(r"max seq (\d+), mean gen len (\d+); G-GBS (\d+)", note)
        if row["kind"] == "rl_step_time" and lengths and "on-policy" in row["system"]:
            longest, mean, responses = (int(v) for v in lengths.groups())
            shape = training_models.load(NAMES[row["model"].lower()])
            found.append(RlRun(row["id"], shape, resolve_system(row["gpu_type"]), int(row["gpus"]), responses, mean, longest, float(row["value"])))
    return tuple(found)


def features(shape: ModelShape, gpus: float, responses: float, mean_tokens: float, cap_tokens: float) -> np.ndarray:
    """Return what the three constants multiply: 1, layers x longest tokens, layers x tokens a GPU.

    The two systems with published steps do not differ beyond the error: more constants fit better and predict a left-out step worse.
    """
    return np.array([1.0, shape.layers * cap_tokens, shape.layers * responses * mean_tokens / gpus])


CONSTANTS = (("fixed_seconds", "s"), ("layer_seconds_per_token", "s"), ("work_seconds_per_token_layer", "s"))


def _solve(runs: list[RlRun]) -> np.ndarray:
    design = np.array([features(r.shape, r.gpus, r.responses, r.mean_tokens, r.cap_tokens) for r in runs])
    measured = np.array([r.step_seconds for r in runs])
    scale = np.abs(design).max(0)
    return nnls(design / measured[:, None] / scale, np.ones(len(runs)))[0] / scale


def _updates() -> tuple[np.ndarray, np.ndarray]:
    """Return (bytes of one copy, seconds) of the published weight updates of whole models."""
    sizes, seconds = [], []
    for row in table("checkpoint_rl.csv"):
        if row["metric"] == "update_s" and row["system"].split()[-1] in ("broadcast", "p2p"):
            sizes.append(float(row["params_b"]) * 1e9 * (2 if "BF16" in row["model"] else 1))
            seconds.append(float(row["value"]))
    return np.array(sizes), np.array(seconds)


def _overlapped() -> Constant:
    """Return GPU-seconds of the one published asynchronous step over those of the same model's synchronous one."""
    row = next(r for r in table("checkpoint_rl.csv") if r["kind"] == "rl_step_time" and "off-policy" in r["system"])
    shape, system = training_models.load(NAMES[row["model"].lower()]), resolve_system(row["gpu_type"])
    same = next(r for r in steps() if r.shape.name == shape.name and r.system == system)
    ratio = float(row["value"]) * float(row["gpus"]) / (same.step_seconds * same.gpus)
    return Constant("asynchronous_gpu_seconds", "", ratio, 0.6 * ratio, 1.4 * ratio, "ratio", 1, SOURCE, f"{row['id']} over {same.row}: one pair")


def asynchronous_step(shape: ModelShape, system: str, gpus: float, responses: float, mean_tokens: float) -> tuple[float, float, float, str]:
    """Return (value, low, high) [s] and the row it rests on: the GPU-seconds of the model's published synchronous step, spread over the GPUs.

    Overlap removes the fixed time and the tail from the step's length, not from the GPUs' bill. Raises: InputError without such a step.
    """
    same = [r for r in steps() if r.shape.name == shape.name and r.system == system]
    if not same:
        raise InputError("model", shape.name, f"has no published step on {system}: give the phases of an asynchronous step")
    base = min(same, key=lambda r: r.step_seconds * r.gpus)
    ratio = constant("rl", "asynchronous_gpu_seconds")
    scale = base.step_seconds * base.gpus * responses * mean_tokens / (base.responses * base.mean_tokens) / gpus
    return scale * ratio.value, scale * ratio.low, scale * ratio.high, base.row


def fit() -> list[Constant]:
    """Return the constants of the steps and of the weight updates, and the error of each step left out."""
    runs = list(steps())
    values = _solve(runs)
    errors = []
    for index, run in enumerate(runs):
        kept = runs[:index] + runs[index + 1:]
        guess = features(run.shape, run.gpus, run.responses, run.mean_tokens, run.cap_tokens) @ _solve(kept)
        errors.append(float(guess / run.step_seconds - 1))
    spread = float(np.sqrt(np.mean(np.square(errors))))
    found = [Constant(name, "", float(v), float(v) * (1 - spread), float(v) * (1 + spread), unit, len(runs), SOURCE, "")
             for (name, unit), v in zip(CONSTANTS, values, strict=True)]
    found += [Constant("left_out_error", r.row, e, -1.28 * spread, 1.28 * spread, "1", 1, SOURCE, "one step left out at a time")
              for r, e in zip(runs, errors, strict=True)]
    found.append(Constant("left_out_median", "", float(np.median(np.abs(errors))), 0.0, spread, "1", len(runs), SOURCE, "high: root mean square"))
    found.append(_overlapped())
    sizes, seconds = _updates()
    line = nnls(np.array([np.ones(len(sizes)), sizes]).T / seconds[:, None], np.ones(len(sizes)))[0]
    worst = float(np.abs((line[0] + line[1] * sizes) / seconds - 1).max())
    found.append(Constant("update_fixed_seconds", "", float(line[0]), 0.0, 2.0, "s", len(sizes), SOURCE, f"largest error {worst:.0%}"))
    rate = float(1 / line[1])
    found.append(Constant("update_bytes_per_s", "", rate, rate * (1 - worst), rate * (1 + worst), "B/s", len(sizes), SOURCE, "one instance"))
    return found


def step(shape: ModelShape, system: str, gpus: float, responses: float, mean_tokens: float, cap_tokens: float) -> dict[str, float]:
    """Return a synchronous step by part [s]: fixed, longest_response, work; and spread [1], the error of steps left out.

    Raises: InputError for a system without published steps.
    """
    if system not in SYSTEMS:
        raise InputError("system", system, f"has no published step of reinforcement learning: give the phases, or use {' or '.join(SYSTEMS)}")
    terms = features(shape, gpus, responses, mean_tokens, cap_tokens) * [constant("rl", name).value for name, _ in CONSTANTS]
    return {"fixed": float(terms[0]), "longest_response": float(terms[1]), "work": float(terms[2]), "spread": constant("rl", "left_out_median").high}
