"""Tokens per second per megawatt: which tokens, which GPUs, which boundary, which per-user speed, average or provisioned."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.calibration import power as calibrated
from planner.errors import InputError
from planner.models import power
from planner.plan.answer import Answer, exact
from planner.questions.power import PUE, SYSTEM, load_of, system_of, watts_input
from planner.questions.registry import Input, Question
from planner.units import count, nonnegative, positive

BOUNDARIES = ("gpu", "it", "facility")


def _watts_per_gpu(inputs: Mapping) -> tuple[np.ndarray, str, str, str]:
    """Return (power [W] of one GPU, or of everything where only totals are given, central first), its boundary, note and grade."""
    given = [k for k in ("watts_per_gpu", "it_watts", "facility_watts", "system") if k in inputs]
    if given == ["system"]:
        rack = system_of(inputs)
        usual = inputs.get("scenario", "typical") if inputs.get("power", "average" if "scenario" in inputs else "") == "average" else "provisioned"
        load, _ = load_of({"load": usual, **inputs})
        if "power_boundary" in inputs:
            raise InputError("power_boundary", inputs["power_boundary"], "has no effect on a system's power: ask for a boundary")
        if (inputs.get("power") == "provisioned" and load.value < 1) or (inputs.get("power") == "average" and load.scope == "provisioned"):
            raise InputError("load", inputs["load"], f"contradicts power = {inputs['power']}")
        parts = calibrated.rack_watts(rack, load)
        boundary = "gpu" if inputs.get("boundary") == "gpu" else "it"
        watts = (parts["GPUs"] if boundary == "gpu" else sum(parts.values())) / rack.gpus
        return watts, boundary, f"{rack.label}, load {load.value:.2f} ({load.scope})", "P"
    given = [k for k in given if k != "system"]
    if len(given) != 1:
        raise InputError("watts_per_gpu", " and ".join(given) or None, "give power once: watts_per_gpu, it_watts, facility_watts or a system")
    boundary = {"it_watts": "it", "facility_watts": "facility"}.get(given[0], inputs.get("power_boundary", "it"))
    if inputs.get("power_boundary", boundary) != boundary:
        raise InputError("power_boundary", inputs["power_boundary"], f"contradicts {given[0]}")
    if boundary not in BOUNDARIES:
        raise InputError("power_boundary", boundary, f"must be one of {', '.join(BOUNDARIES)}")
    unused = [k for k in ("system", "profile", "gpu_watts", "load", "model", "scenario", "platform", "cooling") if k in inputs]
    note = f"power as given: {', '.join(unused)} not used" if unused else ""
    return np.repeat(positive(given[0], inputs[given[0]]), 2), boundary, note, "A"


def token_rate(inputs: Mapping) -> tuple[float, str, bool]:
    """Return (tokens per second [1/s], which tokens, whether of one GPU) of the tokens that a question asks for.

    `tokens_counted` says what the rate counts, `tokens` what is asked; input and output lengths turn one into the other. Raises: InputError.
    """
    rates = {"tokens_per_s": False, "tokens_per_s_per_gpu": True, "total_tokens_per_s": False, "total_tokens_per_s_per_gpu": True}
    given = [k for k in rates if k in inputs]
    if len(given) != 1:
        raise InputError("tokens_per_s", None if not given else " and ".join(given), "give the throughput once: tokens_per_s or tokens_per_s_per_gpu")
    counted = "total" if given[0].startswith("total") else inputs.get("tokens_counted", "output")
    wanted = inputs.get("tokens", "output" if counted == "total" and "output_tokens" in inputs else counted)
    for name, value in (("tokens_counted", counted), ("tokens", wanted)):
        if value not in ("input", "output", "total"):
            raise InputError(name, value, "must be input, output or total")
    rate = float(nonnegative(given[0], inputs[given[0]]))
    if counted != wanted:
        for name in ("input_tokens", "output_tokens"):
            if name not in inputs:
                raise InputError(name, None, f"is required to turn {counted} into {wanted} tokens")
        inside, out = float(nonnegative("input_tokens", inputs["input_tokens"])), float(positive("output_tokens", inputs["output_tokens"]))
        weights = {"input": inside, "output": out, "total": inside + out}
        if weights[counted] <= 0:
            raise InputError("input_tokens", inside, "must be > 0: the rate counts input tokens")
        rate = power.output_tokens_per_s(rate, inside, out) if (counted, wanted) == ("total", "output") else rate * weights[wanted] / weights[counted]
    return float(rate), wanted, rates[given[0]]


def _unsaid(inputs: Mapping, name: str) -> str:
    return "" if name in inputs else " (not stated)"


def _tokens_per_mw(inputs: dict) -> Answer:
    watts, had, source, grade = _watts_per_gpu(inputs)
    rate, tokens, per_gpu = token_rate(inputs)
    alone = any(k in inputs for k in ("it_watts", "facility_watts"))
    if per_gpu and alone:
        watts = watts / int(count("gpus", inputs.get("gpus")))
    elif not per_gpu and not alone:
        watts = watts * int(count("gpus", inputs.get("gpus")))
    boundary = inputs.get("boundary", "facility" if "pue" in inputs else had)
    if boundary not in BOUNDARIES:
        raise InputError("boundary", boundary, f"must be one of {', '.join(BOUNDARIES)}")
    if boundary != had:
        if {boundary, had} != {"it", "facility"}:
            raise InputError("boundary", boundary, f"cannot be had from power on the {had} boundary: give the power on it")
        if "pue" not in inputs:
            raise InputError("pue", None, f"is required to go from the {had} to the {boundary} boundary")
        watts = power.facility_watts(watts, inputs["pue"]) if boundary == "facility" else power.it_watts(watts, inputs["pue"])
    speed = inputs.get("tokens_per_s_per_user")
    at = f"{float(positive('tokens_per_s_per_user', speed)):g} tok/s per user" if speed is not None else "per-user speed not stated"
    said = {"gpus_counted": ("deployed", "decode"), "power": ("average", "provisioned")}
    for name, allowed in said.items():
        if inputs.get(name) not in (None, *allowed):
            raise InputError(name, inputs[name], f"must be {' or '.join(allowed)}")
    if grade == "P" and not {"power", "load", "scenario"} & set(inputs):
        inputs = {**inputs, "power": "provisioned"}
    gpus, kind = inputs.get("gpus_counted", "deployed or decode"), inputs.get("power", "average or provisioned")
    basis = f"{tokens} tokens, {gpus} GPUs{_unsaid(inputs, 'gpus_counted')}, {boundary} boundary, {at}, {kind} power{_unsaid(inputs, 'power')}"
    if inputs["quantity"] == "tokens_per_mw":
        values, unit = power.tokens_per_joule(rate, watts) * 1e6, "tok/s/MW"
    elif inputs["quantity"] in ("joules_per_token", "j_per_token"):
        values, unit = watts / positive("tokens_per_s", rate), "J/tok"
    else:
        raise InputError("quantity", inputs["quantity"], "must be tokens_per_mw or joules_per_token")
    low, high = (float(v) for v in np.percentile(values[1:], [10, 90]))
    value = float(values[0])
    return Answer("tokens_per_mw", value, unit, "modelled", grade, min(low, value), max(high, value), basis=basis, note=source)


BASIS_WORDS = ("tokens", "gpus_counted", "boundary", "power", "tokens_per_s_per_user")
SPEEDS = ("tps_user", "interactivity", "tok_s_user", "tps_per_user")
SIDE = {"v": "value", "tokens_per_mw": "value", **dict.fromkeys(SPEEDS, "tokens_per_s_per_user")}


def _side(name: str, given: object) -> dict:
    if not isinstance(given, Mapping):
        raise InputError(name, given, "must be an object: value, tokens_per_s_per_user, tokens, boundary, or a curve")
    found = {SIDE.get(k, k): v for k, v in given.items()}
    unknown = set(found) - {"value", "curve", *BASIS_WORDS}
    if unknown:
        raise InputError(f"{name}.{sorted(unknown)[0]}", found[sorted(unknown)[0]], f"must be one of value, curve, {', '.join(BASIS_WORDS)}")
    return found


def _at_speed(name: str, side: dict, speed: float) -> float:
    """Return the value of one side at a per-user speed, log-linear between the points of its curve; refused outside them."""
    curve = side["curve"]
    if not isinstance(curve, list) or not all(isinstance(p, list) and len(p) == 2 for p in curve) or len(curve) < 2:
        raise InputError(f"{name}.curve", curve, "must be a list of at least two points [speed, value]")
    points = sorted((float(positive(f"{name}.curve", x)), float(positive(f"{name}.curve", y))) for x, y in curve)
    x, y = np.array(points).T
    if len(set(x)) < 2 or not x[0] <= speed <= x[-1]:
        raise InputError("at", speed, f"must lie inside the curve of {name} ({x[0]:g} to {x[-1]:g} tok/s per user)")
    return float(np.exp(np.interp(speed, x, np.log(y))))


def _ratio(inputs: dict) -> Answer:
    sides = {name: _side(name, inputs[name]) for name in ("a", "b")}
    for word in BASIS_WORDS[:4]:
        both = {s.get(word) for s in sides.values()}
        if len(both) > 1:
            raise InputError(word, " against ".join(str(s.get(word, "not stated")) for s in sides.values()), "must be the same on both sides")
    values = {}
    if all("curve" in s for s in sides.values()):
        if "at" not in inputs:
            raise InputError("at", None, "is required: the per-user speed at which both curves are read")
        speed = float(positive("at", inputs["at"]))
        values, note = {n: _at_speed(n, s, speed) for n, s in sides.items()}, "both read from their curves at one speed"
    else:
        speeds = [s.get("tokens_per_s_per_user") for s in sides.values()]
        if None in speeds or speeds[0] != speeds[1]:
            raise InputError("tokens_per_s_per_user", " against ".join(str(s) for s in speeds),
                             "must be stated and the same on both sides, or give two curves and `at`")
        values, speed, note = {n: float(positive(f"{n}.value", s.get("value"))) for n, s in sides.items()}, float(speeds[0]), ""
    value = values["a"] / values["b"]
    return exact("tokens_per_mw_ratio", value, "ratio", how="modelled", grade="P", basis=f"at {speed:g} tok/s per user", note=note)


def _joules(inputs: dict) -> Answer:
    watts = float(nonnegative("watts_per_gpu", inputs["watts_per_gpu"])) * int(count("gpus", inputs["gpus"]))
    value = float(power.joules_per_token(watts, inputs["seconds"], inputs["tokens"]))
    return exact("joules_per_token", value, "J/tok", basis=f"all {inputs['gpus']} GPUs; the tokens and the boundary as given")


def _with_tps(inputs: Mapping) -> dict:
    """Return the inputs with a bare `tps` read as the rate of whatever the power is of."""
    found = dict(inputs)
    if twice := [k for k in RATES if "tokens_per_s" in k and k in found and "tps" in found]:
        raise InputError("tps", found["tps"], f"says the rate a second time (also {twice[0]})")
    if "tps" in found:
        whole = any(k in found for k in ("it_watts", "facility_watts"))
        found["tokens_per_s" if whole else "tokens_per_s_per_gpu"] = found.pop("tps")
    return found


def _same(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "")


RATES = {
    "tokens_per_s": Input("tokens per second of everything that the power covers",
                          also=_same("tok_s", "tok_per_s", "tokens_s", "output_tokens_per_s")),
    "tokens_per_s_per_gpu": Input("tokens per second of one GPU", also=_same(
        "tok_s_gpu", "tps_per_gpu", "tps_gpu", "output_tps_per_gpu", "throughput", "output_tokens_per_s_per_gpu", "tokens_per_second_per_gpu")),
    "total_tokens_per_s": Input("input and output tokens together, all GPUs", also=_same("total_tps", "total_tok_s")),
    "total_tokens_per_s_per_gpu": Input("input and output tokens together, one GPU", also=_same("total_tps_per_gpu", "total_tok_s_gpu")),
    "tokens_counted": Input("what the rate counts: output, input or total", also=_same("counted", "rate_counts")),
    "tokens": Input("what is asked: output, input or total", also=_same("which_tokens", "token_kind", "kind")),
    "input_tokens": Input("input tokens of a request", also=_same("isl", "mean_input_tokens")),
    "output_tokens": Input("output tokens of a request", also=_same("osl", "mean_output_tokens")),
}
ONE_GPU = ("per_gpu", "watts_per_gpu", "power_per_gpu", "gpu_all_in", "all_in_per_gpu")

QUESTIONS = (
    Question("tokens_per_mw", "Tokens per second per megawatt, always with its five words", "tok/s/MW", "planner.models.power.tokens_per_joule",
             {**SYSTEM, **RATES, **PUE, "tps": Input("tokens per second; of one GPU where power is of one GPU"),
              "watts_per_gpu": watts_input("power of one GPU with its share of everything on the boundary", *ONE_GPU),
              "it_watts": watts_input("IT power of everything", "it", ""),
              "facility_watts": watts_input("power at the meter of everything", "facility", "site"),
              "gpus": Input("GPUs, where a rate and a power are of different things", "count", also={"num_gpus": ""}),
              "power_boundary": Input("what watts_per_gpu covers: gpu, it or facility", also={"given_boundary": ""}),
              "boundary": Input("what is asked: gpu, it or facility"), "gpus_counted": Input("deployed or decode"),
              "power": Input("average or provisioned", also={"power_kind": ""}),
              "tokens_per_s_per_user": Input("per-user speed", also=_same(*SPEEDS)),
              "quantity": Input("tokens_per_mw or joules_per_token", default="tokens_per_mw")},
             lambda inputs: _tokens_per_mw(_with_tps(inputs))),
    Question("joules_per_token", "Energy of one token over every GPU that made it", "J/tok", "planner.models.power.joules_per_token",
             {"gpus": Input("GPUs that drew the power", "count", default=1),
              "watts_per_gpu": watts_input("mean power of one GPU", "", *ONE_GPU, required=True),
              "seconds": Input("time", "s", required=True, also={"s": "s", "minutes": "min", "hours": "h"}),
              "tokens": Input("tokens made in that time", required=True, also=_same("output_tokens"))}, _joules),
    Question("tokens_per_mw_ratio", "Two figures compared on one basis, or refused", "ratio", "planner.models.power.tokens_per_joule",
             {"a": Input("{value, tokens_per_s_per_user, tokens, boundary, ...} or {curve: [[speed, value], ...]}", required=True, structured=True),
              "b": Input("the other side", required=True, structured=True), "at": Input("per-user speed at which curves are read")}, _ratio),
)
