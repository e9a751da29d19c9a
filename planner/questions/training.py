"""Questions about training steps, layouts and the time and cost of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from planner.calibration import training as calibration
from planner.calibration import training_estimate as estimates
from planner.errors import Infeasible, InputError
from planner.facts import catalog, training_models, training_runs
from planner.models import storage, stragglers
from planner.models.training import job as jobs
from planner.models.training import memory
from planner.plan.answer import HOWS, Answer, exact, weakest
from planner.questions import reliability
from planner.questions import storage as storage_questions
from planner.questions.registry import Input, Question
from planner.shapes import ModelShape
from planner.specs import Rack
from planner.units import count, fraction, number, positive

FORMATS = {"bf16": "bf16", "fp16": "bf16", "bfloat16": "bf16", "fp8": "fp8", "fp8-cs": "fp8", "fp8-ds": "fp8", "fp8_cs": "fp8", "fp8_e4m3": "fp8",
           "mxfp8": "mxfp8", "fp8-mx": "mxfp8", "fp8_mx": "mxfp8", "nvfp4": "nvfp4"}
LAYOUT = {"tp": "tp", "tensor": "tp", "pp": "pp", "pipeline": "pp", "vpp": "vpp", "vp": "vpp", "virtual_stages": "vpp", "dp": "dp", "data": "dp",
          "cp": "cp", "context": "cp", "ep": "ep", "expert": "ep", "fsdp": "fsdp"}
TIGHT = 1.15  # a lower memory bound up to this much above HBM is said, not refused: offload may close it
GRADE = "C"  # most rows are a vendor's own measurements


def precision_of(value: object) -> str:
    """Return the training format of a spelling. Raises: InputError for formats that are not trained in, and for the ambiguous "fp4"."""
    text = str(value).strip().lower()
    if text in FORMATS:
        return FORMATS[text]
    if text in ("fp4", "4bit"):
        raise InputError("precision", value, "is ambiguous: nvfp4 or mxfp4")
    raise InputError("precision", value, "must be bf16, fp8, mxfp8 or nvfp4")


def layout_of(given: object) -> dict[str, int]:
    """Return the parallel sizes that an object or a text such as "TP8 PP8 CP2" names. Raises: InputError."""
    if isinstance(given, str):
        words = re.findall(r"([A-Za-z]+)\s*=?\s*(\d+)", given)
        if not words:
            raise InputError("layout", given, "must be sizes such as {\"tp\": 8, \"pp\": 8}")
        if len({name.lower() for name, _ in words}) < len(words):
            raise InputError("layout", given, "names a size twice")
        given = {name.lower(): int(size) for name, size in words}
    if not isinstance(given, Mapping):
        raise InputError("layout", given, "must be an object such as {\"tp\": 8, \"pp\": 8}")
    found = {}
    for key, value in given.items():
        name = LAYOUT.get(str(key).lower())
        if name is None:
            raise InputError(f"layout.{key}", value, f"must be one of {', '.join(dict.fromkeys(LAYOUT.values()))}")
        if name in found:
            raise InputError(f"layout.{key}", value, f"says {name} a second time")
        if (name == "fsdp" and str(value).lower() in ("true", "false", "none", "zero-1", "zero-2")) or str(value).lower().startswith("zero-2"):
            found[name] = -1 if str(value).lower() == "true" else 0  # ZeRO-1 and 2 shard state and gradients, not the weights
            continue
        if value is None or value == "":
            continue
        if isinstance(value, (list, tuple, Mapping)):
            raise InputError(f"layout.{key}", value, "must be one whole number")
        found[name] = int(count(f"layout.{key}", value, 0 if name == "fsdp" else 1))
    return found


def _recompute(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"full": True, "all": True, "none": False, "selective": False, "selective+sp": False, "off": False, "": False, "none at 8k": False}
    if str(value).lower() in words:
        return words[str(value).lower()]
    raise InputError("recompute", value, "must be full, selective or none")


def _like(model: ModelShape, rack: Rack, release: training_runs.Release | None, tp: int, pp: int) -> training_runs.Run | None:
    """Return a published run of the same release, model and system with these sizes, to fill in what is left open."""
    if release is None:
        return None
    for run in training_runs.runs():
        same = run.release.prefix == release.prefix and run.system == rack.name and (run.tp, run.pp) == (tp, pp)
        if same and run.use == "calibration" and training_models.load(run.model).name == model.name:
            return run
    return None


def case(inputs: Mapping) -> dict:
    """Return a checked training case: shape, rack, layout, seq, batch, micro, precision, full, release and notes.

    Raises: InputError for sizes that do not multiply to the GPU count or do not divide the batch; Infeasible where it cannot fit.
    """
    shape = training_models.load(inputs["model"])
    rack = catalog.system_from(inputs["system"], inputs.get("profile"), inputs.get("gpu_watts"))
    precision, notes = precision_of(inputs["precision"]), []
    release = training_runs.release(inputs["release"]) if "release" in inputs else None
    if release is None:
        notes.append("release not given: the newest of the common code base")
    if "gpu_watts" in inputs:
        notes.append("gpu_watts does not change the step in this model: the peak is that of the published setting")
    seq = float(count("seq", inputs["seq"]))
    batch = int(count("global_batch", inputs["global_batch"]))
    full = _recompute(inputs["recompute"])
    if "layout" not in inputs:
        return _searched(inputs, shape, rack, precision, release, seq, batch, full, notes)
    sizes = layout_of(inputs["layout"])
    if "fsdp" in inputs and "fsdp" not in sizes:
        sizes.update(layout_of({"fsdp": inputs["fsdp"]}))
    gpus = int(count("gpus", inputs["gpus"])) if "gpus" in inputs else None
    tp, pp, cp = (sizes.get(k, 1) for k in ("tp", "pp", "cp"))
    if "dp" not in sizes:
        if gpus is None:
            raise InputError("gpus", None, "is required where the layout names no dp")
        if gpus % (tp * pp * cp):
            raise InputError("layout", f"tp x pp x cp = {tp} x {pp} x {cp} = {tp * pp * cp}", f"must divide the GPU count, {gpus:,}")
        sizes["dp"] = gpus // (tp * pp * cp)
    like = _like(shape, rack, release, tp, pp)
    if "vpp" not in sizes and pp > 1:
        sizes["vpp"] = like.vpp if like else 1
        notes.append(f"vpp not given: {sizes['vpp']}" + (f", as run {like.row}" if like else ""))
    if sizes.get("fsdp") == -1:
        sizes["fsdp"] = sizes["dp"] * cp
    layout = jobs.TrainingLayout(**sizes)
    micro = _micro_batch(inputs, sizes["dp"], batch, like, pp, notes)
    job = jobs.work(shape, seq)
    jobs.check(job, layout, batch, micro, gpus)
    _memory(job, layout, batch, micro, full, rack, notes)
    return {"shape": shape, "rack": rack, "layout": layout, "seq": seq, "batch": batch, "micro": micro, "precision": precision, "full": full,
            "release": release, "notes": notes}


def _micro_batch(inputs: Mapping, dp: int, batch: int, like: training_runs.Run | None, pp: int, notes: list[str]) -> int:
    if "micro_batch" in inputs:
        return int(count("micro_batch", inputs["micro_batch"]))
    if batch % dp:
        raise InputError("global_batch", batch, f"must be a multiple of dp = {dp}")
    micro = like.micro_batch if like and batch // dp % like.micro_batch == 0 else 1 if pp > 1 else max(m for m in (1, 2, 4) if batch // dp % m == 0)
    notes.append(f"micro_batch not given: {micro}")
    return micro


def _memory(job: jobs.Work, layout: jobs.TrainingLayout, batch: int, micro: int, full: bool, rack: Rack, notes: list[str]) -> None:
    lower, upper = (float(v) for v in memory.memory_bounds(job, layout, batch, micro, full))
    room = rack.accelerator.hbm_bytes
    if lower > TIGHT * room:
        raise Infeasible("memory", f"{layout.label} needs at least {lower / 1e9:,.0f} GB a GPU and {rack.label} has {room / 1e9:,.0f} GB",
                         "more pipeline, tensor or expert parallelism, or fsdp")
    if upper > room:
        notes.append(f"fits only with recompute or offload: {lower / 1e9:,.0f} to {upper / 1e9:,.0f} GB a GPU of {room / 1e9:,.0f}")


def _searched(inputs: Mapping, shape: ModelShape, rack: Rack, precision: str, release: training_runs.Release | None, seq: float, batch: int,
              full: bool, notes: list[str]) -> dict:
    if "gpus" not in inputs:
        raise InputError("gpus", None, "is required where no layout is given")
    found = estimates.best_layouts(shape, rack, inputs["gpus"], seq, batch, precision, full, release, 1)[0]
    notes.append(f"layout searched: {found.layout.label}, micro-batch {found.micro_batch}")
    return {"shape": shape, "rack": rack, "layout": found.layout, "seq": seq, "batch": batch, "micro": found.micro_batch, "precision": precision,
            "full": full, "release": release, "notes": notes}


def estimate(given: Mapping) -> estimates.StepEstimate:
    """Return the step of a checked case."""
    return estimates.estimate(given["shape"], given["rack"], given["layout"], given["seq"], given["batch"], given["micro"], given["precision"],
                              given["full"], given["release"])


def _quantity(inputs: Mapping, given: Mapping, found: estimates.StepEstimate) -> tuple[float, str, str]:
    """Return (value at the estimate, unit, basis) of the quantity asked for."""
    quantity = {"step_seconds": "step_s", "step": "step_s", "tokens_s_gpu": "tokens_per_s_per_gpu", "tflops": "tflops_per_gpu"}.get(
        inputs["quantity"], inputs["quantity"])
    rate = found.tokens_per_s_per_gpu
    if quantity == "step_s":
        return found.seconds, "s", "one optimizer step"
    if quantity == "tokens_per_s_per_gpu":
        return rate, "tok/s/GPU", "trained tokens over all GPUs of the job"
    if quantity == "tokens_per_s":
        return rate * found.gpus, "tok/s", "trained tokens of the job"
    if quantity in ("tflops_per_gpu", "mfu"):
        name = str(inputs["convention"])
        flops, said = estimates.convention(given["shape"], str(inputs["model"]), given["seq"], found.nearest, name)
        if quantity == "tflops_per_gpu":
            return rate * flops, "FLOP/s", f"per GPU; {said}"
        peak = calibration.machine(given["rack"], given["precision"]).peak_flops_per_s
        near = next((r for r in training_runs.runs() if r.row == found.nearest and r.mfu and r.precision == given["precision"]), None)
        if name == "as_printed" and near and near.tokens_per_s_gpu and training_models.load(near.model).name == given["shape"].name:
            return rate * near.mfu / near.tokens_per_s_gpu, "fraction", f"as printed by {near.source}"
        return rate * flops / peak, "fraction", f"of the dense {given['precision']} peak, {peak / 1e12:,.0f} TFLOP/s; {said}"
    if quantity in found.parts:
        return found.parts[quantity], "s", f"part of the step: {quantity}"
    raise InputError("quantity", inputs["quantity"], "must be step_s, tokens_per_s_per_gpu, tokens_per_s, tflops_per_gpu, mfu, or a part: "
                     + ", ".join(found.parts))


def _uneven(given: Mapping) -> tuple[float, int]:
    """Return how much longer a stage takes whose chunks are all as long as its heaviest [1], and the layers it then waits for."""
    layout, layers = given["layout"], jobs.work(given["shape"], given["seq"]).layers
    deep, vpp = -(-layers // int(layout.pp)), int(layout.vpp)
    return -(-deep // vpp) * vpp / deep, -(-deep // vpp) * vpp


def _training_step(inputs: dict) -> Answer:
    given = case(inputs)
    found = estimate(given)
    value, unit, basis = _quantity(inputs, given, found)
    reach = found.high / found.seconds
    uneven, chunks = _uneven(given)
    if uneven > 1.05:  # the published runs with uneven chunks are within 3 % of even ones
        reach *= uneven
        given["notes"].append(f"uneven chunks, the heaviest decides: a stage waits for {chunks} layers, up to {uneven - 1:.0%} longer (in the range)")
    notes = [*given["notes"], *found.notes, f"nearest published run {found.nearest}" if found.nearest else "no like run is published"]
    return Answer("training_step", value, unit, found.how, GRADE if found.how == "modelled" else "P", value / reach, value * reach,
                  basis=f"{basis}; {given['layout'].label}", limit=found.limit, note="; ".join(notes))


def _checkpoint(inputs: Mapping, gpus: object, params: float | None) -> tuple[dict, float, str]:
    """Return (write_s and lag_s that follow from the size of a checkpoint, its size [B] where it is needed, note). Raises: InputError."""
    for name, needs in (("copy_bytes_per_s", "store_bytes_per_s"), ("state_format", "store_bytes_per_s or wan_bytes_per_s")):
        if name in inputs and not any(k in inputs for k in needs.split(" or ")):
            raise InputError(name, inputs[name], f"has no effect without {needs}")
    if not any(k in inputs for k in ("store_bytes_per_s", "wan_bytes_per_s")):
        return {}, 0.0, ""
    if params is None:
        raise InputError("model", None, "is required with the rate of a store or of a link: the size of a checkpoint follows from it")
    total = float(sum(storage_questions.state_bytes({**{k: inputs[k] for k in ("state_format",) if k in inputs}, "params": params})[0].values()))
    if "store_bytes_per_s" not in inputs:
        return {}, total, ""
    if "write_s" in inputs:
        raise InputError("store_bytes_per_s", inputs["store_bytes_per_s"], "says write_s a second time")
    write = float(storage.write_seconds(total, 1, inputs["store_bytes_per_s"]))
    said = f"checkpoints of {total / 1e12:.3g} TB written in {write:,.0f} s"
    if "copy_bytes_per_s" not in inputs:
        return {"write_s": write}, total, said
    # asynchronous: training waits for the copy to host memory alone
    stall = float(storage.write_seconds(total / float(count("gpus", gpus)), 1, inputs["copy_bytes_per_s"]))
    return {"write_s": stall, "lag_s": write}, total, f"{said}, asynchronous: {stall:,.2g} s stall"


def _kept(inputs: Mapping, gpus: object, params: float | None) -> Answer:
    """Return the share of the time that is kept: as given, or from failures, the checkpoint's stall and its way to another region."""
    asked = [k for k in MORE if k in inputs and k not in STRAGGLERS]
    if "goodput" in inputs:
        if asked:
            raise InputError(asked[0], inputs[asked[0]], "has no effect beside a goodput, which holds it already")
        return exact("goodput", float(fraction("goodput", inputs["goodput"], zero=False)), "fraction", note="goodput as given")
    if not asked:
        return exact("goodput", 1.0, "fraction", note="without failures")
    if not any(k in inputs for k in (*reliability.OWN, "population", "job_rate_per_day")):
        raise InputError(asked[0], inputs[asked[0]], "needs how often the job stops: a failure_rate, a population, mttf_h or interruptions")
    sized, total, said = _checkpoint(inputs, gpus, params)
    wanted = {**{k: v for k, v in inputs.items() if k in reliability.RATE or k in reliability.TIMES or k in reliability.SPARES}, **sized}
    if gpus is not None:
        wanted["gpus"] = gpus
    ask = {q.name: q for q in reliability.QUESTIONS}
    answer = ask["goodput"].ask(wanted)
    if "wan_bytes_per_s" in inputs:
        plain = {k: v for k, v in wanted.items() if k not in reliability.SPARES}
        interval = inputs.get("interval_s") or ask["checkpoint_interval"].ask(plain).value
        away = storage.replication(total, interval, inputs["wan_bytes_per_s"])
        said = "; ".join(n for n in (said, f"a lost region takes at most {away['work_at_risk_seconds']:,.0f} s of work along") if n)
    return replace(answer, note="; ".join(n for n in (f"goodput {answer.value:.3f}", answer.note, said) if n))


