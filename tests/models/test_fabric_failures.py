"""Failures: published shares, max-flow on the built graph, monotone, and parts that do not exist."""

import time

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_fabric_cables import graph

from planner.errors import Infeasible, InputError
from planner.models.fabric.design import design
from planner.models.fabric.failures import remaining, worst_placed


@pytest.mark.parametrize(
    ("radix", "planes", "failed", "lost"),
    [  # the MRC paper as data/reliability.csv has it
        (512, 8, {"link": 1}, 1 / 256),
        (64, 1, {"link": 1}, 1 / 32),
        (512, 8, {"nic_port": 1}, 1 / 8),
        (512, 8, {"plane": 1}, 1 / 8),
        (512, 8, {"leaf": 1}, 1 / 8),
    ],
)
def test_published_losses(radix, planes, failed, lost):
    gpus = 2048 if radix == 64 else 65536
    left = remaining(design(gpus, planes, radix, planes=planes), failed)
    assert left.gpu_even == pytest.approx(1 - lost, abs=1e-12)
    assert left.gpu_even <= left.gpu_adaptive


SHAPES = [(32, 1, 8, 2), (24, 2, 8, 2), (30, 2, 8, 2), (16, 1, 4, 3), (54, 1, 6, 3), (40, 1, 8, 3)]


@pytest.mark.parametrize(("gpus", "planes", "radix", "tiers"), SHAPES)
@pytest.mark.parametrize("failed", [{"link": 1}, {"link": 2}, {"nic_port": 1}, {"leaf": 1}, {"spine": 1}, {"core": 1}, {"nic_port": 1, "link": 1}])
def test_adaptive_share_is_the_max_flow_of_the_busy_fabric(gpus, planes, radix, tiers, failed):
    made = design(gpus, planes, radix, planes=planes, tiers=tiers)
    if "core" in failed and tiers == 2:
        with pytest.raises(InputError, match="does not exist"):
            remaining(made, failed)
        return
    names = worst_placed(made, failed)
    left = remaining(made, names)
    group = made.net.down * (made.net.pod_leaves if tiers == 3 else 1)
    firsts = [0, *(g for g in range(group, gpus, group) if "core" in failed)]  # a core touches every pod, the rest is placed at GPU 0
    shares = [[fair_share(made, [n for n in names if n.startswith(f"r0p{p}") or n.endswith(f":{p}")], p, first) for p in range(planes)]
              for first in firsts]
    assert left.gpu_adaptive == pytest.approx(min(sum(s) for s in shares) / planes, abs=1e-9)


def fair_share(made, names, plane, first=0):
    """The equal share per live port that the leaf (three tiers: pod) of GPU `first` can send to the others in one plane, by max-flow."""
    g = graph(made, [*names, *(f"r0p{p}" for p in range(made.planes) if p != plane)])
    if not g.out_degree(f"gpu{first}"):
        return 0.0
    group = made.net.down * (made.net.pod_leaves if made.net.tiers == 3 else 1)
    own = range(first, min(first + group, made.gpus))
    live = [i for i in own if g.out_degree(f"gpu{i}")]
    far = [i for i in range(made.gpus) if i not in own]
    share = 1.0
    while True:  # Newton's steps on the cut: exact after a few, as the flow is piecewise linear in the share
        h = g.copy()
        h.add_edges_from(("from", f"gpu{i}", {"capacity": share}) for i in live)
        h.add_edges_from((f"gpu{i}", "to", {"capacity": 1}) for i in far)
        cut, (near, _) = nx.minimum_cut(h, "from", "to")
        if cut >= share * len(live) - 1e-9:
            return share
        inside = [i for i in live if f"gpu{i}" in near]
        share = (cut - share * (len(live) - len(inside))) / len(inside)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([f"r0p{p}-{t}{i}" for p in range(2) for t, n in (("leaf", 8), ("spine", 4)) for i in range(n)]
                                + [f"gpu{g}:{p}" for g in range(32) for p in range(2)] + [f"r0p{p}-leaf{i}:{q}" for p in range(2) for i in range(8)
                                                                                        for q in range(4, 8)]), max_size=6, unique=True))
