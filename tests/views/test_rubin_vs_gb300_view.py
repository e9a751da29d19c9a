"""The Vera Rubin notebook: ratios follow from levels, claims stay apart, no price is invented."""

import numpy as np
import pytest

from planner.errors import InputError
from planner.facts.evidence import claim
from planner.panels import rubin_vs_gb300 as panel
from planner.sensitivity import pricing, rubin
from planner.views import rubin_vs_gb300 as view
from planner.views.digest import digest

MODEL = "deepseek-r1"


@pytest.fixture(scope="module", autouse=True)
def few():
    """Few draws, two speeds and two scenarios, so that everything takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        kept = rubin.along
        patch.setattr(rubin, "NUM", 32)
        patch.setattr(rubin, "FEW", 16)
        patch.setattr(rubin, "SCENARIOS", ("Offline", "Agentic"))
        patch.setattr(rubin, "SPEEDS", (20.0, 150.0))
        patch.setattr(rubin, "along", lambda *args: kept(*args, **({} if len(args) > 6 else {"speeds": (20.0, 150.0)})))
        yield
    for cached in (rubin.levels, rubin._drawn, rubin._cases, kept):
        cached.cache_clear()


def test_ratio_is_of_the_levels_and_power_divides_it():
    for scenario in rubin.SCENARIOS:
        levels = {(lv.profile, lv.software): lv for lv in rubin.levels(MODEL, scenario)}
        own, other = levels["upto", "preview"], rubin.levels(MODEL, scenario)[-1]
        per_gpu, per_mw = (rubin.ratio(MODEL, scenario, "upto", "preview", per)[0] for per in rubin.BASES)
        assert per_gpu == pytest.approx(own.value / other.value)
        assert per_mw == pytest.approx(per_gpu * other.kw / own.kw)
        assert levels["maxlps", "preview"].kw < own.kw
        assert own.how == "extrapolated"
        assert rubin.break_even(MODEL, scenario, "upto", "preview")[0] == pytest.approx(per_gpu * rubin.gb300_price(32)[0])


def test_the_central_ratio_is_that_of_the_pricing_notebook():
    assert rubin.ratio(MODEL, "Offline", "upto", "preview")[0] == pytest.approx(pricing.modelled_ratio(MODEL, "Offline", 16)[0])


def test_figures_say_what_they_find():
    levels = view.levels_figure(MODEL)
    title = levels.layout.title.text.replace("<br>", " ")
    assert "agentic (assumed)" in title
    assert "offline" in title
    assert [t.name for t in levels.data][-1] == "GB300 measured (MLPerf v6.1)"
    per_mw = view.levels_figure(MODEL, "IT megawatt")
    assert per_mw.data[-1].y[0] == pytest.approx(levels.data[-1].y[0] / rubin.levels(MODEL, "Offline")[-1].kw / 1e3)
    assert digest(levels) != digest(per_mw)
    ratios = view.ratio_figure()
    assert set(ratios.data[-1].x) == {claim(i).value for i in pricing.CLAIMS.values()}
    assert "of 4 cases" in ratios.layout.title.text.replace("<br>", " ")
    with pytest.raises(InputError):
        view.levels_figure(MODEL, "rack")


@pytest.mark.parametrize(("claimed", "words"), [(9, "above the interval"), (0.5, "below"), (1.5, "at or below"), (2.5, "above the central")])
def test_verdict(claimed, words):
    assert words in view.verdict(2.0, 1.0, 4.0, claimed)


def test_where_a_claim_holds_is_said():
    one = rubin.Along(np.array([10.0, 20.0, 50.0]), np.array([1.5, 3.0, np.nan]), np.array([1.0, 2.0, np.nan]), np.array([2.0, 5.0, np.nan]),
                      np.zeros(3))
    assert view.where_it_holds(one, 2.5) == (
        "the central ratio reaches 2.5x at 20; the 80 % interval holds it at 20 tok/s per user; past 20 one side serves nothing")
    assert "at no speed" in view.where_it_holds(one, 9.0)
    gap = rubin.Along(one.speeds, np.array([3.0, 1.0, 3.0]), one.low, one.high, one.unserved)
    assert "reaches 2.5x at 10, 50;" in view.where_it_holds(gap, 2.5)
    assert "never holds it" in view.where_it_holds(one, 9.0)


def test_no_price_of_vera_rubin():
    table = view.dollars_table(MODEL)
    assert set(table["Vera Rubin, USD per GPU-hour"]) == {"not available"}
    assert not (table == "0").any().any()


def test_tables_and_words():
    table = view.ratio_table()
    assert len(table) == 2 * 2 * len(rubin.SCENARIOS)
    assert table["Claimed, per GPU"].str.contains("H007[23]").all()
    assert "at 150 tok/s per user" in view.megawatt_takeaway()
    assert "10 claimed" in view.megawatt_takeaway()
    words = view.takeaway(MODEL)
    assert "H0073" in words
    assert "GB300 modelled over measured: offline" in words


def test_panel_runs_without_a_kernel():
    box = panel.controls()
    controls = box.children[0].children
    assert controls[-1].value == ""
    next(c for c in controls if c.description == "Per").value = "IT megawatt"
    assert controls[-1].value == ""


def test_check_is_modelled_over_measured(monkeypatch):
    monkeypatch.setattr(pricing, "SCENARIOS", ("Offline",))
    check = view.check_table()
    assert len(check) == 2
    assert check["Modelled over measured"].astype(float).between(0.5, 2).all()
    assert check["The same, GB300 left out"].astype(float).between(0.5, 2).all()
