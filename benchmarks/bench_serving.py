"""How fast serving steps are evaluated, layouts searched, and draws taken through a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.calibration.serving import constants
from planner.calibration.serving.join import rates, work_in
from planner.facts import modelcards
from planner.facts.catalog import system
from planner.models.serving import search
from planner.models.serving.amounts import attention_terms, lifted, terms
from planner.models.serving.pools import Demand
from planner.models.serving.step import Rates, step_seconds
from planner.shapes import Layout


def cases():
    """Return (name, callable, target, seconds allowed for the stated amount of work)."""
    shape, rack = modelcards.load("deepseek-ai/DeepSeek-R1"), system("gb300-nvl72")
    work, eff, one = work_in(shape, "nvfp4", rack.accelerator), constants.of_model(shape).eff, rates([rack], 1.5)
    layouts = [Layout(tp=8), Layout(tp=8, ep=8), Layout(dp=8, ep=8), Layout(dp=16, ep=16)]
    many = lifted(lifted(terms(work, layouts, attention_terms(shape, [x.tp for x in layouts], 4096, 4096, 8), 72)))
    draws = np.random.default_rng(0).uniform(0.9, 1.1, (1000, 1))
    fields = {n: np.asarray(getattr(one, n))[..., None] * draws for n in ("hbm_bytes_per_s", "link_bytes_per_s", "cross_bytes_per_s")}
    drawn = Rates(**fields, flops_per_s=one.flops_per_s[..., None] * draws, attention_speed=1.5)
    batches = np.geomspace(8, 4096, 20)
    up, asked = replace(one, flops_per_s=one.flops_per_s[..., None]), Demand(8192.0, 1024.0, 2.0, 0.02, np.inf, tail=1.5, scv=0.4, headroom=0.9)
    memory = search.Memory(0.95 * rack.accelerator.hbm_bytes, 7e9)

    def steps():
        for _ in range(50):
            step_seconds(many, drawn, eff, batches, 0.0, 0.0)

    def whole_search():
        found = search.candidates(work, search.layouts(shape, 72, 72), memory, 8704, 8192, 8.0, 72, 72, 9216.0)
        search.best(found, up, eff, asked, 3072.0, 72)

    return [
        ("4 million (layout, batch, draw) serving steps", steps, "1 s", 1.0),
        ("every layout of DeepSeek-R1 on one rack under one SLO", whole_search, "10 ms", 0.010),
    ]
