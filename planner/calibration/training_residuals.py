"""What published runs say beyond the equations: log residuals of the step model, carried to like runs by a covariance of shared traits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from planner.facts.files import table

FAMILIES = {"bridge": "nemo", "dgxc": "nemo", "mlperf": "nemo", "examples": "nemo"}  # stacks built on one code base


@dataclass(frozen=True)
class Traits:
    """What a run shares with others; empty text: unknown, shared with none.

    month [month] of its release; overhead [1] the share of the step that does not grow with the micro-batches; doublings [1] of 64 GPUs.
    """

    kind: str
    stack: str
    family: str
    release: str
    source: str
    model: str
    system: str
    precision: str
    layout: str
    month: float
    overhead: float
    doublings: float


@dataclass(frozen=True)
class Component:
    """One term of the covariance: runs that agree on these traits share a deviation of spread sd [log], scaled and faded."""

    agree_on: tuple[str, ...]
    times: str
    sd: float
    months: float | None


def family_of(stack: str) -> str:
    """Return the code base a stack belongs to."""
    return FAMILIES.get(stack, stack)


@cache
def components(kind: str) -> tuple[Component, ...]:
    """Return the terms of data/training_residuals.csv for dense models or mixtures of experts."""
    return tuple(Component(tuple(r["agree_on"].split("+")) if r["agree_on"] else (), r["times"], float(r["sd"]),
                           float(r["months"]) if r["months"] else None) for r in table("training_residuals.csv") if r["kind"] == kind)


def covariance(kind: str, some: list[Traits], others: list[Traits]) -> np.ndarray:
    """Return the covariance of log residuals between two lists of runs, without the noise of single runs."""
    months = np.abs(np.array([t.month for t in some])[:, None] - np.array([t.month for t in others]))
    total = np.zeros((len(some), len(others)))
    for term in components(kind):
        if not term.agree_on:
            continue
        left, right = ([tuple(getattr(t, name) for name in term.agree_on) for t in side] for side in (some, others))
        same = np.array([[a == b and all(a) for b in right] for a in left], float)
        if term.times:
            same = same * np.array([getattr(t, term.times) for t in some])[:, None] * np.array([getattr(t, term.times) for t in others])
        total += term.sd**2 * same * (np.exp(-months / term.months) if term.months else 1.0)
    return total


def noise(kind: str) -> float:
    """Return the standard deviation of the log of repeats of one run."""
    return next(term.sd for term in components(kind) if not term.agree_on)


def variance(kind: str, wanted: Traits) -> float:
    """Return the variance of the log residual of a run before any other is known."""
    return sum((term.sd * (getattr(wanted, term.times) if term.times else 1.0)) ** 2 for term in components(kind))


class Carrier:
    """Published residuals of one kind, ready to be carried to other runs: E = k (K + noise^2)^-1 r."""

    def __init__(self, kind: str, traits: list[Traits], residuals: np.ndarray):
        self.kind, self.traits = kind, traits
        self._inverse = np.linalg.inv(covariance(kind, traits, traits) + noise(kind) ** 2 * np.eye(len(traits)))
        self._weight = self._inverse @ np.asarray(residuals, float)
        self._own = np.sqrt(np.array([variance(kind, t) for t in traits]))

    def carried(self, wanted: Traits) -> tuple[float, float, int]:
        """Return (mean [log], standard deviation [log], index of the run most correlated with the one wanted)."""
        shared = covariance(self.kind, [wanted], self.traits)[0]
        left = variance(self.kind, wanted) - float(shared @ self._inverse @ shared)
        return float(shared @ self._weight), float(np.sqrt(max(left, noise(self.kind) ** 2))), int(np.argmax(shared / self._own))

    def shared(self, wanted: Traits, index: int) -> float:
        """Return the covariance of the run wanted with one of those known: 0 where they share nothing."""
        return float(covariance(self.kind, [wanted], [self.traits[index]])[0, 0])
