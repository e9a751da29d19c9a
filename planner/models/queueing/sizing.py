"""Whole GPUs for a load by rates alone: how requests divide over prefill and decode, and what the link between them carries."""

from __future__ import annotations

import numpy as np

from planner.errors import InputError
from planner.models.queueing.lengths import rate_of
from planner.units import count, fraction, nonnegative, positive, whole_up


def prefill_fraction(prefill_seconds, decode_seconds):
    """Return the share of a request's GPU time that prefill takes: p / (p + d).

    Parameters: prefill_seconds, decode_seconds [s] of one request on one worker. Returns: share [1]. Raises: InputError; refused where
    both are 0. Validity: time on one GPU, not shared with other requests. Error: exact. Source: definition.
    """
    first, rest = nonnegative("prefill_seconds", prefill_seconds), nonnegative("decode_seconds", decode_seconds)
    if np.any(first + rest <= 0):
        raise InputError("decode_seconds", float(np.min(rest)), "and prefill_seconds must not both be 0")
    return (first / (first + rest))[()]


def gpus_for_tokens(tokens_per_s, tokens_per_s_per_gpu, utilisation_fraction):
    """Return the fewest GPUs for a rate of tokens at a target utilisation: ceil(rate / (rate of a GPU x utilisation)).

    Parameters: tokens_per_s, tokens_per_s_per_gpu [1/s] counted alike; utilisation_fraction [1], above 0. Returns: GPUs [1].
    Raises: InputError. Validity: rates that add up over GPUs. Error: exact. Source: definition.
    """
    share = fraction("utilisation_fraction", utilisation_fraction, zero=False)
    return whole_up(rate_of("tokens_per_s", tokens_per_s) / (positive("tokens_per_s_per_gpu", tokens_per_s_per_gpu) * share))


def pool_split(num_gpus, prefill_tokens_per_s, decode_tokens_per_s, input_tokens, output_tokens, hit_fraction=0.0) -> dict:
    """Return the whole numbers of prefill and decode GPUs that carry most requests: the best of both neighbours of the ideal share
    (isl (1 - hit) / p) / (isl (1 - hit) / p + osl / d).

    Parameters: num_gpus [1], at least 2; prefill_tokens_per_s, decode_tokens_per_s [1/s] of one GPU; input_tokens, output_tokens [token] of
    a request; hit_fraction [1] of input tokens found in a cache. Returns: dict: prefill, decode [1], requests_per_s [1/s] they carry,
    prefill_load, decode_load [1] at that rate. Raises: InputError. Validity: GPUs that divide freely (whole workers: count those instead).
    Error: exact (tests, against all splits). Source: balance of both pools.
    """
    gpus = count("num_gpus", num_gpus, 2)
    missed = 1 - fraction("hit_fraction", hit_fraction)
    first = positive("input_tokens", input_tokens) * missed / positive("prefill_tokens_per_s", prefill_tokens_per_s)
    rest = positive("output_tokens", output_tokens) / positive("decode_tokens_per_s", decode_tokens_per_s)
    low = np.clip(np.floor(gpus * first / (first + rest) * (1 + 1e-12)), 1, gpus - 1)
    high = np.minimum(low + 1, gpus - 1)

    def carried(prefill):
        return np.minimum(np.where(first > 0, prefill / np.where(first > 0, first, 1.0), np.inf), (gpus - prefill) / rest)

    prefill = np.where(carried(high) > carried(low), high, low)
    rate = carried(prefill)
    return {"prefill": prefill[()], "decode": (gpus - prefill)[()], "requests_per_s": rate[()], "prefill_load": (rate * first / prefill)[()],
            "decode_load": (rate * rest / (gpus - prefill))[()]}


def transfer_load_fraction(requests_per_s, input_tokens, bytes_per_token, link_bytes_per_s, num_links=1):
    """Return the load of the links that hand caches from prefill to decode: rate x tokens x bytes / bandwidth; above 1 they cannot.

    Parameters: requests_per_s [1/s]; input_tokens [token]; bytes_per_token [B/token] of the cache; link_bytes_per_s [B/s] one direction of
    one link; num_links [1]. Returns: load [1]. Raises: InputError. Validity: nothing of the prompt is on the decode side already.
    Error: exact. Source: definition.
    """
    asked = rate_of("requests_per_s", requests_per_s) * nonnegative("input_tokens", input_tokens) * nonnegative("bytes_per_token", bytes_per_token)
    return (asked / (positive("link_bytes_per_s", link_bytes_per_s) * count("num_links", num_links)))[()]
