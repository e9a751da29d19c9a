"""Parameters, checkpoints, caches and fits against published values, through the questions that users ask."""

import csv
from pathlib import Path

import pytest

from planner.errors import Infeasible, InputError
from planner.facts import modelcards
from planner.facts.formats import weight_formats
from planner.models import transformer
from planner.questions import all_questions, check

REFERENCES = Path(__file__).parents[2] / "data" / "references"
ASK = all_questions()


def rows(name, question):
    with (REFERENCES / f"{name}.csv").open() as handle:
        return [
            pytest.param(
                check.Case(r["case"], question, check.strict_json(r["inputs"]), float(r["expected"]), r["unit"], float(r["rtol"])), id=r["case"]
            )
            for r in csv.DictReader(handle)
        ]


@pytest.mark.parametrize("case", [*rows("parameters", "parameters"), *rows("checkpoint_bytes", "checkpoint_bytes"), *rows("kv_cache", "kv_bytes")])
def test_published_counts_are_exact(case):
    outcome = check.run(case)
    assert outcome.status == "ok", outcome


@pytest.mark.parametrize("case", rows("kv_pool", "kv_pool_bytes"))
def test_engine_memory_is_inside_the_interval(case):
    outcome = check.run(case)
    assert abs(outcome.error_fraction) < 0.05
    assert outcome.inside


MEASURED = [
    ("openai/gpt-oss-20b", 1, 13.47),
    ("nvidia/Llama-3.1-70B-Instruct-FP8", 2, 33.88),
    ("meta-llama/Meta-Llama-3.1-8B", 1, 14.99),
    ("Qwen/Qwen3-0.6B", 1, 1.12),
    ("Qwen/Qwen3-32B", 1, 61.03),
]


@pytest.mark.parametrize(("model", "tp", "gib"), MEASURED)
def test_weights_within_one_percent_of_an_engine(model, tp, gib):
    from planner.models.residency import weights_bytes_per_gpu
    from planner.shapes import Layout

    shape = modelcards.load(model)
    ours = sum(weights_bytes_per_gpu(shape, weight_formats(shape, None), Layout(tp=tp), expert_width_multiple=256).values()) / 2**30
    assert ours == pytest.approx(gib, rel=0.01)


@pytest.mark.parametrize(
    ("model", "scales"),
    [
        ("deepseek-ai/DeepSeek-V3", 684531386000 - 684489845504),
        ("zai-org/GLM-5-FP8", 753910024032 - 753864139008),
        ("Qwen/Qwen3-235B-A22B-FP8", 235107904512 - 235093634560),
        ("MiniMaxAI/MiniMax-M2.5", 13880064),
    ],
)
def test_fp8_scale_elements_are_exact(model, scales):
    shape = modelcards.load(model)
    assert transformer.scale_elements(shape, weight_formats(shape, None)) == scales


def fits(system, model, weights, kv, layout, tokens, sequences):
    gpus = layout.get("tp", 1) * layout.get("dp", 1) * layout.get("pp", 1)
    try:
        return (
            ASK["max_sequences"]
            .ask(
                {
                    "system": system,
                    "gpus": gpus,
                    "model": model,
                    "weight_format": weights,
                    "kv_format": kv,
                    "layout": layout,
                    "context_tokens": tokens,
                    "memory_utilisation": 0.95,
                }
            )
            .value
            >= sequences
        )
    except Infeasible:
        return False


