"""Break-even prices: hand-worked centres, the inputs that matter, claims kept apart from the plan's bounds; many draws through the plan."""

import numpy as np
import pytest

from planner import scenario
from planner.draws import sample
from planner.errors import InputError
from planner.facts.files import folder, table
from planner.models import cost
from planner.plan.case import resolve
from planner.sensitivity import plan_draws, pricing


@pytest.fixture(scope="module")
def cases():
    return resolve(scenario.load(folder("scenarios") / "rubin-vs-gb300.toml"))


def test_rent_by_claim_is_the_analyst_price_times_the_claim():
    found = pricing.break_even_price("rent", "deepseek-r1", "Offline")
    assert found.value == pytest.approx(5.00 * 2.5)
    assert found.low < found.value < found.high
    assert [b.name for b in found.bars[:2]] == ["GB300 price", "throughput ratio"]
    assert found.analyst == 8.5
    assert 0.5 < found.chance < 1


def test_a_rack_at_its_break_even_price_costs_the_same_a_token():
    given = pricing.inputs("rack", "deepseek-r1", "Server")
    x = {n: np.array([d.value]) for n, d in given.items()}
    rack = pricing.price("rack", x)[0]
    per_kw = 184 * 12 + 0.0929 * 8760 * x["PUE"][0]
    def yearly(price, kw):
        return float(cost.annuity_usd(price * 1.08, 0.10, 5)) + kw * per_kw

    gain = x["throughput ratio"][0]
    assert yearly(rack, x["Vera Rubin rack power"][0]) == pytest.approx(yearly(3e6, x["GB300 rack power"][0]) * gain, rel=1e-9)


def test_a_megawatt_is_worth_tokens_a_megawatt():
    x = {n: np.array([d.value]) for n, d in pricing.inputs("megawatt", "deepseek-r1", "Server").items()}
    assert pricing.price("megawatt", x)[0] == pytest.approx(12 * 2.5 * 135.8 / 220, rel=1e-6)


def test_up_to_is_the_high_end_and_no_central_value():
    claimed = pricing.claimed_ratio("qwen3-vl-235b-a22b")
    assert claimed.high == 3.7
    assert claimed.low <= 22 / 8
    assert claimed.value == pytest.approx(np.sqrt(claimed.low * 3.7))


def test_measured_rows_are_closed_available_whole_racks():
    median, low, high, metric = pricing.measured("deepseek-r1", "Offline")
    assert (low, high, metric) == (9182.54, 9582.79, "Tokens/s")
    assert low < median < high
    with pytest.raises(InputError, match="must be one in which"):
        pricing.measured("deepseek-r1", "Multistream")


def test_curves_rise_with_the_price_and_fall_with_nothing_else():
    for name, values in (("GB300 price", [3.0, 5.0, 7.0]), ("throughput ratio", [1.0, 2.0, 3.0]), ("load of the fleets", [0.8, 1.0, 1.2])):
        central, low, high = pricing.curve("rent", "deepseek-r1", "Server", "claim", name, values)
        assert (np.diff(central) > 0).all()
        assert (low < central).all()
        assert (central < high).all()
    with pytest.raises(InputError, match="must be one of"):
        pricing.curve("rent", "deepseek-r1", "Server", "claim", "weather", [1.0])


def test_own_values_replace_inputs():
    assert pricing.break_even_price("rent", "deepseek-r1", "Offline", GB300_price=4.0, throughput_ratio=2.0).value == pytest.approx(8.0)
    with pytest.raises(InputError, match="must be one of"):
        pricing.break_even_price("rent", "deepseek-r1", "Offline", weather=1.0)
    for args in (("lease", "deepseek-r1", "Offline"), ("rent", "gpt", "Offline"), ("rent", "deepseek-r1", "Offline", "hope")):
        with pytest.raises(InputError):
            pricing.break_even_price(*args)


def test_analyst_figures_come_from_the_latest_table():
    rows = [r for r in table("power_and_price_estimates.csv") if r["table_date"] == pricing.LATEST]
    assert pricing.analyst("own", 0) == next(float(r["usd_gpu_hr_hyperscaler_own"]) for r in rows if r["gpu"] == "vr200")
    assert pricing.analyst("rent", 1) == 5.0


def test_software_is_shared_and_hardware_is_not(cases):
    names = plan_draws.inputs_of([cases[0], cases[2]])
    assert "mtp_tokens_per_step" in names
    assert {"gb300-nvl72: hbm_bytes_per_s", "vr-nvl72 (upto, 2,300 W): hbm_bytes_per_s"} <= set(names)
    with pytest.raises(InputError, match="different systems"):
        plan_draws.compare([cases[0], cases[0]])


@pytest.mark.parametrize("place", [0, 2])
def test_sixteen_layouts_do_for_all_of_them(cases, place):
    columns = sample(plan_draws.inputs_of([cases[place]]), 200)
    few, all_of_them = (plan_draws.through_plan(cases[place], columns, n).values for n in (16, None))
    for quantity, values in few.items():
        if values is not None:
            for end in (10, 90):
                assert np.percentile(values[1:], end) == pytest.approx(np.percentile(all_of_them[quantity][1:], end), rel=0.02)


def test_the_central_draw_is_the_plan(cases):
    from planner.plan.throughput import best

    columns, found = plan_draws.compare([cases[0], cases[2]], 8)
    for case in (cases[0], cases[2]):
        assert found[case.label].values["tokens_per_s_per_gpu"][0] == pytest.approx(best(case).per_gpu[0], rel=1e-12)
        assert sum(found[case.label].wins.values()) == pytest.approx(1)
    assert found["gb300-nvl72"].values["usd_per_mtok"] is not None
    assert found["vr-nvl72 (upto, 2,300 W)"].values["usd_per_mtok"] is None
    assert len(next(iter(columns.values()))) == 9


def test_a_quantity_of_the_plan_is_a_model(cases):
    model = plan_draws.model_of(cases[2], "tokens_per_s_per_gpu")
    low, high = model({"gb300-nvl72: speed_against_model": np.array([0.8, 1.1])})
    assert low < high
    with pytest.raises(InputError, match="must be one of"):
        plan_draws.model_of(cases[2], "joy")
    with pytest.raises(InputError, match="no price"):
        plan_draws.model_of(cases[0], "usd_per_mtok")({"vr-nvl72 (upto, 2,300 W): speed_against_model": np.array([0.9])})
