"""Training steps as the planner states them: fitted equations, what like published runs say beyond them, and an interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from planner.calibration import training
from planner.calibration.table import Constant, constants
from planner.calibration.training_residuals import Carrier, Traits, family_of
from planner.errors import InputError
from planner.facts import training_models, training_runs
from planner.facts.training_runs import Release
from planner.models.training.job import Efficiency, TrainingLayout, Work, check, work
from planner.models.training.search import Found, search
from planner.models.training.step import step_parts
from planner.shapes import ModelShape
from planner.specs import Rack

Z90 = 1.2815515655446004  # standard deviations from the middle to the 90th percentile
UNFITTED_SYSTEM_SPREAD = 0.2  # GPU types differ by 12 % around their mean, and first software on a new one lost up to 18 %
OUTSIDE_SPREAD = 0.05  # a model or job far outside the calibrated sizes


@dataclass(frozen=True)
class StepEstimate:
    """A predicted step. seconds, low and high (10th and 90th percentile) [s]; parts [s], which sum to seconds; tokens [token] of a step;
    spread [log]; how, `modelled` or `extrapolated`; notes, what a reader must know; nearest, the published run that says most (row id, or empty).
    """

    seconds: float
    low: float
    high: float
    parts: dict[str, float]
    gpus: int
    tokens: float
    spread: float
    how: str
    notes: tuple[str, ...]
    nearest: str

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Trained tokens per second and GPU of the job [1/s]."""
        return self.tokens / self.seconds / self.gpus

    @property
    def limit(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda k: self.parts[k])


@cache
def fitted(dense: bool) -> dict[tuple[str, str], float]:
    """Return the fitted values by (name, scope) of data/calibration/training.csv for dense models or mixtures of experts."""
    kind = "dense" if dense else "experts"
    found = {}
    for (name, scope), item in constants("training").items():
        first, _, rest = scope.partition(" ")
        if first == kind and name not in ("log_residual", "left_out_error"):
            found[name, rest] = item.value
    return found


@cache
def known(dense: bool) -> tuple[Carrier, tuple[training.Row, ...]]:
    """Return the carried residuals and the rows they are from."""
    rows = tuple(r for r in training.calibration_rows() if r.dense == dense)
    return training.carrier(fitted(dense), rows), rows


@cache
def _systems(dense: bool) -> frozenset[str]:
    return frozenset(r.run.system for r in known(dense)[1])


def efficiency(rack: Rack, precision: str, dense: bool, release: Release | None = None) -> Efficiency:
    """Return the fitted constants of a system and format. Raises: InputError for a format that no published run used."""
    values = fitted(dense)
    if ("gemm_fraction", precision) not in values:
        formats = sorted({s for n, s in values if n == "gemm_fraction"} & {"bf16", "fp8", "mxfp8", "nvfp4"})
        raise InputError("precision", precision, f"is not validated for training: published runs used {', '.join(formats)}")
    stack = release.stack if release else ""
    return training.efficiency(values, rack.name, precision, stack in training.UNFUSED, stack != "sc21")


def correction(rack: Rack, job: Work, layout: TrainingLayout, precision: str, parts: dict, release: Release | None,
               dense: bool) -> tuple[float, float, str]:
    """Return (mean, spread) of the log of measured over computed time, and the published run that says most about it."""
    carried, rows = known(dense)
    system = rack.name if rack.name in _systems(dense) else ""
    newest = max(r.run.release.month for r in rows)
    like = Traits("dense" if dense else "experts", release.stack if release else "", family_of(release.stack) if release else "nemo",
                  release.name if release else "", release.prefix if release else "", job.name, system, precision, "",
                  release.month if release else newest, 0.0, 0.0)
    fake = training.traits_like(like, layout, parts)
    mean, spread, nearest = carried.carried(fake)
    share = carried.shared(fake, nearest)
    return mean, spread, rows[nearest].run.row if share > 0 else ""