RAN = [
    ("gb300-nvl72", "qwen3-vl", "nvfp4", "fp8", {"tp": 1}, 4300, 256),
    ("gb200-nvl72", "qwen3-vl", "nvfp4", "fp8", {"tp": 1}, 4300, 8),
    ("gb300-nvl72", "llama3.1-405b", "nvfp4", "fp8", {"tp": 2}, 9700, 64),
    ("gb300-nvl72", "llama3.1-405b", "nvfp4", "fp8", {"tp": 4}, 9700, 256),
    ("gb200-nvl72", "llama3.1-405b", "nvfp4", "fp8", {"tp": 4}, 9700, 128),
    ("gb200-nvl72", "gpt-oss-120b", "mxfp4", "fp8", {"tp": 1}, 2600, 896),
    ("b200-hgx", "DeepSeek-R1", "fp8", "fp8", {"tp": 4}, 4000, 16),
    ("b200-hgx", "DeepSeek-R1", "nvfp4", "fp8", {"dp": 8, "ep": 8}, 4700, 512),
    ("gb300-nvl72", "DeepSeek-R1", "nvfp4", "fp8", {"dp": 8, "ep": 8}, 4700, 1536 * 3),
]
AVOIDED = [
    ("gb200-nvl72", "llama3.1-405b", "nvfp4", "fp8", {"tp": 2}, 9700, 64),
    ("gb300-nvl72", "llama3.1-405b", "nvfp4", "fp8", {"tp": 1}, 9700, 64),
    ("h200-sxm", "DeepSeek-R1", "fp8", "fp8", {"tp": 2}, 4000, 1),
    ("h100-sxm", "qwen3-vl", "nvfp4", "fp8", {"tp": 1}, 4300, 1),
    ("h100-sxm", "llama3.1-405b", "fp8", "fp8", {"tp": 4}, 9700, 1),
    ("gb300-nvl72", "DeepSeek-R1", "nvfp4", "fp8", {"tp": 1}, 4000, 1),
]


@pytest.mark.parametrize("run", RAN)
def test_published_layouts_fit(run):
    assert fits(*run)


@pytest.mark.parametrize("run", AVOIDED)
def test_layouts_avoided_for_memory_do_not_fit(run):
    assert not fits(*run)


def ask(question, **inputs):
    return ASK[question].ask(inputs)


def test_three_distinct_answers_for_no():
    with pytest.raises(Infeasible) as weights:
        ask("max_sequences", system="h200", gpus=2, model="DeepSeek-R1", weight_format="fp8", context_tokens=1000)
    with pytest.raises(Infeasible) as cache:
        ask("max_sequences", system="h100", gpus=1, model="Qwen3-32B", context_tokens=10_000_000)
    with pytest.raises(Infeasible) as layout:
        ask("weights_bytes_per_gpu", model="Qwen3-32B", layout={"tp": 2, "ep": 2})
    assert [e.value.cause for e in (weights, cache, layout)] == ["weights", "kv_cache", "layout"]
    assert all(e.value.next_step for e in (weights, cache, layout))


def test_sl01_and_sl02():
    assert "141" not in ask("smallest_fit", system="h200", model="DeepSeek-R1", weight_format="fp8", memory_utilisation=0.9).note
    own = {"name": "141", "hbm_bytes": 141e9, "gpus": 64}
    assert ask("smallest_fit", system=own, model="deepseek-ai/DeepSeek-V3", weight_format="fp8", memory_utilisation=0.9, reserve_bytes=0).value == 6


def test_sl06_products_are_named():
    with pytest.raises(InputError, match=r"= 8, moe_tp x ep = 1 x 4 = 4"):
        ask("weights_bytes_per_gpu", model="DeepSeek-R1", layout={"tp": 4, "attention_dp": 2, "moe_tp": 1, "moe_ep": 4})


def test_mo06_mo12_and_replication_in_words():
    assert (
        "32 spare expert copies" in ask("weights_bytes_per_gpu", model="DeepSeek-R1", weight_format="fp8", layout={"attention_dp": 72, "ep": 72}).note
    )
    assert "replicated 4 times" in ask("weights_bytes_per_gpu", model="llama3.1-405b", layout={"tp": 32}).note
    assert "uneven" in ask("weights_bytes_per_gpu", model="DeepSeek-R1", layout={"pp": 7}).note


@pytest.mark.parametrize(
    "bad", [{"tp": 0}, {"tp": -1}, {"tp": 2.5}, {"tp": True}, {"ep": 512, "dp": 512}, {"pp": 62}, {"sp": 2}, {"tp": 3, "ep": 2}, {"tp": 3}]
)
def test_bad_layouts_are_refused(bad):
    with pytest.raises((InputError, Infeasible)):
        ask("weights_bytes_per_gpu", model="DeepSeek-R1", layout=bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"tokens": -1},
        {"tokens": "many"},
        {"tokens": True},
        {"kv_format": "fp4"},
        {"kv_format": "8bit"},
        {"kv_format": ""},
        {"allocator": "paged"},
        {"model": "no/such"},
        {"kv_format": "fp8", "kv_bytes": 2},
        {"indexer": "false"},
        {"indexer": 0},
        {"formats": {"kv": "fp8"}, "kv_format": "bf16"},
        {"formats": {"kv": "fp8"}, "kv_bytes": 2},
        {"model": "Llama-3.1-70B", "tp": 3},
        {"model": "Llama-3.1-70B", "tp": 12},
    ],
)
def test_bad_cache_questions_are_refused(bad):
    with pytest.raises(InputError):
        ask("kv_bytes", **{"model": "DeepSeek-R1", **bad})


