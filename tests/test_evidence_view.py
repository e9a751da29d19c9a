"""The evidence tables: every claim is there, with what would settle it; live figures come from the models."""

import pytest

from planner.errors import InputError
from planner.facts.files import table
from planner.sensitivity import pricing
from planner.views import evidence, power_and_cooling


def test_every_claim_is_listed_and_says_what_would_settle_it():
    claims = evidence.claims_table()
    assert list(claims.index) == list(range(1, 32))
    assert (claims["Settled by"] != "").all()
    assert {r["number"] for r in table("claims_settled_by.csv")} == {r["number"] for r in table("seed_claims.csv")}
    assert "131,072" in claims.loc[5, "The models say"]
    assert "2,520 PFLOPS dense" in claims.loc[1, "The models say"]
    assert "1.6 Tb/s" in claims.loc[4, "The models say"]


def test_ranks_are_ranks():
    ranks = evidence.lead_table()
    assert (ranks["Rank"] >= 1).all()
    assert (ranks["Rank"] <= ranks["Of"]).all()
    assert (ranks.loc[ranks["Rank"] == 1, "First"] == "CoreWeave").all()


def test_providers_carry_dates_and_conflicts_one_unit():
    assert (evidence.providers_table()["As of"] != "").all()
    assert (evidence.worst_conflicts()["Largest over smallest"] > 1.05).all()
    with pytest.raises(InputError, match="must be one of"):
        evidence.must_hold_table("moonshot")


def test_power_views_refuse_what_they_cannot_say():
    with pytest.raises(InputError, match="N or 2N"):
        power_and_cooling.site_table(20.0, 1.2, "3N")
    assert "one rack needs" in power_and_cooling.site_table(0.1, 1.2, "N").loc["GB300 NVL72", "Limit"]
    with pytest.raises(InputError):
        pricing.measured("none", "Server")
