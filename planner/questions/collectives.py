"""Questions about collectives: bus bandwidth, and the time of expert-parallel dispatch and combine."""

from __future__ import annotations

from planner.models import collectives as model
from planner.plan.collectives import busbw, combine, dispatch
from planner.questions.registry import Input, Question

SYSTEM = Input("catalogue name, any printed spelling, or an object with the fields", required=True, structured=True)
_EXPERT = {
    "system": SYSTEM,
    "profile": Input("where a system has two"),
    "gpu_watts": Input("power setting", "W"),
    "ep": Input("ranks of the exchange", required=True),
    "tokens_per_rank": Input("tokens of one rank", "tokens", required=True),
    "hidden": Input("values a token", default=7168),
    "topk": Input("experts a token", default=8),
    "ranks_per_domain": Input("ranks that share NVLink; absent: the system's"),
    "low_latency": Input("low-latency kernels (true or false); absent: up to 512 tokens"),
    "through_api": Input("time of the framework call", default=False),
    "units": Input("processors (SMs) given to a normal kernel; 0 = enough"),
    "most_nodes": Input("most nodes that one token may visit (group-limited routing); 0 = no limit"),
}
QUESTIONS = (
    Question(
        "busbw",
        "bus bandwidth of a collective",
        "GB/s",
        "planner.models.collectives.all_reduce_seconds",
        {
            "system": SYSTEM,
            "profile": Input("where a system has two"),
            "gpu_watts": Input("power setting", "W"),
            "op": Input(", ".join(model.OPS), default="all_reduce"),
            "ranks": Input("GPUs taking part", required=True),
            "ranks_per_domain": Input("GPUs that share NVLink; absent: the system's"),
            "message_bytes": Input("buffer of one rank", "B", default=8589934592),
            "algorithm": Input("in_switch, ring, tree or one_step; absent: the system's"),
        },
        busbw,
    ),
    Question(
        "expert_dispatch",
        "time of one expert-parallel dispatch",
        "us",
        "planner.models.expert_parallel.exchange_seconds",
        {**_EXPERT, "format": Input("of what is sent", default="fp8")},
        dispatch,
    ),
    Question(
        "expert_combine",
        "time of one expert-parallel combine",
        "us",
        "planner.models.expert_parallel.exchange_seconds",
        {**_EXPERT, "format": Input("of what is sent", default="bf16")},
        combine,
    ),
)
