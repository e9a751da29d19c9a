"""The step model fitted to published runs: a few efficiencies per GPU type and format, and the series residuals around them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.optimize import least_squares

from planner.calibration.training_residuals import Carrier, Traits, family_of
from planner.errors import InputError
from planner.facts import catalog, training_models
from planner.facts.files import table
from planner.facts.training_runs import Run, runs
from planner.models.training.job import Efficiency, Machine, TrainingLayout, Work, work
from planner.models.training.step import step_parts
from planner.specs import Rack

SOURCE = "data/training_steps.csv"
UNFUSED = ("sc21", "selective")  # stacks from before fused attention
UNSHARDED = 10 / 34  # of the activations of a layer, outside tensor parallelism without sequence parallelism (arXiv 2205.05198, eq. 2)
WINDOW = (1.0653 - (1.07644 - 0.028991)) / 0.028991  # attention left by MegaScale's window, from the FLOP per token of its rows
DENSE_SPREAD, EXPERT_SPREAD = 0.025, 0.08  # spread around the physics alone of a dense and of a mixture-of-experts run


@dataclass(frozen=True)
class Row:
    """A published run joined with its model's work and its machine."""

    run: Run
    work: Work
    machine: Machine
    layout: TrainingLayout
    passes: float

    @property
    def split(self) -> bool:
        """True where sequence parallelism splits the element-wise work too: all stacks after 2022."""
        return not (self.run.release.stack == "sc21" or (self.run.release.stack == "selective" and self.run.full_recompute))

    @property
    def dense(self) -> bool:
        """True for a model without routed experts."""
        return not self.work.experts


@cache
def priors() -> dict[tuple[str, str], tuple[float, float]]:
    """Return (name, scope) -> (value, log spread) of data/training_priors.csv."""
    return {(r["name"], r["scope"]): (float(r["value"]), float(r["log_sd"])) for r in table("training_priors.csv")}


def machine(rack: Rack, precision: str) -> Machine:
    """Return one GPU of a system in a number format, as the step model takes it.

    A job uses the usable GPUs of a domain (64 of 72). MXFP8 and FP8 share a peak. Raises: InputError for a format or a figure that the
    catalogue does not have.
    """
    gpu = rack.accelerator
    peaks = gpu.peak_flops_per_s
    name = {"mxfp8": "fp8"}.get(precision, precision)
    if name not in peaks or "bf16" not in peaks:
        raise InputError("precision", precision, f"is not available on {rack.label}: it has {', '.join(peaks) or 'no published peak'}")
    if gpu.hbm_bytes_per_s is None or gpu.nvlink is None:
        raise InputError("system", rack.label, "has no published memory or NVLink bandwidth: training steps cannot be predicted")
    nic = rack.nic.bytes_per_s * rack.nics_per_gpu if rack.nic else priors().get(("nic_bytes_per_s", rack.name), (None,))[0]
    if nic is None:
        raise InputError("system", rack.label, "has no published scale-out bandwidth: training steps cannot be predicted")
    domain = min(rack.domain_gpus, rack.usable_gpus)
    return Machine(rack.label, peaks[name], peaks["bf16"], gpu.hbm_bytes, gpu.hbm_bytes_per_s, gpu.nvlink.bytes_per_s, nic, domain)


def parallel_block(job: Work) -> Work:
    """Return the work with attention and feed-forward side by side and a sliding window, as the MegaScale rows' note says."""
    return replace(job, tp_rounds=1, attention_flops=job.attention_flops * WINDOW)


def joined(run: Run) -> Row:
    """Return a run with its model's work and its machine."""
    layout = TrainingLayout(run.tp, run.pp, run.vpp, run.dp, run.cp, run.ep, run.fsdp)
    job = work(training_models.load(run.model), run.seq_tokens)
    if run.release.stack == "megascale":
        job = parallel_block(job)
    return Row(run, job, machine(catalog.system(run.system), run.precision), layout,
               4.0 if run.full_recompute else 3.0)


@cache
def calibration_rows() -> tuple[Row, ...]:
    """Return the joined rows that the fit may use (suggested use: calibration)."""
    return tuple(joined(r) for r in runs() if r.use == "calibration")


