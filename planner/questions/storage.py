"""Questions about training checkpoints, their copy to another region, object caches and archive tiers."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import Infeasible, InputError
from planner.facts import modelcards, storage_tables
from planner.models import storage, transformer
from planner.plan.answer import Answer, exact, missing, weakest
from planner.questions.registry import Input, Question
from planner.questions.reliability import spellings
from planner.units import fraction, nonnegative, positive

COMPONENTS = {"param": "weights", "params": "weights", "weight": "weights", "weights": "weights", "master": "master", "fp32_master": "master",
              "adam": "moments", "moments": "moments", "optimizer": "moments", "moment1": "moment1", "moment2": "moment2", "m": "moment1",
              "v": "moment2", "grad": "gradients", "grads": "gradients", "gradients": "gradients", "ema": "ema"}


def state_of(inputs: Mapping) -> tuple[str, dict[str, float], str]:
    """Return (name, component -> bytes per parameter, grade) of the training state that a question names."""
    given = inputs.get("state_format", "adam_bf16_fp32")
    if isinstance(given, Mapping):
        state = {}
        for key, value in given.items():
            if key not in COMPONENTS:
                raise InputError(f"state_format.{key}", value, f"must be one of {', '.join(dict.fromkeys(COMPONENTS.values()))}")
            state[COMPONENTS[key]] = float(nonnegative(f"state_format.{key}", value))
        name, grade = "as given", "A"
    else:
        if not isinstance(given, str):
            raise InputError("state_format", given, "must be a name or an object component -> bytes per parameter")
        name, state, grade = storage_tables.state_format(given)
    for part, width in (("ema", state.get("master", state.get("weights", 4.0))), ("gradients", 4.0)):
        asked = inputs.get(part, False)
        if not isinstance(asked, bool):
            raise InputError(part, asked, "must be true or false")
        if asked:
            state = {**state, part: width}
    return name, state, grade


def state_bytes(inputs: Mapping) -> tuple[dict[str, float], str, str]:
    """Return (component -> bytes [B], name of the format, grade) from params, a model of the catalogue, or the bytes of its weights."""
    name, state, grade = state_of(inputs)
    twice = [k for k in ("total_bytes", "model_bytes", "params") if k in inputs]
    if len(twice) > 1:
        raise InputError(twice[1], inputs[twice[1]], f"says the size a second time (also {twice[0]})")
    if "total_bytes" in inputs:
        for part in ("ema", "gradients"):
            if inputs.get(part):
                raise InputError(part, True, "has no effect on the bytes of the whole checkpoint, which hold it already")
        return {"total": float(positive("total_bytes", inputs["total_bytes"]))}, "as given", "P"
    if "model_bytes" in inputs:
        if not state.get("weights"):
            raise InputError("state_format", inputs.get("state_format"), "must say the bytes of the weights: the parameters follow from them")
        return storage.training_state_bytes(positive("model_bytes", inputs["model_bytes"]) / state["weights"], state), name, grade
    if "params" in inputs:
        params = float(positive("params", inputs["params"]))
        if params < 1e4:
            raise InputError("params", params, "must be a number of parameters (405e9); use params_b for billions")
        return storage.training_state_bytes(params, state), name, grade
    if "model" in inputs:
        parts = transformer.parameters(modelcards.load(inputs["model"]))
        return storage.training_state_bytes(float(sum(parts.values())), state), name, grade
    raise InputError("params", None, "is required (or params_b, model, model_bytes)")


def _checkpoint(inputs: dict) -> Answer:
    parts, name, grade = state_bytes(inputs)
    total, quantity = float(sum(parts.values())), inputs["quantity"]
    note = ", ".join(f"{k} {v / 1e9:,.4g} GB" for k, v in parts.items())
    if "gradients" in parts:
        note += "; gradients are not needed to resume"
    value, unit = total, "B"
    if quantity in ("per_gpu", "per_node"):
        over = positive(quantity.replace("per_", "") + "s", inputs.get(quantity.replace("per_", "") + "s"))
        value = total / float(over)
    elif quantity in ("write_rate", "write_bytes_per_s"):
        value, unit = float(storage.write_bytes_per_s_needed(total, inputs.get("seconds"))), "B/s"
    elif quantity != "total":
        wanted = [k for k in parts if k == quantity or (quantity in ("moments", "optimizer") and k.startswith("moment"))]
        if not wanted:
            raise InputError("quantity", quantity, f"must be total, per_gpu, per_node, write_rate or one of {', '.join(parts)}")
        value = float(sum(parts[k] for k in wanted))
    return exact("training_checkpoint_bytes", value, unit, grade=grade, basis=f"{name}; decimal bytes; no file headers", note=note)


def _replication(inputs: dict) -> Answer:
    parts, _, _ = state_bytes(inputs)
    mode = inputs["mode"]
    modes = {"async": True, "asynchronous": True, "sync": False, "synchronous": False}
    if mode not in modes:
        raise InputError("mode", mode, "must be asynchronous or synchronous")
    wan = float(positive("wan_bytes_per_s", inputs["wan_bytes_per_s"]))
    if wan < 1e6:
        raise InputError("wan", wan, "must carry a unit, such as \"100 Gb/s\" or wan_gbps: below 1 MB/s it is taken for a slip")
    wan *= float(fraction("wan_efficiency", inputs["wan_efficiency"], zero=False))
    total = sum(parts.values()) * float(positive("changed_fraction", inputs["changed_fraction"]))
    found = storage.replication(total, inputs["interval_s"], wan, inputs["round_trip_s"], inputs["write_s"], modes[mode])
    names = {"lag": ("lag_seconds", "s"), "stall": ("stall_seconds", "s"), "work_at_risk": ("work_at_risk_seconds", "s"),
             "work_at_risk_mean": ("work_at_risk_mean_seconds", "s"), "bytes_at_risk": ("bytes_at_risk", "B"),
             "wan_utilisation": ("wan_utilisation", "fraction"), "wan_needed": ("wan_needed_bytes_per_s", "B/s")}
    if inputs["quantity"] not in names:
        raise InputError("quantity", inputs["quantity"], f"must be one of {', '.join(names)}")
    key, unit = names[inputs["quantity"]]
    value = float(found[key])
    note = f"link in use {found['wan_utilisation']:.0%}; a lost region takes at most {found['work_at_risk_seconds']:,.0f} s of work along"
    return Answer("replication_lag", value, unit, "modelled", "P", value, value, limit="wan",
                  basis=f"{mode} copy of {total / 1e9:,.4g} GB a checkpoint, decimal bytes", note=note)


def _read_latency(inputs: dict) -> Answer:
    hit, near, far = inputs.get("hit_fraction"), inputs["hit_s"], inputs["miss_s"]
    if hit is not None and "speedup" in inputs:
        raise InputError("speedup", inputs["speedup"], "says the hit rate a second time")
    if hit is None:
        hit = storage.hit_fraction_for(inputs["speedup"], near, far) if "speedup" in inputs else None
    if hit is None:
        raise InputError("hit_fraction", None, "is required (share of reads found in the cache), or speedup")
    value = float(storage.read_latency_seconds(hit, near, far))
    uncached = float(positive("miss_s", far)) / value if value else 0.0
    note = f"{uncached:,.3g}x faster than without a cache; the slowest reads stay at the miss time" if value else ""
    return Answer("object_read_latency", value, "s", "modelled", "P", value, value, basis="mean of all reads",
                  limit="miss" if (1 - float(hit)) * far > float(hit) * near else "hit", note=note)


def _hit_rate(inputs: dict) -> Answer:
    value = float(storage.hit_fraction_for(inputs["speedup"], inputs["hit_s"], inputs["miss_s"]))
    return exact("cache_hit_rate", value, "fraction", how="modelled", grade="P", basis="share of reads, mean latency")


def _read_rate(inputs: dict) -> Answer:
    limit = float(positive("gpu_limit_bytes_per_s", inputs["gpu_limit_bytes_per_s"])) if "gpu_limit_bytes_per_s" in inputs else float("inf")
    value = float(storage.read_bytes_per_s(inputs["hit_fraction"], inputs["hit_bytes_per_s"], inputs["miss_bytes_per_s"], limit))
    ends = [min(float(inputs[name]), limit) for name in ("hit_bytes_per_s", "miss_bytes_per_s")]
    return Answer("object_read_rate", value, "B/s", "modelled", "P", lower=min(*ends, value), upper=max(*ends, value),
                  basis="one GPU, one stream; parallel streams come nearer to the hit rate's speed")


def _leaving(egress: object) -> tuple[float, str]:
    """Return (share of the reads that leave the provider [1], in words) of true, false or a share. Raises: InputError."""
    if isinstance(egress, bool):
        return float(egress), "reads pay egress" if egress else "reads stay inside: no egress"
    try:
        share = float(fraction("egress", egress))
    except InputError as error:
        raise InputError("egress", error.value, f"must be true, false, or {error.allowed.removeprefix('must be ')}") from None
    return share, f"{share:.0%} of reads pay egress"


def _read_fee(tier: storage_tables.Tier, share: float, other: storage_tables.Tier) -> float:
    """Return what a byte read costs [USD/B]: retrieval, and egress of the share that leaves the provider. Raises: InputError for an unknown fee."""
    if tier.retrieval_usd is None:
        raise InputError(f"tier {tier.name}: retrieval fee", None, "is not available: give it in the tier's object")
    if not share or (tier.provider == other.provider and tier.egress_usd is None and other.egress_usd is None):
        return tier.retrieval_usd
    if tier.egress_usd is None:
        raise InputError(f"tier {tier.name}: egress fee", None, "is not available: give it in the tier's object, or egress false")
    return tier.retrieval_usd + share * tier.egress_usd


def _break_even(inputs: dict) -> Answer:
    given = inputs["tiers"]
    if isinstance(given, Mapping):
        given = list(given.values())
    if not isinstance(given, list) or len(given) != 2:
        raise InputError("tiers", given, "must be a list of two tiers, by name or as objects with their prices")
    first, second = (storage_tables.tier(t) for t in given)
    if inputs["quantity"] not in ("reread_fraction", "storage_price"):
        raise InputError("quantity", inputs["quantity"], "must be reread_fraction or storage_price")
    share, said = _leaving(inputs["egress"])
    fees = _read_fee(first, share, second), _read_fee(second, share, first)
    grade = weakest(first.grade, second.grade)
    prices = (first.storage_usd, second.storage_usd)
    if None in prices or inputs["quantity"] == "storage_price":
        if prices[0] is None and prices[1] is None:
            return missing("archive_break_even", "fraction", "no storage price published for either tier")
        own, other = (0, 1) if prices[0] is None or inputs["quantity"] == "storage_price" else (1, 0)
        if inputs["quantity"] != "storage_price":
            unknown = (first, second)[own].name
            return missing("archive_break_even", "fraction", f"the storage price of {unknown} is not available (its fees are); "
                           "quantity storage_price with a reread_fraction gives the price at which both cost the same")
        if "reread_fraction" not in inputs:
            said += "; reread_fraction not given: nothing is read"
        value = float(storage.storage_price_break_even(prices[other], fees[other], fees[own], inputs.get("reread_fraction", 0.0)))
        if value < 0:
            said += f"; below 0: {(first, second)[own].name} is the dearer one at any storage price, even for nothing"
        return Answer("archive_break_even", value * 1e9, "USD/GB", "modelled", grade, basis="USD per GB (decimal) and month", note=said)
    dear, cheap = (0, 1) if prices[0] > prices[1] else (1, 0)
    names = (first.name, second.name)
    try:
        value = float(storage.reread_break_even(prices[dear], prices[cheap], fees[dear], fees[cheap]))
    except Infeasible as error:
        if prices[0] == prices[1] and fees[0] == fees[1]:
            raise
        raise Infeasible("archive", f"{names[cheap]} costs no more at rest and no more to read than {names[dear]}: it is cheaper at any re-read share"
                         if fees[cheap] <= fees[dear] else f"{names[dear]} is cheaper at any re-read share") from error
    minimum = [t.name for t in (first, second) if t.minimum_days]
    note = f"{names[dear]} is the cheaper one above this share; {said}"
    if "reread_fraction" in inputs:
        asked = float(nonnegative("reread_fraction", inputs["reread_fraction"]))
        note += f"; at the {asked:.2%} asked for: {names[dear] if asked > value else names[cheap]}"
    if minimum:
        note += f"; minimum durations and requests not counted ({', '.join(minimum)})"
    basis = "share of the stored data read per month"
    return Answer("archive_break_even", value, "fraction", "modelled", grade, value, value, basis=basis, note=note)


def _archive_cost(inputs: dict) -> Answer:
    kind = storage_tables.tier(inputs["tier"])
    size, read = float(positive("stored_bytes", inputs["stored_bytes"])), float(nonnegative("reread_fraction", inputs["reread_fraction"]))
    if kind.storage_usd is None:
        return missing("archive_cost", "USD", f"storage price of {kind.name} not available: its fees are known, its price is not")
    if read and kind.retrieval_usd is None:
        return missing("archive_cost", "USD", f"retrieval fee of {kind.name} not available")
    share, said = _leaving(inputs["egress"])
    if read and share and kind.egress_usd is None:
        return missing("archive_cost", "USD", f"egress fee of {kind.name} not available")
    for name, needs in (("objects", "usd_per_1000_requests"), ("usd_per_1000_requests", "objects")):
        if name in inputs and needs not in inputs:
            raise InputError(needs, None, f"is required with {name}: requests without a price do not cost 0")
    requests = float(nonnegative("usd_per_1000_requests", inputs.get("usd_per_1000_requests", 0.0))) / 1000
    parts = storage.tier_monthly_usd(size, kind.storage_usd, read, kind.retrieval_usd or 0.0, share * (kind.egress_usd or 0.0),
                                     inputs.get("objects", 0.0), requests)
    note = ", ".join(f"{k} {float(v):,.2f}" for k, v in parts.items()) + (f"; prices of {kind.date}" if kind.date else "") + f"; {said}"
    value = float(sum(parts.values()))
    return Answer("archive_cost", value, "USD", "modelled", kind.grade, value, value, basis="per month", note=note)


BYTES = {"params": Input("parameters, all of them", "count",
                         also={"parameters": "", "num_params": "", "params_b": "billion", "params_billion": "billion"}),
         "model": Input("a model of the catalogue instead", structured=True),
         "model_bytes": Input("bytes of the weights instead, in the width of the format", "B", also={"model_gb": "GB", "weights_bytes": ""}),
         "total_bytes": Input("bytes of the whole checkpoint instead", "B",
                              also={"bytes": "", "checkpoint_bytes": "", "checkpoint_gb": "GB", "checkpoint_tb": "TB", "total_gb": "GB"}),
         "state_format": Input("adam_bf16_fp32 (14 B), adam_bf16_moments (10 B), adam_fp32, ..., or component -> bytes per parameter",
                               default="adam_bf16_fp32", structured=True, also={"state": "", "format": "", "optimizer_format": ""}),
         "ema": Input("a moving average of the weights is stored too", default=False),
         "gradients": Input("gradients are kept too (memory, not a checkpoint)", default=False)}
LATENCY = {"hit_s": Input("latency of a hit", "s", required=True,
                          also={**spellings("hit", "hit_latency", "cache", "cache_latency", own="hit_s"), "hit_us": "us", "local_ms": "ms"}),
           "miss_s": Input("latency of a miss", "s", required=True,
                           also={**spellings("miss", "miss_latency", "remote", "remote_latency", "origin", own="miss_s"), "miss_us": "us"})}
HIT = Input("share of reads found in the cache", also={"hit_rate": "", "hit": "", "cache_hit_fraction": "", "cache_hit_rate": ""})

QUESTIONS = (
    Question("training_checkpoint_bytes", "Bytes of a full training state", "B", "planner.models.storage.training_state_bytes",
             {**BYTES, "quantity": Input("total, per_gpu, per_node, write_rate (with seconds), or a component", default="total"),
              "gpus": Input("GPUs, for per_gpu", "count"), "nodes": Input("nodes, for per_node", "count"),
              "seconds": Input("time to write it in, for write_rate", "s", also=spellings("write", own="seconds"))}, _checkpoint),
    Question("replication_lag", "When a checkpoint is safe in another region", "s", "planner.models.storage.replication",
             {**BYTES, "wan_bytes_per_s": Input("link between the regions, one direction", "B/s", required=True,
                                                also={"wan": "", "wan_gbps": "Gb/s", "wan_gbit_per_s": "Gb/s", "wan_gb_per_s": "GB/s",
                                                      "wan_tbps": "Tb/s", "wan_gb_s": "GB/s"}),
              "interval_s": Input("from one checkpoint to the next", "s", required=True,
                                  also={**spellings("interval", "checkpoint_interval", own="interval_s"), "interval": ""}),
              "wan_efficiency": Input("share of the link that is reached", default=1.0),
              "changed_fraction": Input("share of the checkpoint that crosses (compression, differences)", default=1.0),
              "round_trip_s": Input("round trip between the regions", "s", default=0.0, also=spellings("rtt", "round_trip", own="round_trip_s")),
              "write_s": Input("write in the own region", "s", default=0.0, also=spellings("local_write", "write", own="write_s")),
              "mode": Input("asynchronous or synchronous", default="asynchronous"),
              "quantity": Input("lag, stall, work_at_risk, work_at_risk_mean, bytes_at_risk, wan_utilisation, wan_needed", default="lag")},
             _replication),
    Question("object_read_latency", "Mean latency of reads through a cache", "s", "planner.models.storage.read_latency_seconds",
             {"hit_fraction": HIT, **LATENCY, "speedup": Input("instead of the hit rate: the gain to reach")}, _read_latency),
    Question("cache_hit_rate", "Hit rate that makes reads so much faster", "fraction", "planner.models.storage.hit_fraction_for",
             {"speedup": Input("latency without a cache over latency with it", required=True), **LATENCY}, _hit_rate),
    Question("object_read_rate", "Read rate of one GPU through a cache", "B/s", "planner.models.storage.read_bytes_per_s",
             {"hit_fraction": Input(HIT.meaning, required=True, also=HIT.also),
              "hit_bytes_per_s": Input("rate of hits", "B/s", required=True, also={"hit_gb_per_s": "GB/s", "hit_gb_s": "GB/s"}),
              "miss_bytes_per_s": Input("rate of misses", "B/s", required=True, also={"miss_gb_per_s": "GB/s", "miss_gb_s": "GB/s"}),
              "gpu_limit_bytes_per_s": Input("most one GPU can take", "B/s", also={"gpu_limit_gb_per_s": "GB/s"})}, _read_rate),
    Question("archive_break_even", "Re-read share above which the tier dearer at rest is cheaper", "fraction",
             "planner.models.storage.reread_break_even",
             {"tiers": Input("two tiers, by name or as {storage_usd_per_gb_month, retrieval_usd_per_gb, egress_usd_per_gb, unit}", required=True,
                             structured=True),
              "reread_fraction": Input("share of the stored data read a month", also={"reread_share": "", "re_read_share": "", "reread": ""}),
              "egress": Input("true: reads leave the provider; false: they do not; or the share that does", default=True),
              "quantity": Input("reread_fraction, or storage_price: of the first tier, at which both cost the same", default="reread_fraction")},
             _break_even),
    Question("archive_cost", "Monthly cost of stored data in one tier", "USD", "planner.models.storage.tier_monthly_usd",
             {"tier": Input("a tier of the price table, or an object with its prices", required=True, structured=True),
              "stored_bytes": Input("bytes at rest (decimal TB, binary TiB)", "B", required=True,
                                    also={"stored_gb": "GB", "stored_tb": "TB", "stored_gib": "GiB", "stored_tib": "TiB", "gb": "GB", "tb": "TB",
                                          "tib": "TiB"}),
              "reread_fraction": Input("share read a month", default=0.0, also={"reread_share": ""}),
              "egress": Input("true: reads leave the provider; false: they do not; or the share that does", default=True),
              "objects": Input("objects requested a month"), "usd_per_1000_requests": Input("request price, with objects")},
             _archive_cost),
)
