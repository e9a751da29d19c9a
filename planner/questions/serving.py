"""The serving question: throughput and latency of a model on a system, for a benchmark, a load on given layouts, or the best under an SLO."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from planner.calibration import residency as memory
from planner.calibration.serving import estimate
from planner.calibration.serving.submissions import models, output_tokens
from planner.errors import InputError
from planner.facts import catalog, mlperf, modelcards
from planner.facts.formats import number_format, stored_bits, weight_formats
from planner.facts.names import resolve_model
from planner.models import residency
from planner.plan.answer import Answer
from planner.questions.memory import FORMATS, MODEL, SYSTEM, opened
from planner.questions.registry import Input, Question
from planner.shapes import Layout
from planner.specs import Rack
from planner.units import count, fraction, positive

QUANTITIES = {
    "tokens_per_s": "tok/s",
    "samples_per_s": "samples/s",
    "tokens_per_s_per_gpu": "tok/s/GPU",
    "tokens_per_s_per_user": "tok/s/user",
    "tokens_per_s_per_mw": "tok/s/MW",
    "ttft_s": "s",
    "tpot_s": "s",
    "e2e_s": "s",
    "batch": "count",
}
_Z90 = 1.2815515655446004
ENGINES = {"trt": "trtllm", "tensorrt": "trtllm", "vllm": "vllm", "sglang": "sglang"}
LIKE = {"deepseek-ai/DeepSeek-R1-0528": "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1": "deepseek-ai/DeepSeek-V3"}  # one shape, two names
SCENARIOS = {"offline": "Offline", "server": "Server", "interactive": "Interactive"}


def _load(inputs: Mapping) -> dict:
    """Return the load: one of scenario, slo, concurrency, requests_per_s, from `load` or from inputs of those names.

    Raises: InputError for none, for two that contradict, and for unknown ones.
    """
    given = inputs.get("load")
    if isinstance(given, str):
        given = {"scenario": given}
    found = dict(given or {})
    for name in ("scenario", "slo", "concurrency", "requests_per_s"):
        if inputs.get(name) is not None:
            if name in found:
                raise InputError(name, inputs[name], "is given twice: inside load and beside it")
            found[name] = inputs[name]
    for name in found:
        if name not in ("scenario", "slo", "concurrency", "requests_per_s"):
            raise InputError(f"load.{name}", found[name], "must be scenario, slo, concurrency or requests_per_s")
    kinds = [n for n in ("scenario", "concurrency", "requests_per_s") if n in found]
    if len(kinds) > 1:
        raise InputError("load", ", ".join(kinds), "must be one kind of load")
    return found


def _limits(slo: Mapping | None) -> tuple[tuple[float, float, float], float]:
    """Return ((TTFT, TPOT, end to end) [s], quantile). Raises: InputError."""
    slo = {} if slo is None else slo
    if not isinstance(slo, Mapping):
        raise InputError("slo", slo, 'must be an object such as {"ttft_s": 2, "tpot_s": 0.05}')
    found = {"ttft_s": math.inf, "tpot_s": math.inf, "e2e_s": math.inf}
    quantile = 0.99
    for name, value in slo.items():
        plain, scale = (name[:-3] + "_s", 1e-3) if name.endswith("_ms") else (name, 1.0)
        if plain in found:
            found[plain] = float(positive(f"slo.{name}", value)) * scale if value is not None else math.inf
        elif name == "quantile":
            quantile = float(fraction("slo.quantile", value, zero=False))
            if quantile >= 1:
                raise InputError("slo.quantile", value, "must be below 1")
        else:
            raise InputError(f"slo.{name}", value, "must be ttft_s, tpot_s, e2e_s or quantile")
    return tuple(found.values()), quantile


def _lengths(inputs: Mapping) -> tuple[float, float, float]:
    """Return mean input tokens, images included, output tokens and the share found in a cache. Raises: InputError."""
    given = {**(inputs.get("workload") or {})}
    for name in ("input_tokens", "output_tokens", "images", "image_tokens", "cache_hit_fraction"):
        if inputs.get(name) is not None:
            given[name] = inputs[name]
    names = {"isl": "input_tokens", "osl": "output_tokens"}
    given = {names.get(k, k): v for k, v in given.items()}
    for name in given:
        if name not in ("input_tokens", "output_tokens", "images", "image_tokens", "cache_hit_fraction"):
            raise InputError(f"workload.{name}", given[name], "must be input_tokens, output_tokens, images, image_tokens or cache_hit_fraction")
    for name in ("input_tokens", "output_tokens"):
        if given.get(name) is None:
            raise InputError(f"workload.{name}", None, "is required (mean tokens of a request)")
    images = float(given.get("images") or 0.0)
    if images and not given.get("image_tokens"):
        raise InputError("workload.image_tokens", None, "is required with images (tokens of an image)")
    tokens = float(positive("workload.input_tokens", given["input_tokens"])) + images * float(given.get("image_tokens") or 0.0)
    return (
        tokens,
        float(positive("workload.output_tokens", given["output_tokens"])),
        float(fraction("cache_hit_fraction", given.get("cache_hit_fraction") or 0.0)),
    )


def _worker(name: str, given: object, total: int | None = None) -> tuple[Layout, int]:
    """Return a pool's layout and its number of workers. Raises: InputError."""
    plain = given
    number = None
    if isinstance(given, Mapping) and ("layout" in given or "workers" in given):
        for key in given:
            if key not in ("layout", "workers"):
                raise InputError(f"layout.{name}.{key}", given[key], "must be workers or layout")
        plain, number = given.get("layout"), given.get("workers")
    if plain is None:
        raise InputError(f"layout.{name}.layout", None, "is required")
    layout = residency.check_layout(plain)
    if number is not None:
        return layout, int(count(f"layout.{name}.workers", number, 1, 100_000))
    if total is None:
        return layout, 1
    if total % layout.gpus:
        raise InputError("gpus", total, f"must be a multiple of the {layout.gpus} GPUs of {layout.label}")
    return layout, total // layout.gpus