def efficiency(values: dict[tuple[str, str], float], system: str, precision: str, unfused: bool = False, split: bool = True) -> Efficiency:
    """Return the constants of one GPU type and format from fitted values; a GPU type that was not fitted counts as the mean of all."""
    values = {**PLAIN, **values}

    def value(name: str, scope: str = "") -> float:
        return values[name, scope]

    gemm = value("gemm_fraction", "base") * values.get(("gemm_fraction", system), 1.0) * value("gemm_fraction", precision)
    wide = precision == "bf16"
    narrow = 1.0 if wide else value("elementwise_bytes", "narrow")
    experts = value("expert_fraction", "bf16") * (1.0 if wide else value("expert_fraction", "narrow"))
    return Efficiency(gemm, experts, value("attention_fraction"), value("elementwise_bytes", "bf16") * narrow,
                      value("unfused_bytes") if unfused else 0.0, value("expert_bytes"), value("kernel_seconds"),
                      *(value(f"{kind}_exposed") for kind in ("tp", "cp", "ep", "pp", "dp", "fsdp")), value("fixed_seconds"),
                      value("doubling_fraction"), 0.0 if split else UNSHARDED)


def physics_parts(eff: Efficiency, row: Row, rate: float = 0.0) -> dict:
    """Return the step time [s] of a row by part, by the equations and fitted constants alone; rate [1/month], see `release_rate`."""
    parts = step_parts(row.work, row.machine, eff, row.layout, row.run.global_batch, row.run.micro_batch, row.passes)
    # software for mixtures of experts gains month by month; the reference is April 2026
    gain = float(np.exp(-rate * (row.run.release.month - REFERENCE_MONTH))) if rate else 1.0
    return {name: seconds * gain for name, seconds in parts.items()}


def physics_seconds(values: dict[tuple[str, str], float], rows: tuple[Row, ...]) -> np.ndarray:
    """Return the step times [s] of rows by the equations and fitted values alone."""
    effs: dict[tuple, Efficiency] = {}
    found = []
    for row in rows:
        key = (row.run.system, row.run.precision, row.run.release.stack in UNFUSED, row.split)
        if key not in effs:
            effs[key] = efficiency(values, *key)
        found.append(sum(physics_parts(effs[key], row, values.get(("release_rate", ""), 0.0)).values()))
    return np.array(found)


def traits_like(traits: Traits, layout: TrainingLayout, parts: dict) -> Traits:
    """Return the traits with those that follow from the layout and the parts of the computed step."""
    total = sum(parts.values())
    apart = parts["bubble"] + parts["gradients"] + parts["optimizer"] + parts["fixed"]
    split = f"{layout.tp:g}/{layout.pp:g}/{layout.vpp:g}/{layout.cp:g}/{layout.ep:g}/{layout.fsdp > 1}"  # the data-parallel width may grow
    return replace(traits, layout=split, overhead=float(apart / total), doublings=float(np.log2(layout.gpus / 64)))


def traits_of(row: Row, parts: dict) -> Traits:
    """Return what a row shares with others."""
    run, stack = row.run, row.run.release.stack
    plain = Traits("dense" if row.dense else "experts", stack, family_of(stack), run.release.name, run.release.prefix, row.work.name,
                   run.system, run.precision, "", run.release.month, 0.0, 0.0)
    return traits_like(plain, row.layout, parts)


def carrier(values: dict[tuple[str, str], float], rows: tuple[Row, ...]) -> Carrier:
    """Return the residuals of rows around the fitted values, ready to be carried to others."""
    rate = values.get(("release_rate", ""), 0.0)
    parts = [physics_parts(efficiency(values, r.run.system, r.run.precision, r.run.release.stack in UNFUSED, r.split), r, rate) for r in rows]
    residuals = np.log([r.run.step_seconds / sum(p.values()) for r, p in zip(rows, parts, strict=True)])
    traits = [traits_of(r, p) for r, p in zip(rows, parts, strict=True)]
    return Carrier(traits[0].kind, traits, residuals)


ASSUMED = ("nic_bytes_per_s", "kept_fraction")  # rows of the same table that are not fitted
EXPERTS_ONLY = ("expert_fraction", "expert_bytes", "ep_exposed", "release_rate")
PLAIN = {("expert_fraction", "bf16"): 1.0, ("expert_fraction", "narrow"): 1.0, ("expert_bytes", ""): 0.0, ("ep_exposed", ""): 0.0,
         ("unfused_bytes", ""): 0.0}
