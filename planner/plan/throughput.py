"""What a workload gets from a system: the best layout and batch under its SLO, over the draws, by the calibrated serving model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.calibration.serving import constants
from planner.errors import Infeasible
from planner.models.serving import search
from planner.models.serving.pools import COARSE, LIMITS, Served, integer_split
from planner.models.serving.search import Candidates
from planner.models.serving.step import EFFICIENCIES, Efficiency, Rates, prompt_seconds, step_parts, step_seconds
from planner.plan import serving
from planner.plan.answer import Answer
from planner.plan.case import Case
from planner.plan.inputs import Drawn, answer
from planner.plan.serving import Pairing

MOST_PAIRINGS = 16  # from which each draw chooses again
COVERED = 33  # the central case and 32 draws, from which the pairings are picked
IDEAL = Efficiency(**{k: 0.0 if k.endswith("seconds") or k == "activations" else 1.0 for k in EFFICIENCIES})
FULL_OVERLAP = 32.0


@dataclass(frozen=True)
class Throughput:
    """The chosen layout and what it gives over the draws, index 0 central.

    per_gpu (n,) [1/s] output tokens per deployed GPU; tpot (n,) [s] mean; ttft (n,) [s] at the SLO's quantile; prefill_fraction (n,) [1] of
    GPU time; lower and upper [1/s] bounds of per_gpu; parts [B] in a GPU's HBM; step [s] by part; batch [1] central; pools, workers in
    words; inputs, what per_gpu rests on; how it was got, and words about it.
    """

    layout: Pairing
    batch: float
    per_gpu: np.ndarray
    tpot: np.ndarray
    ttft: np.ndarray
    prefill_fraction: np.ndarray
    lower: float
    upper: float
    parts: dict[str, float]
    step: dict[str, float]
    limit: str
    pools: str
    inputs: Mapping[str, Drawn]
    how: str
    words: str = ""


def _reach(case: Case, of: Candidates) -> Served:
    """Return what candidates reach over the draws (candidates, draws), with software and margin."""
    eff = constants.of_model(case.shape).eff
    served = search.reach(
        of,
        serving.drawn_rates(case),
        eff,
        serving.demand(case, of),
        serving.SEQUENCES,
        serving.pool_gpus(case.rack),
        serving.more_bytes(case),
        COARSE,
    )
    factor = case.inputs["software_factor"].values * serving.margin(case) if "software_factor" in case.inputs else serving.margin(case)
    size = max(len(d.values) for d in case.inputs.values()) if case.inputs else 1
    whole = Served(*(np.broadcast_to(getattr(served, k), (len(of), size)) for k in Served.__dataclass_fields__))
    return replace(whole, per_gpu=whole.per_gpu * factor * _split(case, of, whole)[2])


def _split(case: Case, of: Candidates, served: Served) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the whole prefill and decode workers of each pair in the GPUs that queues pool over, and the share of the continuous split that they
    reach, each (candidates, draws); aggregated candidates reach it whole."""
    gpus, share, rate = serving.pool_gpus(case.rack), served.prefill_fraction, served.per_gpu
    decode, prefill = of.decode.gpus[:, None], of.prefill.gpus[:, None]
    inner = np.clip(share, 1e-9, 1 - 1e-9)
    fillers, decoders, carried = integer_split(gpus, decode, prefill, rate * decode / (1 - inner), rate * prefill / inner)
    reached = np.where(of.aggregated[:, None], 1.0, np.minimum(1.0, carried / np.maximum(rate * gpus, 1e-30)))
    return fillers, decoders, reached


def _allowed(case: Case, allowed: Callable[[Pairing], bool] | None) -> Candidates:
    """Return the layouts that fit, those that are allowed alone. Raises: Infeasible (weights, layout)."""
    of = serving.found(case)
    if allowed is None:
        return of
    kept = [i for i in range(len(of)) if allowed(serving.pairing(of, i))]
    if not kept:
        raise Infeasible("layout", f"none of the {len(of)} layouts that hold the weights is allowed", "a larger replica, or both kinds of pool")
    return of.only(kept)


