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


@pytest.mark.parametrize(("question", "inputs", "value"), [
    ("usd_per_mtok", {"usd_per_rack_hour": 216, "tps": 72000}, 216 / 72000 / 3600 * 1e6),
    ("usd_per_mtok", {"usd_per_rack_hour": 216, "gpus_per_rack": 8, "tps_per_gpu": 1000}, 27 / 1000 / 3600 * 1e6),
    ("usd_per_mtok", {"usd_per_hour": 100, "gpus": 72, "tps": 72000}, 100 / 72000 / 3600 * 1e6),
    ("usd_per_mtok", {"usd_per_hour": 72, "gpus": 72, "tps_per_gpu": 1000}, 1 / 1000 / 3600 * 1e6),
    ("usd_per_mtok", {"usd_gpu_h": {"value": 2190, "unit": "USD/month"}, "tps": 1000}, 3 / 3.6),
    ("usd_per_mtok", {"usd_gpu_h": {"value": 3, "unit": "USD/GPU-hour"}, "tps": 1000}, 3 / 3.6),
    ("break_even_gpu_hour", {"own": {"tps_per_gpu": 1000}, "other": {"price": 3, "tps_per_gpu": 500}, "utilisation": 0.7,
                             "other_utilisation": 0.35}, 12.0),
    ("break_even_gpu_hour", {"own": {"tps": 1000}, "other": {"tps": 500}, "other_usd_per_gpu_hour": 3}, 6.0),
    ("break_even_gpu_hour", {"own": {"samples_per_s": 4}, "other": {"price": 3, "samples_per_s": 2}}, 6.0),
    ("break_even_gpu_hour", {"own": {"tokens_per_s_per_mw": 2e6}, "other": {"usd_per_mw_hour": 1500, "tokens_per_s_per_mw": 1e6}}, 3000.0),
    ("tokens_usd", {"input": 1e6, "p_in": {"value": 3, "unit": "USD/Mtok"}}, 3.0),
    ("rent_usd", {"price": 3, "hours": 1, "used": 0.35, "basis": "used"}, 1.05)])
def test_a_rate_is_of_what_the_price_is_of(question, inputs, value):
    assert ASK[question].ask(inputs).value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("own", "other", "unit"), [
    ("tps", "usd_per_rack_hour", "USD/rack-h"), ("tokens_per_s_per_mw", "usd_per_mw_hour", "USD/MW-h"),
    ("tps_per_gpu", "price", "USD/GPU-h"), ("tokens_per_s", "usd_per_hour", "USD/h")])
def test_the_unit_of_a_break_even_price_follows_the_price(own, other, unit):
    inputs = {"own": {own: 2}, "other": {own: 1, other: 5}}
    assert ASK["break_even_gpu_hour"].ask(inputs).unit == unit
    for asked in {"USD/GPU-h", "USD/rack-h", "USD/MW-h"} - {unit}:
        assert check.run(check.Case("a", "break_even_gpu_hour", inputs, 10.0, asked, 0.0)).status == ("ok" if unit == "USD/h" != asked != "USD/MW-h"
                                                                                                   else "refused")


OTHER = {"price": 3, "tps_per_gpu": 500}


@pytest.mark.parametrize(("question", "inputs", "words"), [
    ("usd_per_mtok", {"usd_gpu_h": 3, "gpus": 72, "tps": 72000}, "must say what it is of"),
    ("usd_per_mtok", {"usd_gpu_h": 3, "tokens_per_s_per_gpu": 3, "tps": 72000}, "a second time"),
    ("usd_per_mtok", {"usd_per_rack_hour": 216, "gpus": 144, "tps": 72000}, "must say what it is of"),
    ("tokens_usd", {"input": 1, "p_in": {"value": 3, "unit": "USD/h"}}, "usd_per_mtok_input.unit"),
    ("usd_per_mtok", {"usd_gpu_h": {"value": 2200, "unit": "USD/GPU-month"}, "tps": 1000}, "usd_per_gpu_hour.unit"),
    ("usd_per_mtok", {"usd_gpu_h": {"value": 216, "unit": "USD/rack-h"}, "tps": 1000}, "usd_per_gpu_hour.unit"),
    ("usd_per_mtok", {"usd_gpu_h": {"value": 300, "currency": "USD cents"}, "tps": 1000}, "must be USD"),
    ("annuity", {"capital": {"value": 1, "unit": "USD/h"}, "rate": 0.1, "years": 1}, "capital_usd.unit"),
    ("break_even_gpu_hour", {"own": {"tps_per_gpu": 1000}, "other": {"price": 3, "tokens_per_s_per_mw": 1e6}}, "rates of one unit"),
    ("break_even_gpu_hour", {"own": {"samples_per_s": 4}, "other": OTHER}, "rates of one unit"),
    ("break_even_gpu_hour", {"own": {"tokens_per_s_per_mw": 4}, "other": {"price": 3, "tokens_per_s_per_mw": 2}}, "of what the price is of"),
    ("break_even_gpu_hour", {"own": {"tps_per_gpu": 4}, "other": {"usd_per_rack_hour": 216, "tps_per_gpu": 2}}, "of what the price is of"),
    ("break_even_gpu_hour", {"own": {"tps": 4, "utilisation": 0.5}, "other": OTHER}, "for both systems, or for neither"),
    ("break_even_gpu_hour", {"own": {"tps": 4}, "other": OTHER, "speedup": 2}, "a second time"),
    ("break_even_gpu_hour", {"own": {"tps": 4, "slo": {"tpot_s": 0.02}}, "other": {**OTHER, "slo": {"tpot_s": 0.1}}}, "equal SLO"),
    ("break_even_gpu_hour", {"own": {"tps": 4, "usd_per_rack_hour": 9}, "other": OTHER}, "it is sought"),
    ("npv", {"cash_flow": [1], "rate": 8}, "a share, not a percent"),
    ("rent_usd", {"price": 3, "hours": 1, "basis": "idle"}, "used_fraction is required"),
    ("rent_usd", {"price": 3, "hours": 1, "basis": "allocation", "used": 0.3}, "bills every hour"),
    ("gpu_hour_usd", {"capex": 0, "years": 3, "quantity": "electricity_share"}, "no share of nothing")])
def test_what_contradicts_or_would_be_ignored_is_refused(question, inputs, words):
    with pytest.raises(InputError, match=words):
        ASK[question].ask(inputs)


@pytest.mark.parametrize(("question", "inputs"), [
    ("usd_per_mtok", {"usd_gpu_h": 3, "tps": 1000, "kw": 2, "usd_per_kwh": {"value": None}}),
    ("usd_per_mtok", {"kw": 2, "tps": 1000, "usd_per_kwh": None}),
    ("usd_per_mtok", {"kw": 2, "tps": 1000, "usd_per_kwh": 0.1, "usd_gpu_h": None}),
    ("gpu_hour_usd", {"capital": 3e4, "years": 3, "running_usd_per_year": None}),
    ("gpu_hour_usd", {"capital": {"value": None}, "years": 3}), ("annuity", {"capital": {"value": None}, "rate": 0.1, "years": 3}),
    ("break_even_gpu_hour", {"own": {"tps": 1, "kw": 1}, "other": {"tps": 1, "price": 3, "kw": 1}, "usd_kwh": {"value": None},
                             "power_included": False})])
def test_a_price_without_a_value_is_not_available(question, inputs):
    answer = ASK[question].ask(inputs)
    assert answer.value is None
    assert "not 0" in answer.note
