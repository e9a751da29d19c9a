"""Claims: nothing lost on the way in, everything checked whole, conflicts shown."""

import hashlib

import pytest

from planner.cli import main
from planner.errors import InputError
from planner.facts import evidence
from planner.facts.files import table
from planner.facts.show import lines
from planner.specs import Rack
from planner.units import UNITS

GOOD = dict(table("claims.csv")[0])


def test_every_collected_claim_survives():
    ids = [r["id"] for r in table("claims.csv")]
    hardware, extra = [i for i in ids if i.startswith("H")], [i for i in ids if i.startswith("X")]
    assert (len(hardware), len(extra)) == (508, 409)
    assert set(hardware) == {f"H{n:04d}" for n in range(1, 509)}
    # the extra table's numbers have gaps: hold the exact set by its digest
    assert hashlib.sha256(" ".join(sorted(extra)).encode()).hexdigest()[:16] == EXTRA


EXTRA = "bb85d93c0a5ae6c3"


def test_whole_table_is_right():
    assert len(evidence.claims()) == len(table("claims.csv"))


def check_one(**changes):
    return evidence.check([GOOD, {**GOOD, "id": "Z1", "chosen": "", **changes}], evidence.vocabulary(), {GOOD["source"]})


@pytest.mark.parametrize(("changes", "line"), [
    ({"id": GOOD["id"]}, "id must be given once"), ({"unit": "furlong"}, "unit must be a known unit"),
    ({"quantity": "no_such"}, "quantity must be a word"), ({"basis": "no_such"}, "basis must be a word"),
    ({"grade": "Q"}, "grade must be one of"), ({"source": "nobody"}, "source must be a key"),
    ({"low": "30", "high": "40"}, "value must lie between low"), ({"value": "nan"}, "value must be a finite number"),
    ({"value": "", "low": "1"}, "high must be given"), ({"value": "", "low": "2", "high": "1"}, "low must lie between low"),
    ({"grade": "X"}, "value must be empty at grade X"), ({"chosen": "1"}, "chosen must mark one row"), ({"chosen": "yes"}, "chosen must be 1")])
def test_a_bad_row_is_named(changes, line):
    with pytest.raises(InputError) as refusal:
        check_one(**changes)
    assert str(refusal.value).startswith("data/claims.csv: line 3, ")
    assert line in str(refusal.value)


def test_unpublished_is_not_zero():
    assert evidence.claim("H0056").value is None
    assert evidence.claim("H0056").grade == "X"


def test_the_note_wins_over_the_grade():
    noted = [c for c in evidence.claims().values() if "treat as grade F at best" in c.note]
    assert len(noted) >= 31
    assert {c.grade for c in noted} <= {"F", "X"}


def test_printed_ranges_fill_low_and_high():
    item = evidence.claim("H0104")
    assert (item.low, item.value, item.high, item.base_value) == (180, None, 220, 200e3)
    assert evidence.claim("H0069").qualifier == "about"


def test_conflicts_are_shown_with_one_chosen():
    text = "\n".join(lines("vr-nvl72 hbm_bandwidth_per_gpu"))
    assert "22 TB/s" in text
    assert "19.2 TB/s" in text
    assert "sources differ" in text


@pytest.mark.parametrize("subject", ["gb-nvl72", "nvl72", "vr-or-gb300-nvl72", "all-nvidia", "vr-nvl144-2025", "vr200-2025"])
def test_ambiguous_and_superseded_subjects_are_never_chosen(subject):
    assert not [c for c in evidence.claims().values() if c.subject == subject and c.chosen and c.grade != "P"]


def test_every_word_of_the_specs_and_units_is_in_the_vocabulary():
    words = evidence.vocabulary()
    assert {f"field:Rack.{f}" for f in Rack.__dataclass_fields__} <= set(words)
    import dataclasses

    import planner.specs as specs

    for name, thing in vars(specs).items():
        if isinstance(thing, type) and dataclasses.is_dataclass(thing):
            for field in dataclasses.fields(thing):
                assert f"field:{name}.{field.name}" in words
    assert all(u in UNITS for row in words.values() if row["kind"] == "quantity" for u in row["unit"].split())


def test_facts_command(capsys):
    assert main(["facts", "vr-nvl72 hbm"]) == 0
    assert "P0003" in capsys.readouterr().out
    assert main(["facts", "no such thing"]) == 3
