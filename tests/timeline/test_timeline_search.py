"""The search against brute force, its refusals, the fixed rule beside it, and the chance it is asked for."""

from itertools import product

import numpy as np
import pytest

from planner.errors import Infeasible, InputError
from planner.timeline import search
from planner.timeline.ledger import Order, Supply
from planner.timeline.search import Limits
from planner.timeline.simulate import Future, Site, simulate

CHEAP = Supply("cheap", {"w": 10.0}, 8, 100.0, 1, usd=600.0, life_months=12)
STRONG = Supply("strong", {"w": 26.0}, 8, 200.0, 1, first_month=1, rent_usd_per_month=120.0, life_months=12)


def brute(supplies, need, limits, most=4):
    """Every plan of at most `most` racks an order, one workload: the least cost of those that serve."""
    months = len(need)
    slots = [(s, t) for s in supplies for t in range(s.first_month, months - s.delay)]
    best = np.inf
    for racks in product(range(most + 1), repeat=len(slots)):
        orders = [Order(s.name, t, n) for (s, t), n in zip(slots, racks, strict=True) if n]
        if limits.budget_usd is not None and sum(o.racks * (s.usd or 0) for o in orders for s in supplies if s.name == o.supply) > limits.budget_usd:
            continue
        capacity, watts = np.zeros(months), np.zeros(months)
        for s in supplies:
            for o in orders:
                if o.supply == s.name:
                    capacity[o.month + s.delay:] += o.racks * s.throughput["w"]
                    watts[o.month + s.delay:] += o.racks * s.watts
        over = limits.site.watts is not None and (watts > limits.site.watts).any()
        if over or (capacity[limits.serve_from:] < need[limits.serve_from:] - 1e-9).any():
            continue
        best = min(best, search.plan_usd(supplies, orders, months, limits.rate_per_year))
    return best


@pytest.mark.parametrize(("need", "limits"), [
    ([0, 10, 26, 30], Limits(serve_from=1)), ([0, 8, 20, 41], Limits(serve_from=1)),
    ([0, 10, 26, 36], Limits(Site(np.array([500.0] * 4)), serve_from=1)), ([0, 20, 30, 36], Limits(budget_usd=1200.0, serve_from=1))])
def test_search_equals_brute_force(need, limits):
    need = np.array(need, float)
    found = search.cheapest([CHEAP, STRONG], {"w": need}, limits)
    assert found.usd == pytest.approx(brute([CHEAP, STRONG], need, limits), rel=1.01e-3)
    assert found.status == "proven"
    served = simulate([CHEAP, STRONG], found.orders, {"w": need}, site=limits.site).fleet.short[0, 0, limits.serve_from:]
    assert served.sum() == 0


def test_two_workloads_share_and_the_assignment_serves():
    one = Supply("one", {"a": 10.0, "b": 5.0}, 8, 1.0, 1, usd=100.0)
    two = Supply("two", {"a": 8.0, "b": 20.0}, 8, 1.0, 2, usd=150.0)
    need = {"a": np.linspace(0, 60, 12), "b": np.linspace(0, 90, 12)}
    found = search.cheapest([one, two], need, Limits(serve_from=3))
    served = np.einsum("swm,sw->wm", found.assigned, [[10, 5], [8, 20]])
    assert (served[:, 3:] >= np.array(list(need.values()))[:, 3:] - 1e-6).all()
    rule = search.fixed_rule([one, two], need, Limits(serve_from=3))
    assert found.usd <= rule.usd * (1 + 1e-3)
    assert simulate([one, two], rule.orders, need).fleet.short[0, :, 3:].sum() == 0


@pytest.mark.parametrize(("need", "limits", "words"), [
    ([10, 10, 10], Limits(), "lead time: month 0 cannot be served: lead time and acceptance"),
    ([0, 26, 26], Limits(Site(np.array([100.0, 200.0, 200.0])), serve_from=1), "power: month 1 cannot be served: the site's power"),
    ([0, 10, 300], Limits(Site(None, np.array([1.0, 2.0, 3.0])), serve_from=1), "places: month 2 cannot be served"),
    ([0, 10, 10], Limits(Site(np.array([300.0] * 3)), budget_usd=100.0, serve_from=1), "budget: month 1 cannot be served")])
def test_infeasible_plans_name_the_first_month_and_the_limit(need, limits, words):
    with pytest.raises(Infeasible, match=words):
        search.cheapest([CHEAP, STRONG], {"w": np.array(need, float)}, limits)


def test_several_limits_at_once_and_unservable_demand():
    with pytest.raises(Infeasible, match="several limits"):
        search.cheapest([CHEAP], {"w": np.array([0.0, 100.0])}, Limits(Site(np.array([100.0] * 2), np.array([1.0] * 2)), 100.0, serve_from=1))
    with pytest.raises(Infeasible, match="nobody can serve mail"):
        search.cheapest([CHEAP], {"mail": np.array([1.0, 1.0])})
    with pytest.raises(InputError, match="not available, and not 0"):
        search.cheapest([Supply("s", {"w": 1.0}, 8, 1.0, 0)], {"w": np.array([1.0])})
    with pytest.raises(InputError, match="one value a month"):
        search.cheapest([CHEAP], {"w": np.array([0.0, 1.0])}, Limits(Site(np.array([1.0]))))


@pytest.mark.parametrize(("need", "limits", "words"), [
    ({"w": [0, 1e13]}, Limits(serve_from=1), "at most 1,000,000 racks"), ({"w": [0, 1.0], "v": [1.0]}, Limits(), "over the same months"),
    ({}, Limits(), "one value a month"), ({"w": [0, 1.0]}, Limits(spares={"z": 1}), "spares.z must be of a supply: cheap"),
    ({"w": [0, 1.0]}, Limits(spares={"cheap": -1}), "spares.cheap")])
def test_what_is_no_problem_is_refused_by_name(need, limits, words):
    with pytest.raises(InputError, match=words):
        search.cheapest([CHEAP], {name: np.array(series, float) for name, series in need.items()}, limits)


def test_spares_are_ordered_on_top():
    plain = search.cheapest([CHEAP], {"w": np.array([0.0, 30.0, 30.0])}, Limits(serve_from=1))
    spared = search.cheapest([CHEAP], {"w": np.array([0.0, 30.0, 30.0])}, Limits(serve_from=1, spares={"cheap": 2}))
    assert [sum(o.racks for o in f.orders) for f in (plain, spared)] == [3, 5]


def test_the_chance_asked_for_is_reached():
    rng = np.random.default_rng(1)
    growth = np.exp(0.25 * rng.standard_normal((400, 1)))
    need = {"w": growth * np.linspace(10, 200, 12)}
    future = Future(late=rng.integers(0, 2, (400, 1)))
    cheap = Supply("cheap", {"w": 10.0}, 8, 100.0, 1, usd=600.0, initial=8)
    plans = [search.with_chance([cheap], need, chance, Limits(serve_from=2), future) for chance in (0.5, 0.9)]
    for plan, chance in zip(plans, (0.5, 0.9), strict=True):
        assert 1 - (plan.timeline.fleet.short[:, :, 2:] > 0).any((1, 2)).mean() >= chance
    assert plans[0].found.usd < plans[1].found.usd
    with pytest.raises(Infeasible, match=r"served in \d+.\d% of the futures|cannot be served"):
        search.with_chance([cheap], need, 0.9, Limits(Site(np.full(12, 1500.0)), serve_from=2), future)
