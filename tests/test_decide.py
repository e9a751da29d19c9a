"""The whole answer: growth that starts at the plan, orders a lead time ahead, and drivers that the plan itself confirms."""

import datetime
import json

import numpy as np
import pytest

from planner import scenario
from planner.batch import _numbers
from planner.decide import decide
from planner.facts.files import folder
from planner.plan import plan
from planner.timeline.growth import month_after
from planner.views import decision as view

TEXT = (folder("scenarios") / "rubin-vs-gb300.toml").read_text()
TWO = (folder("scenarios") / "two-models-one-fleet.toml").read_text()
WHOLE = decide(scenario.loads(TEXT))


def decided(*changes, text=TEXT):
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return decide(scenario.loads(text))


@pytest.mark.parametrize("option", WHOLE.options, ids=lambda o: o.system)
def test_month_zero_is_the_plan_and_racks_follow_the_load(option):
    grown, racks = option.growth, option.answers["racks_total"]
    assert (grown.racks[0], grown.racks_low[0], grown.racks_high[0]) == (racks.value, racks.low, racks.high)
    assert grown.facility_mw[0] == pytest.approx(option.value("facility_power"), rel=1e-12)
    load = 200 * 1024 * 1.5 * 1.08 ** np.arange(24)
    assert option.value("peak_tokens_per_s") == pytest.approx(load[0])
    serving = np.ceil(load / option.value("tokens_per_s_per_rack") - 1e-9)
    assert list(grown.racks) == (serving + option.value("racks_spare") + option.value("racks_survival")).tolist()


@pytest.mark.parametrize("option", WHOLE.options, ids=lambda o: o.system)
def test_orders_bring_the_racks_in_time(option):
    grown = option.growth
    assert grown.first_served == grown.orders[0].serves_from == grown.months[6] == "2027-05"
    assert grown.orders[0].order_by == "2026-11"
    for i, month in enumerate(grown.months):
        serving = sum(o.racks for o in grown.orders if o.serves_from <= month)
        assert serving == (grown.racks[i] if i >= 6 else 0)
    assert all(o.serves_from == grown.months[grown.months.index(o.order_by) + 6] for o in grown.orders)


def test_the_site_is_full_in_the_month_that_needs_more():
    gb300 = WHOLE.options[2]
    first = next(i for i, n in enumerate(gb300.growth.racks) if n > gb300.value("racks_that_fit"))
    assert gb300.growth.site_full == gb300.growth.months[first]
    assert WHOLE.options[0].growth.site_full == ""
    assert decided(("facility_watts = 10e6\n", "")).options[2].growth.site_full == ""


@pytest.mark.parametrize(("months", "growth", "lead"), [(1, 0.0, 0), (1, 0.0, 1), (3, -0.5, 1), (240, 10.0, 0), (24, 0.08, 24), (24, 0.08, 120)])
def test_odd_timelines_are_answered(months, growth, lead):
    ends = f"months = {months}\ngrowth_per_month = {growth}\nlead_time_months = {lead}\n"
    made = decide(scenario.loads(TEXT[: TEXT.index("[timeline]")] + "[timeline]\n" + ends))
    grown = made.options[0].growth
    assert len(grown.months) == months or "more than 1,000,000 racks" in grown.note
    assert bool(grown.orders) == (lead < len(grown.months))
    if growth < 0:
        assert [o.racks for o in grown.orders] == [grown.racks[1]]
    json.dumps(made.as_dict(), allow_nan=False)
    assert view.from_document(json.loads(json.dumps(made.as_dict()))) == made


def test_months_cross_years():
    assert [month_after(datetime.date(2026, 11, 30), m) for m in (0, 1, 2, 14)] == ["2026-11", "2026-12", "2027-01", "2028-01"]


def test_without_a_timeline_there_is_none():
    made = decide(scenario.loads(TEXT[: TEXT.index("[timeline]")]))
    assert all(o.growth is None for o in made.options)
    assert view.growth_table(made).empty
    assert view.months_table(made).empty


