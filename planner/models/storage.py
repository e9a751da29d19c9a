"""Checkpoints on their way to disk and to another region, object caches, and archive tiers."""

from __future__ import annotations

import numpy as np

from planner.errors import Infeasible, InputError
from planner.units import count, fraction, nonnegative, number, positive

SECONDS_PER_MONTH = 2628000.0


def training_state_bytes(num_params, bytes_per_param: dict) -> dict:
    """Return the bytes of a training state by component: bytes = parameters x bytes each.

    Parameters: num_params [1], all parameters (a mixture of experts stores every expert), scalar or array; bytes_per_param, ordered dict
    component -> [B/param] (weights, master, first and second moment, ema, gradients where they are kept).
    Returns: ordered dict component -> bytes [B], which sum to the total. Raises: InputError.
    Validity: dense optimizers with element-wise state; no file headers, scheduler or random state (kilobytes). Error: exact for the handed
    checkpoint sizes; 0.1 % of a host-staging measurement of 744 billion parameters (tests). Source: data/state_formats.csv.
    """
    params = positive("num_params", num_params)
    if not bytes_per_param:
        raise InputError("bytes_per_param", bytes_per_param, "must name at least one component")
    return {name: (params * nonnegative(f"bytes_per_param.{name}", each))[()] for name, each in bytes_per_param.items()}


def write_seconds(total_bytes, num_writers, writer_bytes_per_s, store_bytes_per_s=np.inf, skew=1.0):
    """Return the time of a sharded write: t = bytes / min(n x b, B) x skew.

    Parameters: total_bytes [B]; num_writers n [1] that write a shard each; writer_bytes_per_s b [B/s]; store_bytes_per_s B [B/s] of the
    store, infinite where the writers bind; skew [1] >= 1, the largest shard over the mean. Returns: time [s]. Raises: InputError.
    Validity: large sequential shards. Error: exact for the published run (2.3 TB in 40 s, 384 writers); slow ranks show as skew.
    Source: slowest of two pipes in series.
    """
    store = np.asarray(store_bytes_per_s, float)
    if np.isnan(store).any() or (store <= 0).any():
        raise InputError("store_bytes_per_s", store_bytes_per_s, "must be > 0")
    rate = np.minimum(count("num_writers", num_writers) * positive("writer_bytes_per_s", writer_bytes_per_s), store)
    return (nonnegative("total_bytes", total_bytes) / rate * number("skew", skew, 1.0))[()]


def write_bytes_per_s_needed(total_bytes, seconds):
    """Return the write rate that stores a checkpoint in time: B = bytes / t.

    Parameters: total_bytes [B]; seconds [s]. Returns: rate [B/s], decimal bytes. Raises: InputError. Validity: steady writes.
    Error: exact by definition. Source: definition.
    """
    return (nonnegative("total_bytes", total_bytes) / positive("seconds", seconds))[()]


def checkpoint_stall_seconds(bytes_per_gpu, copy_bytes_per_s, write_seconds_each, interval_seconds, asynchronous, buffers=1):
    """Return how long training stands still per checkpoint: blocking: the write; asynchronous: the copy to host, and what does not fit.

    blocking: w = write; asynchronous: w = copy + max(0, write - buffers x interval): a copy waits until a host buffer is free.
    Parameters: bytes_per_gpu [B]; copy_bytes_per_s [B/s] of one GPU to host memory; write_seconds_each [s] of the whole checkpoint;
    interval_seconds [s] useful time between checkpoints; asynchronous, True or False (array allowed); buffers [1] of host staging.
    Returns: stall [s]. Raises: InputError. Validity: one writer thread that never stops; steady state.
    Error: not validated beyond the order of published stalls (0.4 s asynchronous against 61 s). Source: pipeline of two stages.
    """
    copy = nonnegative("bytes_per_gpu", bytes_per_gpu) / positive("copy_bytes_per_s", copy_bytes_per_s)
    write, interval = nonnegative("write_seconds_each", write_seconds_each), positive("interval_seconds", interval_seconds)
    room = count("buffers", buffers) * interval
    return np.where(np.asarray(asynchronous, bool), copy + np.maximum(0.0, write - room), np.broadcast_to(write, np.shape(write)))[()]


