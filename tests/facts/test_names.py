"""Every spelling that the shipped tables print is understood, or refused for a reason that stands here."""

import re

import pytest

from planner.errors import InputError
from planner.facts import catalog, evidence, modelcards, names
from planner.facts.files import table
from planner.facts.formats import formats
from planner.units import UNITS

MIXED = re.compile(r"\+| and |\), AMD")
NO_LANGUAGE_MODEL = {"wan-2.2-t2v-a14b", "dlrm-v3"}


def column(file, name):
    return sorted({r[name] for r in table(file) if r[name]})


@pytest.mark.parametrize("file", ["mlperf_results.csv", "mlperf_systems.csv", "mlperf_latency.csv"])
def test_accelerators(file):
    for spelling in column(file, "accelerator"):
        if MIXED.search(spelling):
            with pytest.raises(InputError, match="mix of systems"):
                names.resolve_system(spelling)
        else:
            assert names.resolve_system(spelling) in catalog.system_names(), spelling


@pytest.mark.parametrize(("file", "field", "refused"), [
    ("prices.csv", "gpu", {"any", "B300/B200", "H200/H100"}), ("power_and_price_estimates.csv", "gpu", {"tpuv7"}),
    ("vllm_memory_measured.csv", "gpu", set())])
def test_systems_in_other_tables(file, field, refused):
    found = set()
    for spelling in column(file, field):
        try:
            assert names.resolve_system(spelling) in catalog.system_names()
        except InputError:
            found.add(spelling)
    assert found == refused


def test_names_of_the_handed_notes():
    for spelling, name in {"b200_sxm": "b200-hgx", "gb200": "gb200-nvl72", "h800": "h800-sxm", "B300": "b300-hgx", "dgx-h100": "h100-sxm",
                           "gb300-cluster": "gb300-nvl72", "vera-rubin-superchip": "vr-nvl72", "VR200": "vr-nvl72", "A100-80GB": "a100-sxm",
                           "gb300_nvl72": "gb300-nvl72", " GB300   NVL72 ": "gb300-nvl72"}.items():
        assert names.resolve_system(spelling) == name
    for spelling in ("gb-nvl72", "nvl72", "Blackwell"):
        with pytest.raises(InputError, match="ambiguous"):
            names.resolve_system(spelling)


@pytest.mark.parametrize("file", ["mlperf_results.csv", "mlperf_constraints.csv", "model_sizes.csv", "vllm_memory_measured.csv"])
def test_models(file):
    for spelling in column(file, "model"):
        if spelling in NO_LANGUAGE_MODEL:
            with pytest.raises(InputError):
                names.resolve_model(spelling)
        else:
            assert names.resolve_model(spelling) in modelcards.catalogue(), spelling


def test_aliases_lead_somewhere():
    known = {"system": set(catalog.system_names()), "model": set(modelcards.catalogue()), "precision": set(formats()), "unit": set(UNITS),
             "switch": set(catalog.switch_names()), "subject": {c.subject for c in evidence.claims().values()} | set(catalog.system_names())}
    for row in table("aliases.csv"):
        if row["kind"] in known and row["name"] != "ambiguous":
            assert row["name"] in known[row["kind"]], row
        if row["name"] == "ambiguous":
            assert row["note"], row


def test_every_shipped_model_is_found_with_and_without_its_owner():
    for name in modelcards.catalogue():
        assert names.resolve_model(name) == name
        assert names.resolve_model(name.upper()) == name


@pytest.mark.parametrize(("spelling", "name"), [("NVFP4", "nvfp4"), ("e4m3", "fp8"), ("bf-16", "bf16"), ("w4a8_mxfp4_mxfp8", "mxfp4"),
                                                ("FP8-MX", "mxfp8"), ("int4", "int4"), ("nvfp4, fp8 KV", "nvfp4"), ("FP8-CS", "fp8")])
def test_precisions(spelling, name):
    assert names.resolve_precision(spelling) == name


@pytest.mark.parametrize("spelling", ["fp4", "FP4", "8bit", "4bit", "fp4 MoE, fp8 attention", "bf16, fp8, fp4"])
def test_ambiguous_precisions_are_refused(spelling):
    with pytest.raises(InputError, match="ambiguous"):
        names.resolve_precision(spelling)


@pytest.mark.parametrize("spelling", ["fp5", "", " ", None, 8, True, "x" * 10_000, "nvfp4\0"])
def test_unknown_precisions_are_refused(spelling):
    with pytest.raises(InputError, match="precision"):
        names.resolve_precision(spelling)


def test_printed_units_of_claims():
    for row in table("claims.csv"):
        printed = re.search(r"unit as printed: ([^;]+)", row["note"])
        if printed and row["text"] == "" and row["unit"] not in ("1", "USD/GB", "USD/h", "USD/month", "USD/kW-month", "USD/GPU-h"):
            assert names.resolve_unit(printed[1]) == row["unit"], row["id"]
    for spelling in column("reliability.csv", "unit"):
        assert spelling == "per 1000 node-days" or names.resolve_unit(spelling) in UNITS


def test_units_keep_their_case():
    assert (names.resolve_unit("GBps"), names.resolve_unit("Gbps"), names.resolve_unit("GB/s"), names.resolve_unit("Gb/s")) == (
        "GB/s", "Gb/s", "GB/s", "Gb/s")
    with pytest.raises(InputError, match="case matters"):
        names.resolve_unit("gbps")


@pytest.mark.parametrize(("kind", "spelling"), [("engine", "dynamo-trtllm"), ("engine", "in-house"), ("release", "1.2.0rc6.post2"),
                                                ("release", "v6.0+"), ("release", "6.1")])
def test_engines_and_releases(kind, spelling):
    assert names.resolve(kind, spelling)
