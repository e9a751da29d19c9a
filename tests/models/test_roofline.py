"""Bounds in order, and dense peaks from sheets that count sparsity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.facts import modelcards
from planner.models import roofline, transformer


def test_flops_cases_fl01_to_fl11():
    assert 100 * roofline.mfu(420e12, roofline.dense_peak_flops_per_s(1979e12, True)) == pytest.approx(42.4456796, rel=1e-4)
    assert 100 * roofline.mfu(275.6e12, 2250e12) == pytest.approx(12.2488889, rel=1e-4)
    assert roofline.dense_peak_flops_per_s(360e15, True, 72) == pytest.approx(2500e12, rel=1e-9)
    assert roofline.dense_peak_flops_per_s(1513e12, True) == pytest.approx(756.5e12, rel=1e-9)
    v3 = modelcards.load("deepseek-ai/DeepSeek-V3")
    assert 6 * v3.vocab * v3.hidden == 5560074240
    linear = sum(transformer.linear_flops_per_token(v3).values())
    assert linear / 2 < transformer.active_parameters(v3) < linear / 2 * 1.001
    with pytest.raises(InputError, match="mfu"):
        roofline.mfu(2e15, 1e15)


@given(st.floats(0, 1e18), st.floats(0, 1e15), st.floats(1e6, 1e16), st.floats(1e6, 1e13))
def test_lower_is_at_most_upper_and_upper_at_most_twice(flops, size, peak, bandwidth):
    work, rates = {"compute": flops, "hbm": size}, {"compute": peak, "hbm": bandwidth}
    lower, upper = roofline.bounds_seconds(work, rates)
    assert lower <= upper <= 2 * lower
    assert roofline.limiting(work, rates) in work


def test_touched_experts():
    assert roofline.touched_fraction(256, 8, 1) == pytest.approx(8 / 256)
    assert roofline.touched_fraction(256, 8, 1e6) == pytest.approx(1)
    assert roofline.touched_fraction(8, 8, 1) == 1


def test_attention_flops_by_hand():
    llama = modelcards.load("meta-llama/Meta-Llama-3.1-70B")
    assert transformer.attention_flops_per_token(llama, 1000) == 80 * 64 * (128 + 128) * 2 * 1000
    v3 = modelcards.load("deepseek-ai/DeepSeek-V3")
    assert transformer.attention_flops_per_token(v3, 1000, absorbed=True) == 61 * 128 * (576 + 512) * 2 * 1000
    gpt = modelcards.load("openai/gpt-oss-120b")
    assert transformer.attention_flops_per_token(gpt, 1000) == 18 * 64 * 128 * 2 * (1000 + 128)


def test_training_flops_conventions():
    llama = modelcards.load("meta-llama/Meta-Llama-3.1-405B")
    causal, full = (transformer.training_flops_per_token(llama, 8192, causal=c) for c in (True, False))
    assert causal < full
    assert causal / 1e12 == pytest.approx(2.524, rel=0.01)
