"""The ten-fold claim on both curves: the knee, causes that multiply to the ratio, and points that make it hold."""

import numpy as np
import pytest

from planner.errors import Infeasible
from planner.sensitivity import headline


def test_the_ratio_grows_with_per_user_speed():
    speeds = [20.0, 100.0]
    new, old = (headline.curve(*place, speeds, num=16)[0] for place in (headline.NEW, headline.OLD))
    assert (new >= old * 0.9).all()
    assert new[1] / old[1] > new[0] / old[0]
    assert (np.diff(new) <= 0).all()


def test_causes_multiply_to_the_ratio():
    found = headline.shares(100.0)
    ratio = np.divide(*(headline.curve(*place, [100.0], num=2)[0][0] for place in (headline.NEW, headline.OLD)))
    assert np.prod(list(found.values())) == pytest.approx(ratio, rel=1e-9)
    assert found["software"] == pytest.approx(1.0)  # both sides run multi-token prediction
    assert found[headline.CAUSES[1]] == pytest.approx(headline.kw_per_gpu(*headline.OLD) / headline.kw_per_gpu(*headline.NEW))


def test_the_lower_setting_moves_the_power_factor_alone_and_the_bandwidth_with_it():
    high, low = headline.shares(100.0), headline.shares(100.0, new=("vr-nvl72", "maxlps"))
    place = ("vr-nvl72", "maxlps")
    assert low[headline.CAUSES[1]] == pytest.approx(headline.kw_per_gpu(*headline.OLD) / headline.kw_per_gpu(*place))
    assert low[headline.CAUSES[1]] > high[headline.CAUSES[1]]
    assert low["hardware"] <= high["hardware"] * (1 + 1e-9)


def test_points_at_which_a_smaller_claim_holds():
    today = headline.ratio_model()({n: np.array([d.value]) for n, d in headline.inputs().items()})[0]
    found = headline.what_ten_fold_needs(0.9 * today, num=32)
    assert found.distance == 0
    assert found.central == pytest.approx(today)
    more = headline.what_ten_fold_needs(1.02 * today, num=64)
    assert more.reached >= 1.02 * today
    assert more.distance > 0


def test_a_speed_that_nothing_reaches():
    with pytest.raises(Infeasible, match="cannot reach"):
        headline.shares(2000.0)


def test_claimed_levels_are_ten_to_one():
    new, old = headline.claimed_levels()
    assert new / old == pytest.approx(10)
