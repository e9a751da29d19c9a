"""What one serving set-up gives, asked one at a time: a benchmark scenario, a load on given layouts, or the best under an SLO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.calibration.serving import constants
from planner.calibration.serving.join import ENGINE_BYTES, condensed, kind_of, newer_attention, prior, rates
from planner.calibration.serving.published import Published, Run
from planner.calibration.serving.submissions import DRAFTS, ENGINE_SEQUENCES, MEMORY_FRACTION, Configuration, Submissions, rounds_factor
from planner.errors import Infeasible
from planner.models.serving import search
from planner.models.serving.pools import LIMITS, Demand
from planner.shapes import Format, Layout, ModelShape
from planner.specs import Rack

_Z90 = 1.2815515655446004


@dataclass(frozen=True)
class Estimate:
    """What a set-up gives. per_gpu [1/s] output tokens a deployed GPU; tpot, ttft [s]: mean TPOT, and TTFT as `ttft_basis` says; batch [1]
    sequences running in a decode replica; headroom [1], mean TPOT over its 99th percentile; low and high [1], the 10th and 90th percentile of
    throughput over its value; time_spread [1] of the log of TPOT; layout and limit in words; extrapolated, outside what was fitted; claim, the id
    of the constants."""

    per_gpu: float
    tpot: float
    ttft: float
    batch: float
    headroom: float
    low: float
    high: float
    time_spread: float
    layout: str
    limit: str
    ttft_basis: str
    extrapolated: bool
    claim: str
    note: str = ""


def _far(rack: Rack, shape: ModelShape) -> bool:
    return rack.name not in constants.SYSTEMS or not constants.seen_model(shape)


def benchmark(rack: Rack, model: str, scenario: str, gpus: int, release: str, tried=None) -> Estimate:
    """Return a benchmark scenario on so many GPUs, as submissions of a round reach it.

    tried: callable Configuration -> layouts to choose from (absent: those of published recipes). Raises: Infeasible where nothing fits or meets
    the limits.
    """
    row = Configuration(model, scenario, rack.name, gpus, release, 1.0, 1, 0.0, rack.profile)
    one = constants.of_model(row.shape)
    asked = Submissions([row], tried=tried)
    if not len(asked.owner):
        raise Infeasible("weights", f"no layout of {gpus} GPUs of {rack.label} holds {model}", "more GPUs")
    served = asked.reached(one.eff, one.values)
    at = np.unravel_index(served.per_gpu.argmax(), served.per_gpu.shape)
    if served.per_gpu[at] <= 0:
        raise Infeasible("slo", f"{rack.label} does not meet the limits of {model} {scenario} with {gpus} GPUs", "more GPUs or a looser limit")
    decode, prefill = asked.pairs[at[0]]
    layout = decode.label if asked.aggregated[at[0], 0] else f"P {prefill.label} + D {decode.label}"
    factor = rounds_factor(row, one.values)
    value, low, high, words = _round(one, row, factor)
    spread = constants.time_spread(row.served, rack.name, row.shape)

    def reached(slowdown: float) -> float:
        return float(asked.reached(one.eff, one.values, slowdown=slowdown).per_gpu.max())

    ends = _ends(reached, float(served.per_gpu[at]), spread, value, low, high)
    tokens = one.values.get(f"mean_input_tokens|{model}", 0.0)
    ttft, limit = float(served.ttft[at]), float(asked.limits[0][at[0], 0])
    if np.isfinite(limit):  # submitters load until TTFT takes this share of its limit, which queues alone do not explain
        ttft = max(ttft, constants.constants(constants.ERRORS)["ttft_share", ""].value * limit)
    note = f"mean input of {tokens:,.0f} tokens fitted; {words}"
    return Estimate(
        float(served.per_gpu[at]) * value,
        float(served.tpot[at]),
        ttft,
        float(served.batch[at]),
        min(1.0, one.values["headroom"]),
        *ends,
        spread,
        layout,
        LIMITS[int(served.limit[at])],
        "p99 at full load",
        _far(rack, row.shape),
        one.claim,
        note,
    )


def _ends(reached, middle: float, spread: float, value: float, low: float, high: float) -> tuple[float, float]:
    """Return the 10th and 90th percentile of throughput over its value: the model's time at the ends of its spread, and a factor value in low..high,
    independent of it."""
    slow, fast = (max(reached(float(np.exp(side * _Z90 * spread))) / middle, 1e-3) for side in (1, -1))
    down = np.hypot(np.log(slow), np.log(value / low) if low < value else 0.0)
    up = np.hypot(np.log(fast), np.log(high / value) if high > value else 0.0)
    return float(np.exp(-down)), float(np.exp(up))


def _round(one: constants.Learned, row: Configuration, factor: float) -> tuple[float, float, float, str]:
    """Return what a round multiplies throughput by; a platform in its first round carries the wide range of a preview."""
    if row.new_platform and row.system not in constants.SYSTEMS:
        value, low, high, words = constants.software_factor(one, row.system, "preview", row.served)
        return factor, factor * low / value, factor * high / value, words
    return factor, factor, factor, f"round {row.round}"


def at_load(
    rack: Rack,
    shape: ModelShape,
    model: str,
    precision: str,
    lengths: tuple[float, float],
    decode: tuple[Layout, int],
    prefill: tuple[Layout, int] | None,
    concurrency: float | None,
    requests_per_s: float | None,
    engine: str = "",
    mtp: bool = False,
) -> Estimate:
    """Return given layouts under a load: requests always in flight (concurrency), or arriving (requests_per_s).

    decode and prefill: a layout and how many workers of it (prefill None: aggregated). Raises: Infeasible: weights, kv_cache, load.
    """
    one = constants.of_model(shape, "public")
    gain = constants.tokens_per_step(one)[0] if mtp and shape.mtp_layers else 1.0
    first = prefill or decode
    run = Run(
        0,
        rack.name,
        model,
        precision,
        engine or "submission",
        prefill is not None,
        *lengths,
        concurrency or 1.0,
        *decode,
        *first,
        1.0,
        1.0,
        False,
        False,
        "",
        rack.profile,
        gain,
        DRAFTS if gain > 1 else 0,
    )
    asked = Published([run])
    pool = asked.capacity[0]
    budget = MEMORY_FRACTION * (rack.accelerator.hbm_bytes - rack.accelerator.reserve_bytes) - ENGINE_BYTES
    held = max(float(asked.decode.held_bytes[0]), float(asked.prefill.held_bytes[0]))
    if held >= budget:
        raise Infeasible(
            "weights",
            f"weights need {held / 1e9:,.1f} GB a GPU with {decode[0].label}, {budget / 1e9:,.1f} GB are free",
            "more GPUs a replica, or a smaller weight format",
        )
    if budget - float(asked.decode.held_bytes[0]) < float(asked.decode.cache_held_bytes[0]):
        raise Infeasible("kv_cache", f"one sequence needs {asked.decode.cache_held_bytes[0] / 1e9:,.1f} GB of cache a GPU", "a shorter context")
    key = f"{kind_of(shape)}|{run.key}"
    software, launch = (one.values.get(f"{n}|{run.key}", otherwise) for n, otherwise in (("software", 1.0), ("launch", 1.0)))
    eff = replace(one.eff, layer_seconds=one.values["layer_seconds"])  # public runs, not tuned submissions
    tpot, ttft, batch = (float(v[0]) for v in asked.solve(eff, software, launch, requests_per_s))
    gpus = decode[0].gpus * decode[1] + (prefill[0].gpus * prefill[1] if prefill else 0)
    per_gpu = batch * decode[1] / tpot / gpus
    if requests_per_s is not None and per_gpu * gpus < requests_per_s * lengths[1] * 0.99:
        most = per_gpu * gpus / lengths[1]
        raise Infeasible(
            "load", f"{requests_per_s:,.3g} requests/s are more than these workers serve ({most:,.3g})", f"at most {most * 0.95:,.3g} requests/s"
        )
    spread = constants.constants(constants.ERRORS)["time_spread", "tpot|system"].value
    ends = float(np.exp(-_Z90 * spread)), float(np.exp(_Z90 * spread))
    limit = "KV cache" if batch >= 0.999 * pool else "concurrency" if requests_per_s is None else "arrivals"
    label = decode[0].label if prefill is None else f"P {prefill[0].label} x{prefill[1]} + D {decode[0].label} x{decode[1]}"
    known = f"software|{run.key}" in one.values
    note = f"engine {engine} as fitted ({key})" if known else "an engine of average speed"
    return Estimate(
        per_gpu,
        tpot,
        ttft,
        batch,
        min(1.0, one.values["headroom"]),
        *ends,
        spread,
        label,
        limit,
        "mean",
        _far(rack, shape) and not known,
        one.claim,
        note,
    )


def under_slo(
    rack: Rack,
    shape: ModelShape,
    formats: Mapping[str, Format],
    kv_bits: float,
    lengths: tuple[float, float],
    hits: float,
    gpus: int,
    limits: tuple[float, float, float],
    quantile: float,
    mtp: bool,
    software: str,
    other_bytes: float,
    tried: list[Layout] | None = None,
) -> Estimate:
    """Return the best layout and batch under an SLO on so many GPUs. limits: TTFT, TPOT, end to end [s], infinite without. Raises: Infeasible."""
    one, work = constants.of_model(shape), condensed(shape, formats, rack.accelerator)
    inputs, outputs = lengths
    memory = search.Memory(MEMORY_FRACTION * rack.accelerator.hbm_bytes, other_bytes)

    def fitting(some: list[Layout], most: int) -> search.Candidates:
        return search.candidates(work, some, memory, inputs + outputs / 2, inputs, kv_bits, rack.domain_gpus, most, inputs + outputs)

    try:
        found = fitting(tried if tried is not None else search.layouts(shape, rack.domain_gpus, gpus), gpus)
    except Infeasible as error:
        sizes = [n for n in (1, 2, 4, 8, 16, 32, 64, rack.domain_gpus) if gpus < n <= rack.domain_gpus]
        fits = (n for n in sizes if _holds(fitting, search.layouts(shape, rack.domain_gpus, n), n))
        enough = next(fits, None)
        if tried is not None or enough is None:
            raise
        raise Infeasible(error.cause, error.limit, f"{enough} GPUs, the smallest number that holds the weights; or {error.next_step}") from None
    speed = rates([rack], one.values["newer_attention"] if newer_attention(rack.accelerator) else 1.0)
    gain = constants.tokens_per_step(one)[0] if mtp and shape.mtp_layers else 1.0
    asked = Demand(
        max(1.0, inputs * (1 - hits)),
        outputs,
        *limits,
        gain,
        DRAFTS if gain > 1 else 0.0,
        prior("tail")[0],
        prior("service_scv")[0],
        min(1.0, one.values["headroom"]),
        quantile=quantile,
    )
    best = search.best(found, replace(speed, flops_per_s=speed.flops_per_s[..., None]), one.eff, asked, ENGINE_SEQUENCES, gpus)
    limited = np.isfinite(limits).any()
    value, low, high, words = constants.software_factor(one, rack.name, software, bool(limited))
    spread = constants.time_spread(bool(limited), rack.name, shape)

    def reached(slowdown: float) -> float:
        slowed = replace(asked, slowdown=slowdown)
        return float(
            search.reach(found, replace(speed, flops_per_s=speed.flops_per_s[..., None]), one.eff, slowed, ENGINE_SEQUENCES, gpus).per_gpu.max()
        )

    ends = _ends(reached, best.per_gpu, spread, value, low, high)
    value *= constants.margin(one, bool(limited), limits[1])
    return Estimate(
        best.per_gpu * value,
        best.tpot,
        best.ttft,
        best.batch,
        min(1.0, one.values["headroom"]),
        *ends,
        spread,
        found.label(best.index),
        best.limit,
        "p99 at full load",
        _far(rack, shape),
        one.claim,
        f"software {software}: {words}",
    )


def _holds(fitting, some: list[Layout], gpus: int) -> bool:
    try:
        return len(fitting(some, gpus)) > 0
    except Infeasible:
        return False
