"""config.json files: old names, contradictions, bad JSON, and which of the catalogue's models are refused, with the reason."""

import pytest

from planner.errors import InputError
from planner.facts import modelcards
from planner.facts.formats import number_format
from planner.models.transformer import kv_bytes

DENSE = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
}
MOE = {**DENSE, "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
REFUSED = {
    "deepseek-ai/DeepSeek-V4-Flash": "hc_mult",
    "deepseek-ai/DeepSeek-V4-Pro": "hc_mult",
    "nvidia/DeepSeek-V4-Flash-NVFP4": "hc_mult",
    "nvidia/DeepSeek-V4-Pro-NVFP4": "hc_mult",
    "nvidia/Gemma-4-26B-A4B-NVFP4": "vocab_size_per_layer_input",
    "nvidia/Gemma-4-31B-IT-NVFP4": "vocab_size_per_layer_input",
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1": "block_configs",
    "sgl-project/DeepSeek-V4-Flash-FP8": "model_type",
    "sgl-project/DeepSeek-V4-Pro-FP8": "model_type",
}


@pytest.mark.parametrize("name", modelcards.catalogue())
def test_catalogue_loads_or_names_the_field(name):
    if name in REFUSED:
        with pytest.raises(InputError, match=REFUSED[name]):
            modelcards.load(name)
    else:
        assert sum(w.total for w in modelcards.load(name).weights) > 5e8


@pytest.mark.parametrize("name", ["DeepSeek-R1", "deepseek-r1", "deepseek-ai/DeepSeek-R1-0528", "DEEPSEEK-R1"])
def test_spellings(name):
    assert modelcards.load(name).hidden == 7168


def test_old_names_give_the_same_shape():
    old = {"model_type": "llama", "n_embd": 64, "n_layer": 4, "n_head": 8, "n_kv_heads": 2, "n_inner": 128, "vocab_size": 100}
    assert modelcards.load(old).weights == modelcards.load(DENSE).weights


def test_absent_kv_heads_are_said():
    shape = modelcards.load({k: v for k, v in DENSE.items() if k != "num_key_value_heads"})
    assert "equal to the number of heads" in shape.notes[0]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"num_key_value_heads": 0}, "num_key_value_heads"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"hidden_size": 64.5}, "hidden_size"),
        ({"hidden_size": "64"}, "hidden_size"),
        ({"num_hidden_layers": -1}, "num_hidden_layers"),
        ({"layer_types": ["full_attention"] * 3}, "one entry for each of 4 layers"),
        ({"layer_types": ["odd"] * 4}, "not understood"),
        ({"layer_types": ["sliding_attention"] * 4}, "sliding_window"),
        ({"num_key_value_heads": 16}, "at most the heads"),
        ({"hidden_size": 60}, "head_dim must be given"),
        ({"num_kv_shared_layers": 2}, "num_kv_shared_layers"),
        ({"model_type": "deepseek_v3"}, "kv_lora_rank"),
        ({"model_type": "gemma4_text"}, "vocab_size_per_layer_input"),
    ],
)
def test_contradictions_are_refused(change, line):
    with pytest.raises(InputError, match=line):
        modelcards.load({**DENSE, **change})


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"num_experts_per_tok": 9}, "at most the number of experts"),
        ({"num_experts_per_tok": 0}, "num_experts_per_tok"),
        ({"n_shared_experts": -1}, "n_shared_experts"),
        ({"moe_intermediate_size": None, "intermediate_size": None}, "moe_intermediate_size"),
    ],
)
def test_expert_contradictions_are_refused(change, line):
    with pytest.raises(InputError, match=line):
        modelcards.load({**MOE, **change})


def test_mc02_missing_sizes_are_listed():
    with pytest.raises(InputError, match="hidden_size, num_hidden_layers, num_attention_heads"):
        modelcards.load({"model_type": "new_arch", "vocab_size": 151936})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<<<<<<< HEAD\n{}", "line 1"),
        ('{"a": NaN}', "finite"),
        ('{"a": Infinity}', "finite"),
        ('{"a": 1e400}', "finite"),
        ('{"a": 1, "a": 2}', "given twice"),
        ('{"a": ' + "9" * 5000 + "}", "readable numbers"),
        ("[1]", "one JSON object"),
        ("", "line 1"),
        ("[" * 100_000, "few brackets"),
    ],
)
def test_bad_json_names_file_and_line(tmp_path, text, line):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=line) as refusal:
        modelcards.load(str(path))
    assert "config.json" in str(refusal.value)


