"""Sessions against a simulation of LRU caches, sums call by call, and the laws they must keep."""

import heapq
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.models import sessions as model
from planner.models.sessions import Pause, Sessions, Tier

FEW = settings(max_examples=15, deadline=None)
TOOLS = Sessions(20, 4000, 2000, 1200, 400, 6.0, (Pause(5.0, 1.0, 0.9), Pause(120.0, 1.5, 0.1)))
STEADY = Sessions(12, 0, 8000, 2000, 500, 4.0, (Pause(30.0, 0.0),))
LONG = Sessions(40, 10000, 0, 700, 300, 10.0, (Pause(20.0, 2.0),))


def lru(case, live, number, seed=1):
    """Simulate sessions one event at a time; return of each later call its own tokens found before and how many bytes were used since, in
    tokens, and the prompt tokens of all calls. A cache of c tokens finds what has at most c tokens above it: LRU is a stack."""
    rng = np.random.default_rng(seed)
    n, growth = case.calls, case.input_tokens + case.output_tokens
    weights = [p.fraction for p in case.pauses]

    def pause():
        p = case.pauses[rng.choice(len(weights), p=weights)]
        spread = np.log1p(p.scv) ** 0.5
        return p.mean_seconds * np.exp(rng.normal(-(spread**2) / 2, spread))

    cycle = n * case.service_seconds + (n - 1) * sum(p.mean_seconds * p.fraction for p in case.pauses)
    # at the start every session is somewhere in its life
    events = [(rng.uniform(0, cycle / n), i, int(rng.integers(n)), "start") for i in range(live)]
    heapq.heapify(events)
    running, idle, fresh, found, above, prompts, met = {}, OrderedDict(), live, [], [], 0.0, 0
    idle.update((who, case.own_tokens + call * growth) for _, who, call, _ in events if call)
    warm = number // 3
    while met < number:
        now, who, call, kind = heapq.heappop(events)
        if kind == "start":
            met += 1
            held = case.own_tokens + call * growth
            if met > warm:
                prompts += case.shared_tokens + held + case.input_tokens
            if call:
                newer = 0.0
                for other, tokens in reversed(idle.items()):
                    if other == who:
                        break
                    newer += tokens
                if met > warm:
                    found.append(held)
                    above.append(newer + sum(running.values()) + held)
                del idle[who]
            running[who] = held + case.input_tokens + case.output_tokens / 2
            heapq.heappush(events, (now + case.service_seconds, who, call, "end"))
        else:
            running.pop(who)
            idle[who] = case.own_tokens + (call + 1) * growth
            while len(idle) > 12 * live:
                idle.popitem(last=False)
            if call + 1 < n:
                heapq.heappush(events, (now + pause(), who, call + 1, "start"))
            else:
                heapq.heappush(events, (now, fresh, 0, "start"))
                fresh += 1
    return np.array(found), np.array(above), prompts


WIDE = (0.15, 0.3, 0.5, 0.8, 1.2, 2.0)


def model_share(case, live, part):
    """Return the capacity that is `part` of all that is asked for again [token], and the share of prompt tokens found beside the shared ones."""
    alone = replace(case, shared_tokens=0)
    rate = model.calls_per_s(case, live)
    room = part * model.residency(alone, rate, 1.0, [Tier("hbm", 1.0)], exclusive=True)["all_bytes"]
    got = model.residency(alone, rate, 1.0, [Tier("hbm", room)], exclusive=True)["hit_fraction"]["hbm"]
    return room, got * model.prompt_tokens(alone)["mean"] / model.prompt_tokens(case)["mean"], model.hit_fraction_proportional(alone, rate, 1.0, room)


@pytest.mark.parametrize(("case", "live", "most", "parts"), [
    (TOOLS, 100, 0.02, WIDE), (LONG, 100, 0.02, WIDE), (TOOLS, 30, 0.04, WIDE), (STEADY, 100, 0.02, (0.3, 0.8, 1.0, 1.35, 2.0))])
def test_hit_share_is_that_of_lru(case, live, most, parts):
    found, above, prompts = lru(case, live, 9000)
    worst = 0.0
    for part in parts:
        room, got, plain = model_share(case, live, part)
        seen = found[above <= room].sum() / prompts
        assert got == pytest.approx(seen, abs=most)
        worst = max(worst, abs(plain - seen) - abs(got - seen))
    assert worst > 0.15  # what fits is no estimate of what is found
    assert worst < 0.9


def by_hand(case):
    """Return the prompts of the calls, and what a cache without limit finds of each, call by call."""
    prompts, found, held = [], [], case.own_tokens
    for k in range(case.calls):
        prompts.append(case.shared_tokens + held + case.input_tokens)
        found.append(case.shared_tokens + (held if k else 0))
        held += case.input_tokens + case.output_tokens
    return np.array(prompts, float), np.array(found, float)


