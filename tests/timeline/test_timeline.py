"""Demand, racks by state, sharing, survival and money: hand-worked small cases, conservation, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import Infeasible, InputError
from planner.models.fabric.design import design
from planner.models.fabric.growth import growth
from planner.timeline import demand, fleet, money
from planner.timeline.ledger import STATES, Order, Phase, Supply, ledger, phased
from planner.timeline.search import Limits
from planner.timeline.simulate import Future, Site, fabric_ends, order_by, racks_path, simulate

A = Supply("a", {"chat": 10.0}, 8, 100.0, lead_months=1, initial=1, usd=1000.0, running_usd_per_month=5.0, life_months=60)
B = Supply("b", {"chat": 25.0}, 8, 200.0, lead_months=1, first_month=1, rent_usd_per_month=90.0, running_usd_per_month=10.0, life_months=60)
NEED = {"chat": np.array([10.0, 30.0, 60.0])}
ORDERS = [Order("a", 0, 2), Order("b", 1, 2)]


def test_three_months_two_systems_one_late_delivery():
    """One A at hand; two more from month 1 (30), two B from month 2 (80); in the second future B comes a month late: 30 of 60 are served."""
    found = simulate([A, B], ORDERS, NEED, future=Future(late=np.array([[0, 0], [0, 1]])))
    assert found.ledger.in_service[0].tolist() == [[1, 3, 3], [0, 0, 2]]
    assert found.ledger.in_service[1].tolist() == [[1, 3, 3], [0, 0, 0]]
    assert found.fleet.short[:, 0].tolist() == [[0, 0, 0], [0, 0, 30]]
    assert found.fleet.served[:, 0].tolist() == [[10, 30, 60], [10, 30, 30]]
    assert found.out_by_month.tolist() == [0, 0, 0.5]
    assert found.served_all == 0.5
    assert found.first_short() == 2
    assert found.watts[0].tolist() == [100, 300, 700]
    # 50 by two B, 10 by one A: two A idle, nothing stranded
    assert found.fleet.racks[0, :, 0, 2].tolist() == [1, 2]
    assert found.fleet.idle[0, :, 2].tolist() == [2, 0]
    assert found.fleet.stranded[0, 0].tolist() == [0, 0, 0]
    # cash: A bought when delivered, B rented from acceptance on, 5 a month for each A and 10 for each B at work
    cash = found.cash
    assert cash["racks bought"][0].tolist() == [0, -2000, 0]
    assert cash["rent"][0].tolist() == [0, 0, -180]
    assert cash["running"][0].tolist() == [-5, -15, -35]
    assert sum(cash.values())[1].tolist() == [-5, -2015, -15]


def test_two_workloads_by_hour():
    """100 by day and 20 by night against 20 by day and 100 by night, racks of 10: twelve racks shared for twenty apart."""
    day = [20.0] * 8 + [100.0] * 12 + [20.0] * 4
    night = [100.0] * 8 + [20.0] * 12 + [100.0] * 4
    found = fleet.shared_racks({"chat": 10.0, "batch": 10.0}, {"chat": day, "batch": night}, 72)
    assert (found["alone"], found["apart"], found["shared"]) == ({"chat": 10, "batch": 10}, 20, 12)
    assert found["valley_rack_hours"] == 0
    assert fleet.one_more({"chat": 10.0, "batch": 10.0}, {"chat": day, "batch": night}, "batch", 72, 100.0) == {
        "before": 10, "after": 12, "extra": 2, "usd_per_month": 200.0}
    flat = fleet.shared_racks({"chat": 10.0}, {"chat": day}, 72)
    assert flat["valley_rack_hours"] == 12 * 8
    assert fleet.shared_racks({"chat": 16.0}, {"chat": [24.0] * 24}, 72)["stranded_gpus"] == {"chat": 36}


def test_hours_in_the_timeline_agree_with_the_count():
    day = np.array([0.2] * 8 + [1.0] * 12 + [0.2] * 4)
    supply = Supply("s", {"chat": 10.0, "batch": 10.0}, 72, 1.0, 0, initial=12)
    need = {"chat": np.array([100.0]), "batch": np.array([100.0])}
    assert simulate([supply], [], need).fleet.short.sum() == 80
    shared = simulate([supply], [], need, hourly={"chat": day, "batch": 1.2 - day})
    assert shared.fleet.short.sum() == 0
    assert shared.fleet.valley[0, 0] == 0
    alone = simulate([supply], [], {"chat": need["chat"]}, hourly={"chat": day})
    assert alone.fleet.valley[0, 0] == 12 * 10 + 12 * 2


def test_priority_decides_who_is_short():
    supply = Supply("s", {"gold": 10.0, "lead": 10.0}, 8, 1.0, 0, initial=3)
    need = {"lead": np.array([20.0]), "gold": np.array([20.0])}
    for first, short in (("gold", [10, 0]), ("lead", [0, 10])):
        order = [first, *(n for n in need if n != first)]
        assert simulate([supply], [], need, priority=order).fleet.short[0, :, 0].tolist() == short


def test_waste_of_whole_racks_is_avoided_where_another_order_serves_all():
    small, large = Supply("small", {"a": 100.0, "b": 200.0}, 8, 1.0, 0, initial=122), Supply("large", {"a": 250.0, "b": 500.0}, 8, 1.0, 0, initial=1)
    found = simulate([small, large], [], {"a": np.array([8264.0]), "b": np.array([8264.0])})
    assert found.fleet.short.sum() == 0  # 83 small for a, 39 small and the large for b


@pytest.mark.parametrize(("parts", "total"), [
    ({"down": {"rack": 1}}, 11), ({"down": {}}, 10), ({"down": {"rack": 2}, "maintenance_racks": 1}, 13),
    ({"down": {}, "trays_tolerated": 2}, 12),  # 18 / 16 of ten, rounded up
    ({"down": {"tray": 3}, "trays_tolerated": 2}, 13), ({"down": {"tray": 1}}, 11),
    ({"down": {"power_feed": 1}, "feeds": 2}, 20), ({"down": {"power_feed": 1}, "feeds": 4}, 14), ({"down": {"site": 1}, "sites": 3}, 15),
    ({"down": {"plane": 1}, "planes": 4}, 14), ({"down": {"plane": 1}, "planes": 4, "plane_loss_fraction": 0.0}, 10)])
def test_survival(parts, total):
    found = fleet.survival(10, 72, 4, **parts)
    assert sum(found.values()) == total
    assert found["serving"] == 10
    assert min(found.values()) >= 0


def test_survival_refusals():
    with pytest.raises(Infeasible, match="1 of 1 power feeds down leaves none"):
        fleet.survival(10, 72, 4, {"power_feed": 1})
    with pytest.raises(InputError, match="must be one of tray"):
        fleet.survival(10, 72, 4, {"moon": 1})
    with pytest.raises(InputError, match="trays_tolerated"):
        fleet.survival(10, 72, 4, {}, trays_tolerated=18)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.integers(1, 8), st.integers(0, 3))
def test_what_is_bought_survives_the_loss_of_feeds(racks, feeds, down):
    if down >= feeds:
        return
    total = sum(fleet.survival(racks, 72, 4, {"power_feed": down}, feeds=feeds).values())
    assert total - down * -(-total // feeds) >= racks
    assert down == 0 or (total - 1) - down * -(-(total - 1) // feeds) < racks


def made(lead, accept, life, first, initial):
    return Supply("s", {"w": 1.5}, 8, 10.0, lead, accept, first, life, usd=100.0, initial=initial, running_usd_per_month=1.0, residual_fraction=0.25)


supply = st.builds(made, st.integers(0, 5), st.integers(0, 3), st.integers(1, 20), st.integers(0, 4), st.integers(0, 5))


@settings(max_examples=60, deadline=None)
@given(st.lists(supply, min_size=1, max_size=3), st.data())
def test_conservation(supplies, data):
    """Racks ordered are somewhere, demand is served or short, and cash is the sum of its parts; in every month of every future."""
    supplies = [replace(s, name=f"s{i}") for i, s in enumerate(supplies)]
    months, draws = 12, 3
    orders = [Order(s.name, data.draw(st.integers(s.first_month, months - 1)), data.draw(st.integers(0, 9))) for s in supplies for _ in range(3)]
    late = np.array(data.draw(st.lists(st.lists(st.integers(-3, 9), min_size=len(supplies), max_size=len(supplies)), min_size=draws, max_size=draws)))
    site = Site(np.cumsum(np.full(months, data.draw(st.floats(1, 200)))), np.full(months, 20.0))
    found = simulate(supplies, orders, {"w": np.linspace(1, 50, months)}, site=site, future=Future(late=late), spares={"s0": 2})
    states = found.ledger.states
    assert list(states) == list(STATES)
    assert (sum(states.values()) == found.ledger.ordered).all()
    assert min(v.min() for v in states.values()) >= 0
    assert (np.diff(found.ledger.ordered, axis=2) >= 0).all()
    assert found.fleet.served + found.fleet.short == pytest.approx(np.broadcast_to(np.linspace(1, 50, months), found.fleet.short.shape))
    assert (found.watts <= site.watts * (1 + 1e-9)).all()
    assert ((found.ledger.in_service + states["spare"]).sum(1) <= 20).all()
    used = found.fleet.racks.sum(2) + found.fleet.idle
    assert used == pytest.approx(found.ledger.in_service)
    bought = found.ledger.ordered[:, :, -1] - states["in transit"][:, :, -1] - np.array([s.initial for s in supplies])
    assert found.cash["racks bought"].sum(1) == pytest.approx(-100.0 * bought.sum(1))
    assert found.cash["racks sold"].sum(1) == pytest.approx(25.0 * states["retired"][:, :, -1].sum(1))


def test_retirement_and_resale():
    short = Supply("s", {"w": 1.0}, 8, 1.0, 0, life_months=2, usd=100.0, residual_fraction=0.3)
    found = simulate([short], [Order("s", 0, 4)], {"w": np.full(4, 4.0)})
    assert found.ledger.in_service[0, 0].tolist() == [4, 4, 0, 0]
    assert found.ledger.states["retired"][0, 0].tolist() == [0, 0, 4, 4]
    assert found.cash["racks sold"][0].tolist() == [0, 0, 120, 0]
    assert money.worth_at_end([short], found.ledger)[0] == 0


def test_power_in_steps_leaves_racks_waiting():
    found = simulate([A], [Order("a", 0, 4)], {"chat": np.full(4, 50.0)}, site=Site(np.array([200.0, 200.0, 300.0, 500.0])))
    assert found.ledger.in_service[0, 0].tolist() == [1, 2, 3, 5]
    assert found.ledger.states["without power"][0, 0].tolist() == [0, 3, 2, 0]


def test_the_fabrics_promise_is_held_against_the_plan():
    """Leaves and spines for 256 endpoints: 32 racks of 8 GPUs with one port each, and the thirty-third moves a cable."""
    made = design(64, 1, 32, tiers=2, planes=1, rails=1)
    promised = growth(made).gpus
    racks = promised // 8
    found = simulate([A], [Order("a", 0, racks - 1), Order("a", 1, 1)], {"chat": np.ones(4)})
    assert fabric_ends(found, promised) == 2
    assert fabric_ends(found, promised + 8) is None


def test_software_matures():
    young = Supply("s", {"w": 100.0}, 8, 1.0, 0, initial=1, start_fraction=0.5, mature_months=2)
    found = simulate([young], [], {"w": np.full(4, 100.0)})
    assert found.fleet.served[0, 0].tolist() == [50, 75, 100, 100]


def test_order_by_dates_and_those_that_have_passed():
    steps = order_by(A, [1, 1, 3, 6])
    assert [(s.needed, s.racks, s.order_by, s.late) for s in steps] == [(2, 2, 1, False), (3, 3, 2, False)]
    late = order_by(A, [4, 4, 4, 4])
    assert (late[0].racks, late[0].order_by, late[0].late) == (3, -1, True)
    assert racks_path(A, {"chat": np.array([10.0, 10.1, 30.0])}).tolist() == [1, 2, 3]


def test_growth_season_and_peak():
    season = np.ones(12) + 0.1 * np.cos(np.arange(12) / 12 * 2 * np.pi)
    found = demand.grown(100.0, 0.08, 24, season, 1.5)
    assert found[12] == pytest.approx(100 * 1.08**12 * 1.1 * 1.5)
    assert demand.grown(np.array([1.0, 2.0]), np.array([0.0, 0.1]), 3).tolist() == [[1, 1, 1], [2, 2.2, pytest.approx(2.42)]]


@pytest.mark.parametrize(("make", "words"), [
    (lambda: demand.grown(1.0, -1.5, 3), "must be > -1"), (lambda: demand.grown(1.0, 0.1, 3, [1.0] * 11), "12 factors"),
    (lambda: demand.grown(1.0, 0.1, 3, [2.0] * 12), "mean of 1"), (lambda: demand.grown(-1.0, 0.1, 3), "start"),
    (lambda: demand.typed([]), "at least one month"),
    (lambda: demand.typed([{"month": m, "workload": "a", "value": "1"} for m in ("2026-11", "2027-01")]), "1 month.s. missing"),
    (lambda: demand.typed([{"month": m, "workload": "a", "value": "1"} for m in ("2026-11", "2026-11")]), "twice or out of order"),
    (lambda: demand.typed([{"month": "2026-13", "workload": "a", "value": "1"}]), "must be a month"),
    (lambda: demand.typed([{"month": "1", "workload": "a", "value": "many"}]), "line 2, value must be a number"),
    (lambda: demand.typed([{"month": "1", "workload": "a", "value": "5", "low": "6", "high": "7"}]), "between low"),
    (lambda: demand.typed([{"month": "1", "workload": "", "value": "5"}]), "workload must be filled"),
    (lambda: demand.typed([{"month": "1", "workload": "a", "value": "1"}, {"month": "2", "workload": "b", "value": "1"}]), "same months"),
    (lambda: phased([Phase("a", 0, 5, 1), Phase("a", 4, 8, 1)]), "months 4 to 5.*overlap|overlap another phase"),
    (lambda: phased([Phase("a", 5, 4, 1)]), "at least first"),
    (lambda: ledger([A], [Order("c", 0, 1)], 3), "must be one of a"), (lambda: ledger([B], [Order("b", 0, 1)], 3), "months 1 to 2"),
    (lambda: ledger([Supply("s", {"w": 1.0}, 8, 1.0, 12)], [Order("s", 0, 1)], 6), "shorter than the horizon"),
    (lambda: ledger([A, A], [], 3), "each name once"), (lambda: ledger([A], [], 3, site_watts=np.array([2.0, 1.0, 3.0])), "never fall"),
    (lambda: ledger([A], [], 3, site_watts=np.array([2.0])), "one value a month"),
    (lambda: Supply("s", {"w": 1.0}, 8, 1.0, 1, usd=1.0, rent_usd_per_month=1.0), "name two supplies"),
    (lambda: Supply("s", {}, 8, 1.0, 1), "at least one workload"),
    (lambda: Supply("s", {"w": 1.0}, 8, 1.0, -1), "lead_months"), (lambda: Supply("s", {"w": 1.0}, 8, 1.0, 1, usd=0.0), "usd must be > 0"),
    (lambda: simulate([A], [], {}), "at least one workload"), (lambda: simulate([A], [], {**NEED, "w": np.ones(2)}), "demand.w must hold one value"),
    (lambda: simulate([A], [], NEED, hourly={"mail": [1] * 24}), "must be one of chat"),
    (lambda: simulate([A], [], NEED, spares={"z": 1}), "spares.z"),
    (lambda: simulate([A], [], NEED, hourly={"chat": [1] * 23}), "24 shares"), (lambda: simulate([A], [], NEED, prefer={"chat": ["b"]}), "one of a"),
    (lambda: fleet.survival(10, 72, 5, {}), "must divide the 72 GPUs"), (lambda: simulate([A], [], NEED, priority=["x"]), "each workload once"),
    (lambda: simulate([A], [], NEED, hourly={"chat": [0.5] * 24}), "must reach 1"),
    (lambda: simulate([A], [], {"chat": np.ones((3, 3))}, future=Future(late=np.zeros((2, 1), int))), "as many draws"),
    (lambda: Limits(rate_per_year=8), "a share, not a percent"), (lambda: money.monthly_rate(8), "a share, not a percent"),
    (lambda: demand.between(np.array([[1.0], [2.0], [3.0]]), np.zeros(1)), "between low and high"),
    (lambda: money.rack_usd_per_month(Supply("s", {"w": 1.0}, 8, 1.0, 1)), "not available, and not 0")])
def test_refusals(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_demand_that_nobody_serves():
    with pytest.raises(Infeasible, match="nobody can serve mail: known workloads: chat"):
        simulate([A], [], {"mail": np.array([1.0])})
    with pytest.raises(Infeasible, match="nobody can serve chat: no supply has a throughput"):
        simulate([Supply("s", {"chat": 0.0}, 8, 1.0, 0)], [], NEED)


def test_a_missing_price_leaves_no_cash_flow_and_says_so():
    free = Supply("f", {"chat": 10.0}, 8, 1.0, 0)
    found = simulate([free], [Order("f", 0, 1)], NEED)
    assert found.cash is None
    assert "not available, and not 0" in found.warnings[0]


def test_typed_demand_moves_between_its_ends():
    rows = [{"month": m, "workload": "a", "value": "10", "low": "5", "high": "40"} for m in ("2026-11", "2026-12", "2027-01")]
    ends = demand.typed(rows)["a"]
    assert ends.shape == (3, 3)
    assert demand.between(ends, TENTHS)[:, 0] == pytest.approx([5, 10, 40])


TENTHS = np.array([-1.2815515655446004, 0.0, 1.2815515655446004])


@pytest.mark.parametrize(("value", "low", "high"), [(10, 0, 20), (0, 0, 5), (0, 0, 0), (10, 10, 10), (10, 0, 10), (10, 5, 40)])
def test_percentiles_are_as_typed_also_at_zero(value, low, high):
    drawn = demand.between(np.array([[value], [low], [high]], float), np.concatenate([TENTHS, [-9.0, 9.0]]))[:, 0]
    assert drawn[:3] == pytest.approx([low, value, high])
    assert 0 <= drawn[3] <= low
    assert drawn[4] >= high
