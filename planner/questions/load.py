"""Questions about load: requests in flight, pools and links, waiting, first tokens, speeds under load, sessions and what their caches hold.

Times, rates and lengths are inputs here: nothing rests on a calibrated serving model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from planner.errors import Infeasible, InputError
from planner.models.queueing import batching, chunked, closed, exponential, lengths, sizing, tails, waiting
from planner.plan.answer import Answer, exact
from planner.questions.registry import Input, Question
from planner.units import count, fraction, nonnegative, number, positive, to_base, whole_up

MS = {"": "s", "_ms": "ms", "_seconds": "s", "_milliseconds": "ms"}
MEAN_ERROR, TAIL_ERROR = 0.05, 0.10  # of the queueing models against simulation, as their docstrings state
HIT_ERROR = 0.04  # of the hit share


def timed(meaning: str, *stems: str, required: bool = False, default: float | None = None) -> Input:
    """Return an input in seconds that is read under each stem with a unit at its end, and under the stem alone."""
    also = {f"{stem}{end}": unit for stem in stems for end, unit in MS.items() if f"{stem}{end}" != f"{stems[0]}_s"}
    return Input(meaning, "s", required, default, also=also)


RATE = Input("requests per second", also={"req_s": "", "rps": "", "qps": "", "rate": "", "requests_per_second": "", "rate_per_s": ""})
ISL = Input("input tokens of a request", also={"isl": "", "prompt_tokens": "", "input_len": ""})
OSL = Input("output tokens of a request", also={"osl": "", "completion_tokens": "", "output_len": ""})
HIT = Input("share of input tokens found in a cache", default=0.0,
            also={"prefix_hit": "", "hit_fraction": "", "cache_hit": "", "cache_hit_fraction": ""})
PREFILL = Input("input tokens per second of one prefill GPU", also={"prefill_tps": "", "prefill_tokens_per_s_per_gpu": ""})
DECODE = Input("output tokens per second of one decode GPU", also={"decode_tps": "", "decode_tokens_per_s_per_gpu": ""})
WORKERS = Input("workers that serve one queue", default=1, also={"num_workers": "", "servers": ""})
CV2 = Input("squared coefficient of variation of the service time (lognormal); absent: exponential service", also={"scv": "", "service_cv2": ""})
QUANTILE = Input("share of requests inside the time; absent: the mean", also={"q": ""})


def needed(inputs: Mapping, *names: str):
    """Return the values of inputs, or refuse the first that is absent."""
    for name in names:
        if name not in inputs:
            raise InputError(name, None, "is required for this quantity")
    return tuple(inputs[name] for name in names)


def one_of(inputs: Mapping, name: str, *allowed: str) -> str:
    """Return a word among those allowed, or refuse it."""
    if inputs[name] not in allowed:
        raise InputError(name, inputs[name], f"must be one of {', '.join(allowed)}")
    return inputs[name]


def modelled(name: str, value, unit: str, error: float, **more) -> Answer:
    """Return a model's number with the error it states as its range; an infinite one is refused as demand above what the workers serve."""
    value = float(value)
    if not math.isfinite(value):
        raise Infeasible("demand", f"{name}: the queue grows without end at this rate", "fewer requests, more workers or shorter service")
    return Answer(name, value, unit, "modelled", "A", low=value * (1 - error), high=value * (1 + error), **more)


