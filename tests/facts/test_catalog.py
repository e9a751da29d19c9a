"""The catalogue: fields follow the claims, profiles are never mixed, unknown stays unknown."""

import pytest

from planner.errors import InputError
from planner.facts import catalog, evidence

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


def test_low_and_high_span_the_conflict():
    behind = catalog.claims_behind(catalog.system("b300-hgx"))
    assert (behind["nvfp4"].low, behind["nvfp4"].high) == (13.5e15, 14e15)
    assert (behind["usable_gpus"].low if "usable_gpus" in behind else 8) == 8


def test_every_number_of_a_system_rests_on_a_claim():
    for name in IDS:
        for profile in catalog.profiles(name):
            rack = catalog.system(name, profile)
            behind, gpu = catalog.claims_behind(rack), rack.accelerator
            held = {f: getattr(gpu, f) for f in ("hbm_bytes", "hbm_bytes_per_s", "gpu_watts", "host_bytes")} | dict(gpu.peak_flops_per_s)
            held |= {f: link and link.bytes_per_s for f, link in (("nvlink", gpu.nvlink), ("c2c", gpu.c2c), ("nic", rack.nic))}
            held |= {"overhead_watts": rack.overhead_watts, "rack_watts": rack.rack_watts, "gpus": rack.gpus}
            for field, value in held.items():
                assert (value is None) == (field not in behind), (name, field)
                if value is not None:
                    assert behind[field].low <= value * (1 + 1e-12), (name, field)
                    assert value <= behind[field].high * (1 + 1e-12), (name, field)
            assert all(c in evidence.claims() for b in behind.values() for c in b.claims)


def test_counts():
    vr, gb = catalog.system("vr-nvl72", "maxlps"), catalog.system("gb200-nvl72")
    assert (vr.gpus, vr.domain_gpus, vr.usable_gpus, vr.gpus_per_tray, vr.nics_per_gpu) == (72, 72, 64, 4, 2)
    assert (gb.gpus, gb.usable_gpus, gb.gpus_per_tray, gb.nics_per_gpu, gb.nic.bytes_per_s) == (72, 64, 4, 1, 50e9)
    assert catalog.system("h200-sxm").usable_gpus == 8


def test_roadmap_systems_say_so_and_hold_no_invented_speed():
    for name in catalog.system_names("roadmap"):
        rack = catalog.system(name)
        assert rack.status == "roadmap"
        assert not rack.accelerator.peak_flops_per_s
        assert catalog.claims_behind(rack)["hbm_bytes"].grade == "P"


def test_a_power_cap_is_a_system_of_its_own():
    assert catalog.system("AMD Instinct MI355X 288GB HBM3e (Power Cap 1000 W)").accelerator.gpu_watts == 1000
    assert catalog.system("mi355x").accelerator.gpu_watts == 1400


def test_own_facts_replace_a_field_or_a_claim():
    facts = {"vr-nvl72.hbm_bytes_per_s": {"value": 20e12, "low": 18e12, "high": 22e12}, "H0003": 3.0, "gb300-nvl72.gpu_watts": 900}
    rack = catalog.system("vr-nvl72", "upto", facts=facts)
    behind = catalog.claims_behind(rack, facts)
    assert (rack.accelerator.hbm_bytes_per_s, rack.accelerator.nvlink.bytes_per_s, rack.accelerator.gpu_watts) == (20e12, 1.5e12, 2300)
    own = behind["hbm_bytes_per_s"]
    assert (own.own, own.claims, own.grade, own.low) == (True, ("own:vr-nvl72.hbm_bytes_per_s",), "P", 18e12)
    assert behind["nvlink"].claims == ("own:H0003",)
    assert not behind["hbm_bytes"].own
    only = {"vr-nvl72/maxlps.nic": 5e10}
    assert catalog.system("vr-nvl72", "upto", facts=only).nic.bytes_per_s == 100e9
    assert catalog.system("vr-nvl72", "maxlps", facts=only).nic.bytes_per_s == 5e10
    with pytest.raises(InputError, match="must end in one of"):
        catalog.system("vr-nvl72", "upto", facts={"vr-nvl72.speed": 1})
    with pytest.raises(InputError, match=r"must be an id of data/claims\.csv"):
        catalog.system("vr-nvl72", "upto", facts={"H9999": 1})
    with pytest.raises(InputError, match="whole number"):
        catalog.system("vr-nvl72", "upto", facts={"vr-nvl72.gpus": 71.5})


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
    nested = catalog.system_from({"system": "vr-nvl72", "profile": "upto", "accelerator": {"hbm_bytes": 3e11}, "nvlink": {"bytes_per_s": 1e12}})
    assert (nested.accelerator.hbm_bytes, nested.accelerator.nvlink.bytes_per_s, nested.accelerator.hbm_bytes_per_s) == (3e11, 1e12, 22e12)


