"""The break-even price along the SLO: the plan's own ratio at each speed, and no price where a system cannot follow."""

import tomllib

import numpy as np
import pytest

from planner.errors import InputError
from planner.facts.files import folder
from planner.sensitivity import pricing
from planner.views import pricing as view


def test_price_along_the_slo():
    value, low, high = pricing.slo_curve("rent", "deepseek-r1", [20.0, 150.0, 50_000.0], num=64)
    assert value[1] > value[0]
    assert (low[:2] < value[:2]).all()
    assert (value[:2] < high[:2]).all()
    assert np.isnan([value[2], low[2], high[2]]).all()


def test_at_the_scenarios_own_speed_only_the_first_token_is_left_free():
    slo = tomllib.loads((folder("scenarios") / "mlperf-interactive.toml").read_text())["workloads"][0]["slo"]
    own = pricing.modelled_ratio("deepseek-r1", "Interactive", 8)
    free = pricing.modelled_ratio("deepseek-r1", "Interactive", 8, speed=1 / slo["tpot_s"])
    assert free.shape == own.shape
    assert free[0] == pytest.approx(own[0], rel=0.25)


def test_a_claim_has_no_speed():
    with pytest.raises(InputError, match="names no speed"):
        pricing.inputs("rent", "deepseek-r1", "Interactive", "claim", 100.0)
    with pytest.raises(InputError, match="speeds"):
        pricing.slo_curve("rent", "deepseek-r1", [-1.0])


def test_the_figure_says_both_ends():
    title = view.slo_figure("rent", "deepseek-r1").layout.title.text.replace("<br>", " ")
    assert "at 20 tok/s per user" in title


@pytest.mark.parametrize("make", [lambda: view.break_even_figure("rent"), lambda: view.slo_figure("rent", "deepseek-r1")])
def test_nothing_stretches_a_logarithmic_axis(make):
    """An annotation is placed at the power of ten of its value there: one at 8.5 made an axis of prices reach a hundred million."""
    figure = make()
    assert "log" in (figure.layout.xaxis.type, figure.layout.yaxis.type)
    assert not figure.layout.annotations
    assert any("analyst" in trace.name for trace in figure.data)
