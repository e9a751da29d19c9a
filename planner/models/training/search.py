"""The fastest layouts of one job on a given number of GPUs: every layout tried at once, those that do not fit left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.errors import Infeasible, InputError
from planner.models.training.job import Efficiency, Machine, TrainingLayout, Work
from planner.models.training.memory import memory_parts
from planner.models.training.step import step_parts
from planner.units import count, fraction


@dataclass(frozen=True)
class Found:
    """One layout of a search. step_seconds [s]; memory_bytes [B] on the fullest GPU as the search counts it; micro_batch [sequence]."""

    layout: TrainingLayout
    micro_batch: int
    step_seconds: float
    memory_bytes: float


def _divisors(n: int, most: int) -> np.ndarray:
    return np.array([d for d in range(1, min(n, most) + 1) if n % d == 0])


def candidates(job: Work, gpus: int, global_batch: int, domain_gpus: int, max_micro_batch: int = 8,
               fsdp: bool = True) -> tuple[TrainingLayout, np.ndarray]:
    """Return every layout of the job (fields are arrays) and its micro-batch.

    tp: powers of two inside a domain that divide the heads; pp: divisors of the GPUs up to the layers; vpp: up to 12 chunks; cp: powers of
    two for sequences of 4,096 tokens and more a rank; ep: divisors of the experts; dp: the rest, dividing the batch.
    Parameters: job; gpus [1]; global_batch [sequence]; domain_gpus [1]; max_micro_batch [sequence]; fsdp, whether sharded weights are tried.
    Returns: (TrainingLayout of arrays, micro-batches [sequence]). Raises: InputError; Infeasible where none divides.
    Validity: even groups. Error: exact enumeration (tests: brute force). Source: definitions of the parallel sizes.
    """
    n, batch = int(count("gpus", gpus)), int(count("global_batch", global_batch))
    tps = [t for t in (1, 2, 4, 8, 16, 32, 64) if t <= min(domain_gpus, job.heads) and job.heads % t == 0]
    cps = [c for c in (1, 2, 4, 8, 16, 32) if c == 1 or job.seq_tokens / c >= 4096]
    eps = _divisors(job.experts, 10**4) if job.experts else np.array([1])
    micros = [m for m in (1, 2, 4, 8, 16) if m <= max_micro_batch]
    grid = np.meshgrid(tps, _divisors(n, job.layers), np.arange(1, 13), cps, eps, micros, [0, 1] if fsdp else [0], indexing="ij")
    tp, pp, vpp, cp, ep, micro, shard = (g.ravel() for g in grid)
    dp = n // (tp * pp * cp)
    keep = (tp * pp * cp * dp == n) & (dp >= 1)
    dp = np.maximum(dp, 1)
    keep &= (batch % (dp * micro) == 0) & ((tp * cp * dp) % ep == 0) & (ep <= tp * cp * dp)
    deep = -(-job.layers // pp)
    keep &= np.where(pp > 1, (vpp <= deep) & ((deep % vpp == 0) | (vpp == 1)), vpp == 1)
    keep &= (vpp == 1) | ((batch // np.maximum(dp * micro, 1)) % pp == 0)  # an interleaved schedule runs rounds of p micro-batches
    # weights are sharded inside one domain only: wider was never published
    keep &= (shard == 0) | ((pp == 1) & (dp * cp > 1) & (tp * cp * dp <= domain_gpus))
    if not keep.any():
        raise Infeasible("layout", f"no layout of {n:,} GPUs divides a batch of {batch:,} sequences", "another GPU count or batch")
    tp, pp, vpp, cp, ep, micro, shard, dp = (a[keep] for a in (tp, pp, vpp, cp, ep, micro, shard, dp))
    return TrainingLayout(tp, pp, vpp, dp, cp, ep, shard * dp * cp), micro


def search(job: Work, machine: Machine, eff: Efficiency, gpus: int, global_batch: int, kept_fraction: float, usable_fraction: float = 0.9,
           passes: float = 3.0, best: int = 5, max_micro_batch: int = 8, fsdp: bool = True) -> list[Found]:
    """Return the fastest layouts that fit, fastest first.

    A layout fits where weights, FP32 gradients, sharded state and the kept share of the activations take at most the usable share of HBM.
    Parameters: job, machine, eff; gpus [1]; global_batch [sequence]; kept_fraction [1] of activations that selective recompute keeps;
    usable_fraction [1] of HBM; passes [1] 3, or 4 with full recompute; best [1] how many to return; max_micro_batch; fsdp.
    Returns: list of Found. Raises: InputError; Infeasible where nothing fits, with the smallest memory found.
    Validity: as `step_parts` and `memory_parts`. Error: the best of its own enumeration (tests: brute force). Source: as there.
    """
    kept, usable = float(fraction("kept_fraction", kept_fraction)), float(fraction("usable_fraction", usable_fraction, zero=False))
    if passes not in (3.0, 4.0, 3, 4):
        raise InputError("passes", passes, "must be 3, or 4 with full recompute")
    layouts, micro = candidates(job, gpus, global_batch, machine.domain_gpus, max_micro_batch, fsdp)
    parts = memory_parts(job, layouts, global_batch, micro, full_recompute=passes == 4)
    held = sum(v * (kept if name == "activations" and passes == 3 else 1.0) for name, v in parts.items())
    seconds = sum(step_parts(job, machine, eff, layouts, float(global_batch), micro, float(passes)).values())
    fits = held <= usable * machine.hbm_bytes
    if not fits.any():
        least = int(np.argmin(held))
        raise Infeasible("memory", f"no layout of {int(gpus):,} GPUs fits: the leanest ({_pick(layouts, least).label}) needs "
                         f"{held[least] / 1e9:,.0f} GB of {usable * machine.hbm_bytes / 1e9:,.0f} GB usable", "more GPUs, or full recompute")
    order = np.flatnonzero(fits)[np.argsort(seconds[fits], kind="stable")][:best]
    return [Found(_pick(layouts, i), int(micro[i]), float(seconds[i]), float(held[i])) for i in order]


def _pick(layouts: TrainingLayout, index: int) -> TrainingLayout:
    """Return one layout of arrays as a layout of numbers."""
    names = ("tp", "pp", "vpp", "dp", "cp", "ep", "fsdp")
    return TrainingLayout(**{n: int(np.broadcast_to(getattr(layouts, n), np.shape(layouts.tp))[index]) for n in names})