@pytest.mark.parametrize("given", [
    {"base": "gb300-nvl72", "hbm": 1}, {"name": "mine"}, {"base": "gb300-nvl72", "nvlink": {"speed": 1}}, {"base": "gb300-nvl72", "nic": "fast"},
    {"base": "gb300-nvl72", "peak_flops_per_s": [1]}, {"base": "gb300-nvl72", "gpus": True}, {"base": "gb300-nvl72", "hbm_bytes": "72"},
    {"base": "gb300-nvl72", "name": 7}, {"base": "vr-nvl72"}, {"base": "gb300-nvl72", "hbm_bytes": 10**400}, 7, None, ["gb300-nvl72"]])
def test_a_bad_system_of_ones_own_is_named(given):
    with pytest.raises(InputError):
        catalog.system_from(given)


@pytest.mark.parametrize(("name", "speed", "ports"), [
    ("51.2T", "800G", 64), ("Spectrum-4", "400G", 128), ("Tomahawk5", "100G", 512), ("102.4T", "1600G", 64), ("102.4T", "800G", 128),
    ("Spectrum-6", "200G", 512), ("102.4T", "100G", 512), ("sn6810", "200G", 512), ("sn6800", "200G", 2048), ("QM9700", "400G", 64),
    ("Q3400-RA", "800G", 144), ("sn5400", "400G", 64)])
def test_switch_radix(name, speed, ports):
    assert catalog.switch(name).ports[speed] == ports


def test_switch_capacity_is_one_direction():
    assert catalog.switch("qm9700").total_bytes_per_s == 25.6e12 / 8
    for name in catalog.switch_names():
        item = catalog.switch(name)
        assert max(int(s[:-1]) * n for s, n in item.ports.items()) * 1e9 / 8 <= item.total_bytes_per_s * 1.001, name
    assert catalog.switch("sn5610").watts == 2080
    with pytest.raises(InputError, match="switch"):
        catalog.switch("sn9999")


@pytest.mark.parametrize(("field", "value", "allowed"), [
    ("hbm_bytes", 288, "1e+09 to 1e+14 B of one GPU"), ("hbm_bytes", 288e15, "1e+09 to 1e+14 B"), ("hbm_bytes_per_s", 22, "1e+09 to 1e+15 B/s"),
    ("nvfp4", 50, "1e+12 to 1e+19 FLOP/s"), ("bf16", 2.5e20, "1e+12 to 1e+19 FLOP/s"), ("gpu_watts", 1.4, "10 to 100000 W"),
    ("gpu_watts", 1.4e6, "10 to 100000 W"), ("hbm_bytes", {"value": 288e9, "low": 280, "high": 290e9}, "1e+09 to 1e+14 B"),
])
def test_facts_that_no_gpu_can_have_are_refused_at_the_key(field, value, allowed):
    with pytest.raises(InputError) as refusal:
        catalog.system("gb300-nvl72", facts={f"gb300-nvl72.{field}": value})
    assert f"facts.gb300-nvl72.{field} must be {allowed}" in str(refusal.value)
    if isinstance(value, (int, float)):
        own = {"name": "own", "hbm_bytes": 288e9, "gpus": 8}
        with pytest.raises(InputError, match="of one GPU"):
            catalog.system_from(own | ({"peak_flops_per_s": {field: value}} if field in catalog.FORMATS else {field: value}))


def test_every_gpu_of_the_catalogue_is_possible():
    for name in catalog.system_names():
        for profile in catalog.profiles(name):
            for field, item in catalog.claims_of(name, profile).items():
                if field in catalog.POSSIBLE and item.base_value is not None:
                    assert catalog.POSSIBLE[field][0] * 5 <= item.base_value <= catalog.POSSIBLE[field][1] / 10, (name, field)
