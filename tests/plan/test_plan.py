"""The join: identities to four digits, whole racks by hand, parts that sum, ranges that hold the value, bounds in order."""

import numpy as np
import pytest

from planner import scenario
from planner.draws import ends
from planner.facts import catalog
from planner.facts.files import folder
from planner.plan import plan
from planner.plan.case import resolve
from planner.plan.inputs import Range, answer, draw, variance_shares
from planner.plan.racks import racks_needed
from planner.plan.throughput import reach_of
from planner.scenario import PlanIn

TEXT = (folder("scenarios") / "rubin-vs-gb300.toml").read_text()
PLAN = plan(scenario.loads(TEXT))
GB300 = next(o for o in PLAN.options if o.system == "gb300-nvl72")


@pytest.mark.parametrize("option", PLAN.options, ids=lambda o: o.system)
def test_five_things_behind_every_answer(option):
    for item in option.answers.values():
        assert item.unit
        assert item.how
        assert item.grade
        assert item.basis or item.value is None
        assert item.value is None or item.low <= item.value <= item.high
        if item.lower is not None:
            assert item.lower <= item.upper
    assert option.answers["tokens_per_s_per_gpu"].how == ("modelled" if option.system == "gb300-nvl72" else "extrapolated")
    assert option.answers["tokens_per_s_per_gpu"].lower < option.answers["tokens_per_s_per_gpu"].upper


@pytest.mark.parametrize("option", PLAN.options, ids=lambda o: o.system)
def test_parts_sum_to_the_total(option):
    gpu = catalog.system(option.system.split(" ")[0], "upto" if "upto" in option.system else "maxlps" if "maxlps" in option.system else None)
    assert sum(option.parts["hbm_bytes"].values()) == pytest.approx(gpu.accelerator.hbm_bytes, rel=1e-12)
    assert sum(option.parts["rack_watts"].values()) / 1e3 == pytest.approx(option.value("rack_power"), rel=1e-12)


def test_a_missing_price_is_not_zero():
    vr = PLAN.options[0]
    assert all(vr.value(n) is None for n in ("usd_per_h", "usd_per_mtok_output", "usd_per_mtok_input", "usd_per_mtok_total"))
    assert "no price" in vr.answers["usd_per_h"].note


def test_identities_to_four_digits():
    racks, per_gpu = GB300.value("racks_total"), GB300.value("tokens_per_s_per_gpu")
    mean = 200 * 1024
    assert GB300.value("usd_per_h") == pytest.approx(racks * 72 * 5.0, rel=1e-4)
    assert GB300.value("usd_per_mtok_output") == pytest.approx(racks * 72 * 5.0 * 1e6 / (3600 * mean), rel=1e-4)
    assert GB300.value("usd_per_mtok_total") == pytest.approx(racks * 72 * 5.0 * 1e6 / (3600 * mean * 9), rel=1e-4)
    assert GB300.value("facility_power") == pytest.approx(racks * GB300.value("rack_power") / 1e3 * 1.2, rel=1e-4)
    assert GB300.value("tokens_per_mw") == pytest.approx(mean * 1.5 / GB300.value("facility_power"), rel=1e-4)
    usable = 72 - GB300.value("gpus_stranded") / GB300.value("racks_serving")
    assert GB300.value("racks_serving") == np.ceil(mean * 1.5 / (per_gpu * 0.7) / usable)
    split = GB300.value("usd_per_mtok_input") * mean * 8 + GB300.value("usd_per_mtok_output_split") * mean
    assert split == pytest.approx(GB300.value("usd_per_mtok_output") * mean, rel=1e-9)


@pytest.mark.parametrize(
    ("tokens", "per_gpu", "replica", "utilisation", "expected"),
    [
        (1_200_000, 10_000, 1, 0.7, 3),
        (504_000, 10_000, 1, 0.7, 1),
        (1e-300, 10_000, 1, 0.7, 1),
        (1e-9, 10_000, 128, 0.7, 2),
        (504_001, 10_000, 1, 0.7, 2),
        (72_000, 1_000, 16, 1.0, 2),
        (64_000, 1_000, 16, 1.0, 1),
        (128_000, 1_000, 128, 1.0, 2),
    ],
)
def test_whole_racks_by_hand(tokens, per_gpu, replica, utilisation, expected):
    rack = catalog.system("gb300-nvl72")
    racks = racks_needed(np.array([float(tokens)]), np.array([float(per_gpu)]), replica, rack, PlanIn(utilisation_fraction=utilisation))
    assert racks.serving[0] == expected


@pytest.mark.parametrize("load", ["requests_per_s", "output_tokens_per_s", "concurrency", "think_s = 5.0\nusers"])
def test_the_least_load_is_served_by_a_rack_in_every_draw(load):
    text = TEXT.replace("requests_per_s = 200 ", f"{load} = 1e-9 ")
    for option in plan(scenario.loads(text)).options:
        assert option.status == "ok"
        least = option.answers["racks_serving"]
        assert (least.low, least.value, least.high) == (1, 1, 1)
        assert option.answers["tokens_per_mw"].value > 0


