"""Questions about parameters, checkpoints, caches and what fits in HBM."""

from __future__ import annotations

from collections.abc import Mapping

from planner.calibration import residency as calibrated
from planner.calibration.table import constant
from planner.errors import Infeasible, InputError
from planner.facts import catalog, modelcards
from planner.facts.formats import assumed
from planner.models import residency, transformer
from planner.plan.answer import Answer, exact, weakest
from planner.plan.inputs import number
from planner.questions.model_inputs import beyond, cache_bits, flag, formats_of, opened
from planner.questions.registry import Input, Question
from planner.shapes import Layout, ModelShape
from planner.specs import Rack

DEFAULT_MEMORY_FRACTION = 0.9


def _whole_heads(layers, tp: int) -> None:
    """Refuse a tensor parallelism that leaves a part of a KV head on a GPU. Raises: InputError."""
    for heads in sorted({a.kv_heads for a in layers if not a.shared_latent and a.kind != "linear"}):
        if heads % tp and tp % heads:
            raise InputError("tp", tp, f"must divide the {heads} KV heads or be a multiple of them")


def system(inputs: Mapping) -> Rack:
    """Return the system that a question names, with its profile and power setting."""
    return catalog.system_from(inputs["system"], inputs.get("profile"), inputs.get("gpu_watts"))


def replicated(layers, tp: int) -> list[str]:
    """Return in words what tensor parallelism keeps more than once: KV heads beyond their number, and latents on every GPU."""
    words = []
    grouped = [a.kv_heads for a in layers if not a.shared_latent and a.kind != "linear"]
    if grouped and tp > max(grouped):
        words.append(f"{max(grouped)} KV heads are replicated {tp / max(grouped):g} times over TP{tp}")
    if tp > 1 and any(a.shared_latent for a in layers):
        words.append(f"the latent cache is whole on each GPU of TP{tp}: {tp} copies")
    return words


def _kv_bytes(inputs: dict) -> Answer:
    bits, note = cache_bits(inputs)
    layers = modelcards.cache_layers(inputs["model"])
    tokens = number(inputs, "tokens", high=1e12, whole=True)
    sequences = number(inputs, "sequences", high=1e12)
    allocator = inputs["allocator"]
    tp = int(number(inputs, "tp", low=1, high=1e6, whole=True))
    _whole_heads(layers, tp)
    if not flag(inputs, "indexer", True):
        value = sum(transformer.kv_bytes((a,), tokens, sequences, bits, allocator, 0.0) * transformer.kv_copies(a, tp) / tp for a in layers)
    else:
        value = sum(transformer.kv_bytes((a,), tokens, sequences, bits, allocator) * transformer.kv_copies(a, tp) / tp for a in layers)
    state = transformer.state_bytes(layers, sequences)
    if state:
        note = "; ".join(n for n in (note, f"recurrent layers keep {state:,.0f} B more, whatever the length") if n)
    note = "; ".join(n for n in (note, *replicated(layers, tp), *beyond(tokens, modelcards.positions(inputs["model"]))) if n)
    basis = f"{allocator}, per GPU of TP{tp}" if tp > 1 else f"{allocator}, one replica"
    if not modelcards.understood(inputs["model"]):
        note = "; ".join(n for n in (note, "upper bound: this model_type is not known, its layers are read as a Llama-like model's") if n)
        return exact("kv_bytes", float(value), "B", basis=basis, note=note, how="assumed", grade="P")
    return exact("kv_bytes", float(value), "B", basis=basis, note=note)


def _layout(inputs: Mapping) -> Layout:
    return residency.check_layout(inputs.get("layout", {}))


def _padded(rack: Rack | None) -> int:
    """Return the multiple to which an engine widens the experts on a GPU kind, 0 for none."""
    return calibrated.EXPERT_WIDTH_MULTIPLE if rack is not None and rack.accelerator.generation == "hopper" else 0


