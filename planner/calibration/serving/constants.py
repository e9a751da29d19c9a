"""The serving constants as rows: written by the fit, read by the plan; and what a release, a platform's age and a model's newness are worth."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from planner.calibration.serving.join import KINDS, kind_of, prior
from planner.calibration.serving.published import runs
from planner.calibration.serving.submissions import DRAFTS, FIRST_ROUND, SYSTEMS, configurations, shape_of
from planner.calibration.table import Constant, constants
from planner.errors import InputError
from planner.facts import modelcards
from planner.models.serving.step import EFFICIENCIES, Efficiency
from planner.shapes import ModelShape

if TYPE_CHECKING:
    from planner.calibration.serving.fit import Fitted

AREA, ERRORS = "serving", "serving_errors"
SOURCE = "data/mlperf_results.csv data/serving_published.csv"
FAST_TPOT, SLOW_TPOT = 0.020, 0.060  # s: limits of the interactive and of the server kind
_Z90 = NormalDist().inv_cdf(0.9)
_PER_SECOND = ("layer_seconds", "allreduce_seconds", "cross_seconds", "alltoall_seconds", "sequence_seconds")


def rows(fitted: dict[tuple[str, str], Fitted]) -> list[Constant]:
    """Return the constants as rows: scope is kind and use, then what the constant is for; low and high from the covariance."""
    from planner.calibration.serving.fit import problem

    found = []
    for (kind, use), one in fitted.items():
        spread = np.sqrt(np.diag(one.covariance))
        num = len(problem(kind).submitted.rows) + (len(problem(kind).public.runs) if use == "public" else 0)
        source = SOURCE if use == "public" else SOURCE.split()[0]
        for name, x, s in zip(one.names, one.x, spread, strict=True):
            plain, _, about = name.partition("|")
            if use == "tuned" and plain in ("software", "launch") and about != "submission":
                continue  # of public runs
            unit = "s" if plain in _PER_SECOND else "token" if plain == "mean_input_tokens" else "ratio"
            value, low, high = (float(np.exp(x + z * s)) for z in (0, -_Z90, _Z90))
            found.append(Constant(plain, f"{kind} {use}|{about}" if about else f"{kind} {use}", value, low, high, unit, num, source, ""))
    return found


def fit() -> list[Constant]:
    """Return the constants fitted on all rows, and the models among them: some minutes."""
    from planner.calibration.serving.fit import fit_all

    return [*rows(fit_all()), *_models()]


def _models() -> list[Constant]:
    """Return a row for every model that stands among the rows: its name, and how many."""
    found = Counter([*(shape_of(c.model).name for c in configurations()), *(modelcards.load(r.model).name for r in runs())])
    return [Constant("seen", name, 1.0, 1.0, 1.0, "ratio", count, SOURCE, "") for name, count in sorted(found.items())]


@dataclass(frozen=True)
class Learned:
    """The constants that one kind of model is read with: eff, of tuned submissions; values by name, as `Submissions` takes them; line, the
    first of its rows in the table."""

    kind: str
    eff: Efficiency
    values: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]
    line: int

    @property
    def claim(self) -> str:
        """The id under which an answer names these constants."""
        return f"calibration/{AREA}.csv:{self.line}"


@cache
def learned(kind: str, use: str = "tuned") -> Learned:
    """Return the constants of one kind of model for one use. Raises: InputError for a kind that was not fitted."""
    if kind not in KINDS:
        raise InputError("kind", kind, f"must be one of {', '.join(KINDS)}")
    table, values, low, high, line = constants(AREA), {"accepted": prior("accepted")[0]}, {}, {}, 0
    for number, ((name, scope), row) in enumerate(table.items(), 2):
        own, _, about = scope.partition("|")
        if own != f"{kind} {use}":
            continue
        line = line or number
        key = f"{name}|{about}" if about else name
        values[key], low[key], high[key] = row.value, row.low, row.high
    eff = Efficiency(**{k: values[k] * (values["launch|submission"] if k == "layer_seconds" else 1.0) for k in EFFICIENCIES})
    return Learned(kind, eff, values, low, high, line)


def of_model(shape: ModelShape, use: str = "tuned") -> Learned:
    """Return the constants that a model is read with: tuned, as submissions reach, or public, as public runs do."""
    return learned(kind_of(shape), use)


def tokens_per_step(one: Learned, drafts: int = DRAFTS) -> tuple[float, float, float]:
    """Return the tokens that a step with drafted tokens yields: value, low and high; the range is at least that of the prior's chance."""
    chance = one.values["accepted"]
    spread = prior("accepted")[1]
    low, high = (one.low.get("accepted", chance), one.high.get("accepted", chance))
    low, high = min(low, chance * np.exp(-_Z90 * spread)), max(high, chance * np.exp(_Z90 * spread))
    value, least, most = ((1 - c ** (drafts + 1)) / (1 - c) for c in (chance, low, min(high, 0.95)))
    return float(value), float(least), float(most)


