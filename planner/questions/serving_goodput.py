"""The question of serving goodput, kept apart from the goodput of a training job."""

from __future__ import annotations

from planner.errors import InputError
from planner.models.service_level import LIMITS, within_fraction
from planner.plan.answer import Answer, exact, missing
from planner.questions.registry import Input, Question


def _serving_goodput(inputs: dict) -> Answer:
    slo = inputs.get("slo")
    if slo is not None and not isinstance(slo, dict):
        raise InputError("slo", slo, f"must be an object of limits ({', '.join(LIMITS)}), or left out")
    limits = {name: limit for name, limit in (slo or {}).items() if limit is not None}
    if not limits:
        return missing("serving_goodput", "fraction", "no SLO is set: no request is inside or outside of it")
    share = within_fraction({n: inputs[n] for n in LIMITS if n in inputs}, limits)
    return exact("serving_goodput", share, "fraction", how="measured", grade="P",
                 basis="share of requests that keep every limit of the SLO (not the goodput of a training job)")


QUESTIONS = (
    Question("serving_goodput", "share of measured requests that keep the SLO", "fraction", "planner.models.service_level.within_fraction",
             {"slo": Input(f"limits in seconds: {', '.join(LIMITS)}; absent: not available", structured=True),
              **{name: Input("measured, one a request", structured=True) for name in LIMITS}}, _serving_goodput),
)
