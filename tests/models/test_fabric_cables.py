"""The wiring plan: counts equal the formula's, no port twice, non-blocking by max-flow, growth moves no cable."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.models.fabric.cables import LAYERS, Floor, batches
from planner.models.fabric.design import bisection_bytes_per_s, design, max_endpoints
from planner.models.fabric.growth import growth

TIERS = ("leaf", "spine", "core")


def floor(gpus_per_rack=8, gpus_per_tray=8, nics=1):
    return Floor(40, 1.2, 3.0, 2.5, gpus_per_rack, gpus_per_tray, nics)


def links(made, where=None):
    """Every cable as (end, end), ends named by tier, number and port."""
    for batch in batches(made, where or floor()):
        tier = LAYERS.index(batch.layer)
        net = f"r{batch.rail}p{batch.plane}"
        columns = [batch.a[c].tolist() for c in batch.a], [batch.b[c].tolist() for c in batch.b]
        for a, b in zip(zip(*columns[0], strict=True), zip(*columns[1], strict=True), strict=True):
            low = ("gpu", *a) if tier == 0 else (f"{net}-{TIERS[tier - 1]}", *a)
            yield low, (f"{net}-{TIERS[tier]}", *b)


def graph(made, dead=()):
    """A directed graph of unit capacities both ways, built from the cable list alone; `dead` names switches or ends."""
    g = nx.DiGraph()
    for low, high in links(made):
        ends = [f"gpu{low[1]}" if low[0] == "gpu" else f"{low[0]}{low[1]}", f"{high[0]}{high[1]}"]
        names = {*ends, f"gpu{low[1]}:{low[2] * made.ports_per_gpu + low[3]}" if low[0] == "gpu" else f"{ends[0]}:{low[2]}", f"{ends[1]}:{high[2]}"}
        if names & set(dead) or any(e.split("-")[0] in dead for e in ends):
            continue
        for u, v in (ends, ends[::-1]):
            before = g.get_edge_data(u, v, {"capacity": 0})["capacity"]
            g.add_edge(u, v, capacity=before + 1)
    g.add_nodes_from(f"gpu{i}" for i in range(made.gpus))
    return g


def flow(g, sources, sinks, each):
    """Max-flow from all sources to all sinks, each GPU limited to `each` ports."""
    g = g.copy()
    g.add_nodes_from(["from", "to"])
    g.add_edges_from(("from", f"gpu{i}", {"capacity": each}) for i in sources)
    g.add_edges_from((f"gpu{i}", "to", {"capacity": each}) for i in sinks)
    return nx.maximum_flow_value(g, "from", "to")


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 24), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.data())
def test_counts_equal_the_formula_and_no_port_is_used_twice(radix, tiers, rails, planes, data):
    gpus = data.draw(st.integers(rails, min(600, max_endpoints(radix, tiers) * rails)))
    made = design(gpus, planes, radix, rails=rails, planes=planes, tiers=tiers)
    seen, layers = set(), dict.fromkeys(LAYERS, 0)
    for batch in batches(made, floor()):
        layers[batch.layer] += len(batch)
    for low, high in links(made):
        for end in (low, high):
            assert end not in seen
            seen.add(end)
            if end[0] != "gpu":
                assert end[2] < radix
                assert end[1] < getattr(made.net, end[0].split("-")[1])
    assert tuple(layers.values()) == tuple(made.counts[n] for n in ("links_host", "links_leaf_spine", "links_spine_core"))


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([(4, 2), (6, 2), (8, 2), (4, 3), (6, 3)]), st.integers(1, 2), st.randoms(use_true_random=False), st.data())
def test_a_design_claimed_non_blocking_carries_any_half_to_the_other(shape, planes, random, data):
    radix, tiers = shape
    gpus = data.draw(st.integers(2, max_endpoints(radix, tiers)))
    made = design(gpus, planes, radix, planes=planes, tiers=tiers)
    assert made.net.nonblocking
    assert made.net.up == made.net.down
    order = list(range(gpus))
    random.shuffle(order)
    half = gpus // 2
    got = flow(graph(made), order[:half], order[half:2 * half], made.ports_per_gpu)
    assert got == half * made.ports_per_gpu
    if gpus % 2 == 0:
        assert got == bisection_bytes_per_s(gpus * made.ports_per_gpu, 1.0)


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 14), st.integers(2, 3), st.floats(1, 4), st.randoms(use_true_random=False), st.data())
def test_oversubscribed_bundles_are_alike_and_carry_the_stated_bisection(radix, tiers, ratio, random, data):
    gpus = data.draw(st.integers(2, min(150, max_endpoints(radix, tiers))))
    made = design(gpus, 1, radix, tiers=tiers, oversubscribed=ratio, port_bytes_per_s=1.0)
    net, seen, wired = made.net, set(), {}
    for low, high in links(made):
        for end in (low, high):
            assert end not in seen
            assert end[0] == "gpu" or (end[2] < radix and end[1] < getattr(net, end[0].split("-")[1]))
            seen.add(end)
        if low[0].endswith("leaf"):
            bundle = wired.setdefault(low[1], {})
            bundle[high[1]] = bundle.get(high[1], 0) + 1
    for leaf, bundle in wired.items():
        pod = leaf // net.pod_leaves
        spines = net.last_spines if pod == net.pods - 1 else net.pod_spines
        assert set(bundle) == {pod * net.pod_spines + i for i in range(spines)}
        assert max(bundle.values()) - min(bundle.values()) <= 1
    order = list(range(gpus))
    for _ in range(2):
        half = gpus // 2
        assert flow(graph(made), order[:half], order[half:2 * half], 1) >= int(made.bisection_bytes_per_s + 1e-9)
        random.shuffle(order)


def test_a_small_last_pod_meets_the_cores_of_every_spine():
    made = design(84, 1, 8, tiers=3)  # five pods of four leaves and one leaf more
    assert made.net.last_leaves == 1
    assert flow(graph(made), range(42), range(42, 84), 1) == 42


def test_an_oversubscribed_design_is_not_claimed_non_blocking():
    made = design(96, 1, 8, tiers=3, oversubscribed=3)
    assert not made.net.nonblocking
    assert flow(graph(made), range(48), range(48, 96), 1) < 48


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([(6, 2), (8, 2), (4, 3), (6, 3), (8, 3)]), st.data())
def test_growth_moves_no_cable(shape, data):
    radix, tiers = shape
    final = data.draw(st.integers(1, max_endpoints(radix, tiers)))
    now = data.draw(st.integers(1, final))
    small = design(now, 1, radix, tiers=tiers, sized_for=final)
    large = design(final, 1, radix, tiers=tiers, sized_for=final)
    assert growth(small).gpus >= final
    assert set(links(small)) <= set(links(large))


def test_growth_stops_where_the_spines_are_full():
    made = design(1000, 1, 64)
    found = growth(made)
    assert (found.gpus, found.ceiling_gpus) == (1024, 2048)
    assert "leaf 33" in found.ends
    assert growth(design(1000, 1, 64, sized_for=2048)).gpus == 2048


def test_lengths_and_floor():
    made = design(1152, 8, 512, rails=4, planes=8)
    longest = max(float(b.length_m.max()) for b in batches(made, floor(72, 4, 2)))
    assert 5.0 <= longest < 60
    with pytest.raises(InputError, match="must divide the 8 ports"):
        next(batches(made, floor(72, 4, 3)))
    with pytest.raises(InputError, match="gpus_per_tray"):
        floor(72, 5)


def test_disjoint_paths_are_what_the_graph_has():
    made = design(32, 4, 8, planes=4)
    g = graph(made)
    assert nx.edge_connectivity(g, "gpu0", "gpu31") == made.disjoint_paths == 4
    assert len(list(nx.all_shortest_paths(g, "gpu0", "gpu31"))) == made.planes * made.net.spine
    assert np.isclose(made.shortest_paths, made.planes * made.net.up)
