"""One workload on one system as the serving model takes it: candidate layouts, rates, demand, and what is drawn of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

import numpy as np
from scipy.special import ndtri

from planner.calibration.serving import constants
from planner.calibration.serving.join import condensed, newer_attention, prior, rates
from planner.calibration.serving.submissions import DRAFTS, ENGINE_SEQUENCES, MEMORY_FRACTION
from planner.models.serving.pools import Demand
from planner.models.serving.search import Candidates, Memory, candidates, layouts
from planner.models.serving.step import Rates
from planner.plan.case import Case
from planner.plan.inputs import Drawn
from planner.shapes import Format, Layout, ModelShape
from planner.specs import Rack

POOL_GPUS = 72  # over which queues pool on systems of smaller domains: nine nodes of eight


@dataclass(frozen=True)
class Pairing:
    """One candidate: decode and prefill layout (one and the same where aggregated), and the GPUs that racks are cut into."""

    label: str
    decode: Layout
    prefill: Layout
    aggregated: bool

    @property
    def gpus(self) -> int:
        """GPUs of the smallest group that racks are cut into: the replica, or the common measure of two pools' workers."""
        return self.decode.gpus if self.aggregated else gcd(self.decode.gpus, self.prefill.gpus)


def pool_gpus(rack: Rack) -> int:
    """Return the GPUs over which queues pool: one rack, or several nodes."""
    return max(rack.gpus, POOL_GPUS) if rack.gpus < POOL_GPUS else rack.gpus


@lru_cache(maxsize=256)
def _found(
    shape: ModelShape,
    formats: tuple[tuple[str, Format], ...],
    rack: Rack,
    kv_bits: float,
    other_bytes: float,
    context: float,
    prompt: float,
    held: float,
    patches: float,
) -> Candidates:
    work = condensed(shape, dict(formats), rack.accelerator)
    memory = Memory(MEMORY_FRACTION * rack.accelerator.hbm_bytes, other_bytes)
    gpus = pool_gpus(rack)
    return candidates(work, layouts(shape, rack.domain_gpus, gpus), memory, context, prompt, kv_bits, rack.domain_gpus, gpus, held, patches)


def found(case: Case) -> Candidates:
    """Return the layouts that fit. Raises: Infeasible (weights, layout)."""
    whole = case.input_tokens + case.output_tokens
    images = case.workload.images * case.workload.image_tokens / case.input_tokens
    patches = images * prior("patches_per_image_token")[0]
    return _found(
        case.shape,
        tuple(sorted(case.formats.items())),
        case.rack,
        case.kv_bits,
        sum(case.memory_bytes().values()),
        case.input_tokens + case.output_tokens / 2,
        case.input_tokens,
        whole,
        patches,
    )


def pairing(of: Candidates, index: int) -> Pairing:
    """Return one candidate by its layouts."""
    return Pairing(of.label(index), of.decode_layouts[index], of.prefill_layouts[index], bool(of.aggregated[index]))


def _values(case: Case, name: str, otherwise: float) -> np.ndarray:
    """Return a drawn input as a column (draws, 1), or the one value where it is not drawn."""
    item = case.inputs.get(name)
    return np.atleast_1d(otherwise if item is None else item.values)[:, None].astype(float)


def drawn_rates(case: Case) -> Rates:
    """Return the peaks of a system, each field (draws, 1) or (1, 1). Raises: Infeasible (facts)."""
    one, learned, gpu = rates([case.rack]), constants.of_model(case.shape), case.rack.accelerator
    attention = learned.values["newer_attention"] if newer_attention(gpu) else 1.0
    low = next((f for f in ("nvfp4", "mxfp4", "bf16") if f in gpu.peak_flops_per_s), "bf16")
    byte = "fp8" if "fp8" in gpu.peak_flops_per_s else "bf16"
    peaks = [_values(case, n, float(p)) for n, p in zip((low, byte, "bf16", "bf16"), one.flops_per_s[:, 0], strict=True)]
    size = max(len(p) for p in peaks)
    flops = np.stack([np.broadcast_to(p, (size, 1)) for p in peaks])
    return Rates(
        _values(case, "hbm_bytes_per_s", float(one.hbm_bytes_per_s[0])),
        flops,
        _values(case, "nvlink", float(one.link_bytes_per_s[0])),
        one.cross_bytes_per_s[:, None],
        np.array([[attention]]),
    )


def more_bytes(case: Case) -> np.ndarray:
    """Return the cache that a GPU has beyond its central HBM (draws, 1) [B]."""
    return MEMORY_FRACTION * (_values(case, "hbm_bytes", case.rack.accelerator.hbm_bytes) - case.rack.accelerator.hbm_bytes)


def demand(case: Case, of: Candidates) -> Demand:
    """Return what a request asks, limits at the SLO's quantile, drawn fields (draws, 1), the transfer between pools (candidates, 1, 1)."""
    learned, slo = constants.of_model(case.shape), case.workload.slo
    tail, scv = _lengths(case)
    headroom = _headroom(learned.values["headroom"], slo.quantile)
    fresh = max(1.0, case.input_tokens * (1 - case.workload.cache_hit_fraction))
    moved = of.prefill.cache_held_bytes * of.prefill.tp * case.input_tokens / (case.input_tokens + case.output_tokens)
    nic = case.rack.nic.bytes_per_s * case.rack.nics_per_gpu if case.rack.nic else 5e10
    link = case.rack.accelerator.nvlink.bytes_per_s if case.rack.accelerator.nvlink else nic
    inside = (of.decode.gpus + of.prefill.gpus) <= case.rack.domain_gpus
    transfer = moved / of.prefill.tp / (np.where(inside, link, nic) * learned.eff.link)
    return Demand(
        fresh,
        case.output_tokens,
        *(np.inf if v is None else v for v in (slo.ttft_s, slo.tpot_s, slo.e2e_s)),
        tokens_per_step=_values(case, "mtp_tokens_per_step", 1.0) if case.mtp else 1.0,
        drafts=DRAFTS if case.mtp else 0.0,
        tail=tail,
        scv=scv,
        headroom=headroom,
        slowdown=1 / _values(case, "speed_against_model", 1.0),
        transfer_seconds=transfer[:, None, None],
        quantile=slo.quantile,
    )


def _headroom(at_p99: float, quantile: float) -> float:
    """Return the mean TPOT over its limit at a quantile, from the fitted one at the 99th percentile."""
    return min(1.0, at_p99) ** max(0.0, float(ndtri(quantile) / ndtri(0.99)))


def _lengths(case: Case) -> tuple[float, float]:
    """Return the p99 of a prompt over its mean, and the squared coefficient of variation: from the workload's own lengths where it has them."""
    given = case.workload.input_tokens
    if given.p99 is not None and given.mean:
        spread = np.log(given.p99 / (given.p50 or given.mean)) / float(ndtri(0.99))
        return max(1.0, given.p99 / given.mean), float(np.expm1(spread**2))
    return prior("tail")[0], prior("service_scv")[0]


def margin(case: Case) -> float:
    """Return what submitters keep from the limit, and their level against public runs: a factor of throughput."""
    tpot = case.workload.slo.tpot_s
    return constants.margin(constants.of_model(case.shape), case.limited, np.inf if tpot is None else tpot)


def central(case: Case) -> Case:
    """Return the case with its central values alone."""
    only: Mapping[str, Drawn] = {n: replace(d, values=d.values[:1]) for n, d in case.inputs.items()}
    mine = replace(case)
    mine.__dict__["inputs"] = dict(only)
    return mine


SEQUENCES = ENGINE_SEQUENCES
