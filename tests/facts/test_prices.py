"""Prices: dated, per product, missing stays missing."""

import datetime

import pytest

from planner.errors import InputError
from planner.facts import prices
from planner.facts.files import table


def test_a_price_announced_for_later_does_not_count_yet():
    assert prices.rent("b300", "2026-09-26").high == 7.85
    assert prices.rent("b300", "2026-10-02").high == 9.5
    assert prices.rent("b300", datetime.date(2026, 10, 2)).high == 9.5


def test_missing_is_not_zero():
    for system in ("vr-nvl72", "gb300-nvl72"):
        found = prices.rent(system, "2026-11-30")
        assert (found.usd_per_gpu_hour, found.low, found.high, found.grade) == (None, None, None, "X")
        assert found.note.startswith("not available")
    assert prices.rent("h100", "2020-01-01").usd_per_gpu_hour is None


def test_one_row_a_product_of_its_largest_instance():
    found = prices.rent("b200-hgx", "2026-11-30")
    rows = table("prices.csv")
    used = [rows[int(c.split(":")[1]) - 2] for c in found.claims]
    assert [r["gpus_per_instance"] for r in used if r["provider"] == "Lambda"] == ["8"]
    assert not [r for r in used if r["system"] == "average of listings" or r["pricing_model"] != "on-demand"]
    assert found.low <= found.usd_per_gpu_hour <= found.high
    assert {float(r["usd_per_gpu_hour"]) for r in used} >= {found.low, found.high}


def test_estimates_keep_the_boundary_of_their_table():
    old, new = prices.estimates("gb300", "2026-11-30")
    assert (old.all_in_watts, new.all_in_watts) == (2100, 2120)
    assert old.boundary != new.boundary
    assert prices.estimates("gb300", "2026-05-01") == [old]
    rental = prices.rent("gb300", "2026-11-30", "3-year rental")
    assert (rental.usd_per_gpu_hour, rental.low, rental.high, rental.grade) == (5.0, 3.96, 5.0, "E")


@pytest.mark.parametrize(("system", "as_of", "kind", "field"), [
    ("nothing", "2026-11-30", "on-demand", "system"), ("h100", "yesterday", "on-demand", "as_of"), ("h100", "2026-13-01", "on-demand", "as_of"),
    ("h100", "2026-11-30", "gratis", "kind"), ("h100", None, "on-demand", "as_of")])
def test_bad_input_is_named(system, as_of, kind, field):
    with pytest.raises(InputError) as refusal:
        prices.rent(system, as_of, kind)
    assert refusal.value.field == field


def test_instance_prices_divide_to_gpu_prices():
    for row in table("prices.csv"):
        if row["usd_per_instance_hour"] and row["usd_per_gpu_hour"]:
            per_gpu = float(row["usd_per_instance_hour"]) / int(row["gpus_per_instance"])
            assert per_gpu == pytest.approx(float(row["usd_per_gpu_hour"]), rel=2e-3)
