"""Benchmark submissions by configuration: the best layout under each scenario's limits, times what a round and a platform had reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from planner.calibration.serving.join import ENGINE_BYTES, newer_attention, rates, vision_patches, work_in
from planner.calibration.serving.published import joined
from planner.facts import catalog, mlperf, modelcards
from planner.facts.names import resolve_model
from planner.models.serving.amounts import attention_terms, lifted, terms, with_attention
from planner.models.serving.pools import SMOOTH, Demand, serve
from planner.models.serving.step import Efficiency, Rates
from planner.shapes import Layout, ModelShape
from planner.specs import Rack

SCENARIOS = ("Offline", "Server", "Interactive")
SYSTEMS = ("h100-sxm", "h200-sxm", "b200-hgx", "gb200-nvl72", "b300-hgx", "gb300-nvl72")
FIRST_ROUND = {"gb300-nvl72": "v5.1", "b300-hgx": "v6.0", "vr-nvl72": "v6.1"}  # of a platform, where the results hold it
NEW_MODEL = ("qwen3-vl-235b-a22b", "v6.0")
FIRST_RANKS = 5  # tensor-parallel widths 1 to 16
WIDEST = 16  # GPUs of the widest layout in the published recipes
MEMORY_FRACTION = 0.95
MANY_GPUS = 16
DRAFTS = 3  # tokens drafted a step in Interactive on models with a module for it, by the recipes
SHARP = 40.0  # of the smooth maximum over layouts
ENGINE_SEQUENCES = 3072.0  # the largest batch a rank in the published recipes


@dataclass(frozen=True)
class Configuration:
    """Rows of one model, scenario, system, GPU count and round: the median over submitters, output tokens a second and GPU [1/s].

    num, rows behind it; inferred, the share whose GPU count was inferred; profile of the system.
    """

    model: str
    scenario: str
    system: str
    gpus: int
    round: str
    per_gpu: float
    num: int
    inferred: float
    profile: str = ""

    @property
    def shape(self) -> ModelShape:
        """The model's shape."""
        return shape_of(self.model)

    @property
    def served(self) -> bool:
        """Whether a latency limit holds."""
        return self.scenario != "Offline"

    @property
    def new_platform(self) -> bool:
        """Whether the platform was in its first round."""
        return FIRST_ROUND.get(self.system) == self.round


@cache
def shape_of(model: str) -> ModelShape:
    """Return the shape of a benchmark's model."""
    return modelcards.load(resolve_model(model))


@cache
def output_tokens(model: str, scenario: str) -> float:
    """Return the mean output tokens of a benchmark request."""
    return mlperf.workload(model, scenario)[0].output_tokens.mean


@cache
def configurations(systems: tuple[str, ...] = SYSTEMS) -> tuple[Configuration, ...]:
    """Return every configuration of language and vision-language models, closed division, one kind of NVIDIA GPU, not virtualised."""
    groups: dict[tuple, list[tuple[float, bool]]] = {}
    for run in mlperf.runs():
        if run.scenario not in SCENARIOS or run.system not in systems or not run.compared or "virtual" in run.flags:
            continue
        if not run.shape or run.model not in models():
            continue
        tokens = 1.0 if run.metric == "tok/s" else output_tokens(run.model, run.scenario)
        key = (run.model, run.scenario, run.system, run.accelerators, run.round)
        groups.setdefault(key, []).append((run.per_accelerator * tokens, "inferred" in run.flags))
    return tuple(
        Configuration(*key, float(np.median([v for v, _ in rows])), len(rows), float(np.mean([i for _, i in rows])))
        for key, rows in sorted(groups.items())
    )


@cache
def models() -> tuple[str, ...]:
    """Return the benchmarks of language models whose lengths are known."""
    found = []
    for name in sorted({run.model for run in mlperf.runs() if run.shape}):
        try:
            mlperf.workload(name, "Offline")
        except Exception:
            continue
        found.append(name)
    return tuple(found)


def weights_of(model: str, rack: Rack) -> str:
    """Return the weight format of submissions: what the GPU multiplies fastest, MXFP4 where the model is released in it."""
    if "gpt-oss" in model:
        return "mxfp4"
    return "nvfp4" if {"nvfp4", "mxfp4"} & set(rack.accelerator.peak_flops_per_s) else "fp8"


