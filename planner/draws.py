"""Ranges and grades as distributions, and seeded draws of many inputs at once; the first value of each input is its central one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from planner.calibration.grades import grade_spread
from planner.calibration.table import Constant
from planner.errors import InputError
from planner.facts.evidence import Claim, spread
from planner.units import number

NUM_DRAWS = 512
MOST_DRAWS = 2**20
Z90 = 1.2815515655446004  # the standard normal's 90th percentile
_LINKS = {
    "lognormal": (np.log, np.exp),
    "normal": (lambda x: x, lambda g: g),
    "logit": (lambda x: np.log(x) - np.log1p(-x), lambda g: 1 / (1 + np.exp(-g))),
}


@dataclass(frozen=True)
class Distribution:
    """One uncertain input: a central value with its 10th and 90th percentile, or a flat, triangular or discrete one.

    kind: lognormal, normal, logit (a share in 0..1), each in two halves that meet in the value; uniform and triangular between low and high (their
    ends); discrete over `choices` with `weights`; fixed. least and most cut the tails. grade, how and claims travel with it.
    """

    kind: str
    value: float
    low: float
    high: float
    grade: str = "P"
    how: str = "assumed"
    claims: tuple[str, ...] = ()
    least: float = -np.inf
    most: float = np.inf
    choices: tuple[float, ...] = ()
    weights: tuple[float, ...] = field(default=())

    def __post_init__(self):
        kinds = (*_LINKS, "uniform", "triangular", "discrete", "fixed")
        if self.kind not in kinds:
            raise InputError("kind", self.kind, f"must be one of {', '.join(kinds)}")
        for name in ("value", "low", "high"):
            number(f"distribution.{name}", getattr(self, name))
        if self.kind == "discrete":
            _check_weights(self.choices, self.weights)
            return
        if not self.low <= self.value <= self.high:
            ends = f"low ({self.low:g}) and high ({self.high:g})"
            raise InputError("distribution.value", self.value, f"must lie between {ends}: is the range upside down?")
        if self.kind == "lognormal" and self.low <= 0:
            raise InputError("distribution.low", self.low, "must be > 0 for a lognormal")
        if self.kind == "logit" and not (self.low > 0 and self.high < 1):
            raise InputError("distribution.low", self.low, "must lie above 0, and high below 1, for a share")
        if self.kind in ("uniform", "triangular") and self.low == self.high:
            raise InputError("distribution.high", self.high, "must be above low: no mass otherwise (use a fixed value)")
        if not self.least <= self.value <= self.most:
            raise InputError("distribution.least", self.least, f"and most ({self.most:g}) must hold the value ({self.value:g})")

    @property
    def varies(self) -> bool:
        """Whether two draws can differ."""
        if self.kind == "discrete":
            return sum(w > 0 for w in self.weights) > 1
        return self.kind != "fixed" and self.low < self.high

    def quantile(self, probability) -> np.ndarray:
        """Return the value at a probability in 0..1, of any shape. Raises: InputError where the cuts leave no mass."""
        u = number("probability", probability, 0.0, 1.0)
        if self.kind == "fixed" or not self.varies:
            return np.full(u.shape, self.value if self.kind != "discrete" else self.choices[int(np.argmax(self.weights))])
        if self.kind == "discrete":
            edges = np.cumsum(self.weights) / np.sum(self.weights)
            return np.asarray(self.choices)[np.minimum(np.searchsorted(edges, u, side="right"), len(edges) - 1)]
        if self.kind == "uniform":
            return np.clip(self.low + u * (self.high - self.low), self.least, self.most)
        if self.kind == "triangular":
            return np.clip(_triangular(u, self.low, self.value, self.high), self.least, self.most)
        return self._two_halves(u)

    def _two_halves(self, u: np.ndarray) -> np.ndarray:
        link, back = _LINKS[self.kind]
        centre = link(self.value)
        down, up = (centre - link(self.low)) / Z90, (link(self.high) - centre) / Z90
        ends = []
        for cut in (self.least, self.most):
            outside = not np.isfinite(cut) or (self.kind == "lognormal" and cut <= 0) or (self.kind == "logit" and not 0 < cut < 1)
            step = up if cut > self.value else down
            ends.append(np.sign(cut - self.value) * np.inf if outside or step == 0 else (link(cut) - centre) / step)
        first, last = ndtr(ends[0]), ndtr(ends[1])
        if last - first < 1e-9:
            raise InputError("distribution.least", self.least, f"and most ({self.most:g}) leave no mass")
        z = ndtri(np.clip(first + u * (last - first), 1e-12, 1 - 1e-12))
        return np.clip(back(centre + z * np.where(z > 0, up, down)), self.least, self.most)


def _check_weights(choices: Sequence[float], weights: Sequence[float]) -> None:
    if not choices or len(choices) != len(weights):
        raise InputError("distribution.choices", len(choices), f"must be as many as weights ({len(weights)}) and at least one")
    number("distribution.choices", choices)
    if number("distribution.weights", weights, 0.0).sum() <= 0:
        raise InputError("distribution.weights", 0.0, "must have mass: one of them above 0")


def _triangular(u: np.ndarray, low: float, mode: float, high: float) -> np.ndarray:
    at = (mode - low) / (high - low)
    left = low + np.sqrt(np.maximum(u * (high - low) * (mode - low), 0))
    right = high - np.sqrt(np.maximum((1 - u) * (high - low) * (high - mode), 0))
    return np.where(u < at, left, right)


def fixed(value: float, grade: str = "P", how: str = "exact", claims: tuple[str, ...] = ()) -> Distribution:
    """Return an input that does not vary."""
    return Distribution("fixed", float(value), float(value), float(value), grade, how, claims)


def between(value: float, low: float, high: float, grade: str = "P", how: str = "assumed", claims: tuple[str, ...] = (),
            **cuts: float) -> Distribution:
    """Return an input by its central value and its 10th and 90th percentile: log-normal where positive, else normal. cuts: least, most."""
    kind = "lognormal" if min(low, value) > 0 else "normal"
    return Distribution(kind, float(value), float(low), float(high), grade, how, claims, **cuts)


def share(value: float, low: float, high: float, grade: str = "P", how: str = "assumed", claims: tuple[str, ...] = ()) -> Distribution:
    """Return a share in 0..1 by its central value and its 10th and 90th percentile; it never leaves 0..1."""
    return Distribution("logit", float(value), float(low), float(high), grade, how, claims)


def choice(values: Sequence[float], weights: Sequence[float], **about) -> Distribution:
    """Return a discrete input; its central value is the most likely one."""
    _check_weights(values, weights)
    best = float(values[int(np.argmax(weights))])
    choices = tuple(map(float, values))
    return Distribution("discrete", best, min(choices), max(choices), choices=choices, weights=tuple(map(float, weights)), **about)


def from_claim(item: Claim, *, conflicts: bool = True) -> Distribution:
    """Return a claim as a distribution in its base unit.

    A printed range, or the range of the claims in conflict with it (conflicts, True), is its 10th to 90th percentile; where there is none its
    grade says how far it may be off. Raises: InputError for a claim without a number.
    """
    if item.base_value is None:
        raise InputError("claim", item.id, "has no number: not available")
    low, high = spread(item) if conflicts else item.base_range
    if low == high and item.base_value > 0:
        by_grade = grade_spread(item.grade)
        low, high = item.base_value * by_grade.low, item.base_value * by_grade.high
    how = "assumed" if item.grade == "P" else "claimed"
    return between(item.base_value, min(low, item.base_value), max(high, item.base_value), item.grade, how, (item.id,))


def from_constant(item: Constant) -> Distribution:
    """Return a calibrated constant as a distribution: modelled where rows were fitted, else assumed."""
    return between(item.value, item.low, item.high, "P", "modelled" if item.rows else "assumed", (f"{item.name} {item.scope}".strip(),))


def uniform_points(dimensions: int, num: int, seed: int, method: str = "sobol") -> np.ndarray:
    """Return points of the unit cube (num, dimensions), seeded: Sobol (scrambled; cut from the next power of two), latin or random.

    Raises: InputError for another method, or more than 2**20 draws.
    """
    if not 1 <= num <= MOST_DRAWS:
        raise InputError("num", num, f"must be 1 to {MOST_DRAWS}")
    if dimensions == 0:
        return np.zeros((num, 0))
    if method == "sobol":
        return qmc.Sobol(dimensions, seed=seed).random_base2(int(np.ceil(np.log2(max(num, 2)))))[:num]
    if method == "latin":
        return qmc.LatinHypercube(dimensions, seed=seed).random(num)
    if method == "random":
        return np.random.default_rng(seed).random((num, dimensions))
    raise InputError("method", method, "must be sobol, latin or random")


def sample(inputs: Mapping[str, Distribution], num: int = NUM_DRAWS, seed: int = 0, method: str = "sobol",
           correlations: Mapping[tuple[str, str], float] | None = None) -> dict[str, np.ndarray]:
    """Draw every input: name -> (num + 1,), the central value first.

    Parameters: inputs; num [1] draws; seed; method; correlations, pair of names -> correlation of their normal scores (a Gaussian copula; what two
    systems share should be one input, not two that are correlated). Returns: arrays in the order of `inputs`.
    Raises: InputError for a name that is not there, or correlations that no inputs can have together.
    """
    points = uniform_points(len(inputs), num, seed, method)
    if correlations:
        names = list(inputs)
        matrix = np.eye(len(names))
        for (a, b), value in correlations.items():
            for name in (a, b):
                if name not in inputs:
                    raise InputError("correlations", name, f"must be one of {', '.join(names)}")
            i, j = names.index(a), names.index(b)
            matrix[i, j] = matrix[j, i] = float(number("correlations", value, -1.0, 1.0))
        try:
            root = np.linalg.cholesky(matrix + 1e-12 * np.eye(len(names)))
        except np.linalg.LinAlgError:
            raise InputError("correlations", len(correlations), "cannot hold all together (not positive definite)") from None
        points = ndtr(ndtri(np.clip(points, 1e-12, 1 - 1e-12)) @ root.T)
    return {name: np.concatenate([[item.value], item.quantile(points[:, i])]) for i, (name, item) in enumerate(inputs.items())}


def central(inputs: Mapping[str, Distribution]) -> dict[str, float]:
    """Return every input's central value."""
    return {name: item.value for name, item in inputs.items()}


def ends(drawn: np.ndarray) -> tuple[float, float]:
    """Return the 10th and 90th percentile of draws (n,); of whole numbers the whole ones at or beyond them: nobody buys 0.9 racks."""
    whole = bool((drawn == np.rint(drawn)).all())
    return tuple(float(np.percentile(drawn, q, method=m if whole else "linear")) for q, m in ((10, "lower"), (90, "higher")))


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return (central, 10th, 90th percentile) of values with the central one first; low and high always hold the central value."""
    low, high = ends(values[1:])
    return float(values[0]), float(min(low, values[0])), float(max(high, values[0]))