def test_a_path_is_read_with_its_quantisation_file(tmp_path):
    import json

    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps({"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]}})
    )
    assert modelcards.load(str(tmp_path / "config.json")).quantisation["attention"] == "nvfp4"


def test_unknown_model_types_are_said():
    assert "read as a Llama-like model" in modelcards.load({**DENSE, "model_type": "brand_new"}).notes[0]


def test_kv11_full_attention_interval():
    config = {
        **DENSE,
        "num_hidden_layers": 40,
        "full_attention_interval": 4,
        "linear_num_value_heads": 2,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_conv_kernel_dim": 4,
    }
    assert sum(a.layers for a in modelcards.cache_layers(config) if a.kind == "full") == 10


def test_e02_a_latent_model_without_its_rank_is_refused():
    with pytest.raises(InputError, match="kv_lora_rank"):
        modelcards.cache_layers({**DENSE, "model_type": "deepseek_v3"})


def test_nested_text_config():
    assert modelcards.load({"text_config": DENSE, "vision_config": {}}).weights == modelcards.load(DENSE).weights
    assert modelcards.load({"thinker_config": {"text_config": DENSE}}).weights == modelcards.load(DENSE).weights


@pytest.mark.parametrize(
    ("name", "bits"), [("nvfp4", 4.5), ("NVFP4", 4.5), ("mxfp4", 4.25), ("fp8", 8), ("e4m3", 8), ("bf-16", 16), ("w4a16", 4.125)]
)
def test_format_names(name, bits):
    assert number_format(name).bits_per_value == bits


@pytest.mark.parametrize("name", ["fp4", "8bit", "auto", "", "fp5", "w4a8"])
def test_ambiguous_or_unknown_formats_are_refused(name):
    with pytest.raises(InputError):
        number_format(name)


def test_longer_context_never_lowers_the_cache():
    import numpy as np

    for name in ("openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V3.2", "Qwen/Qwen3.5-397B-A17B", "moonshotai/Kimi-K3"):
        sizes = kv_bytes(modelcards.load(name).attention, np.arange(0, 5000, 7.0))
        assert (np.diff(sizes) >= 0).all()
        assert sizes[10] == kv_bytes(modelcards.load(name).attention, 70.0)


LLAMA_LIKE = {"tie_word_embeddings": False}
UNSEEN = [
    (
        "qwen2",
        7615616512,
        {
            "hidden_size": 3584,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "intermediate_size": 18944,
            "vocab_size": 152064,
            **LLAMA_LIKE,
        },
    ),
    (
        "mistral",
        7241732096,
        {
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 14336,
            "vocab_size": 32000,
            **LLAMA_LIKE,
        },
    ),
    (
        "gemma2",
        9241705984,
        {
            "hidden_size": 3584,
            "num_hidden_layers": 42,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "intermediate_size": 14336,
            "vocab_size": 256000,
            "sliding_window": 4096,
        },
    ),
    (
        "deepseek_v2",
        15706484224,
        {
            "hidden_size": 2048,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "kv_lora_rank": 512,
            "q_lora_rank": None,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "n_routed_experts": 64,
            "num_experts_per_tok": 6,
            "n_shared_experts": 2,
            "moe_intermediate_size": 1408,
            "intermediate_size": 10944,
            "first_k_dense_replace": 1,
            "vocab_size": 102400,
            "topk_method": "greedy",
            **LLAMA_LIKE,
        },
    ),
    (
        "qwen2_moe",
        14315784192,
        {
            "hidden_size": 2048,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 5632,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "vocab_size": 151936,
            **LLAMA_LIKE,
        },
    ),
]
UNSEEN += [
    (
        "starcoder2",
        3030371328,
        {
            "hidden_size": 3072,
            "num_hidden_layers": 30,
            "num_attention_heads": 24,
            "num_key_value_heads": 2,
            "intermediate_size": 12288,
            "vocab_size": 49152,
            "use_bias": True,
        },
    ),
    (
        "cohere",
        34980831232,
        {
            "hidden_size": 8192,
            "num_hidden_layers": 40,
            "num_attention_heads": 64,
            "num_key_value_heads": 64,
            "intermediate_size": 22528,
            "vocab_size": 256000,
        },
    ),
    (
        "cohere2",
        8028033024,
        {
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 14336,
            "vocab_size": 256000,
            "sliding_window": 4096,
            "sliding_window_pattern": 4,
        },
    ),
]


@pytest.mark.parametrize(("kind", "total", "config"), UNSEEN, ids=[u[0] for u in UNSEEN])
def test_families_outside_the_catalogue_by_their_public_totals(kind, total, config):
    assert sum(w.total for w in modelcards.load({"model_type": kind, **config}).weights) == total


def test_llama4_attends_in_chunks_in_three_of_four_layers():
    kinds = {a.kind: (a.layers, a.window) for a in modelcards.load("meta-llama/Llama-4-Maverick-17B-128E-Instruct").attention}
    assert kinds == {"full": (12, 0), "sliding": (36, 8192)}


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("gpt2", "n_positions"),
        ("opt", "word_embed_proj_dim"),
        ("bloom", "model_type"),
        ("gpt_neox", "use_parallel_residual"),
        ("gptj", "rotary_dim"),
        ("gpt_neo", "attention_types"),
        ("mpt", "attn_config"),
        ("falcon", "new_decoder_architecture"),
        ("dbrx", "ffn_config"),
        ("minimax_text_01", "attn_type_list"),
        ("recurrent_gemma", "block_types"),
        ("whisper", "encoder_layers"),
    ],
)
def test_families_that_are_no_llama_are_refused_by_field(kind, field):
    with pytest.raises(InputError, match=field):
        modelcards.load({**DENSE, "model_type": kind})


