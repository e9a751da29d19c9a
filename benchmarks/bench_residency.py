"""One million (context, batch, layout) points in one call."""

from __future__ import annotations

import numpy as np

from planner.facts import modelcards
from planner.facts.formats import weight_formats
from planner.models import residency
from planner.shapes import Layout


def cases():
    """Return the benchmarks of this area: (name, callable, target text, target seconds)."""
    shape = modelcards.load("deepseek-ai/DeepSeek-R1")
    formats = weight_formats(shape, "nvfp4")
    layouts = [Layout(tp=t) for t in (1, 2, 4, 8, 16)] + [Layout(dp=d, ep=d) for d in (2, 4, 8, 16, 32)]
    tokens, sequences = np.linspace(100, 1e5, 316)[:, None], np.linspace(1, 4096, 317)[None, :]

    def million():
        assert residency.free_bytes(shape, formats, layouts, tokens, sequences, 8, 298e9, 7e9).size >= 1_000_000

    return [("1,001,720 points of what is left in HBM, DeepSeek-R1, 10 layouts", million, "1 s", 1.0)]
