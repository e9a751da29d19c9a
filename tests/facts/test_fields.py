"""Fields of a config.json that contradict each other, are of the wrong kind, or do not fit the layers: refused by name, never guessed."""

import os

import pytest

from planner.errors import InputError
from planner.facts import modelcards
from planner.facts.attention import layer_kinds
from planner.facts.fields import normalised

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
HYBRID = {**MOE, "model_type": "nemotron_h", "layers_block_type": ["mamba", "moe", "attention", "mlp"]}


@pytest.mark.parametrize("value", ["false", "true", 0, 1, [], "no"])
@pytest.mark.parametrize("field", ["tie_word_embeddings", "tie_embeddings", "attention_bias", "use_sliding_window", "multi_query", "use_qk_norm"])
def test_yes_and_no_are_true_and_false(field, value):
    with pytest.raises(InputError, match="must be true or false"):
        modelcards.load({**DENSE, field: value})


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"n_layer": 12}, "num_hidden_layers and n_layer"),
        ({"d_model": 128}, "hidden_size and d_model"),
        ({"n_head": 4}, "num_attention_heads and n_head"),
        ({"num_kv_heads": 8}, "num_key_value_heads and num_kv_heads"),
        ({"num_local_experts": 16, "num_experts": 8}, "num_experts and num_local_experts"),
        ({"tie_word_embeddings": True, "tie_embeddings": False}, "tie_word_embeddings and tie_embeddings"),
        ({"ffn_dim": 256}, "intermediate_size and ffn_dim"),
    ],
)
def test_two_names_of_one_field_must_agree(change, names):
    with pytest.raises(InputError, match=f"{names} are two names"):
        modelcards.load({**DENSE, **change})


def test_two_names_that_agree_are_one():
    assert modelcards.load({**DENSE, "n_layer": 4, "d_model": 64, "n_inner": None}).weights == modelcards.load(DENSE).weights
    assert normalised({**DENSE, "max_position_embeddings": 8192, "seq_length": 2048})["max_position_embeddings"] == 8192


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"num_key_value_heads": 3}, r"num_key_value_heads must divide the heads \(8\)"),
        ({"num_hidden_layers": 10**9}, "at most 10,000 layers"),
        ({"n_layers": 10_001, "num_hidden_layers": None}, "at most 10,000 layers"),
        ({"num_key_value_heads": [2, 2, 1, 1]}, "a list of one a layer"),
        ({"moe_layer_freq": [0, 1, 1]}, "moe_layer_freq must have one entry for each of 4 layers"),
        ({"moe_layer_freq": [0, 1, 1, 2]}, "moe_layer_freq"),
        ({"mlp_only_layers": [4]}, "mlp_only_layers must name layers from 0 to 3"),
        ({"mlp_only_layers": [-1]}, "mlp_only_layers must name layers from 0 to 3"),
        ({"mlp_only_layers": ["0"]}, "mlp_only_layers"),
        ({"attn_layer_indices": [9]}, "attn_layer_indices"),
        ({"linear_attn_config": {"full_attn_layers": [0], "num_heads": 2, "head_dim": 8}}, "linear_attn_config.full_attn_layers"),
        ({"attn_layer_period": 4, "attn_layer_offset": 4}, "attn_layer_offset"),
        ({"sliding_window_pattern": "LLX"}, "letters L"),
        ({"sliding_window": 128}, "which layers of a llama slide"),
        ({"sliding_window": 128, "use_sliding_window": True, "model_type": "qwen3_moe"}, "which layers of a qwen3_moe slide"),
        ({"kv_lora_rank": 32, "qk_rope_head_dim": 8, "sliding_window": 128, "layer_types": ["sliding_attention"] * 4}, "latent"),
        ({"layer_types": ["full_attention"] * 4, "full_attention_interval": 2}, "layer_types and full_attention_interval must agree on layer 0"),
    ],
)
def test_contradictions_are_refused(change, line):
    with pytest.raises(InputError, match=line):
        modelcards.load({**MOE, "model_type": "llama", **change})


