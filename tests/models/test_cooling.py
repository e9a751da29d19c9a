"""Coolant and climate equations: balances, inverses and counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibration import cooling as coolants
from planner.errors import InputError
from planner.models import cooling


@settings(max_examples=40, deadline=None)
@given(st.floats(1e3, 1e6), st.floats(2, 30), st.floats(10, 60))
def test_flow_and_outlet_are_inverses(heat, rise, inlet):
    heat_capacity, density = coolants.properties("pg25", inlet)
    flow = cooling.coolant_litres_per_s(heat, rise, heat_capacity, density)
    assert cooling.outlet_celsius(inlet, heat, flow, heat_capacity, density) == pytest.approx(inlet + rise, rel=1e-9)


def test_water_carries_more_than_pg25():
    assert coolants.properties("water", 40)[0] > coolants.properties("pg25", 40)[0]
    assert coolants.properties("PG25", 45) == pytest.approx((3970, 1.0116))
    assert coolants.properties("pg25", 35)[1] == pytest.approx((1.0192 + 1.0143) / 2)


def test_heat_splits_and_sums():
    parts = cooling.heat_split_watts(np.array([1e5, 2e5]), 0.94)
    assert sum(parts.values()) == pytest.approx([1e5, 2e5])


def test_pumps_take_about_one_percent():
    flow = 190 * 1.5 / 60
    value, low, high = coolants.pump_watts(flow)
    assert low < value < high
    assert value / 190e3 < 0.02


def test_chiller_free_counts_hours():
    air = np.arange(24.0)
    assert cooling.chiller_free_fraction(air, 23.0, 12.0) == pytest.approx(12 / 24)
    assert list(cooling.chiller_free_fraction(air, np.array([11.0, 100 / 2]), 12.0)) == [0.0, 1.0]


def test_a_climate_has_the_moments_it_was_given():
    air = cooling.outdoor_celsius(10.0, 8.0, 4.0, 3.0)
    assert len(air) == 8760
    assert air.mean() == pytest.approx(10, abs=0.05)
    assert air.std() == pytest.approx(np.sqrt(8**2 / 2 + 4**2 / 2 + 3**2), rel=0.02)
    assert (air == cooling.outdoor_celsius(10.0, 8.0, 4.0, 3.0)).all()


def test_a_users_hours(tmp_path):
    file = tmp_path / "hours.csv"
    file.write_text("hour,celsius\n" + "\n".join(f"{h},{h}" for h in range(24)) + "\n")
    assert cooling.chiller_free_fraction(coolants.hours_of(file), 23.0, 12.0) == 0.5
    for text, words in (("celsius\n1\n", "at least 24"), ("celsius\n" + "warm\n" * 24, "line 2, celsius"), ("celsius\n" + "99\n" * 24, "line 2")):
        file.write_text(text)
        with pytest.raises(InputError, match=words):
            coolants.hours_of(file)
    with pytest.raises(InputError, match="readable"):
        coolants.hours_of(tmp_path / "absent.csv")


def test_refusals():
    for call, words in ((lambda: cooling.coolant_litres_per_s(1e5, 0.0, 4e3, 1.0), "rise_kelvin"), (lambda: coolants.properties("oil", 40), "fluid"),
                        (lambda: cooling.chiller_free_fraction(np.full(30, 99.0), 45, 5), "outdoor_celsius")):
        with pytest.raises(InputError, match=words):
            call()
