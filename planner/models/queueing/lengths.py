"""Lengths of prompts and answers, and the service time they make: moments of a lognormal through what is known of it."""

from __future__ import annotations

import numpy as np

from planner.errors import InputError
from planner.units import fraction, nonnegative, number, positive

Z99 = 2.3263478740408408


def lognormal_scv(mean, p50=None, p99=None):
    """Return the squared coefficient of variation of a lognormal: scv = exp(s^2) - 1, its mean kept exactly.

    From p50: s^2 = 2 ln(mean / p50). From p99: the smaller root of z s - s^2 / 2 = ln(p99 / mean). From both: the s that leaves the least
    squared error in the logarithms of both quantiles.
    Parameters: mean, p50, p99 [token or s], broadcast; None where not known. Returns: scv [1]. Raises: InputError for no quantile at all, a
    median above the mean, a p99 below the mean or above 15 times it (no lognormal has one).
    Validity: lengths of one hump; a mixture of short chats and long documents has a longer tail. Error: exact for a lognormal (tests).
    Source: definition of the lognormal.
    """
    middle = positive("mean", mean)
    if p50 is None and p99 is None:
        raise InputError("p50", None, "or p99 must be given: a mean alone says nothing of the spread")
    low = None if p50 is None else -np.log(positive("p50", p50) / middle)
    high = None if p99 is None else np.log(positive("p99", p99) / middle)
    if low is not None and np.any(low < -1e-12):
        raise InputError("p50", p50, "must be <= mean: a lognormal's median is below its mean")
    if high is not None and np.any((high < -1e-12) | (high > Z99**2 / 2)):
        raise InputError("p99", p99, "must be from 1 to 15 times the mean")
    if high is None:
        return np.expm1(2 * np.maximum(low, 0.0))[()]
    spread = Z99 - np.sqrt(np.maximum(Z99**2 - 2 * np.maximum(high, 0.0), 0.0))
    if low is not None:  # residuals r1 = s^2/2 - low, r2 = z s - s^2/2 - high: Newton on the slope of r1^2 + r2^2
        low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
        spread = (spread + np.sqrt(2 * low)) / 2 + 1e-9
        for _ in range(40):
            r1, r2, d2 = spread**2 / 2 - low, Z99 * spread - spread**2 / 2 - high, Z99 - spread
            bend = spread**2 + d2**2 + r1 - r2
            spread = np.clip(spread - (r1 * spread + r2 * d2) / np.where(bend > 0.1, bend, 0.1), 0.0, Z99)
    return np.expm1(spread**2)[()]


def lognormal_quantile(mean, scv, quantile):
    """Return a quantile of a lognormal: mean exp(s z - s^2 / 2), s^2 = ln(1 + scv).

    Parameters: mean [token or s]; scv [1]; quantile [1] inside 0..1; broadcast. Returns: same unit as mean. Raises: InputError.
    Validity: a lognormal; scv 0 is a constant. Error: exact (tests). Source: definition of the lognormal.
    """
    from scipy.special import ndtri

    spread = np.sqrt(np.log1p(scv_of("scv", scv)))
    return (positive("mean", mean) * np.exp(spread * ndtri(inside("quantile", quantile)) - spread**2 / 2))[()]


def inside(name: str, value):
    """Return a quantile as a float array strictly between 0 and 1 [1]; a percentile typed by mistake is refused with a hint.

    Parameters: name; value [1]. Returns: array [1]. Raises: InputError. Validity: any. Error: exact. Source: definition.
    """
    array = fraction(name, value, zero=False)
    if (array >= 1).any():
        raise InputError(name, float(np.max(array)), "must be below 1: no time is long enough for every request")
    return array


def scv_of(name: str, value):
    """Return squared coefficients of variation as a float array [1], 0 to 1,000: beyond, nothing here is known to hold.

    Parameters: name; value [1]. Returns: array [1]. Raises: InputError. Validity: any. Error: exact. Source: definition.
    """
    return number(name, value, 0.0, 1000.0)


def rate_of(name: str, value):
    """Return rates as a float array [1/s], 0 to 1e18; anything between 0 and 1e-12 counts as 1e-12: as good as none, and no division by 0.

    Parameters: name; value [1/s]. Returns: array [1/s]. Raises: InputError. Validity: any. Error: 1e-12. Source: definition.
    """
    rate = number(name, value, 0.0, 1e18)
    return np.where(rate > 0, np.maximum(rate, 1e-12), 0.0)


def prefill_service(mean_tokens, tokens_scv, seconds_by_power, hit_fraction=0.0, hit_scv=0.0):
    """Return the mean [s] and scv [1] of the time to prefill one prompt, cached tokens left out: S = a0 + a1 x + a2 x^2.

    x = tokens (1 - hit) is lognormal with mean m and scv v: E[x^k] = m^k (1 + v)^(k (k - 1) / 2). Hits thin the work; where they differ
    between requests, 1 + v = (1 + tokens_scv) (1 + hit_scv).
    Parameters: mean_tokens [token] of the prompt; tokens_scv [1]; seconds_by_power (a0 [s], a1 [s/token], a2 [s/token^2]); hit_fraction
    [1] of the tokens found in a cache; hit_scv [1] of the missed share between requests (0: alike; h / (1 - h): all or nothing).
    Returns: pair: mean [s], scv [1]. Raises: InputError; a hit fraction of 1 is refused (the last token is never cached).
    Validity: a worker prefills one prompt at a time. Error: exact for lognormal lengths (tests). Source: moments of the lognormal.
    """
    missed = 1 - fraction("hit_fraction", hit_fraction)
    if (missed <= 0).any():
        raise InputError("hit_fraction", 1.0, "must be below 1: the last token of a prompt is always computed")
    tokens = positive("mean_tokens", mean_tokens) * missed
    spread = (1 + scv_of("tokens_scv", tokens_scv)) * (1 + scv_of("hit_scv", hit_scv))
    parts = [nonnegative(f"seconds_by_power.{k}", a) for k, a in enumerate(seconds_by_power)]
    raw = [tokens**k * spread ** (k * (k - 1) / 2) for k in range(2 * len(parts))]
    mean = sum(a * raw[k] for k, a in enumerate(parts))
    square = sum(a * b * raw[j + k] for j, a in enumerate(parts) for k, b in enumerate(parts))
    if np.any(mean <= 0):
        raise InputError("seconds_by_power", seconds_by_power, "must make a prefill time above 0")
    return mean[()], np.maximum(square / mean**2 - 1, 0.0)[()]


def nodes(count: int = 64):
    """Return z [1] and weights [1] of a rule for averages over a lognormal: E[f(x)] = sum of w f(mean exp(s z - s^2 / 2)).

    Parameters: count [1] of nodes. Returns: pair of arrays, weights sum to 1. Raises: InputError.
    Validity: smooth f. Error: exact for polynomials in z. Source: Gauss-Hermite quadrature.
    """
    z, w = np.polynomial.hermite_e.hermegauss(int(number("count", count, 1, 200)))
    return z, w / w.sum()
