"""The views and panels of the training and storage notebooks move with their inputs, and say so where there is nothing to show."""

import pytest

from planner.errors import Infeasible
from planner.panels import checkpoints_and_storage as storage_panel
from planner.panels import training_and_goodput as training_panel
from planner.views import checkpoints_and_storage as storage
from planner.views import training_and_goodput as training
from planner.views.digest import digest

CASE = ("gb300-nvl72", "meta-llama/Llama-3.1-70B", 64, 8192, 256, "fp8")


def test_step_views_move_with_the_format():
    wide, narrow = (training.step_takeaway(*CASE[:5], precision) for precision in ("bf16", "nvfp4"))
    assert wide != narrow
    assert "causal attention" in wide
    assert "full recompute" in wide
    figure = training.step_figure(*CASE)
    assert {"linear", "attention"} <= {t.name for t in figure.data}


def test_scaling_says_where_nothing_is_left():
    kept = training.scaling_figure(*CASE, "good", 10.0, 300.0)
    stuck = training.scaling_figure(*CASE, "aegis-h100", 10.0, 900.0)
    assert "more to failures" in kept.layout.title.text.replace("<br>", " ")
    assert "no progress" in stuck.layout.title.text.replace("<br>", " ")
    assert stuck.data[2].y[-1] is None
    assert digest(kept) != digest(stuck)


def test_headline_table_says_no_progress_and_nothing_negative():
    rows = training.goodput_rows()
    assert {r["gpus"] for r in rows} == {72, 1024, 16384, 131072}
    for row in rows:
        if row["status"] == "no progress":
            assert row["goodput"] is None
        else:
            parts = [row[k] for k in ("goodput", "checkpoint_stalls", "lost_work", "restarts")]
            assert min(parts) >= 0
            assert sum(parts) == pytest.approx(1)


def test_published_runs_come_out():
    table = training.time_to_train_table()
    assert len(table) == 8
    assert all(abs(float(v.rstrip("%"))) <= 5 for v in table["Steps x measured"])
    words = training.minutes_only()
    assert "T392" in words
    assert "assumed" in words
    assert len(training.left_out_table()) == 4


def test_slow_units_and_screening():
    few, many = training.causes_table(72), training.causes_table(4096)
    assert float(few.loc["all together", "Cost alone"].rstrip("%")) < float(many.loc["all together", "Cost alone"].rstrip("%"))
    hidden, shown = (training.screening_table(14, 0.02, 1.1, load).iloc[0]["Escapes"] for load in (True, False))
    assert float(hidden.rstrip("%")) > 90 > float(shown.rstrip("%"))
    assert training.screening_table(14, 0.02, 1.1, True)["Racks to buy"].is_monotonic_increasing


def test_storage_views():
    assert "5.67 TB" in storage.state_figure(405e9).layout.title.text.replace("<br>", " ")
    regions = storage.region_table(405e9, "adam_bf16_fp32", 600, 100, 60, 30)
    assert "never catches up" in set(regions["Lag"])
    assert "89.3%" in storage.cache_figure(1, 50, 8).layout.title.text
    assert "even all hits" in storage.cache_figure(10, 50, 8).layout.title.text
    table = storage.break_even_table("CoreWeave Archive", ["Nebius Object Standard", "Glacier Deep Archive (standard)"])
    assert "not published" in table.iloc[0, 0]
    assert "above 9.7%" in table.iloc[1, 0]
    assert (storage.check_table()["Ratio"].astype(float) - 1).abs().max() < 0.02
    with pytest.raises(Infeasible, match="no progress"):
        storage.interval_figure(131072, "aegis-h100", 10, 0, 600)


@pytest.mark.parametrize("panel", [training_panel, storage_panel])
def test_panels_run_without_a_kernel_and_keep_the_last_plot(panel):
    box = panel.controls()
    controls = box.children[0].children
    population = next(c for c in controls if getattr(c, "description", "") == "Failures as in")
    gpus = next(c for c in controls if getattr(c, "description", "").startswith("GPUs"))
    message = controls[-1]
    assert message.value == ""
    population.value = "aegis-h100"
    gpus.value = gpus.options[-1][1] if isinstance(gpus.options[-1], tuple) else gpus.options[-1]
    assert population.value == "aegis-h100"


def test_misses_are_printed_with_their_aims():
    pairs, rows = training.pairs_table(), training.error_rows()
    assert set(pairs["Within 3 %"]) == {"yes", "missed"}
    assert sum(r["met"] == "missed" for r in rows) == (pairs["Within 3 %"] == "missed").sum()
    assert all(r["met"] == "yes" for r in rows if r["quantity"].startswith("dense") and r["aim"])
    assert "largest 24% (C058)" in training.rl_errors()
    assert "148 is 35.3%, printed 30.1%" in training.interruption_shares()
