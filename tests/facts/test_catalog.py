"""The catalogue: fields follow the claims, profiles are never mixed, unknown stays unknown."""

import pytest

from planner.errors import InputError
from planner.facts import catalog
from planner.facts.files import table

IDS = ["h100-sxm", "h200-sxm", "h200-nvl", "b200-hgx", "gb200-nvl72", "b300-hgx", "gb300-nvl72", "vr-nvl72", "mi300x", "mi325x", "mi355x"]


def test_all_systems_are_there():
    assert set(IDS) <= set(catalog.system_names())
    assert catalog.system_names("roadmap")


def test_profiles_carry_their_columns_together():
    upto, maxlps = catalog.system("vr-nvl72", "upto").accelerator, catalog.system("vr-nvl72", "maxlps").accelerator
    assert (upto.hbm_bytes_per_s, upto.nvlink.bytes_per_s, upto.gpu_watts) == (22e12, 1.8e12, 2300)
    assert (maxlps.hbm_bytes_per_s, maxlps.nvlink.bytes_per_s, maxlps.gpu_watts) == (19.2e12, 1.5e12, 1800)


def test_a_profile_must_be_named_where_there_are_two():
    with pytest.raises(InputError, match="upto or maxlps"):
        catalog.system("vr-nvl72")
    with pytest.raises(InputError, match="one of upto, maxlps"):
        catalog.system("vr-nvl72", "fastest")
    with pytest.raises(InputError, match="not used"):
        catalog.system("gb300-nvl72", "upto")


def test_driver_memory_and_not_the_label():
    assert catalog.system("b200-hgx").accelerator.hbm_bytes == 183359 * 2**20
    assert catalog.system("gb300-nvl72").accelerator.hbm_bytes == 284208 * 2**20


def test_dense_peaks_only():
    assert catalog.system("gb300-nvl72").accelerator.peak_flops_per_s["nvfp4"] == 15e15
    assert "nvfp4" not in catalog.system("h100-sxm").accelerator.peak_flops_per_s


def test_unknown_is_none():
    nvl = catalog.system("h200-nvl")
    assert (nvl.accelerator.hbm_bytes_per_s, nvl.nic, dict(nvl.accelerator.peak_flops_per_s)) == (None, None, {})


def test_scale_out_is_one_direction_per_nic():
    vr = catalog.system("vr-nvl72", "upto")
    assert vr.nic.bytes_per_s * vr.nics_per_gpu == 200e9


def test_own_power_setting():
    assert catalog.system("gb300-nvl72", gpu_watts=1200).accelerator.gpu_watts == 1200
    for bad in (0, -5, 1e9, True):
        with pytest.raises(InputError, match="gpu_watts"):
            catalog.system("gb300-nvl72", gpu_watts=bad)


def test_claims_behind_every_field():
    behind = catalog.claims_behind(catalog.system("vr-nvl72", "upto"))
    assert behind["hbm_bytes"].grade == "P"
    assert behind["hbm_bytes"].high == pytest.approx(309.2e9)
    assert (behind["nic"].claims, behind["nic"].low) == (("H0044",), 100e9)
    assert "gpu_watts" not in catalog.claims_behind(catalog.system("vr-nvl72", "upto", 1800))


@pytest.mark.parametrize("column", [("mlperf_systems.csv", "accelerator"), ("mlperf_results.csv", "accelerator")])
def test_printed_spellings_of_catalogue_accelerators_are_known(column):
    name, field = column
    known = ("NVIDIA H100-SXM", "NVIDIA H200", "NVIDIA B200", "NVIDIA GB200", "NVIDIA B300", "NVIDIA GB300", "NVIDIA Vera", "NVIDIA VR200")
    printed = {r[field] for r in table(name) if r[field].startswith(known) and "," not in r[field] and "+" not in r[field]}
    assert printed
    assert {catalog.resolve_system(p) for p in printed} <= set(IDS)


def test_fp4_alone_is_ambiguous_and_unknown_is_refused():
    with pytest.raises(InputError, match="nvfp4"):
        catalog.resolve_precision("fp4")
    with pytest.raises(InputError, match="precision"):
        catalog.resolve_precision("fp5")
    assert catalog.resolve_precision("NVFP4") == "nvfp4"


def test_a_system_of_ones_own():
    own = catalog.system_from({"base": "gb300-nvl72", "hbm_bytes": 400e9, "nic": 200e9})
    assert (own.accelerator.hbm_bytes, own.nic.bytes_per_s, own.gpus) == (400e9, 200e9, 72)
    assert catalog.claims_behind(own) == {}
    new = catalog.system_from({"name": "mine", "hbm_bytes": 1e11, "gpus": 4})
    assert (new.usable_gpus, new.accelerator.hbm_bytes_per_s) == (4, None)
    with pytest.raises(InputError, match="is not one of"):
        catalog.system_from({"base": "gb300-nvl72", "hbm": 1})
    with pytest.raises(InputError, match="is required"):
        catalog.system_from({"name": "mine"})


def test_switch_radix():
    assert catalog.switch("sn6810").ports["200G"] == 512
    assert catalog.switch("sn5600").ports["100G"] == 512