def _in_flight(inputs: dict) -> Answer:
    quantity = one_of(inputs, "quantity", "requests", "rate", "tpot")
    tokens, think = number("output_tokens", inputs["output_tokens"], 1.0), float(nonnegative("think_s", inputs["think_s"]))
    if quantity == "requests":
        rate, ttft, tpot = needed(inputs, "requests_per_s", "ttft_s", "tpot_s")
        found = float(closed.in_flight(rate, ttft, tpot, tokens, think))
        return exact("requests_in_flight", found, "requests", basis="with think time" if think else "", note="the first token is in the TTFT")
    ttft, users = needed(inputs, "ttft_s", "concurrency")
    if quantity == "rate":
        each = float(closed.in_flight(1.0, ttft, *needed(inputs, "tpot_s"), tokens, think))
        return exact("requests_in_flight", float(positive("concurrency", users)) / float(positive("ttft_s + tokens x tpot_s", each)), "req/s")
    rate = float(positive("requests_per_s", *needed(inputs, "requests_per_s")))
    left = float(positive("concurrency", users)) / rate - float(nonnegative("ttft_s", ttft)) - think
    if left < 0 or tokens <= 1:
        raise InputError("concurrency", users, "must leave time for tokens after the first: more requests in flight, or a lower rate")
    return exact("requests_in_flight", left / float(tokens - 1), "s")


def _user_speed(inputs: dict) -> Answer:
    return exact("tokens_per_s_per_user", 1 / float(positive("tpot_s", inputs["tpot_s"])), "tok/s/user", basis="per user, after the first token",
                 note="tokens/s per GPU counts all its users and is another number")


