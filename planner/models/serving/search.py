"""Every layout that fits, and the most that any of them serves under an SLO: one point, or the whole frontier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.errors import Infeasible
from planner.models.serving.amounts import Served as ServedModel
from planner.models.serving.amounts import Terms, attention_terms, chosen, lifted, terms
from planner.models.serving.pools import FINE, LIMITS, Demand, Served, best_fraction, serve
from planner.models.serving.step import Efficiency, Rates
from planner.shapes import Layout

PREFILL_WIDEST = 16  # GPUs of the largest prefill worker that is tried


@dataclass(frozen=True)
class Memory:
    """One GPU's memory: device_bytes [B] that the engine may use, other_bytes [B] besides weights and cache."""

    device_bytes: float
    other_bytes: float


@dataclass(frozen=True)
class Candidates:
    """Layouts as pairs: decode and prefill, terms of each pair; aggregated (n,); pool_bytes (n,) [B]; names and gpus of both."""

    decode_layouts: tuple[Layout, ...]
    prefill_layouts: tuple[Layout, ...]
    decode: Terms
    prefill: Terms
    aggregated: np.ndarray
    pool_bytes: np.ndarray

    def __len__(self) -> int:
        return len(self.decode_layouts)

    def label(self, index: int) -> str:
        """Return the pair in the field's short form.

        Parameters: index [1]. Returns: text. Raises: IndexError outside. Validity: any pair. Error: none. Source: published recipes.
        """
        decode, prefill = self.decode_layouts[index].label, self.prefill_layouts[index].label
        return decode if self.aggregated[index] else f"P {prefill} + D {decode}"

    def only(self, index) -> Candidates:
        """Return the same with chosen pairs alone.

        Parameters: index, array of pairs [1]. Returns: Candidates [B, FLOP]. Raises: IndexError outside. Validity: any pairs. Error: none.
        Source: indexing.
        """
        pick = [int(i) for i in index]
        return Candidates(
            tuple(self.decode_layouts[i] for i in pick),
            tuple(self.prefill_layouts[i] for i in pick),
            chosen(self.decode, pick),
            chosen(self.prefill, pick),
            self.aggregated[pick],
            self.pool_bytes[pick],
        )


def layouts(shape, domain_gpus: int, most_gpus: int) -> list[Layout]:
    """Return the layouts worth trying inside one NVLink domain: TP, TP with EP, attention-DP with EP up to the whole domain, PP over TP.

    Parameters: shape; domain_gpus, most_gpus [1]. Returns: list of Layout, smallest first. Raises: nothing. Validity: TP up to 8 and a divisor of the
    heads; EP at most the number of experts. Error: exact. Source: what published recipes use.
    """
    limit = int(min(domain_gpus, most_gpus))
    sizes = sorted({2**i for i in range(12) if 2**i <= limit} | ({limit} if limit > 8 else set()))
    found: list[Layout] = []
    for n in sizes:
        if n <= 8 and shape.heads % n == 0:
            found.append(Layout(tp=n))
            found += [Layout(tp=n, pp=p) for p in (2, 4) if n * p <= limit and shape.layers >= p]
        if shape.experts and n > 1:
            if n <= 8 and shape.heads % n == 0 and n <= shape.experts.num:
                found.append(Layout(tp=n, ep=n))
            if n <= shape.experts.num:
                found.append(Layout(dp=n, ep=n))
    return sorted(found, key=lambda one: (one.gpus, one.dp, one.ep, one.pp))