def _pools(inputs: Mapping) -> tuple[tuple[Layout, int], tuple[Layout, int] | None, int] | None:
    """Return (decode, prefill or None where aggregated, GPUs in all), None without a layout. Raises: InputError for pools that contradict gpus."""
    given, gpus = inputs.get("layout"), inputs.get("gpus")
    total = None if gpus is None else int(count("gpus", gpus, 1, 10_000_000))
    if given is None:
        return None
    if isinstance(given, Mapping) and {"prefill", "decode"} & set(given):
        for key in given:
            if key not in ("prefill", "decode"):
                raise InputError(f"layout.{key}", given[key], "must be prefill or decode")
        for key in ("prefill", "decode"):
            if key not in given:
                raise InputError(f"layout.{key}", None, "is required beside the other pool")
        prefill, decode = (_worker(k, given[k]) for k in ("prefill", "decode"))
        used = prefill[0].gpus * prefill[1] + decode[0].gpus * decode[1]
        if total is not None and total != used:
            raise InputError("gpus", total, f"must be the {used} GPUs of the two pools")
        return decode, prefill, used
    decode = _worker("decode", given, total)
    return decode, None, decode[0].gpus * decode[1]


def _benchmark(inputs: Mapping, rack: Rack, scenario: object) -> tuple[estimate.Estimate, int, float]:
    """Answer a benchmark scenario. Returns the estimate, its GPUs and the output tokens of a sample."""
    name = SCENARIOS.get(str(scenario).strip().lower().removeprefix("mlperf").strip(" -_"))
    if name is None:
        raise InputError("scenario", scenario, "must be offline, server or interactive")
    model = mlperf.limits(inputs["model"], name, _release(inputs)) and _benchmark_name(inputs["model"])
    gpus = int(count("gpus", inputs.get("gpus") or rack.domain_gpus, 1, 100_000))
    pools = _pools(inputs)
    tried = None if pools is None else lambda row: list(dict.fromkeys([pools[0][0], *([pools[1][0]] if pools[1] else [])]))
    return estimate.benchmark(rack, model, name, gpus, _release(inputs), tried), gpus, output_tokens(model, name)


