"""Handed cases of sizes, units and peaks that are answered through questions, facts or units, each by its id."""

import pytest

from planner.errors import InputError
from planner.facts import catalog, modelcards
from planner.facts.formats import number_format
from planner.questions import all_questions
from planner.units import convert

ASK = all_questions()
V3 = {
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "first_k_dense": 3,
    "num_attention_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "vocab_size": 129280,
}
EIGHT = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 32000,
}


def ask(question, **inputs):
    return ASK[question].ask(inputs)


@pytest.mark.parametrize("kind", [{}, {"model_type": "deepseek_v3"}])
def test_mo02_and_mo03_from_the_shape(kind):
    assert ask("parameters", model={**V3, **kind}).value == pytest.approx(671026419200, rel=1e-4)
    assert ask("parameters", model={**V3, **kind}, part="active").value == pytest.approx(36625618432, rel=1e-3)
    assert "first_k_dense" not in ask("parameters", model={**V3, **kind}).note


def test_mo05_a_total_needs_no_top_k_and_active_parameters_do():
    answer = ask("parameters", model=EIGHT)
    assert answer.value == 46702792704
    assert "what a token uses is not known" in answer.note
    assert ask("checkpoint_bytes", model=EIGHT).value == 2 * 46702792704
    with pytest.raises(InputError, match="num_experts_per_tok"):
        ask("parameters", model=EIGHT, part="active")
    with pytest.raises(InputError, match="num_experts_per_tok"):
        ask("parameters", model={**EIGHT, "num_experts_per_tok": 0})


def test_kv18_groups_are_a_count_of_kv_heads():
    (layers,) = modelcards.cache_layers({"n_heads": 24, "n_kv_groups": 8, "n_layers": 2, "d_model": 3072})
    assert layers.kv_heads == 8


def test_qu02_qu03_qu07_bits():
    nvfp4, mxfp4 = number_format("nvfp4").bits_per_value, number_format("mxfp4").bits_per_value
    assert 16 / nvfp4 == pytest.approx(3.55555556, rel=1e-6)
    assert 70e9 * nvfp4 / 8 / 1e9 == pytest.approx(39.375, rel=1e-9)
    assert nvfp4 - mxfp4 == 0.25


@pytest.mark.parametrize(
    ("case", "value", "unit", "to", "expected"),
    [
        ("UN01", 183359, "MiB", "GB", 192.265847),
        ("UN03", 80, "GB", "MiB", 76293.9453),
        ("UN04", 53687091200, "B/s", "GB/s", 53.6870912),
        ("UN08", 235, "GB/s", "Gb/s", 1880),
    ],
)
def test_units(case, value, unit, to, expected):
    assert convert(value, unit, to) == pytest.approx(expected, rel=1e-6)


def test_fl03_fl06_dense_peaks_of_the_catalogue():
    assert 275.6e12 / catalog.system("b300-hgx").accelerator.peak_flops_per_s["bf16"] == pytest.approx(0.122488889, rel=1e-4)
    assert catalog.system("gb300-nvl72").accelerator.peak_flops_per_s["bf16"] == pytest.approx(360e15 / 2 / 72, rel=1e-9)
    with pytest.raises(InputError, match="must be a known system"):
        catalog.system("NVIDIA B900 SXM9")


def test_fl09_total_against_active_parameters():
    shares = [ask("parameters", model="deepseek-ai/DeepSeek-R1", part=part).value for part in ("total", "active")]
    assert shares[0] / shares[1] == pytest.approx(671 / 37, rel=0.02)  # the case rounds both