def _time_to_train(inputs: dict) -> Answer:
    params = None
    if "step_s" in inputs:
        step = float(positive("step_s", inputs["step_s"]))
        low = high = step
        how, grade, notes, gpus = "modelled", "P", ["step time as given"], inputs.get("gpus")
        if "model" in inputs:
            params = jobs.work(training_models.load(inputs["model"]), float(count("seq", inputs.get("seq", 1)))).params
        if unused := [k for k in STEP if k in inputs and k not in ("gpus", "seq", "global_batch", "model", "recompute")]:
            notes.append(f"{', '.join(unused)} not used")
        if "tokens" in inputs and not {"seq", "global_batch"} <= set(inputs):
            raise InputError("global_batch", None, "and seq are required with step_s and tokens, or give steps")
        per_step = float(count("global_batch", inputs["global_batch"])) * float(count("seq", inputs["seq"])) if "tokens" in inputs else 0.0
    else:
        for name in ("system", "model", "precision", "seq", "global_batch"):
            if name not in inputs:
                raise InputError(name, None, "is required (or step_s)")
        given = case(inputs)
        found = estimate(given)
        step, low, high, how, per_step, gpus = found.seconds, found.low, found.high, found.how, found.tokens, found.gpus
        params = jobs.work(given["shape"], given["seq"]).params
        grade, notes = (GRADE if how == "modelled" else "P"), [*given["notes"], *found.notes]
    if "steps" in inputs:
        if "tokens" in inputs:
            raise InputError("tokens", inputs["tokens"], "says the length of the run a second time (also steps)")
        steps = float(number("steps", inputs["steps"], 1.0, 1e12))  # a mean over runs need not be whole
    elif "tokens" in inputs:
        steps = float(np.ceil(float(positive("tokens", inputs["tokens"])) / per_step))
    else:
        raise InputError("tokens", None, "is required (or steps)")
    if any(k in inputs for k in STRAGGLERS):
        slower = float(stragglers.straggler_slowdown(count("gpus", gpus), inputs.get("spread", 0.0), inputs.get("slow_fraction", 0.0),
                                                     inputs.get("slow_factor", 1.0)))
        step, low, high = step * slower, low * slower, high * slower
        notes.append(f"slowest GPU: {slower:.3f}x")
    kept = _kept(inputs, gpus, params)
    if kept.how != "exact":
        how, grade = max(how, kept.how, key=HOWS.index), weakest(grade, kept.grade)
    value, low = step * steps / kept.value, low * steps / kept.high
    notes += [f"{steps:,.0f} steps of {step:,.4g} s; {kept.note}"]
    if kept.low <= 0:
        raise Infeasible("no progress", f"at the worst rate of failures the job keeps nothing ({kept.note})", "shorter checkpoints or fewer GPUs")
    high = high * steps / kept.low
    if inputs["quantity"] == "time":
        return Answer("time_to_train", value, "s", how, grade, low, high, basis="wall clock, training steps only (evaluation apart)",
                      note="; ".join(notes))
    if gpus is None:
        raise InputError("gpus", None, "is required for GPU-hours and cost")
    hours = [v * float(count("gpus", gpus)) / 3600 for v in (value, low, high)]
    if inputs["quantity"] == "gpu_hours":
        return Answer("time_to_train", hours[0], "h", how, grade, hours[1], hours[2], basis="GPU-hours", note="; ".join(notes))
    if inputs["quantity"] != "cost":
        raise InputError("quantity", inputs["quantity"], "must be time, gpu_hours or cost")
    if "usd_per_gpu_hour" not in inputs:
        raise InputError("usd_per_gpu_hour", None, "is required for the cost: there is no default price")
    price = float(positive("usd_per_gpu_hour", inputs["usd_per_gpu_hour"]))
    return Answer("time_to_train", hours[0] * price, "USD", how, grade, hours[1] * price, hours[2] * price, basis="GPU-hours x price",
                  note="; ".join(notes))


