"""Hold the queueing models against event simulations: `make queueing` writes outputs/queueing_errors.csv, `--fit` prints the two fitted factors.

The simulations are independent of the models, plain Python and NumPy, exact but for noise. Each runs until the 95 % band of everything it
reports is below 2 % of the value, or its time is over: the band that was reached is in the table.
"""

from __future__ import annotations

import csv
import heapq
import math
import sys
import time
from collections import deque
from dataclasses import replace
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import t as student

from planner.models.queueing import batching, chunked, closed, exponential, laws, tails, waiting

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "outputs" / "queueing_errors.csv"
LOADS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
BAND = 0.02
SECONDS = 60.0  # of one case on one core, at most


def lognormal(rng, mean, scv, size):
    """Return draws of a lognormal with this mean and squared coefficient of variation; the constant mean at scv 0."""
    spread = np.log1p(scv) ** 0.5
    return mean * np.exp(rng.normal(-(spread**2) / 2, spread, size)) if scv else np.full(size, float(mean))


def whole(rng, mean, scv, size):
    """Return whole lognormal draws of at least 1, as a list."""
    return np.maximum(1, np.rint(lognormal(rng, mean, scv, size))).astype(int).tolist()


class Waits:
    """M/G/c by the Kiefer-Wolfowitz recursion, many replications side by side; `run` goes on from where it stopped. draw(rng, shape) gives
    service times of mean 1."""

    def __init__(self, seed, load, workers, draw, replications):
        self.rng, self.rate, self.draw = np.random.default_rng(seed), load * workers, draw
        self.left, self.rows = np.zeros((replications, workers)), np.arange(replications)

    def run(self, steps, keep_every=5):
        """Return the sum of waits and the number that waited, per replication, and every fifth row of waits with its own service."""
        size = len(self.rows)
        total, waited, kept, own = np.zeros(size), np.zeros(size), [], []
        gaps, services = self.rng.exponential(1 / self.rate, (steps, size)), self.draw(self.rng, (steps, size))
        for i in range(steps):
            at = self.left.argmin(1)
            wait = self.left[self.rows, at]
            total += wait
            waited += wait > 1e-9
            if i % keep_every == 0:
                kept.append(wait.astype(np.float32))
                own.append(services[i].astype(np.float32))
            self.left[self.rows, at] = wait + services[i]
            self.left -= gaps[i][:, None]
            np.maximum(self.left, 0.0, out=self.left)
        return total, waited, np.array(kept), np.array(own)


class Arrivals:
    """Poisson arrivals at a rate, or users who ask again after thinking; `after` is told when a request has ended."""

    def __init__(self, rng, number, rate=None, users=None, think=0.0):
        self.rng, self.number, self.think, self.users, self.given = rng, number, think, users, 0
        if users is None:
            self.times = np.cumsum(rng.exponential(1 / rate, number)).tolist()
            self.times.reverse()
        else:
            self.times = [self._pause() for _ in range(users)]
            heapq.heapify(self.times)

    def _pause(self):
        return self.rng.exponential(self.think) if self.think else 0.0

    def next(self):
        """Return the time of the next arrival, None when there is none."""
        return None if self.given >= self.number or not self.times else self.times[-1] if self.users is None else self.times[0]

    def take(self):
        """Remove the next arrival and return its time."""
        self.given += 1
        return self.times.pop() if self.users is None else heapq.heappop(self.times)

    def after(self, time):
        """A request ended at this time: its user thinks and comes back."""
        if self.users is not None:
            heapq.heappush(self.times, time + self._pause())


