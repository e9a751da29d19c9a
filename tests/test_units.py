"""units.py against an independent units library and its own range rules."""

import numpy as np
import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import units
from planner.errors import InputError

PINT = {"GB": "gigabyte", "GiB": "gibibyte", "MiB": "mebibyte", "Gb/s": "gigabit/second", "GB/s": "gigabyte/second",
        "kW": "kilowatt", "MWh": "megawatt_hour", "h": "hour", "lb": "pound", "L/min": "liter/minute", "TB": "terabyte"}
BASE = {"B": "byte", "B/s": "byte/second", "W": "watt", "J": "joule", "s": "second", "kg": "kilogram", "L/s": "liter/second"}


@pytest.mark.parametrize("unit", PINT)
def test_against_pint(unit):
    expected = pint.UnitRegistry().Quantity(3.5, PINT[unit]).to(BASE[units.base_unit(unit)]).magnitude
    assert units.to_base(3.5, unit) == pytest.approx(expected, rel=1e-12)


@given(st.sampled_from(sorted(units.UNITS)), st.floats(1e-6, 1e12))
def test_round_trip(unit, value):
    assert units.from_base(units.to_base(value, unit), unit) == pytest.approx(value, rel=1e-14)


def test_gb_and_gib_differ_by_exactly_the_binary_factor():
    assert units.convert(1.0, "GiB", "GB") == 1.073741824
    assert units.convert(183359, "MiB", "GB") == pytest.approx(192.265847, rel=1e-6)


@pytest.mark.parametrize("bad", [True, "72", None, float("nan"), float("inf"), -1, 10**400, np.array([1.0, np.nan])])
def test_positive_refuses(bad):
    with pytest.raises(InputError, match="hbm_bytes"):
        units.positive("hbm_bytes", bad)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: units.count("gpus", None), "^gpus is required"), (lambda: units.fraction("share", None), "^share is required"),
    (lambda: units.number("pue", 200.0, high=100.0), "pue must be <= 100"), (lambda: units.number("x", 5, 0, 3), "x must be 0 to 3")])
def test_a_missing_number_is_required_and_a_bound_is_said_in_words(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_percent_for_a_share_gets_a_hint():
    with pytest.raises(InputError, match=r"90 % is 0\.9"):
        units.fraction("utilisation_fraction", 90)


def test_floor_and_ceil_forgive_float_noise():
    assert units.whole_down(0.3 / 0.1) == 3
    assert units.whole_up((0.1 + 0.2) / 0.1) == 3
    assert units.whole_up(3.01) == 4


def test_case_matters():
    assert units.to_base(800, "Gb/s") == 100e9
    with pytest.raises(InputError):
        units.to_base(1, "gb/s")


@pytest.mark.parametrize(("value", "unit", "to", "expected"), [
    (80, "GB", "MiB", 76293.9453), (53_687_091_200, "B/s", "GB/s", 53.6870912), (235, "GB/s", "Gb/s", 1880), (800, "Gb/s", "GB/s", 100),
    (183_359, "MiB", "GB", 192.265847)])
def test_units_that_are_often_confused(value, unit, to, expected):
    assert units.convert(value, unit, to) == pytest.approx(expected, rel=1e-6)


def test_un05_time_of_a_cache_over_one_link():
    assert 8192 * 327_680 / units.to_base(400, "Gb/s") * 1e3 == pytest.approx(53.6870912, rel=1e-6)