def test_sv05_gpus_for_a_load_at_target_utilisation():
    own = catalog.system_from({"name": "one", "hbm_bytes": 1e11, "gpus": 1})
    racks = racks_needed(np.array([1_200_000.0]), np.array([10_000.0]), 1, own, PlanIn(utilisation_fraction=0.7))
    assert racks.total[0] == 172


def test_spares_cover_survival_and_are_named():
    rack = catalog.system("gb300-nvl72")

    def count(**more):
        return racks_needed(np.array([1e6]), np.array([1e4]), 1, rack, PlanIn(**more))

    assert (count().survival, count(survive=("rack",)).survival, count(survive=("rack",), spare_racks=1).survival) == (0, 1, 0)


def test_one_seed_one_plan_and_another_seed_another_range():
    assert plan(scenario.loads(TEXT)).as_dict() == PLAN.as_dict()
    other = plan(scenario.loads(TEXT.replace("[plan]", "[plan]\nseed = 7")))
    assert other.options[2].value("racks_total") == GB300.value("racks_total")
    assert other.options[2].answers["tokens_per_s_per_gpu"].low != GB300.answers["tokens_per_s_per_gpu"].low


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tpot_s = 0.0067", "tpot_s = 0.02"),
        ('"vr-nvl72/upto.hbm_bytes_per_s" = 22e12', '"vr-nvl72/upto.hbm_bytes_per_s" = 30e12'),
        ("input_tokens = 8192", "input_tokens = 1024"),
        ("cache_hit_fraction = 0.0", "cache_hit_fraction = 0.5"),
    ],
)
def test_easier_never_serves_less(old, new):
    base = TEXT.replace("[timeline]", '[facts]\n"vr-nvl72/upto.hbm_bytes_per_s" = 22e12\n\n[timeline]')
    assert old in base
    before, after = (plan(scenario.loads(t)).options[0].answers["tokens_per_s_per_gpu"] for t in (base, base.replace(old, new, 1)))
    assert after.value >= before.value * (1 - 1e-12)


def test_draws_keep_their_percentiles():
    drawn = draw({"a": Range(10, 5, 40, "E")}, num=4096)["a"].values
    assert drawn[0] == 10
    assert np.percentile(drawn[1:], [10, 50, 90]) == pytest.approx([5, 10, 40], rel=0.01)


def test_variance_goes_to_the_input_that_makes_it():
    inputs = draw({"large": Range(1, 0.2, 5, "P", "assumed"), "small": Range(1, 0.99, 1.01, "B", "claimed"), "fixed": Range(1, 1, 1, "X")})
    values = inputs["large"].values * inputs["small"].values
    shares = variance_shares(values, inputs)
    assert next(iter(shares)) == "large"
    assert shares["large"] > 0.99
    item = answer("x", values, "1", inputs)
    assert (item.grade, item.how) == ("P", "assumed")


@pytest.mark.parametrize(("load", "mean"), [("output_tokens_per_s = 204800", 204800.0), ("requests_per_s = 200", 204800.0)])
def test_loads_are_one_quantity(load, mean):
    found = plan(scenario.loads(TEXT.replace("requests_per_s = 200 ", load + " "))).options[2]
    assert found.value("racks_total") == GB300.value("racks_total")


def test_closed_loop_fixed_point_sv01():
    found = plan(scenario.loads(TEXT.replace("requests_per_s = 200 ", "concurrency = 2030 "))).options[2]
    service = found.value("ttft") + 1024 * found.value("tpot") / 1e3
    peak = 2030 / service * 1024 * 1.5
    assert found.value("tokens_per_mw") * found.value("facility_power") == pytest.approx(peak, rel=1e-9)


@pytest.mark.parametrize("option", PLAN.options, ids=lambda o: o.system)
def test_counts_have_whole_ends(option):
    for name in ("racks_serving", "racks_total"):
        item = option.answers[name]
        assert item.low < item.high
        assert all(x == int(x) for x in (item.low, item.value, item.high)), name
    gpus = option.answers["gpus_total"]
    assert [x % 72 for x in (gpus.low, gpus.value, gpus.high)] == [0, 0, 0]


def test_ends_of_whole_numbers_by_hand():
    assert ends(np.array([1.0, 2.0, 3.0, 4.0])) == (1.0, 4.0)
    assert ends(np.array([1.0, 2.0, 3.0, 4.5])) == pytest.approx((1.3, 4.05))


def test_draws_that_no_layout_serves_are_said():
    text = TEXT.replace("tpot_s = 0.0067", "tpot_s = 0.0040")
    tight = plan(scenario.loads(text)).options[2].answers["tokens_per_s_per_gpu"].note
    table = reach_of(resolve(scenario.loads(text))[2])[1]
    share = (table[:, 1:] <= 0).all(axis=0).mean()
    assert 0 < share < 1
    assert f"in {100 * share:.1f} % of the draws no layout meets the SLO: they count as the slowest that does" in tight
    loose = plan(scenario.loads(TEXT.replace("tpot_s = 0.0067", "tpot_s = 1.0"))).options[2]
    assert "of the draws" not in loose.answers["tokens_per_s_per_gpu"].note
