"""Published training steps as numbers: layout, batch, format, release and the step time that the row implies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from planner.errors import InputError
from planner.facts import training_models
from planner.facts.files import table
from planner.facts.names import resolve_system

FORMATS = {"BF16": "bf16", "FP16": "bf16", "FP8": "fp8", "FP8-CS": "fp8", "MXFP8": "mxfp8", "FP8-MX": "mxfp8", "NVFP4": "nvfp4"}
GPUS = {"A100": "a100-sxm", "A100-80GB": "a100-sxm"}
A100_TFLOPS = 312.0  # the peak behind the printed MFU of those rows
CHUNK_LAYERS = 2  # with four layers the usual chunk among the layouts that state theirs
ROUNDED = 0.005  # tokens and FLOP rates of one row that differ by more than this: the finer printed FLOP rate is taken


@dataclass(frozen=True)
class Release:
    """A line of data/training_releases.csv: the software of a source. month counts from January 2000 [month]."""

    prefix: str
    stack: str
    name: str
    month: int
    spellings: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """One published run. Sizes as printed; step_seconds [s]; guessed names what the row leaves open and a rule filled in."""

    row: str
    source: str
    release: Release
    model: str
    system: str
    precision: str
    gpus: int
    tp: int
    pp: int
    dp: int
    cp: int
    ep: int
    vpp: int
    fsdp: int
    seq_tokens: int
    global_batch: int
    micro_batch: int
    full_recompute: bool
    step_seconds: float
    tflops: float | None
    mfu: float | None
    tokens_per_s_gpu: float | None
    use: str
    note: str
    guessed: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, str, str]:
        """Source, model and GPU type: what is left out together."""
        return self.source, self.model, self.system


@cache
def releases() -> tuple[Release, ...]:
    """Return the software releases of data/training_releases.csv, longest prefix first."""
    found = [Release(r["source_prefix"], r["stack"], r["release"], (int(r["date"][:4]) - 2000) * 12 + int(r["date"][5:]) - 1,
                     tuple(s for s in r["spellings"].split(";") if s)) for r in table("training_releases.csv")]
    return tuple(sorted(found, key=lambda r: -len(r.prefix)))


def release_of(source: str) -> Release:
    """Return the release of a source as printed in the table. Raises: InputError for an unknown source."""
    for release in releases():
        if source.startswith(release.prefix):
            return release
    raise InputError("source", source, "must start with a prefix of data/training_releases.csv")


def release(name: str) -> Release:
    """Return a release by its name, a spelling ("26.04", "MLPerf v5.0") or a whole source string. Raises: InputError naming them."""
    text = " ".join(str(name).strip().lower().split()).replace(" pretrain", "")
    if "lora" in text.split():
        raise InputError("release", name, "is low-rank fine-tuning, without weight gradients: only training of all weights is modelled")
    for item in releases():
        if text == item.prefix.lower() or text in item.spellings:
            return item
    for item in releases():
        if text.startswith(item.prefix.lower()):
            return item
    for item in releases():  # a longer name that holds a spelling as a word, such as "NeMo 25.04" or "nvcr.io/nvidia/nemo:25.11"
        if any(re.search(rf"(?<![\w.]){re.escape(s)}(?![\w.])", text) for s in item.spellings if len(s) > 3):
            return item
    raise InputError("release", name, f"must be one of {', '.join(r.spellings[0] for r in releases())}, or left out")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _layout(row: dict[str, str], rows: list[dict[str, str]]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the row with a layout, and what was filled in: the layout of the nearest run of the model on the GPU generation."""
    if row["tp"]:
        return row, ()
    kind = {"H100": "hopper", "H200": "hopper"}.get(row["gpu_type"], "blackwell")
    near = [r for r in rows if r["tp"] and r["model"] == row["model"] and r["suggested_use"] == "calibration"
            and {"H100": "hopper", "H200": "hopper"}.get(r["gpu_type"], "blackwell") == kind]
    gpus = float(row["gpus"])
    near = [r for r in near if gpus % (float(r["tp"]) * float(r["pp"]) * float(r["cp"])) == 0]
    if not near:
        return row, ("layout",)
    best = min(near, key=lambda r: (abs(float(r["gpus"]) / gpus - 1), r["row_id"]))
    own = {k: best[k] for k in ("tp", "pp", "cp", "ep", "vpp", "fsdp", "micro_batch")}
    own["dp"] = str(int(gpus / (float(best["tp"]) * float(best["pp"]) * float(best["cp"]))))
    return {**row, **own}, (f"layout of {best['row_id']}",)


