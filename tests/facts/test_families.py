"""Decoder families: totals to the last parameter against another implementation's tensors, and what is refused with its reason."""

import json

import pytest

from planner.errors import InputError
from planner.facts import families, modelcards
from planner.facts.files import table
from planner.models.transformer import parameters

ROWS = table("references/model_families.csv")
REFUSED = table("model_families_refused.csv")
SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
}
MOE = {**SMALL, "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


@pytest.mark.parametrize("row", ROWS, ids=[r["case"] for r in ROWS])
def test_totals_of_families_are_exact(row):
    shape = modelcards.load(json.loads(row["inputs"])["model"])
    assert sum(n for part, n in parameters(shape).items() if part != "mtp") == int(row["expected"])
    assert not any(note.startswith("model_type") for note in shape.notes)


@pytest.mark.parametrize("row", REFUSED, ids=[r["model_type"] for r in REFUSED])
def test_families_that_are_not_understood_are_refused_with_the_reason(row):
    with pytest.raises(InputError, match="model_type is not understood") as refusal:
        modelcards.load({**SMALL, "model_type": row["model_type"]})
    assert row["reason"] in str(refusal.value)


def test_no_family_is_both_read_and_refused():
    read = {r["model_type"] for r in table("model_families.csv")}
    assert not read & set(families.refused())
    assert len(read) == len(table("model_families.csv"))
    assert len(REFUSED) == len(families.refused())


@pytest.mark.parametrize("field", families.MORE_TENSORS)
def test_fields_that_add_tensors_are_refused_whatever_the_type(field):
    for kind in ("llama", "brand_new"):
        with pytest.raises(InputError, match=field):
            modelcards.load({**SMALL, "model_type": kind, field: 2})


@pytest.mark.parametrize(
    "change",
    [
        {"vision_config": {"model_type": "clip_vision_model", "hidden_size": 8}},
        {"vision_config": {"hidden_size": 8}},
        {"audio_config": {"model_type": "whisper"}},
        {"vision_tower": "openai/clip"},
        {"thinker_config": {"text_config": {**SMALL, "model_type": "qwen2"}, "audio_config": {"d_model": 8}}},
    ],
)
def test_towers_that_are_not_understood_are_refused_never_left_out(change):
    with pytest.raises(InputError, match="give the text_config alone"):
        modelcards.load({"model_type": "some_vl", "text_config": {**SMALL, "model_type": "llama"}, **change})


@pytest.mark.parametrize("kind", ["gemma3", "llama4", "mistral3", "qwen2_vl", "qwen2_5_vl"])
def test_a_tower_without_its_sizes_names_the_missing_one(kind):
    with pytest.raises(InputError, match=r"vision_config\.\w+ must be a whole number >= 1, got None"):
        modelcards.load({"model_type": kind, "text_config": {**SMALL, "model_type": "llama"}, "vision_config": {"model_type": "x"}})


def test_two_answers_about_tied_embeddings_are_refused():
    with pytest.raises(InputError, match="tie_word_embeddings"):
        modelcards.load({"model_type": "mistral3", "tie_word_embeddings": True, "text_config": {**SMALL, "tie_word_embeddings": False}})


def test_a_list_of_dense_and_sparse_layers_says_which_have_experts():
    listed = modelcards.load({**MOE, "mlp_layer_types": ["dense", "sparse", "sparse", "dense"]})
    assert listed.experts.layers == 2
    for change in ({"mlp_layer_types": ["dense"]}, {"mlp_layer_types": ["dense"] * 3 + ["odd"]}):
        with pytest.raises(InputError, match="mlp_layer_types"):
            modelcards.load({**MOE, **change})
    with pytest.raises(InputError, match="same dense layers"):
        modelcards.load({**MOE, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "first_k_dense_replace": 2})


@pytest.mark.parametrize(("kind", "field"), [("hy_v3", "mlp_bias"), ("ernie4_5_moe", "use_bias"), ("aria_text", "mlp_bias")])
def test_a_bias_whose_tensors_are_not_known_is_refused(kind, field):
    with pytest.raises(InputError, match=f"{field} is not understood"):
        modelcards.load({**MOE, "model_type": kind, field: True})


def test_a_cache_may_be_known_where_the_tensors_are_not():
    assert modelcards.understood({**SMALL, "model_type": "gpt2"})
    assert not modelcards.understood({**SMALL, "model_type": "brand_new"})
    shape = modelcards.load({**SMALL, "model_type": "brand_new"})
    assert shape.upper_bound
    assert "upper bound" in shape.notes[0]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"text_config": "x"}, "text_config must be an object"),
        ({"vision_config": [1]}, "vision_config must be an object"),
        ({"vision_config": {"depth": 1}, "text_config": SMALL, "model_type": []}, "model_type must be text"),
        ({"num_nextn_predict_layers": 10**8}, "num_nextn_predict_layers must be at most"),
        ({"cla_share_factor": 5}, "cla_share_factor must be at most the layers"),
        ({"indexer_types": ["full"]}, "indexer_types must have one entry for each of 4 layers"),
        ({"compress_ratios": [-1] * 4}, "compress_ratios must be whole numbers"),
        ({"num_key_value_heads": 5}, "num_key_value_heads must divide the heads"),
    ],
)
def test_refusals_name_the_model_and_the_field(change, line):
    with pytest.raises(InputError, match=f"^mine: {line}"):
        modelcards.load({"name": "mine", **SMALL, **change})


def test_a_config_nested_without_end_is_refused():
    nested = SMALL
    for _ in range(3000):
        nested = {"text_config": nested}
    with pytest.raises(InputError, match="nested so deep"):
        modelcards.load(nested)


def test_e02_fields_that_are_not_known_are_said():
    notes = modelcards.load({**SMALL, "torch_dtype": "bfloat16", "rope_theta": 1e6, "new_sort_of_cache": 3, "zebra\x1b[2J": 1}).notes
    assert notes == ("fields that are not known are not read: new_sort_of_cache, zebra?[2J",)
    assert modelcards.load({**SMALL, "torch_dtype": "bfloat16"}).notes == ()
    assert "taken as BF16" in modelcards.load(SMALL).notes[0]


def test_a_shared_mlp_of_granite_is_counted():
    plain = {**SMALL, "model_type": "granitemoeshared", "num_local_experts": 8, "num_experts_per_tok": 2}
    more = {**plain, "shared_intermediate_size": 96}
    assert sum(parameters(modelcards.load(more)).values()) - sum(parameters(modelcards.load(plain)).values()) == 4 * 3 * 64 * 96


def test_llama4_says_layer_by_layer_which_attend_in_chunks():
    scout = {**SMALL, "model_type": "llama4_text", "attention_chunk_size": 64}
    by_rule = {a.kind: a.layers for a in modelcards.cache_layers(scout)}
    assert by_rule == {"full": 1, "sliding": 3}
    assert {a.kind: a.layers for a in modelcards.cache_layers({**scout, "no_rope_layers": [1, 0, 1, 0]})} == {"full": 2, "sliding": 2}
    assert {a.kind: a.layers for a in modelcards.cache_layers({**scout, "no_rope_layers": []})} == by_rule
    for bad in ([1, 0], [1, 0, 2, 0]):
        with pytest.raises(InputError, match="no_rope_layers"):
            modelcards.cache_layers({**scout, "no_rope_layers": bad})
