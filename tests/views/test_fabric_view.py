"""What the fabric notebook says of itself: the measured effort is linear and within its limits."""

import numpy as np
import pytest

from planner.facts.files import table
from planner.models.fabric.design import design
from planner.views import fabric as view
from planner.views import nvlink_and_roce


def test_measured_effort_is_linear_and_counts_are_the_designs():
    rows = table("fabric_scaling.csv")
    gpus, seconds, peak = (np.array([float(r[n]) for r in rows]) for n in ("gpus", "seconds", "peak_bytes"))
    for row in rows:
        assert int(row["cables"]) == design(int(row["gpus"]), 8, 512, planes=8, tiers=2).counts["links"]
    assert gpus[-1] == 131072
    assert seconds[-1] < 20
    assert peak[-1] < 2e9
    assert 0.8 < np.polyfit(np.log(gpus[-5:]), np.log(seconds[-5:]), 1)[0] < 1.15
    assert "time grows as GPUs to the" in view.effort_figure().layout.title.text.replace("<br>", " ")


def test_every_operation_says_whether_it_was_measured():
    rows = nvlink_and_roce.operations_table("gb200-nvl72", 2.0**32)
    assert len(rows) == 18
    assert (rows["Low"] <= rows["GB/s"]).all()
    assert (rows[rows["GPUs"] > 144]["Not validated"] == "past 144 ranks").all()
    assert (rows.loc["all reduce"]["How"].tolist()) == ["modelled", "modelled", "extrapolated"]


@pytest.mark.parametrize("words", ["two halves", "non-blocking"])
def test_the_design_in_words(words):
    assert words in view.design_takeaway("vr-nvl72/upto", 16, "4x200G", 4)
