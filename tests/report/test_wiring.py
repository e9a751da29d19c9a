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
        (["--racks", "2", "--profile", "upto", "--nics", "3"], 2),
        (["--racks", "2", "--profile", "upto", "--nics", "3", "--lanes", "4x200G"], 2),
        (["--racks", "2", "--profile", "upto", "--rails", "3", "--rails-per-gpu", "2"], 2),
        (["--racks", "2", "--profile", "upto", "--grow-to", "143"], 2),
        (["--racks", "2", "--profile", "upto", "--wiring", ""], 2),
        (["--racks", "2", "--profile", "upto", "--wiring", "."], 2),
        (["--racks", "2", "--profile", "upto", "--oversubscription", "0"], 2),
        (["--racks", "2", "--profile", "upto", "--spare-ports", "128"], 3),
        (["--racks", "1820", "--profile", "upto", "--tiers", "1"], 3),
        (["--gpus", "524289", "--profile", "upto", "--lanes", "4x200G", "--planes", "8", "--tiers", "2"], 3),
    ],
)
def test_fabric_command(words, code, capsys):
    assert main(["fabric", *words]) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert code == 0 or said.err.count("\n") == 1


@pytest.mark.parametrize("words", [["--gpus", "0"], ["--racks", "10000001"], ["--gpus", "1e3"], ["--racks", "2", "--gpus", "3"], []])
def test_what_is_no_size_is_refused_in_one_line(words, capsys):
    with pytest.raises(SystemExit) as refusal:
        main(["fabric", *words])
    assert refusal.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_fabric_that_does_not_fit_names_one_that_does(capsys):
    assert main(["fabric", "--gpus", "131040", "--profile", "upto", "--tiers", "2"]) == 3
    assert "nearest that holds them: lanes 2x400G over 4 planes in 2 tiers" in capsys.readouterr().err
    assert main(["fabric", "--gpus", "131040", "--profile", "upto", "--tiers", "2", "--lanes", "2x400G", "--planes", "4"]) == 0


def test_part_of_a_rack_is_said_and_links_are_refused_before_the_work(tmp_path, capsys):
    assert main(["fabric", "--gpus", "73", "--profile", "upto"]) == 0
    assert "2 racks of 72, 71 of their GPUs without a link" in capsys.readouterr().out
    place = tmp_path / "link.csv"
    place.symlink_to(tmp_path / "elsewhere.csv")
    assert main(["fabric", "--racks", "2", "--profile", "upto", "--wiring", str(place)]) == 2
    said = capsys.readouterr()
    assert "symbolic link" in said.err
    assert not said.out
    assert not (tmp_path / "elsewhere.csv").exists()


def test_the_articles_fabric_is_derived():
    two_tiers = choose(VR, 524288, FabricIn(lanes="4x200G", planes=8, tiers=2))
    assert two_tiers.made.net.endpoints == 131072
    assert two_tiers.made.gpus_per_rail == 131072
    assert two_tiers.made.net.up == two_tiers.made.net.down
