"""How checkpoints are stored: exclusions layer by layer, unknown methods refused, FP32, and spellings that name another checkpoint."""

import pytest

from planner.errors import InputError
from planner.facts import modelcards
from planner.facts.formats import weight_formats
from planner.facts.quantisation import Names
from planner.models.transformer import checkpoint_bytes, parameters, stored_format
from planner.plan.answer import Answer
from planner.questions import all_questions

ASK = all_questions()
DENSE = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
}
PARAMETERS = sum(parameters(modelcards.load(DENSE)).values())


def released(**fields) -> float:
    shape = modelcards.load({**DENSE, **fields})
    return sum(checkpoint_bytes(shape, weight_formats(shape, None)).values())


@pytest.mark.parametrize("method", ["awq", "gptq", "bitsandbytes", "fbgemm_fp8", "hqq", "quark", "torchao", "brand_new"])
def test_unknown_methods_keep_the_count_and_refuse_the_bytes(method):
    model = {**DENSE, "quantization_config": {"quant_method": method, "bits": 4}}
    assert ASK["parameters"].ask({"model": model}).value == PARAMETERS
    for question in ("checkpoint_bytes", "weights_bytes_per_gpu"):
        with pytest.raises(InputError, match=f"quant_method {method}.*name a weight_format"):
            ASK[question].ask({"model": model})
        assert isinstance(ASK[question].ask({"model": model, "weight_format": "bf16"}), Answer)


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ({"bits": 4}, "format is not understood"),
        ({"quant_method": "fp8", "weight_block_size": [1, 128]}, "FP8 blocks"),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "ignore": []}, "W4A16_AWQ"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32, "ignore": []}, "groups of 32"),
        ({"config_groups": {"a": {"weights": {"num_bits": 3, "type": "int", "group_size": 128}}}}, "3 bits"),
        ({"config_groups": {"a": {"weights": {"num_bits": 4, "type": "int", "group_size": 128, "symmetric": False}}}}, "4 bits"),
        ({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"}, "config_groups": {}}, "sparse"),
    ],
)
def test_formats_that_are_not_understood_are_refused(section, reason):
    with pytest.raises(InputError, match=reason):
        released(quantization_config=section)


@pytest.mark.parametrize(
    "section",
    [
        "fp8",
        [1],
        {"ignore": "lm_head"},
        {"ignore": [1]},
        {"quant_method": 3},
        {"config_groups": [1]},
        {"sparsity_config": "2:4"},
        {"config_groups": {"a": {"targets": "all"}}},
        {"quantized_layers": {"a": "FP8"}},
        {"quant_method": "fp8", "ignore": ["re:("]},
    ],
)
def test_sections_that_are_no_sections_are_refused(section):
    with pytest.raises(InputError, match="quantization_config"):
        modelcards.load({**DENSE, "quantization_config": section})


@pytest.mark.parametrize(
    "fields", [{"torch_dtype": "float32"}, {"dtype": "float32"}, {"dtype": "torch.float32"}, {"text_config": {**DENSE, "dtype": "float32"}}]
)
def test_float32_is_four_bytes_throughout(fields):
    assert released(**fields) == 4 * PARAMETERS
    assert sum(checkpoint_bytes(modelcards.load(DENSE), weight_formats(modelcards.load(DENSE), "fp32")).values()) == 4 * PARAMETERS


def test_sixteen_bits_and_other_types():
    assert released(torch_dtype="float16") == released(torch_dtype="bfloat16") == released() == 2 * PARAMETERS
    for dtype, reason in (("float64", "float64"), ("float8_e4m3fn", "float8")):
        with pytest.raises(InputError, match=reason):
            released(dtype=dtype)
    with pytest.raises(InputError, match="must agree"):
        released(dtype="float32", torch_dtype="bfloat16")


def test_fp8_beside_float32():
    shape = modelcards.load({**DENSE, "torch_dtype": "float32", "quantization_config": {"quant_method": "fp8"}})
    linear = sum(w.total for w in shape.weights if w.linear and w.part in ("attention", "dense_mlp"))
    assert sum(checkpoint_bytes(shape, weight_formats(shape, None)).values()) == linear + 4 * (PARAMETERS - linear)


