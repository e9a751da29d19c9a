"""Sessions through the question: the preset, tiers of a system, limits, assumptions shown, and what is refused."""

import tomllib
from pathlib import Path

import pytest

from planner.calibration import sessions as joined
from planner.errors import InputError
from planner.models import sessions as model
from planner.questions import all_questions

ROOT = Path(__file__).parents[2]
ASK = all_questions()["cache_residency"].ask
BASE = {"calls": 20, "shared_tokens": 4000, "own_tokens": 2000, "added_tokens": 1200, "output_tokens": 400, "think_s": 10, "service_s": 6,
        "pause_cv2": 1, "sessions": 200, "kv_bytes_per_token": 35136, "hbm_gb": 100}


def test_preset_finds_about_what_it_says():
    """The hit share that the preset states is near what an endless cache finds of its sessions, and never more than the interval of that."""
    load = tomllib.loads((ROOT / "scenarios" / "agentic.toml").read_text(encoding="utf-8"))["workloads"][0]
    case = joined.agentic(load["session"]["calls"], load["input_tokens"]["mean"], load["output_tokens"], load["session"]["think_s"], 15.0)
    assert model.prompt_tokens(case)["mean"] == pytest.approx(load["input_tokens"]["mean"])
    assert load["cache_hit_fraction"] <= model.structural_hit_fraction(case) < 0.99


def test_more_tiers_find_more_and_the_parts_sum():
    hbm = ASK({**BASE})
    tiers = {**BASE, "lpddr_gb": 200, "lpddr_gb_per_s": 450, "nvme_tb": 10, "nvme_gb_per_s": 13}
    parts = [ASK({**tiers, "quantity": f"{t}_hit"}).value for t in ("hbm", "lpddr", "nvme")]
    whole, most = ASK(tiers), ASK({**tiers, "quantity": "structural_hit"})
    assert parts[0] == pytest.approx(hbm.value)
    assert sum(parts) == pytest.approx(whole.value)
    assert hbm.value < whole.value <= most.value + 1e-9
    assert whole.low <= whole.value <= whole.high <= most.value + 1e-9
    left = ASK({**tiers, "quantity": "prefill_tokens_per_s"})
    rate = ASK({**tiers, "quantity": "calls_per_s"}).value
    assert left.value == pytest.approx((1 - whole.value) * rate * (4000 + 2000 + 1200 + 1600 * 9.5))
    assert ASK({**tiers, "quantity": "restore_s"}).value == pytest.approx((2000 + 1600 * 10) * 35136 / 13e9)
    assert ASK({**BASE, "hbm_gb": 0}).value == 0


def test_a_systems_tiers_and_assumptions_are_graded():
    assert ASK(BASE).grade == "A"
    mean = {k: v for k, v in BASE.items() if k not in ("added_tokens", "shared_tokens", "own_tokens", "pause_cv2")}
    found = ASK({**mean, "input_tokens": 22000, "system": "gb300-nvl72", "gpus": 8, "gpus_per_worker": 4, "people": True})
    assert found.grade == "P"
    assert "nvme" in found.note
    assert found.value > ASK({**mean, "input_tokens": 22000, "people": True}).value
    assert ASK({**mean, "input_tokens": 9000}).grade == "P"  # short prompts hold less of the assumed start


@pytest.mark.parametrize(("change", "field"), [
    ({"calls": 0}, "calls"), ({"sessions": None}, "sessions"), ({"calls_per_s": 5}, "sessions"), ({"input_tokens": 9000}, "input_tokens"),
    ({"hbm_gb": -1}, "hbm_gb"), ({"hbm_gb": None}, "hbm_gb"), ({"kv_bytes_per_token": 0}, "kv_bytes_per_token"), ({"exclusive": "yes"}, "exclusive"),
    ({"think_s": float("nan")}, "think_s"), ({"quantity": "lpddr_hit"}, "quantity"), ({"quantity": "restore_s", "tier": "tape"}, "tier"),
    ({"system": "gb300-nvl72"}, "gpus"), ({"sessions": -5}, "live_sessions"), ({"people": True, "pause_cv2": -1}, "pause.scv"),
])
def test_wrong_values_are_refused_by_name(change, field):
    with pytest.raises(InputError) as caught:
        ASK({**BASE, **change})
    assert caught.value.field.endswith(field)


def test_crowds_get_numbers():
    found = ASK({**BASE, "sessions": 1e9})
    assert found.value < 0.3
    assert "running calls fill HBM" in found.note
    with pytest.raises(InputError, match="earlier output tokens"):
        ASK({**{k: v for k, v in BASE.items() if k != "added_tokens"}, "input_tokens": 5000})
