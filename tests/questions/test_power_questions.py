"""Power, coolant and tokens-per-megawatt questions: published rows, spellings, and what is refused with its reason."""

import csv
from pathlib import Path

import pytest

from planner.errors import Infeasible, InputError
from planner.facts import metered
from planner.facts.files import table
from planner.questions import all_questions, check

REFERENCES = Path(__file__).parents[2] / "data" / "references"
ASK = all_questions()


def rows(*files):
    for file in files:
        with (REFERENCES / f"{file}.csv").open() as handle:
            for r in csv.DictReader(handle):
                inputs = check.strict_json(r["inputs"])
                question = inputs.pop("question")
                yield pytest.param(check.Case(r["case"], question, inputs, float(r["expected"]), r["unit"], float(r["rtol"])), id=r["case"])


@pytest.mark.parametrize("case", list(rows("power", "cooling", "tokens_per_mw")))
def test_handed_and_published_values(case):
    outcome = check.run(case)
    assert outcome.status == "ok", outcome


def test_every_run_with_metered_power_within_five_percent_and_in_order():
    """All rows with wall power, whichever they are: no constant was fitted on them. Two rows are all there is."""
    found = []
    for row in metered.runs():
        inputs = {"system": row["accelerator"], "gpus": int(row["accelerators_total"]), "platform": row["platform"], "load": row["scenario"].lower()}
        answer = ASK["node_watts"].ask(inputs)
        found.append((float(row["power_w_measured"]), answer.value))
        assert answer.value == pytest.approx(float(row["power_w_measured"]), rel=0.05)
        assert answer.low <= float(row["power_w_measured"]) <= answer.high
    assert len(found) == 2
    assert [m for m, _ in sorted(found)] == [m for m, _ in sorted(found, key=lambda pair: pair[1])]


def test_no_constant_rests_on_the_metered_rows():
    assert not any("power_w_measured" in r["note"] + r["source"] for r in table("calibration/power.csv"))


@pytest.mark.parametrize(("system", "profile", "low", "high"), [
    ("gb300-nvl72", None, 132e3, 142e3), ("gb200-nvl72", None, 120e3, 132e3), ("vr-nvl72", "upto", 190e3, 230e3),
    ("vr-nvl72", "maxlps", 180e3, 230e3)])
def test_rack_totals_inside_published_ranges_and_parts_sum(system, profile, low, high):
    place = {"system": system, "profile": profile}
    total = ASK["rack_watts"].ask(place)
    assert low <= total.value <= high
    from planner.calibration import power
    from planner.facts import catalog

    parts = power.rack_parts(catalog.system(system, profile))
    assert sum(parts.values()) == pytest.approx(total.value, rel=1e-12)
    assert min(parts.values()) >= 0
    assert sum(ASK["rack_watts"].ask({**place, "quantity": q}).value for q in parts) == pytest.approx(total.value, rel=1e-12)


def test_load_orders_power():
    def watts(load):
        return ASK["rack_watts"].ask({"system": "gb300-nvl72", "load": load}).value

    assert watts("idle") < watts("interactive") < watts("server") < watts("offline") < watts("provisioned")
    assert watts(1.0) == watts("provisioned")
    assert watts("typical") == watts("server")