def staging_bytes_per_node(total_bytes, num_nodes, buffers=1):
    """Return the host memory that staging a checkpoint takes on one node: bytes x buffers / nodes.

    Parameters: total_bytes [B] of the checkpoint, each byte staged once in the cluster; num_nodes [1]; buffers [1]. Returns: bytes [B].
    Raises: InputError. Validity: even shards. Error: 0.2 % of 650 GB a node published for 744 billion parameters on 16 nodes (tests).
    Source: division.
    """
    return (nonnegative("total_bytes", total_bytes) * count("buffers", buffers) / count("num_nodes", num_nodes))[()]


def replication(total_bytes, interval_seconds, wan_bytes_per_s, round_trip_seconds=0.0, local_write_seconds=0.0, asynchronous=True) -> dict:
    """Return what a copy in a second region costs: the stall, the lag until it is there, and what a lost region takes along.

    Copy time c = bytes / WAN + round trip. Synchronous: the step waits, stall = max(local write, c), lag = c. Asynchronous: stall = the local
    write, lag = c, and one copy must end before the next starts: c <= interval, else it never catches up.
    Work at risk (age of the newest remote checkpoint): at most interval + lag, on average interval / 2 + lag.
    Parameters: total_bytes [B] per checkpoint after reduction; interval_seconds [s] from one checkpoint to the next; wan_bytes_per_s [B/s] one
    direction, what is really reached; round_trip_seconds [s]; local_write_seconds [s]; asynchronous, True or False; scalars.
    Returns: dict: stall_seconds [s], lag_seconds [s], work_at_risk_seconds and _mean [s], bytes_at_risk [B] not yet copied at worst,
    wan_utilisation [1], wan_needed [B/s]. Raises: InputError; Infeasible where the WAN or the local write is slower than a checkpoint an
    interval.
    Validity: one stream of checkpoints over a link of its own. Error: exact for the deterministic pipeline (simulated in tests).
    Source: D/D/1 queue.
    """
    size, interval = float(nonnegative("total_bytes", total_bytes)), float(positive("interval_seconds", interval_seconds))
    wan, trip = float(positive("wan_bytes_per_s", wan_bytes_per_s)), float(nonnegative("round_trip_seconds", round_trip_seconds))
    local = float(nonnegative("local_write_seconds", local_write_seconds))
    copy = size / wan
    if asynchronous and local > interval * (1 + 1e-12):
        raise Infeasible("storage", f"the write in the own region takes {local:,.0f} s and the next checkpoint starts after {interval:,.0f} s: it "
                         "never catches up", f"an interval of {local:,.0f} s, or a faster store")
    if asynchronous and copy > interval * (1 + 1e-12):
        raise Infeasible("wan", f"one checkpoint of {size / 1e9:,.4g} GB takes {copy:,.0f} s over {wan / 1e9:,.3g} GB/s and the next starts "
                         f"after {interval:,.0f} s: the copy never catches up",
                         f"at least {size / interval / 1e9:,.3g} GB/s, or an interval of {copy:,.0f} s")
    lag = copy + trip
    cycle = interval if asynchronous else interval + max(local, lag)
    return {"stall_seconds": local if asynchronous else max(local, lag), "lag_seconds": lag,
            "work_at_risk_seconds": interval + lag, "work_at_risk_mean_seconds": interval / 2 + lag,
            "bytes_at_risk": size, "wan_utilisation": copy / cycle, "wan_needed_bytes_per_s": size / interval}


