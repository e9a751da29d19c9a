"""A user's own serving runs: how fast their systems are against the model, as lines for a scenario's [facts]. Nothing is blended silently."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.calibration.serving import constants
from planner.calibration.serving.fit import RUN_SPREAD
from planner.calibration.serving.join import kind_of
from planner.errors import InputError
from planner.facts import catalog, modelcards
from planner.questions.check import read, run

RATES = ("tokens_per_s", "samples_per_s", "tokens_per_s_per_gpu", "tokens_per_s_per_user", "tokens_per_s_per_mw")
TIMES = ("tpot_s", "e2e_s")
SHARED_SPREAD = 0.07  # of a whole set of runs of one system and model: what one more configuration would still show
_Z90 = 1.2815515655446004


@dataclass(frozen=True)
class Learned:
    """What a system's runs of one model say: speed [1] against the model with low and high (10th and 90th percentile), rows, and the median error
    before and after [1]."""

    system: str
    model: str
    speed: float
    low: float
    high: float
    rows: int
    error_before: float
    error_after: float

    @property
    def line(self) -> str:
        """The line to put under a scenario's [facts]."""
        return f'"{self.system}.speed_against_model" = {{ low = {self.low:.3f}, value = {self.speed:.3f}, high = {self.high:.3f} }}'


def learn(path: str | Path) -> tuple[list[Learned], list[str]]:
    """Return what the serving rows of a check file say of each system and model, and a line for every row that could not be used.

    The logs of measured over predicted speed are averaged, pulled towards 1 by what the model's own error is for that system and model. Raises:
    InputErrors for a file that cannot be read, InputError for one without a serving row that can be used.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    unused: list[str] = []
    for case in read(path):
        quantity = str(case.inputs.get("quantity", "tokens_per_s"))
        if case.question != "serving" or quantity not in (*RATES, *TIMES) or isinstance(case.expected, str):
            unused.append(f"{case.case}: not a rate, TPOT or end-to-end time of the question `serving`")
            continue
        found = run(case)
        if found.got is None:
            unused.append(f"{case.case}: {found.reason}")
            continue
        ratio = case.expected / found.got
        rack = catalog.system_from(case.inputs["system"], case.inputs.get("profile"))
        name = f"{rack.name}/{rack.profile}" if rack.profile else rack.name
        groups.setdefault((name, str(case.inputs["model"])), []).append(float(np.log(ratio if quantity in RATES else 1 / ratio)))
    if not groups:
        raise InputError(str(path), "; ".join(unused)[:200], "must hold at least one row of the question `serving` that the model answers")
    return [_learned(system, model, np.array(logs)) for (system, model), logs in sorted(groups.items())], unused


def _learned(system: str, model: str, logs: np.ndarray) -> Learned:
    shape = modelcards.load(model)
    prior = constants.time_spread(True, system.split("/")[0], shape) ** -2
    seen = 1 / (SHARED_SPREAD**2 + RUN_SPREAD**2 / len(logs))
    middle, spread = float(seen * logs.mean() / (seen + prior)), float((seen + prior) ** -0.5)
    speed, low, high = (float(np.exp(middle + z * spread)) for z in (0, -_Z90, _Z90))
    before, after = (float(np.median(np.abs(np.expm1(-(logs - shift))))) for shift in (0.0, middle))
    return Learned(system, f"{model} ({kind_of(shape)})", speed, low, high, len(logs), before, after)