@pytest.mark.parametrize("prefix", ["model", "language_model.model", "model.language_model", "backbone"])
@pytest.mark.parametrize("ending", ["self_attn*", "self_attn.*"])
def test_layers_kept_high_are_found_behind_any_prefix(prefix, ending):
    section = {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": [f"{prefix}.layers.{i}.{ending}" for i in range(4)]}
    assert modelcards.load({**DENSE, "quantization_config": section}).quantisation == {"dense_mlp": "fp8"}


def test_some_layers_and_some_tensors_kept_high():
    section = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.1", "model.layers.2.mlp.down_proj", "q_proj"]}
    shape = modelcards.load({**DENSE, "quantization_config": section})
    formats = weight_formats(shape, None)
    bits = {w.name: stored_format(w, formats).bits for w in shape.weights if w.cols}
    assert (bits["q_proj"], bits["k_proj"], bits["mlp_up"], bits["mlp_down"], bits["lm_head"]) == (16, 10, 10, 12, 16)
    assert not Names(["model.layers.1"]).hold("model.layers.10.mlp.up_proj")
    assert not Names(["model.layers.3.mlp.gate"]).hold("model.layers.3.mlp.gate_proj")
    assert Names(["re:.*self_attn.*"]).hold("model.layers.3.self_attn.o_proj")


def test_groups_with_targets_and_layers_with_algorithms():
    fp8 = {"weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}, "targets": ["re:.*self_attn.*"]}
    fp4 = {"weights": {"num_bits": 4, "type": "float", "group_size": 16}, "targets": ["Linear"]}
    section = {"quant_method": "compressed-tensors", "config_groups": {"a": fp8, "b": fp4}}
    assert modelcards.load({**DENSE, "quantization_config": section}).quantisation == {"attention": "fp8", "dense_mlp": "nvfp4"}
    layers = {f"model.layers.{i}.mlp": {"quant_algo": "NVFP4", "group_size": 16} for i in range(4)} | {"lm_head": {"quant_algo": "FP8"}}
    section = {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    assert modelcards.load({**DENSE, "quantization_config": section}).quantisation == {"dense_mlp": "nvfp4", "head/lm_head": "fp8"}


def test_shipped_checkpoints_that_keep_attention_high():
    for name in ("nvidia/Kimi-K2.5-NVFP4", "nvidia/Kimi-K2.6-NVFP4", "nvidia/Qwen3.5-397B-A17B-NVFP4", "nvidia/GLM-5-NVFP4"):
        stored = modelcards.load(name).quantisation
        assert stored["experts"] == "nvfp4"
        assert not {"attention", "indexer", "recurrent", "mtp"} & set(stored)
    shares = modelcards.load("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4").quantisation["recurrent/in_proj"]
    assert shares == {"nvfp4": pytest.approx(17 / 23), "bf16": pytest.approx(6 / 23)}
    mixed = modelcards.load("nvidia/Qwen3.6-35B-A3B-NVFP4").quantisation
    assert mixed == {"head/lm_head": "nvfp4", "attention": "fp8", "recurrent": "fp8", "experts": "nvfp4", "shared_experts": "nvfp4"}


def test_what_a_checkpoint_does_not_list_is_assumed_and_said():
    for model in ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", {**DENSE, "quantization_config": {"quant_algo": "NVFP4", "group_size": 16}}):
        for question in ("checkpoint_bytes", "weights_bytes_per_gpu"):
            answer = ASK[question].ask({"model": model})
            assert (answer.how, answer.grade) == ("assumed", "P")
            assert "does not list what it keeps high" in answer.note
    assert ASK["checkpoint_bytes"].ask({"model": model, "weight_format": "nvfp4"}).how == "exact"
    assert ASK["checkpoint_bytes"].ask({"model": "nvidia/Llama-3.1-70B-Instruct-FP8"}).how == "exact"


def test_deepseek_r1_nvfp4_by_its_printed_stored_elements():
    shape = modelcards.load("nvidia/DeepSeek-R1-NVFP4")
    formats = weight_formats(shape, None)
    stored = 0
    for weight in (*shape.weights, *shape.duplicated):
        low = stored_format(weight, formats).name == "nvfp4"
        stored += weight.total // 2 + weight.total // 16 if low else weight.total  # pairs in a byte, a scale for 16
    assert stored == 396767013632
    assert ASK["checkpoint_bytes"].ask({"model": "NVIDIA/deepseek-r1-nvfp4"}).value < 424e9


@pytest.mark.parametrize(
    "name", ["nvidia/DeepSeek-R1-0528-NVFP4", "nvidia/Llama-3.3-70B-Instruct-FP8", "nvidia/Llama-3.3-70B-Instruct-FP4", "DeepSeek-V3.1 FP8"]
)
def test_spellings_of_checkpoints_whose_config_does_not_ship(name):
    assert ASK["parameters"].ask({"model": name}).value > 7e10
    with pytest.raises(InputError, match=r"does not ship, only that of .*name a weight_format.*there are"):
        ASK["checkpoint_bytes"].ask({"model": name})
    assert ASK["checkpoint_bytes"].ask({"model": name, "weight_format": "fp8"}).value > 7e10


@pytest.mark.parametrize(
    "name", ["Kimi-K2-Instruct FP8", "Llama-3.3-70B-FP8", "moonshotai/Kimi-K2-Thinking (INT4 experts)", "QWEN3-32B-FP8", "DeepSeek-R1"]
)
def test_spellings_that_name_their_own_format(name):
    assert ASK["checkpoint_bytes"].ask({"model": name}).value > 3e10
