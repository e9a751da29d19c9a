"""Cables by layer and medium: counts exact, media as a lane rate offers them, options of the fabric honoured."""

import pytest

from planner.errors import Infeasible, InputError
from planner.facts.catalog import switch, system
from planner.facts.evidence import claim
from planner.facts.files import table
from planner.plan.cabling import cables, lane_gbps, media, medium_of, nics_per_gpu
from planner.plan.fabric import choose, modules
from planner.scenario import FabricIn

VR = system("vr-nvl72", "upto")
GB = system("gb300-nvl72")


@pytest.mark.parametrize(("rack", "gpus", "given"), [(VR, 1152, {"lanes": "4x200G", "planes": 8}), (VR, 9216, {"tiers": 3}), (GB, 1152, {})])
def test_cables_by_kind_add_up(rack, gpus, given):
    choice = choose(rack, gpus, FabricIn(**given))
    rows = cables(choice, rack)
    by_layer = {n: sum(r["cables"] for r in rows if r["layer"] == n) for n in ("host", "leaf-spine", "spine-core")}
    counts = choice.made.counts
    assert tuple(by_layer.values()) == (counts["links_host"], counts["links_leaf_spine"], counts["links_spine_core"])
    assert sum(r["modules"] for r in rows) <= modules(choice)
    reach = {m.name: m.reach_m for m in media(choice.switch)}
    assert all(r["shortest_m"] <= r["longest_m"] <= reach[r["media"]] for r in rows)


def test_cables_past_every_reach_are_counted():
    eights = system("h100-sxm")
    rows = cables(choose(eights, 400_000, FabricIn()), eights)
    assert any(r["too_long"] and r["longest_m"] > 2000 for r in rows)
    assert all(r["too_long"] <= r["cables"] for r in rows)


def test_lanes_of_200g_have_neither_passive_copper_nor_multimode():
    assert lane_gbps(switch("sn6810")) == 200
    assert lane_gbps(switch("sn5600")) == 100
    assert {m.name for m in media(switch("sn6810"))} == {"active copper", "single-mode", "long single-mode"}
    names = [m.name for m in media(switch("sn5600"))]
    assert [names[i] for i in medium_of(switch("sn5600"), [1.0, 2.0, 4.0, 30.0, 60.0, 600.0])] == [
        "passive copper", "passive copper", "active copper", "multimode", "single-mode", "long single-mode"]


def test_every_medium_rests_on_claims():
    for row in table("fabric_media.csv"):
        for name in ("reach_claim", "module_watts_claim"):
            assert not row[name] or claim(row[name])


def test_options_of_the_fabric():
    b = choose(VR, 131072, FabricIn(lanes="4x200G", planes=4, rails=2, rails_per_gpu=2, tiers=2))
    assert (b.made.rails, b.made.net.endpoints, nics_per_gpu(b)) == (2, 131072, 2)
    grown = choose(VR, 1152, FabricIn(lanes="4x200G", planes=8, grow_to_gpus=524288, tiers=2))
    assert grown.made.net.spine == 256
    thin = choose(VR, 9216, FabricIn(lanes="4x200G", planes=8, oversubscription=3, tiers=2))
    assert thin.made.net.down == 3 * thin.made.net.up
    assert not thin.made.net.nonblocking
    own = choose(VR, 9216, FabricIn(switch="SN6810", lanes="4x200G", planes=8))
    assert modules(own) == own.made.counts["links_host"] / 4  # co-packaged optics: modules at the NICs alone
    with pytest.raises(InputError, match="switch"):
        choose(VR, 72, FabricIn(switch="no such"))
    with pytest.raises(Infeasible, match="spare at most"):
        choose(VR, 9216, FabricIn(spare_ports=200))
