"""Which inputs matter, which to ask for first, and what would have to be true: all on one vectorised function of named inputs.

A `Model` takes a dict name -> array (n,) and returns an array (n,); scalars never reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import factorial

import numpy as np
from scipy.special import ndtr, ndtri

from planner.draws import Distribution, central, sample
from planner.errors import Infeasible, InputError
from planner.units import number

Model = Callable[[dict[str, np.ndarray]], np.ndarray]
ENDS = (0.1, 0.9)
_TAIL = 1e-3


def _call(model: Model, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    values = np.asarray(model(dict(columns)), float)
    wanted = np.shape(next(iter(columns.values())))
    if values.shape != wanted:
        raise InputError("model", values.shape, f"must return one value a row ({wanted})")
    if not np.isfinite(values).all():
        raise InputError("model", float(values[~np.isfinite(values)][0]), "must return finite values")
    return values


def _varying(inputs: Mapping[str, Distribution]) -> list[str]:
    names = [n for n, d in inputs.items() if d.varies]
    if not names:
        raise InputError("inputs", len(inputs), "must hold at least one that varies")
    return names


@dataclass(frozen=True)
class Bar:
    """One bar of a tornado: the input at its 10th and 90th percentile, others central, and what the model gives there."""

    name: str
    low: float
    high: float
    at_low: float
    at_high: float

    @property
    def swing(self) -> float:
        """Distance between the two ends, in the model's unit."""
        return abs(self.at_high - self.at_low)


def tornado(model: Model, inputs: Mapping[str, Distribution]) -> tuple[float, list[Bar]]:
    """Return the central value and one Bar for each input that varies, the longest first. Raises: InputError."""
    names, middle = _varying(inputs), central(inputs)
    rows = 1 + 2 * len(names)
    columns = {n: np.full(rows, v) for n, v in middle.items()}
    for i, name in enumerate(names):
        columns[name][1 + 2 * i: 3 + 2 * i] = inputs[name].quantile(ENDS)
    values = _call(model, columns)
    bars = [Bar(n, *(float(columns[n][1 + 2 * i + k]) for k in (0, 1)), *(float(values[1 + 2 * i + k]) for k in (0, 1))) for i, n in enumerate(names)]
    return float(values[0]), sorted(bars, key=lambda b: (-b.swing, b.name))


@dataclass(frozen=True)
class Index:
    """Share of the output's variance that one input makes alone (first) and with all its interactions (total), each with its 95 % half width."""

    first: float
    total: float
    first_error: float
    total_error: float


def sobol_indices(model: Model, inputs: Mapping[str, Distribution], num: int = 4096, seed: int = 0) -> dict[str, Index]:
    """Return Sobol indices by input, the largest total first.

    Parameters: num [1] base points, a power of two; the model is called once on num x (k + 2) rows for k inputs that vary.
    Raises: InputError, also where the output does not vary. Error: within 0.01 of the closed forms of Ishigami's function and of a linear model
    at 16,384 points (tests).
    """
    from SALib.analyze import sobol as analyze  # slow to import, and only needed here
    from SALib.sample import sobol as saltelli

    names = _varying(inputs)
    if num < 2 or num & (num - 1):
        raise InputError("num", num, "must be a power of two")
    problem = {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}
    points = saltelli.sample(problem, num, calc_second_order=False, seed=seed)
    columns = {n: np.full(len(points), d.value) for n, d in inputs.items()}
    columns |= {n: inputs[n].quantile(np.clip(points[:, i], 1e-9, 1 - 1e-9)) for i, n in enumerate(names)}
    values = _call(model, columns)
    if np.ptp(values) == 0:
        raise InputError("model", float(values[0]), "must vary with its inputs")
    found = analyze.analyze(problem, values, calc_second_order=False, seed=seed, print_to_console=False, num_resamples=100)
    rows = {n: Index(*(float(found[k][i]) for k in ("S1", "ST", "S1_conf", "ST_conf"))) for i, n in enumerate(names)}
    return dict(sorted(rows.items(), key=lambda pair: -pair[1].total))


def probability_better(a, b, larger: bool = True) -> tuple[float, float]:
    """Return (chance that A beats B over draws that share their inputs, its standard error); a tie counts half.

    Parameters: a, b (n,) in one unit, draw by draw; larger, whether more is better. Raises: InputError for unequal or empty draws.
    """
    first, second = number("a", a), number("b", b)
    if first.shape != second.shape or first.ndim != 1 or not first.size:
        raise InputError("a", first.shape, f"must hold as many draws as b {second.shape}")
    gap = (first - second) * (1 if larger else -1)
    wins = np.where(gap > 0, 1.0, np.where(gap == 0, 0.5, 0.0))
    chance = float(wins.mean())
    return chance, float(np.sqrt(max(chance * (1 - chance), 0) / wins.size))


@dataclass(frozen=True)
class Learning:
    """What it is worth to learn inputs before choosing: now, the best option on average; perfect, knowing all; by input, knowing that one alone."""

    best: str
    now: float
    perfect: float
    by_input: dict[str, float]


