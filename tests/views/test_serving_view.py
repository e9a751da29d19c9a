"""The serving notebook moves with its inputs, shows what was measured apart from the model, and says its misses."""

import math

import numpy as np
import pytest

from planner.errors import Infeasible, InputError
from planner.panels import serving as panel
from planner.plan import frontier as model
from planner.plan import sessions as rack_sessions
from planner.views import serving as view
from planner.views import serving_errors as errors
from planner.views import serving_sessions as agents

SYSTEMS = ("gb300-nvl72", "gb200-nvl72")
ASKED = view.ask("deepseek-ai/DeepSeek-R1", 8192, 1024, ttft_s=2.0)
FEW = (20.0, 50.0)


@pytest.fixture(autouse=True)
def few_speeds(monkeypatch):
    """Two speeds on the central case, so that a figure takes a fraction of a second."""
    kept = model.frontier
    monkeypatch.setattr(model, "frontier", lambda asked, system: kept(asked, system, FEW, False))


def test_frontier_falls_and_keeps_to_its_limits():
    front = model.frontier(ASKED, "gb300-nvl72")
    assert [p.speed for p in front.points] == sorted(p.speed for p in front.points)
    assert all(a.per_gpu > b.per_gpu for a, b in zip(front.points, front.points[1:], strict=False))
    assert front.at(front.points[0].speed) == pytest.approx(front.points[0].per_gpu)
    assert math.isnan(front.at(1e4))
    small = view.ask("deepseek-ai/DeepSeek-R1", 8192, 1024, ttft_s=2.0, largest_gpus=4, pools="aggregated")
    assert model.frontier(small, "gb300-nvl72").points[0].per_gpu <= front.points[0].per_gpu
    assert all(p.aggregated for p in model.frontier(small, "gb300-nvl72").points)


def test_more_cache_hits_never_serve_less():
    half = view.ask("deepseek-ai/DeepSeek-R1", 8192, 1024, ttft_s=2.0, cache_hits=0.5)
    assert model.point_of(half, "gb300-nvl72", 0.05, False).per_gpu[0] > model.point_of(ASKED, "gb300-nvl72", 0.05, False).per_gpu[0]


def test_figure_shows_measured_and_peer_on_their_own_marks():
    figure = view.frontier_figure(ASKED, SYSTEMS, 0.05)
    names = [t.name for t in figure.data]
    runs, others = view.measured(ASKED, "gb200-nvl72"), view.peer(ASKED, "gb200-nvl72")
    assert len(runs) > 10
    assert len(others) > 10
    assert f"gb200-nvl72, {len(runs)} public runs" in names
    assert "gb200-nvl72, a peer's predictions" in names
    assert "calibration/serving.csv" in next(t for t in figure.data if t.name == "gb300-nvl72").text[0]
    assert "times gb200-nvl72" in figure.layout.title.text.replace("<br>", " ")
    assert len(view.measured(view.ask("deepseek-ai/DeepSeek-R1", 50_000, 200), "gb200-nvl72")) == 0


def test_what_cannot_be_served_says_why():
    table = view.slo_table(ASKED, SYSTEMS, 0.001)
    assert set(table["tok/s per GPU"]) == {"not available"}
    assert "cannot serve this SLO" in view.takeaway(ASKED, SYSTEMS, 0.001)
    assert "None of" in view.frontier_figure(ASKED, SYSTEMS, 0.001).layout.title.text.replace("<br>", " ")
    with pytest.raises(Infeasible, match="allowed"):
        model.point_of(view.ask("deepseek-ai/DeepSeek-R1", 8192, 1024, largest_gpus=1), "gb300-nvl72", 0.05)
    with pytest.raises(InputError, match="three"):
        view.fronts(ASKED, ["a", "b", "c", "d"])
    with pytest.raises(InputError, match="cache_hits"):
        view.ask("deepseek-ai/DeepSeek-R1", 8192, 1024, cache_hits=90)


def test_parts_of_a_step_are_all_shown():
    figure = view.step_figure(ASKED, SYSTEMS, 0.05)
    assert [t.name for t in figure.data] == list(view.STEP_PARTS)
    step = model.point_of(ASKED, "gb300-nvl72", 0.05).step
    assert set(step) == set(view.STEP_PARTS)
    assert sum(t.x[0] for t in figure.data) == pytest.approx(1e3 * sum(step.values()))


def test_pools_and_ratios():
    figure = view.pools_figure(ASKED, SYSTEMS)
    assert "two pools serve more from" in figure.layout.title.text.replace("<br>", " ")
    table = view.beside_table(ASKED, SYSTEMS)
    assert table.loc["gb300-nvl72"].iloc[0]["Median ratio"] == "not available"


