"""Questions about one step of reinforcement learning and its weight updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.calibration import rl as calibrated
from planner.calibration.table import constant
from planner.errors import InputError
from planner.facts import catalog, training_models
from planner.models import rl
from planner.plan.answer import Answer
from planner.questions.registry import Input, Question, not_used
from planner.questions.reliability import spellings
from planner.units import count, nonnegative, positive

PHASE_INPUTS = {"rollout": "rollout_s", "reward": "reward_s", "logprobs": "logprobs_s", "train": "train_s", "weight_sync": "sync_s",
                "checkpoint": "checkpoint_s"}
MODES = {"sync": "synchronous", "synchronous": "synchronous", "on-policy": "synchronous", "async": "asynchronous",
         "8-off-policy": "asynchronous", "asynchronous": "asynchronous", "off-policy": "asynchronous"}


def _asked(name: str, inputs: Mapping) -> Answer:
    """Return the answer of another question of the registry. Raises: InputError where it is not there."""
    from planner.questions import all_questions

    if name not in all_questions():
        raise InputError(name, dict(inputs), f"is not a question of this planner: give {name} figures as numbers")
    return all_questions()[name].ask(inputs)


def _object(name: str, given: object) -> dict:
    if not isinstance(given, Mapping):
        raise InputError(name, given, f"must be an object: the inputs of the question {'training_step' if name == 'training' else name}")
    return dict(given)


def _lengths(inputs: Mapping) -> tuple[float, float, float]:
    """Return (responses, mean tokens, longest tokens)."""
    responses = float(count("responses", inputs["responses"])) * float(count("samples_per_prompt", inputs.get("samples_per_prompt", 1)))
    mean = float(positive("mean_tokens", inputs["mean_tokens"]))
    for name in ("longest_tokens", "max_tokens"):
        if name in inputs and mean > float(positive(name, inputs[name])):
            raise InputError("mean_tokens", mean, f"must be at most {name} ({float(inputs[name]):,.0f})")
    if "longest_tokens" in inputs:
        longest = float(inputs["longest_tokens"])
        if "spread" in inputs:
            raise InputError("spread", inputs["spread"], "says the longest response a second time (also longest_tokens)")
        if longest > float(inputs.get("max_tokens", longest)):
            raise InputError("longest_tokens", longest, f"must be at most max_tokens ({float(inputs['max_tokens']):,.0f})")
        return responses, mean, longest
    cap = float(positive("max_tokens", inputs["max_tokens"])) if "max_tokens" in inputs else float("inf")
    if "spread" in inputs:
        return responses, mean, float(rl.longest_tokens(int(responses), mean, inputs["spread"], cap))
    if cap < float("inf"):
        return responses, mean, cap  # some response of a large batch reaches the cap
    raise InputError("longest_tokens", None, "is required (or max_tokens, or spread: the coefficient of variation of the lengths)")


def _rollout(inputs: Mapping) -> tuple[float, float, str]:
    """Return (lower, upper, note) of the rollout [s]: given, or from lengths and the serving rate of its pool."""
    if "rollout_s" in inputs:
        value = float(nonnegative("rollout_s", inputs["rollout_s"]))
        return value, value, ""
    for name in ("responses", "mean_tokens"):
        if name not in inputs:
            raise InputError("rollout_s", None, "is required (or responses, mean_tokens and the rate of the pool)")
    responses, mean, longest = _lengths(inputs)
    pool = int(count("rollout_gpus", inputs.get("rollout_gpus", inputs.get("gpus"))))
    if "serving" in inputs:
        wanted = _object("serving", inputs["serving"])
        per_gpu = float(_asked("serving", {**wanted, "quantity": "tokens_per_s_per_gpu"}).value)
        tpot = float(_asked("serving", {**wanted, "quantity": "tpot_s"}).value)
    else:
        for name in ("tokens_per_s_per_gpu", "tpot_s"):
            if name not in inputs:
                raise InputError(name, None, "is required (or serving: the inputs of the question serving for the rollout pool)")
        per_gpu, tpot = float(positive("tokens_per_s_per_gpu", inputs["tokens_per_s_per_gpu"])), float(positive("tpot_s", inputs["tpot_s"]))
    lower, upper = rl.rollout_seconds(responses * mean, per_gpu * pool, longest, tpot)
    binds = "the longest response" if longest * tpot > responses * mean / (per_gpu * pool) else "throughput"
    return float(lower), float(upper), f"rollout bound by {binds} ({longest:,.0f} tokens)"


def _train(inputs: Mapping) -> float:
    if "train_s" in inputs:
        return float(nonnegative("train_s", inputs["train_s"]))
    if "training" in inputs:
        steps = float(count("optimizer_steps", inputs.get("optimizer_steps", 1)))
        return steps * float(_asked("training_step", _object("training", inputs["training"])).value)
    raise InputError("train_s", None, "is required (or training: the inputs of the question training_step)")


def _sync(inputs: Mapping) -> float:
    if "sync_s" in inputs:
        return float(nonnegative("sync_s", inputs["sync_s"]))
    if "weight_bytes" in inputs:
        return float(rl.weight_sync_seconds(inputs["weight_bytes"], constant("rl", "update_fixed_seconds").value,
                                            constant("rl", "update_bytes_per_s").value))
    return 0.0


def _published(inputs: Mapping) -> Answer:
    """A whole synchronous step from the model, GPUs and lengths, by the published steps."""
    shape = training_models.load(inputs["model"])
    system = catalog.resolve_system(inputs["system"])
    responses, mean, longest = _lengths(inputs)
    parts = calibrated.step(shape, system, float(count("gpus", inputs["gpus"])), responses, mean, longest)
    spread = 1.28 * parts.pop("spread")
    value = sum(parts.values())
    known = any(r.shape.name == shape.name for r in calibrated.steps())
    note = ", ".join(f"{k.replace('_', ' ')} {v:,.0f} s" for k, v in parts.items())
    return Answer("rl_step", value, "s", "modelled" if known else "extrapolated", "C" if known else "P", value / (1 + spread), value * (1 + spread),
                  limit=max(parts, key=lambda k: parts[k]), basis="synchronous, one pool",
                  note=f"{note}; fitted to ten published steps of three models, left-out error 14 %")


def _overlapped(inputs: Mapping) -> Answer:
    """A whole asynchronous step from the model, GPUs and lengths: one published pair says what overlap saves."""
    shape, system = training_models.load(inputs["model"]), catalog.resolve_system(inputs["system"])
    responses, mean, _ = _lengths(inputs)
    value, low, high, row = calibrated.asynchronous_step(shape, system, float(count("gpus", inputs["gpus"])), responses, mean)
    return Answer("rl_step", value, "s", "extrapolated", "P", low, high, limit="work", basis="asynchronous, pools balanced, samples some updates old",
                  note=f"GPU-seconds of published step {row} spread over the GPUs; the saving rests on one published pair")


def _rl_step(inputs: dict) -> Answer:
    mode = MODES.get(str(inputs["mode"]).lower())
    if mode is None:
        raise InputError("mode", inputs["mode"], "must be synchronous or asynchronous")
    own = ("rollout_s", "train_s", "training", "serving", "tokens_per_s_per_gpu")
    if "model" in inputs and not any(k in inputs for k in own):
        for name in ("system", "gpus", "responses", "mean_tokens"):
            if name not in inputs:
                raise InputError(name, None, "is required for a whole step from the model (or give the phases)")
        found = _published(inputs) if mode == "synchronous" else _overlapped(inputs)
        unused = not_used(inputs, "reward_s", "logprobs_s", "sync_s", "checkpoint_s", "weight_bytes", "tpot_s", "rollout_gpus", "train_gpus",
                          "optimizer_steps")
        return replace(found, note="; ".join(n for n in (found.note, unused) if n))
    low, high, note = _rollout(inputs)
    train, sync = _train(inputs), _sync(inputs)
    reward, logprobs, checkpoint = (float(nonnegative(n, inputs[n])) if n in inputs else 0.0 for n in ("reward_s", "logprobs_s", "checkpoint_s"))
    if mode == "synchronous":
        values = [float(rl.synchronous_seconds({"rollout": r, "reward": reward, "logprobs": logprobs, "train": train, "weight_sync": sync,
                                                "checkpoint": checkpoint})) for r in (low, high)]
        parts = {"rollout": low, "reward": reward, "logprobs": logprobs, "train": train, "weight_sync": sync, "checkpoint": checkpoint}
    else:
        values = [float(rl.asynchronous_seconds(r, reward + logprobs + train + checkpoint, sync, inputs["staleness"])) for r in (low, high)]
        parts = {"rollout pool": low, "training pool": reward + logprobs + train + checkpoint, "weight_sync": sync}
    limit = max(parts, key=lambda k: parts[k])
    grow = f"grow the {limit}" if mode == "asynchronous" and limit.endswith("pool") else ""
    others = [*(("serving", "tpot_s", "tokens_per_s_per_gpu", *LENGTHS, "rollout_gpus", "gpus") if "rollout_s" in inputs else ()),
              *(("training", "optimizer_steps") if "train_s" in inputs else ()), *(("weight_bytes",) if "sync_s" in inputs else ()),
              *(("tokens_per_s_per_gpu", "tpot_s") if "serving" in inputs else ()), "train_gpus", "system", "model"]
    listed = ", ".join(f"{k} {v:,.3g} s" for k, v in parts.items() if v)
    notes = [n for n in (note, grow, listed, not_used(inputs, *dict.fromkeys(others))) if n]
    return Answer("rl_step", values[0], "s", "modelled", "P", values[0], values[1], lower=values[0], upper=values[1], limit=limit, basis=mode,
                  note="; ".join(notes))


def _weight_sync(inputs: dict) -> Answer:
    fixed, rate = constant("rl", "update_fixed_seconds"), constant("rl", "update_bytes_per_s")
    size = float(positive("weight_bytes", inputs["weight_bytes"]))
    value = float(rl.weight_sync_seconds(size, fixed.value, rate.value))
    low, high = value * rate.value / rate.high, value * rate.value / rate.low
    return Answer("weight_sync", value, "s", "modelled", "C", low, high, basis="whole copies into each instance of 8 to 16 GPUs",
                  note="eight published updates, largest error 18 %")


LENGTHS = {
    "responses": Input("responses of one step (prompts x samples)", "count",
                       also={"num_responses": "", "prompts": "", "batch": "", "global_batch": ""}),
    "samples_per_prompt": Input("samples of each prompt, where responses counts prompts", "count", also={"group": "", "group_size": ""}),
    "mean_tokens": Input("mean generated tokens", "tokens", also={"mean_output_tokens": "", "output_tokens": "", "mean_gen_len": ""}),
    "max_tokens": Input("cap on a response", "tokens", also={"max_seq": "", "max_output_tokens": "", "max_sequence": ""}),
    "longest_tokens": Input("longest response", "tokens", also={"longest": ""}),
    "spread": Input("coefficient of variation of the lengths"),
}
QUESTIONS = (
    Question("rl_step", "One step of reinforcement learning", "s", "planner.models.rl.synchronous_seconds",
             {"mode": Input("synchronous or asynchronous", default="synchronous"), "staleness": Input("updates a sample may be old", default=1),
              "rollout_s": Input("rollout", "s", also=spellings("rollout", own="rollout_s")),
              "reward_s": Input("reward", "s", also=spellings("reward", own="reward_s")),
              "logprobs_s": Input("log-probabilities", "s", also=spellings("logprobs", "logprob", own="logprobs_s")),
              "train_s": Input("training", "s", also=spellings("train", "training", own="train_s")),
              "sync_s": Input("weight sync", "s", also=spellings("sync", "weight_sync", own="sync_s")),
              "checkpoint_s": Input("checkpoint stall", "s", also=spellings("checkpoint", own="checkpoint_s")),
              **LENGTHS, "tokens_per_s_per_gpu": Input("output tokens of the rollout pool", "tok/s/GPU", also={"rollout_tokens_per_s_per_gpu": ""}),
              "tpot_s": Input("time per token of one sequence", "s", also=spellings("tpot", own="tpot_s")),
              "serving": Input("inputs of the question serving, for the rollout pool", structured=True),
              "training": Input("inputs of the question training_step", structured=True),
              "optimizer_steps": Input("optimizer steps a rollout feeds", "count"),
              "weight_bytes": Input("bytes of one copy of the weights, for the sync", "B", also={"weight_gb": "GB"}),
              "rollout_gpus": Input("GPUs of the rollout pool", "count"), "train_gpus": Input("GPUs of the training pool", "count"),
              "gpus": Input("GPUs of one shared pool", "count"),
              "system": Input("catalogue name, for a whole step from the model"), "model": Input("catalogue name, the same", structured=True)},
             _rl_step),
    Question("weight_sync", "Time to bring new weights into an inference instance", "s", "planner.models.rl.weight_sync_seconds",
             {"weight_bytes": Input("bytes of one copy", "B", required=True, also={"weight_gb": "GB", "bytes": ""})}, _weight_sync),
)
