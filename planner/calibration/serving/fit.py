"""The fit: constants of one kind of model, jointly on public runs and submissions, pulled towards priors; nothing is tuned on what is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import least_squares

from planner.calibration.serving.join import KINDS, kind_of, prior
from planner.calibration.serving.published import Published, runs
from planner.calibration.serving.submissions import SYSTEMS, Submissions, configurations
from planner.facts import mlperf, modelcards
from planner.models.serving.step import EFFICIENCIES, Efficiency

RUN_SPREAD, SUBMISSION_SPREAD = 0.12, 0.10  # log spread of a public run and of a configuration around the model
FIRST_TOKEN_WEIGHT, FIRST_TOKEN_SPREAD = 0.15, 0.5  # TTFT of public runs says little and is noisy
EVALUATIONS = 16  # then it stops: with 40 the fitted rows come nearer and the left-out ones do not (median 11.6 % against 10.8 %)
USES = ("tuned", "public")
SHARED = (
    "newer_attention",
    "new_platform",
    "new_platform_served",
    "server",
    "interactive",
    "small_interactive",
    "headroom",
    "tail",
    "service_scv",
    "level",
)
BY_FAMILY = ("early", "previous")
SERVED_FAMILY = ("early_served", "previous_served")


@dataclass(frozen=True)
class Fitted:
    """Constants of one kind of model: names and their logs x (n,), covariance of the logs (n, n); software and launch factors by key of the runs."""

    kind: str
    names: tuple[str, ...]
    x: np.ndarray
    covariance: np.ndarray

    def value(self, name: str) -> float:
        """Return one constant."""
        return float(np.exp(self.x[self.names.index(name)]))

    @property
    def values(self) -> dict[str, float]:
        """All constants by name."""
        return dict(zip(self.names, np.exp(self.x).tolist(), strict=True))

    @property
    def efficiency(self) -> Efficiency:
        """The constants of a step."""
        held = self.values
        return Efficiency(**{k: held[k] for k in EFFICIENCIES})


class Problem:
    """The rows of one kind of model, the constants to find, and what they miss by."""

    def __init__(self, kind: str, systems: tuple[str, ...] = SYSTEMS):
        self.kind = kind
        self.public = Published([r for r in runs() if kind_of(modelcards.load(r.model)) == kind])
        self.submitted = Submissions([c for c in configurations(systems) if kind_of(c.shape) == kind])
        self.names, self.start, self.spread = self._priors()

    def _priors(self) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
        family = "dense" if self.kind == "dense" else "moe"
        wanted = [(k, k, "") for k in EFFICIENCIES]
        wanted += [(f"software|{k}", "software", "run") for k in self.public.keys]
        wanted += [(f"launch|{k}", "launch", "run") for k in self.public.keys]
        wanted += [("launch|submission", "launch", "submission"), *((k, k, "") for k in SHARED)]
        wanted += [(f"{k}|{family}", k, family) for k in (BY_FAMILY if family == "dense" else (*BY_FAMILY, *SERVED_FAMILY))]
        if self.kind == "latent":
            wanted.append(("accepted", "accepted", ""))
        if self.kind == "moe":
            wanted.append(("new_model", "new_model", ""))
        found = {name: prior(*row) for name, *row in wanted}
        for model in self.submitted.names:
            found[f"model_level|{model}"] = prior("model_level")
            for name in ("tail", "service_scv"):
                found[f"{name}|{model}"] = prior(name, model)
            spread = prior("mean_input_tokens", model)[1]
            found[f"mean_input_tokens|{model}"] = mlperf.workload(model, "Offline")[0].input_tokens.mean, spread
        value, spread = np.array(list(found.values())).T
        return tuple(found), np.log(value), spread

    def learned(self, x: np.ndarray) -> dict[str, float]:
        """Return the constants by name, with the prior of those that this kind does not fit."""
        return {"accepted": prior("accepted")[0], **dict(zip(self.names, np.exp(x).tolist(), strict=True))}

    def efficiency(self, x: np.ndarray) -> Efficiency:
        """Return the constants of a step."""
        return Efficiency(**dict(zip(EFFICIENCIES, np.exp(x[: len(EFFICIENCIES)]).tolist(), strict=True)))

    def runs_solved(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return TPOT, TTFT [s] and batch [1] of the public runs."""
        first, count = len(EFFICIENCIES), len(self.public.keys)
        factors = np.exp(x[first : first + 2 * count]).reshape(2, count)
        return self.public.solve(self.efficiency(x), *factors)

    def submissions_log(self, x: np.ndarray) -> np.ndarray:
        """Return the log throughput of the configurations."""
        learned = self.learned(x)
        return self.submitted.predict(self.efficiency(x), learned, learned["launch|submission"])

    def residuals(self, x: np.ndarray, runs_kept: np.ndarray, submissions_kept: np.ndarray) -> np.ndarray:
        """Return what the constants miss by, in spreads: kept runs, kept configurations, and their own distance from the priors."""
        tpot, ttft, _ = self.runs_solved(x)
        public = self.public.weight * np.clip(np.log(tpot / self.public.tpot), -2, 2) / RUN_SPREAD
        first = FIRST_TOKEN_WEIGHT * np.clip(np.log(ttft / self.public.ttft) / FIRST_TOKEN_SPREAD, -4, 4)
        mine = np.clip(self.submissions_log(x) - np.log(self.submitted.measured), -2, 2) * self.submitted.weight / SUBMISSION_SPREAD
        return np.r_[public[runs_kept], first[runs_kept & self.public.disaggregated], mine[submissions_kept], (x - self.start) / self.spread]

    def fit(self, use: str, keep_run: Callable | None = None, keep_submission: Callable | None = None, start=None) -> Fitted:
        """Return the constants fitted on the rows that are kept, from the priors.

        use, one of `USES`: tuned, on submissions alone, the best that is known of a system; public, on public runs and submissions together.
        keep_run, keep_submission: Run or Configuration -> bool (absent: all). Raises: nothing.
        """
        if use == "tuned":
            keep_run = _none
        kept = (
            np.array([keep_run is None or keep_run(r) for r in self.public.runs]),
            np.array([keep_submission is None or keep_submission(c) for c in self.submitted.rows]),
        )
        found = least_squares(
            self.residuals, self.start if start is None else start, args=kept, loss="soft_l1", f_scale=1.5, max_nfev=EVALUATIONS, diff_step=1e-3
        )
        return Fitted(self.kind, self.names, found.x, np.linalg.inv(found.jac.T @ found.jac))


@cache
def problem(kind: str) -> Problem:
    """Return the problem of one kind of model on the systems with results."""
    return Problem(kind)


def _none(row) -> bool:
    return False


def fit_all() -> dict[tuple[str, str], Fitted]:
    """Return the constants of every kind of model for every use."""
    return {(kind, use): problem(kind).fit(use) for kind in KINDS for use in USES}
