"""Event simulations that the queueing models are held against: independent of them, plain Python and NumPy, exact but for noise."""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np


def lognormal(rng, mean, scv, size):
    """Return draws of a lognormal with this mean and squared coefficient of variation; the constant mean at scv 0."""
    spread = np.log1p(scv) ** 0.5
    return mean * np.exp(rng.normal(-(spread**2) / 2, spread, size)) if scv else np.full(size, float(mean))


def whole(rng, mean, scv, size):
    """Return whole lognormal draws of at least 1, as a list."""
    return np.maximum(1, np.rint(lognormal(rng, mean, scv, size))).astype(int).tolist()


class Waits:
    """M/G/c by the Kiefer-Wolfowitz recursion, many replications side by side; `run` goes on from where it stopped."""

    def __init__(self, seed, load, workers, scv, replications):
        self.rng, self.rate, self.scv = np.random.default_rng(seed), load * workers, scv
        self.left, self.rows = np.zeros((replications, workers)), np.arange(replications)

    def run(self, steps, keep_every=5):
        """Return the sum of waits and the number that waited, per replication, and every fifth row of waits with its own service."""
        size = len(self.rows)
        total, waited, kept, own = np.zeros(size), np.zeros(size), [], []
        gaps, services = self.rng.exponential(1 / self.rate, (steps, size)), lognormal(self.rng, 1.0, self.scv, (steps, size))
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
