"""Questions about sessions of many calls: what their prefix caches hold, tier by tier, and what is left to prefill."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.calibration import sessions as joined
from planner.errors import InputError
from planner.facts import catalog
from planner.models import sessions as model
from planner.plan.answer import Answer, exact
from planner.questions.load import HIT_ERROR, modelled, needed, one_of, timed
from planner.questions.registry import Input, Question
from planner.units import count, nonnegative, positive, to_base

TIERS = ("hbm", "lpddr", "nvme")


def _sessions(inputs: Mapping) -> tuple[model.Sessions, bool]:
    """Return the sessions, and whether an assumption stands in them."""
    parts = ("shared_tokens", "own_tokens", "added_tokens")
    service, think = float(nonnegative("service_s", inputs["service_s"])), float(nonnegative("think_s", inputs["think_s"]))
    if "added_tokens" in inputs:
        if "input_tokens" in inputs:
            raise InputError("input_tokens", inputs["input_tokens"], "or added_tokens must be given, not both")
        shared, own, added = (inputs.get(p, 0.0) for p in parts)
        made = model.Sessions(inputs["calls"], shared, own, added, inputs["output_tokens"], service, (model.Pause(think, 1.0),))
    else:
        (mean,) = needed(inputs, "input_tokens")
        made = joined.agentic(inputs["calls"], positive("input_tokens", mean), positive("output_tokens", inputs["output_tokens"]), think, service,
                              *(inputs.get(p) for p in parts[:2]))
    spread = inputs.get("pause_cv2", joined.claim(joined.SCV).base_value)
    made = model.Sessions(**{**vars(made), "pauses": (model.Pause(think, spread),)})
    assumed = "pause_cv2" not in inputs or ("added_tokens" not in inputs and not {"shared_tokens", "own_tokens"} <= set(inputs))
    return (joined.with_people(made), True) if inputs["people"] is True else (made, assumed)


def _places(inputs: Mapping) -> tuple[list[model.Tier], bool]:
    """Return the tiers: capacities given, or a system's LPDDR and NVMe under a given HBM."""
    worker = int(count("gpus_per_worker", inputs["gpus_per_worker"]))
    if "system" in inputs:
        if {"lpddr_gb", "nvme_gb"} & set(inputs):
            raise InputError("system", inputs["system"], "or lpddr_gb and nvme_gb must be given, not both")
        rack = catalog.system_from(inputs["system"], inputs.get("profile"), None)
        (gpus,) = needed(inputs, "gpus")
        return joined.tiers(rack, to_base(nonnegative("hbm_gb", inputs["hbm_gb"]), "GB"), int(count("gpus", gpus)), worker), True
    found = []
    for name in TIERS:
        if f"{name}_gb" in inputs:
            speed = to_base(positive(f"{name}_gb_per_s", inputs[f"{name}_gb_per_s"]), "GB/s") if f"{name}_gb_per_s" in inputs else np.inf
            found.append(model.Tier(name, to_base(nonnegative(f"{name}_gb", inputs[f"{name}_gb"]), "GB"), speed))
    return found, False


