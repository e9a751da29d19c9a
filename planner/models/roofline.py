"""Bounds of one step from peaks alone: never faster than the slowest resource, never slower than all resources in turn."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.units import nonnegative, number, positive


def bounds_seconds(work: Mapping[str, object], rates: Mapping[str, object]):
    """Return the (lower, upper) time of a step: max and sum over resources of work / rate.

    Parameters: work, resource -> amount [FLOP or B], scalars or arrays that broadcast; rates, the same keys -> peak [FLOP/s or B/s].
    Returns: (lower, upper) [s], broadcast shape; they differ by at most the number of resources.
    Raises: InputError for negative work or a rate that is not positive; KeyError for a resource without a rate.
    Validity: perfect overlap (lower) and none (upper); peaks are never reached. Error: a bound, not an estimate.
    Source: Williams et al. 2009, roofline model.
    """
    times = [nonnegative(f"work.{name}", amount) / positive(f"rates.{name}", rates[name]) for name, amount in work.items()]
    shape = np.broadcast_shapes(*(t.shape for t in times))
    lower, upper = np.zeros(shape), np.zeros(shape)
    for time in times:
        lower, upper = np.maximum(lower, time), upper + time
    return lower[()], upper[()]


def limiting(work: Mapping[str, object], rates: Mapping[str, object]) -> str:
    """Return the name of the resource that sets the lower bound of one step.

    Parameters: work and rates as `bounds_seconds`, scalars. Returns: a key of work [text]. Raises: InputError as `bounds_seconds`.
    Validity: as `bounds_seconds`. Error: none. Source: as `bounds_seconds`.
    """
    return max(work, key=lambda name: float(nonnegative(f"work.{name}", work[name]) / positive(f"rates.{name}", rates[name])))


def touched_fraction(num_experts: int, top_k: int, tokens):
    """Return the share of experts that at least one of `tokens` tokens is sent to: 1 - (1 - k/E)^n.

    Parameters: num_experts E [1]; top_k k [1]; tokens n [token] in the step, scalar or array. Returns: share [1], shape of tokens.
    Raises: InputError. Validity: tokens routed evenly and independently. Error: exact for that routing. Source: occupancy of E cells.
    """
    share = positive("top_k", top_k) / positive("num_experts", num_experts)
    return (1.0 - (1.0 - np.minimum(share, 1.0)) ** nonnegative("tokens", tokens))[()]


def dense_peak_flops_per_s(sheet_flops_per_s, sparse: bool, gpus=1):
    """Return the dense peak of one GPU from a data sheet: sheet / gpus, halved where the sheet counts 2:1 sparsity.

    Parameters: sheet_flops_per_s [FLOP/s] as printed; sparse, whether the sheet says "with sparsity"; gpus [1] the figure is for.
    Returns: peak [FLOP/s] dense, broadcast shape. Raises: InputError. Validity: sheets whose sparse figure is twice the dense one; Vera Rubin's
    NVFP4 is not (3,600 sparse, 2,520 dense): use its own dense claim. Error: exact by definition. Source: vendors' footnotes.
    """
    return (positive("sheet_flops_per_s", sheet_flops_per_s) / positive("gpus", gpus) / (2.0 if sparse else 1.0))[()]


def mfu(achieved_flops_per_s, dense_flops_per_s):
    """Return model FLOP utilisation: achieved over the **dense** peak.

    Parameters: achieved_flops_per_s [FLOP/s] of model FLOPs of one GPU; dense_flops_per_s [FLOP/s]. Returns: share [1], broadcast shape.
    Raises: InputError, also for more than the peak. Validity: model FLOPs, no recompute. Error: exact. Source: Chowdhery et al. 2022.
    """
    share = nonnegative("achieved_flops_per_s", achieved_flops_per_s) / positive("dense_flops_per_s", dense_flops_per_s)
    return number("mfu", share, 0.0, 1.0)[()]