def _gpus_for_load(inputs: dict) -> Answer:
    rate, each = positive("tokens_per_s", inputs["tokens_per_s"]), inputs["tokens_per_s_per_gpu"]
    gpus = int(sizing.gpus_for_tokens(rate, each, inputs["utilisation"]))
    size = int(count("gpus_per_rack", inputs["gpus_per_rack"]))
    racks = -(-gpus // size)
    note = f"{gpus} GPUs are {racks} racks of {size}" if size > 1 else ""
    if one_of(inputs, "quantity", "gpus", "racks") == "racks":
        return exact("gpus_for_load", racks, "racks", note=note)
    return exact("gpus_for_load", gpus, "GPUs", note=note)


def _prefill_share(inputs: dict) -> Answer:
    return exact("prefill_share", float(sizing.prefill_fraction(inputs["prefill_s"], inputs["decode_s"])), "fraction",
                 basis="GPU time of one request", note="decode time that other requests share on the same GPU counts less: use rates in pool_split")


def _pool_split(inputs: dict) -> Answer:
    quantity = one_of(inputs, "quantity", "prefill", "decode", "requests_per_s")
    units = {"prefill": "GPUs", "decode": "GPUs", "requests_per_s": "req/s"}
    hit, whole = inputs["hit"], int(count("gpus_per_worker", inputs["gpus_per_worker"]))
    missed = 1 - float(fraction("hit", hit))
    if "gpus" in inputs:
        total = int(count("gpus", inputs["gpus"], 2))
        if total % whole:
            raise InputError("gpus", total, f"must be a multiple of gpus_per_worker ({whole})")
        first, rest, isl, osl = needed(inputs, "prefill_tokens_per_s", "decode_tokens_per_s", "input_tokens", "output_tokens")
        split = sizing.pool_split(total // whole, positive("prefill_tokens_per_s", first) * whole, positive("decode_tokens_per_s", rest) * whole,
                                  isl, osl, hit)
        note = f"{int(split['prefill']) * whole} prefill, {int(split['decode']) * whole} decode, {float(split['requests_per_s']):.4g} requests/s"
        if "prefill_gpus" in inputs or "decode_gpus" in inputs:
            given = sum(int(count(k, inputs[k], 0)) for k in ("prefill_gpus", "decode_gpus") if k in inputs)
            if {"prefill_gpus", "decode_gpus"} <= set(inputs) and given != total:
                raise InputError("gpus", total, f"must equal prefill_gpus + decode_gpus = {given}")
        value = split[quantity] * (whole if quantity != "requests_per_s" else 1)
        return exact("pool_split", float(value), units[quantity], note=note)
    rate = float(positive("requests_per_s", *needed(inputs, "requests_per_s")))
    if quantity == "requests_per_s":
        raise InputError("gpus", None, "is required for this quantity")
    use = float(fraction("utilisation", inputs["utilisation"], zero=False))
    if quantity == "prefill":
        isl, each = needed(inputs, "input_tokens", "prefill_tokens_per_s")
        work = rate * float(positive("input_tokens", isl)) * missed / float(positive("prefill_tokens_per_s", each))
    else:
        osl, each = needed(inputs, "output_tokens", "decode_tokens_per_s")
        work = rate * float(positive("output_tokens", osl)) / float(positive("decode_tokens_per_s", each))
    gpus = int(whole_up(work / use / whole)) * whole
    return exact("pool_split", gpus, "GPUs", note=f"{work:.4g} GPUs' work at a utilisation of {use:g}")


def _transfer(inputs: dict) -> Answer:
    load = float(sizing.transfer_load_fraction(inputs["requests_per_s"], inputs["input_tokens"], inputs["kv_bytes_per_token"],
                                               to_base(positive("link_gbps", inputs["link_gbps"]), "Gb/s"), inputs["links"]))
    note = "more than the links carry" if load > 1 else "more than one link or a smaller cache is needed for headroom" if load > 0.8 else ""
    return exact("kv_transfer_load", load, "fraction", basis="one direction", note=note)


def _service(inputs: Mapping) -> tuple[float, float | None]:
    """Return mean [s] and scv of the service time: given, or made from prompt lengths and a rate of prefill; scv None: exponential."""
    scv = float(lengths.scv_of("cv2", inputs["cv2"])) if "cv2" in inputs else None
    if "service_s" in inputs:
        return float(positive("service_s", inputs["service_s"])), scv
    isl, each = needed(inputs, "input_tokens", "prefill_tokens_per_s")
    if scv is None:
        raise InputError("cv2", None, "is required with lengths: how much they vary sets the wait")
    mean, scv = lengths.prefill_service(isl, scv, (0.0, 1 / positive("prefill_tokens_per_s", each)), inputs["hit"])
    return float(mean), float(scv)


def _waited(rate, mean, workers, scv, level=None, own=False):
    """Return the wait [s], with the own service where `own`: mean, or a quantile; exponential service where scv is None."""
    if level is None:
        wait = exponential.wait_seconds(rate, mean, workers) if scv is None else waiting.wait_seconds(rate, mean, workers, scv)
        return float(wait) + (mean if own else 0.0)
    if scv is None:
        return float((exponential.ttft_quantile_seconds if own else exponential.wait_quantile_seconds)(rate, mean, workers, level))
    return float((tails.ttft_quantile_seconds if own else tails.wait_quantile_seconds)(rate, mean, workers, scv, level))


def _queue_wait(inputs: dict) -> Answer:
    mean, scv = _service(inputs)
    rate, workers = inputs["requests_per_s"], inputs["workers"]
    load, quantity = float(waiting.load_fraction(rate, mean, workers)), one_of(inputs, "quantity", "wait", "ttft", "load")
    note = f"load {load:.3g}, mean service {mean:.4g} s, " + ("exponential service" if scv is None else f"cv2 {scv:.3g}")
    if quantity == "load":
        return exact("queue_wait", load, "fraction", note=note)
    waiting.check_load(rate, mean, workers, "the workers'")
    level, own = inputs.get("quantile"), quantity == "ttft"
    found = _waited(rate, mean, workers, scv, level, own) + (float(nonnegative("fixed_s", inputs["fixed_s"])) if own else 0.0)
    error = 0.0 if scv is None else MEAN_ERROR if level is None else TAIL_ERROR
    return modelled("queue_wait", found, "s", error, basis="mean" if level is None else f"quantile {level}", note=note)


def _workers_for(inputs: dict) -> Answer:
    mean, scv = _service(inputs)
    limit, rate = float(positive("ttft_s", inputs["ttft_s"])) - float(nonnegative("fixed_s", inputs["fixed_s"])), inputs["requests_per_s"]
    level = inputs.get("quantile")

    def reached(workers):
        return _waited(rate, mean, workers, scv, level, own=True)

    floor = mean if level is None else -mean * math.log1p(-float(lengths.inside("quantile", level))) if scv is None else float(
        lengths.lognormal_quantile(mean, scv, level))
    if floor > limit * (1 + 1e-9):
        raise Infeasible("slo", f"a prompt alone takes {floor:.4g} s, the limit leaves {limit:.4g} s", "faster workers, or a looser TTFT")
    low = high = max(1, math.floor(float(waiting.load_fraction(rate, mean, 1))))
    while reached(high) > limit and high < 10**7:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) <= limit else (middle, high)
    found = low if reached(low) <= limit else high
    return exact("workers_for_ttft", found, "count", grade="A", note=f"TTFT {reached(found):.4g} s at {found}")