def recipes(shape: ModelShape, domain_gpus: int, gpus: int) -> list[Layout]:
    """Return the layouts that submissions choose from: TP and TP with EP to 8 GPUs, attention-DP with EP to 16."""
    found, n = [], 1
    while n <= min(gpus, domain_gpus, WIDEST):
        if n <= 8 and shape.heads % n == 0:
            found.append(Layout(tp=n))
        if n <= 8 and shape.experts and n > 1:
            found.append(Layout(tp=n, ep=n))
        if shape.experts and n > 1:
            found.append(Layout(dp=n, ep=n))
        n *= 2
    return found


def rounds_factor(one: Configuration, learned: Mapping[str, float]) -> float:
    """Return what a round, a platform's newness, a scenario and a benchmark multiply the mature throughput by."""
    moe = "moe" if one.shape.experts else "dense"
    words = {"v5.1": ["early"], "v6.0": ["previous"]}.get(one.round, [])
    names = [f"{w}|{moe}" for w in words]
    if moe == "moe" and one.served:
        names += [f"{w}_served|moe" for w in words]
    if one.new_platform:
        names += ["new_platform", *(["new_platform_served"] if one.served else [])]
    if (one.model, one.round) == NEW_MODEL:
        names.append("new_model")
    if one.served:
        names.append(one.scenario.lower())
    if one.scenario == "Interactive" and one.gpus < MANY_GPUS:
        names.append("small_interactive")
    return float(np.prod([learned[n] for n in [*names, "level", f"model_level|{one.model}"]]))


