"""Time of one synchronous training step, by part, for one layout or an array of them."""

from __future__ import annotations

import numpy as np

from planner.models.training.job import Efficiency, Machine, TrainingLayout, Work

STATE_TRAFFIC_BYTES = 30.0  # read and written per parameter and optimizer step: gradient, master and two moments in FP32, weights in BF16
GRADIENT_BYTES, WEIGHT_BYTES = 4.0, 2.0  # FP32 reduce-scatter, BF16 all-gather


def _most(a, b):
    """The larger of two numbers or arrays, by arithmetic that costs a scalar nothing."""
    return (a + b + abs(a - b)) / 2


def step_parts(job: Work, machine: Machine, eff: Efficiency, layout: TrainingLayout, global_batch, micro_batch=1.0, passes=3.0) -> dict:
    """Return the time of one step by part: T = [t_mb (m + (p - 1) / v) + X] (1 + a log2(N / 64)).

    t_mb, one micro-batch on the heaviest stage = matrix products / (tp peak e) + attention / (tp peak_bf16 e_att) + element-wise traffic /
    HBM + kernel starts + exposed TP, CP, EP and PP communication; m = batch / (dp micro batch); X = fixed + exposed gradient reduction
    + optimizer traffic. The heaviest stage holds ceil(L / p) layers, or the last one with the head. Links: NVLink inside a domain, the NICs
    of all its ranks together beyond.
    Parameters: job, machine, eff (one GPU type and format); layout, fields scalar or arrays; global_batch, micro_batch [sequence]; passes
    [1] over the forward work: 3, or 4 with full recompute. The records are checked when made; `job.check` refuses what cannot run.
    Returns: ordered dict part -> seconds [s], broadcast shape; the parts sum to the step. Raises: nothing beyond the records' own checks.
    Validity: dense and mixture-of-experts decoders, interleaved 1F1B schedule, 8 to 16,384 GPUs.
    Error: see `calibration.training` (left-out series: dense median 4 %, 90 % within 12 %). Source: equation notes of the project;
    arXiv 2104.04473 for the bubble; ring collectives for the links.
    """
    tp, pp, vpp, dp, cp, ep, fsdp = layout.tp, layout.pp, layout.vpp, layout.dp, layout.cp, layout.ep, layout.fsdp
    tokens = micro_batch * job.seq_tokens / cp
    rounds = global_batch / (dp * micro_batch)
    domain, nvlink, nic = machine.domain_gpus, machine.nvlink_bytes_per_s, machine.nic_bytes_per_s
    k = passes / 3.0
    gemm = machine.peak_flops_per_s * eff.gemm_fraction
    # one layer (mean), one micro-batch, one GPU
    per_layer = tokens / tp / job.layers
    linear = passes * per_layer * job.linear_flops / gemm
    expert = passes * per_layer * job.expert_flops / (gemm * eff.expert_fraction)
    attention = passes * per_layer * job.attention_flops / (machine.bf16_flops_per_s * eff.attention_fraction)
    split = 1 / tp + eff.unsharded_fraction * (1 - 1 / tp)
    moved = tokens * job.hidden * (eff.elementwise_bytes * split + eff.expert_bytes / tp * job.top_k * (job.moe_layers / job.layers))
    scores = tokens / tp * job.heads * job.seq_tokens * eff.unfused_bytes
    memory = k * (moved + scores) / machine.hbm_bytes_per_s
    starts = passes * eff.kernel_seconds
    group = tp * cp
    tp_bytes = 4.0 * job.tp_rounds * tokens * job.hidden * 2.0 * (tp - 1) / tp
    tp_comm = eff.tp_exposed * tp_bytes / (nvlink + (nic - nvlink) * (tp > domain))
    cp_bytes = 6.0 * tokens * job.kv_elements * 2.0 / tp * (cp - 1)
    cp_comm = eff.cp_exposed * cp_bytes / (nvlink + (nic - nvlink) * (group > domain))
    outside = _most(1 - domain / ep, 0.0)
    ep_bytes = 2.0 * tokens / tp * job.top_k * job.hidden * 4.0 * (ep - 1) / ep * (job.moe_layers / job.layers)
    ep_comm = eff.ep_exposed * ep_bytes * _most(outside / nic, (1 - outside) / nvlink)
    layer = linear + expert + attention + memory + starts + tp_comm + cp_comm + ep_comm
    head = 3.0 * tokens / tp * job.head_flops / (machine.bf16_flops_per_s * eff.gemm_fraction)
    # the heaviest stage: full chunks of layers, or the last one, which may hold fewer layers and the head
    deep = -(-job.layers // pp)
    spare = deep * pp - job.layers
    last = deep - (spare + 1) // 2
    heavy = _most(deep * layer, last * layer + head)
    share = heavy / (job.layers * layer + head)
    mean_layers = share * job.layers
    p2p = 4.0 * vpp * tokens * job.hidden * 2.0 / tp * (pp > 1)
    pp_comm = eff.pp_exposed * p2p / (nvlink + (nic - nvlink) * (group * dp >= domain))
    # gradients, weights and state of one GPU
    dense = (job.dense_params + job.head_params) / (tp * pp)
    routed = job.expert_params / (ep * pp)
    ranks = dp * cp
    near = _less(_most(domain / group, 1.0), ranks)  # ranks of the group in one domain: a ring crosses it on the NICs of all of them
    wire = nvlink + (_less(nic * near, nvlink) - nvlink) * (group * dp > domain)
    spread = (ranks - 1) / ranks
    sharded = fsdp > 1
    grads = (dense + routed * (ep < tp * cp * dp)) * (GRADIENT_BYTES + WEIGHT_BYTES) * spread / wire
    reduce = eff.dp_exposed * grads * (1 - sharded)
    gather = eff.fsdp_exposed * sharded * (dense + routed) * (2 * WEIGHT_BYTES * rounds + GRADIENT_BYTES * rounds) * spread / wire
    optimizer = (dense / ranks + routed / _most(ranks * tp / ep, 1.0)) * STATE_TRAFFIC_BYTES / machine.hbm_bytes_per_s
    bubble_rounds = (pp - 1) / vpp
    scale = 1 + eff.doubling_fraction * _most(np.log2(tp * pp * ranks / 64.0), -3.0)
    run = rounds * scale
    one = heavy + pp_comm
    return {
        "linear": mean_layers * linear * run, "experts": mean_layers * expert * run, "attention": mean_layers * attention * run,
        "head": share * head * run, "memory": mean_layers * (memory + starts) * run, "tp": mean_layers * tp_comm * run,
        "cp": mean_layers * cp_comm * run, "ep": mean_layers * ep_comm * run, "pp": pp_comm * run,
        "bubble": one * bubble_rounds * scale, "gradients": (reduce + gather) * scale, "optimizer": optimizer * scale,
        "fixed": eff.fixed_seconds * scale,
    }


def _less(a, b):
    """The smaller of two numbers or arrays."""
    return (a + b - abs(a - b)) / 2
