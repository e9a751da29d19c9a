"""Cost questions: handed cases and hand calculations to the cent, missing prices, one currency, identities."""

import pytest
from test_power_questions import rows

from planner.errors import Infeasible, InputError
from planner.questions import all_questions, check

ASK = all_questions()


@pytest.mark.parametrize("case", list(rows("cost")))
def test_handed_and_hand_worked_values(case):
    outcome = check.run(case)
    assert outcome.status == "ok", outcome


@pytest.mark.parametrize(("question", "inputs", "words"), [
    ("usd_per_mtok", {"usd_gpu_h": 3.0, "tps": 1000, "utilisation": 70}, "a share, not a percent"),
    ("usd_per_mtok", {"usd_gpu_h": 3.0, "tps": 1000, "utilisation": 0}, "must be > 0"),
    ("usd_per_mtok", {"usd_gpu_h": -3.0, "tps": 1000}, "must be > 0"),
    ("usd_per_mtok", {"usd_gpu_h": 0, "tps": 1000}, "must be > 0"),
    ("usd_per_mtok", {"usd_gpu_h": "$3", "tps": 1000}, "currency is not typed"),
    ("usd_per_mtok", {"usd_gpu_h": "3,00", "tps": 1000}, "currency is not typed"),
    ("usd_per_mtok", {"usd_gpu_h": {"value": 3, "currency": "EUR"}, "tps": 1000}, "must be USD"),
    ("usd_per_mtok", {"usd_gpu_h": 3, "tps": 1000, "currency": "JPY"}, "must be USD"),
    ("usd_per_mtok", {"usd_gpu_h": 3, "usd_per_hour": 24, "tps": 1000}, "second time"),
    ("usd_per_mtok", {"usd_gpu_h": 3}, "give the throughput once"),
    ("usd_per_mtok", {"usd_gpu_h": 3, "tps": 0}, "must be > 0"),
    ("usd_per_mtok", {"kw": 2, "tps": 53}, "usd_per_kwh is required"),
    ("usd_per_mtok", {"kw": 2, "tps": 53, "usd_kwh": 0.1, "pue": 0.8}, "must be 1 to 100"),
    ("annuity", {"capital": 1e6, "rate": 8, "years": 5}, "a share, not a percent"),
    ("annuity", {"capital": -1, "rate": 0.08, "years": 5}, "must be >= 0"),
    ("annuity", {"capital": 1e6, "rate": 0.08, "years": 0}, "must be > 0"),
    ("annuity", {"capital": 1e6, "rate": 0.08, "years": 5, "residual_usd": 2e6}, "at most the capital"),
    ("annuity", {"capital": {"value": 1e6, "currency": "EUR"}, "rate": 0.08, "years": 5}, "must be USD"),
    ("break_even_gpu_hour", {"own": {"tps": 2500, "tps_user": 20}, "other": {"tps": 1000, "price": 5.0, "tps_user": 100}}, "equal SLO"),
    ("break_even_gpu_hour", {"own": {"tps": 2500, "speed": 3}, "other": {"tps": 1000, "price": 5.0}}, "own.speed"),
    ("break_even_gpu_hour", {"own": {"tps": 2500}, "other": {"tps": 1000, "price": 5.0, "currency": "EUR"}}, "must be USD"),
    ("break_even_gpu_hour", {"own": {"tps": 2500}, "other": {"tps": 1000, "price": 5.0}, "power_included": False}, "required for both"),
    ("tokens_usd", {"input": 10, "cached": 11, "p_in": 1, "p_cached": 1}, "at most the input"),
    ("tokens_usd", {"input": 10, "output": 5, "p_in": 1}, "not available, and not 0"),
    ("npv", {"cash_flow": [], "rate": 0.1}, "must be a list"),
    ("npv", {"cash_flow": [1, "2"], "rate": 0.1}, "a number"),
])
def test_refusals(question, inputs, words):
    with pytest.raises(InputError, match=words):
        ASK[question].ask(inputs)


@pytest.mark.parametrize(("question", "inputs"), [
    ("usd_per_mtok", {"tps": 1000}), ("usd_per_mtok", {"usd_gpu_h": {"value": None, "currency": "USD"}, "tps": 1000}),
    ("break_even_gpu_hour", {"own": {"tps": 2500}, "other": {"tps": 1000}}), ("rent_usd", {"gpus": 8, "hours": 720})])
def test_a_missing_price_is_not_available_and_not_zero(question, inputs):
    answer = ASK[question].ask(inputs)
    assert answer.value is None
    assert "not 0" in answer.note


def test_break_even_brings_both_to_the_same_cost_a_token():
    own, other = {"tps": 2300.0, "utilisation": 0.55}, {"tps": 910.0, "utilisation": 0.7}
    price = ASK["break_even_gpu_hour"].ask({"own": own, "other": {**other, "price": 4.4}}).value
    costs = [ASK["usd_per_mtok"].ask({"usd_gpu_h": p, **s}).value for p, s in ((price, own), (4.4, other))]
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)


def test_the_side_without_a_price_is_sought_whichever_name_it_has():
    sides = {"tps": 1000, "price": 5.0}, {"tps": 2500}
    assert ASK["break_even_gpu_hour"].ask({"a": sides[0], "b": sides[1]}).value == 12.5
    assert ASK["break_even_gpu_hour"].ask({"a": sides[1], "b": sides[0]}).value == 12.5


def test_no_price_can_do_it():
    with pytest.raises(Infeasible, match="even at 0 USD/h"):
        ASK["break_even_gpu_hour"].ask({"own": {"tps": 1, "extra_usd_per_hour": 9}, "other": {"tps": 1000, "price": 5.0}})


def test_electricity_at_the_meter_pays_no_pue():
    place = {"tps": 1000, "kw": 2, "usd_kwh": 0.1, "pue": 1.5}
    it, meter = (ASK["usd_per_mtok"].ask({**place, "boundary": b}).value for b in ("it", "facility"))
    assert it == pytest.approx(1.5 * meter)


def test_units_of_a_payment():
    case = check.Case("a", "annuity", {"capital": 1e5, "rate": 0.05, "years": 10}, 12950.46, "USD", 1e-6)
    assert check.run(case).status == "ok"
    assert check.run(check.Case("a", "usd_per_mtok", {"usd_gpu_h": 3, "tps": 1000}, 0.8333333, "USD/tok", 1e-6)).status == "miss"