def _cache_residency(inputs: dict) -> Answer:
    quantity = one_of(inputs, "quantity", "hit", "structural_hit", "hbm_hit", "lpddr_hit", "nvme_hit", "prefill_tokens_per_s", "prefill_tokens",
                      "restore_s", "kept_s", "calls_per_s", "all_bytes")
    case, assumed = _sessions(inputs)
    if ("sessions" in inputs) == ("calls_per_s" in inputs):
        raise InputError("sessions", inputs.get("sessions"), "or calls_per_s must be given, not both")
    rate = model.calls_per_s(case, inputs["sessions"]) if "sessions" in inputs else nonnegative("calls_per_s", inputs["calls_per_s"])
    more = {"grade": "P"} if assumed else {}
    if quantity == "calls_per_s":
        return exact("cache_residency", float(rate), "req/s", **more)
    if quantity == "structural_hit":
        return exact("cache_residency", float(model.structural_hit_fraction(case)), "fraction", note="of an endless cache", **more)
    each = float(positive("kv_bytes_per_token", *needed(inputs, "kv_bytes_per_token")))
    needed(inputs, "hbm_gb")
    places, priced = _places(inputs)
    more = {"grade": "P"} if assumed or priced else {}
    if not isinstance(inputs["exclusive"], bool):
        raise InputError("exclusive", inputs["exclusive"], "must be true or false")
    made = model.residency(case, rate, each, places, exclusive=inputs["exclusive"], block_tokens=inputs["block_tokens"])
    hits = {name: float(v) for name, v in made["hit_fraction"].items()}
    note = ", ".join(f"{name} {v:.3g}" for name, v in hits.items()) + (
        "; running calls fill HBM: part of the sessions must wait" if bool(made["full"]) else "")
    last = places[-1].name if inputs.get("tier") is None else inputs["tier"]
    if quantity in ("restore_s", "kept_s"):
        if last not in hits:
            raise InputError("tier", last, f"must be one of {', '.join(hits)}")
        value = float(made["restore_seconds" if quantity == "restore_s" else "kept_seconds"][last])
        return modelled("cache_residency", min(value, 1e15), "s", 0.1 if quantity == "kept_s" else 0.0, basis=last, note=note, **more)
    if quantity == "all_bytes":
        return exact("cache_residency", float(made["all_bytes"]), "B", how="modelled", note="caches that will be asked for again", **more)
    if quantity.endswith("hit"):
        if quantity != "hit" and quantity.removesuffix("_hit") not in hits:
            raise InputError("quantity", quantity, f"has no such tier here: {', '.join(hits)}")
        value = sum(hits.values()) if quantity == "hit" else hits[quantity.removesuffix("_hit")]
        low, high = max(value - HIT_ERROR, 0.0), min(value + HIT_ERROR, float(model.structural_hit_fraction(case)))
        return Answer("cache_residency", value, "fraction", "modelled", more.get("grade", "A"), low=min(low, value), high=max(high, value),
                      basis="of prompt tokens", note=note)
    missed, prompt = float(made["missed_fraction"]), float(model.prompt_tokens(case)["mean"])
    scale = prompt * (float(rate) if quantity == "prefill_tokens_per_s" else 1.0)
    floor = 1 - float(model.structural_hit_fraction(case))
    return Answer("cache_residency", missed * scale, "tok/s" if quantity == "prefill_tokens_per_s" else "tokens", "modelled", more.get("grade", "A"),
                  low=min(max(missed - HIT_ERROR, floor), missed) * scale, high=min(missed + HIT_ERROR, 1.0) * scale, basis="input tokens", note=note)


QUESTIONS = (
    Question("cache_residency", "What the caches of sessions hold, tier by tier, and what is left to prefill", "fraction",
             "planner.models.sessions.residency", {
        "calls": Input("calls of a session", required=True), "input_tokens": Input("mean prompt of a call, context included", also={"isl": ""}),
        "output_tokens": Input("output tokens of a call", required=True, also={"osl": ""}),
        "shared_tokens": Input("of the prompt, the same in every session; absent: an assumption", also={"system_tokens": ""}),
        "own_tokens": Input("of the prompt, from the start of one session; absent: an assumption"),
        "added_tokens": Input("input that each call adds, instead of a mean prompt"),
        "think_s": timed("mean pause between calls", "think", required=True), "service_s": timed("mean time of a call", "service", required=True),
        "pause_cv2": Input("squared coefficient of variation of the pause; absent: an assumption"),
        "people": Input("true: some pauses are a person's, as assumed", default=False),
        "sessions": Input("live sessions", also={"live_sessions": ""}), "calls_per_s": Input("rate of calls, instead", also={"requests_per_s": ""}),
        "kv_bytes_per_token": Input("cache of one token [B]", also={"kv_bytes": "", "bytes_per_token": ""}),
        "hbm_gb": Input("HBM of all workers for caches, running calls included", "GB", also={"hbm_bytes": "B"}),
        "lpddr_gb": Input("LPDDR", "GB"), "nvme_gb": Input("NVMe", "GB", also={"nvme_tb": "TB"}),
        "hbm_gb_per_s": Input("not needed: a prefix in HBM is there", "GB/s"),
        "lpddr_gb_per_s": Input("bandwidth of bringing one prefix back", "GB/s"),
        "nvme_gb_per_s": Input("bandwidth of bringing one prefix back", "GB/s"),
        "system": Input("LPDDR and NVMe of this system instead", structured=True), "profile": Input("where the system has two"),
        "gpus": Input("GPUs of the pool, with a system"), "gpus_per_worker": Input("GPUs whose links bring one prefix back", default=1),
        "exclusive": Input("true: a tier holds what fell out of the one above; false: a copy of all that is recent", default=True),
        "block_tokens": Input("only whole blocks of so many tokens are found", default=1),
        "tier": Input("for restore_s and kept_s; absent: the last"),
        "quantity": Input("hit, structural_hit, hbm_hit, lpddr_hit, nvme_hit, prefill_tokens_per_s, prefill_tokens, restore_s, kept_s, calls_per_s, "
                          "all_bytes", default="hit")}, _cache_residency),
)