def test_tensor_parallelism_of_caches():
    whole = ask("kv_bytes", model="Llama-3.1-70B", tokens=100).value
    assert [whole / ask("kv_bytes", model="Llama-3.1-70B", tokens=100, tp=tp).value for tp in (1, 2, 4, 8, 16, 32)] == [1, 2, 4, 8, 8, 8]
    assert ask("kv_bytes", model="DeepSeek-R1", tp=3).value == ask("kv_bytes", model="DeepSeek-R1").value


def test_layouts_that_cut_heads_are_impossible_not_priced():
    for model, tp in (("Llama-3.1-70B", 3), ("Llama-3.1-70B", 6), ("DeepSeek-R1", 3), ("Qwen3-32B", 5)):
        with pytest.raises(Infeasible) as no:
            ask("weights_bytes_per_gpu", model=model, layout={"tp": tp})
        assert no.value.cause == "layout"


@pytest.mark.parametrize("text", ["false", "true", 1])
def test_yes_and_no_are_not_text(text):
    for question, name in (("weights_bytes_per_gpu", "mtp"), ("parameters", "include_mtp")):
        with pytest.raises(InputError, match=f"{name} must be true or false"):
            ask(question, model="DeepSeek-R1", **{name: text})


def test_one_format_for_each_of_weights_and_cache():
    for inputs in ({"formats": "fp8", "weight_format": "nvfp4"}, {"formats": {"weights": "fp8"}, "weight_format": "nvfp4"}):
        with pytest.raises(InputError, match="must agree"):
            ask("checkpoint_bytes", model="DeepSeek-R1", **inputs)


def sizes():
    from planner.facts.files import table

    return [pytest.param(r, id=r["model"]) for r in table("model_sizes.csv")]


# what is not exact, and why: file headers of a repository, or bytes stored beside the tensors that a config defines
LISTED = {
    "deepseek-ai/DeepSeek-V3 (HF total incl. MTP and fp8 scales)": 2e-5,
    "moonshotai/Kimi-K2-Instruct (logical)": 7e-9,
    "moonshotai/Kimi-K2-Instruct-0905": 2e-8,
    "moonshotai/Kimi-K2-Thinking (INT4 experts)": 3e-8,
    "mistralai/Mixtral-8x7B-v0.1": 2e-6,
}
REFUSED = ("deepseek-ai/DeepSeek-V4-Pro", "deepseek-ai/DeepSeek-V4-Flash")


@pytest.mark.parametrize("row", sizes())
def test_every_published_size(row):
    if row["model"] in REFUSED:
        with pytest.raises(InputError, match="hc_mult"):
            ask("parameters", model=row["model"])
        return
    assert ask("parameters", model=row["model"], part="total").value == int(row["total_params_exact"])
    if row["checkpoint_bytes"]:
        got = ask("checkpoint_bytes", model=row["model"]).value
        assert got == pytest.approx(int(row["checkpoint_bytes"]), rel=LISTED.get(row["model"], 0), abs=0)


def test_one_cache_format_said_twice_must_agree():
    once = ask("kv_bytes", model="DeepSeek-R1", tokens=100, kv_format="fp8").value
    assert ask("kv_bytes", model="DeepSeek-R1", tokens=100, kv_format="fp8", kv_bytes=1).value == once
    assert ask("kv_bytes", model="DeepSeek-R1", tokens=100, formats="fp8").value == once
    with pytest.raises(InputError, match="kv_format and kv_bytes must agree"):
        ask("kv_bytes", model="DeepSeek-R1", tokens=100, kv_format="fp8", kv_bytes=2)