def decode(rng, rate, table, mean, scv, number):
    """Simulate one decode worker step by step; table[b - 1] is the step at b running. Returns waits, steps, durations and mean running."""
    slots, table = len(table), [0.0, *map(float, table)]
    came, steps = np.cumsum(rng.exponential(1 / rate, number)).tolist(), whole(rng, mean, scv, number)
    start, end = [0.0] * number, [0.0] * number
    now, step, running, nxt, area, ends = 0.0, 0, 0, 0, 0.0, []
    while nxt < number or ends:
        if running == 0 and came[nxt] > now:
            now = came[nxt]
        while nxt < number and running < slots and came[nxt] <= now:
            start[nxt] = now
            heapq.heappush(ends, (step + steps[nxt], nxt))
            nxt, running = nxt + 1, running + 1
        each, go = table[running], ends[0][0] - step
        if running < slots and nxt < number:
            go = min(go, max(1, -int(-(came[nxt] - now) // each)))
        now, step, area = now + go * each, step + go, area + running * go * each
        while ends and ends[0][0] == step:
            end[heapq.heappop(ends)[1]] = now
            running -= 1
    cut = slice(number // 20, number - number // 20)
    return (np.array(start) - came)[cut], np.array(steps)[cut], (np.array(end) - start)[cut], area / now


def aggregated(rng, arrivals, table, cost, chunk, prompts, outputs):
    """Simulate one worker with chunked prefill; prompts and outputs are lists of whole tokens. Returns TTFTs, times per step of requests
    with more than one token, whole times, mean running, and requests a second."""
    slots, number, table = len(table), len(prompts), [0.0, *map(float, table)]
    came, first, end = [0.0] * number, [0.0] * number, [0.0] * number
    now, step, running, nxt, area, left, ends, queue, order = 0.0, 0, 0, 0, 0.0, 0, [], deque(), []
    while True:
        coming = arrivals.next()
        if running == 0 and not queue:
            if coming is None:
                break
            now = max(now, coming)
        while coming is not None and coming <= now and running + len(queue) < slots:
            came[nxt] = arrivals.take()
            queue.append(nxt)
            if len(queue) == 1:
                left = prompts[nxt]
            nxt, coming = nxt + 1, arrivals.next()
        done, ended = [], []
        if queue:
            room = chunk
            while queue and room > 0:
                if left <= room:
                    room -= left
                    done.append(queue.popleft())
                    left = prompts[queue[0]] if queue else 0
                else:
                    left, room = left - room, 0
            lasted, go = (table[running] if running else table[1]) + cost * (chunk - room), 1
        else:
            each, go = table[running], ends[0][0] - step
            if coming is not None and running + len(queue) < slots:
                go = min(go, max(1, -int(-(coming - now) // each)))
            if arrivals.users is not None and coming is None:
                go = min(go, ends[0][0] - step)
            lasted = go * each
        now, step, area = now + lasted, step + go, area + running * lasted
        while ends and ends[0][0] == step:
            ended.append(heapq.heappop(ends)[1])
            running -= 1
        for i in done:
            first[i] = now
            if outputs[i] > 1:
                heapq.heappush(ends, (step + outputs[i] - 1, i))
                running += 1
            else:
                ended.append(i)
        for i in ended:
            end[i] = now
            order.append(now)
            arrivals.after(now)
    cut = slice(number // 20, number - number // 20)
    came, first, end, outputs = (np.array(v)[cut] for v in (came, first, end, outputs))
    more = outputs > 1
    pace = (len(order) * 9 // 10) / (order[len(order) * 19 // 20 - 1] - order[len(order) // 20 - 1])
    return first - came, ((end - first)[more] / (outputs[more] - 1)), end - came, area / now, pace


def disaggregated(rng, arrivals, service, workers, steps, table):
    """Simulate prefill workers that feed one decode worker; service is a list of prefill seconds, steps of decode steps. Returns TTFTs,
    times per step (from the first token to the last), whole times and requests a second."""
    slots, number, table = len(table), len(service), [0.0, *map(float, table)]
    came, first, end = [0.0] * number, [0.0] * number, [0.0] * number
    free, ready, ends, order = [0.0] * workers, [], [], []
    now, step, running, nxt = 0.0, 0, 0, 0
    while True:
        # a prompt that arrives before the step ends may be the next to be ready: prefill everything that has come by then
        coming = arrivals.next()
        if coming is not None and ((running == 0 and not ready) or coming <= now):
            came[nxt] = arrivals.take()
            begun = max(came[nxt], heapq.heappop(free))
            first[nxt] = begun + service[nxt]
            heapq.heappush(free, first[nxt])
            heapq.heappush(ready, (first[nxt], nxt))
            nxt += 1
            continue
        if running == 0 and not ready:
            break
        if running == 0:
            soonest = ready[0][0] if coming is None else min(ready[0][0], coming)
            if soonest > now:
                now = soonest
                continue
        while ready and ready[0][0] <= now and running < slots:
            i = heapq.heappop(ready)[1]
            heapq.heappush(ends, (step + steps[i], i))
            running += 1
        if running == 0:
            continue
        each, go = table[running], ends[0][0] - step
        wake = [t for t in (coming, ready[0][0] if ready and running < slots else None) if t is not None]
        if wake:
            go = min(go, max(1, -int(-(min(wake) - now) // each)))
        now, step = now + go * each, step + go
        while ends and ends[0][0] == step:
            i = heapq.heappop(ends)[1]
            end[i] = now
            order.append(now)
            running -= 1
            arrivals.after(now)
    cut = slice(number // 20, number - number // 20)
    came, first, end = (np.array(v)[cut] for v in (came, first, end))
    pace = (len(order) * 9 // 10) / (order[len(order) * 19 // 20 - 1] - order[len(order) // 20 - 1])
    return first - came, (end - first) / np.array(steps)[cut], end - came, pace


def band_of(values):
    """Return the half-width of the 95 % band of a mean of independent values, as a share of the mean; infinite where the mean is 0."""
    values = np.asarray(values, float)
    mean = values.mean()
    return float(student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)) / mean) if mean > 0 else math.inf


def replicate(run, seconds=SECONDS, band=BAND, least=10):
    """Return {quantity: (mean, band)} of run(seed) -> {quantity: value}, repeated until every band is small enough or the time is over."""
    found, began = [], time.monotonic()
    while True:
        found.append(run(len(found)))
        if len(found) >= least:
            bands = {name: band_of([f[name] for f in found]) for name in found[0]}
            if max(bands.values()) < band or time.monotonic() - began > seconds:
                return {name: (float(np.mean([f[name] for f in found])), bands[name]) for name in bands}


STORED: dict = {}  # station -> load -> {quantity: (value, band)}, where simulations are taken from the table


def recall() -> None:
    """Take the simulations from the table, so that only the models are made again."""
    for row in csv.DictReader(PLACE.read_text(encoding="utf-8").splitlines()):
        at = STORED.setdefault(row["station"], {}).setdefault(float(row["load"]), {})
        at[row["quantity"]] = (float(row["simulated"]), float(row["band"]))


def simulated(station, load, run):
    """Return {quantity: (value, band)} as stored, or as run() simulates it now; a load of None is the only one stored."""
    if not STORED:
        return run()
    return next(iter(STORED[station].values())) if load is None else STORED[station][load]


SERVICES = {
    "constant": (0.0, lambda rng, shape: np.ones(shape)),
    "exponential": (1.0, lambda rng, shape: rng.exponential(1.0, shape)),
    "lognormal cv2 2": (2.0, lambda rng, shape: lognormal(rng, 1.0, 2.0, shape)),
}


def simulate_waits(load, workers, scv, draw, seconds=SECONDS, band=BAND, seed=1):
    """Return {quantity: (value, band)} of waits and TTFTs in mean service times, by 20 groups of replications."""
    began, size = time.monotonic(), 1000
    queue = Waits(seed, load, workers, draw, size)
    for _ in range(int((300 + 8 * (1 + scv) * load / (1 - load) ** 2 + 30 * workers) // 500) + 1):
        queue.run(500, 500)
    total, waited, steps, kept, own, every = np.zeros(size), 0.0, 0, [], [], 5
    groups = np.array_split(np.arange(size), 20)
    while True:
        one, late, some, mine = queue.run(500, every)
        total, waited, steps = total + one, waited + late.sum(), steps + 500
        if len(kept) < 80:
            kept.append(some)
            own.append(mine)
        if steps < 2500 or steps % 2500:
            continue
        wait, first = np.concatenate(kept), np.concatenate(kept) + np.concatenate(own)
        values = {"wait mean": [total[g].mean() / steps for g in groups], "wait p99": [np.quantile(wait[:, g], 0.99) for g in groups],
                  "ttft p99": [np.quantile(first[:, g], 0.99) for g in groups]}
        if waited / steps / size < 0.01:  # its p99 is 0
            del values["wait p99"]
        out = {name: (float(np.mean(v)), band_of(v) if np.ptp(v) > 0 else 0.0) for name, v in values.items()}
        if max(b for _, b in out.values()) < band or time.monotonic() - began > seconds:
            return out


def prefill_case(load, workers, service):
    """Return rows of one prefill pool: wait and TTFT, in mean service times."""
    scv, draw = SERVICES[service]
    got = simulated(f"prefill pool, {workers} workers, {service}", load, lambda: simulate_waits(load, workers, scv, draw))
    rate = load * workers
    model = {"wait mean": waiting.wait_seconds(rate, 1.0, workers, scv), "wait p99": tails.wait_quantile_seconds(rate, 1.0, workers, scv, 0.99),
             "ttft p99": tails.ttft_quantile_seconds(rate, 1.0, workers, scv, 0.99)}
    if service == "exponential":
        yield from rows(f"lognormal model of exponential service, {workers} workers", load, model, got)
        model = {"wait mean": exponential.wait_seconds(rate, 1.0, workers), "wait p99": exponential.wait_quantile_seconds(rate, 1.0, workers, 0.99),
                 "ttft p99": exponential.ttft_quantile_seconds(rate, 1.0, workers, 0.99)}
    yield from rows(f"prefill pool, {workers} workers, {service}", load, model, got)
    if service != "exponential":
        plain = {"wait mean": waiting.wait_seconds_allen_cunneen(rate, 1.0, workers, scv),
                 "wait p99": waiting.wait_quantile_seconds_gamma(rate, 1.0, workers, scv, 0.99)}
        yield from rows(f"baseline: Allen-Cunneen, gamma tail, {workers} workers, {service}", load, plain, got)


DECODES = {"64 slots": (0.02, 0.0002, 64, 200, 0.5), "256 slots": (0.01, 0.0004, 256, 200, 0.5), "32 slots, long tails": (0.02, 0.002, 32, 200, 2.0)}


def summary(waits=None, **times):
    """Return mean and p99 of each named array of times."""
    out = {} if waits is None else {"wait mean": float(waits.mean())}
    return out | {f"{name} {what}": float(v) for name, x in times.items() for what, v in (("mean", x.mean()), ("p99", np.quantile(x, 0.99)))}


def size_at(load):
    """Return how many requests one replication needs at a load, so that the start from empty does not show."""
    return int(20_000 + 6_000 / (1 - load))


def decode_case(load, case):
    """Return rows of one decode worker: time per step and from hand-over to last token."""
    start, slope, slots, length, scv = DECODES[case]
    table = batching.step_table(start, slope, slots)
    rate = load * batching.highest_rate_per_s(length, table)

    def run(seed):
        waits, steps, lasted, _ = decode(np.random.default_rng([2, seed]), rate, table, length, scv, size_at(load))
        return summary(waits, tpot=lasted / steps, whole=waits + lasted)

    both = batching.decode(rate, length, scv, table)
    nodes = batching.decode_nodes_seconds(rate, length, scv, table)
    model = {"tpot mean": both["tpot"], "tpot p99": batching.tpot_quantile_seconds(rate, length, scv, table, 0.99), "whole mean": nodes.mean(),
             "wait mean": both["slot_wait"] + both["join"], "whole p99": np.quantile(nodes, 0.99)}
    yield from rows(f"decode pool, {case}", load, model, simulated(f"decode pool, {case}", load, lambda: replicate(run)))


# start and slope of the step, seconds a prompt token, chunk, slots, prompt and its scv, output and its scv
ENGINES = {
    "short prompts": (0.01, 0.0001, 2e-5, 2048, 256, 1000, 0.5, 200, 0.5),
    "prompts of 8k in chunks of 8k": (0.01, 0.0001, 4e-5, 8192, 512, 7200, 0.02, 900, 0.02),
    "prompts of 8k in chunks of 2k": (0.01, 0.0001, 2e-5, 2048, 256, 8000, 0.5, 1000, 0.5),
    "64 slots": (0.01, 0.0002, 2e-5, 2048, 64, 2000, 1, 300, 0.5),
    "all alike": (0.02, 0.0005, 1e-5, 1024, 64, 500, 0.0, 100, 0.0),
    "mostly prefill, long tails": (0.01, 0.0001, 2e-5, 2048, 256, 3000, 2, 100, 2),
}


def engine_of(case):
    """Return (requests without a rate, engine, table, draw(rng, number) -> prompts and outputs) of one case."""
    start, slope, cost, chunk, slots, prompt, prompt_scv, output, scv = ENGINES[case]
    table = batching.step_table(start, slope, slots)
    requests = chunked.Requests(0.0, prompt, prompt_scv, output - 1, scv)
    return requests, chunked.Engine(table, cost, chunk), lambda rng, n: (whole(rng, prompt, prompt_scv, n), whole(rng, output, scv, n))


def aggregated_case(load, case):
    """Return rows of one aggregated worker under Poisson arrivals."""
    requests, engine, draw = engine_of(case)
    rate = load * chunked.highest_rate_per_s(requests, engine)

    def run(seed):
        rng, n = np.random.default_rng([3, seed]), size_at(load)
        arrivals = Arrivals(rng, n, rate=rate)
        first, step, all_of, *_ = aggregated(rng, arrivals, engine.step_seconds, engine.prefill_seconds_per_token, engine.chunk_tokens, *draw(rng, n))
        return summary(ttft=first, tpot=step, e2e=all_of)

    got = simulated(f"aggregated, {case}", load, lambda: replicate(run))
    yield from rows(f"aggregated, {case}", load, aggregated_model(requests, engine, rate), got)


def aggregated_model(requests, engine, rate):
    """Return the model's answers for one aggregated worker at a rate."""
    made = laws.aggregated(replace(requests, rate_per_s=rate), engine, 0.99)
    return {f"{name} {what}": made[name + end] for name in ("ttft", "tpot", "e2e") for what, end in (("mean", ""), ("p99", "_quantile"))}


# prefill seconds and scv, workers, decode steps and scv, start and slope of the step, slots
PAIRS = {"2 prefill workers": (0.1, 0.5, 2, 200, 0.5, 0.01, 0.0002, 256), "8 prefill workers": (0.4, 0.3, 8, 400, 0.3, 0.02, 0.0001, 512)}


def pair_of(case):
    """Return the pools of one disaggregated case and its highest rate."""
    own, own_scv, workers, steps, scv, start, slope, slots = PAIRS[case]
    table = batching.step_table(start, slope, slots)
    top = min(workers / own, batching.highest_rate_per_s(steps, table))
    return closed.PrefillPool(own, own_scv, workers), closed.DecodePool(steps, table, 1), scv, float(top)


def pair_run(case, arrivals_of, number):
    """Return run(seed) of a disaggregated case."""
    prefill, pool, scv, _ = pair_of(case)

    def run(seed):
        rng = np.random.default_rng([4, seed])
        service = lognormal(rng, prefill.service_seconds, prefill.scv, number).tolist()
        steps = whole(rng, pool.steps, scv, number)
        first, step, all_of, pace = disaggregated(rng, arrivals_of(rng), service, prefill.workers, steps, pool.step_seconds)
        return summary(ttft=first, tpot=step, e2e=all_of) | {"rate mean": pace}

    return run


def disaggregated_case(load, case):
    """Return rows of a prefill pool that feeds a decode worker, under Poisson arrivals."""
    prefill, pool, scv, top = pair_of(case)
    rate, number = load * top, size_at(load)
    run = pair_run(case, lambda rng: Arrivals(rng, number, rate=rate), number)
    got = simulated(f"disaggregated, {case}", load, lambda: replicate(run))
    made = laws.disaggregated(rate, prefill, pool, scv, 0.99)
    model = {f"{name} {what}": made[name + end] for name in ("ttft", "tpot", "e2e") for what, end in (("mean", ""), ("p99", "_quantile"))}
    yield from rows(f"disaggregated, {case}", load, model, got)


def closed_case(users, think, kind, case):
    """Return rows of a closed loop: rate, TTFT and time per step; the load is the share of the highest rate."""
    number, name = 8_000 if users < 8 else 30_000, f"closed {kind}, {case}, {users} users, think {think:g} s"
    if kind == "aggregated":
        requests, engine, draw = engine_of(case)
        top = float(chunked.highest_rate_per_s(requests, engine))

        def run(seed):
            rng = np.random.default_rng([5, seed])
            arrivals = Arrivals(rng, number, users=users, think=think)
            first, step, _, _, pace = aggregated(rng, arrivals, engine.step_seconds, engine.prefill_seconds_per_token, engine.chunk_tokens,
                                                 *draw(rng, number))
            return {"rate mean": pace, "ttft mean": float(first.mean()), "tpot mean": float(step.mean())}

        got, model = simulated(name, None, lambda: replicate(run)), closed.closed_loop_aggregated(users, requests, engine, think)
    else:
        prefill, pool, _, top = pair_of(case)
        whole_run = pair_run(case, lambda rng: Arrivals(rng, number, users=users, think=think), number)
        kept = ("rate mean", "ttft mean", "tpot mean")
        got = simulated(name, None, lambda: replicate(lambda seed: {k: v for k, v in whole_run(seed).items() if k in kept}))
        model = closed.closed_loop_disaggregated(users, prefill, pool, think)
    named = {"rate mean": model["rate"], "ttft mean": model["ttft"], "tpot mean": model["tpot"]}
    yield from rows(name, got["rate mean"][0] / top, named, got)


def rows(station, load, model, got):
    """Yield one row of the table for each quantity that was simulated and modelled."""
    for name, (value, band) in got.items():
        if name in model:
            yield {"station": station, "load": round(float(load), 3), "quantity": name, "model": float(model[name]), "simulated": value, "band": band,
                   "error": float(model[name]) / value - 1 if value > 0 else math.nan}


def cases():
    """Return every case as (function, arguments), the long ones first."""
    out = [(prefill_case, (load, c, s)) for load in LOADS for c in (1, 4, 16) for s in SERVICES]
    open_ones = ((decode_case, DECODES), (aggregated_case, ENGINES), (disaggregated_case, PAIRS))
    out += [(f, (load, c)) for f, names in open_ones for c in names for load in LOADS]
    out += [(closed_case, (users, think, kind, case)) for kind, names in (("aggregated", ENGINES), ("disaggregated", PAIRS)) for case in names
            for users in (1, 4, 16, 64, 256) for think in (0.0, 5.0)]
    return out


def fit():
    """Print the coefficients of the two factors of `waiting.wait_moments` fitted to simulated queues, and their errors there and on a grid left out.

    D is fitted to the chance to wait, K to the mean of those who wait, both in logarithms with a loss that lets outliers be.
    """
    grids = {"fitted": [(c, r, s) for s in (0, 0.5, 1, 2, 5) for c in (2, 4, 8, 32) for r in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)],
             "left out": [(c, r, s) for s in (0.1, 0.25, 1.5, 3) for c in (3, 6, 16, 64) for r in (0.4, 0.6, 0.75, 0.85, 0.93)]}
    data = {}
    for name, grid in grids.items():
        grid = [g for g in grid if waiting.delay_probability(g[1], g[0]) > 0.004]
        with Pool() as pool:
            data[name] = (np.array(grid, float).T, np.array(pool.starmap(conditional, grid)).T)
    (workers, load, scv), (chance, mean) = data["fitted"]
    plain = waiting.first_release(workers, scv) + load / (1 - load) * (1 + scv) / (2 * workers)
    wanted_d, wanted_k = np.log(waiting.delay_probability(load, workers) / chance), np.log(plain / mean)
    d = least_squares(lambda x: -np.log(waiting._delay_factor(load, workers, scv, x)) - wanted_d, waiting._D, loss="soft_l1", f_scale=0.02).x
    k = least_squares(lambda x: np.log(waiting._wait_factor(load, workers, scv, x)) - wanted_k, waiting._K, loss="soft_l1", f_scale=0.02).x
    sys.stdout.write(f"_D = {tuple(d.round(4).tolist())}\n_K = {tuple(k.round(4).tolist())}\n")
    for name, ((workers, load, scv), (chance, mean)) in data.items():
        plain = waiting.first_release(workers, scv) + load / (1 - load) * (1 + scv) / (2 * workers)
        made = waiting.delay_probability(load, workers) * waiting._delay_factor(load, workers, scv, d) * plain
        error = made / waiting._wait_factor(load, workers, scv, k) / (chance * mean) - 1
        sys.stdout.write(f"{name}: {len(error)} queues, mean wait {error.min():+.1%} to {error.max():+.1%}, rms {np.sqrt((error**2).mean()):.1%}\n")


def conditional(workers, load, scv, seconds=60.0):
    """Return the simulated chance to wait, and the mean wait of those who do."""
    queue = Waits([6, workers, int(100 * load), int(100 * scv)], load, workers, lambda rng, shape: lognormal(rng, 1.0, scv, shape), 1000)
    for _ in range(int((300 + 8 * (1 + scv) * load / (1 - load) ** 2) // 500) + 1):
        queue.run(500, 500)
    total, waited, steps, began = np.zeros(1000), 0.0, 0, time.monotonic()
    while steps < 2500 or (band_of(total) > 0.012 and time.monotonic() - began < seconds):
        one, late, *_ = queue.run(500, 500)
        total, waited, steps = total + one, waited + late.sum(), steps + 500
    return waited / steps / 1000, total.sum() / waited


def answer(item):
    """Return the rows of one case."""
    return list(item[0](*item[1]))


def table(words: list[str] = ()) -> list[dict]:
    """Return the rows of the cases that hold all words, simulated now or as stored (`recall`); a line each is printed where simulated."""
    chosen, found = [c for c in cases() if all(w in f"{c[0].__name__} {c[1]}" for w in words)], []
    if STORED:
        return [row for item in chosen for row in answer(item)]
    with Pool() as pool:
        for part in pool.imap(answer, chosen, chunksize=1):
            for row in part:
                sys.stdout.write(f"{row['station']} {row['load']} {row['quantity']}: {row['error']:+.1%} (band {row['band']:.1%})\n")
                sys.stdout.flush()
            found += part
    return found


def main(words: list[str]) -> int:
    """Write the table. --models keeps the simulations stored; words choose the cases that hold all of them, and only their rows are replaced;
    --fit prints the coefficients of `waiting` instead."""
    if "--fit" in words:
        fit()
        return 0
    if "--models" in words:
        recall()
    words = [w for w in words if not w.startswith("--")]
    made = {key(row): {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in table(words)}
    kept = {key(row): row for row in csv.DictReader(PLACE.read_text(encoding="utf-8").splitlines())} if words else {}
    with PLACE.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(next(iter(made.values()))), lineterminator="\n")
        writer.writeheader()
        writer.writerows((kept | made).values())
    return 0


def key(row):
    """Return what names a row of the table."""
    return row["station"], f"{float(row['load']):g}", row["quantity"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
