"""The serving models: parts that sum, one and many alike, better hardware never worse, a looser limit never less, whole workers by brute force."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibration.serving import constants
from planner.calibration.serving.join import newer_attention, rates, work_in
from planner.errors import Infeasible
from planner.facts import catalog, modelcards
from planner.models import residency
from planner.models.serving import search
from planner.models.serving.amounts import attention_terms, chosen, lifted, terms
from planner.models.serving.pools import Demand, highest_share, integer_split
from planner.models.serving.step import PARTS, Rates, prompt_seconds, step_parts, step_seconds
from planner.shapes import Layout

MODELS = {"deepseek-ai/DeepSeek-R1": "nvfp4", "Qwen/Qwen3-VL-235B-A22B-Instruct": "nvfp4", "meta-llama/Meta-Llama-3.1-405B": "fp8"}
LAYOUTS = [Layout(tp=4), Layout(tp=8), Layout(tp=8, ep=8), Layout(dp=8, ep=8), Layout(dp=16, ep=16)]
GB300 = catalog.system("gb300-nvl72")


@cache
def made(model, system="gb300-nvl72", context=4096):
    shape, rack = modelcards.load(model), catalog.system(system)
    work = work_in(shape, MODELS[model], rack.accelerator)
    layouts = [one for one in LAYOUTS if shape.experts or one.ep == one.dp == 1]
    found = terms(work, layouts, attention_terms(shape, [one.tp for one in layouts], context, context, 8), rack.domain_gpus)
    return found, layouts, constants.of_model(shape).eff


def speed(rack=GB300, factor=None):
    one = rates([rack], 1.5 if newer_attention(rack.accelerator) else 1.0)
    return one if factor is None else Rates(*(getattr(one, n) * f for n, f in zip(Rates.__dataclass_fields__, factor, strict=True)))


@pytest.mark.parametrize("model", MODELS)
def test_parts_sum_and_scalar_is_array(model):
    found, layouts, eff = made(model)
    batches = np.geomspace(1, 2000, 7)
    whole = step_seconds(
        lifted(found), Rates(*(np.asarray(getattr(speed(), n))[..., None] for n in Rates.__dataclass_fields__)), eff, batches, 100.0, 1.0
    )
    assert whole.shape == (len(layouts), 7)
    for i in range(len(layouts)):
        parts = step_parts(chosen(found, [i]), speed(), eff, batches[3], 100.0, 1.0)
        assert tuple(parts) == PARTS
        assert float(np.ravel(sum(parts.values()))[0]) == pytest.approx(whole[i, 3], rel=1e-12)
        assert float(step_seconds(chosen(found, [i]), speed(), eff, batches[3], 100.0, 1.0)[0]) == pytest.approx(whole[i, 3], rel=1e-12)
    assert (np.diff(whole, axis=1) > 0).all()


@pytest.mark.parametrize("model", MODELS)
def test_held_bytes_are_those_of_residency(model):
    from planner.facts.formats import weight_formats

    found, layouts, _ = made(model)
    shape = modelcards.load(model)
    for i, layout in enumerate(layouts):
        weights = sum(residency.weights_bytes_per_gpu(shape, weight_formats(shape, MODELS[model]), layout).values())
        assert found.held_bytes[i] == pytest.approx(weights, rel=1e-9)
        cache_bytes = residency.kv_bytes_per_gpu(shape, 4096, 1, 8.0, Layout(tp=layout.tp))
        assert found.cache_held_bytes[i] == pytest.approx(float(cache_bytes), rel=1e-9)


FACTORS = st.floats(1.0, 3.0)


@cache
def pairs(model):
    shape = modelcards.load(model)
    work = work_in(shape, MODELS[model], GB300.accelerator)
    memory = search.Memory(0.95 * GB300.accelerator.hbm_bytes, 5e9)
    return search.candidates(work, search.layouts(shape, 72, 72), memory, 8192, 8192, 8.0, 72, 72, 9000.0), constants.of_model(shape).eff


def most(model, limits, factor=None, more=0.0, quantile=0.99):
    found, eff = pairs(model)
    asked = Demand(8192.0, 1024.0, *limits, tail=1.5, scv=0.4, headroom=0.9, quantile=quantile)
    one = speed(GB300, factor)
    up = replace(one, flops_per_s=one.flops_per_s[..., None])
    grown = replace(found, pool_bytes=found.pool_bytes + more)
    return search.reach(grown, up, eff, asked, 3072.0, 72.0).per_gpu.max()


@settings(max_examples=25)
@given(
    st.sampled_from(list(MODELS)),
    st.tuples(FACTORS, FACTORS, FACTORS, FACTORS, FACTORS),
    st.floats(0, 1e11),
    st.floats(0.01, 0.2),
    st.floats(0.5, 10),
)
def test_better_hardware_never_serves_less(model, factor, more, tpot, ttft):
    limits = (ttft, tpot, np.inf)
    assert most(model, limits, factor, more) >= most(model, limits) * (1 - 5e-3)


@settings(max_examples=25)
@given(st.sampled_from(list(MODELS)), st.floats(0.01, 0.2), st.floats(0.5, 10), st.floats(5, 100), FACTORS, FACTORS, FACTORS)
def test_a_looser_slo_never_yields_less(model, tpot, ttft, whole, a, b, c):
    tight, loose = (ttft, tpot, whole), (ttft * a, tpot * b, whole * c)
    assert most(model, loose) >= most(model, tight) * (1 - 5e-3)
    assert most(model, tight, quantile=0.9) >= most(model, tight) * (1 - 5e-3)


@settings(max_examples=60)
@given(st.integers(2, 144), st.integers(1, 32), st.integers(1, 16), st.floats(0.1, 50), st.floats(0.1, 50))
def test_whole_workers_are_the_best_of_all(gpus, decode, prefill, a, b):
    by_hand = max((min(d * a, (gpus - d * decode) // prefill * b) for d in range(gpus // decode + 1)), default=0.0)
    fillers, decoders, carried = integer_split(gpus, decode, prefill, a, b)
    assert carried == pytest.approx(by_hand, rel=1e-12)
    assert fillers * prefill + decoders * decode <= gpus


def test_the_share_of_workers_is_the_root_of_its_equation():
    for room, service, workers, scv, q in ((1.0, 0.2, 1, 0.0, 0.99), (0.1, 0.2, 16, 1.0, 0.99), (2.0, 0.3, 4, 0.4, 0.9)):
        share = float(highest_share(room, service, workers, scv, quantile=q))
        wait = np.log(share / (1 - q)) * service * (1 + scv) / (2 * workers * (1 - share))
        assert wait == pytest.approx(room, rel=0.01)
    assert highest_share(-1.0, 0.2, 1, 0.0) == 0
    assert highest_share(0.0, 0.2, 1, 0.0) == 0
    assert highest_share(1e9, 0.2, 1, 0.0) > 0.99


def test_three_reasons_for_no_result():
    shape = modelcards.load("deepseek-ai/DeepSeek-R1")
    work = work_in(shape, "nvfp4", GB300.accelerator)
    small = [Layout(tp=8)]
    with pytest.raises(Infeasible) as weights:
        search.candidates(work, small, search.Memory(3e10, 5e9), 8192, 8192, 8.0, 72, 72)
    assert weights.value.cause == "weights"
    tight = search.candidates(work, small, search.Memory(6.2e10, 5e9), 1e6, 1e6, 8.0, 72, 72, 1e8)
    eff, asked = constants.of_model(shape).eff, Demand(8192.0, 1024.0, np.inf, np.inf, np.inf)
    up = replace(speed(), flops_per_s=speed().flops_per_s[..., None])
    with pytest.raises(Infeasible) as cache_bytes:
        search.best(tight, up, eff, asked, 3072.0, 72)
    assert cache_bytes.value.cause == "kv_cache"
    found, _ = pairs("deepseek-ai/DeepSeek-R1")
    with pytest.raises(Infeasible) as slo:
        search.best(found, up, eff, replace(asked, tpot_seconds=1e-4), 3072.0, 72)
    assert slo.value.cause == "slo"
    assert "ms" in slo.value.next_step
    near = float(slo.value.next_step.split("TPOT ")[1].split(" ms")[0]) / 1e3
    assert search.best(found, up, eff, replace(asked, tpot_seconds=near), 3072.0, 72).per_gpu > 0


def test_the_frontier_falls_with_speed_and_names_its_limit():
    found, eff = pairs("deepseek-ai/DeepSeek-R1")
    up = replace(speed(), flops_per_s=speed().flops_per_s[..., None])
    points = search.frontier(found, up, eff, Demand(8192.0, 1024.0, 5.0, np.inf, np.inf), 3072.0, 72, np.geomspace(0.2, 0.012, 12))
    served = [p.per_gpu for p in points if p]
    assert len(served) >= 10
    assert all(b <= a * (1 + 5e-3) for a, b in itertools.pairwise(served))
    assert all(p.limit for p in points if p)


def test_a_prompt_takes_longer_when_it_is_longer_and_less_on_more_gpus():
    found, _, eff = made("deepseek-ai/DeepSeek-R1")
    short, long = (prompt_seconds(found, speed(), eff, n) for n in (1000.0, 4000.0))
    assert (long > short).all()
    assert long[1] < long[0]  # TP8 against TP4


def test_a_prefill_batch_that_gb300_holds_on_two_gpus_needs_four_of_gb200():
    # the recipe's prefill worker: 64 prompts of Llama 405B at its 9,428 tokens, NVFP4 weights, FP8 cache
    from planner.facts.formats import weight_formats

    shape = modelcards.load("meta-llama/Meta-Llama-3.1-405B")
    formats = weight_formats(shape, "nvfp4")

    def holds(system, tp):
        gpu, layout = catalog.system(system).accelerator, Layout(tp=tp)
        weights = sum(residency.weights_bytes_per_gpu(shape, formats, layout).values())
        cache_bytes = float(residency.kv_bytes_per_gpu(shape, 9428, 64, 8.0, layout))
        return weights + cache_bytes < 0.95 * (gpu.hbm_bytes - gpu.reserve_bytes)

    assert [holds("gb300-nvl72", 2), holds("gb200-nvl72", 2), holds("gb200-nvl72", 4)] == [True, False, True]
