"""The activation peak of a serving engine: two constants fitted to what an engine printed, with the error they leave."""

from __future__ import annotations

import numpy as np

from planner.calibration.table import Constant, constant
from planner.facts import modelcards
from planner.facts.files import table
from planner.models import residency
from planner.shapes import ModelShape

NAMES = {"gpt-oss-20b": "openai/gpt-oss-20b", "Llama-3.3-70B-FP8": "nvidia/Llama-3.1-70B-Instruct-FP8",
         "Llama-3.1-8B": "meta-llama/Meta-Llama-3.1-8B", "Qwen3-0.6B": "Qwen/Qwen3-0.6B", "Qwen3-32B": "Qwen/Qwen3-32B"}
BATCHED_TOKENS, SEQUENCES = 8192, 1024  # the profiling run of the engine on this GPU kind
LEAST_ERROR = 0.025  # another engine setting than the profiled one moves the peak by at least this
EXPERT_WIDTH_MULTIPLE = 256  # to which the engine pads MXFP4 experts on Hopper
SOURCE = "data/vllm_memory_measured.csv"


def _design(shapes: list[ModelShape]) -> np.ndarray:
    return np.array([[residency.activation_bytes(s, BATCHED_TOKENS, SEQUENCES, *one) for one in ((1.0, 0.0), (0.0, 1.0))] for s in shapes])


def _solve(design: np.ndarray, peak: np.ndarray) -> np.ndarray:
    from scipy.optimize import nnls  # half a second that a plan does not need

    return nnls(design / peak[:, None], np.ones(len(peak)))[0]


def fit() -> list[Constant]:
    """Return the constants fitted on all rows, and the spread of the errors when each row is left out in turn."""
    rows = table("vllm_memory_measured.csv")
    design = _design([modelcards.load(NAMES[r["model"]]) for r in rows])
    peak = np.array([float(r["activation_peak_gib"]) for r in rows]) * 2**30
    both = _solve(design, peak)
    keep = ~np.eye(len(rows), dtype=bool)
    left_out = np.array([design[i] @ _solve(design[k], peak[k]) / peak[i] for i, k in enumerate(keep)])
    worst = max(float(np.abs(left_out - 1).max()), LEAST_ERROR)
    others = {int(r["tp"]) > 1: float(r["non_torch_gib"]) for r in rows}
    one = [float(r["non_torch_gib"]) for r in rows if r["tp"] == "1"]
    note = f"largest error of a row left out {np.abs(left_out - 1).max():.2%}"
    logit = float(both[0])
    return [Constant("bytes_per_logit", "", logit, logit * (1 - worst), logit * (1 + worst), "B", len(rows), SOURCE, note),
            Constant("bytes_per_hidden", "", float(both[1]), 0.0, float(both[1] * 4), "B", len(rows), SOURCE, "weakly identified"),
            Constant("activation_error", "", 1.0, 1 - 2 * worst, 1 + 2 * worst, "ratio", len(rows), SOURCE,
                     "twice the larger of 2.5 % and the largest error of a row left out: one GPU kind, one engine"),
            Constant("weights_error", "", 1.0, 0.999, 1.01, "ratio", len(rows), SOURCE, "an engine holds up to 0.9 % more than the tensors"),
            Constant("non_torch_bytes", "tp1", float(np.mean(one)) * 2**30, min(one) * 2**30, max(one) * 2**30, "B", len(one), SOURCE, ""),
            Constant("non_torch_bytes", "tp", others[True] * 2**30, 0.3 * 2**30, 1.0 * 2**30, "B", 1, SOURCE, "one row; range assumed")]


def activation_bytes(shape: ModelShape) -> tuple[float, float, float]:
    """Return the activation peak of one GPU as (value, low, high) [B], by the fitted constants."""
    value = residency.activation_bytes(shape, BATCHED_TOKENS, SEQUENCES, constant("residency", "bytes_per_logit").value,
                                       constant("residency", "bytes_per_hidden").value)
    error = constant("residency", "activation_error")
    return float(value), float(value * error.low), float(value * error.high)


def other_bytes(gpus: int) -> tuple[float, float, float]:
    """Return non-torch memory of one GPU as (value, low, high) [B]: more where GPUs talk to each other."""
    found = constant("residency", "non_torch_bytes", "tp1" if gpus == 1 else "tp")
    return found.value, found.low, found.high
