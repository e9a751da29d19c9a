"""How fast training steps, layout searches, goodput and simulations are evaluated."""

from __future__ import annotations

import numpy as np

from planner.calibration import training, training_estimate
from planner.facts import training_models
from planner.facts.catalog import system
from planner.models import reliability
from planner.models.training.job import TrainingLayout, work
from planner.models.training.step import step_parts


def cases():
    """Return (name, callable, target, seconds allowed for the stated amount of work)."""
    rack = system("gb200-nvl72")
    job, machine = work(training_models.load("LLAMA3.1_405B"), 8192), training.machine(rack, "fp8")
    eff, shape = training_estimate.efficiency(rack, "fp8", True), training_models.load("LLAMA3.1_405B")
    one = TrainingLayout(4, 8, 8, 16, 2)
    many = TrainingLayout(*(np.full(20_000, v) for v in (4, 8, 8, 16, 2, 1, 0)))
    training_estimate.best_layouts(shape, rack, 256, 8192, 512, "fp8")
    training_estimate.known(True)

    def scalar():
        for _ in range(50_000):
            step_parts(job, machine, eff, one, 768.0, 1.0)

    def vectorised():
        for _ in range(50):
            step_parts(job, machine, eff, many, 768.0, 1.0)

    def search():
        training_estimate.best_layouts(shape, rack, 5120, 8192, 2560, "fp8")

    def estimate():
        for _ in range(100):
            training_estimate.estimate(shape, rack, one, 8192, 768, 1, "fp8")

    mttf = np.geomspace(100.0, 1e7, 1_000_000)

    def goodput():
        reliability.goodput_fraction(mttf, reliability.best_interval_seconds(mttf, 10.0), 10.0, 600.0)

    def simulation():
        rng = np.random.default_rng(1)
        times = reliability.failure_times(rng, 16384, 3.8e-3 / 86400, 4000 * 1392.0)
        reliability.goodput_simulated(rng, times, 160.0, 10.0, 600.0)

    return [("50,000 scalar steps", scalar, "50,000 a second", 1.0), ("a million vectorised steps", vectorised, "1,000,000 a second", 1.0),
            ("layout search, 405B on 5,120 GPUs", search, "2 s", 2.0), ("100 estimates with interval", estimate, "10 ms each", 1.0),
            ("a million best intervals and goodputs", goodput, "2 s", 2.0), ("simulated goodput of 4,000 failures", simulation, "2 s", 2.0)]