def test_block_types_that_contradict_the_pattern():
    assert layer_kinds(normalised(HYBRID)) == ["mamba", "mlp", "full", "mlp"]
    with pytest.raises(InputError, match="hybrid_override_pattern and layers_block_type"):
        normalised({**HYBRID, "hybrid_override_pattern": "ME-*"})


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"model_type": "gpt_oss", "sliding_window": 128}, "sfsf"),
        ({"model_type": "gemma2", "sliding_window": 128}, "sfsf"),
        ({"model_type": "cohere2", "sliding_window": 128}, "sssf"),
        ({"model_type": "exaone4", "sliding_window": 128, "sliding_window_pattern": "LLLG"}, "sssf"),
        ({"model_type": "mistral", "sliding_window": 128}, "ssss"),
        ({"model_type": "mistral", "sliding_window": None}, "ffff"),
        ({"model_type": "qwen2", "sliding_window": 128, "use_sliding_window": False}, "ffff"),
        ({"model_type": "qwen2", "sliding_window": 128, "use_sliding_window": True, "max_window_layers": 3}, "fffs"),
        ({"model_type": "brand_new", "sliding_window": 128, "use_sliding_window": False}, "ffff"),
    ],
)
def test_which_layers_slide(fields, kinds):
    assert [k[0] for k in layer_kinds({**DENSE, **fields})] == list(kinds)


def test_gemma3_sees_all_in_every_sixth_layer():
    kinds = layer_kinds({**DENSE, "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024})
    assert [i for i, kind in enumerate(kinds) if kind == "full"] == [5, 11, 17, 23, 29]


@pytest.mark.parametrize(
    ("fields", "routed"), [({"moe_layer_freq": [0, 1, 1, 1]}, 3), ({"mlp_only_layers": [0, 1]}, 2), ({"decoder_sparse_step": 2}, 2)]
)
def test_which_layers_route(fields, routed):
    assert modelcards.load({**MOE, **fields}).experts.layers == routed


def test_a_pipe_or_a_folder_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    (tmp_path / "folder.json").mkdir()
    for name in ("config.json", "folder.json"):
        with pytest.raises(InputError, match="must be a file"):
            modelcards.load(str(tmp_path / name))


NESTED = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
          "intermediate_size": 14336, "vocab_size": 128_256, "sliding_window": 4096, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
          "layer_types": ["full_attention"] * 32}


@pytest.mark.parametrize(("field", "outer"), [
    ("num_hidden_layers", 16), ("n_layers", 16), ("hidden_size", 2048), ("num_attention_heads", 16), ("num_key_value_heads", 4), ("n_kv_heads", 4),
    ("head_dim", 64), ("intermediate_size", 8192), ("vocab_size", 32_000), ("sliding_window", 1024), ("torch_dtype", "float32"),
    ("tie_word_embeddings", True), ("layer_types", ["sliding_attention"] * 32),
])
def test_one_field_beside_and_inside_the_text_part_must_agree(field, outer):
    with pytest.raises(InputError, match=rf"{field} and text_config\.\w+ .*must agree"):
        modelcards.load({field: outer, "text_config": NESTED})


def test_equal_values_beside_and_inside_are_fine():
    alone = modelcards.load(NESTED)
    twice = modelcards.load({**NESTED, "model_type": "llava", "n_layers": 32, "max_position_embeddings": 9, "text_config": NESTED})
    assert (twice.weights, twice.attention) == (alone.weights, alone.attention)


@pytest.mark.parametrize("text", ["root:secret:0:0\nmore\n", '{"a": secret}', "\n\nsecret", '["secret"]', '"secret"', "secret: [1, 2"])
def test_a_file_that_is_no_config_is_never_shown(tmp_path, text):
    for name in ("passwd", "own.json"):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError) as refusal:
            modelcards.load(str(tmp_path / name))
        assert "secret" not in str(refusal.value)
        assert name in str(refusal.value)
