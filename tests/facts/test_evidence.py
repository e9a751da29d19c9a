"""Claims: nothing lost on the way in, everything checked whole, conflicts shown, one chosen with its reason."""

import collections
import csv
import dataclasses
import hashlib
import re
from pathlib import Path

import pytest

from planner import shapes, specs
from planner.cli import main
from planner.errors import InputError
from planner.facts import evidence
from planner.facts.files import table
from planner.facts.show import lines, value_text
from planner.units import UNITS

GOOD = dict(table("claims.csv")[0])
EXTRA = "bb85d93c0a5ae6c3"
AMBIGUOUS = r"gb-nvl72|nvl72|vr-or-gb300-nvl72|all-nvidia|vr-nvl144-2025|vr200-2025|vr300-2025|vr-nvl144-cpx|.*-nvl576-2025"


def live():
    return [c for c in evidence.claims().values() if "never chosen" not in c.note]


def test_every_collected_claim_survives():
    ids = [r["id"] for r in table("claims.csv")]
    hardware, extra = [i for i in ids if i.startswith("H")], [i for i in ids if i.startswith("X")]
    assert (len(hardware), len(extra)) == (508, 409)
    assert set(hardware) == {f"H{n:04d}" for n in range(1, 509)}
    # the exact set of the extra table, by its digest
    assert hashlib.sha256(" ".join(sorted(extra)).encode()).hexdigest()[:16] == EXTRA


def test_whole_table_is_right():
    assert len(evidence.claims()) == len(table("claims.csv"))


def check_one(**changes):
    return evidence.check([GOOD, {**GOOD, "id": "Z1", "chosen": "", **changes}], evidence.vocabulary(), {GOOD["source"]})


@pytest.mark.parametrize(("changes", "line"), [
    ({"id": GOOD["id"]}, "id must be given once"), ({"id": ""}, "id must be given once"), ({"unit": "furlong"}, "unit must be a known unit"),
    ({"quantity": "no_such"}, "quantity must be a word"), ({"basis": "no_such"}, "basis must be a word"),
    ({"grade": "Q"}, "grade must be one of"), ({"grade": ""}, "grade must be one of"), ({"source": "nobody"}, "source must be a key"),
    ({"low": "30", "high": "40"}, "value must lie between low"), ({"value": "nan"}, "value must be a finite number"),
    ({"value": "1e400"}, "value must be a finite number"), ({"value": "", "low": "1"}, "high must be given"),
    ({"value": "", "low": "2", "high": "1"}, "low must lie between low"), ({"grade": "X"}, "value must be empty at grade X"),
    ({"chosen": "1"}, "chosen must mark one row"), ({"chosen": "yes"}, "chosen must be 1")])
def test_a_bad_row_is_named(changes, line):
    with pytest.raises(InputError) as refusal:
        check_one(**changes)
    assert str(refusal.value).startswith("data/claims.csv: line 3, ")
    assert line in str(refusal.value)


def test_unpublished_is_not_zero():
    assert evidence.claim("H0056").base_value is None
    assert evidence.claim("H0056").grade == "X"
    assert value_text(evidence.claim("H0056")) == "not available"
    assert {c.id for c in evidence.claims().values() if c.grade == "X"} == {"H0056", "H0057", "H0438", "H0480", "H0499"}


def test_the_note_wins_over_the_grade():
    noted = [c for c in evidence.claims().values() if "treat as grade F at best" in c.note]
    assert len(noted) >= 31
    assert {c.grade for c in noted} <= {"F", "X"}


def test_printed_ranges_fill_low_and_high_digit_for_digit():
    item = evidence.claim("H0104")
    assert (item.low, item.value, item.high, item.base_value, item.base_range) == (180, None, 220, 200e3, (180e3, 220e3))
    assert value_text(item) == "180 to 220 kW"
    assert value_text(evidence.claim("P0003")) == "288 GB (288 to 309.2)"
    assert evidence.claim("H0069").qualifier == "about"
    assert evidence.claim("H0122").qualifier == "at least"


def test_an_assumption_has_a_range_and_a_reason():
    for item in evidence.claims().values():
        if item.grade == "P":
            assert item.id.startswith("P")
            assert None not in (item.low, item.value, item.high), item.id
            assert item.note, item.id


def test_one_row_is_chosen_of_each_kind_and_says_why():
    groups = collections.defaultdict(list)
    for item in live():
        groups[item.subject, item.quantity, item.basis, item.profile].append(item)
    for key, group in groups.items():
        assert sum(c.chosen for c in group) == 1, key
        if len(group) > 1:
            assert "chosen of" in next(c for c in group if c.chosen).note
    assert not [c.id for c in evidence.claims().values() if c.chosen and "never chosen" in c.note]


def test_ambiguous_superseded_and_impossible_rows_are_never_chosen():
    chosen = [c for c in evidence.claims().values() if c.chosen and c.grade != "P"]
    assert not [c.id for c in chosen if re.fullmatch(AMBIGUOUS, c.subject)]
    wrong = {"H0118", "H0119", "H0120", "H0287", "H0109", "H0331", "H0414", "H0015", "H0016", "X0336", "X0370", "H0075"}
    assert not wrong & {c.id for c in chosen}


def test_traps_of_the_field_are_in_the_basis():
    for item in evidence.claims().values():
        if item.quantity.startswith("hbm_capacity_per_gpu") and item.grade != "P":
            assert item.basis == ("driver" if item.unit == "MiB" or item.id in ("P0001", "P0002") else "label"), item.id
        if item.quantity.endswith("_dense") or "_dense_per" in item.quantity:
            assert item.basis == "dense", item.id
        if "nvfp4_inference_per_rack" in item.quantity or "sparse" in item.quantity:
            assert item.basis == "sparse", item.id
        if "per direction" in item.note.split("basis as printed: ")[-1][:40] and "bidirectional" not in item.note and item.quantity != "host":
            assert item.basis == "one_direction", item.id