def _benchmark_name(model: str) -> str:
    shape = resolve_model(str(model).removesuffix("-99.9").removesuffix("-99"))
    found = [m for m in models() if resolve_model(m) == shape]
    if not found:
        raise InputError("model", model, f"must have a benchmark: {', '.join(models())}")
    return found[0]


def _release(inputs: Mapping) -> str:
    text = str(inputs.get("release") or "v6.1").strip().lower()
    if text in ("current", "mature", "preview"):
        return "v6.1"
    if text.lstrip("v")[:1].isdigit() and "." in text:
        return "v" + text.lstrip("v")
    raise InputError("release", inputs["release"], "must be a round such as v6.1")


def _engine(inputs: Mapping) -> str:
    text = str(inputs.get("engine") or "").lower()
    return next((word for part, word in ENGINES.items() if part in text), "")


def _precision(inputs: Mapping) -> str:
    given = inputs.get("weight_format") or inputs.get("precision")
    if given is None:
        return "released"
    return number_format(str(given)).name if str(given).lower() not in ("fp4", "nvfp4") else "nvfp4"


def _ask(inputs: Mapping) -> tuple[estimate.Estimate, int, float, Rack]:
    """Answer any load. Returns the estimate, its GPUs, the output tokens of a request and the system."""
    rack, load = catalog.system_from(inputs["system"], inputs.get("profile"), inputs.get("gpu_watts")), _load(inputs)
    if "scenario" in load and inputs.get("workload") is None and inputs.get("input_tokens") is None:
        found, gpus, tokens = _benchmark(inputs, rack, load["scenario"])
        return found, gpus, tokens, rack
    if "scenario" in load:
        raise InputError("scenario", load["scenario"], "brings its own lengths and limits: leave workload out, or give slo in its place")
    if not isinstance(inputs["model"], str):
        raise InputError("model", inputs["model"], "must be a name or a path for this question")
    shape = modelcards.load(inputs["model"])
    tokens, outputs, hits = _lengths(inputs)
    if shape.max_context and tokens + outputs > shape.max_context:
        raise InputError("workload.input_tokens", tokens, f"with the output must fit the model's {shape.max_context:,} positions")
    pools, mtp = _pools(inputs), bool(inputs.get("mtp"))
    if "concurrency" in load or "requests_per_s" in load:
        if pools is None:
            raise InputError("layout", None, "is required with concurrency or requests_per_s")
        users, arriving = (None if load.get(k) is None else float(positive(k, load[k])) for k in ("concurrency", "requests_per_s"))
        model = (
            resolve_model(inputs["model"]) if inputs["model"] in modelcards.catalogue() or not inputs["model"].endswith(".json") else inputs["model"]
        )
        decode, prefill, gpus = pools
        found = estimate.at_load(
            rack, shape, LIKE.get(model, model), _precision(inputs), (tokens, outputs), decode, prefill, users, arriving, _engine(inputs), mtp
        )
        return found, gpus, outputs, rack
    limits, quantile = _limits(load.get("slo"))
    formats = weight_formats(shape, inputs.get("weight_format") or inputs.get("precision"))
    bits = stored_bits(inputs.get("kv_format") or "fp8")
    gpus = int(count("gpus", inputs.get("gpus") or rack.domain_gpus, 1, 100_000))
    other = memory.activation_bytes(shape)[0] + rack.accelerator.reserve_bytes
    tried = None if pools is None else list(dict.fromkeys([pools[0][0], *([pools[1][0]] if pools[1] else [])]))
    software = str(inputs.get("release") or "current")
    found = estimate.under_slo(rack, shape, formats, bits, (tokens, outputs), hits, gpus, limits, quantile, mtp, software, other, tried)
    return found, gpus, outputs, rack


