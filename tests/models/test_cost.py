"""Money equations: annuities against a walked loan, identities, parts that sum, prices that are missing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import Infeasible, InputError
from planner.models import cost

money = st.floats(1, 1e9)
rate = st.floats(0, 0.5)


@settings(max_examples=50, deadline=None)
@given(money, rate, st.integers(1, 40), st.floats(0, 1))
def test_an_annuity_pays_a_loan_down_to_its_residual(capital, rate, periods, left):
    payment = cost.annuity_usd(capital, rate, periods, left * capital)
    debt = capital
    for _ in range(periods):
        debt = debt * (1 + rate) - payment
    assert debt == pytest.approx(left * capital, abs=1e-6 * capital * (1 + rate) ** periods)


def test_small_rates_run_into_the_straight_line():
    assert cost.annuity_usd(1e6, 1e-12, 60) == pytest.approx(1e6 / 60, rel=1e-9)
    assert cost.annuity_usd(1e6, 0.0, 60, 1e5) == pytest.approx(9e5 / 60)
    assert cost.straight_line_usd(1e6, 5, 1e5) == 180_000


def test_scalars_and_arrays_go_through_the_same_lines():
    table = cost.annuity_usd(np.array([1.0, 2.0])[:, None], np.array([0.0, 0.05, 0.1]), 12)
    assert table.shape == (2, 3)
    assert table[1, 2] == cost.annuity_usd(2.0, 0.1, 12)


def test_an_annuity_has_the_present_value_of_its_capital():
    flow = cost.ownership_cash_flow_usd(1e6, 0.0, 120)
    flow[1:] += cost.annuity_usd(1e6, 1.08 ** (1 / 12) - 1, 120)
    assert cost.npv_usd(flow, 0.08) == pytest.approx(0, abs=0.005)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.1, 100), st.floats(1, 1e5), st.floats(0.01, 1))
def test_identity_of_cost_a_token(price, rate, used):
    assert cost.usd_per_million_tokens(price, rate, used) * 3600 * rate * used / 1e6 == pytest.approx(price, rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 100), st.floats(1, 1e6), st.floats(0, 1e6), st.floats(1, 1e6), share := st.floats(0, 1), share)
def test_split_prices_bring_in_what_is_spent(price, fresh, cached, out, prefill, k):
    parts = cost.split_usd_per_million(price, fresh, cached, out, prefill, k)
    assert (parts["input"] * fresh + parts["cached_input"] * cached + parts["output"] * out) / 1e6 == pytest.approx(price, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.floats(1, 50), st.floats(1, 1e5), st.floats(1, 1e5), st.floats(0.1, 1), st.floats(0.1, 1))
def test_break_even_is_equal_cost(price, own, other, used, other_used):
    found = cost.break_even_usd_per_hour(price, 0.0, own, other, used, other_used)
    assert cost.usd_per_million_tokens(found, own, used) == pytest.approx(cost.usd_per_million_tokens(price, other, other_used), rel=1e-9)


def test_break_even_rack_price_is_the_inverse_of_owning():
    price = cost.break_even_rack_usd(5.0, 72, 0.08, 5, 250_000.0, residual_fraction=0.1)
    parts = cost.owned_usd_per_year({"rack": price}, {"running": 250_000.0}, 0.08, 5, 0.1)
    assert sum(parts.values()) == pytest.approx(5.0 * 72 * 8760, rel=1e-12)
    with pytest.raises(Infeasible, match="exceed the rent"):
        cost.break_even_rack_usd(0.1, 72, 0.08, 5, 250_000.0)


def test_owned_parts():
    parts = cost.owned_usd_per_year({"racks": 1e6, "building": 1e6}, {"staff": 1e5}, 0.0, {"racks": 5, "building": 40})
    assert parts == {"racks": 200_000.0, "building": 25_000.0, "staff": 100_000.0}
    for capital, words in (({"racks": None}, "not available"), ({"staff": 1.0}, "capital and under yearly"), ({"racks": -1.0}, "racks must be >= 0")):
        with pytest.raises(InputError, match=words):
            cost.owned_usd_per_year(capital, {"staff": 1e5}, 0.0, 5)
    with pytest.raises(InputError, match="how long this part lasts"):
        cost.owned_usd_per_year({"racks": 1.0}, {}, 0.0, {"building": 4})


def test_whole_racks_are_billed():
    assert cost.rent_usd(73, 1.0, 1, 72) == 144
    assert cost.rent_usd(72, 1.0, 1, 72) == 72


def test_cs07_input_tokens_are_not_the_total():
    """Handed case CS07: 2,500 alerts a day of 3,000 tokens in and 500 out."""
    found = cost.tokens_by_direction(2500, 3000, 500)
    assert found == {"input": 7_500_000, "output": 1_250_000, "total": 8_750_000}
    with pytest.raises(InputError, match="requests"):
        cost.tokens_by_direction(-1, 1, 1)


def test_cs12_both_bases():
    """Handed case CS12: a 3 USD hour used 35 %: 1.05 used, 1.95 idle."""
    parts = cost.allocation_usd(3.0, 0.35)
    assert parts == pytest.approx({"used": 1.05, "idle": 1.95})


def test_cs11_share_of_electricity():
    power = cost.energy_usd(500.0, 8760, 1.0, 0.10)
    assert power / (power + cost.straight_line_usd(30_000, 3)) == pytest.approx(0.0419620617, rel=1e-4)