def read_latency_seconds(hit_fraction, hit_seconds, miss_seconds):
    """Return the mean latency of a read through a cache: t = h t_hit + (1 - h) t_miss.

    Parameters: hit_fraction h [1] of requests; hit_seconds and miss_seconds [s]. Returns: mean time [s]. Raises: InputError.
    Validity: the mean only: percentiles stay those of the misses until 1 - h falls below them. Error: exact by definition.
    Source: law of total expectation.
    """
    hit = fraction("hit_fraction", hit_fraction)
    return (hit * nonnegative("hit_seconds", hit_seconds) + (1 - hit) * nonnegative("miss_seconds", miss_seconds))[()]


def read_bytes_per_s(hit_fraction, hit_bytes_per_s, miss_bytes_per_s, gpu_limit_bytes_per_s=np.inf):
    """Return the read rate of one GPU through a cache: B = min(1 / (h / B_hit + (1 - h) / B_miss), limit).

    Parameters: hit_fraction h [1] of bytes; hit_bytes_per_s and miss_bytes_per_s [B/s] of one GPU; gpu_limit_bytes_per_s [B/s].
    Returns: rate [B/s]. Raises: InputError. Validity: one stream, times add; parallel streams do better (upper bound: the limit).
    Error: not validated. Source: harmonic mean.
    """
    hit, near = fraction("hit_fraction", hit_fraction), positive("hit_bytes_per_s", hit_bytes_per_s)
    far = positive("miss_bytes_per_s", miss_bytes_per_s)
    return np.minimum(1.0 / (hit / near + (1 - hit) / far), np.asarray(gpu_limit_bytes_per_s, float))[()]


def hit_fraction_for(speedup, hit_seconds, miss_seconds):
    """Return the hit rate at which the mean latency is a k-th of the uncached one: h = (1 - 1 / k) / (1 - t_hit / t_miss).

    Parameters: speedup k [1] >= 1; hit_seconds [s]; miss_seconds [s]; scalars. Returns: fraction [1]. Raises: InputError; Infeasible
    where even a hit on every read is not fast enough. Validity: mean latency. Error: the inverse of `read_latency_seconds` (tests).
    Source: that equation.
    """
    factor = float(number("speedup", speedup, 1.0))
    hit, miss = float(nonnegative("hit_seconds", hit_seconds)), float(positive("miss_seconds", miss_seconds))
    if factor == 1:
        return 0.0
    if hit * factor > miss * (1 + 1e-12):
        best = f"{miss / hit:,.2f}x" if hit else "no bound"
        raise Infeasible("cache", f"a hit takes {hit * 1e3:g} ms and a miss {miss * 1e3:g} ms: even all hits give only {best}, {factor:g}x is asked",
                         f"a hit of at most {miss / factor * 1e3:g} ms")
    return min((1 - 1 / factor) / (1 - hit / miss), 1.0)


def tier_monthly_usd(stored_bytes, storage_usd_per_byte_month, reread_fraction=0.0, retrieval_usd_per_byte=0.0, egress_usd_per_byte=0.0,
                     num_objects=0.0, request_usd=0.0) -> dict:
    """Return the monthly cost of data at rest in one tier, by part: storage + retrieval + egress + requests.

    Parameters: stored_bytes S [B]; storage_usd_per_byte_month [USD/B/month]; reread_fraction r [1] of S read a month (above 1: more than
    once); retrieval_usd_per_byte and egress_usd_per_byte [USD/B]; num_objects [1] read a month and request_usd [USD] each.
    Returns: ordered dict part -> [USD/month]; broadcast. Raises: InputError. Validity: decimal or binary bytes as the price says, converted
    before. Error: exact for the handed bills (data/references/storage.csv). Source: price lists.
    """
    stored, read = nonnegative("stored_bytes", stored_bytes), nonnegative("reread_fraction", reread_fraction)
    return {"storage": (stored * nonnegative("storage_usd_per_byte_month", storage_usd_per_byte_month))[()],
            "retrieval": (stored * read * nonnegative("retrieval_usd_per_byte", retrieval_usd_per_byte))[()],
            "egress": (stored * read * nonnegative("egress_usd_per_byte", egress_usd_per_byte))[()],
            "requests": (nonnegative("num_objects", num_objects) * nonnegative("request_usd", request_usd))[()]}


