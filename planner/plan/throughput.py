"""A first throughput: roofline bounds of decode and prefill over layouts and batches, an assumed share of them as the estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.errors import Infeasible
from planner.models import residency, transformer
from planner.models.roofline import bounds_seconds, limiting, touched_fraction
from planner.plan.answer import Answer
from planner.plan.case import Case
from planner.plan.inputs import answer
from planner.shapes import Layout

BATCHES = np.unique(np.round(np.geomspace(1, 8192, 53)))
CHUNK_TOKENS = 8192
MEMORY_FRACTION = 0.95


@dataclass(frozen=True)
class Throughput:
    """The chosen layout and what it gives over the draws, index 0 central.

    per_gpu (n,) [1/s] output tokens per deployed GPU; tpot (n,) [s]; ttft (n,) [s] of one prompt alone; prefill_fraction (n,) [1] of
    GPU time; lower and upper [1/s] bounds of per_gpu; parts [B] in a GPU's HBM; batch [1] central.
    """

    layout: Layout
    batch: float
    per_gpu: np.ndarray
    tpot: np.ndarray
    ttft: np.ndarray
    prefill_fraction: np.ndarray
    lower: float
    upper: float
    parts: dict[str, float]
    limit: str


def layouts(case: Case) -> list[Layout]:
    """Return the layouts inside one NVLink domain whose weights fit, smallest first. Raises: Infeasible (weights) with the smallest fit."""
    sizes, n = [], 1
    while n <= case.rack.domain_gpus:
        sizes.append(n)
        n *= 2
    found, closest = [], ""
    budget = case.rack.accelerator.hbm_bytes * MEMORY_FRACTION - sum(case.memory_bytes().values())
    for size in sizes:
        for layout in residency.candidate_layouts(case.shape, size):
            weights = sum(residency.weights_bytes_per_gpu(case.shape, case.formats, layout).values())
            if layout.pp == 1 and weights < budget:
                found.append(layout)
            elif layout.pp == 1:
                closest = f"weights need {weights / 1e9:,.1f} GB a GPU with {layout.label}, {budget / 1e9:,.1f} GB are free"
    if not found:
        raise Infeasible("weights", closest or "no layout fits one NVLink domain", "a smaller weight format, or a system with more HBM")
    return found


def _work(case: Case, layout: Layout, batch: np.ndarray, weights: dict[str, float]) -> tuple[dict, dict]:
    """Return the work of one decode step of a replica, per GPU, and of prefilling one input token, per GPU."""
    shape, gpus = case.shape, layout.gpus
    context = case.input_tokens + case.output_tokens / 2
    experts = weights.get("experts", 0.0)
    touched = touched_fraction(shape.experts.num, shape.experts.top_k, batch) if shape.experts else 1.0
    read = sum(weights.values()) - weights.get("embedding", 0.0) - weights.get("vision", 0.0) - experts * (1 - touched)
    cache = residency.kv_bytes_per_gpu(shape, context, batch, case.kv_bits, layout)
    linear = sum(transformer.linear_flops_per_token(shape).values())
    attention = transformer.attention_flops_per_token(shape, context, absorbed=True)
    moved = _link_bytes(case, layout)
    decode = {"compute": batch / gpus * linear, "attention": batch / gpus * attention, "hbm": read + cache, "nvlink": batch / gpus * moved}
    pre_attention = transformer.attention_flops_per_token(shape, case.input_tokens / 2)
    prefill = {"compute": sum(transformer.linear_flops_per_token(shape, head=False).values()) / gpus, "attention": pre_attention / gpus,
               "hbm": sum(weights.values()) / CHUNK_TOKENS, "nvlink": moved / gpus}
    return decode, prefill


def _link_bytes(case: Case, layout: Layout) -> float:
    """Bytes that a GPU sends over NVLink for one token, all layers: two all-reduces for TP, dispatch and combine for EP."""
    shape, total = case.shape, 0.0
    if layout.tp > 1:
        total += shape.layers * 2 * shape.hidden * 2 * 2 * (layout.tp - 1) / layout.tp
    if shape.experts and layout.ep > 1:
        total += shape.experts.layers * shape.experts.top_k * shape.hidden * 3 * (layout.ep - 1) / layout.ep
    return total


def _rates(case: Case) -> dict[str, float]:
    gpu = case.rack.accelerator
    if gpu.hbm_bytes_per_s is None:
        raise Infeasible("facts", f"{case.rack.name} has no published memory bandwidth: throughput is not available", "give it under [facts]")
    peaks = gpu.peak_flops_per_s
    return {"compute": peaks[case.peak_name], "attention": peaks.get("bf16", peaks[case.peak_name]), "hbm": gpu.hbm_bytes_per_s,
            "nvlink": gpu.nvlink.bytes_per_s if gpu.nvlink else 1e9}


@dataclass(frozen=True)
class _Reached:
    """What one layout reaches: over the draws the best batch's index and its numbers; the bounds and the batch grid."""

    layout: Layout
    batch: np.ndarray
    pick: np.ndarray
    per_gpu: np.ndarray
    tpot: np.ndarray
    ttft: np.ndarray
    prefill_fraction: np.ndarray
    weights: float
    decode: dict
    prefill: dict
    most: int