def _weights(inputs: Mapping, shape: ModelShape, layout: Layout, rack: Rack | None = None) -> float:
    formats = formats_of(inputs, shape)
    return sum(residency.weights_bytes_per_gpu(shape, formats, layout, flag(inputs, "mtp", False), _padded(rack)).values())


def _weights_bytes_per_gpu(inputs: dict) -> Answer:
    shape, layout = modelcards.load(inputs["model"]), _layout(inputs)
    value = _weights(inputs, shape, layout)
    taken = assumed(shape, inputs.get("weight_format")) or shape.upper_bound
    words = [f"layout {layout.label}", *([taken] if isinstance(taken, str) and taken else []), *shape.notes]
    words += [said for said in replicated(shape.attention, layout.tp) if "KV heads" in said]
    if shape.experts and layout.ep > 1 and shape.experts.num % layout.ep:
        words.append(f"{residency.spare_experts(shape.experts.num, layout.ep)} spare expert copies")
    if shape.layers % layout.pp:
        words.append("stages are uneven: the fullest counts")
    error = constant("residency", "weights_error")
    return Answer(
        "weights_bytes_per_gpu",
        value,
        "B",
        "assumed" if taken else "modelled",
        "P" if taken else "F",
        value * error.low,
        value * error.high,
        basis="fullest GPU",
        note="; ".join(words),
    )


def _usable(inputs: Mapping) -> float:
    """Return the share of device memory an engine may use: one default for every question."""
    return number(inputs, "memory_utilisation", low=1e-6, high=1.0, default=DEFAULT_MEMORY_FRACTION)


def _besides(inputs: Mapping, gpus: int) -> tuple[float, float, float]:
    """Return (value, low, high) [B] of what a GPU keeps besides weights, activations and cache: as typed, else the non-torch memory measured."""
    if "reserve_bytes" in inputs:
        return (float(number(inputs, "reserve_bytes", high=1e12)),) * 3
    return calibrated.other_bytes(gpus)


def _budget(inputs: Mapping, shape: ModelShape, activations: bool = True) -> str:
    """Return in words what is taken off a GPU's memory before weights and cache."""
    words = [f"memory_utilisation {_usable(inputs):g}"]
    words += [f"activation peak {calibrated.activation_bytes(shape)[0] / 1e9:,.2f} GB"] if activations else []
    other = "as typed" if "reserve_bytes" in inputs else "non-torch memory as measured"
    ends = sorted({f"{_besides(inputs, n)[0] / 1e9:,.2f}" for n in (1, 2)})
    return ", ".join([*words, f"{' to '.join(ends)} GB besides ({other})"])


def _pool(inputs: Mapping, rack: Rack, shape: ModelShape, layout: Layout) -> tuple[float, float, float, str]:
    fraction = _usable(inputs)
    device = rack.accelerator.hbm_bytes
    behind = catalog.claims_behind(rack).get("hbm_bytes")
    weights = _weights(inputs, shape, layout, rack)
    error = constant("residency", "weights_error")
    if weights > device * fraction:
        limit = f"weights need {weights / 1e9:,.1f} GB a GPU with {layout.label}, {fraction:.0%} of {device / 1e9:,.1f} GB may be used"
        raise Infeasible("weights", limit, "more GPUs, or a smaller format")
    activations, others = calibrated.activation_bytes(shape), _besides(inputs, layout.gpus)
    value = residency.kv_pool_bytes(device, fraction, weights, activations[0], others[0])
    low = residency.kv_pool_bytes(behind.low if behind else device, fraction, weights * error.high, activations[2], others[2])
    high = residency.kv_pool_bytes(behind.high if behind else device, fraction, weights * error.low, activations[1], others[1])
    return float(low), float(value), float(high), weakest("F", behind.grade if behind else "P")


def _how(rack: Rack, shape: ModelShape) -> str:
    """How a fit was got: modelled on the GPU that was measured, assumed for a model whose type is not known."""
    return "assumed" if shape.upper_bound else "modelled" if rack.name == "h100-sxm" else "extrapolated"