class Submissions:
    """Configurations of one kind of model as arrays: every candidate layout of each, ready to be solved for any constants."""

    def __init__(self, chosen: list[Configuration], prefill_tried: int = 3, tried=None):
        self.rows = chosen
        self.names = sorted({c.model for c in chosen})
        decode, prefill, racks = [], [], []
        self.pairs: list[tuple[Layout, Layout]] = []
        owner, alone, pools, widths = [], [], [], []
        for i, one in enumerate(chosen):
            rack = catalog.system(one.system, one.profile or None)
            work = work_in(one.shape, weights_of(one.model, rack), rack.accelerator)
            layouts = recipes(one.shape, rack.domain_gpus, one.gpus) if tried is None else tried(one)
            zero = attention_terms(one.shape, [x.tp for x in layouts], 1.0, 1.0, 8.0)
            each = [
                terms(work, [x], {k: v[[j]] for k, v in zero.items()}, rack.domain_gpus, vision_patches(one.model)) for j, x in enumerate(layouts)
            ]
            budget = MEMORY_FRACTION * (rack.accelerator.hbm_bytes - rack.accelerator.reserve_bytes) - ENGINE_BYTES
            fit = [j for j, t in enumerate(each) if t.held_bytes[0] < budget]
            pairs = [(j, j, True) for j in fit]
            if one.served:
                for j in fit:
                    fillers = [q for q in fit if layouts[q].gpus + layouts[j].gpus <= one.gpus]
                    pairs += [(j, q, False) for q in fillers[:prefill_tried]]
            for j, q, single in pairs:
                decode.append(each[j])
                prefill.append(each[q])
                self.pairs.append((layouts[j], layouts[q]))
                owner.append(i)
                alone.append(single)
                racks.append(rack)
                pools.append(budget - each[j].held_bytes[0])
                widths.append((layouts[j].tp, layouts[q].tp))
        self.owner, self.aggregated, self.pools = np.array(owner), np.array(alone)[:, None], np.array(pools)[:, None]
        self.decode, self.prefill = lifted(joined(decode)), lifted(joined(prefill))
        self.width = np.log2(np.array(widths)).astype(int)
        self.newer = np.array([newer_attention(r.accelerator) for r in racks])
        base = rates(racks)
        self.base = Rates(base.hbm_bytes_per_s[:, None], base.flops_per_s[..., None], base.link_bytes_per_s[:, None], base.cross_bytes_per_s[:, None])
        self.model_of = np.array([self.names.index(chosen[i].model) for i in owner])
        loads = {(c.model, c.scenario): mlperf.workload(c.model, c.scenario)[0] for c in chosen}

        def column(read):
            return np.array([read(chosen[i], loads[chosen[i].model, chosen[i].scenario]) for i in owner], dtype=float)[:, None]

        self.outputs = column(lambda c, w: w.output_tokens.mean)
        self.limits = [column(lambda c, w, k=k: getattr(w.slo, k) or np.inf) for k in ("ttft_seconds", "tpot_seconds", "e2e_seconds")]
        self.gpus = column(lambda c, w: c.gpus)
        self.drafts = column(lambda c, w: DRAFTS if c.scenario == "Interactive" and c.shape.mtp_layers else 0)
        self.mean_outputs = [float(np.mean([w.output_tokens.mean for (m, _), w in loads.items() if m == name])) for name in self.names]
        self.measured = np.array([c.per_gpu for c in chosen])
        self.weight = np.where(np.array([c.inferred for c in chosen]) > 0.5, 0.6, 1.0)

    def reached(
        self, eff: Efficiency, learned: Mapping[str, float], launch: float = 1.0, soft: float = 0.0, load: float = 1.0, slowdown: float = 1.0
    ):
        """Return what every candidate serves at its best batch (candidates, fractions), mature and without a submitter's margins.

        load, the share of that at which TPOT and TTFT are stated; slowdown, all times over what the parts say.
        """
        inputs = [learned[f"mean_input_tokens|{name}"] for name in self.names]
        tables = []
        for name, tokens, out in zip(self.names, inputs, self.mean_outputs, strict=True):
            tables.append(attention_terms(shape_of(name), 2 ** np.arange(FIRST_RANKS), tokens + out / 2, tokens, 8.0, tokens + 0.6 * out))
        held = {k: np.stack([t[k] for t in tables]) for k in tables[0]}
        decode, prefill = (
            with_attention(t, {k: v[self.model_of, self.width[:, i]][:, None] for k, v in held.items()})
            for i, t in enumerate((self.decode, self.prefill))
        )
        rated = replace(self.base, attention_speed=np.where(self.newer, learned["newer_attention"], 1.0)[:, None])
        own = replace(eff, layer_seconds=eff.layer_seconds * launch)
        chance = learned["accepted"]
        gain = np.where(self.drafts > 0, (1 - chance ** (self.drafts + 1)) / (1 - chance), 1.0)
        tail, scv = (np.array([learned[f"{k}|{name}"] for name in self.names])[self.model_of][:, None] for k in ("tail", "service_scv"))
        demand = Demand(
            np.array(inputs)[self.model_of][:, None],
            self.outputs,
            *self.limits,
            gain,
            self.drafts,
            tail,
            scv,
            learned["headroom"],
            slowdown,
            load=load,
        )
        return serve(decode, prefill, rated, own, demand, self.pools, ENGINE_SEQUENCES, self.aggregated, self.gpus, soft, SMOOTH)

    def predict(self, eff: Efficiency, learned: Mapping[str, float], launch: float = 1.0, sharp: float = SHARP) -> np.ndarray:
        """Return the log of output tokens a second and GPU of every configuration; the maximum over layouts is smooth, for the fit."""
        served = self.reached(eff, learned, launch, 1.0)
        each = np.log(np.maximum(served.per_gpu.max(axis=1), 1e-6))
        best = np.full(len(self.rows), -np.inf)
        np.maximum.at(best, self.owner, each)
        total = np.zeros(len(self.rows))
        np.add.at(total, self.owner, np.exp(sharp * (each - best[self.owner])))
        return best + np.log(total / 2) / sharp + np.log([rounds_factor(c, learned) for c in self.rows])

    def choices(self, eff: Efficiency, learned: Mapping[str, float], launch: float = 1.0) -> list[str]:
        """Return the best layout of every configuration in words."""
        each = self.reached(eff, learned, launch).per_gpu.max(axis=1)
        words = []
        for i in range(len(self.rows)):
            best = int(np.where(self.owner == i, each, -1.0).argmax())
            first, second = self.pairs[best]
            words.append(first.label if self.aggregated[best, 0] else f"P {second.label} D {first.label}")
        return words