def test_drivers_are_of_the_best_option_and_the_plan_confirms_them():
    best = WHOLE.fewest_racks("chat")
    assert [bool(o.drivers) for o in WHOLE.options] == [o is best for o in WHOLE.options]
    first = best.drivers[0]
    assert {d.input for d in best.drivers} == {"speed_against_model", "software_factor", "mtp_tokens_per_step"}
    profile = "upto" if "upto" in best.system else "maxlps"
    swings = [abs(d.racks_at_high - d.racks_at_low) for d in best.drivers]
    assert swings == sorted(swings, reverse=True)
    for value, racks in ((first.low, first.racks_at_low), (first.high, first.racks_at_high)):
        own = plan(scenario.loads(TEXT.replace("[timeline]", f"[facts]\n\"vr-nvl72/{profile}.{first.input}\" = {value!r}\n[timeline]")))
        assert next(o for o in own.options if o.system == best.system).value("racks_total") == racks


def test_an_input_at_which_the_slo_is_missed_comes_first_and_says_so():
    made = decided(("tpot_s = 0.0067", "tpot_s = 0.0022"), ("facility_watts = 10e6\n", ""))
    missed = [d for o in made.options for d in o.drivers if None in (d.racks_at_low, d.racks_at_high)]
    assert missed
    assert "SLO missed" in view.drivers_table(made)["Racks there"].iloc[0]


def test_workloads_that_only_fit_one_by_one_are_no_plan():
    watts = "facility_watts = 10e6"
    together = decided((watts, "facility_watts = 0.9e6"), text=TWO)
    assert all(together.served(w) for w in together.workloads)
    assert together.status == "infeasible"
    assert "together the workloads need" in together.limit
    assert "together the workloads need" in view.answer(together).replace("\\", "")
    assert decided(text=TWO).status == "ok"
    assert any("held against the site alone" in w for w in decided(text=TWO).warnings)


def test_the_chance_that_the_racks_do_not_fit_is_said():
    (said,) = [w for w in WHOLE.options[2].warnings if "of the draws its racks do not fit the site" in w]
    assert 1 < float(said.split()[1]) < 90
    high, fit = WHOLE.options[0].answers["racks_total"].high, WHOLE.options[0].value("racks_that_fit")
    assert any("do not fit the site" in w for w in WHOLE.options[0].warnings) or high <= fit
    assert not any("do not fit the site" in w for w in decided(("facility_watts = 10e6", "facility_watts = 1e10")).options[2].warnings)


def test_a_fabric_that_takes_the_site_over_its_power_is_said():
    gb300 = decided(("facility_watts = 10e6", "facility_watts = 5.1e6")).options[2]
    total = gb300.value("facility_power") + 1.2 * gb300.value("fabric_power") / 1e3
    assert total > 5.1
    assert any(f"with its fabric ({1.2 * gb300.value('fabric_power') / 1e3:,.3g} MW at the meter)" in w for w in gb300.warnings)
    assert not any("with its fabric" in w for w in WHOLE.options[0].warnings)


def test_a_batch_sums_over_workloads():
    made = plan(scenario.loads(TWO))
    best = [made.fewest_racks(w) for w in made.workloads]
    assert _numbers(made)["racks"] == sum(o.value("racks_total") for o in best)
    priced = plan(scenario.loads(TWO.replace('"gb300-nvl72" = {', '"vr-nvl72" = {')))
    tokens = 100 * 1024 + 500 * 300
    racks = sum(priced.fewest_racks(w).value("racks_total") for w in priced.workloads)
    assert _numbers(priced)["usd_per_mtok_output"] == pytest.approx(racks * 72 * 5.0 / 3600 / tokens * 1e6)
    assert _numbers(plan(scenario.loads(TWO.replace("tpot_s = 0.05", "tpot_s = 1e-5")))) == {}


def test_a_closed_loop_says_how_it_was_solved():
    made = decided(("requests_per_s = 200 ", "concurrency = 2030 "))
    assert made.options[2].answers["peak_tokens_per_s"].how == "assumed"
    assert WHOLE.options[2].answers["peak_tokens_per_s"].how == "exact"