@pytest.mark.parametrize(("per_gpu", "per_rack", "rel"), [
    ("H0001", "H0007", 0.003), ("H0011", "H0012", 0.014), ("H0003", "H0009", 0.004), ("H0013", "H0014", 1e-9), ("H0018", "H0023", 1e-9),
    ("H0019", "H0022", 1e-9), ("H0189", "H0209", 1e-9), ("H0193", "H0212", 1e-9), ("H0194", "H0229", 1e-9), ("H0494", "H0210", 0.004),
    ("H0027", "H0026", 0.002)])
def test_72_times_one_gpu_is_the_rack(per_gpu, per_rack, rel):
    assert 72 * evidence.claim(per_gpu).base_value == pytest.approx(evidence.claim(per_rack).base_value, rel=rel)


def test_rack_price_parts_add_to_the_whole():
    parts = sum(evidence.claim(i).value for i in ("H0424", "H0429", "H0430", "H0431", "H0432", "H0433"))
    assert parts == evidence.claim("H0423").value


def test_conflicts_are_shown_with_one_chosen_and_why():
    text = "\n".join(lines("b300 nvfp4_dense"))
    assert "sources differ" in text
    assert "13,500 TFLOPS" in text
    assert "chosen of 4" in text
    profiles = "\n".join(lines("vr-nvl72 hbm_bandwidth_per_gpu"))
    assert "differs by basis or profile" in profiles
    assert {"22 TB/s", "19.2 TB/s"} <= {f"{a} {b}" for a, b in re.findall(r"(\S+) (TB/s)", profiles)}
    assert evidence.spread(evidence.claim("H0175")) == (13.5e15, 14e15)
    assert {c.id for c in evidence.conflicts(evidence.claim("H0175"))} == {"H0227", "H0251", "H0487"}
    with pytest.raises(InputError, match="must hold a number"):
        evidence.spread(evidence.claim("H0056"))


@pytest.mark.parametrize("words", ["gb300-nvl72 hbm_capacity", "GB300 NVL72 hbm capacity", "NVIDIA GB300 hbm capacity"])
def test_a_systems_name_in_any_spelling_finds_its_parts(words):
    assert {"H0190", "H0201", "H0208"} <= {c.id for c in evidence.find(words)}


def test_assumptions_stand_in_the_table_as_they_are_kept():
    kept = csv.DictReader((Path(__file__).parents[2] / "tools" / "assumptions.csv").read_text(encoding="utf-8").splitlines())
    held = {r["id"]: r for r in table("claims.csv")}
    for row in kept:
        assert {k: v for k, v in held[row["id"]].items() if k in row and k != "note"} == {k: v for k, v in row.items() if k != "note"}


def test_chosen_finds_by_subject_quantity_basis_and_profile():
    assert evidence.chosen("gb300-gpu", "nvfp4_dense", "dense").id == "H0193"
    assert evidence.chosen("rubin-gpu", "hbm_bandwidth_per_gpu", "peak", "maxlps").id == "H0011"
    assert evidence.chosen("gb300-gpu", "no such thing") is None


def test_a_users_own_value_replaces_a_claim_and_says_so():
    item = evidence.own_claim(evidence.claim("H0001"), {"H0001": {"value": 20, "low": 19, "high": 21}})
    assert (item.id, item.value, item.unit, item.grade, item.base_range) == ("own:H0001", 20, "TB/s", "P", (19e12, 21e12))
    assert evidence.own_claim(evidence.claim("H0001"), {"H0011": 1}).id == "H0001"
    for bad in (True, 0, -1, float("nan"), float("inf"), "72", None, {"low": 1}, {"value": 5, "low": 6}, 10**400):
        with pytest.raises(InputError, match=r"facts\.H0001"):
            evidence.own_claim(evidence.claim("H0001"), {"H0001": bad})


def test_vocabulary_covers_specs_and_claims_both_ways():
    words = evidence.vocabulary()
    fields = {f"field:{name}.{field.name}" for module in (specs, shapes) for name, thing in vars(module).items()
              if isinstance(thing, type) and dataclasses.is_dataclass(thing) and thing.__module__ == module.__name__
              for field in dataclasses.fields(thing)}
    assert {w for w in words if w.startswith("field:")} == fields
    units, bases = collections.defaultdict(set), collections.defaultdict(set)
    for item in evidence.claims().values():
        units[item.quantity].add(item.unit)
        bases[item.quantity].add(item.basis)
    assert {w for w in words if w.startswith("quantity:")} == {f"quantity:{q}" for q in units}
    known = set(UNITS) | {base for base, _ in UNITS.values()}
    for key, row in words.items():
        assert row["meaning"] not in ("", row["name"], row["name"].replace("_", " ")), f"{key} needs a meaning"
        assert row["name_zh"], f"{key} needs a Chinese name"
        if row["kind"] == "quantity":
            assert set(row["unit"].split()) == units[row["name"]], key
            assert set(row["basis"].split()) == bases[row["name"]], key
        elif row["kind"] == "field":
            assert row["unit"] in known, key
    assert {row["name"] for row in words.values() if row["kind"] == "basis"} == {b for found in bases.values() for b in found}


def test_facts_command(capsys):
    assert main(["facts", "vr-nvl72 hbm"]) == 0
    assert "P0003" in capsys.readouterr().out
    assert main(["facts", "no such thing"]) == 3
