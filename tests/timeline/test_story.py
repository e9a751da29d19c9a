"""The site of the notebook: strategies, what they rest on, and the words in which they fail."""

import pytest

from planner.draws import between
from planner.errors import InputError
from planner.timeline.ledger import Supply
from planner.timeline.story import Story, runs_out, tell
from planner.views import timeline as view

NOW = Supply("now", {"w": 10.0}, 8, 100.0, 2, initial=6, usd=600.0, life_months=24)
LATER = Supply("later", {"w": 30.0}, 8, 200.0, 4, first_month=2, usd=900.0, life_months=24)


def site(watts, chance=0.8, **more):
    return Story(NOW, LATER, "w", between(40.0, 35.0, 45.0), between(0.1, 0.08, 0.12), 12, watts, chance, serve_from=3, **more)


def test_strategies_that_hold_keep_their_chance():
    for strategy in ("now", "both"):
        chosen = tell(site(1e5), strategy, 128).chosen
        assert 1 - (chosen.timeline.fleet.short[:, :, 3:] > 0).any((1, 2)).mean() >= 0.8
        assert {o.supply for o in chosen.found.orders} <= {"now", "later"}


def test_both_is_never_dearer_than_now():
    both, now = (tell(site(1e5), s, 128).chosen.found.usd for s in ("both", "now"))
    assert both <= now * (1 + 1e-9)


def test_waiting_leaves_months_short_and_says_which():
    told = tell(site(1e5), "wait", 128)
    assert told.chosen is None
    assert "cannot be served" in told.reason
    assert runs_out(site(1e5), "wait", 128) >= 3
    assert runs_out(site(1e5), "both", 128) is None


def test_a_small_site_runs_out_of_power():
    told = tell(site(800.0), "now", 128)
    assert told.chosen is None
    assert "power" in told.reason


def test_refusals():
    with pytest.raises(InputError, match="strategy"):
        tell(site(1e5), "pray")
    with pytest.raises(InputError, match="chance"):
        site(1e5, chance=80)
    with pytest.raises(InputError, match="another name"):
        Story(NOW, NOW, "w", between(1, 1, 1), between(0.1, 0.1, 0.1), 12, 1e5)


def test_the_notebooks_site_rests_on_the_facts():
    found = view.story()
    assert found.now.watts == pytest.approx(135.8e3 * 1.2)
    assert found.later.throughput["DeepSeek-R1"] / found.now.throughput["DeepSeek-R1"] == pytest.approx(2.5)
    table = view.strategies_table(found)
    assert "cannot be served" in table.loc["wait", "Why not"]
    assert view.months_table(found, "both").shape[1] == 24