def _best_first(case: Case, allowed: Callable[[Pairing], bool] | None = None) -> Candidates:
    """Return at most 16 pairs that together serve nearly what all serve: the best of the central case, then those that add most over some draws."""
    of, few = _allowed(case, allowed), replace(case)
    few.__dict__["inputs"] = {n: replace(d, values=d.values[:COVERED]) for n, d in case.inputs.items()}
    table = _reach(few, of).per_gpu
    share = table / np.maximum(table.max(axis=0), 1e-30)
    picked, reached = [int(table[:, 0].argmax())], share[int(table[:, 0].argmax())]
    while len(picked) < min(MOST_PAIRINGS, len(of)):
        gain = np.maximum(share, reached).sum(axis=1) - reached.sum()
        gain[picked] = -1.0
        if gain.max() <= 0:
            gain = np.where(gain < 0, -1.0, share.sum(axis=1))
        picked.append(int(gain.argmax()))
        reached = np.maximum(reached, share[picked[-1]])
    return of.only(picked)


def _looked(case: Case, allowed: Callable[[Pairing], bool] | None = None) -> tuple[Candidates, Served]:
    """Return the pairs of `_best_first` and what they reach, worked once a case."""
    held = None if allowed else case.__dict__.get("_looked")
    if held is None:
        of = _best_first(case, allowed)
        held = of, _reach(case, of)
        if not allowed:
            case.__dict__["_looked"] = held
    return held


def best(case: Case, allowed: Callable[[Pairing], bool] | None = None) -> Throughput:
    """Return the layout and batch with the most output tokens per deployed GPU under the SLO.

    Every draw chooses its batch, and its layout among the 16 best of the central case. allowed, which pairings may be chosen (absent: all).
    Raises: Infeasible (weights, kv_cache, slo, facts; layout where none is allowed).
    """
    of, served = _looked(case, allowed)
    table = served.per_gpu
    winner = table.argmax(axis=0)
    if table[winner[0], 0] <= 0:
        raise _refused(case, allowed)
    per_gpu = table[winner, np.arange(table.shape[1])]
    # a draw in which no layout meets the SLO counts as the worst that any draw reached, not as none
    per_gpu = np.where(per_gpu > 0, per_gpu, per_gpu[per_gpu > 0].min())
    first, at = int(winner[0]), (winner, np.arange(table.shape[1]))
    chosen = {k: getattr(served, k)[at] for k in ("tpot", "ttft", "prefill_fraction")}
    batch = float(served.batch[first, 0])
    lower, upper = _ends(case, of.only([first]), batch)
    held = float(of.decode.held_bytes[first])
    sequence = float(of.decode.cache_held_bytes[first]) / float(of.decode.dp[first])
    parts = {"weights": held, "KV cache": batch * sequence, **case.memory_bytes()}
    parts["free"] = max(0.0, case.rack.accelerator.hbm_bytes - sum(parts.values()))
    pools = ""
    if not of.aggregated[first]:
        fillers, decoders = (int(v[first, 0]) for v in _split(case, of, served)[:2])
        pools = f"{fillers} prefill workers of {of.prefill_layouts[first].label} and {decoders} decode workers of {of.decode_layouts[first].label}"
    limit = _limit(LIMITS[int(served.limit[first, 0])])
    return Throughput(
        serving.pairing(of, first),
        batch,
        per_gpu,
        **chosen,
        lower=lower,
        upper=upper,
        parts=parts,
        step=_step(case, of.only([first]), batch),
        limit=limit,
        pools=pools,
        inputs=case.speed_inputs,
        how="extrapolated" if case.extrapolated else "modelled",
    )


def reach_of(case: Case, chosen: Sequence[Pairing] | None = None, everything: bool = False) -> tuple[list[Pairing], np.ndarray]:
    """Return layouts and the output tokens per deployed GPU that each reaches over the draws (layouts, n) [1/s], 0 where it misses the SLO.

    Parameters: case; chosen, pairings to look at (absent: the 16 best of the central case); everything, all that fit. Raises: Infeasible.
    """
    if chosen is None and not everything:
        of, served = _looked(case)
    else:
        of, wanted = serving.found(case), None if chosen is None else {p.label for p in chosen}
        of = of.only([i for i in range(len(of)) if wanted is None or of.label(i) in wanted])
        served = _reach(case, of)
    return [serving.pairing(of, i) for i in range(len(of))], served.per_gpu


def _scalar(rates: Rates) -> Rates:
    return Rates(*(np.asarray(getattr(rates, k))[..., :1, 0] for k in Rates.__dataclass_fields__))