def _layouts(inputs: Mapping, shape: ModelShape) -> list[Layout]:
    """Return the layout that is given, or those that the GPUs given allow: fewest stages first, then least weights on a GPU."""
    if inputs.get("layout") != {} and "layout" in inputs:
        layout = _layout(inputs)
        gpus = inputs.get("gpus")
        if gpus is not None and layout.gpus != number(inputs, "gpus", low=1, high=1e7, whole=True):
            raise InputError("layout", f"{layout.label} = {layout.gpus} GPUs", f"must use the {gpus} GPUs given")
        return [layout]
    gpus = int(number(inputs, "gpus", low=1, high=1e7, whole=True, default=1))
    layouts = residency.candidate_layouts(shape, gpus)
    if not layouts:
        raise Infeasible("layout", f"no layout of {shape.heads} heads and {shape.layers} layers uses {gpus} GPUs", "a power of two")
    formats = formats_of(inputs, shape)
    return sorted(layouts, key=lambda one: (one.pp, sum(residency.weights_bytes_per_gpu(shape, formats, one).values())))


def _kv_pool(inputs: dict) -> Answer:
    rack, shape = system(inputs), modelcards.load(inputs["model"])
    layout = _layouts(inputs, shape)[0]
    low, value, high, grade = _pool(inputs, rack, shape, layout)
    how = _how(rack, shape)
    return Answer(
        "kv_pool_bytes",
        value,
        "B",
        how,
        grade,
        low,
        high,
        basis="one GPU",
        limit="hbm",
        note="; ".join([f"layout {layout.label}", _budget(inputs, shape), "activation peak modelled, graphs outside", *shape.notes]),
    )


def _max_sequences(inputs: dict) -> Answer:
    rack, shape = system(inputs), modelcards.load(inputs["model"])
    bits, note = cache_bits(inputs, "fp8")
    tokens = number(inputs, "context_tokens", low=1, high=1e10, whole=True)

    def held(pool: float, layout: Layout) -> int:
        return residency.max_sequences(pool, shape, tokens, bits, layout, inputs["allocator"])

    found, refusals = [], []
    for one in _layouts(inputs, shape):
        try:
            pools = _pool(inputs, rack, shape, one)
            found.append((held(pools[1], one), one, pools))
        except Infeasible as error:
            refusals.append(error)
    if not found:
        no = next((r for r in refusals if r.cause == "kv_cache"), refusals[0])
        raise Infeasible(no.cause, f"{no.limit} ({_budget(inputs, shape)})", no.next_step)
    most, layout, pools = max(found, key=lambda one: one[0])
    ends = []
    for pool in (pools[0], pools[2]):
        try:
            ends.append(held(pool, layout))
        except Infeasible:
            ends.append(0)
    words = (f"layout {layout.label}", note, _budget(inputs, shape), *beyond(tokens, shape.max_context), *replicated(shape.attention, layout.tp))
    return Answer(
        "max_sequences",
        float(most),
        "count",
        _how(rack, shape),
        pools[3],
        float(ends[0]),
        float(ends[1]),
        basis="one replica",
        note="; ".join(n for n in (*words, *shape.notes) if n),
        limit="kv_cache",
    )


def _smallest_fit(inputs: dict) -> Answer:
    rack, shape = system(inputs), modelcards.load(inputs["model"])
    bits, note = cache_bits(inputs, "fp8")
    tokens, sequences = number(inputs, "context_tokens", high=1e10, whole=True), number(inputs, "sequences", high=1e9)
    cached = bool(tokens and sequences)
    activations = calibrated.activation_bytes(shape)[0] if cached else 0.0
    gpus, layout, reason = residency.smallest_fit(
        shape,
        formats_of(inputs, shape),
        rack.accelerator.hbm_bytes,
        _usable(inputs),
        _besides(inputs, 1)[0] + activations,
        tokens,
        sequences,
        bits,
        group_reserve_bytes=_besides(inputs, 2)[0] + activations,
        expert_width_multiple=_padded(rack),
    )
    words = [note, *([] if cached else ["weights alone: no cache and no activation peak"]), _budget(inputs, shape, cached)]
    words += beyond(tokens, shape.max_context)
    behind = catalog.claims_behind(rack).get("hbm_bytes")
    return exact(
        "smallest_fit",
        float(gpus),
        "GPUs",
        how="assumed" if shape.upper_bound else "modelled",
        grade=behind.grade if behind and not shape.upper_bound else "P",
        limit="hbm",
        note="; ".join(n for n in (f"layout {layout.label}; one step fewer: {reason}", *words, *shape.notes) if n),
    )