def _worker(inputs: Mapping):
    """Return (Requests, Engine or None, mean steps) of a decode or aggregated worker from plain inputs."""
    table = batching.step_table(inputs["step_s"], inputs["step_s_per_request"], inputs["slots"])
    steps = number("output_tokens", inputs["output_tokens"], 1.0) - 1
    if np.any(steps <= 0):
        raise InputError("output_tokens", inputs["output_tokens"], "must be above 1: a single token is made by prefill, ask queue_wait")
    return table, float(steps)


def _under_load(inputs: dict) -> Answer:
    quantity = one_of(inputs, "quantity", "tpot", "ttft", "e2e", "running", "requests_per_s", "highest_requests_per_s")
    table, steps = _worker(inputs)
    together = "prefill_tokens_per_s" in inputs
    spread = float(lengths.scv_of("output_cv2", inputs["output_cv2"]))
    if together:
        isl, speed, chunk = needed(inputs, "input_tokens", "prefill_tokens_per_s", "chunk_tokens")
        missed = 1 - float(fraction("hit", inputs["hit"]))
        asked = chunked.Requests(0.0, positive("input_tokens", isl) * max(missed, 1e-9), inputs["input_cv2"], steps, spread)
        engine = chunked.Engine(table, 1 / positive("prefill_tokens_per_s", speed), chunk)
        top = float(chunked.highest_rate_per_s(asked, engine))
    else:
        top = float(batching.highest_rate_per_s(steps, table))
    if quantity == "highest_requests_per_s":
        return exact("worker_under_load", top, "req/s", how="modelled")
    if ("requests_per_s" in inputs) == ("concurrency" in inputs):
        raise InputError("requests_per_s", inputs.get("requests_per_s"), "or concurrency must be given, not both")
    if "concurrency" in inputs:
        return _closed(inputs, quantity, table, steps, (asked, engine) if together else None)
    rate = float(lengths.rate_of("requests_per_s", inputs["requests_per_s"]))
    if rate >= top:
        raise Infeasible("demand", f"{rate:g} requests/s fill all slots or chunks of one worker", f"below {top:.4g} requests/s, or more workers")
    level, note = inputs.get("quantile"), f"load {rate / top:.3g}"
    error = MEAN_ERROR if level is None else TAIL_ERROR
    if not together:
        if quantity in ("ttft", "requests_per_s"):
            raise InputError("quantity", quantity, "needs prefill_tokens_per_s: this worker only decodes")
        made = batching.decode(rate, steps, spread, table)
        if quantity == "running":
            return modelled("worker_under_load", made["running"], "count", MEAN_ERROR, note=note)
        if quantity == "tpot":
            found = made["tpot"] if level is None else batching.tpot_quantile_seconds(rate, steps, spread, table, level)
        else:
            whole = batching.decode_nodes_seconds(rate, steps, spread, table)
            found = whole.mean() if level is None else np.quantile(whole, float(lengths.inside("quantile", level)))
        return modelled("worker_under_load", found, "s", error, note=note)
    station = chunked.solve(chunked.Requests(rate, asked.prompt_tokens, asked.prompt_scv, steps, spread), engine)
    means = {"tpot": station.tpot, "ttft": station.ttft, "e2e": station.ttft + steps * station.step, "running": station.running,
             "requests_per_s": rate}
    tails_of = {"tpot": chunked.tpot_quantile_seconds, "ttft": chunked.ttft_quantile_seconds, "e2e": chunked.e2e_quantile_seconds}
    if level is None or quantity not in tails_of:
        return modelled("worker_under_load", means[quantity], {"running": "count", "requests_per_s": "req/s"}.get(quantity, "s"), error, note=note)
    beyond = {"note": f"{note}; beyond 80 % load the tail is known to a third only"} if rate > 0.8 * top else {"note": note}
    return modelled("worker_under_load", tails_of[quantity](station, level), "s", 0.35 if rate > 0.8 * top else 0.3, **beyond)