STEP = {
    "system": Input("catalogue name, any spelling, or an object", required=True, structured=True, also={"gpu_type": "", "gpu": ""}),
    "profile": Input("named profile where the system has two"),
    "gpu_watts": Input("another power setting", "W"),
    "gpus": Input("GPUs of the job; checked against the layout", "count", also={"num_gpus": "", "n_gpus": ""}),
    "model": Input("catalogue name, a name of the training tables, a config.json or its content", required=True, structured=True),
    "layout": Input("{tp, pp, vpp, dp, cp, ep, fsdp} or \"TP8 PP8 CP2\"; dp follows from gpus; absent: searched", structured=True),
    "seq": Input("sequence length", "tokens", required=True, also={"seq_len": "", "sequence": "", "seq_length": "", "seq_tokens": ""}),
    "global_batch": Input("sequences a step", "count", required=True, also={"gbs": "", "global_batch_size": ""}),
    "micro_batch": Input("sequences a micro-batch", "count", also={"mbs": "", "micro_batch_size": "", "mb": ""}),
    "precision": Input("bf16, fp8, mxfp8 or nvfp4", required=True, also={"format": "", "dtype": ""}),
    "recompute": Input("full, selective or none", default="selective"),
    "fsdp": Input("shard width of the weights, true for all of dp x cp, 0 for none"),
    "release": Input("software, such as \"Megatron-Bridge 26.04.01\", \"MLPerf v5.0\", \"dgxc-benchmarking 25.05\"",
                     also={"source": "", "software": ""}),
}
STRAGGLERS = ("spread", "slow_fraction", "slow_factor")
PRICE = Input("USD for one GPU-hour", also={"gpu_hour_usd": "", "price": ""})
MORE = {k: v for k, v in {**reliability.RATE, **reliability.TIMES, **reliability.SPARES}.items() if k != "gpus"}
MORE |= {"store_bytes_per_s": Input("rate at which a whole checkpoint is written, instead of write_s", "B/s", also={"store_gb_per_s": "GB/s"}),
         "copy_bytes_per_s": Input("copy of one GPU to host memory: checkpoints are asynchronous", "B/s", also={"copy_gb_per_s": "GB/s"}),
         "state_format": Input("training state, as in training_checkpoint_bytes", structured=True),
         "wan_bytes_per_s": Input("link to the second region: refused where it never catches up", "B/s",
                                  also={"wan_gbps": "Gb/s", "wan_gb_per_s": "GB/s"}),
         "spread": Input("coefficient of variation of one GPU's step"), "slow_fraction": Input("share of GPUs that are slow"),
         "slow_factor": Input("time of a slow GPU over a typical one")}

QUESTIONS = (
    Question("training_step", "Time, rate and efficiency of one training step", "s", "planner.calibration.training_estimate.estimate",
             {**STEP, "quantity": Input("step_s, tokens_per_s_per_gpu, tokens_per_s, tflops_per_gpu, mfu, or a part of the step", default="step_s"),
              "convention": Input("FLOP of a token: as_printed, causal, full or hardware", default="as_printed")}, _training_step),
    Question("time_to_train", "Time or cost to train on a number of tokens", "s", "planner.calibration.training_estimate.estimate",
             {**{k: Input(v.meaning, v.unit, False, v.default, v.structured, v.also) for k, v in STEP.items()}, **MORE,
              "tokens": Input("tokens to train on", "tokens", also={"tokens_b": "billion", "train_tokens": ""}),
              "steps": Input("optimizer steps instead", "count"), "step_s": Input("a measured step instead of the model", "s"),
              "goodput": Input("share of the time that ends in kept work"), "usd_per_gpu_hour": PRICE,
              "quantity": Input("time, gpu_hours or cost", default="time")}, _time_to_train),
)