def _serving(inputs: Mapping) -> Answer:
    quantity = str(inputs["quantity"])
    if quantity not in QUANTITIES:
        raise InputError("quantity", quantity, f"must be one of {', '.join(QUANTITIES)}")
    found, gpus, outputs, rack = _ask(inputs)
    quantile = inputs.get("quantile")
    tail = 1.0 if quantile is None else _tail(float(fraction("quantile", quantile, zero=False)), found.headroom)
    watts = (rack.gpus * rack.accelerator.gpu_watts + rack.overhead_watts) / rack.gpus if rack.accelerator.gpu_watts and rack.overhead_watts else None
    tpot, basis, low, high = found.tpot * tail, "output tokens, deployed GPUs", found.low, found.high
    if quantity == "tokens_per_s_per_mw":
        if watts is None:
            raise InputError("system", rack.label, "has no published power: tokens per megawatt are not available")
        value, basis = found.per_gpu / watts * 1e6, "output tokens, deployed GPUs, IT power as provisioned"
    elif quantity in ("tokens_per_s", "samples_per_s", "tokens_per_s_per_gpu"):
        value = found.per_gpu * {"tokens_per_s": gpus, "samples_per_s": gpus / outputs, "tokens_per_s_per_gpu": 1.0}[quantity]
    else:
        ttft = found.ttft
        value = {"tpot_s": tpot, "tokens_per_s_per_user": 1 / tpot, "ttft_s": ttft, "e2e_s": ttft + outputs * tpot, "batch": found.batch}[quantity]
        words = {"ttft_s": f"TTFT, {found.ttft_basis}", "e2e_s": f"TTFT ({found.ttft_basis}) and all output tokens"}
        basis = words.get(quantity, "mean" if quantile is None else f"p{100 * quantile:g}")
        half = math.exp(_Z90 * found.time_spread * (2 if quantity == "ttft_s" else 1))
        low, high = 1 / half, half
    how, grade = ("extrapolated", "P") if found.extrapolated else ("modelled", "A")
    return Answer(
        quantity,
        float(value),
        QUANTITIES[quantity],
        how,
        grade,
        float(value * low),
        float(value * high),
        basis=basis,
        claims=(found.claim,),
        limit=found.limit,
        note=f"{found.layout}; {found.note}",
    )


def _tail(quantile: float, headroom: float) -> float:
    """Return the TPOT at a quantile over its mean."""
    if quantile >= 1:
        raise InputError("quantile", quantile, "must be below 1")
    return (1 / headroom) ** max(0.0, float(np.interp(quantile, [0.5, 0.9, 0.99, 0.999], [0.0, 0.55, 1.0, 1.33])))


QUESTIONS = (
    Question(
        "serving",
        "throughput and latency of serving a model",
        "as asked",
        "planner.calibration.serving.estimate",
        {
            "system": SYSTEM,
            "profile": Input("where a system has two"),
            "gpu_watts": Input("power setting", "W"),
            "gpus": Input("GPUs deployed in all", "GPUs", also={"num_gpus": "", "accelerators": ""}),
            "model": MODEL,
            **{k: v for k, v in FORMATS.items() if k != "kv_bytes"},
            "precision": Input("the same as weight_format; fp4 is NVFP4"),
            "workload": Input("{input_tokens, output_tokens, images, image_tokens, cache_hit_fraction}", structured=True),
            "input_tokens": Input("mean, in place of workload", "tokens", also={"isl": ""}),
            "output_tokens": Input("mean, in place of workload", "tokens", also={"osl": ""}),
            "images": Input("of a request"),
            "image_tokens": Input("of an image", "tokens"),
            "cache_hit_fraction": Input("share of input tokens in a prefix cache", "fraction"),
            "load": Input("{scenario} or {slo} or {concurrency} or {requests_per_s}, or a scenario's name", structured=True),
            "scenario": Input("offline, server or interactive of the benchmark"),
            "slo": Input("{ttft_s, tpot_s, e2e_s, quantile}", structured=True),
            "concurrency": Input("requests always in flight", "count"),
            "requests_per_s": Input("arriving"),
            "layout": Input(
                "{tp, ep, attention_dp, pp}, or {prefill: {workers, layout}, decode: {workers, layout}}; absent: searched", structured=True
            ),
            "engine": Input("trtllm, vllm or sglang"),
            "release": Input("a round such as v6.1, or preview, current, mature"),
            "mtp": Input("multi-token prediction on"),
            "quantile": Input("of a latency; absent: the mean"),
            "quantity": Input(f"one of {', '.join(QUANTITIES)}", default="tokens_per_s"),
        },
        opened(_serving),
    ),
)
