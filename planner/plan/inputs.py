"""Uncertain inputs as seeded draws, and the way from draws to an answer: percentiles, grade and how, by share of variance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from planner.draws import interval
from planner.errors import InputError
from planner.plan.answer import GRADES, Answer

NUM_DRAWS = 512
_Z90 = 1.2815515655446004  # the standard normal's 90th percentile
_HOW_ORDER = ("exact", "measured", "modelled", "claimed", "extrapolated", "assumed")


@dataclass(frozen=True)
class Drawn:
    """One uncertain input: values[0] is the central value, values[1:] the draws; with grade, how and claims."""

    values: np.ndarray
    grade: str
    how: str
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Range:
    """An input before it is drawn: value with its 10th and 90th percentile, positive, in any one unit."""

    value: float
    low: float
    high: float
    grade: str
    how: str = "claimed"
    claims: tuple[str, ...] = ()


def draw(ranges: Mapping[str, Range], num: int = NUM_DRAWS, seed: int = 0) -> dict[str, Drawn]:
    """Draw every range from a log-normal in two halves, each fitted to its own percentile; Sobol points, seeded.

    Parameters: ranges, name -> Range; num, draws, a power of two; seed. Returns: name -> Drawn with num + 1 values.
    Raises: nothing. The column of a name depends on the names before it only through its place, in the order given.
    """
    drawn: dict[str, Drawn] = {}
    if not ranges:
        return drawn
    points = qmc.Sobol(len(ranges), seed=seed).random(num)
    normal = ndtri(np.clip(points, 1e-9, 1 - 1e-9))
    for column, (name, item) in enumerate(ranges.items()):
        z = normal[:, column]
        up = np.log(item.high / item.value) / _Z90
        down = np.log(item.value / item.low) / _Z90
        values = item.value * np.exp(np.where(z > 0, up, down) * z)
        drawn[name] = Drawn(np.concatenate([[item.value], values]), item.grade, item.how, item.claims)
    return drawn


def variance_shares(values: np.ndarray, inputs: Mapping[str, Drawn]) -> dict[str, float]:
    """Return each input's share of the variance of `values` over the draws: squared rank correlation, scaled to sum to 1.

    Parameters: values [any] (num + 1,); inputs. Returns: name -> share, largest first; empty when nothing varies.
    """
    ranks = np.argsort(np.argsort(values[1:]))
    if np.ptp(values[1:]) == 0:
        return {}
    squared = {}
    for name, item in inputs.items():
        if np.ptp(item.values) > 0:
            squared[name] = float(np.corrcoef(ranks, np.argsort(np.argsort(item.values[1:])))[0, 1] ** 2)
    total = sum(squared.values())
    if total <= 0:
        return {}
    return {n: s / total for n, s in sorted(squared.items(), key=lambda pair: -pair[1])}


def answer(name: str, values: np.ndarray, unit: str, inputs: Mapping[str, Drawn], **more) -> Answer:
    """Turn draws into an Answer.

    Parameters: values (num + 1,) [base unit], values[0] central; unit [table unit of the same size: give values in it];
    inputs, what the value rests on; more, fields of Answer that the caller knows (basis, limit, note, a forced how or grade).
    Returns: Answer with low and high the 10th and 90th percentile, grade and how the weakest among the inputs that make 90 %
    of the variance, all claims listed. Raises: InputError for values that are not finite.
    """
    shares = variance_shares(values, inputs)
    heavy, reached = [], 0.0
    for item, share in shares.items():
        if reached >= 0.9:
            break
        heavy.append(item)
        reached += share
    heavy = heavy or list(inputs)
    grade = max((inputs[n].grade for n in heavy), key=GRADES.index, default="A")
    how = max((inputs[n].how for n in heavy), key=_HOW_ORDER.index, default="exact")
    value, low, high = interval(values)
    claims = tuple(dict.fromkeys(c for n in inputs for c in inputs[n].claims))
    fields = {"grade": grade, "how": how, "low": low, "high": high, "claims": claims, **more}
    return Answer(name, value, unit, **fields)


def number(inputs: Mapping, name: str, *, low: float = 0.0, high: float = 1e15, whole: bool = False, default=None) -> float:
    """Return one numeric input inside a range. Raises: InputError naming it."""
    value = inputs.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high or (whole and value != int(value)):
        kind = "a whole number" if whole else "a number"
        share = high == 1 and isinstance(value, (int, float)) and 1 < value <= 100
        raise InputError(name, value, f"must be {kind} from {low:g} to {high:g}" + (f" (a share: {value / 100:g}, not percent)" if share else ""))
    return value