def estimate(shape: ModelShape, rack: Rack, layout: TrainingLayout, seq_tokens: float, global_batch: int, micro_batch: int, precision: str,
             full_recompute: bool = False, release: Release | None = None, gpus: int | None = None) -> StepEstimate:
    """Return one training step with its interval.

    Parameters: shape; rack; layout; seq_tokens [token]; global_batch and micro_batch [sequence]; precision, bf16, fp8, mxfp8 or nvfp4;
    full_recompute; release, the software of a published series (None: the newest of the common code base); gpus, checked against the layout.
    Raises: InputError for what cannot run or was never published (format, missing figures of the system).
    """
    job = work(shape, seq_tokens)
    if release is not None and release.stack == "megascale":
        job = training.parallel_block(job)
    check(job, layout, global_batch, micro_batch, gpus)
    dense = not job.experts
    machine = training.machine(rack, precision)
    eff = efficiency(rack, precision, dense, release)
    if release is not None and release.stack == "selective" and full_recompute:
        eff = replace(eff, unsharded_fraction=training.UNSHARDED)
    parts = step_parts(job, machine, eff, layout, global_batch, micro_batch, 4.0 if full_recompute else 3.0)
    rate = fitted(dense).get(("release_rate", ""), 0.0)
    newest = max(r.run.release.month for r in known(dense)[1])
    gain = float(np.exp(-rate * ((release.month if release else newest) - training.REFERENCE_MONTH)))
    parts = {name: float(value) * gain for name, value in parts.items()}
    mean, spread, nearest = correction(rack, job, layout, precision, parts, release, dense)
    how, notes = "modelled", []
    if rack.name not in _systems(dense):
        how, spread = "extrapolated", float(np.hypot(spread, UNFITTED_SYSTEM_SPREAD))
        notes.append(f"no published training run on {rack.label} is in the calibration")
    if not dense and job.name not in {r.work.name for r in known(dense)[1]}:
        how = "extrapolated"
        notes.append("no published run of this mixture-of-experts family: wide interval")
    rows = known(dense)[1]
    for what, value, low, high in (("GPUs", layout.gpus, min(r.run.gpus for r in rows), max(r.run.gpus for r in rows)),
                                   ("parameters", job.params, min(r.work.params for r in rows), max(r.work.params for r in rows)),
                                   ("sequence", job.seq_tokens, 2048, 8192)):
        if not 0.5 * low <= value <= 2 * high:
            how, spread = "extrapolated", float(np.hypot(spread, OUTSIDE_SPREAD))
            notes.append(f"{what} {value:,.4g} outside the calibrated {low:,.4g} to {high:,.4g}")
    factor = float(np.exp(mean))
    parts = {name: value * factor for name, value in parts.items()}
    seconds = float(sum(parts.values()))
    reach = float(np.exp(Z90 * spread))
    return StepEstimate(seconds, seconds / reach, seconds * reach, parts, int(layout.gpus), float(global_batch) * job.seq_tokens, spread, how,
                        tuple(notes), nearest)


def best_layouts(shape: ModelShape, rack: Rack, gpus: int, seq_tokens: float, global_batch: int, precision: str, full_recompute: bool = False,
                 release: Release | None = None, best: int = 5) -> list[Found]:
    """Return the fastest layouts that fit, fastest first, by the fitted equations. Raises: as `search` and `estimate`."""
    job = work(shape, seq_tokens)
    kept, _ = training.priors()["kept_fraction", ""]
    eff = efficiency(rack, precision, not job.experts, release)
    return search(job, training.machine(rack, precision), eff, gpus, global_batch, kept, passes=4.0 if full_recompute else 3.0, best=best)


