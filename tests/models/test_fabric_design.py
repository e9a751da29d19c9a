"""Counts of Clos fabrics: handed cases, ceilings, properties, refusals that name the limit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibration.fabric import named, rules
from planner.errors import Infeasible, InputError
from planner.models.fabric.design import bisection_bytes_per_s, design, leaf_split, max_endpoints, network, oversubscription
from planner.models.fabric.low_diameter import dragonfly, prime_power, slim_fly
from planner.models.fabric.rules import contradictions, listed_total, rule_counts
from planner.units import whole_up


def test_handed_cases():
    assert max_endpoints(64, 2) == 2048  # FA01
    net = network(4096, 64, 3)
    assert (net.leaf, net.spine, net.core, net.switches) == (128, 128, 64, 320)  # FA02
    assert network(512, 64).spine == 8  # FA04
    assert network(512, 64).links_leaf_spine == 16 * 32  # FA05
    assert oversubscription(32, 16) == 2.0  # FA07
    assert whole_up(131072 / 72) == 1821  # FA10
    assert design(256, 1, 64, rails=8).counts["leaf"] == 8  # FA14: one leaf a rail is one stripe of 256 GPUs
    assert network(512 * 8, 64).tiers == 3  # FA15
    assert bisection_bytes_per_s(1024, 400e9 / 8) / 1e12 == pytest.approx(25.6, rel=1e-9)  # FA17
    total, wrong = listed_total([8, 8, 8], 20)  # FA09
    assert total == 24
    assert wrong == "20 are declared and 24 are listed (8 + 8 + 8)"
    assert listed_total([8, 8, 8], 24) == (24, "")


def test_a_gpu_has_whole_groups_of_rails():
    for rails, mine, ports in ((3, 2, 4), (9, 3, 8), (4, 4, 2)):
        with pytest.raises(InputError, match="rails_per_gpu must"):
            design(600, ports, 64, rails=rails, rails_per_gpu=mine)


def test_bisection_of_a_design():
    full, thin = (design(9216, 8, 512, rails=4, planes=8, tiers=2, oversubscribed=x, port_bytes_per_s=25e9) for x in (1, 3))
    assert full.bisection_bytes_per_s == 9216 / 2 * 8 * 25e9
    assert thin.bisection_bytes_per_s == pytest.approx(full.bisection_bytes_per_s / 3)
    assert design(64, 1, 64).bisection_bytes_per_s is None


def test_ceiling_of_the_article_is_derived():
    assert max_endpoints(512, 2) == 131072
    assert network(131072, 512).tiers == 2
    with pytest.raises(Infeasible, match="hold 131,072; 3 tiers"):
        network(131073, 512, 2)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 128), st.integers(1, 3), st.data())
def test_a_network_holds_its_endpoints_and_no_port_twice(radix, tiers, data):
    size = data.draw(st.integers(1, max_endpoints(radix, tiers)))
    net = network(size, radix, tiers)
    assert net.leaf * net.down >= size > (net.leaf - 1) * net.down
    assert net.ports_dark >= 0
    assert net.nonblocking
    assert sum((net.leaf, net.spine, net.core)) == net.switches
    assert net.up == net.down or net.tiers == 1
    if net.tiers > 1:
        assert net.bundles[1] - net.bundles[0] <= 1
        assert net.pod_leaves * net.bundles[1] <= radix
    if net.tiers == 3:
        assert net.core * radix >= net.links_spine_core


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 600), st.floats(1, 20), st.integers(0, 2))
def test_leaf_split_keeps_the_ratio_and_the_ports(radix, ratio, spare):
    down, up = leaf_split(radix, ratio, spare)
    assert down + up <= radix - spare
    assert down <= up * ratio * (1 + 1e-9)


@pytest.mark.parametrize(
    ("size", "radix", "ratio", "shape"),
    [  # leaf, spine, down, up: counted by hand
        (576, 128, 2, (7, 3, 84, 42)),  # 7 bundles of 14 are 98 of 128 ports
        (576, 128, 1.5, (8, 3, 72, 48)),  # 8 bundles of 16 fill 128
        (576, 128, 3, (6, 2, 96, 32)),
        (961, 62, 1, (31, 16, 31, 31)),  # 31 bundles of 2
        (841, 58, 1, (29, 15, 29, 29)),
        (768, 64, 1, (24, 16, 32, 32)),  # as DGX H100 prints 3 units: 12 spines would have unequal bundles
    ],
)
def test_the_fewest_spines_with_every_leaf_alike(size, radix, ratio, shape):
    net = network(size, radix, oversubscribed=ratio)
    assert (net.leaf, net.spine, net.down, net.up) == shape


@settings(max_examples=60, deadline=None)
@given(st.integers(4, 130), st.sampled_from([None, 2, 3]), st.floats(1, 8), st.floats(1, 8), st.integers(0, 2), st.data())
def test_a_thinner_fabric_never_costs_more_switches(radix, tiers, ratio, more, spare, data):
    size = data.draw(st.integers(1, min(100_000, max_endpoints(radix - spare, tiers or 3))))
    full, thin = (network(size, radix, tiers, oversubscribed=x, spare=spare) for x in (ratio, ratio * more))
    assert thin.switches <= full.switches
    assert network(size, radix, tiers, spare=spare).switches >= full.switches
    for net, most in ((full, ratio), (thin, ratio * more)):
        assert net.down + net.up + spare <= radix or net.tiers == 1
        assert net.tiers == 1 or net.down <= net.up * most * (1 + 1e-9)
        assert net.leaf == -(-size // net.down)
        assert net.ports_dark >= 0


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 64), st.integers(2, 96))
def test_more_endpoints_never_need_fewer_leaves_and_the_fewest_tiers_are_taken(units, radix):
    size = min(units * 7, max_endpoints(radix, 3) - 1)
    if size < 1:
        return
    small, large = network(size, radix), network(size + 1, radix)
    assert small.leaf <= large.leaf or small.tiers < large.tiers
    assert small.tiers == 1 or size > max_endpoints(radix, small.tiers - 1)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: network(0, 64), InputError, "endpoints"),
        (lambda: network(True, 64), InputError, "endpoints"),
        (lambda: network(10.5, 64), InputError, "whole number"),
        (lambda: network(64, 1), InputError, "radix"),
        (lambda: network(64, 64, 4), InputError, "tiers"),
        (lambda: network(10_000_000, 64), Infeasible, "hold 65,536"),
        (lambda: network(100, 8, 2), Infeasible, "hold 32; 3 tiers"),
        (lambda: network(100, 64, spare=63), Infeasible, "spare at most 62"),
        (lambda: network(100, 64, oversubscribed=0.5), InputError, "oversubscription"),
        (lambda: design(72, 2, 64, planes=3), InputError, "1, 2"),
        (lambda: design(72, 2, 64, rails=1, rails_per_gpu=2), InputError, "rails_per_gpu"),
    ],
)
def test_refusals_name_the_limit(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("gpus", [71, 72, 73, 131_072])
def test_odd_counts_are_designed_not_rounded_away(gpus):
    made = design(gpus, 8, 512, rails=4, planes=8)
    assert made.counts["gpus"] == gpus
    assert made.net.endpoints == -(-gpus // 4)


def test_direct_topologies():
    flat = slim_fly(64)
    assert (flat["q"], flat["network_radix"], flat["endpoints_per_switch"]) == (28, 42, 21)  # 28 = 4 x 7: 84 / 2
    assert (flat["switches"], flat["endpoints"], flat["links"]) == (1568, 1568 * 21, 1568 * 42 // 2)
    fly = dragonfly(64)
    assert fly["groups"] == 513
    assert fly["switches"] == 513 * 32
    assert fly["endpoints"] == 513 * 32 * 16 == 262_656  # a h + 1 groups; no printed row was handed over
    with pytest.raises(Infeasible):
        slim_fly(64, 40_000)


@pytest.mark.parametrize(("q", "known"), [(27, True), (28, False), (64, True), (5, True), (60, False), (49, True)])
def test_a_graph_is_known_where_q_is_a_power_of_one_prime(q, known):
    assert prime_power(q) is known


def test_a_row_that_contradicts_itself_is_said():
    h100 = named("DGX H100 NDR", "larger-component-counts")[0]
    assert contradictions(h100, {"su": 4, "nodes": 128, "gpus": 1024, "leaf": 32, "spine": 16}) == []
    (said, other) = contradictions(h100, {"su": 4, "nodes": 128, "gpus": 1000, "leaf": 32})
    assert "128 nodes of 8 GPUs are 1,024" in said
    assert "1,000" in other


def test_every_rule_counts():
    for rule in rules():
        counts = rule_counts(rule, max(1, rule.default_units))
        assert counts["gpus"] > 0
        if rule.topology == "clos" and rule.tiers != 1:
            assert counts["switches"] == counts["leaf"] + counts["spine"] + counts["core"]
