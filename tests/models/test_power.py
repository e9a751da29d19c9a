"""Power equations against hand sums, their inverses and their limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibration import power as calibrated
from planner.calibration import table
from planner.errors import Infeasible, InputError
from planner.facts import catalog
from planner.models import power

share = st.floats(0, 1)
watts = st.floats(1, 1e7)


def test_pw04_trays_switches_and_shelves():
    """Handed case PW04: 18 trays of 6.5 kW, 3.6 kW of switches and 0.8 kW lost in shelves are 121.4 kW."""
    parts = power.rack_parts_watts({"trays": 18 * 6500.0, "switches": 3600.0}, 121_400.0, 1 - 800 / 121_400)
    assert sum(parts.values()) == pytest.approx(121_400, rel=1e-12)
    assert parts["conversion"] == pytest.approx(800)
    assert parts["rest (regulators, fans, pumps, management)"] == pytest.approx(0, abs=1e-6)


def test_pw07_a_switch_is_planned_with_its_maximum():
    """Handed case PW07: two supplies of 650 W, 537 W at most, 210 W typical."""
    assert power.budget_watts(2 * 650, 537, 210, "max") == 537
    assert power.budget_watts(2 * 650, 537, 210, "typical") == 210
    for args, words in (((1300, 537, 210, "supply"), "rating of the supplies"), ((500, 537, 210, "max"), "max_watts must be at most 500"),
                        ((1300, 210, 537, "max"), "typical_watts")):
        with pytest.raises(InputError, match=words):
            power.budget_watts(*args)


def test_pw09_systems():
    """Handed case PW09: 32 systems of 14.3 kW."""
    assert power.pool_watts(32, 32, 14_300.0, 0.0) == pytest.approx(457_600, rel=1e-12)


def test_parts_larger_than_the_rack_are_refused():
    with pytest.raises(InputError, match="must hold its named parts"):
        power.rack_parts_watts({"GPUs": 100.0}, 90.0, 1.0)


@settings(max_examples=40, deadline=None)
@given(watts, share, share)
def test_gpu_power_lies_between_idle_and_the_limit(setting, load, idle):
    found = power.gpu_watts(setting, load, idle)
    assert setting * idle * (1 - 1e-12) <= found <= setting * (1 + 1e-12)
    assert found == power.gpu_watts(np.array([setting]), load, idle)[0]


@settings(max_examples=40, deadline=None)
@given(watts, watts, st.floats(0, 0.9), st.floats(0.5, 1))
def test_node_parts_sum_and_give_back_the_fans(gpus, host, fans, supply):
    parts = power.node_parts_watts(gpus, host, fans, supply)
    wall = sum(parts.values())
    assert wall * supply * (1 - fans) == pytest.approx(gpus + host, rel=1e-9)
    assert power.fan_fraction_from_wall(wall, gpus, host, supply) == pytest.approx(fans, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(watts, st.floats(1, 3))
def test_pue_is_applied_once_and_taken_off_once(it, pue):
    facility = power.facility_watts(it, pue)
    assert power.it_watts(facility, pue) == pytest.approx(it, rel=1e-12)
    assert power.facility_watts(facility, pue, "facility") == facility
    assert power.pue_ratio(facility, it) == pytest.approx(pue, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 500), st.integers(1, 9), st.integers(0, 8))
def test_racks_that_fit_and_not_one_more(racks, feeds, down):
    if down >= feeds:
        with pytest.raises(InputError):
            power.racks_that_fit(1e6, 1e3, 1.0, feeds, down)
        return
    site = racks * 123e3 * 1.3 * feeds / (feeds - down)
    assert power.racks_that_fit(site, 123e3, 1.3, feeds, down) == racks
    assert power.racks_that_fit(site * 0.9999, 123e3, 1.3, feeds, down) == racks - 1 if racks > 1 else True


def test_a_site_below_one_rack_says_what_it_would_need():
    with pytest.raises(Infeasible, match=r"one rack needs 162\.0 kW .* a site of 324\.0 kW"):
        power.racks_that_fit(200e3, 135e3, 1.2, 2, 1)


def test_caps():
    exponent = table.constant("power", "cap_exponent").value
    idle = calibrated.idle_fraction().value
    curve = power.capped_throughput_fraction(np.linspace(300, 1400, 50), 1400.0, idle, exponent)
    assert (np.diff(curve) > 0).all()
    assert curve[-1] == pytest.approx(1)
    assert power.capped_throughput_fraction(1000.0, 1400.0, idle, exponent) == pytest.approx((10233.8 / 12191.9 + 9544.94 / 11659.0) / 2, rel=0.02)
    for cap, words in ((1500.0, "at most the setting"), (100.0, "above idle")):
        with pytest.raises(InputError, match=words):
            power.capped_throughput_fraction(cap, 1400.0, idle, exponent)


def test_lower_caps_give_more_tokens_a_joule_until_idle_weighs():
    cap = np.linspace(300, 1400, 200)
    per_joule = power.capped_throughput_fraction(cap, 1400.0, 0.11, 0.48) / (cap + 400)
    assert 300 < cap[per_joule.argmax()] < 1400


def test_refusals_name_the_field():
    for call, words in ((lambda: power.gpu_watts(-1, 0.5, 0.1), "setting_watts"), (lambda: power.gpu_watts(700, 90, 0.1), "a share, not a percent"),
                        (lambda: power.node_parts_watts(1, 1, 1.0, 0.9), "fan_fraction"), (lambda: power.facility_watts(1, 1.2, "rack"), "basis"),
                        (lambda: power.facility_watts(1, float("nan")), "pue"), (lambda: power.tokens_per_joule(1, 0), "watts")):
        with pytest.raises(InputError, match=words):
            call()


def test_constants_are_what_the_fit_gives():
    assert table.text(calibrated.fit()) == (table.folder("data") / "calibration" / "power.csv").read_text()


def test_every_system_with_power_has_parts_that_sum():
    seen = 0
    for name in catalog.system_names():
        for profile in catalog.profiles(name):
            rack = catalog.system(name, profile)
            if rack.overhead_watts is None or rack.accelerator.gpu_watts is None:
                continue
            seen += 1
            total = sum(v[0] for v in calibrated.rack_watts(rack, calibrated.load_fraction("provisioned"), draws=4).values())
            assert sum(calibrated.rack_parts(rack).values()) == pytest.approx(total, rel=1e-12)
    assert seen >= 10