def _reach(case: Case, layout: Layout, rates: dict[str, float]) -> _Reached:
    """Evaluate one layout over all batches and draws. Raises: Infeasible (kv_cache) when not one sequence fits."""
    slo, drawn = case.workload.slo, case.inputs
    efficiency, overhead, gain = (v[:, None] for v in _uncertain(case))
    weights = residency.weights_bytes_per_gpu(case.shape, case.formats, layout)
    pool = case.rack.accelerator.hbm_bytes * MEMORY_FRACTION - sum(weights.values()) - sum(case.memory_bytes().values())
    most = residency.max_sequences(pool, case.shape, case.input_tokens + case.output_tokens, case.kv_bits, layout)
    batch = BATCHES[(layout.dp <= BATCHES) & (most >= BATCHES)]
    batch = batch if len(batch) else np.array([float(most)])
    decode, prefill = _work(case, layout, batch, weights)
    speed = (drawn["hbm_bytes_per_s"].values / case.rack.accelerator.hbm_bytes_per_s)[:, None] if "hbm_bytes_per_s" in drawn else 1.0
    fresh = case.input_tokens * (1 - case.workload.cache_hit_fraction)
    drawn_decode = {**decode, "hbm": np.asarray(decode["hbm"]) / speed}  # a bandwidth that is drawn moves its own term alone
    tpot = (bounds_seconds(drawn_decode, rates)[0] / efficiency + overhead) / gain
    filled = fresh * bounds_seconds(prefill, rates)[0] / efficiency
    ttft = filled + overhead + 0 * batch
    allowed = (tpot <= _or_none(slo.tpot_s)) & (ttft <= _or_none(slo.ttft_s))
    allowed &= ttft + case.output_tokens * tpot <= _or_none(slo.e2e_s)
    seconds = layout.gpus * (case.output_tokens * tpot / batch + filled)
    per_gpu = np.where(allowed, case.output_tokens / seconds, 0.0)
    pick = np.where(per_gpu.max(axis=1) > 0, per_gpu.argmax(axis=1), tpot.argmin(axis=1))
    at = np.arange(len(pick)), pick
    share = layout.gpus * filled[:, 0] / seconds[at]
    return _Reached(layout, batch, pick, per_gpu[at], tpot[at], ttft[at], share, sum(weights.values()), decode, prefill, most)


def _or_none(limit: float | None) -> float:
    return np.inf if limit is None else limit