REFERENCE_MONTH = 26 * 12 + 3


def names(dense: bool) -> list[tuple[str, str]]:
    """Return the (name, scope) of the constants that dense or mixture-of-experts models have."""
    keys = [(r["name"], r["scope"]) for r in table("training_priors.csv") if r["name"] not in ASSUMED]
    return [k for k in keys if (k[0] not in EXPERTS_ONLY if dense else k[0] != "unfused_bytes")]


def fit_physics(rows: tuple[Row, ...], start: np.ndarray | None = None) -> tuple[dict[tuple[str, str], float], np.ndarray]:
    """Return the fitted values by (name, scope) and their logarithms: least squares on log step times, priors in logs, outliers damped."""
    keys = names(rows[0].dense)
    mean = np.log([priors()[k][0] for k in keys])
    spread = np.array([priors()[k][1] for k in keys])
    width = np.array([DENSE_SPREAD if r.dense else EXPERT_SPREAD for r in rows])
    measured = np.log([r.run.step_seconds for r in rows])

    def residuals(theta):
        values = dict(zip(keys, np.exp(theta).tolist(), strict=True))
        errors = (np.log(physics_seconds(values, rows)) - measured) / width
        return np.concatenate([errors, (theta - mean) / spread])

    found = least_squares(residuals, mean if start is None else start, x_scale=spread, loss="soft_l1", method="trf")
    return dict(zip(keys, np.exp(found.x).tolist(), strict=True)), found.x


def left_out(rows: tuple[Row, ...], series: tuple[str, str, str], start: np.ndarray | None = None) -> list[tuple[Row, float, float, float]]:
    """Return (row, predicted step [s], by the equations alone [s], log spread) of a series, fitted without it.

    The rows of the series take no part in the fit nor in the residuals that are carried over.
    """
    kept = tuple(r for r in rows if r.run.series != series)
    values, _ = fit_physics(kept, start)
    others = carrier(values, kept)
    found = []
    for row in rows:
        if row.run.series == series:
            eff = efficiency(values, row.run.system, row.run.precision, row.run.release.stack in UNFUSED, row.split)
            parts = physics_parts(eff, row, values.get(("release_rate", ""), 0.0))
            mean, spread, _ = others.carried(traits_of(row, parts))
            plain = sum(parts.values())
            found.append((row, plain * float(np.exp(mean)), plain, spread))
    return found


def from_one_row(values: dict[tuple[str, str], float], rows: tuple[Row, ...], small: str, large: str) -> float:
    """Return the error (predicted over measured step - 1) of a larger run, carried over from one smaller row of its layout.

    All other rows of the larger run's series are left out of what is carried over. Parameters: values, fitted; rows of one kind; small and large,
    row ids. Raises: InputError for an id that is not among the rows.
    """
    by_name = {r.run.row: r for r in rows}
    for name in (small, large):
        if name not in by_name:
            raise InputError("row", name, "must be a calibration row")
    wanted = by_name[large]
    kept = tuple(r for r in rows if r.run.row == small or (r.run.release.prefix, r.run.model) != (wanted.run.release.prefix, wanted.run.model))
    eff = efficiency(values, wanted.run.system, wanted.run.precision, wanted.run.release.stack in UNFUSED, wanted.split)
    parts = physics_parts(eff, wanted, values.get(("release_rate", ""), 0.0))
    mean, _, _ = carrier(values, kept).carried(traits_of(wanted, parts))
    return sum(parts.values()) * float(np.exp(mean)) / wanted.run.step_seconds - 1


def plausible(name: str, scope: str, value: float) -> tuple[float, float]:
    """Return the 10th and 90th percentile that the prior's spread would give around a fitted value: an upper bound of its uncertainty."""
    reach = float(np.exp(1.2816 * priors()[name, scope][1]))
    return value / reach, value * reach


def unit_of(name: str) -> str:
    """Return the unit of a fitted constant."""
    return next(r["unit"] for r in table("training_priors.csv") if r["name"] == name)