@pytest.mark.parametrize(("question", "inputs", "words"), [
    ("rack_watts", {"system": "vr-nvl72"}, "upto or maxlps"),
    ("rack_watts", {"system": "gb300-nvl72", "load": 90}, "a share, not a percent"),
    ("rack_watts", {"system": "gb300-nvl72", "load": "busy"}, "must be a share"),
    ("rack_watts", {"system": "gb300-nvl72", "load": True}, "must be a share"),
    ("rack_watts", {"system": "gb300-nvl72", "boundary": "facility"}, "pue is required"),
    ("rack_watts", {"system": "gb300-nvl72", "boundary": "facility", "pue": 0.8}, "upside down. 1.25"),
    ("rack_watts", {"system": "gb300-nvl72", "quantity": "cake"}, "must be total"),
    ("rack_watts", {"system": "a100-sxm"}, "no power setting"),
    ("node_watts", {"system": "b200-hgx", "cooling": "magic"}, "air or liquid"),
    ("node_watts", {"system": "b200-hgx", "platform": "none of them"}, "must be a platform"),
    ("node_watts", {"system": "b200-hgx", "load": {"speed": 1}}, "load.speed"),
    ("facility_watts", {"kwh": 100, "pue": 0.8}, "must be >= 1"),
    ("facility_watts", {"kwh": 100, "kw": 1, "pue": 1.2}, "once"),
    ("pue", {"it_mw": 1.25, "facility_mw": 1.0}, "must be >= 1"),
    ("racks_that_fit", {"site_mw": 1, "rack_kw": 100, "redundancy": "3N"}, "N, N.1"),
    ("pool_watts", {"gpus": 8, "busy": 9, "busy_w": 700, "idle_w": 90}, "at most num_units"),
    ("pool_watts", {"gpus": 8, "busy": 1, "busy_w": 70, "idle_w": 90}, "at most busy_watts"),
    ("coolant_l_per_min", {}, "or heat_kw"),
    ("coolant_l_per_min", {"heat_kw": 100, "rise_k": 0}, "must be > 0"),
    ("coolant_l_per_min", {"heat_kw": 100, "rise_k": 10, "outlet_c": 60}, "contradicts"),
    ("coolant_l_per_min", {"heat_kw": 100, "fluid": "mercury"}, "pg25, water"),
    ("chiller_free_fraction", {"climate": "mars"}, "must be one of"),
    ("chiller_free_fraction", {"outdoor_celsius": [20.0] * 3}, "at least 24"),
    ("tokens_per_mw", {"tps": 1, "it_mw": 1, "facility_mw": 1.2}, "give power once"),
    ("tokens_per_mw", {"tps": 1}, "give power once"),
    ("tokens_per_mw", {"total_tps_per_gpu": 1, "kw_per_gpu": 1, "tokens": "output"}, "input_tokens is required"),
    ("tokens_per_mw", {"tps_per_gpu": 1, "kw_per_gpu": 1, "boundary": "gpu"}, "cannot be had"),
    ("tokens_per_mw", {"tps_per_gpu": 1, "kw_per_gpu": 1, "boundary": "facility"}, "pue is required"),
    ("tokens_per_mw", {"tps_per_gpu": 1, "kw_per_gpu": 1, "pue": 0.9}, "must be >= 1"),
    # handed case TM07: two figures at two per-user speeds
    ("tokens_per_mw_ratio", {"a": {"v": 500000.0, "tps_user": 20}, "b": {"v": 300000.0, "tps_user": 100}}, "20 against 100|the same on both sides"),
    ("tokens_per_mw_ratio", {"a": {"v": 5e5, "tps_user": 20, "boundary": "it"}, "b": {"v": 3e5, "tps_user": 20, "boundary": "facility"}}, "boundary"),
])
def test_refusals(question, inputs, words):
    with pytest.raises(InputError, match=words):
        ASK[question].ask(inputs)


def test_a_site_below_one_rack_is_infeasible_with_the_limit():
    with pytest.raises(Infeasible, match=r"163.*kW.*100"):
        ASK["racks_that_fit"].ask({"site_kw": 100, "system": "gb300-nvl72", "pue": 1.2})


@pytest.mark.parametrize(("redundancy", "feeds", "racks"), [("N", None, 10), ("2N", None, 5), ("N+1", 5, 8)])
def test_redundancy(redundancy, feeds, racks):
    assert ASK["racks_that_fit"].ask({"site_mw": 1.2, "rack_kw": 100, "pue": 1.2, "redundancy": redundancy, "feeds": feeds}).value == racks


def test_two_curves_are_read_at_one_speed():
    a, b = {"curve": [[20, 8e5], [100, 4e5]]}, {"curve": [[20, 2e5], [100, 1e5]]}
    assert ASK["tokens_per_mw_ratio"].ask({"a": a, "b": b, "at": 50}).value == pytest.approx(4)
    with pytest.raises(InputError, match="inside the curve"):
        ASK["tokens_per_mw_ratio"].ask({"a": a, "b": b, "at": 150})


def test_the_five_words_stand_in_the_basis():
    answer = ASK["tokens_per_mw"].ask({"system": "gb300-nvl72", "tps_per_gpu": 1000, "pue": 1.2, "tps_user": 150, "gpus_counted": "deployed",
                                       "power": "provisioned"})
    assert answer.basis == "output tokens, deployed GPUs, facility boundary, 150 tok/s per user, provisioned power"
    assert answer.low < answer.value < answer.high
    silent = ASK["tokens_per_mw"].ask({"tps_per_gpu": 1000, "kw_per_gpu": 2.0})
    assert silent.basis.count("not stated") == 3


def test_average_power_gives_more_tokens_per_megawatt_than_provisioned():
    place = {"system": "gb300-nvl72", "tps_per_gpu": 1000}
    assert ASK["tokens_per_mw"].ask({**place, "power": "average"}).value > ASK["tokens_per_mw"].ask({**place, "power": "provisioned"}).value