def _uncertain(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The drawn efficiency [1], overhead of a step [s] and tokens a step yields [1], each (n,)."""
    gain = case.inputs["mtp_tokens_per_step"].values
    return (case.inputs["roofline_efficiency"].values, case.shape.layers * case.inputs["layer_overhead_seconds"].values,
            gain if case.mtp else np.ones_like(gain))


def best(case: Case) -> Throughput:
    """Return the layout and batch with the most output tokens per deployed GPU under the SLO, prefill on GPUs of its own.

    Every draw chooses its layout and batch again. Raises: Infeasible (weights, kv_cache, slo).
    """
    rates, reached, cache_short = _rates(case), [], ""
    for layout in layouts(case):
        try:
            reached.append(_reach(case, layout, rates))
        except Infeasible as error:
            cache_short = error.limit
    if not reached:
        raise Infeasible("kv_cache", cache_short, "a shorter context, a smaller KV format or more HBM")
    table = np.array([r.per_gpu for r in reached])
    winner = table.argmax(axis=0)
    if table[winner[0], 0] <= 0:
        raise _too_slow(case, reached)
    first, at = reached[winner[0]], (winner, np.arange(table.shape[1]))
    per_gpu = table[at]
    # a draw in which no layout meets the SLO counts as the worst that any draw reached, not as none
    per_gpu = np.where(per_gpu > 0, per_gpu, per_gpu[per_gpu > 0].min())
    chosen = {name: np.array([getattr(r, name) for r in reached])[at] for name in ("tpot", "ttft", "prefill_fraction")}
    batch = float(first.batch[first.pick[0]])
    lower, upper = _ends(case, first, rates)
    cache = float(residency.kv_bytes_per_gpu(case.shape, case.input_tokens + case.output_tokens / 2, batch, case.kv_bits, first.layout))
    parts = {"weights": first.weights, "KV cache": cache, **case.memory_bytes()}
    parts["free"] = max(0.0, case.rack.accelerator.hbm_bytes - sum(parts.values()))
    return Throughput(first.layout, batch, per_gpu, **chosen, lower=lower, upper=upper, parts=parts, limit=_limit(case, first, rates))


def reach_of(case: Case, chosen: list[Layout] | None = None) -> tuple[list[Layout], np.ndarray]:
    """Return layouts and the output tokens per deployed GPU that each reaches over the draws (layouts, n) [1/s], 0 where it misses the SLO.

    Parameters: case; chosen, layouts to look at (absent: all that fit). Layouts without room for one sequence are left out. Raises: Infeasible.
    """
    rates, found = _rates(case), []
    for layout in chosen if chosen is not None else layouts(case):
        try:
            found.append((layout, _reach(case, layout, rates).per_gpu))
        except Infeasible:
            continue
    if not found:
        raise Infeasible("kv_cache", "no layout holds one sequence", "a shorter context, a smaller KV format or more HBM")
    reached, table = zip(*found, strict=True)
    return list(reached), np.array(table)


def _at_pick(first: _Reached) -> dict:
    return {k: float(np.ravel(v)[min(first.pick[0], np.size(v) - 1)]) for k, v in first.decode.items()}


def _ends(case: Case, first: _Reached, rates: dict[str, float]) -> tuple[float, float]:
    """The roofline's own bounds of output tokens per GPU at the chosen layout and batch [1/s]: no overlap with overhead, and peaks alone."""
    fresh = case.input_tokens * (1 - case.workload.cache_hit_fraction)
    step, token = bounds_seconds(_at_pick(first), rates), bounds_seconds(first.prefill, rates)
    _, overhead, gain = (float(v[0]) for v in _uncertain(case))
    batch = first.batch[first.pick[0]]
    times = [case.output_tokens * (step[i] + i * overhead) / gain / batch + fresh * token[i] for i in (1, 0)]
    lower, upper = (case.output_tokens / (first.layout.gpus * float(t)) for t in times)
    return lower, upper


def _limit(case: Case, first: _Reached, rates: dict[str, float]) -> str:
    if first.pick[0] == len(first.batch) - 1 and first.most <= BATCHES[-1]:
        return "HBM capacity (KV cache)"
    bound = limiting(_at_pick(first), rates)
    return f"the SLO, then {bound}" if case.workload.slo.tpot_s or case.workload.slo.e2e_s else bound


def _too_slow(case: Case, reached: list[_Reached]) -> Infeasible:
    """Return the refusal of an SLO with what the least slow layout reaches, limit by limit, and the nearest SLO that it meets."""
    slo = case.workload.slo
    asked = {n: v for n, v in (("TPOT", slo.tpot_s), ("TTFT", slo.ttft_s), ("end to end", slo.e2e_s)) if v is not None}

    def reaches(r: _Reached, slack: float = 1.0) -> dict[str, float]:
        tpot, ttft = float(r.tpot[0]) * slack, float(r.ttft[0]) * slack
        return {"TPOT": tpot, "TTFT": ttft, "end to end": ttft + case.output_tokens * tpot}

    def said(values: dict[str, float]) -> str:
        return " and ".join(f"{n} {values[n] * 1e3:.3g} ms" if n == "TPOT" else f"{n} {values[n]:.3g} s" for n in asked)

    fastest = min(reached, key=lambda r: max(reaches(r)[n] / limit for n, limit in asked.items()))
    limit = f"at best {said(reaches(fastest))} ({fastest.layout.label}), the SLO asks {said(asked)}"
    return Infeasible("slo", limit, said(reaches(fastest, 1.02)))


def throughput_answers(case: Case, found: Throughput) -> dict[str, Answer]:
    """Return tokens_per_s_per_gpu, tokens_per_s_per_user, tpot, ttft and batch, with their bounds and basis."""
    inputs = case.speed_inputs
    note = "roofline bounds at one batch, an assumed share of them, no more" + (f"; MTP on, depth {case.shape.mtp_layers}" if case.mtp else "")
    return {
        "tokens_per_s_per_gpu": answer("tokens_per_s_per_gpu", found.per_gpu, "tok/s/GPU", inputs, limit=found.limit, note=note, how="assumed",
                                       basis="output tokens, per deployed GPU (prefill included)", lower=found.lower, upper=found.upper),
        "tokens_per_s_per_user": answer("tokens_per_s_per_user", 1 / found.tpot, "tok/s/user", inputs, basis="1 / TPOT, mean", note=note,
                                        how="assumed"),
        "tpot": answer("tpot", found.tpot * 1e3, "ms", inputs, basis="mean step of decode", note=note, how="assumed"),
        "ttft": answer("ttft", found.ttft, "s", inputs, basis="one prompt alone, no queue", note=note, how="assumed"),
        "batch": answer("batch", found.batch + 0 * found.tpot, "count", inputs, how="assumed",
                        basis=f"sequences a replica of {found.layout.gpus} GPUs, central case"),
    }