def early_deletion_usd(total_bytes, storage_usd_per_byte_month, minimum_days, kept_days, days_per_month=30.0):
    """Return the fee for what is deleted before its minimum duration: bytes x price x (minimum - kept) / month.

    Parameters: total_bytes [B]; storage_usd_per_byte_month [USD/B/month]; minimum_days and kept_days [day]; days_per_month [day] of the bill.
    Returns: fee [USD], 0 after the minimum. Raises: InputError. Validity: fees billed as the rest of the storage. Error: exact for the handed
    bill. Source: providers' rules.
    """
    left = np.maximum(nonnegative("minimum_days", minimum_days) - nonnegative("kept_days", kept_days), 0.0)
    price = nonnegative("storage_usd_per_byte_month", storage_usd_per_byte_month)
    return (nonnegative("total_bytes", total_bytes) * price * left / positive("days_per_month", days_per_month))[()]


def archive_bytes_with_index(total_bytes, object_bytes, archive_index_bytes=0.0, standard_index_bytes=0.0):
    """Return (bytes billed at the archive price, bytes billed at the standard price) once each object's index entry counts.

    Parameters: total_bytes [B]; object_bytes [B] mean size; archive_index_bytes and standard_index_bytes [B] per object.
    Returns: pair of bytes [B]. Raises: InputError. Validity: whole objects. Error: exact for the handed case. Source: providers' rules.
    """
    total = nonnegative("total_bytes", total_bytes)
    objects = total / positive("object_bytes", object_bytes)
    return ((total + objects * nonnegative("archive_index_bytes", archive_index_bytes))[()],
            (objects * nonnegative("standard_index_bytes", standard_index_bytes))[()])


def reread_break_even(dear_storage_usd, cheap_storage_usd, dear_read_usd, cheap_read_usd):
    """Return the re-read share above which the tier dearer at rest is the cheaper one: r = (p_dear - p_cheap) / (f_cheap - f_dear).

    Parameters: dear_storage_usd and cheap_storage_usd [USD/B/month]; dear_read_usd and cheap_read_usd [USD/B] retrieval and egress of a
    byte read; scalars. Returns: share of the stored data read a month [1], above 1 where more than once.
    Raises: InputError; Infeasible where one tier is cheaper at any share (said which one).
    Validity: no minimum duration, no requests. Error: both bills are equal there (tests). Source: equal monthly cost.
    """
    dear, cheap = float(nonnegative("dear_storage_usd", dear_storage_usd)), float(nonnegative("cheap_storage_usd", cheap_storage_usd))
    fee_dear, fee_cheap = float(nonnegative("dear_read_usd", dear_read_usd)), float(nonnegative("cheap_read_usd", cheap_read_usd))
    rest, fees = dear - cheap, fee_cheap - fee_dear
    if rest * fees <= 0 and (rest or fees):
        winner = "first" if rest < 0 or (rest == 0 and fees > 0) else "second"
        if rest == 0 and fees == 0:
            winner = "neither"
        raise Infeasible("archive", f"the {winner} tier costs no more at rest and no more to read: it is the cheaper one at any re-read share")
    if not fees:
        raise Infeasible("archive", "both tiers cost the same at rest and to read: there is no break-even")
    return rest / fees


def storage_price_break_even(other_storage_usd, other_read_usd, own_read_usd, reread_fraction):
    """Return the storage price at which a tier of unknown price equals another: p = p_other + r (f_other - f_own).

    Parameters: other_storage_usd [USD/B/month]; other_read_usd and own_read_usd [USD/B]; reread_fraction r [1] a month; broadcast.
    Returns: price [USD/B/month]; below 0: cheaper at no price. Raises: InputError. Validity and Error: as `reread_break_even`.
    Source: equal monthly cost.
    """
    fees = nonnegative("other_read_usd", other_read_usd) - nonnegative("own_read_usd", own_read_usd)
    return (nonnegative("other_storage_usd", other_storage_usd) + nonnegative("reread_fraction", reread_fraction) * fees)[()]
