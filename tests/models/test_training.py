"""The step model's laws, its memory and its search against brute force; handed cases on FLOPs and rates."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibration import training as calibration
from planner.calibration import training_estimate as estimates
from planner.errors import Infeasible, InputError
from planner.facts import catalog, training_models
from planner.facts.training_runs import runs
from planner.models.training.job import TrainingLayout, check, work
from planner.models.training.memory import memory_bounds, memory_parts
from planner.models.training.search import candidates, search
from planner.models.training.step import step_parts

JOB = work(training_models.load("LLAMA3.1_405B"), 8192)
MOE = work(training_models.load("DeepSeekV3"), 4096)
RACK = catalog.system("gb200-nvl72")
MACHINE = calibration.machine(RACK, "fp8")
EFF = estimates.efficiency(RACK, "fp8", True)
SIZES = st.sampled_from([1, 2, 4, 8])


def seconds(layout, batch=768, micro=1, job=JOB, passes=3.0):
    return sum(step_parts(job, MACHINE, EFF, layout, batch, micro, passes).values())


@settings(max_examples=60, deadline=None)
@given(tp=SIZES, pp=SIZES, vpp=SIZES, dp=SIZES, cp=SIZES, rounds=st.integers(1, 64), micro=st.sampled_from([1, 2, 4]))
def test_scalar_is_an_array_of_one_and_parts_are_positive(tp, pp, vpp, dp, cp, rounds, micro):
    vpp = vpp if pp > 1 else 1
    batch = dp * micro * rounds
    one = step_parts(JOB, MACHINE, EFF, TrainingLayout(tp, pp, vpp, dp, cp), batch, micro)
    arrays = TrainingLayout(*(np.array([v, v]) for v in (tp, pp, vpp, dp, cp, 1, 0)))
    two = step_parts(JOB, MACHINE, EFF, arrays, batch, np.array([micro, micro]))
    assert all(v >= 0 for v in one.values())
    for name, value in one.items():
        assert np.broadcast_to(two[name], 2) == pytest.approx([value, value], rel=1e-12)
    assert seconds(TrainingLayout(tp, pp, vpp, dp, cp), 2 * batch, micro) > seconds(TrainingLayout(tp, pp, vpp, dp, cp), batch, micro)
    assert seconds(TrainingLayout(tp, pp, vpp, dp, cp), batch, micro, passes=4.0) > seconds(TrainingLayout(tp, pp, vpp, dp, cp), batch, micro)


def test_limits():
    """No pipeline: no bubble. Interleaving shrinks it. A step is never faster than its FLOPs at the peak."""
    assert step_parts(JOB, MACHINE, EFF, TrainingLayout(8, 1, 1, 16), 768)["bubble"] == 0
    plain, interleaved = (step_parts(JOB, MACHINE, EFF, TrainingLayout(4, 8, v, 16, 2), 768)["bubble"] for v in (1, 8))
    assert interleaved == pytest.approx(plain / 8, rel=0.15)
    floor = JOB.flops_per_token() * 768 * 8192 / (1024 * MACHINE.peak_flops_per_s)
    assert seconds(TrainingLayout(4, 8, 8, 16, 2)) > floor


def test_uneven_stages_are_allowed_and_the_heaviest_decides():
    even, uneven = seconds(TrainingLayout(4, 7, 1, 16, 1), 1536), seconds(TrainingLayout(4, 8, 1, 16, 1), 1536)
    assert even > 0
    deep = -(-JOB.layers // 8)
    assert deep * 8 > JOB.layers
    share = step_parts(JOB, MACHINE, EFF, TrainingLayout(4, 8, 1, 16, 1), 1536)["linear"] / uneven
    assert 0 < share < 1
    ideal = step_parts(JOB, MACHINE, EFF, TrainingLayout(4, 1, 1, 16, 1), 1536)["linear"]
    heavy = step_parts(JOB, MACHINE, EFF, TrainingLayout(4, 8, 1, 16, 1), 1536)["linear"]
    scale = (1 + EFF.doubling_fraction * 3) / 1.0
    assert heavy * 8 / ideal / scale == pytest.approx(deep * 8 / JOB.layers, rel=0.01)


def test_scaling_from_one_rack_to_131072_gpus():
    """Weak scaling of one layout: each doubling costs the fitted share, and little more."""
    steps = [seconds(TrainingLayout(4, 8, 8, dp, 2), 48 * dp) for dp in (1, 16, 256, 2048)]
    assert (np.diff(steps) > 0).all()
    assert steps[-1] / steps[1] == pytest.approx(1 + EFF.doubling_fraction * 7, rel=0.05)


def test_handed_cases_on_rates():
    """TR08: FLOPs of one micro-batch over a step of eight leave an eighth. TR09: tokens over all steps, not over the last."""
    from planner.questions import all_questions

    step = {"system": "gb200-nvl72", "model": "LLAMA3.1_405B", "gpus": 64, "layout": {"tp": 4, "pp": 16, "dp": 1}, "seq": 8192, "global_batch": 8,
            "micro_batch": 1, "precision": "fp8"}
    mfu, took = (all_questions()["training_step"].ask({**step, "quantity": q, "convention": "causal"}).value for q in ("mfu", "step_s"))
    of_one = JOB.flops_per_token() * 8192 / (took * 64 * MACHINE.peak_flops_per_s)
    assert of_one / mfu == pytest.approx(0.125, rel=1e-6)
    asked = all_questions()["time_to_train"].ask({"steps": 1000, "step_s": 20})
    assert 100e6 / asked.value == pytest.approx(5000)


def test_every_published_run_fits_by_the_lower_bound():
    late = []
    for run in runs():
        if run.use != "calibration":
            continue
        row = calibration.joined(run)
        lower, upper = memory_bounds(row.work, row.layout, run.global_batch, run.micro_batch, run.full_recompute)
        assert lower <= upper
        if lower > row.machine.hbm_bytes:
            late.append(run.row)
    assert not late


def test_memory_parts_of_a_plain_case():
    """18 B a parameter before sharding: weights 2, gradients 4, state 12 (handed case TR06)."""
    parts = memory_parts(JOB, TrainingLayout(1, 1, 1, 1), 1)
    held = parts["weights"] + parts["gradients"] + parts["optimizer"]
    assert held == pytest.approx(18 * JOB.params)
    assert memory_parts(JOB, TrainingLayout(1, 1, 1, 64), 64)["optimizer"] == pytest.approx(12 * JOB.params / 64)
    assert memory_parts(JOB, TrainingLayout(1, 1, 1, 64, 1, 1, 64), 64)["weights"] == pytest.approx(2 * JOB.params / 64)
    assert sum(memory_parts(MOE, TrainingLayout(1, 2, 8, 128, 1, 32), 4096).values()) > 0


def test_search_is_the_best_of_brute_force():
    gpus, batch, kept = 64, 128, 0.35
    job = work(training_models.load("LLAMA3_70B"), 8192)
    best = search(job, MACHINE, EFF, gpus, batch, kept, best=1, fsdp=False)[0]
    least = np.inf
    for tp, pp, vpp, cp, micro in itertools.product((1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8, 16, 32, 64), range(1, 13), (1, 2), (1, 2, 4, 8)):
        dp, left = divmod(gpus, tp * pp * cp)
        deep = -(-job.layers // pp)
        if left or dp < 1 or batch % (dp * micro) or (pp == 1 and vpp > 1) or (vpp > 1 and (deep % vpp or batch // (dp * micro) % pp)):
            continue
        layout = TrainingLayout(tp, pp, vpp, dp, cp)
        held = sum(v * (kept if n == "activations" else 1) for n, v in memory_parts(job, layout, batch, micro).items())
        if held <= 0.9 * MACHINE.hbm_bytes:
            least = min(least, sum(step_parts(job, MACHINE, EFF, layout, batch, micro).values()))
    assert best.step_seconds == pytest.approx(least)
    check(job, best.layout, batch, best.micro_batch, gpus)


def test_search_refuses_in_words():
    with pytest.raises(Infeasible, match="no layout of 8 GPUs fits"):
        search(JOB, MACHINE, EFF, 8, 64, 0.35)
    with pytest.raises(Infeasible, match="divides"):
        candidates(JOB, 127, 3, 64, fsdp=False)
    with pytest.raises(InputError, match="kept_fraction"):
        search(JOB, MACHINE, EFF, 64, 64, 35)
    found = search(MOE, calibration.machine(catalog.system("gb300-nvl72"), "mxfp8"),
                   estimates.efficiency(catalog.system("gb300-nvl72"), "mxfp8", False), 256, 4096, 0.35)
    assert found[0].layout.ep > 1
    assert [f.step_seconds for f in found] == sorted(f.step_seconds for f in found)