def candidates(
    model: ServedModel,
    tried: Sequence[Layout],
    memory: Memory,
    context_tokens: float,
    prompt_tokens: float,
    kv_bits: float,
    domain_gpus: int,
    gpus: int,
    held_tokens: float | None = None,
    vision_tokens_per_token: float = 0.0,
    disaggregated: bool = True,
) -> Candidates:
    """Return the pairs of layouts whose weights fit: each alone (aggregated), and each as a decode pool with each small enough prefill worker.

    Parameters: model; tried, layouts; memory; context_tokens, prompt_tokens, held_tokens [token], kv_bits [1], vision_tokens_per_token [1] as
    `amounts.terms`; domain_gpus, gpus [1] deployed in all; disaggregated, whether pairs are tried. Returns: Candidates.
    Raises: Infeasible: layout (none is left to try), weights (none fits). Validity: as `amounts.terms`. Error: exact by count. Source: `amounts`.
    """
    if not tried:
        raise Infeasible("layout", "no layout to try", "layouts that divide the heads and fit one NVLink domain")
    attention = attention_terms(model.shape, [one.tp for one in tried], context_tokens, prompt_tokens, kv_bits, held_tokens)
    all_terms = terms(model, tried, attention, domain_gpus, vision_tokens_per_token)
    budget = memory.device_bytes - memory.other_bytes
    fit = np.flatnonzero(all_terms.held_bytes < budget)
    if not len(fit):
        least = int(all_terms.held_bytes.argmin())
        raise Infeasible(
            "weights",
            f"weights need {all_terms.held_bytes[least] / 1e9:,.1f} GB a GPU with {tried[least].label}, {budget / 1e9:,.1f} GB are free",
            "a smaller weight format, more GPUs a replica, or a system with more HBM",
        )
    pairs = [(i, i, True) for i in fit]
    if disaggregated:
        small = [j for j in fit if tried[j].gpus <= PREFILL_WIDEST and tried[j].pp == 1]
        pairs += [(i, j, False) for i in fit if tried[i].pp == 1 for j in small if tried[i].gpus + tried[j].gpus <= gpus]
    first, second = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    return Candidates(
        tuple(tried[i] for i in first),
        tuple(tried[j] for j in second),
        chosen(all_terms, first),
        chosen(all_terms, second),
        np.array([p[2] for p in pairs]),
        budget - all_terms.held_bytes[first],
    )


def reach(
    found: Candidates, rates: Rates, eff: Efficiency, demand: Demand, rank_sequences: float, gpus: float, more_bytes=None, effort=FINE
) -> Served:
    """Return what every candidate serves under one SLO, each at its best batch, for one set of inputs or for many draws at once.

    Parameters: found; rates, eff, demand: scalars, or arrays (draws, 1) where more_bytes is given; rank_sequences [1] that the engine allows; gpus
    [1] deployed; more_bytes (draws, 1) [B] of cache beyond that of the candidates; effort as `pools.serve`.
    Returns: Served, arrays (n,) or (n, draws) [1/s, s, 1].
    Raises: nothing. Validity, Error, Source: as `pools.serve`.
    """
    decode, prefill = lifted(found.decode), lifted(found.prefill)
    pool, alone = found.pool_bytes[:, None], found.aggregated[:, None]
    if more_bytes is not None:
        decode, prefill, pool, alone = lifted(decode), lifted(prefill), pool[..., None] + more_bytes, alone[..., None]
    return best_fraction(serve(decode, prefill, rates, eff, demand, pool, rank_sequences, alone, gpus, 0.0, effort))


@dataclass(frozen=True)
class Point:
    """The best candidate: index into its Candidates; per_gpu [1/s], batch [1], tpot, ttft [s], prefill_fraction [1], limit in words."""

    index: int
    per_gpu: float
    batch: float
    tpot: float
    ttft: float
    prefill_fraction: float
    limit: str


def point(served: Served, index: int) -> Point:
    """Return one candidate of what was reached.

    Parameters: served, arrays (n,); index. Returns: Point [1/s, s, 1]. Raises: IndexError outside. Validity, Error, Source: as `pools.serve`.
    """
    numbers = (float(getattr(served, k)[index]) for k in ("per_gpu", "batch", "tpot", "ttft", "prefill_fraction"))
    return Point(int(index), *numbers, LIMITS[int(served.limit[index])])