def convention(shape: ModelShape, model: str, seq_tokens: float, nearest: str, name: str = "as_printed") -> tuple[float, str]:
    """Return (FLOP per trained token, the convention in words).

    Parameters: name, `as_printed` (by the nearest published run of the model and length, else by the table of models, else causal), `causal`
    (6 x matrix products, attention at half the sequence), `full` (the whole sequence), `hardware` (full attention and full recompute).
    Raises: InputError for another name.
    """
    job = work(shape, seq_tokens)
    own = {"causal": (job.flops_per_token(), "model FLOP, causal attention"),
           "full": (job.flops_per_token(causal=False), "model FLOP, full attention"),
           "hardware": (job.flops_per_token(4.0, causal=False), "hardware FLOP with full recompute, full attention")}
    if name in own:
        return own[name]
    if name != "as_printed":
        raise InputError("convention", name, f"must be as_printed, {', '.join(own)}")
    for run in training_runs.runs():
        if run.row == nearest and training_models.load(run.model).name == shape.name and run.seq_tokens == seq_tokens and run.tflops:
            tokens = run.global_batch * run.seq_tokens / run.step_seconds / run.gpus
            return run.tflops * 1e12 / tokens, f"as printed by {run.source}"
    printed = training_models.printed_flops_per_token(model, seq_tokens)
    return printed if printed else own["causal"]


def fit() -> list[Constant]:
    """Return every constant of data/calibration/training.csv: fitted values, residuals of the rows and the errors of left-out series.

    Deterministic; takes some minutes, because each series is left out in turn.
    """
    found = []
    both = {dense: tuple(r for r in training.calibration_rows() if r.dense == dense) for dense in (True, False)}
    fits = {dense: training.fit_physics(rows) for dense, rows in both.items()}
    for dense, rows in both.items():
        kind = "dense" if dense else "experts"
        values, theta = fits[dense]
        if dense:
            values = _borrowed(values, fits[False][0], rows)
        for (name, scope), value in values.items():
            low, high = training.plausible(name, scope, value)
            note = "effective: also covers what splitting costs the matrix products" if name == "tp_exposed" else ""
            found.append(Constant(name, f"{kind} {scope}".strip(), value, low, high, training.unit_of(name), len(rows), training.SOURCE, note))
        found += _left_out(kind, rows, theta)
    return found


def _borrowed(values: dict, experts: dict, rows: tuple[training.Row, ...]) -> dict:
    """Return the dense values with GPU types that have no dense run: the ratio to their sibling board, from mixtures of experts."""
    seen = {r.run.system for r in rows}
    borrowed = dict(values)
    for system, sibling in (("b300-hgx", "b200-hgx"),):
        if system not in seen:
            key, other = ("gemm_fraction", system), ("gemm_fraction", sibling)
            borrowed[key] = values[other] * experts[key] / experts[other]
    return borrowed


def _left_out(kind: str, rows: tuple[training.Row, ...], theta: np.ndarray) -> list[Constant]:
    errors = {}
    for series in sorted({r.run.series for r in rows}):
        for row, seconds, _, spread in training.left_out(rows, series, theta):
            errors[row.run.row] = (seconds / row.run.step_seconds - 1, spread)
    found = [Constant("left_out_error", f"{kind} {row}", float(e), float(np.expm1(-Z90 * s)), float(np.expm1(Z90 * s)), "1", 1,
                      training.SOURCE, "predicted over measured less 1; low and high: the interval's own half-widths")
             for row, (e, s) in sorted(errors.items())]
    size = np.abs([e for e, _ in errors.values()])
    inside = np.mean([abs(np.log1p(e)) <= Z90 * s for e, s in errors.values()])
    for name, value in (("left_out_median", np.median(size)), ("left_out_p90", np.quantile(size, 0.9)),
                        ("left_out_within_12", np.mean(size <= 0.12)), ("left_out_coverage", inside)):
        found.append(Constant(name, kind, float(value), float(value), float(value), "1", len(rows), training.SOURCE,
                              "a series (source, model and GPU type) left out at a time"))
    return found