@pytest.mark.parametrize("case", [TOOLS, STEADY, LONG, replace(TOOLS, calls=1), replace(TOOLS, output_tokens=1, own_tokens=0, shared_tokens=0)])
def test_sums_are_those_of_the_calls(case):
    prompts, found = by_hand(case)
    made = model.prompt_tokens(case)
    assert made["mean"] == pytest.approx(prompts.mean())
    assert made["scv"] == pytest.approx(prompts.var() / prompts.mean() ** 2)
    assert made["last"] == prompts[-1]
    most = model.structural_hit_fraction(case)
    assert most == pytest.approx(found.sum() / prompts.sum())
    endless = model.residency(case, 3.0, 1.0, [Tier("hbm", np.inf)], exclusive=True)
    assert endless["hit_fraction"]["hbm"] == pytest.approx(most)
    left = prompts - found
    assert endless["prefill_tokens"] == pytest.approx(left.mean())
    assert endless["prefill_scv"] == pytest.approx(left.var() / left.mean() ** 2, abs=1e-9)
    nothing = model.residency(case, 3.0, 1.0, [Tier("hbm", 0.0)], exclusive=True)
    assert nothing["hit_fraction"]["hbm"] == 0
    assert nothing["prefill_tokens"] == pytest.approx(prompts.mean())
    assert nothing["prefill_scv"] == pytest.approx(prompts.var() / prompts.mean() ** 2, abs=1e-9)


def test_prefill_varies_as_drawn_calls_do():
    """Some found, some not: mean and spread of what is left against draws."""
    room = 0.5 * model.residency(TOOLS, 2.0, 1.0, [Tier("hbm", 1.0)], exclusive=True)["all_bytes"]
    got = model.residency(TOOLS, 2.0, 1.0, [Tier("hbm", room)], exclusive=True)
    prompts, found = by_hand(TOOLS)
    hit = np.random.default_rng(0).random((200_000, TOOLS.calls)) < got["call_hit_fraction"]["hbm"]
    left = prompts - TOOLS.shared_tokens - (found - TOOLS.shared_tokens) * hit
    assert got["prefill_tokens"] == pytest.approx(left.mean(), rel=0.005)
    assert got["prefill_scv"] == pytest.approx(left.var() / left.mean() ** 2, rel=0.01)
    assert got["prefill_tokens_per_s"] == pytest.approx(2.0 * got["prefill_tokens"])


@FEW
@given(st.integers(1, 200), st.floats(0, 5e4), st.floats(1, 5e3), st.floats(0, 100), st.floats(0, 300), st.floats(0, 5), st.floats(0.01, 1e3),
       st.booleans())
def test_more_room_never_finds_less(calls, own, added, service, pause, scv, rate, exclusive):
    case = Sessions(calls, 500.0, own, added, 300.0, service, (Pause(pause, scv),))
    rooms = np.concatenate([[0.0], np.geomspace(1e2, 1e12, 60), [np.inf]])
    made = model.residency(case, rate, 1.0, [Tier("hbm", rooms), Tier("lpddr", 1e6), Tier("nvme", 1e8)], exclusive=exclusive)
    shares = [np.asarray(v) for v in made["hit_fraction"].values()]
    assert all((s >= -1e-12).all() for s in shares)
    assert (np.diff(shares[0]) >= -1e-9).all()
    assert (np.diff(sum(shares)) >= -1e-9).all()
    assert shares[0][0] == 0
    assert sum(shares)[-1] == pytest.approx(model.structural_hit_fraction(case))
    assert sum(shares) + made["missed_fraction"] == pytest.approx(np.ones(62))
    one = model.residency(case, rate, 1.0, [Tier("hbm", rooms[30]), Tier("lpddr", 1e6), Tier("nvme", 1e8)], exclusive=exclusive)
    assert one["prefill_tokens"] == pytest.approx(made["prefill_tokens"][30], rel=1e-12)
    assert np.isfinite(one["prefill_scv"])


def test_times_and_loads_of_the_tiers():
    tiers = [Tier("hbm", 30e9), Tier("lpddr", 10e9, 450e9, 1e-6), Tier("nvme", 1e12, 13e9, 1e-4)]
    case = replace(TOOLS, shared_tokens=0)
    rate = model.calls_per_s(case, 50)
    assert model.live_sessions(case, rate) == pytest.approx(50)
    made = model.residency(case, rate, 35e3, tiers, exclusive=True)
    assert made["restore_seconds"]["hbm"] == pytest.approx(0, abs=1e-18)
    mean = 2000 + 1600 * 10
    assert made["restore_seconds"]["nvme"] == pytest.approx(1e-4 + mean * 35e3 / 13e9)
    assert made["restore_seconds_last"]["nvme"] == pytest.approx(1e-4 + (2000 + 1600 * 19) * 35e3 / 13e9)
    assert made["restore_bytes_per_s"]["lpddr"] == pytest.approx(made["hit_fraction"]["lpddr"] * rate * model.prompt_tokens(case)["mean"] * 35e3)
    assert made["kept_seconds"]["hbm"] < made["kept_seconds"]["lpddr"] < made["kept_seconds"]["nvme"]
    assert model.resident_bytes(case, rate, 35e3, made["kept_seconds"]["lpddr"]) == pytest.approx(40e9, rel=1e-6)
    copies = model.residency(case, rate, 35e3, tiers, exclusive=False)
    assert copies["missed_fraction"] >= made["missed_fraction"]
    assert copies["hit_fraction"]["lpddr"] == 0
    assert copies["hit_fraction"]["hbm"] == made["hit_fraction"]["hbm"]
    assert not made["full"]
    assert model.residency(case, rate, 35e3, [Tier("hbm", 0.5 * made["running_bytes"])], exclusive=True)["full"]
    assert model.worth_restoring_bytes_per_s(10_000, 35e3) == 3.5e8