@pytest.mark.parametrize(
    "change",
    [
        {"attn_config": {"kv_n_heads": 8}},
        {"attn_type_list": [0, 0, 0, 1]},
        {"attn_type_list": [1, 1]},
        {"block_types": ["recurrent", "recurrent", "attention"]},
        {"encoder_layers": 6},
        {"is_encoder_decoder": True},
        {"attention_types": [[["global", "local"], 2]]},
    ],
)
def test_fields_that_change_the_cache_in_ways_not_understood_are_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        modelcards.cache_layers({**DENSE, **change})
    assert modelcards.cache_layers({**DENSE, "attn_type_list": [1, 1, 1, 1], "encoder_layers": 0}) == modelcards.cache_layers(DENSE)


@pytest.mark.parametrize(
    ("change", "heads"),
    [
        ({"multi_query": True}, 1),
        ({"multi_query": True, "num_kv_heads": 71}, 1),
        ({"multi_query": True, "new_decoder_architecture": False, "num_kv_heads": 71}, 1),
        ({"multi_query": False}, 71),
        ({"multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 1}, 1),
        ({"multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 71}, 71),
    ],
)
def test_kv_heads_of_falcon(change, heads):
    falcon = {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "vocab_size": 65024}
    assert modelcards.cache_layers({**falcon, **change})[0].kv_heads == heads


def test_biases_follow_the_fields_of_their_family():
    def more(kind, **fields):
        plain = {**DENSE, "model_type": kind}
        return sum(w.total for w in modelcards.load({**plain, **fields}).weights) - sum(w.total for w in modelcards.load(plain).weights)

    queries_keys_values = 4 * (64 + 16 + 16)
    assert more("qwen3", attention_bias=True) == more("llama", attention_bias=True) == queries_keys_values + 4 * 64
    assert more("glm4_moe", attention_bias=True) == queries_keys_values  # its output projection has none
    assert more("llama", mlp_bias=True) == 4 * (2 * 128 + 64)
    assert more("cohere", use_qk_norm=True) == 4 * (64 + 16)
    assert more("starcoder2", use_bias=False) == -(queries_keys_values + 4 * 64 + 4 * (128 + 64))