def _chunks(row: dict[str, str]) -> tuple[int, bool]:
    """Return (virtual stages, whether guessed) of a row.

    Blank means none, unless the note says interleaved, or that pipeline messages overlap, which only an interleaved schedule does: then
    chunks of about two layers.
    """
    pp = int(row["pp"])
    if row["vpp"]:
        return int(row["vpp"]), False
    note = row["note"].lower()
    if pp == 1 or not ("interleaved" in note or "/pp comm on" in note):
        return 1, pp > 1
    deep = -(-training_models.load(row["model"]).layers // pp)
    return min((v for v in range(1, deep + 1) if deep % v == 0), key=lambda v: (abs(deep / v - CHUNK_LAYERS), v)), True


def _step(row: dict[str, str], tokens: float) -> float | None:
    """Return the step time: as printed, or from the FLOP rate where the printed token rate is rounded or absent."""
    step, rate, flops = _number(row["step_s"]), _number(row["tflops_per_gpu"]), None
    printed = training_models.printed_flops_per_token(row["model"], float(row["seq"]))
    if rate and printed:
        flops = printed[0] * tokens / (float(row["gpus"]) * rate * 1e12)
    if step is None:
        return flops
    return flops if flops and ROUNDED < abs(flops / step - 1) < 6 * ROUNDED and "rounded" in _notes(row["source"]) else step


def _flop_rate(row: dict[str, str]) -> float | None:
    """Return the FLOP rate [TFLOP/s per GPU]; two rows of one table print one that contradicts their MFU: there the MFU counts."""
    mfu = _number(row["mfu"])
    return mfu * A100_TFLOPS if mfu and row["source"].startswith("MegaScale") else _number(row["tflops_per_gpu"])


@cache
def _notes(source: str) -> str:
    prefix = release_of(source).prefix
    return next(r["note"] for r in table("training_releases.csv") if r["source_prefix"] == prefix)


@cache
def runs() -> tuple[Run, ...]:
    """Return every run of data/training_steps.csv that has a step time and a shape; `listed` gives the others with the reason."""
    return tuple(_sorted()[0])


def listed() -> list[tuple[str, str]]:
    """Return (row id, reason) of the rows that cannot be predicted."""
    return _sorted()[1]


@cache
def _sorted() -> tuple[list[Run], list[tuple[str, str]]]:
    rows, found, left = list(table("training_steps.csv")), [], []
    for raw in rows:
        if not raw["global_batch"]:
            left.append((raw["row_id"], "no batch and no step time: minutes only"))
            continue
        try:
            training_models.load(raw["model"])
        except InputError as error:
            left.append((raw["row_id"], f"no shape: {error}"))
            continue
        row, guessed = _layout(raw, rows)
        if not row["tp"]:
            left.append((raw["row_id"], "no layout, and none to take over"))
            continue
        batch, seq, dp = int(row["global_batch"]), int(row["seq"]), int(row["dp"])
        step = _step(row, batch * seq)
        if step is None:
            left.append((raw["row_id"], "no step time"))
            continue
        chunks, open_chunks = _chunks(row)
        micro = int(row["micro_batch"] or 0)
        if not micro:
            micro = 1 if int(row["pp"]) > 1 else max(m for m in (1, 2, 4) if batch // dp % m == 0)
            guessed = (*guessed, "micro_batch")
        found.append(Run(
            row["row_id"], row["source"], release_of(row["source"]), row["model"], GPUS.get(row["gpu_type"]) or resolve_system(row["gpu_type"]),
            FORMATS[row["precision"]], int(row["gpus"]), int(row["tp"]), int(row["pp"]), dp, int(row["cp"] or 1), int(row["ep"] or 1), chunks,
            int(row["fsdp"]) if row["fsdp"].isdigit() else 0, seq, batch, micro, row["recompute"] == "full", step,
            _flop_rate(row), _number(row["mfu"]), _number(row["tokens_s_gpu"]),
            "lora" if " lora" in row["source"] else row["suggested_use"], row["note"], (*guessed, *(("vpp",) if open_chunks else ()))))
    return found, left
