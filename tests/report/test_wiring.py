"""The wiring plan: every cable once, ports used once, counts equal to the design's, files whole or absent."""

import pandas as pd
import pytest

from planner.cli import main
from planner.errors import InputError
from planner.facts.catalog import system
from planner.plan.fabric import choose
from planner.report.wiring import tables, write_wiring
from planner.scenario import FabricIn

VR = system("vr-nvl72", "upto")


@pytest.mark.parametrize(
    ("gpus", "given"),
    [
        (144, {"lanes": "4x200G", "planes": 4}),
        (144, {}),
        (1152, {"lanes": "4x200G", "planes": 8}),
        (2304, {"lanes": "1x800G", "tiers": 3}),
        (73, {"lanes": "2x400G", "planes": 2}),
    ],
)
def test_every_cable_once_and_no_port_twice(gpus, given):
    choice = choose(VR, gpus, FabricIn(**given))
    frame = pd.concat([pd.DataFrame(t) for t in tables(choice, VR)])
    assert len(frame) == choice.made.counts["links"]
    a = frame.a_device + ":" + frame.a_nic.astype(str) + ":" + frame.a_port.astype(str)
    ends = pd.concat([a, frame.b_device + ":-1:" + frame.b_port.astype(str)])
    assert not ends.duplicated().any()
    assert (frame[frame.layer == "host"].groupby("a_device").size() == choice.made.ports_per_gpu).all()


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_files_hold_what_the_design_counts(tmp_path, ending):
    choice = choose(VR, 144, FabricIn(lanes="4x200G", planes=4))
    path = tmp_path / f"w{ending}"
    assert write_wiring(choice, VR, path) == choice.made.counts["links"]
    frame = pd.read_csv(path) if ending == ".csv" else pd.read_parquet(path)
    assert len(frame) == choice.made.counts["links"]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("path", ["w.txt", "absent/w.csv"])
def test_bad_places_are_refused_and_leave_nothing(tmp_path, path):
    with pytest.raises(InputError, match="--wiring"):
        write_wiring(choose(VR, 144, FabricIn()), VR, tmp_path / path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--racks", "2", "--profile", "upto"], 0),
        (["--gpus", "71", "--profile", "upto"], 0),
        (["--gpus", "73", "--profile", "upto"], 0),
        (["--racks", "2"], 2),
        (["--racks", "2", "--profile", "upto", "--lanes", "3x200G"], 2),
        (["--racks", "2", "--profile", "upto", "--lanes", "2x800G"], 2),
        (["--racks", "2", "--profile", "upto", "--planes", "3"], 2),
        (["--gpus", "10000000", "--profile", "upto", "--tiers", "2"], 3),
        (["--gpus", "524289", "--profile", "upto", "--lanes", "4x200G", "--planes", "8", "--tiers", "2"], 3),
    ],
)
def test_fabric_command(words, code, capsys):
    assert main(["fabric", *words]) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert code == 0 or said.err.count("\n") == 1


def test_zero_gpus_are_refused():
    with pytest.raises(SystemExit) as refusal:
        main(["fabric", "--gpus", "0"])
    assert refusal.value.code == 2


def test_the_articles_fabric_is_derived():
    two_tiers = choose(VR, 524288, FabricIn(lanes="4x200G", planes=8, tiers=2))
    assert two_tiers.made.net.endpoints == 131072
    assert two_tiers.made.gpus_per_rail == 131072
    assert two_tiers.made.net.up == two_tiers.made.net.down
