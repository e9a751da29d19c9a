"""Queueing and sessions: layouts a second of the quick means, and one call of the whole laws."""

import numpy as np

from planner.models import sessions
from planner.models.queueing import batching, chunked, closed, tails, waiting


def cases():
    """Return (name, callable, target, seconds)."""
    many, table = np.linspace(0.5, 5.0, 1000), batching.step_table(np.full(1000, 0.01), 0.0002, 128)
    asked, engine = chunked.Requests(many, 1000.0, 0.5, 200.0, 0.5), chunked.Engine(table, 2e-5, 2048.0)
    short = chunked.Requests(many[:50], 1000.0, 0.5, 200.0, 0.5)
    few = chunked.Engine(table[:50], 2e-5, 2048.0)
    case = sessions.Sessions(40, 6000.0, 4000.0, 500.0, 700.0, 15.0, (sessions.Pause(8.0, 2.0),))
    places = [sessions.Tier("hbm", np.geomspace(1e11, 1e13, 100)), sessions.Tier("lpddr", 2e13, 4e11), sessions.Tier("nvme", 2e14, 1e10)]
    prefill, decode = closed.PrefillPool(0.1, 0.5, 4), closed.DecodePool(200.0, table, 2)
    return [
        ("queueing: mean wait of 100,000 prefill pools", lambda: waiting.wait_seconds(np.linspace(1, 35, 100_000), 0.1, 4, 0.5), "1 s", 1.0),
        ("queueing: p99 of TTFT, 128 prefill pools, whole law",
         lambda: tails.ttft_quantile_seconds(np.linspace(1, 35, 128), 0.1, 4, 0.5, 0.99), "1 s", 1.0),
        ("queueing: quick decode mean, 1,000 workers of 128 slots", lambda: batching.tpot_seconds_mean_field(many, 200.0, table), "20 ms", 0.02),
        ("queueing: quick aggregated means, 1,000 workers", lambda: chunked.mean_field(asked, engine), "100 ms", 0.1),
        ("queueing: steady state of 50 aggregated workers", lambda: chunked.solve(short, few), "0.5 s", 0.5),
        ("queueing: closed loops of 1,000 pairs of pools", lambda: closed.closed_loop_disaggregated(64.0, prefill, decode), "1 s", 1.0),
        ("sessions: 100 capacities, three tiers", lambda: sessions.residency(case, 150.0, 35e3, places, exclusive=True), "0.2 s", 0.2),
    ]
