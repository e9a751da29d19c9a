"""Public serving runs at a concurrency: their layouts read, their TPOT solved from the loop's own balance."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from planner.calibration.serving.join import ENGINE_BYTES, MEMORY_FRACTION, kind_of, rates, work_in
from planner.errors import InputError
from planner.facts import catalog, modelcards
from planner.facts.files import table
from planner.facts.formats import formats
from planner.facts.names import resolve_model, resolve_system
from planner.models.serving.amounts import Terms, attention_terms, terms
from planner.models.serving.step import Efficiency, prompt_seconds, step_seconds
from planner.shapes import Layout

SOURCE = "data/serving_published.csv"
LENGTH = 0.9  # of the printed lengths on average (the harness draws 0.8 to 1)
WORKER = re.compile(r"TP(\d+)(?:x?DP(\d+))?(?:DP(\d+))? moeTP(\d+)EP(\d+)")
POOLS = re.compile(r"P (\d+)x\((.*?)\) D (\d+)x\((.*?)\)")
ROWS_THAT_COUNT = {"dense": 25, "latent": 6, "moe": 6}  # effective rows of one engine, model, system, precision and mode
ROUNDS = 26


@dataclass(frozen=True)
class Run:
    """One run: decode and prefill layouts with their numbers of workers, lengths [token], concurrency [1], TPOT and TTFT [s] as printed."""

    line: int
    system: str
    model: str
    precision: str
    engine: str
    disaggregated: bool
    input_tokens: float
    output_tokens: float
    concurrency: float
    decode: Layout
    decode_workers: int
    prefill: Layout
    prefill_workers: int
    tpot: float
    ttft: float
    queued: bool
    speculative: bool
    source: str
    profile: str = ""
    tokens_per_step: float = 1.0
    drafts: int = 0

    @property
    def key(self) -> str:
        """Engine and model: what one software factor is fitted for."""
        return f"{self.engine}|{self.model.rsplit('/', 1)[-1]}"

    @property
    def cell(self) -> tuple:
        """What near twins share."""
        return self.key, self.system, self.precision, self.disaggregated

    @property
    def weights(self) -> str | None:
        """The weight format by its catalogue name, None for the checkpoint as released."""
        if "gpt-oss" in self.model:
            return "mxfp4"
        return {"fp4": "nvfp4", "int4": None}.get(self.precision, self.precision if self.precision in formats() else None)


def worker_layout(text: str, gpus: int | None = None) -> Layout:
    """Return one worker's layout from its printed widths; where they multiply to more than its GPUs, by the corrections of the data notes.

    Raises: InputError for text that names no layout.
    """
    found = WORKER.match(text)
    if not found:
        raise InputError("config", text, "must read like TP1xDP8 moeTP1EP8")
    tp, dp, more, moe_tp, ep = (int(x) if x else 1 for x in found.groups())
    dp *= more
    if gpus and tp * dp != gpus:
        tp, dp = (1, gpus) if dp > 1 else (gpus, 1)
        if moe_tp * ep != gpus:
            moe_tp, ep = (1, gpus) if moe_tp == 1 else (gpus // min(ep, gpus), min(ep, gpus))
    if moe_tp * ep != tp * dp:
        moe_tp, ep = (1, tp * dp) if dp > 1 or moe_tp != tp * dp else (moe_tp, 1)
    return Layout(tp=tp, ep=ep, dp=dp, moe_tp=moe_tp)


def _run(line: int, row: dict[str, str]) -> Run | None:
    """Return one row as a run, None where it names no layout or no concurrency, or is not a run."""
    pools, concurrency, tpot = POOLS.match(row["config"]), float(row["concurrency"] or 0), float(row["tpot_ms"] or 0)
    if row["mode"] not in ("agg", "disagg") or not concurrency or not tpot:
        return None
    if row["mode"] == "agg":
        if "moeTP" not in row["config"]:
            return None
        decode = prefill = worker_layout(row["config"], int(float(row["gpus"])))
        counts = (1, 0)
    elif pools:
        decode, prefill, counts = worker_layout(pools[4]), worker_layout(pools[2]), (int(pools[3]), int(pools[1]))
    else:
        return None
    ttft, mtp = float(row["ttft_ms"] or 0) / 1e3, row["mtp"]
    queued = "queue" in row["flag"] or ttft > 10
    speculative = mtp not in ("off", "not recorded", "unknown", "on? (not stated)")
    return Run(
        line,
        resolve_system(row["system"]),
        resolve_model(row["model"]),
        row["precision"],
        row["engine"],
        row["mode"] == "disagg",
        LENGTH * float(row["isl"]),
        LENGTH * float(row["osl"]),
        concurrency,
        decode,
        counts[0],
        prefill,
        counts[1],
        tpot / 1e3,
        ttft,
        queued,
        speculative,
        row["source"],
    )


@cache
def runs() -> tuple[Run, ...]:
    """Return the runs that can be compared, in file order: known system and model, layout printed, no speculative decoding.

    Left out by the data notes: rows whose printed width is that of the experts alone, disaggregated rows in a queue, V3.1 and mixed R1 releases.
    """
    found = []
    for line, row in enumerate(table("serving_published.csv"), 2):
        try:
            run = _run(line, row)
        except (InputError, ValueError):
            continue
        if run is None or run.speculative or (run.queued and run.disaggregated):
            continue
        if "Qwen3-235B" in run.model and row["config"] in ("TP1 moeTP2EP1", "TP1 moeTP4EP1", "TP2 moeTP4EP1"):
            continue
        if "V3.1" in run.model or run.model == "deepseek-ai/DeepSeek-R1":
            continue
        found.append(run)
    return tuple(found)


def joined(parts: list[Terms]) -> Terms:
    """Return terms of single layouts as one, along the last axis."""
    return Terms(
        **{k: np.concatenate([np.reshape(getattr(p, k), (*np.shape(getattr(p, k))[:-1], -1)) for p in parts], axis=-1) for k in vars(parts[0])}
    )


class Published:
    """Runs of one kind of model as arrays, ready to be solved for any constants."""

    def __init__(self, chosen: list[Run], kv_bits: float = 8.0):
        self.runs = chosen
        decode, prefill, pools = [], [], []
        for run in chosen:
            rack = catalog.system(run.system, run.profile or None)
            work = work_in(modelcards.load(run.model), run.weights, rack.accelerator)
            whole = run.input_tokens + run.output_tokens
            for layout, into in ((run.decode, decode), (run.prefill, prefill)):
                attention = attention_terms(work.shape, [layout.tp], run.input_tokens + run.output_tokens / 2, run.input_tokens, kv_bits, whole)
                into.append(terms(work, [layout], attention, rack.domain_gpus))
            usable = rack.accelerator.hbm_bytes - rack.accelerator.reserve_bytes
            pools.append(MEMORY_FRACTION * usable - ENGINE_BYTES)
        self.decode, self.prefill, self.rates = joined(decode), joined(prefill), rates([catalog.system(r.system, r.profile or None) for r in chosen])
        self.capacity = np.maximum(1.0, (np.array(pools) - self.decode.held_bytes) / self.decode.cache_held_bytes * self.decode.dp)
        fields = ("input_tokens", "output_tokens", "concurrency", "tokens_per_step", "drafts")
        self._columns = [np.array([float(getattr(r, k)) for r in chosen]) for k in fields]
        self.tpot = np.array([r.tpot for r in chosen])
        self.ttft = np.array([max(r.ttft, 1e-3) for r in chosen])
        self.disaggregated = np.array([r.disaggregated for r in chosen])
        self.keys = sorted({r.key for r in chosen})
        self.key_of = np.array([self.keys.index(r.key) for r in chosen])
        _, inverse, counts = np.unique([repr(r.cell) for r in chosen], return_inverse=True, return_counts=True)
        effective = ROWS_THAT_COUNT[kind_of(modelcards.load(chosen[0].model))]
        self.weight = np.minimum(1.0, np.sqrt(effective / counts[inverse]))

    def solve(self, eff: Efficiency, software=1.0, launch=1.0, rate_per_s=None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return TPOT [s], TTFT [s] and the running batch of a decode worker [1] of every run: concurrency = rate (TTFT + L TPOT).

        software, launch [1]: the factors of each key, (keys,) or scalar; rate_per_s, requests in place of the runs' concurrency (an open loop).
        Prompts on a prefill pool wait as in an M/D/1 queue of groups.
        """
        factor, start = (np.broadcast_to(v, (len(self.keys),))[self.key_of] for v in (software, launch))
        own = replace(eff, layer_seconds=eff.layer_seconds * start)
        inputs, outputs, users, gain, drafts = self._columns
        decoders, fillers = (np.array([max(1, getattr(r, k)) for r in self.runs]) for k in ("decode_workers", "prefill_workers"))
        grouped = prompt_seconds(self.prefill, self.rates, own, inputs, 8.0) / 8 * factor
        alone = np.maximum(prompt_seconds(self.prefill, self.rates, own, inputs) * factor, grouped)
        high = users / decoders if rate_per_s is None else self.capacity * np.ones(len(self.runs))
        low = high * 1e-4
        for _ in range(ROUNDS):
            running = np.sqrt(low * high)
            held = np.minimum(running, self.capacity)
            mixed = np.where(self.disaggregated, 0.0, held * inputs / outputs * gain)
            step = step_seconds(self.decode, self.rates, own, held, mixed, drafts) * factor / gain
            rate = held * decoders / (outputs * step)
            load = np.minimum(rate * grouped / fillers, 0.999)
            waiting = np.where(self.disaggregated, rate * alone + load**2 / (1 - load), rate * (alone + step))
            over = running * decoders + waiting > users if rate_per_s is None else rate > rate_per_s
            high, low = np.where(over, running, high), np.where(over, low, running)
        return step, waiting / np.maximum(rate, 1e-12), held
