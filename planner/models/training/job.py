"""What a training step is made of: the work of a model, the machine, the layout and the batch, each checked once when made."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from planner.errors import InputError
from planner.models import transformer
from planner.shapes import ModelShape
from planner.units import count, nonnegative, positive


@dataclass(frozen=True)
class Work:
    """Forward work of one model and sequence length, per token and for the whole model.

    linear_flops (attention projections, dense layers, shared experts, recurrent layers), expert_flops (the routed experts a token uses),
    attention_flops (scores and values, causal mean), head_flops [FLOP/token]; layers, moe_layers, top_k, experts [1]; hidden and
    kv_elements (a token's keys and values in one layer) [1]; heads [1]; seq_tokens [token]; dense_params, expert_params and head_params
    (embedding and head) [1]; tp_rounds [1] gather and scatter pairs a layer: 2, or 1 where attention and feed-forward run side by side.
    """

    name: str
    linear_flops: float
    expert_flops: float
    attention_flops: float
    head_flops: float
    layers: int
    moe_layers: int
    top_k: int
    experts: int
    hidden: int
    kv_elements: float
    heads: int
    seq_tokens: float
    dense_params: float
    expert_params: float
    head_params: float
    tp_rounds: int = 2

    @property
    def params(self) -> float:
        """All parameters of the main model [1]."""
        return self.dense_params + self.expert_params + self.head_params

    def flops_per_token(self, passes: float = 3.0, causal: bool = True) -> float:
        """Return the FLOPs of training one token: passes x forward; with full attention where `causal` is False.

        Parameters: passes [1], 3 or 4 with full recompute; causal. Returns: FLOP [FLOP/token]. Raises: nothing.
        Validity: MTP left out. Error: conventions differ by 4 %. Source: 6 N + attention.
        """
        attention = self.attention_flops * (1 if causal else 2)
        return passes * (self.linear_flops + self.expert_flops + attention + self.head_flops)


@dataclass(frozen=True)
class Machine:
    """One GPU of a system in one number format, and its links.

    peak_flops_per_s dense peak of the format, bf16_flops_per_s [FLOP/s]; hbm_bytes [B], hbm_bytes_per_s [B/s]; nvlink_bytes_per_s and
    nic_bytes_per_s one direction of one GPU [B/s]; domain_gpus [1] that a job may use of one NVLink domain.
    """

    name: str
    peak_flops_per_s: float
    bf16_flops_per_s: float
    hbm_bytes: float
    hbm_bytes_per_s: float
    nvlink_bytes_per_s: float
    nic_bytes_per_s: float
    domain_gpus: int

    def __post_init__(self):
        for f in fields(self):
            if f.name not in ("name", "domain_gpus"):
                positive(f"{self.name}.{f.name}", getattr(self, f.name))
        count(f"{self.name}.domain_gpus", self.domain_gpus)


@dataclass(frozen=True)
class Efficiency:
    """The fitted constants of one GPU type and format (data/calibration/training.csv).

    unsharded_fraction [1] of element-wise traffic that tensor parallelism does not split (0 with sequence parallelism);
    gemm_fraction [1] of the format's peak, expert_fraction [1] of gemm_fraction; attention_fraction [1] of the BF16 peak;
    elementwise_bytes per token, hidden element and layer, unfused_bytes per attention score, expert_bytes per routed token and hidden
    element [B]; kernel_seconds per layer and pass [s]; tp_, cp_, ep_, pp_, dp_ and fsdp_exposed [1] shares of communication that nothing
    hides; fixed_seconds per step [s]; doubling_fraction [1] lost each time the GPUs double.
    """

    gemm_fraction: float
    expert_fraction: float
    attention_fraction: float
    elementwise_bytes: float
    unfused_bytes: float
    expert_bytes: float
    kernel_seconds: float
    tp_exposed: float
    cp_exposed: float
    ep_exposed: float
    pp_exposed: float
    dp_exposed: float
    fsdp_exposed: float
    fixed_seconds: float
    doubling_fraction: float
    unsharded_fraction: float = 0.0

    def __post_init__(self):
        for f in fields(self):
            nonnegative(f"efficiency.{f.name}", getattr(self, f.name))


@dataclass(frozen=True)
class TrainingLayout:
    """How the GPUs are split: tp, cp, pp, dp multiply to the GPU count; ep lies inside tp x cp x dp; fsdp shards the weights.

    vpp [1] chunks of layers a stage (1: no interleaving); ep [1] GPUs that hold different experts; fsdp [1] shard width of the weights
    inside dp x cp, 0: replicated weights with a sharded optimizer. Arrays of layouts are allowed: the fields broadcast.
    """

    tp: int = 1
    pp: int = 1
    vpp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    fsdp: int = 0

    def __post_init__(self):
        for f in fields(self):
            value = count(f"layout.{f.name}", getattr(self, f.name), 0 if f.name == "fsdp" else 1, 10**7)
            object.__setattr__(self, f.name, value.astype(float) if value.ndim else float(value))
        inner = np.asarray(self.tp * self.cp * self.dp)
        if np.any(inner % np.asarray(self.ep)):
            raise InputError("layout.ep", _first(self.ep), f"must divide tp x cp x dp = {_first(inner)}")

    @property
    def gpus(self):
        """GPUs of the job: tp x pp x dp x cp."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def label(self) -> str:
        """The layout in the field's short form, such as TP8 PP8 VPP8 CP2 DP4."""
        names = (("tp", "TP"), ("pp", "PP"), ("vpp", "VPP"), ("cp", "CP"), ("ep", "EP"), ("dp", "DP"), ("fsdp", "FSDP"))
        shown = [f"{short}{int(getattr(self, name))}" for name, short in names if getattr(self, name) > (0 if name == "fsdp" else 1)]
        return " ".join(shown) or "1 GPU"


def _first(value) -> float:
    return float(np.asarray(value).flat[0])


def work(shape: ModelShape, seq_tokens: float) -> Work:
    """Return the work of a model at a sequence length: matrix products by part, attention at half the length (causal).

    Parameters: shape; seq_tokens [token]. Returns: Work. Raises: InputError for a sequence of 0.
    Validity: text tokens; the MTP module is left out (about 4 % of DeepSeek-V3, in the fitted residual of runs that train it).
    Error: FLOP per token within 0.5 % of the printed conventions of the catalogue's dense models (tests). Source: transformer counts.
    """
    seq = float(positive("seq_tokens", seq_tokens))
    linear = transformer.linear_flops_per_token(shape)
    params = transformer.parameters(shape)
    outside = ("embedding", "head", "mtp", "vision")
    expert = sum(params.get(p, 0) for p in ("experts",))
    body = sum(n for p, n in params.items() if p not in (*outside, "experts"))
    attention = max(shape.attention, key=lambda a: a.layers if a.kind != "linear" else 0)
    experts = shape.experts
    return Work(shape.name, sum(f for p, f in linear.items() if p not in ("experts", "head")), linear.get("experts", 0.0),
                float(transformer.attention_flops_per_token(shape, seq / 2)), linear.get("head", 0.0), shape.layers,
                experts.layers if experts else 0, experts.top_k if experts else 0, experts.num if experts else 0, shape.hidden,
                attention.kv_heads * (attention.qk_dim + attention.v_dim) if not attention.shared_latent else attention.cache_elements,
                attention.heads, seq, body, expert, params.get("embedding", 0) + params.get("head", 0))


def check(job: Work, layout: TrainingLayout, global_batch, micro_batch, gpus=None) -> None:
    """Refuse a layout and batch that cannot run: products, divisibility, experts.

    Parameters: job; layout; global_batch and micro_batch [sequence]; gpus [1], checked against the layout where given.
    Returns nothing. Raises: InputError naming the field: tp x pp x dp x cp against gpus, batch not a multiple of dp x micro batch, ep
    beyond the experts or not dividing them, more stages or chunks than layers, tp that does not divide the attention heads, fsdp that does not
    divide dp x cp.
    Validity: one job. Error: exact. Source: definitions of the parallel sizes [1].
    """
    batch, micro = count("global_batch", global_batch), count("micro_batch", micro_batch)
    if gpus is not None and np.any(count("gpus", gpus) != np.asarray(layout.gpus)):
        product = f"{layout.tp:g} x {layout.pp:g} x {layout.dp:g} x {layout.cp:g} = {layout.gpus:g}"
        raise InputError("layout", product, f"tp x pp x dp x cp must be the GPU count, {int(_first(gpus)):,}")
    share = np.asarray(layout.dp * micro)
    if np.any(batch % share):
        raise InputError("global_batch", int(_first(batch)), f"must be a multiple of dp x micro_batch = {_first(share):g}")
    if np.any(np.asarray(layout.ep) > max(job.experts, 1)):
        raise InputError("layout.ep", _first(layout.ep), f"must be at most the number of experts, {job.experts}" if job.experts
                         else "must be 1: the model has no routed experts")
    if job.experts and np.any(job.experts % np.asarray(layout.ep)):
        raise InputError("layout.ep", _first(layout.ep), f"must divide the {job.experts} experts")
    if np.any(np.asarray(layout.pp * layout.vpp) > job.layers + 2):
        raise InputError("layout.pp", _first(layout.pp * layout.vpp), f"x vpp must be at most the layers, {job.layers}")
    if np.any(job.heads % np.asarray(layout.tp)):
        raise InputError("layout.tp", _first(layout.tp), f"must divide the {job.heads} attention heads")
    ranks = np.asarray(layout.dp * layout.cp)
    if np.any(ranks % np.maximum(layout.fsdp, 1)):
        raise InputError("layout.fsdp", _first(layout.fsdp), f"must divide dp x cp = {_first(ranks):g}")
