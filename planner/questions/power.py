"""Questions about node and rack power, coolant, racks that a site feeds, and tokens per megawatt on a named boundary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from planner.calibration import power as calibrated
from planner.calibration.table import Constant
from planner.errors import InputError
from planner.facts import catalog, metered
from planner.models import power
from planner.plan.answer import Answer, exact
from planner.questions.registry import Input, Question
from planner.specs import Rack
from planner.units import count, fraction, positive

WORDS = {"provisioned": "max maximum peak full tdp limit nameplate", "idle": "none", "offline": "saturated batch",
         "server": "inference serving typical average mean", "interactive": "", "training": "train"}
KINDS = {word: kind for kind, words in WORDS.items() for word in (kind, *words.split())} | {"batch 1": "batch 1"}


def _number_or_none(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def load_of(inputs: Mapping) -> tuple[Constant, dict[str, str]]:
    """Return the load of a question, and the words given with it: model, scenario, platform, cooling.

    A number is the share of the way from idle to the GPU's limit; text is a kind of work, or a model and a scenario; an object holds either.
    Raises: InputError.
    """
    words = {k: inputs[k] for k in ("model", "scenario", "platform", "cooling") if k in inputs}
    given = inputs.get("load", inputs.get("scenario", "provisioned"))
    if isinstance(given, Mapping):
        names = {"fraction": "load", "load": "load", "gpu_load_fraction": "load", "load_fraction": "load", "utilisation": "load", "kind": "load",
                 "workload": "load", "model": "model", "scenario": "scenario", "platform": "platform", "cooling": "cooling"}
        for key, value in given.items():
            if key not in names:
                raise InputError(f"load.{key}", value, f"must be one of {', '.join(names)}")
            words[names[key]] = value
        given = words.pop("load", words.get("scenario", "provisioned"))
    share = _number_or_none(given)
    if share is not None:
        value = float(fraction("load", share))
        return Constant("load_fraction", "given", value, value, value, "fraction", 0, "", ""), words
    if not isinstance(given, str):
        raise InputError("load", given, f"must be a share in 0..1, one of {', '.join(dict.fromkeys(KINDS.values()))}, or {{model, scenario}}")
    text = " ".join(re.sub(r"[_/,]", " ", given.lower()).split())
    if text not in KINDS:
        scenario = next((w for w in ("offline", "server", "interactive", "training", "idle") if w in text.split()), None)
        if scenario is None:
            raise InputError("load", given, f"must be a share in 0..1 or one of {', '.join(dict.fromkeys(KINDS.values()))}")
        words.setdefault("model", " ".join(w for w in text.split() if w != scenario))
        text = scenario
    return calibrated.load_fraction(KINDS[text]), words


def system_of(inputs: Mapping) -> Rack:
    """Return the system of a question at its power setting. Raises: InputError."""
    setting = inputs.get("gpu_watts")
    rack = catalog.system_from(inputs["system"], inputs.get("profile"), None if setting is None else float(positive("gpu_watts", setting)))
    if rack.accelerator.gpu_watts is None:
        raise InputError("gpu_watts", None, f"is required: no power setting of {rack.label} is known")
    return rack


def _answer(name: str, watts: np.ndarray, load: Constant, **more) -> Answer:
    low, high = np.percentile(watts[1:], [10, 90])
    value = float(watts[0])
    fields = {"how": "assumed" if load.rows == 0 and load.scope not in ("given", "idle", "provisioned") else "modelled", "grade": "P",
              "low": float(min(low, value)), "high": float(max(high, value)), **more}
    return Answer(name, value, "W", **fields)


def _chassis(rack: Rack, words: Mapping) -> tuple[str, str]:
    """Return (air or liquid, note) of an eight-GPU node: as said, as its platform is described, as the metered run, or air."""
    if "cooling" in words:
        return metered.cooling_kind(words["cooling"]), ""
    platform = words.get("platform") or metered.platform(rack.name, words.get("model", ""), words.get("scenario", ""))
    if platform:
        found = metered.cooling(platform)
        return metered.cooling_kind(found), f"chassis {platform}: {found.lower()}"
    return "air", "air-cooled chassis assumed; a liquid-cooled one draws about 15 % less"


def _node(inputs: dict) -> Answer:
    load, words = load_of(inputs)
    rack = system_of(inputs)
    gpus = int(count("gpus", inputs.get("gpus", rack.gpus_per_tray), 1, 16))
    at = f"GPU setting {rack.accelerator.gpu_watts:,.0f} W, load {load.value:.2f} ({load.scope})"
    if rack.gpus > 16:
        parts = calibrated.tray_watts(rack, load)
        parts = {k: v * gpus / rack.gpus_per_tray for k, v in parts.items()}
        basis, note = f"one compute tray of {gpus} GPUs at the busbar, switch trays and conversion not in it; {at}", ""
    else:
        if "scenario" not in words and load.scope in ("offline", "server", "interactive"):
            words = {**words, "scenario": load.scope}
        kind, note = _chassis(rack, words)
        parts, basis = calibrated.node_watts(gpus, rack.accelerator.gpu_watts, load, kind), f"node at the wall, {kind}-cooled; {at}"
    listed = ", ".join(f"{k} {v[0]:,.0f} W" for k, v in parts.items())
    return _answer("node_watts", sum(parts.values()), load, basis=basis, note="; ".join(n for n in (listed, note) if n),
                   limit="two measured rows are all there is")


def _rack(inputs: dict) -> Answer:
    load, _ = load_of(inputs)
    rack = system_of(inputs)
    quantity, boundary = inputs["quantity"], inputs.get("boundary", "facility" if "pue" in inputs else "it")
    named = calibrated.rack_parts(rack)
    if quantity not in ("total", "gpus", "overhead") and quantity not in named:
        raise InputError("quantity", quantity, f"must be total, gpus, overhead or one of {', '.join(named)}")
    if boundary not in ("gpu", "it", "facility"):
        raise InputError("boundary", boundary, "must be gpu, it or facility")
    if boundary == "gpu" and quantity not in ("total", "gpus", "GPUs"):
        raise InputError("boundary", boundary, f"holds the GPUs alone, and {quantity} is asked")
    if boundary == "facility" and "pue" not in inputs:
        raise InputError("pue", None, "is required for the facility boundary")
    if boundary != "facility" and "pue" in inputs:
        raise InputError("pue", inputs["pue"], f"has no effect on the {boundary} boundary: leave it out, or ask for facility")
    ratio = inputs["pue"] if boundary == "facility" else 1.0
    if quantity in named and quantity != "GPUs":
        if load.value < 1:
            raise InputError("load", inputs.get("load"), f"has no effect on {quantity}: a named part is given as provisioned")
        watts = float(power.facility_watts(named[quantity], ratio))
        return Answer("rack_watts", watts, "W", "assumed", "P", basis=f"provisioned, one rack, {boundary} boundary",
                      note="a part; the parts sum to the rack")
    whole = calibrated.rack_watts(rack, load)
    watts = {"total": sum(whole.values()), "overhead": whole["rest of the rack"]}.get(quantity, whole["GPUs"])
    watts = power.facility_watts(whole["GPUs"] if boundary == "gpu" else watts, ratio)
    at = f"{boundary} boundary, one {'rack' if rack.gpus > 16 else 'node'} of {rack.gpus} GPUs at {rack.accelerator.gpu_watts:,.0f} W, {load.scope}"
    note = f"published: {rack.rack_watts / 1e3:,.0f} kW" if rack.rack_watts else "no rack power is published"
    return _answer("rack_watts", watts, load, basis=at, note=note)


def _fit(inputs: dict) -> Answer:
    unused = [k for k in SYSTEM if k in inputs]
    if "rack_watts" in inputs:
        each, grade = np.repeat(float(positive("rack_watts", inputs["rack_watts"])), 2), "A"
        said, note = "as given", f"rack power as given: {', '.join(unused)} not used" if unused else ""
    elif "system" in inputs:
        load, _ = load_of(inputs)
        each, grade = sum(calibrated.rack_watts(system_of(inputs), load).values()), "P"
        said = f"load {load.value:.2f} ({load.scope})"
        note = "" if load.value >= 1 else "sized below the provisioned power: the site must cap what racks draw above this load"
    else:
        raise InputError("rack_watts", None, "is required, or a system")
    redundancy = str(inputs["redundancy"]).upper().replace(" ", "")
    if redundancy not in ("N", "2N", "N+N", "N+1"):
        raise InputError("redundancy", inputs["redundancy"], "must be N, N+1 (with feeds) or 2N")
    if redundancy == "N+1" and "feeds" not in inputs:
        raise InputError("feeds", None, "is required for N+1: how many feeds there are, one of which may fail")
    feeds = int(count("feeds", inputs.get("feeds", 1 if redundancy == "N" else 2), 1 if redundancy == "N" else 2, 10_000))
    if redundancy in ("2N", "N+N") and feeds % 2:
        raise InputError("feeds", feeds, f"must be even for {redundancy}: one half stands in for the other")
    down = {"N": 0, "N+1": 1}.get(redundancy, feeds // 2)
    ends = (each[0], max(np.percentile(each[1:], 90), each[0]), min(np.percentile(each[1:], 10), each[0]))
    value, low, high = (int(power.racks_that_fit(float(positive("site_watts", inputs["site_watts"])), float(e), inputs["pue"], feeds, down))
                        for e in ends)
    return exact("racks_that_fit", value, "racks", grade=grade, how="exact" if grade == "A" else "modelled", low=low, high=high, note=note,
                 basis=f"facility power, PUE {inputs['pue']:g}, {redundancy}, {each[0] / 1e3:,.1f} kW a rack, {said}")


def _pool(inputs: dict) -> Answer:
    return exact("pool_watts", float(power.pool_watts(inputs["units"], inputs["busy"], inputs["busy_watts"], inputs["idle_watts"])), "W",
                 basis="busy and idle units together")


def _pue(inputs: dict) -> Answer:
    return exact("pue", float(power.pue_ratio(inputs["facility_watts"], inputs["it_watts"])), "ratio", basis="facility over IT")


def _facility(inputs: dict) -> Answer:
    has = [k for k in ("watts", "joules") if k in inputs]
    if len(has) != 1:
        raise InputError("watts", None, "give power (watts, kw, mw) or energy (kwh) once")
    value = float(power.facility_watts(inputs[has[0]], inputs["pue"], inputs["basis"]))
    value, unit = (value, "W") if has[0] == "watts" else (value / 3.6e6, "kWh")
    return exact("facility_watts", value, unit, basis="facility; PUE applied once")


def watts_input(meaning: str, *stems: str, required: bool = False) -> Input:
    """Return an input in watts with the spellings stem_w, stem_kw, stem_mw and kw_stem; an empty stem allows w, kw, mw alone."""
    units = {"w": "W", "watts": "W", "kw": "kW", "mw": "MW"}
    pairs = [(s, u, base) for s in stems for u, base in units.items()]
    also = {f"{s}_{u}" if s else u: base for s, u, base in pairs} | {f"{u}_{s}": base for s, u, base in pairs if s}
    return Input(meaning, "W", required=required, also=also)


SETTING = ("gpu_w", "tgp", "tgp_w", "tdp_w", "setting_watts", "setting_w")
SYSTEM = {"system": Input("a system by name, or an object with its fields", structured=True, also={"gpu": "", "accelerator": "", "rack": ""}),
          "profile": Input("upto or maxlps, where the system has two"),
          "gpu_watts": Input("another power setting of the GPU", "W", also=dict.fromkeys(SETTING, "W")),
          "load": Input("share from idle to limit, provisioned, idle, offline, server, interactive, training, or {model, scenario}",
                        structured=True, also={"workload": "", "load_fraction": ""}),
          "model": Input("the model that runs, where the load is a scenario"), "scenario": Input("offline, server or interactive"),
          "platform": Input("an MLPerf platform name, for its cooling"), "cooling": Input("air or liquid")}
PUE = {"pue": Input("facility power over IT power, >= 1", "ratio")}
REQUIRED_SYSTEM = {**SYSTEM, "system": replace(SYSTEM["system"], required=True)}
QUESTIONS = (
    Question("node_watts", "Power of an eight-GPU node at the wall, or of a compute tray at the busbar", "W", "planner.calibration.power.node_watts",
             {**REQUIRED_SYSTEM, "gpus": Input("GPUs of the node or tray", "count", also={"num_gpus": ""})}, _node),
    Question("rack_watts", "Power of one rack (or eight-GPU node), GPUs and the rest", "W", "planner.calibration.power.rack_watts",
             {**REQUIRED_SYSTEM, **PUE, "boundary": Input("gpu, it or facility; absent: it, or facility with a pue"),
              "quantity": Input("total, gpus, overhead, or a named part", default="total", also={"part": ""})}, _rack),
    Question("racks_that_fit", "Whole racks that a site feeds", "racks", "planner.models.power.racks_that_fit",
             {**SYSTEM, "site_watts": watts_input("power at the meter", "site", "facility", "", required=True),
              "rack_watts": watts_input("IT power of a rack", "rack"),
              "pue": Input("facility power over IT power, >= 1", "ratio", default=1.0),
              "redundancy": Input("N, N+1 (with feeds) or 2N", default="N"), "feeds": Input("power feeds", "count")}, _fit),
    Question("pool_watts", "Power of a pool of which some units work", "W", "planner.models.power.pool_watts",
             {"units": Input("units in the pool", "count", required=True, also={"gpus": ""}), "busy": Input("units at work", "count", required=True),
              "busy_watts": watts_input("power of a unit at work", "busy", required=True),
              "idle_watts": watts_input("power of a unit at rest", "idle", required=True)}, _pool),
    Question("pue", "Facility power over IT power", "ratio", "planner.models.power.pue_ratio",
             {"facility_watts": watts_input("at the meter", "facility", required=True), "it_watts": watts_input("IT", "it", required=True)}, _pue),
    Question("facility_watts", "Power or energy at the meter, PUE applied once", "W", "planner.models.power.facility_watts",
             {"watts": watts_input("power", "power", ""),
              "joules": Input("energy instead", "J", also={"energy_kwh": "kWh", "kwh": "kWh", "energy_mwh": "MWh"}),
              "basis": Input("what is given: it or facility", default="it"), "pue": Input("facility over IT", "ratio", required=True)}, _facility),
)

