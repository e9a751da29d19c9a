"""Serving goodput: the share of requests that keep every limit of an SLO. Training goodput is another quantity (`reliability`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.errors import InputError
from planner.units import nonnegative, positive

LIMITS = ("ttft_s", "tpot_s", "e2e_s")


def within_fraction(measured: Mapping[str, object], limits: Mapping[str, float]) -> float:
    """Return the share of requests whose every measured time is at most its limit.

    Parameters: measured, name of `LIMITS` -> times [s], one a request; limits, name -> [s], at least one.
    Returns: fraction [1]. Raises: InputError for no limit, a limit nothing was measured of, or lists of different lengths.
    Validity: requests that were dropped must be in the lists, as infinite times. Error: exact count. Source: definition.
    """
    if not limits:
        raise InputError("slo", None, "must name a limit: without one no share of requests is within it")
    unknown = [n for n in limits if n not in LIMITS]
    if unknown:
        raise InputError(f"slo.{unknown[0]}", limits[unknown[0]], f"must be one of {', '.join(LIMITS)}")
    kept = np.array(True)
    for name, limit in limits.items():
        if name not in measured:
            raise InputError(name, None, f"is required: the SLO limits it to {float(positive(f'slo.{name}', limit)):g} s")
        times = np.atleast_1d(np.asarray(measured[name], float))
        nonnegative(name, np.where(np.isinf(times), 0.0, times))
        if kept.ndim and kept.shape != times.shape:
            raise InputError(name, len(times), f"must have one time a request, {len(kept)}")
        kept = kept & (times <= float(positive(f"slo.{name}", limit)))
    return float(np.mean(kept))