def software_factor(one: Learned, system: str, software: str, served: bool) -> tuple[float, float, float, str]:
    """Return the share of mature throughput (v6.1) that a software state reaches: value, low, high, and where it comes from in words.

    preview: the first round of a new platform: a model's first round times the platform's newness. current: preview for a platform that has no
    later round, mature for the others. A release is read as its round: before v5.1 is refused. Raises: InputError for an unknown release.
    """
    values, moe = one.values, "dense" if one.kind == "dense" else "moe"
    state = software
    if software == "current":
        state = "preview" if FIRST_ROUND.get(system) == "v6.1" or system not in SYSTEMS else "mature"
    if state == "mature":
        return 1.0, 1.0, 1.0, "the software of round v6.1, called mature"
    if state == "preview":
        newness = min(1.0, values["new_platform"] * (values["new_platform_served"] if served else 1.0))
        early = values[f"early|{moe}"] * (values.get("early_served|moe", 1.0) if served and moe == "moe" else 1.0)
        # engines know the model by then, so that the platform alone is new; at worst it is a first round of platform and model together
        low, high = min(newness, early * newness), max(1.0, newness)
        return float(newness), float(low), float(high), "a platform's first round on models that engines know; at worst a first round of both"
    number = tuple(int(x) for x in software.strip("v+").split(".")[:2])
    if number < (5, 1):
        raise InputError("software", software, "must be v5.1 or later: no results before are held")
    if number >= (6, 1):
        return 1.0, 1.0, 1.0, "round v6.1 or later: no later results are held"
    word = "early" if number < (6, 0) else "previous"
    names = [f"{word}|{moe}", *([f"{word}_served|moe"] if served and moe == "moe" else [])]
    if FIRST_ROUND.get(system) == software:
        names += ["new_platform", *(["new_platform_served"] if served else [])]
    ends = [float(np.prod([found.get(n, 1.0) for n in names])) for found in (values, one.low, one.high)]
    return ends[0], min(ends), max(ends), f"fitted to round {software}"


@cache
def _seen() -> frozenset[str]:
    return frozenset(scope for name, scope in constants(AREA) if name == "seen")


def seen_model(shape: ModelShape) -> bool:
    """Return whether a model of this shape stands among the rows that were fitted."""
    return shape.name in _seen()


def time_spread(limited: bool, system: str, shape: ModelShape) -> float:
    """Return the log spread (one standard deviation) of the model's time, the least that holds 80 % of the rows left out of fits.

    limited, whether a latency limit holds: near one, a little time moves much throughput. A system in the results counts a system left out,
    another one a whole generation left out, and a model that is not in the results adds what leaving a model out adds.
    """
    held, group = constants(ERRORS), "served" if limited else "Offline"

    def left(out: str) -> float:
        return held["time_spread", f"{group}|{out}"].value

    own = left("system") if system in SYSTEMS else max(left("system"), left("generation"))
    if seen_model(shape):
        return own
    return float(np.sqrt(own**2 + max(0.0, left("model") ** 2 - left("system") ** 2)))


def margin(one: Learned, limited: bool, tpot_seconds: float = np.inf) -> float:
    """Return what submitters keep from the limit, and their level against public runs: a factor of throughput.

    Between a TPOT limit of 60 ms and one of 20 ms the margin goes from that of Server to that of Interactive, evenly in the log.
    """
    if not limited:
        return one.values["level"]
    tight = float(np.clip(np.log(SLOW_TPOT / tpot_seconds) / np.log(SLOW_TPOT / FAST_TPOT), 0.0, 1.0)) if np.isfinite(tpot_seconds) else 0.0
    return one.values["level"] * one.values["server"] ** (1 - tight) * one.values["interactive"] ** tight