def test_replication_under_tp_is_said_in_words():
    assert "8 KV heads are replicated 2 times over TP16" in ask("kv_bytes", model="Llama-3.1-70B", tokens=1, tp=16).note
    assert "8 copies" in ask("kv_bytes", model="DeepSeek-R1", tokens=1, tp=8).note
    assert "replicated" not in ask("kv_bytes", model="Llama-3.1-70B", tokens=1, tp=8).note
    many = {"system": "gb300-nvl72", "gpus": 16, "model": "Llama-3.1-70B", "formats": {"weights": "fp8", "kv": "fp8"}, "context_tokens": 8192}
    assert "replicated 2 times" in ask("max_sequences", layout={"tp": 16}, **many).note


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        ("TP8", {"tp": 8}),
        ("TP4 PP2", {"tp": 4, "pp": 2}),
        ("dep16", {"dp": 16, "ep": 16}),
        ("TEP8", {"tp": 8, "ep": 8}),
        ("TP4PP2", {"tp": 4, "pp": 2}),
    ],
)
def test_layouts_in_words(words, sizes):
    given = {"model": "DeepSeek-R1", "weight_format": "nvfp4"}
    assert ask("weights_bytes_per_gpu", layout=words, **given).value == ask("weights_bytes_per_gpu", layout=sizes, **given).value


@pytest.mark.parametrize("words", ["", "8", "TP", "TP8 TP4", "ZP8", "TP8 and PP2", "TP0", "TP8888888", [8], 8])
def test_layouts_that_no_one_can_read_are_refused(words):
    with pytest.raises(InputError, match="layout"):
        ask("weights_bytes_per_gpu", model="DeepSeek-R1", layout=words)


def test_the_smallest_fit_tries_attention_dp_over_stages():
    given = {"system": "gb300-nvl72", "model": "DeepSeek-R1", "formats": {"weights": "nvfp4", "kv": "fp8"}, "context_tokens": 131072}
    assert ask("smallest_fit", sequences=30000, **given).value < 600
    with pytest.raises(Infeasible, match="one replica needs more than 4096 GPUs"):
        ask("smallest_fit", sequences=10**9, **given)
    with pytest.raises(Infeasible, match="reserved"):
        ask("smallest_fit", reserve_bytes=9e11, **given)


@pytest.mark.parametrize(
    ("name", "inputs", "line"),
    [
        ("kv_bytes", {"model": 7}, "model must be a catalogue name"),
        ("kv_bytes", {"model": [1]}, "model must be a catalogue name"),
        ("kv_bytes", {"model": "DeepSeek-R1", "tokens": "8k"}, "kv_bytes.tokens must be in tokens"),
        ("kv_pool_bytes", {"system": "h100-sxm", "model": "Qwen/Qwen3-8B", "memory_utilisation": 90}, "a share: 0.9, not percent"),
    ],
)
def test_wrong_kinds_are_named(name, inputs, line):
    with pytest.raises(InputError, match=line):
        ask(name, **inputs)


def test_parts_in_capitals():
    assert ask("parameters", model="DeepSeek-R1", part="Total").value == ask("parameters", model="DeepSeek-R1").value


@pytest.mark.parametrize(("kv_format", "bits"), [("nvfp4", 4.5), ("mxfp4", 4.25), ("mxfp8", 8.25), ("fp8", 8), ("bf16", 16)])
def test_caches_hold_the_scales_of_their_blocks(kv_format, bits):
    """80 layers x 2 x 8 KV heads x 128 = 163,840 values a token of Llama-3.1-70B."""
    model = "meta-llama/Llama-3.1-70B"
    found = ask("kv_bytes", model=model, tokens=16, kv_format=kv_format)
    assert found.value == 163_840 * 16 * bits / 8
    assert ("scales included" in found.note) == (bits % 1 != 0)
    assert ask("kv_bytes", model=model, tokens=16, formats=kv_format).value == found.value
    if bits != int(bits):  # the flat width beside the name says the same format
        assert ask("kv_bytes", model=model, tokens=16, kv_format=kv_format, kv_bytes=int(bits) / 8).value == found.value


