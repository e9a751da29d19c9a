"""The site of the notebook: strategies, what they rest on, and the words in which they fail."""

from dataclasses import replace

import pytest

from planner.draws import between
from planner.errors import InputError
from planner.timeline import demand
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


def test_a_file_of_history_and_forecast(tmp_path):
    """Twelve months of two workloads: the plan serves them both at the chance asked for, the range decides how many racks."""
    table = tmp_path / "demand.csv"
    lines = [f"2026-{m:02d},{w},{base + m},{'' if m < 4 else base + 0.8 * m},{'' if m < 4 else base + wide * m}"
             for w, base in (("w", 30), ("v", 10)) for m in range(1, 13) for wide in (3,)]
    table.write_text("\ufeffMonth,workload,value,low,high\n" + "\n".join(lines) + "\n", encoding="utf-8")
    ends = demand.read(table)
    assert ends["w"][:, 0].tolist() == [31, 31, 31]
    assert ends["v"][:, 11].tolist() == pytest.approx([22, 19.6, 46])
    both = replace(NOW, throughput={"w": 10.0, "v": 5.0})
    story = Story(both, replace(LATER, throughput={"w": 30.0, "v": 15.0}), "w", between(1, 1, 1), between(0, 0, 0), 12, 1e5, serve_from=3, typed=ends)
    chosen = tell(story, "now", 128).chosen
    assert 1 - (chosen.timeline.fleet.short[:, :, 3:] > 0).any((1, 2)).mean() >= 0.8
    with pytest.raises(InputError, match=r"typed\.w must hold value, low and high of 6 months"):
        replace(story, months=6)


@pytest.mark.parametrize(("text", "words"), [
    ("month,value\n2026-01,1\n", "columns must be month"), ("month,workload,value\n2026-01,a,1\n2026-03,a,1\n", "demand.csv: line 3, month"),
    ("month,workload,value,price\n", "columns"), ("month,workload,value\n2026-01,a,=1+1\n", "must be a number"), ("", "columns"),
    ("month,workload,value\n2026-01,a,1,7,9,9\n", "line 2"), ("month,month,workload,value\n", "columns")])
def test_files_that_are_no_demand(tmp_path, text, words):
    table = tmp_path / "demand.csv"
    table.write_text(text)
    with pytest.raises(InputError, match=words):
        demand.read(table)


def test_places_that_are_no_file(tmp_path):
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    for place in (tmp_path, tmp_path / "absent.csv", tmp_path / "bytes.csv"):
        with pytest.raises(InputError, match="file must be"):
            demand.read(place)


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