MODEL = Input("catalogue name, any spelling of it, a path to a config.json, or its content", required=True, structured=True)
SYSTEM = Input("catalogue name, any spelling of it, or an object with the fields", required=True, structured=True)
FORMATS = {
    "formats": Input("{weights, kv}, instead of the two below", structured=True),
    "weight_format": Input("nvfp4, mxfp4, fp8, bf16, ..., or part -> format; absent: as released", structured=True),
    "kv_format": Input("bf16, fp8, nvfp4, ..."),
    "kv_bytes": Input("bytes an element, instead of kv_format", "B"),
}
ON_SYSTEM = {
    "system": SYSTEM,
    "profile": Input("where a system has two"),
    "gpu_watts": Input("power setting", "W"),
    "gpus": Input("GPUs of a replica", "GPUs"),
    "model": MODEL,
    **FORMATS,
    "layout": Input("{tp, ep, dp or attention_dp, pp, moe_tp}, or words such as TP8 EP8", structured=True),
    "memory_utilisation": Input("share of device memory an engine may use", "fraction", default=DEFAULT_MEMORY_FRACTION),
    "reserve_bytes": Input("a GPU besides weights, activations and cache; absent: the non-torch memory measured of an engine", "B"),
}


QUESTIONS = (
    Question(
        "kv_bytes",
        "KV cache of sequences",
        "B",
        "planner.models.transformer.kv_bytes",
        {
            "model": MODEL,
            "tokens": Input("a sequence", "tokens", default=1),
            "sequences": Input("how many", "count", default=1),
            "kv_format": FORMATS["kv_format"],
            "kv_bytes": FORMATS["kv_bytes"],
            "tp": Input("per GPU of this tensor parallelism", default=1),
            "allocator": Input("window_capped or uniform_pages", default="window_capped"),
            "indexer": Input("count the sparse indexer's keys", default=True),
            "formats": FORMATS["formats"],
        },
        opened(_kv_bytes, "kv_format"),
    ),
    Question(
        "weights_bytes_per_gpu",
        "weights on the fullest GPU",
        "B",
        "planner.models.residency.weights_bytes_per_gpu",
        {
            "model": MODEL,
            "weight_format": FORMATS["weight_format"],
            "formats": FORMATS["formats"],
            "layout": ON_SYSTEM["layout"],
            "mtp": Input("load the MTP module", default=False),
        },
        opened(_weights_bytes_per_gpu),
    ),
    Question(
        "max_sequences",
        "most sequences that fit",
        "count",
        "planner.models.residency.max_sequences",
        {
            **ON_SYSTEM,
            "context_tokens": Input("of each sequence", "tokens", required=True),
            "allocator": Input("window_capped or uniform_pages", default="window_capped"),
        },
        opened(_max_sequences),
    ),
    Question(
        "smallest_fit",
        "fewest GPUs that hold weights and cache",
        "GPUs",
        "planner.models.residency.smallest_fit",
        {
            **{k: v for k, v in ON_SYSTEM.items() if k not in ("gpus", "layout")},
            "context_tokens": Input("of each sequence", "tokens", default=0),
            "sequences": Input("how many; 0: weights alone, without cache and activation peak", "count", default=0),
        },
        opened(_smallest_fit),
    ),
    Question(
        "kv_pool_bytes",
        "what an engine gives to its KV cache, one GPU",
        "B",
        "planner.models.residency.kv_pool_bytes",
        {**ON_SYSTEM, "max_context": Input("longest sequence; does not change the pool", "tokens")},
        opened(_kv_pool),
    ),
)