def _closed(inputs: Mapping, quantity: str, table, steps: float, together) -> Answer:
    """Return the answer at a fixed number of requests in flight, or users who think."""
    if "quantile" in inputs:
        raise InputError("quantile", inputs["quantile"], "is not modelled at a fixed concurrency: means only")
    users, think = inputs["concurrency"], inputs["think_s"]
    if together:
        made = closed.closed_loop_aggregated(users, *together, think)
    else:
        rate = closed.closed_loop_rate(users, lambda x: steps * batching.tpot_seconds_mean_field(x, steps, table),
                                       batching.highest_rate_per_s(steps, table), think)
        seen = rate * (1 - 1e-6) * max(1 - 1 / max(float(users), 1.0), 0.0)
        tpot = batching.tpot_seconds_mean_field(seen, steps, table)
        made = {"rate": rate, "tpot": tpot, "running": rate * steps * tpot, "latency": float(users) / rate - think if users else 0.0}
    names = {"tpot": "tpot", "ttft": "ttft", "e2e": "latency", "running": "running", "requests_per_s": "rate"}
    if names[quantity] not in made:
        raise InputError("quantity", quantity, "needs prefill_tokens_per_s: this worker only decodes")
    unit = {"running": "count", "requests_per_s": "req/s"}.get(quantity, "s")
    return modelled("worker_under_load", made[names[quantity]], unit, 0.15 if quantity == "ttft" else MEAN_ERROR, basis="mean, closed loop")


