"""The time of one engine step: parts that add up, for one layout or a million (layout, batch, draw) points."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from planner.models.serving.amounts import Terms

PARTS = ("weights", "cache", "linear", "attention", "activations", "communication", "launch", "sampling")
REFERENCE_BYTES_PER_S = 8e12  # HBM of the generation whose launch cost the constant states


@dataclass(frozen=True)
class Rates:
    """Peaks of one GPU: hbm_bytes_per_s; flops_per_s (4, ...) by `amounts.WIDTHS`, dense; attention_speed [1] of attention against
    the first generation with 4-bit peaks; link_bytes_per_s one direction inside the NVLink
    domain, cross_bytes_per_s outside it. Scalars, or arrays that broadcast with the points (a draw each, a row each)."""

    hbm_bytes_per_s: np.ndarray
    flops_per_s: np.ndarray
    link_bytes_per_s: np.ndarray
    cross_bytes_per_s: np.ndarray
    attention_speed: np.ndarray = 1.0


@dataclass(frozen=True)
class Efficiency:
    """The calibrated constants, shared by all systems. Scalars, or arrays that broadcast with the points.

    weights, cache, low, byte, wide, unpacked, attention, link [1]: shares of a peak that are reached. overlap [1]: q in
    (memory^q + compute^q)^(1/q), 1 no overlap. skew [1]: tokens that count towards touched experts. activations [1]: passes over the hidden
    state a layer. layer_seconds, allreduce_seconds, cross_seconds (an all-reduce that leaves the domain), alltoall_seconds [s].
    sequence_seconds [s] a sequence of a rank. generation [1]: how launch cost falls with HBM speed.
    prefill [1]: time of a prompt over what the parts say.
    """

    weights: float
    cache: float
    low: float
    byte: float
    wide: float
    unpacked: float
    attention: float
    link: float
    overlap: float
    skew: float
    activations: float
    layer_seconds: float
    allreduce_seconds: float
    cross_seconds: float
    alltoall_seconds: float
    sequence_seconds: float
    generation: float
    prefill: float


EFFICIENCIES = tuple(f.name for f in fields(Efficiency))


def _times(terms: Terms, rates: Rates, eff: Efficiency, sequences, prefill_tokens, drafts) -> dict[str, np.ndarray]:
    """The raw time of each part [s] of one stage's step, before memory and compute overlap."""
    rank, prompt = sequences / terms.dp, prefill_tokens / terms.dp
    decoded = rank * (1 + drafts)
    tokens, everywhere = decoded + prompt, sequences * (1 + drafts) + prefill_tokens
    touched = -np.expm1(everywhere * eff.skew * np.log1p(-np.minimum(terms.expert_share, 1 - 1e-12)))
    peaks = rates.flops_per_s
    linear = sum(
        (tokens * terms.flops[i] + everywhere * terms.expert_flops[i]) / (peaks[i] * share)
        for i, share in enumerate((eff.low, eff.byte, eff.wide, eff.unpacked))
    )
    linear = linear + (decoded * terms.head_flops + prompt * terms.vision_flops) / (peaks[2] * eff.wide)
    attention = decoded * terms.decode_attention_flops / peaks[1] + prompt * terms.prefill_attention_flops / peaks[2]
    attention = attention / (eff.attention * rates.attention_speed)
    link = np.where(terms.crosses, rates.cross_bytes_per_s, rates.link_bytes_per_s) * eff.link
    split = terms.tp > 1
    reduce = np.where(terms.crosses, eff.cross_seconds, eff.allreduce_seconds)
    moved = 4 * tokens * terms.hidden * (terms.tp - 1) / terms.tp / link
    communication = np.where(split, 2 * terms.layers * (reduce + moved), 0.0)
    dealt = (terms.ep > 1) & (terms.dp > 1)
    reached = terms.ep * -np.expm1(terms.top_k * np.log1p(-1 / np.maximum(terms.ep, 1 + 1e-9)))
    sent = 3 * tokens * terms.hidden * reached * (terms.ep - 1) / terms.ep / link
    communication = communication + np.where(dealt, terms.moe_layers * (2 * eff.alltoall_seconds + sent), 0.0)
    hbm = rates.hbm_bytes_per_s
    return {
        "weights": (terms.fixed_bytes + terms.expert_bytes * touched) / (hbm * eff.weights),
        "cache": rank * terms.cache_read_bytes / (hbm * eff.cache),
        "linear": linear,
        "attention": attention,
        "activations": 2 * eff.activations * tokens * terms.hidden * terms.layers / hbm,
        "communication": communication,
        "launch": terms.layers * eff.layer_seconds * (REFERENCE_BYTES_PER_S / hbm) ** eff.generation,
        "sampling": rank * eff.sequence_seconds,
    }


def _core(times: dict[str, np.ndarray], overlap) -> np.ndarray:
    memory, compute = times["weights"] + times["cache"], times["linear"] + times["attention"]
    larger = np.maximum(np.maximum(memory, compute), 1e-30)
    return larger * ((memory / larger) ** overlap + (compute / larger) ** overlap) ** (1 / overlap)


def step_seconds(terms: Terms, rates: Rates, eff: Efficiency, sequences, prefill_tokens=0.0, drafts=0.0):
    """Return the time of one step of a replica: pp x [(memory^q + compute^q)^(1/q) + activations + communication + launch + sampling].

    Parameters: terms of the layouts; rates; eff; sequences [1] decoding in the replica; prefill_tokens [token] of prompts in the same step; drafts
    [token] verified beside each sequence's own (MTP). All broadcast. Returns: time [s], broadcast shape. Raises: nothing (checked above).
    Validity: even load; pipeline stages filled by as many groups of the batch. Error: leave-one-system-out median 10 % on published
    disaggregated DeepSeek points (outputs/serving_errors.csv). Source: roofline with calibrated shares; data/calibration/serving.csv.
    """
    times = _times(terms, rates, eff, sequences / terms.pp, prefill_tokens / terms.pp, drafts)
    rest = times["activations"] + times["communication"] + times["launch"] + times["sampling"]
    return terms.pp * (_core(times, eff.overlap) + rest)


def step_parts(terms: Terms, rates: Rates, eff: Efficiency, sequences, prefill_tokens=0.0, drafts=0.0) -> dict[str, np.ndarray]:
    """Return the same time by part; what overlap saves is taken from weights, cache, linear and attention in proportion.

    Parameters: as `step_seconds`. Returns: ordered dict part -> time [s]; the parts sum to `step_seconds`. Raises: nothing.
    Validity: as `step_seconds`. Error: the sum is exact. Source: as `step_seconds`.
    """
    times = _times(terms, rates, eff, sequences / terms.pp, prefill_tokens / terms.pp, drafts)
    busy = ("weights", "cache", "linear", "attention")
    kept = _core(times, eff.overlap) / np.maximum(sum(times[k] for k in busy), 1e-30)
    return {k: terms.pp * times[k] * (kept if k in busy else 1.0) for k in PARTS}


def prompt_seconds(terms: Terms, rates: Rates, eff: Efficiency, tokens, prompts=1.0):
    """Return the time to prefill prompts together on a worker: the step of their tokens, times the calibrated factor.

    Parameters: terms of the worker; tokens [token] of one prompt that the cache does not hold; prompts [1] side by side.
    Returns: time [s] of the whole group, broadcast shape. Raises: nothing. Validity: chunks of whole prompts; no decode on this worker.
    Error: not validated alone; within TTFT (outputs/serving_errors.csv). Source: as `step_seconds`.
    """
    return eff.prefill * step_seconds(terms, rates, eff, np.zeros(np.shape(tokens)), tokens * prompts)
