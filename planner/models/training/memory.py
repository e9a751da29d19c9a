"""What one GPU holds during training: weights, gradients, optimizer state, activations, logits; a bound pair where software decides."""

from __future__ import annotations

import numpy as np

from planner.models.training.job import TrainingLayout, Work
from planner.units import nonnegative

ACTIVATION_BYTES = 34.0  # per token and hidden element of a layer kept in BF16 with selective recompute (arXiv 2205.05198, eq. 2)
RECOMPUTED_BYTES = 2.0  # the input of a layer alone, with full recompute


def memory_parts(job: Work, layout: TrainingLayout, global_batch, micro_batch=1.0, weight_bytes=2.0, gradient_bytes=4.0, state_bytes=12.0,
                 full_recompute=False) -> dict:
    """Return the bytes on the fullest GPU by part: weights + gradients + optimizer + activations + logits.

    Weights and gradients of dense layers are split over tp x pp, of experts over ep x pp; the optimizer state over the replicas too; with
    fsdp all of them over its width. Activations: tokens x hidden x 34 B / tp a layer of the stage (2 B with full recompute), for as many
    micro-batches as the first stage holds at once, min(m, p + (p - 1) / v); a routed token adds 4 hidden + 6 expert widths of bytes.
    Parameters: job; layout, fields scalar or arrays; global_batch, micro_batch [sequence]; weight_bytes, gradient_bytes and state_bytes
    [B/param]; full_recompute. Returns: ordered dict part -> bytes [B]. Raises: InputError for negative sizes.
    Validity: BF16 activations, distributed optimizer, no offload. Error: not validated against a measurement; every published run of the
    catalogue fits by the lower bound (tests). Source: arXiv 2205.05198; arXiv 2104.04473.
    """
    wide, grad, state = (nonnegative(n, v) for n, v in (("weight_bytes", weight_bytes), ("gradient_bytes", gradient_bytes),
                                                        ("state_bytes", state_bytes)))
    tp, pp, vpp, dp, cp, ep = layout.tp, layout.pp, layout.vpp, layout.dp, layout.cp, layout.ep
    ranks = dp * cp
    heavy = np.ceil(job.layers / pp) / job.layers
    dense = (job.dense_params * heavy + job.head_params / (1 + (np.asarray(pp) > 1))) / tp
    routed = job.expert_params * heavy / ep
    shard = np.maximum(layout.fsdp, 1.0)
    copies = np.maximum(ranks * tp / ep, 1.0)
    routed_shard = np.minimum(shard, copies)
    rounds = global_batch / (dp * micro_batch)
    held = np.minimum(rounds, np.where(np.asarray(pp) > 1, pp + (pp - 1) / vpp, 1.0))
    tokens = np.asarray(micro_batch * job.seq_tokens / cp)
    # a routed token keeps its copy in and out and three vectors of the expert's width, all BF16
    width = job.expert_flops / (6.0 * job.hidden * job.top_k * job.moe_layers) if job.experts else 0.0
    routed_kept = job.top_k * (4.0 + 6.0 * width / job.hidden) * job.moe_layers / job.layers if job.experts else 0.0
    kept = RECOMPUTED_BYTES if full_recompute else ACTIVATION_BYTES + routed_kept
    return {
        "weights": (wide * (dense / shard + routed / routed_shard))[()],
        "gradients": (grad * (dense / shard + routed / routed_shard))[()],
        "optimizer": (state * (dense / ranks + routed / copies))[()],
        "activations": (tokens * job.hidden * kept / tp * heavy * job.layers * held)[()],
        "logits": (tokens * (job.head_params / 2 / job.hidden) * 6.0 / tp)[()],
    }


def memory_bounds(job: Work, layout: TrainingLayout, global_batch, micro_batch=1.0, full_recompute=False):
    """Return (lower, upper) bytes on the fullest GPU: what software may choose, from thrifty to generous.

    Lower: BF16 gradients, BF16 moments and full recompute; upper: FP32 gradients and moments, activations kept unless full_recompute.
    Parameters: as `memory_parts`. Returns: pair of bytes [B]. Raises: InputError. Validity and Error: as `memory_parts`.
    Source: as there.
    """
    thrifty = memory_parts(job, layout, global_batch, micro_batch, 2.0, 2.0, 8.0, True)
    generous = memory_parts(job, layout, global_batch, micro_batch, 2.0, 4.0, 12.0, full_recompute)
    return sum(thrifty.values()), sum(generous.values())