def test_every_question_about_memory_counts_those_scales():
    given = {"system": "h200", "model": "meta-llama/Llama-3.1-70B", "weight_format": "fp8", "layout": {"tp": 1}, "context_tokens": 10_000}
    fp8, fp4 = (ask("max_sequences", kv_format=f, **given).value for f in ("fp8", "nvfp4"))
    pool = ask("kv_pool_bytes", **{k: v for k, v in given.items() if k != "context_tokens"}).value
    assert (fp8, fp4) == (pool // (163_840 * 10_000), pool // (163_840 * 10_000 * 4.5 / 8))


def test_plans_count_the_scales_of_a_cache():
    from planner.facts.files import folder
    from planner.plan.case import resolve
    from planner.scenario import loads

    text = (folder("scenarios") / "rubin-vs-gb300.toml").read_text().replace('kv_format = "fp8"', 'kv_format = "nvfp4"')
    assert {case.kv_bits for case in resolve(loads(text))} == {4.5}


FP8 = {"weight_format": "fp8", "kv_format": "fp8"}


@pytest.mark.parametrize(
    ("system", "model", "tokens", "sequences"),
    [
        ("h100-sxm", "Llama-3.1-70B", 8192, 1),
        ("h100-sxm", "Llama-3.1-70B", 8192, 80),
        ("h200-sxm", "DeepSeek-R1", 4096, 700),
        ("h100-sxm", "gpt-oss-120b", 32_768, 64),
        ("gb300-nvl72", "Qwen/Qwen3-235B-A22B", 40_000, 50),
        ("b200-hgx", "Llama-3.1-405B", 100_000, 20),
    ],
)
@pytest.mark.parametrize("more", [{}, {"memory_utilisation": 0.95}, {"reserve_bytes": 4e9}])
def test_the_smallest_fit_and_the_most_sequences_have_one_budget(system, model, tokens, sequences, more):
    given = {"system": system, "model": model, "context_tokens": tokens, **FP8, **more}
    gpus = int(ask("smallest_fit", sequences=sequences, **given).value)
    assert ask("max_sequences", gpus=gpus, **given).value >= sequences
    for fewer in range(1, gpus):
        try:
            assert ask("max_sequences", gpus=fewer, **given).value < sequences
        except Infeasible:
            continue


def test_the_budget_and_its_default_are_named(capsys):
    from planner.cli import main

    words = "memory_utilisation 0.9, activation peak 5.20 GB, 0.14 to 0.59 GB besides (non-torch memory as measured)"
    given = {"system": "h100-sxm", "model": "Llama-3.1-70B", "context_tokens": 8192, **FP8}
    assert words in ask("smallest_fit", sequences=1, **given).note
    assert words in ask("max_sequences", gpus=2, **given).note
    with pytest.raises(Infeasible, match=r"activation peak 5\.20 GB"):
        ask("max_sequences", gpus=1, **given)
    alone = ask("smallest_fit", system="h200", model="DeepSeek-R1", weight_format="fp8").note
    assert "weights alone" in alone
    assert "activation peak 5" not in alone
    assert main(["check", "--questions"]) == 0
    assert capsys.readouterr().out.count("share of device memory an engine may use; default 0.9") == 3


def test_lengths_beyond_the_positions_are_said():
    long = {"system": "gb300-nvl72", "model": "Llama-3.1-70B", "context_tokens": 200_000, **FP8}
    words = "200,000 tokens do not fit the model's 131,072 positions"
    assert words in ask("max_sequences", gpus=4, **long).note
    assert words in ask("smallest_fit", sequences=1, **long).note
    assert words in ask("kv_bytes", model="Llama-3.1-70B", tokens=200_000).note
    assert "positions" not in ask("kv_bytes", model="Llama-3.1-70B", tokens=131_072).note


@pytest.mark.parametrize("tokens", [1.5, 0.3, 1e-9])
def test_a_part_of_a_token_is_refused(tokens):
    with pytest.raises(InputError, match="tokens must be a whole number"):
        ask("kv_bytes", model="Llama-3.1-70B", tokens=tokens)
    for question in ("max_sequences", "smallest_fit"):
        with pytest.raises(InputError, match="context_tokens must be a whole number"):
            ask(question, system="gb300-nvl72", model="Llama-3.1-70B", context_tokens=1000 + tokens, **FP8)