def test_whole_blocks_find_less_and_state_costs_room():
    free = [Tier("hbm", np.inf)]
    exact, blocks = (model.residency(TOOLS, 1.0, 1.0, free, exclusive=True, block_tokens=b) for b in (1, 64))
    prompts, _ = by_hand(TOOLS)
    assert exact["hit_fraction"]["hbm"] - blocks["hit_fraction"]["hbm"] == pytest.approx(31.5 * 19 / prompts.sum())
    room = [Tier("hbm", 3e5)]
    plain, state = (model.residency(TOOLS, 1.0, 1.0, room, exclusive=True, state_bytes=x)["hit_fraction"]["hbm"] for x in (0.0, 1e4))
    assert state < plain


def test_no_calls_and_very_many():
    idle = model.residency(TOOLS, 0.0, 1.0, [Tier("hbm", 1.0)], exclusive=True)
    assert idle["hit_fraction"]["hbm"] == pytest.approx(model.structural_hit_fraction(TOOLS))
    assert idle["prefill_tokens_per_s"] == 0
    crowd = model.residency(TOOLS, model.calls_per_s(TOOLS, 1e9), 35e3, [Tier("hbm", 20e12)], exclusive=True)
    assert crowd["full"]
    assert crowd["call_hit_fraction"]["hbm"] == 0
    assert all(np.isfinite(v) for v in (crowd["prefill_tokens"], crowd["prefill_scv"], crowd["missed_fraction"]))


@pytest.mark.parametrize(("name", "call"), [
    ("calls", lambda: model.prompt_tokens(replace(TOOLS, calls=0))),
    ("calls", lambda: model.prompt_tokens(replace(TOOLS, calls=2.5))),
    ("output_tokens", lambda: model.prompt_tokens(replace(TOOLS, output_tokens=-1))),
    ("input_tokens", lambda: model.prompt_tokens(replace(TOOLS, shared_tokens=0, own_tokens=0, input_tokens=0))),
    ("service_seconds", lambda: model.calls_per_s(replace(TOOLS, service_seconds=float("nan")), 5)),
    ("service_seconds", lambda: model.calls_per_s(replace(TOOLS, service_seconds=0, pauses=()), 5)),
    ("live_sessions", lambda: model.calls_per_s(TOOLS, -1)),
    ("calls_per_s", lambda: model.kept_seconds(TOOLS, float("inf"), 1.0, 1.0)),
    ("capacity_bytes", lambda: model.kept_seconds(TOOLS, 1.0, 1.0, -1.0)),
    ("capacity_bytes", lambda: model.kept_seconds(TOOLS, 1.0, 1.0, float("nan"))),
    ("hbm.capacity_bytes", lambda: model.residency(TOOLS, 1.0, 1.0, [Tier("hbm", -1.0)], exclusive=True)),
    ("hbm.bytes_per_s", lambda: model.residency(TOOLS, 1.0, 1.0, [Tier("hbm", 1.0, 0.0)], exclusive=True)),
    ("tiers", lambda: model.residency(TOOLS, 1.0, 1.0, [], exclusive=True)),
    ("bytes_per_token", lambda: model.residency(TOOLS, 1.0, -1.0, [Tier("hbm", 1.0)], exclusive=True)),
    ("pause.fraction", lambda: model.prompt_tokens(replace(TOOLS, pauses=(Pause(1.0, 1.0, 0.5),)))),
    ("pause.scv", lambda: model.prompt_tokens(replace(TOOLS, pauses=(Pause(1.0, -1.0),)))),
    ("pause.mean_seconds", lambda: model.prompt_tokens(replace(TOOLS, pauses=(Pause(float("nan"), 1.0),)))),
])
def test_wrong_values_are_refused_by_name(name, call):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.field == name


def test_added_tokens_give_the_mean_prompt_back():
    made = model.added_tokens([1, 20, 40], 40000.0, 4000.0, 2000.0, 400.0)
    for n, added in zip((1, 20, 40), made, strict=True):
        assert model.prompt_tokens(Sessions(n, 4000, 2000, added, 400, 1.0))["mean"] == pytest.approx(40000)
    with pytest.raises(InputError, match="mean_prompt_tokens"):
        model.added_tokens(40, 9000, 4000, 2000, 400)