def _ends(case: Case, one: Candidates, batch: float) -> tuple[float, float]:
    """The peaks' own bounds of output tokens per GPU at the chosen layout and batch [1/s]: memory and compute in turn, and at once."""
    rates, found = _scalar(serving.drawn_rates(serving.central(case))), []
    want = serving.demand(serving.central(case), one)
    gain, drafts = float(np.ravel(want.tokens_per_step)[0]), float(want.drafts)
    for overlap in (1.0, FULL_OVERLAP):
        eff = replace(IDEAL, overlap=overlap)
        step = float(step_seconds(one.decode, rates, eff, batch, 0.0, drafts)[0]) / gain
        prompt = float(prompt_seconds(one.prefill, rates, eff, want.prompt_tokens, 8 * one.prefill.dp)[0] / 8 / one.prefill.dp[0])
        each = step * float(one.decode.gpus[0]) / batch + prompt * float(one.prefill.gpus[0]) / case.output_tokens
        found.append(1 / each)
    return found[0], max(found)


def _step(case: Case, one: Candidates, batch: float) -> dict[str, float]:
    """Return the mean decode step of the central case by part [s]."""
    middle = serving.central(case)
    want, eff = serving.demand(middle, one), constants.of_model(case.shape).eff
    mixed = batch * want.prompt_tokens / want.output_tokens * float(np.ravel(want.tokens_per_step)[0]) if one.aggregated[0] else 0.0
    found = step_parts(one.decode, _scalar(serving.drawn_rates(middle)), eff, batch, mixed, want.drafts)
    return {k: float(np.ravel(v)[0]) * float(np.ravel(want.slowdown)[0]) for k, v in found.items()}


def _limit(word: str) -> str:
    return {
        "KV cache": "HBM capacity (KV cache)",
        "engine batch": "the engine's largest batch",
        "prefill": "prefill inside the TTFT limit",
        "TPOT": "the TPOT limit",
        "TTFT": "the TTFT limit",
    }[word]


def _refused(case: Case, allowed: Callable[[Pairing], bool] | None = None) -> Infeasible:
    """Return why nothing serves: the cache or the SLO, with the nearest feasible point."""
    middle, of = serving.central(case), _allowed(case, allowed)
    want = serving.demand(middle, of)
    flat = replace(
        want, transfer_seconds=want.transfer_seconds[..., 0], **{k: float(np.ravel(getattr(want, k))[0]) for k in ("tokens_per_step", "slowdown")}
    )
    rates = _scalar(serving.drawn_rates(middle))
    try:
        found = search.best(
            of,
            Rates(*(np.asarray(getattr(rates, k))[..., None] for k in Rates.__dataclass_fields__)),
            constants.of_model(case.shape).eff,
            flat,
            serving.SEQUENCES,
            serving.pool_gpus(case.rack),
        )
    except Infeasible as error:
        return error
    return Infeasible("slo", f"no whole workers of {of.label(found.index)} fit one rack", "a looser SLO")


def throughput_answers(case: Case, found: Throughput) -> dict[str, Answer]:
    """Return tokens_per_s_per_gpu, tokens_per_s_per_user, tpot, ttft and batch, with their bounds and basis."""
    inputs, how = case.speed_inputs, "extrapolated" if case.extrapolated else "modelled"
    notes = [f"layout {found.layout.label}"]
    if found.pools:
        notes.append(f"in {serving.pool_gpus(case.rack)} GPUs {found.pools}")
    value, *_, words = case.software_state
    if value != 1.0:
        notes.append(f"software {case.given.software} at {value:.2f} of mature: {words}")
    if case.mtp:
        notes.append(f"MTP on, {serving.DRAFTS} tokens drafted a step")
    note = "; ".join(notes)
    quantile = f"p{100 * case.workload.slo.quantile:g}"
    return {
        "tokens_per_s_per_gpu": answer(
            "tokens_per_s_per_gpu",
            found.per_gpu,
            "tok/s/GPU",
            found.inputs,
            limit=found.limit,
            note=f"{found.words}; latencies are the model's: {note}" if found.words else note,
            how=found.how,
            basis="output tokens, per deployed GPU (prefill included)",
            lower=found.lower,
            upper=found.upper,
        ),
        "tokens_per_s_per_user": answer("tokens_per_s_per_user", 1 / found.tpot, "tok/s/user", inputs, basis="1 / TPOT, mean", how=how),
        "tpot": answer("tpot", found.tpot * 1e3, "ms", inputs, basis="mean time per output token at full load", how=how),
        "ttft": answer("ttft", found.ttft, "s", inputs, basis=f"{quantile} at full load, queue included", how=how),
        "batch": answer(
            "batch",
            found.batch + 0 * found.tpot,
            "count",
            inputs,
            how=how,
            basis=f"sequences a decode replica of {found.layout.decode.gpus} GPUs, central case",
        ),
    }
