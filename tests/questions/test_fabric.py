"""Every filled cell of the published fabric tables, exact, through the question that users ask."""

import csv
from pathlib import Path

import pytest

from planner.errors import Infeasible, InputError
from planner.facts.files import table
from planner.questions import check
from planner.questions.fabric import QUESTIONS

REFERENCES = Path(__file__).parents[2] / "data" / "references"
ASK = {q.name: q for q in QUESTIONS}
SUPERPOD = ("nodes", "gpus", "leaf", "spine", "core", "cables_node_leaf", "cables_leaf_spine", "cables_spine_core")
OTHER = {"gpus": "gpus", "leaf": "leaf", "spine": "spine", "core": "core", "switches_total": "switches", "links": "links_inter_switch"}


def test_every_cell_of_the_superpod_tables():
    wrong, cells = [], 0
    for row in table("superpod_tables.csv"):
        for column in SUPERPOD:
            if row[column]:
                cells += 1
                inputs = {"design": row["architecture"], "table": row["table"], "units": int(row["su"]), "quantity": column}
                got = ASK["fabric_counts"].ask(inputs).value
                wrong += [(inputs, got, row[column])] if got != int(row[column]) else []
    assert cells == 138
    assert not wrong


def test_every_cell_of_the_other_fabrics():
    wrong, cells = [], 0
    for row in table("other_fabrics.csv"):
        for column, quantity in OTHER.items():
            if row[column].isdigit():
                cells += 1
                inputs = {"design": row["system"], "endpoints": int(row["gpus"]), "quantity": quantity}
                got = ASK["fabric_counts"].ask(inputs).value
                wrong += [(inputs, got, row[column])] if got != int(row[column]) else []
    assert cells == 23
    assert not wrong


def reference_rows():
    with (REFERENCES / "fabric_counts.csv").open() as handle:
        for row in csv.DictReader(handle):
            case = check.Case(row["case"], "fabric_counts", check.strict_json(row["inputs"]), float(row["expected"]), row["unit"], float(row["rtol"]))
            yield pytest.param(case, id=row["case"])


@pytest.mark.parametrize("case", list(reference_rows()))
def test_published_counts(case):
    outcome = check.run(case)
    assert outcome.status == "ok", outcome


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"design": "DGX H100 NDR", "units": 4, "quantity": "gpus"}, "its tables differ"),
        ({"design": "DGX H100 NDR", "quantity": "leaf"}, "units is required"),
        ({"design": "DGX H100 NDR", "endpoints": 1000, "table": "larger-component-counts", "quantity": "leaf"}, "768 or 1,024"),
        ({"design": "DGX H1OO", "units": 4, "quantity": "leaf"}, "nearest: DGX H100 NDR"),
        ({"design": "DGX B300 XDR", "units": 1, "radix": 64, "quantity": "leaf"}, "radix is 144"),
        ({"design": "general", "endpoints": 100, "quantity": "leaf"}, "radix is required"),
        ({"design": "general", "radix": 64, "quantity": "leaf"}, "endpoints is required"),
        ({"design": "general", "endpoints": 100, "radix": 64, "quantity": "leafs"}, "quantity must be one of"),
        ({"design": "general", "endpoints": "100", "radix": 64, "quantity": "leaf"}, "a number"),
    ],
)
def test_refusals(inputs, words):
    with pytest.raises(InputError, match=words):
        ASK["fabric_counts"].ask(inputs)


def test_a_self_contradicting_row_is_reported_and_not_matched():
    answer = ASK["fabric_counts"].ask({"design": "DGX B300 XDR", "units": 18, "quantity": "gpus", "printed": {"nodes": 1296, "gpus": 9216}})
    assert answer.value == 10368
    assert "not the 9,216 printed" in answer.note


def test_a_printed_row_of_a_general_design_is_held_against_it():
    asked = {"design": "general", "endpoints": 512, "radix": 64, "quantity": "leaf"}
    assert "printed as" not in ASK["fabric_counts"].ask({**asked, "printed": {"leaf": 16, "spines": 8, "cables_leaf_spine": 512}}).note
    answer = ASK["fabric_counts"].ask({**asked, "printed": {"leaf": 16, "spine": 56, "switches_total": 72}})
    assert answer.value == 16
    assert "spine is printed as 56; this design has 8" in answer.note
    assert "switches_total is printed as 72; this design has 24" in answer.note


@pytest.mark.parametrize("design", [{"design": "general", "endpoints": 512, "radix": 64}, {"design": "DGX B300 XDR", "units": 1}])
@pytest.mark.parametrize(("printed", "words"), [({"leafs": 8}, "printed"), ([8], "printed must be an object"), ({"leaf": 1.5}, "whole number")])
def test_printed_cells_that_mean_nothing_are_refused(design, printed, words):
    with pytest.raises(InputError, match=words):
        ASK["fabric_counts"].ask({**design, "quantity": "leaf", "printed": printed})


@pytest.mark.parametrize(("design", "gpus"), [("slimfly", 32_928), ("dragonfly", 262_656)])
def test_a_direct_topology_without_a_size_is_the_largest_and_says_so(design, gpus):
    answer = ASK["fabric_counts"].ask({"design": design, "quantity": "gpus"})
    assert answer.value == gpus
    assert "no size was given: the largest" in answer.note
    assert "no size" not in ASK["fabric_counts"].ask({"design": design, "endpoints": 1024, "quantity": "gpus"}).note
    with pytest.raises(Infeasible, match=f"at most {gpus:,}"):
        ASK["fabric_counts"].ask({"design": design, "endpoints": gpus + 1, "quantity": "gpus"})


def test_what_was_not_published_is_not_available():
    answer = ASK["fabric_counts"].ask({"design": "OCI Supercluster", "quantity": "leaf"})
    assert answer.value is None
    assert "not published" in answer.note


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [  # the MRC paper's losses in data/reliability.csv, and the same rule on other designs
        ({"design": "OpenAI/Microsoft/NVIDIA MRC reference", "failed": {"link": 1}}, 1 - 1 / 256),
        ({"design": "mrc", "failed": {"nic_port": 1}}, 1 - 1 / 8),
        ({"design": "mrc", "failed": {"plane": 1}}, 1 - 1 / 8),
        ({"design": "general", "endpoints": 2048, "radix": 64, "failed": {"link": 1}}, 1 - 1 / 32),
        ({"design": "DGX B300 Spectrum-X twin-plane", "failed": {"plane": 1}}, 1 / 2),
        ({"design": "MPFT 8-plane", "failed": {"plane": 1}}, 1 - 1 / 8),
        ({"design": "HPN 7.0 pod", "failed": {"leaf": 1}}, 1 / 2),
        ({"design": "DGX GB200 NVL72 NDR", "units": 4, "failed": {"spine": 1}}, 1 - 1 / 6),
        ({"endpoints": 131072, "radix": 512, "planes": 8, "failed": ["r0p0-spine3"]}, 1 - 1 / 256),
    ],
)
def test_remaining_bandwidth(inputs, expected):
    answer = ASK["fabric_remaining"].ask(inputs)
    assert answer.value == pytest.approx(expected, abs=1e-12)
    assert answer.lower <= answer.value <= answer.upper


def test_most_endpoints():
    assert ASK["fabric_max_endpoints"].ask({"radix": 512, "tiers": 2}).value == 131072
    assert ASK["fabric_max_endpoints"].ask({"radix": 64, "tiers": 3}).value == 65536
    with pytest.raises(InputError, match="radix"):
        ASK["fabric_max_endpoints"].ask({"radix": 1, "tiers": 2})