def test_chiller_free_share_falls_with_a_colder_inlet_and_a_hotter_place():
    def share(climate, inlet):
        return ASK["chiller_free_fraction"].ask({"climate": climate, "inlet_c": inlet}).value

    assert share("cool maritime", 45) == 1.0
    assert share("hot desert", 30) < share("hot desert", 40) < share("hot desert", 45)
    assert share("hot desert", 40) < share("continental", 40)


RACK = {"system": "gb300-nvl72"}


@pytest.mark.parametrize(("question", "inputs", "words"), [
    ("tokens_per_mw", {**RACK, "tps_per_gpu": 9, "load": "idle", "power": "provisioned"}, "contradicts power = provisioned"),
    ("tokens_per_mw", {**RACK, "tps_per_gpu": 9, "load": "provisioned", "power": "average"}, "contradicts power = average"),
    ("tokens_per_mw", {**RACK, "tps_per_gpu": 9, "power_boundary": "facility"}, "power_boundary has no effect"),
    ("tokens_per_mw", {"it_mw": 1, "tokens_per_s": 9, "power_boundary": "facility"}, "contradicts it_watts"),
    ("tokens_per_mw", {**RACK, "tps_per_gpu": 9, "tps": 9}, "a second time"),
    ("chiller_free_fraction", {"climate": "dublin", "outdoor_celsius": [20.0] * 24}, "a second time"),
    ("tokens_per_mw_ratio", {"a": {"curve": [[10, 100], [30]]}, "b": {"curve": [[10, 100], [30, 50]]}, "at": 20}, "a.curve must be a list"),
    ("tokens_per_mw_ratio", {"a": {"curve": [[10, 100], [30, 50]]}, "b": {"curve": 5}, "at": 20}, "b.curve must be a list"),
    ("rack_watts", {**RACK, "quantity": "overhead", "boundary": "gpu"}, "the GPUs alone"),
    ("rack_watts", {**RACK, "pue": 1.2, "boundary": "it"}, "has no effect on the it boundary"),
    ("rack_watts", {**RACK, "quantity": "conversion", "load": "idle"}, "given as provisioned"),
    ("racks_that_fit", {"site_mw": 1, "rack_kw": 140, "redundancy": "2N", "feeds": 3}, "must be even"),
    ("racks_that_fit", {"site_mw": 1, "rack_kw": 140, "redundancy": "N+1"}, "feeds is required"),
    ("coolant_l_per_min", {"heat_kw": 200, "racks": 10}, "racks has no effect"),
    ("coolant_l_per_min", {"heat_kw": 200, "flow": 3}, "litres_per_min has no effect"),
    ("coolant_l_per_min", {"heat_kw": 200, "flow": 300, "rise_k": 10, "quantity": "outlet"}, "rise_kelvin has no effect"),
    ("coolant_l_per_min", {"heat_kw": 200, "fluid": "water", "inlet_c": -5}, "freezes"),
    ("coolant_l_per_min", {"heat_kw": 200, "inlet_c": -12}, "freezes"),
    ("coolant_l_per_min", {"heat_kw": 200, "flow": 20, "quantity": "outlet"}, "boils"),
    ("coolant_l_per_min", {"heat_kw": 200, "inlet_c": 70, "rise_k": 40}, "boils")])
def test_what_contradicts_or_would_be_ignored_is_refused(question, inputs, words):
    with pytest.raises(InputError, match=words):
        ASK[question].ask(inputs)


def test_a_pue_asks_for_the_facility_and_scales_every_part():
    for part in ("total", "overhead", "conversion", "gpus"):
        it = ASK["rack_watts"].ask({**RACK, "quantity": part}).value
        assert ASK["rack_watts"].ask({**RACK, "quantity": part, "pue": 1.5}).value == pytest.approx(1.5 * it)


def test_racks_that_fit_say_what_they_are_sized_at():
    site = {"site_mw": 10, **RACK}
    full, idle = ASK["racks_that_fit"].ask(site), ASK["racks_that_fit"].ask({**site, "load": 0})
    assert full.low <= full.value <= full.high
    assert full.low < full.high
    assert "provisioned" in full.basis
    assert idle.value > full.value
    assert "sized below the provisioned power" in idle.note
    assert "system not used" in ASK["racks_that_fit"].ask({**site, "rack_kw": 100}).note
    by_feeds = [ASK["racks_that_fit"].ask({"site_mw": 1.2, "rack_kw": 100, **f}).value for f in (
        {"redundancy": "2N"}, {"redundancy": "2N", "feeds": 4}, {"redundancy": "N+1", "feeds": 4}, {"feeds": 4})]
    assert by_feeds == [6, 6, 9, 12]