def best(found: Candidates, rates: Rates, eff: Efficiency, demand: Demand, rank_sequences: float, gpus: float) -> Point:
    """Return the most output tokens per deployed GPU under an SLO.

    Parameters: as `reach`. Returns: Point [1/s, s]. Raises: Infeasible: kv_cache (not one sequence fits), slo, with the nearest feasible point.
    Validity, Error, Source: as `pools.serve`.
    """
    served = reach(found, rates, eff, demand, rank_sequences, gpus)
    index = int(served.per_gpu.argmax())
    if served.per_gpu[index] > 0:
        return point(served, index)
    held = found.decode.cache_held_bytes
    if (held > found.pool_bytes).all():
        most = int((found.pool_bytes / held).argmax())
        limit = (
            f"one sequence needs {held[most] / 1e9:,.1f} GB of cache a GPU with {found.decode_layouts[most].label}, "
            f"{max(0.0, found.pool_bytes[most]) / 1e9:,.1f} GB are left"
        )
        raise Infeasible("kv_cache", limit, "a shorter context, a smaller KV format, more GPUs a replica, or a system with more HBM")
    raise _too_slow(found, rates, eff, demand, gpus)


def fastest(found: Candidates, rates: Rates, eff: Efficiency, demand: Demand, gpus: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the floor of every candidate: mean TPOT and p99 TTFT of one request alone.

    Parameters: as `reach`. Returns: pair of (n,) [s]. Raises: nothing. Validity, Error, Source: as `pools.serve`.
    """
    free = replace(demand, ttft_seconds=np.inf, tpot_seconds=np.inf, e2e_seconds=np.inf)
    alone = serve(
        lifted(found.decode),
        lifted(found.prefill),
        rates,
        eff,
        free,
        np.asarray(found.decode.cache_held_bytes)[:, None],
        1.0,
        found.aggregated[:, None],
        gpus,
    )
    return alone.tpot[:, 0], alone.ttft[:, 0]


def _too_slow(found: Candidates, rates: Rates, eff: Efficiency, demand: Demand, gpus: float) -> Infeasible:
    tpot, ttft = fastest(found, rates, eff, demand, gpus)
    whole = ttft + float(np.ravel(demand.output_tokens)[0]) * tpot
    asked = {
        "TPOT": (float(np.ravel(demand.tpot_seconds)[0]), tpot / float(np.ravel(demand.headroom)[0])),
        "TTFT": (float(np.ravel(demand.ttft_seconds)[0]), ttft),
        "end to end": (float(np.ravel(demand.e2e_seconds)[0]), whole),
    }
    asked = {k: v for k, v in asked.items() if np.isfinite(v[0])}
    if not asked:
        return Infeasible("slo", "no layout serves one request", "another layout or a longer limit")
    near = int(np.max([v / limit for limit, v in asked.values()], axis=0).argmin())

    def said(slack: float, values: bool) -> str:
        shown = {k: (v[near] * slack if values else limit) for k, (limit, v) in asked.items()}
        return " and ".join(f"{k} {x * 1e3:.3g} ms" if k == "TPOT" else f"{k} {x:.3g} s" for k, x in shown.items())

    return Infeasible("slo", f"at best {said(1, True)} ({found.decode_layouts[near].label}), the SLO asks {said(1, False)}", said(1.1, True))


def frontier(
    found: Candidates, rates: Rates, eff: Efficiency, demand: Demand, rank_sequences: float, gpus: float, tpot_seconds
) -> list[Point | None]:
    """Return the best point under each of many TPOT limits: tokens/s per GPU against tokens/s per user.

    Parameters: as `reach`; tpot_seconds (m,) [s], limits. Returns: list of m Points, None where nothing serves. Raises: nothing.
    Validity, Error, Source: as `pools.serve`.
    """
    out: list[Point | None] = []
    for limit in np.atleast_1d(np.asarray(tpot_seconds, dtype=float)):
        served = reach(found, rates, eff, replace(demand, tpot_seconds=float(limit)), rank_sequences, gpus)
        index = int(served.per_gpu.argmax())
        out.append(point(served, index) if served.per_gpu[index] > 0 else None)
    return out
