"""What fits: hand cases, properties, and residency across racks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import Infeasible, InputError
from planner.facts import modelcards
from planner.facts.formats import number_format, weight_formats
from planner.models import residency, transformer
from planner.plan.answer import Answer, ratio
from planner.shapes import Attention, Experts, Format, Layout, ModelShape, Weight

GB, GIB = 1e9, 2.0**30
R1 = modelcards.load("deepseek-ai/DeepSeek-R1")
LLAMA = modelcards.load("meta-llama/Meta-Llama-3.1-70B")
LAYOUTS = st.sampled_from([Layout(), Layout(tp=2), Layout(tp=8), Layout(dp=8, ep=8), Layout(tp=4, pp=2), Layout(dp=32, ep=32), Layout(tp=2, pp=61)])


def toy(dense: int, routed: int, experts: int) -> ModelShape:
    """A model of one dense matrix and one matrix an expert, one byte a value."""
    weights = (Weight("attention", "q_proj", dense, 1, 1, 1), Weight("experts", "expert_up", routed // experts, 1, experts, 1))
    return ModelShape("toy", "toy", 1, 1, 1, 64, 0, weights, (Attention("full", 1, 1, 1, 1, 1, 2),), Experts(experts, 1, 1))


BYTE = {"attention": Format("byte", 8), "experts": Format("byte", 8)}


def test_mo01_resident_weights():
    assert pytest.approx(72.558) == 125.1e9 * 0.58 / GB
    shape = toy(0 + 1, 125_100_000 - 1, 1)
    assert sum(transformer.checkpoint_bytes(shape, {p: Format("x", 0.58 * 8) for p in BYTE}).values()) == pytest.approx(72_558_000, rel=1e-6)


def test_mo08_routed_experts_over_ep():
    parts = residency.weights_bytes_per_gpu(toy(1, 1_000_000, 64), BYTE, residency.check_layout({"tp": 16, "dp": 2, "ep": 32}))
    assert parts["experts"] == pytest.approx(1_000_000 / 32)


def test_mo10_dense_over_tp_and_routed_over_ep():
    parts = residency.weights_bytes_per_gpu(toy(10_000_000, 100_000_000, 64), BYTE, residency.check_layout({"tp": 8, "etp": 1, "ep": 64}))
    assert sum(parts.values()) == pytest.approx(2_812_500)


def test_mo06_spare_experts():
    assert residency.spare_experts(256, 72) == 32
    assert residency.spare_experts(256, 64) == 0


def test_mo12_shared_experts_count():
    used = {w.part: w.used for w in R1.weights if w.name in ("expert_up", "shared_expert_up") and w.part in ("experts", "shared_experts")}
    assert (used["experts"] + used["shared_experts"]) / 58 == 9


def test_precision_overhead_qu01_to_qu08():
    nvfp4, mxfp4 = number_format("nvfp4"), number_format("mxfp4")
    assert 405e9 * nvfp4.bits_per_value / 8 / GB == pytest.approx(227.8125, rel=1e-9)
    assert 16 / nvfp4.bits_per_value == pytest.approx(3.55555556, rel=1e-6)
    assert 70e9 * nvfp4.bits_per_value / 8 / GB == pytest.approx(39.375, rel=1e-9)
    assert nvfp4.bits_per_value - mxfp4.bits_per_value == 0.25
    quant = weight_formats(modelcards.load({**DENSE, "quantization_config": {"quant_algo": "NVFP4", "group_size": 16}}), None)
    assert quant["attention"].bits_per_value / 8 == 0.5625


DENSE = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
}


def test_hb01_hb02_hb04_pools():
    pool = residency.kv_pool_bytes(178.36 * GIB, 0.9, 8.58 * GIB, 9.96 * GIB, (0.07 + 0.65) * GIB)
    assert pool / GIB == pytest.approx(141.264, rel=0.003)
    assert residency.over_budget_bytes(31.38 * GIB, 0.95, 31.18 * GIB) / GIB == pytest.approx(1.369, rel=0.01)
    assert residency.kv_pool_bytes_after_weights(24 * GB, 6 * GB / 2, 0.1) / GB == pytest.approx(2.1, rel=1e-9)


def test_kv17_hidden_over_heads_is_not_the_head():
    config = {"num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64}
    ours = transformer.kv_bytes(modelcards.cache_layers(config), 1.0)
    assert 24 * 8 * (2880 // 64) * 2 * 2 / ours == pytest.approx(0.703125, rel=1e-6)


def test_fl10_sparse_and_dense_are_not_compared():
    sparse = Answer("a", 3600.0, "PFLOPS", "claimed", "B", basis="sparse")
    dense = Answer("b", 1100.0, "PFLOPS", "claimed", "B", basis="dense")
    with pytest.raises(InputError, match="sparse against dense"):
        ratio(sparse, dense)
    assert ratio(dense, dense) == 1


@settings(max_examples=40, deadline=None)
@given(LAYOUTS, st.floats(0, 1e5), st.floats(0, 4096))
def test_more_context_or_more_sequences_never_cost_less(layout, tokens, sequences):
    one, more_tokens, more = (
        residency.kv_bytes_per_gpu(R1, t, n, 8, layout)
        for t, n in ((tokens, sequences), (tokens * 1.5 + 1, sequences), (tokens, sequences * 1.5 + 1))
    )
    assert one <= more_tokens
    assert one <= more


@settings(max_examples=30, deadline=None)
@given(st.floats(1e10, 4e11), st.floats(1.0, 3.0), st.floats(256, 65536))
def test_more_hbm_never_holds_less(device, factor, tokens):
    def sequences(size):
        try:
            return residency.max_sequences(max(0.0, size - 7e10), R1, tokens, 8, Layout(dp=8, ep=8))
        except Infeasible:
            return 0

    assert sequences(device) <= sequences(device * factor)


@settings(max_examples=20, deadline=None)
@given(LAYOUTS)
def test_layouts_sum_to_at_least_the_model(layout):
    formats = weight_formats(R1, "nvfp4")
    each = sum(residency.weights_bytes_per_gpu(R1, formats, layout).values())
    whole = sum(v for p, v in transformer.checkpoint_bytes(R1, formats).items() if p != "mtp")
    assert each * layout.gpus >= whole * (1 - 1e-9)
    if layout.gpus == 1:
        assert each == pytest.approx(whole, rel=1e-12)


def test_scalar_is_array_of_one_and_tables_broadcast():
    layouts = [Layout(tp=8), Layout(dp=8, ep=8)]
    tokens, sequences = np.array([[1000.0], [2000.0]]), np.array([1.0, 64.0, 999.0])
    table = residency.free_bytes(R1, weight_formats(R1, "nvfp4"), layouts, tokens, sequences, 8, 298e9, 7e9)
    assert table.shape == (2, 2, 3)
    one = residency.free_bytes(R1, weight_formats(R1, "nvfp4"), layouts[1:], 2000.0, 999.0, 8, 298e9, 7e9)
    assert one[0] == table[1, 1, 2]


def test_longest_context_and_most_sequences_are_each_others_inverse():
    layout, pool = Layout(dp=8, ep=8), 1e11
    longest = residency.longest_context(pool, R1, 64, 8, layout)
    assert residency.max_sequences(pool, R1, longest, 8, layout) >= 64
    assert residency.max_sequences(pool, R1, longest + 1, 8, layout) < 64


def test_uneven_stages_count_the_fullest():
    stages = residency.stage_layers(R1, 7)
    assert sum(b - a for a, b in stages) == 61
    assert max(b - a for a, b in stages) == 9
    with pytest.raises(Infeasible, match="at most PP61"):
        residency.stage_layers(R1, 62)


def test_latents_are_replicated_and_heads_are_split():
    assert residency.kv_bytes_per_gpu(R1, 1000, 8, 8, Layout(tp=8)) == residency.kv_bytes_per_gpu(R1, 1000, 8, 8, Layout())
    assert residency.kv_bytes_per_gpu(R1, 1000, 8, 8, Layout(dp=8, ep=8)) == residency.kv_bytes_per_gpu(R1, 1000, 8, 8, Layout()) / 8
    assert residency.kv_bytes_per_gpu(LLAMA, 1000, 8, 8, Layout(tp=8)) == residency.kv_bytes_per_gpu(LLAMA, 1000, 8, 8, Layout()) / 8


@given(st.floats(1e11, 1e15), st.integers(0, 5000))
@settings(max_examples=30, deadline=None)
def test_tiers_hold_everything_once(needed, racks):
    shares = residency.tier_shares(needed, {"HBM": 2e13, "LPDDR": 5e13, "NVMe": 2.8e14}, racks)
    assert sum(shares.values()) == pytest.approx(1)
    assert all(s >= 0 for s in shares.values())
    assert residency.tier_shares(needed, {"HBM": 2e13}, racks + 1)["HBM"] >= shares["HBM"] - 1e-12


@pytest.mark.parametrize("bad", [-1, float("nan"), "many", True])
def test_bad_numbers_name_the_argument(bad):
    with pytest.raises(InputError, match="tokens"):
        transformer.kv_bytes(R1.attention, bad)
    with pytest.raises(InputError, match="device_bytes"):
        residency.kv_pool_bytes(bad, 0.9, 1, 1, 1)
    with pytest.raises(InputError, match="memory_utilisation"):
        residency.kv_pool_bytes(1e11, 90, 1, 1, 1)