QUESTIONS = (
    Question("requests_in_flight", "Requests in flight by Little's law", "requests", "planner.models.queueing.closed.in_flight", {
        "requests_per_s": RATE, "ttft_s": timed("time to first token", "ttft"), "tpot_s": timed("time per output token after the first", "tpot"),
        "output_tokens": Input(OSL.meaning, required=True, also=OSL.also),
        "think_s": timed("pause before a user's next request", "think", default=0.0),
        "concurrency": Input("requests in flight, for quantity rate or tpot", also={"users": ""}),
        "quantity": Input("requests; rate or tpot that a concurrency implies", default="requests")}, _in_flight),
    Question("tokens_per_s_per_user", "Speed that one user sees", "tok/s/user", "1 / tpot", {
        "tpot_s": timed("time per output token", "tpot", required=True),
        "tps_per_gpu": Input("tokens per second of one GPU: not used, another number")}, _user_speed),
    Question("gpus_for_load", "GPUs for a load at a target utilisation", "GPUs", "planner.models.queueing.sizing.gpus_for_tokens", {
        "tokens_per_s": Input("load to plan for, such as its 95th percentile", required=True, also={"p95_tps": "", "tps": "", "load_tps": ""}),
        "tokens_per_s_per_gpu": Input("tokens per second of one GPU, counted alike", required=True, also={"tps_per_gpu": ""}),
        "utilisation": Input("share of that rate to load", required=True, also={"target_utilisation": "", "utilisation_fraction": ""}),
        "gpus_per_rack": Input("GPUs of a rack, for whole racks", default=1), "quantity": Input("gpus or racks", default="gpus")}, _gpus_for_load),
    Question("prefill_share", "Share of a request's GPU time spent in prefill", "fraction", "planner.models.queueing.sizing.prefill_fraction", {
        "prefill_s": timed("prefill of the request", "prefill", required=True), "decode_s": timed("decode of the request", "decode", required=True)},
        _prefill_share),
    Question("pool_split", "GPUs of the prefill and the decode pool", "GPUs", "planner.models.queueing.sizing.pool_split", {
        "gpus": Input("GPUs to divide; absent: as many as requests_per_s needs", also={"num_gpus": ""}), "requests_per_s": RATE,
        "prefill_tokens_per_s": PREFILL, "decode_tokens_per_s": DECODE, "input_tokens": ISL, "output_tokens": OSL, "hit": HIT,
        "gpus_per_worker": Input("whole workers of so many GPUs", default=1), "prefill_gpus": Input("a split given, to be checked"),
        "decode_gpus": Input("a split given, to be checked"), "utilisation": Input("share of the rates to load, where GPUs are asked", default=1.0),
        "quantity": Input("prefill, decode or requests_per_s", default="prefill")}, _pool_split),
    Question("kv_transfer_load", "Load of the links from prefill to decode", "fraction", "planner.models.queueing.sizing.transfer_load_fraction", {
        "requests_per_s": Input(RATE.meaning, required=True, also=RATE.also), "input_tokens": Input(ISL.meaning, required=True, also=ISL.also),
        "kv_bytes_per_token": Input("cache of one token [B]", required=True, also={"kv_bytes": "", "bytes_per_token": ""}),
        "link_gbps": Input("one link, one direction, gigabits", "Gb/s", True, also={"link_bytes_per_s": "B/s"}),
        "links": Input("links", default=1)}, _transfer),
    Question("queue_wait", "Wait for a prefill worker, or time to first token", "s", "planner.models.queueing.waiting.wait_seconds", {
        "requests_per_s": Input(RATE.meaning, required=True, also=RATE.also), "service_s": timed("mean service time of one request", "service"),
        "workers": WORKERS, "cv2": CV2, "quantile": QUANTILE, "input_tokens": ISL,
        "prefill_tokens_per_s": Input("input tokens per second of one worker"), "hit": HIT,
        "fixed_s": timed("added to every TTFT: network, transfer of the cache", "fixed", default=0.0),
        "quantity": Input("wait, ttft or load", default="wait")}, _queue_wait),
    Question("workers_for_ttft", "Fewest prefill workers that keep a TTFT", "count", "planner.models.queueing.tails.ttft_quantile_seconds", {
        "requests_per_s": Input(RATE.meaning, required=True, also=RATE.also), "service_s": timed("mean service time of one request", "service"),
        "ttft_s": timed("limit", "ttft", required=True), "cv2": CV2, "quantile": QUANTILE, "input_tokens": ISL,
        "prefill_tokens_per_s": Input("input tokens per second of one worker"), "hit": HIT,
        "fixed_s": timed("added to every TTFT", "fixed", default=0.0)}, _workers_for),
    Question("worker_under_load", "TPOT, TTFT or end-to-end of one worker at a rate or a concurrency, from its own step times", "s",
             "planner.models.queueing.chunked.solve", {
        "requests_per_s": RATE, "concurrency": Input("requests in flight or users, instead of a rate", also={"users": ""}),
        "think_s": timed("pause of a user", "think", default=0.0), "step_s": timed("decode step with no request", "step", required=True),
        "step_s_per_request": timed("what one more running request adds", "step_s_per_request", required=True),
        "slots": Input("most requests that run", required=True, also={"max_batch": "", "max_num_seqs": ""}),
        "output_tokens": Input(OSL.meaning, required=True, also=OSL.also),
        "output_cv2": Input("squared coefficient of variation of the output tokens; 1 is an assumption", default=1.0), "input_tokens": ISL,
        "input_cv2": Input("of the input tokens; 1 is an assumption", default=1.0), "hit": HIT,
        "prefill_tokens_per_s": Input("input tokens per second that a step prefills; absent: a worker that only decodes"),
        "chunk_tokens": Input("most input tokens of one step"), "quantile": QUANTILE,
        "quantity": Input("tpot, ttft, e2e, running, requests_per_s or highest_requests_per_s", default="tpot")}, _under_load),
)