def test_misses_are_said_and_counted():
    aims = errors.aims()
    text = errors.misses()
    missed = [a for a in aims if not a.met]
    assert len(aims) >= 12
    assert text.count("missed: ") == len(missed)
    assert (errors.aims_table()["Result"] == "MISSED").sum() == len(missed)
    for aim in missed:
        assert aim.what in text


def test_aims_follow_the_table(monkeypatch):
    rows = ({"what": "w", "group": "all", "rows": "3", "mean": "0.1", "median": "0.09", "p90": "", "bias": "nan",
             "target": "median 0.10, p90 0.30, no system above 0.20"},
            {"what": "near (share of rows)", "group": "all", "rows": "3", "mean": "", "median": "0.7996", "p90": "", "bias": "", "target": "0.80"},
            {"what": "w", "group": "x-hgx", "rows": "3", "mean": "0.1", "median": "0.21", "p90": "0.3", "bias": "nan", "target": ""},
            {"what": "s", "group": "all", "rows": "3", "mean": "", "median": "0.8", "p90": "", "bias": "", "target": "0.75 to 0.90"})
    monkeypatch.setattr(errors, "table", lambda name, place: rows)
    assert [(a.measure, a.met) for a in errors.aims()] == [
        ("median", True), ("p90", False), ("median of the worst system", False), ("share", False), ("share", True)]
    assert "not available against" in errors.misses()
    assert "share 79.96% against at least 80%" in errors.misses()


def test_left_out_rows_are_those_measured():
    rows = errors.left_out_rows("system")
    assert len(errors.left_out_figure("system").data) == 2 + rows.scenario.nunique()
    assert np.allclose(rows.error, rows.predicted / rows.measured - 1, atol=2e-3)
    table = errors.check_table("deepseek-r1", ["gb300-nvl72"])
    assert (table["Ratio"].astype(float) > 0).all()
    with pytest.raises(InputError):
        errors.left_out_figure("nothing")


def test_panel_runs_without_a_kernel_and_says_what_is_wrong():
    box = panel.controls()
    controls = box.children[0].children
    message = controls[-1]
    assert message.value == ""
    next(c for c in controls if c.description.startswith("Systems")).value = ("gb300-nvl72",)
    assert message.value == ""
    next(c for c in controls if c.description.startswith("Input")).value = 999_999
    assert "positions" in message.value
    next(c for c in controls if c.description.startswith("Input")).value = 32_768
    next(c for c in controls if c.description.startswith("Calls")).value = 20
    assert message.value == ""
    assert "the share found being an output" in box.children[1].value


AGENTS = view.ask("deepseek-ai/DeepSeek-R1", 32_768, 700, cache_hits=0.9, ttft_s=3.0)


def test_hits_follow_from_the_load_they_allow():
    one = rack_sessions.carried(AGENTS, "gb300-nvl72", 0.03, 40, 8.0)
    hits = sum(one.hits.values())
    assert 0.8 < hits <= one.structural + 1e-9
    assert one.prefill_tokens == pytest.approx((1 - hits) * 32_768, rel=0.02)
    along = rack_sessions.hits_along(AGENTS, "gb300-nvl72", 0.03, 40, 8.0, np.geomspace(10, 1e6, 12))
    for share in along.values():
        assert (np.diff(share) <= 1e-9).all()
    assert (along["nvme"] >= along["lpddr"] - 1e-12).all()
    assert (along["lpddr"] >= along["hbm"] - 1e-12).all()
    at = rack_sessions.hits_along(AGENTS, "gb300-nvl72", 0.03, 40, 8.0, np.array([one.live]))
    assert at["nvme"][0] == pytest.approx(hits, abs=5e-3)


def test_long_pauses_leave_hbm():
    brief, long = (rack_sessions.carried(AGENTS, "gb300-nvl72", 0.03, 40, pause) for pause in (8.0, 3600.0))
    assert long.hits["hbm"] < brief.hits["hbm"]
    assert long.live > brief.live


def test_sessions_are_shown_and_refused_in_words():
    table = agents.sessions_table(AGENTS, SYSTEMS, 0.03, 40, 8.0)
    assert "in HBM" in table.columns
    figure = agents.sessions_figure(AGENTS, SYSTEMS, 0.03, 40, 8.0)
    assert len(figure.data) == 4 * len(SYSTEMS)
    assert "Found by a full rack" in figure.layout.title.text.replace("<br>", " ")
    assert "cannot serve this" in agents.sessions_takeaway(AGENTS, SYSTEMS, 0.001, 40, 8.0)