def value_of_learning(payoffs: Mapping[str, np.ndarray], drawn: Mapping[str, np.ndarray]) -> Learning:
    """Return the expected value of perfect information, whole and by single input: E[max_o E[payoff_o | x]] - max_o E[payoff_o].

    The conditional mean is a polynomial of degree 7 in the input's rank (a mean a level where it has at most 12 levels), so the figure is of
    one pass of draws. Parameters: payoffs, option -> (n,) more is better; drawn, input -> (n,), the draws without the central value.
    Returns: Learning, inputs by value, largest first, none below 0. Raises: InputError for fewer than two options or 64 draws.
    Error: within 3 % of the closed form of a linear Gaussian choice at 4,096 draws (tests).
    """
    if len(payoffs) < 2:
        raise InputError("payoffs", len(payoffs), "must hold at least two options: with one there is nothing to choose")
    table = np.array([number(f"payoffs.{k}", v) for k, v in payoffs.items()])
    if table.ndim != 2 or table.shape[1] < 64:
        raise InputError("payoffs", table.shape, "must hold at least 64 draws an option")
    means = table.mean(axis=1)
    now = float(means.max())
    found = {}
    for name, column in drawn.items():
        x = number(name, column)
        if x.shape != table.shape[1:]:
            raise InputError(name, x.shape, f"must hold as many draws as the payoffs ({table.shape[1]})")
        if np.ptp(x) > 0:
            expected = np.array([_conditional_mean(x, row - table[int(means.argmax())]) for row in table])
            found[name] = max(0.0, float(expected.max(axis=0).mean()))
    by_input = dict(sorted(found.items(), key=lambda pair: -pair[1]))
    return Learning(list(payoffs)[int(means.argmax())], now, float(table.max(axis=0).mean() - now), by_input)