def test_more_failures_never_leave_more_and_shares_stay_in_range(names):
    made = design(32, 2, 8, planes=2)
    left, less = remaining(made, names[:-1]), remaining(made, names)
    for field in ("gpu_even", "gpu_adaptive", "all_reduce_lower", "mean", "over_nvlink"):
        assert 0 <= getattr(less, field) <= 1
    assert less.gpu_adaptive <= left.gpu_adaptive + 1e-12
    assert less.all_reduce_lower <= less.all_reduce_upper
    assert less.gpu_even <= less.gpu_adaptive + 1e-12


def test_worst_placing_is_the_worst_of_all_placings():
    made = design(32, 2, 8, planes=2)
    links = [f"r0p{p}-leaf{i}:{q}" for p in range(2) for i in range(8) for q in range(4, 8)]
    worst = min(remaining(made, [a, b]).gpu_even for n, a in enumerate(links) for b in links[n + 1:])
    assert remaining(made, {"link": 2}).gpu_even == worst


def test_a_rail_lost_is_carried_by_nvlink_neighbours():
    made = design(4096, 8, 512, rails=4, planes=8)
    left = remaining(made, {"rail": 1}, domain_gpus=64)
    assert left.gpu_adaptive == 0.0
    assert left.over_nvlink == 0.75
    assert left.gpus_touched == 1024


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        ({"spines": 1}, "must be of"),
        ({"core": 1}, "has 0"),
        ({"plane": 3}, "has 2"),
        ({"link": -1}, "failed.link"),
        ({"link": 10**9}, "has 64"),
        (["r0p2"], "planes are numbered 0 to 1"),
        (["r1p0"], "rails are numbered 0 to 0"),
        (["r0p0-leaf8"], "numbered 0 to 7"),
        (["r0p0-leaf0:2"], "no link to another switch"),
        (["gpu32:0"], "GPUs are numbered 0 to 31"),
        (["gpu0:2"], "NIC ports are numbered 0 to 1"),
        (["leaf3"], "must be a part such as"),
    ],
)
def test_parts_that_do_not_exist_are_refused(failed, words):
    with pytest.raises(InputError, match=words):
        remaining(design(32, 2, 8, planes=2), failed)


def test_two_ports_in_one_plane_lose_one():
    made = design(1024, 8, 512, rails=4, planes=4)
    left = remaining(made, {"nic_port": 1})
    assert left.gpu_even == left.gpu_adaptive == 7 / 8


def test_pods_of_unequal_size_touch_their_own_gpus_alone():
    made = design(9216, 2, 128, rails=4, tiers=3)
    assert made.net.pods == 2
    assert made.net.last_leaves < made.net.pod_leaves
    assert remaining(made, {}).gpu_even == 1.0
    assert remaining(made, {"leaf": 1}).gpus_touched == made.net.down // 2
    assert remaining(made, {"spine": 1}).gpu_even == pytest.approx(1 - 1 / made.net.pod_spines)


@pytest.mark.parametrize(
    ("shape", "failed", "words"),
    [
        ((10**9, 1, 2000), {"leaf": 1}, "1,000,000,000 NIC ports, and failures are worked out for at most 10,000,000"),
        ((10**7, 1, 2000), {"leaf": 1}, "100,000,000 leaf-spine pairs"),
        ((131072, 1, 512), {"link": 100_001}, "at most 100,000"),
    ],
)
def test_what_would_not_fit_in_memory_is_refused(shape, failed, words):
    with pytest.raises(Infeasible, match=words):
        remaining(design(*shape), failed)


def test_as_many_failures_as_are_allowed_take_about_a_second():
    made = design(131072, 8, 512, planes=8)
    start = time.process_time()
    left = remaining(made, {"link": 100_000})  # of plane 0: 390 leaves lose all 256 uplinks, the next keeps 96
    assert left.gpu_even == 96 / 256
    assert left.gpu_adaptive == 7 / 8
    assert time.process_time() - start < 10