def _conditional_mean(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    levels, at = np.unique(x, return_inverse=True)
    if len(levels) <= 12:
        return (np.bincount(at, y) / np.bincount(at))[at]
    rank = 2 * (np.argsort(np.argsort(x)) + 0.5) / len(x) - 1
    basis = np.polynomial.legendre.legvander(rank, 7)
    return basis @ np.linalg.lstsq(basis, y, rcond=None)[0]


def break_even(gap: Model, name: str, low: float, high: float, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return, row by row, the value of one input at which a gap is zero; NaN where it has no sign change between low and high.

    Parameters: gap, A less B, monotone in the input; name, the input sought (a column of that name is replaced); low, high, its ends; columns,
    the other inputs (n,). Returns: (n,) in the input's unit. Raises: InputError for low >= high. Error: 1e-12 of the range.
    """
    if not low < high:
        raise InputError(name, low, f"must be below high ({high:g})")
    n = len(next(iter(columns.values())))
    a, b = np.full(n, float(low)), np.full(n, float(high))

    def at(x):
        return _call(gap, {**columns, name: x})

    start, end = at(a), at(b)
    for _ in range(60):
        middle = (a + b) / 2
        same = np.sign(at(middle)) == np.sign(start)
        a, b = np.where(same, middle, a), np.where(same, b, middle)
    found = (a + b) / 2
    found = np.where(start == 0, low, np.where(end == 0, high, found))
    return np.where(start * end > 0, np.nan, found)


@dataclass(frozen=True)
class Needed:
    """What one input would have to be, others central: its value and percentile; None where it cannot do it alone."""

    value: float | None
    percentile: float | None


@dataclass(frozen=True)
class WhatMustHold:
    """What would have to be true for a target: its chance over the draws, each input alone, and the least unlikely joint point.

    point and percentile, input -> value and its percentile there; distance, in standard deviations of the joint normal scores (0: it holds
    already); reached, what the model gives there; central, what it gives today.
    """

    target: float
    central: float
    chance: float
    alone: dict[str, Needed]
    point: dict[str, float]
    percentile: dict[str, float]
    distance: float
    reached: float


def what_must_hold(model: Model, inputs: Mapping[str, Distribution], target: float, at_least: bool = True, num: int = 4096,
                   seed: int = 0) -> WhatMustHold:
    """Search the inputs for the points at which a claim holds.

    Parameters: model; inputs; target, in the model's unit; at_least, whether the claim is "target or more"; num, draws; seed.
    Returns: WhatMustHold. Raises: Infeasible (claim) where no draw and no corner between the 0.1th and 99.9th percentile reaches it, with the
    nearest value; InputError. Validity: the joint point is the nearest found by draws, then by shrinking it along its ray and input by input.
    Error: within 2 % of the closed form of a linear model's distance (tests).
    """
    names, middle, sign = _varying(inputs), central(inputs), 1.0 if at_least else -1.0
    wanted = sign * float(number("target", target))

    def at(z: np.ndarray) -> np.ndarray:
        """The signed model at normal scores (m, k); score 0 is the central value of continuous inputs."""
        columns = {n: np.full(len(z), v) for n, v in middle.items()}
        columns |= {n: inputs[n].quantile(ndtr(z[:, i])) for i, n in enumerate(names)}
        return sign * _call(model, columns)

    today = sign * _call(model, {n: np.array([v]) for n, v in middle.items()})[0]
    drawn = sample(inputs, num, seed)
    values = sign * _call(model, drawn)[1:]
    edge = float(ndtri(1 - _TAIL))
    alone = {n: _alone(at, i, len(names), wanted, edge, today, inputs[n]) for i, n in enumerate(names)}
    scores = _scores(inputs, names, drawn)
    z = _nearest(at, scores, values, wanted, edge, today)
    columns = {n: float(inputs[n].quantile(ndtr(z[i]))) for i, n in enumerate(names)}
    percentile = {n: float(ndtr(z[i])) for i, n in enumerate(names)}
    chance, reached = float((values >= wanted).mean()), float(sign * at(z[None, :])[0])
    return WhatMustHold(float(target), float(sign * today), chance, alone, columns, percentile, float(np.linalg.norm(z)), reached)


def _scores(inputs: Mapping[str, Distribution], names: list[str], drawn: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the normal scores of draws (n, k) by their ranks, which need no inverse of a quantile."""
    ranks = np.array([np.argsort(np.argsort(drawn[n][1:], kind="stable"), kind="stable") for n in names]).T
    return ndtri((ranks + 0.5) / len(ranks))


def _alone(at, place: int, size: int, wanted: float, edge: float, today: float, item: Distribution) -> Needed:
    if today >= wanted:
        return Needed(item.value, 0.5)
    grid = np.linspace(-edge, edge, 201)
    z = np.zeros((len(grid), size))
    z[:, place] = grid
    good = np.flatnonzero(at(z) >= wanted)
    if not len(good):
        return Needed(None, None)
    best = grid[good[np.argmin(np.abs(grid[good]))]]
    return Needed(float(item.quantile(ndtr(best))), float(ndtr(best)))


def _nearest(at, scores: np.ndarray, values: np.ndarray, wanted: float, edge: float, today: float) -> np.ndarray:
    size = scores.shape[1]
    if today >= wanted:
        return np.zeros(size)
    good = np.flatnonzero(values >= wanted)
    starts = [scores[i] for i in good[np.argsort(np.linalg.norm(scores[good], axis=1))[:8]]]
    # uphill: each input to the end that helps alone, a corner that draws rarely reach
    ends = np.concatenate([np.eye(size) * edge, -np.eye(size) * edge])
    helped = at(ends)
    corner = np.where(helped[:size] >= helped[size:], edge, -edge) * (np.maximum(helped[:size], helped[size:]) > today)
    starts.append(corner)
    # scores by rank stand for draws nearly: keep the points that hold by themselves
    starts = [z for z, holds in zip(starts, at(np.array(starts)) >= wanted, strict=True) if holds]
    if not starts:
        nearest = max(float(values.max()), float(at(corner[None, :])[0]))
        raise Infeasible("claim", f"no point between the 0.1th and 99.9th percentiles of the inputs reaches it: the nearest gives {abs(nearest):.4g}",
                         "wider ranges, or an input that is not among them")
    return min((_shrunk(at, z, wanted) for z in starts), key=np.linalg.norm)


def _shrunk(at, z: np.ndarray, wanted: float) -> np.ndarray:
    """Return a nearer point that still holds: along its ray, then by trading one input against another in ever smaller steps."""
    steps = np.linspace(0, 1, 65)
    size, step = len(z), 1.0
    z = z * steps[np.flatnonzero(at(steps[:, None] * z) >= wanted)[0]]
    while step > 4e-3:
        moves = np.concatenate([np.eye(size), -np.eye(size)]) * step
        moves = np.concatenate([moves, (moves[:, None, :] + moves[None, :, :]).reshape(-1, size)]) + z
        moves = moves[np.linalg.norm(moves, axis=1) < np.linalg.norm(z) - 1e-9]
        if len(moves):
            moves = moves[at(moves) >= wanted]
        if not len(moves):
            step /= 2
            continue
        z = moves[np.argmin(np.linalg.norm(moves, axis=1))]
        z = z * steps[np.flatnonzero(at(steps[:, None] * z) >= wanted)[0]]
    return z


def shares_of_ratio(value: Callable[[frozenset[str]], float], factors: Iterable[str]) -> dict[str, float]:
    """Split a ratio into one factor for each cause, whose product is the ratio: Shapley values of its logarithm.

    Parameters: value, a set of the causes that are switched to their new state -> a positive number; factors, their names.
    Returns: cause -> factor [1]. Raises: InputError for a value that is not positive, or more than 10 causes. Error: exact product.
    """
    names = list(factors)
    if not 1 <= len(names) <= 10:
        raise InputError("factors", len(names), "must be 1 to 10")
    logs = {}
    for size in range(len(names) + 1):
        for subset in combinations(names, size):
            logs[frozenset(subset)] = float(np.log(number(f"value of {', '.join(subset) or 'nothing'}", value(frozenset(subset)), above=0.0)))
    found = {}
    for name in names:
        total = 0.0
        for subset, log in logs.items():
            if name not in subset:
                weight = factorial(len(subset)) * factorial(len(names) - len(subset) - 1) / factorial(len(names))
                total += weight * (logs[subset | {name}] - log)
        found[name] = float(np.exp(total))
    return found
