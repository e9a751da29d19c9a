"""Agentic sessions and the tiers that keep their caches: sourced rows joined to the model of sessions."""

from __future__ import annotations

from planner.facts.evidence import claim
from planner.models.sessions import Pause, Sessions, Tier, added_tokens
from planner.specs import Rack

SHARED, OWN, SCV, USER_PAUSE, USER_SHARE = "P0200", "P0201", "P0202", "P0203", "P0204"
NVME_BYTES, NVME_SPEED, C2C_LATENCY, NVME_LATENCY = "P0063", "P0064", "P0065", "P0066"
CLAIMS = (SHARED, OWN, SCV, USER_PAUSE, USER_SHARE)


def agentic(calls, input_tokens, output_tokens, think_seconds, service_seconds, shared_tokens=None, own_tokens=None) -> Sessions:
    """Return sessions whose prompts have this mean: what a scenario says of them, and assumptions (grade P) for what it does not.

    Parameters: calls [1]; input_tokens [token] mean prompt of a call; output_tokens [token]; think_seconds [s] mean pause between calls;
    service_seconds [s] of a call; shared_tokens, own_tokens [token], None for the assumption, which a short prompt holds in proportion.
    Returns: Sessions with one kind of pause. Raises: InputError.
    """
    shared, own = (claim(c).base_value if given is None else given for c, given in ((SHARED, shared_tokens), (OWN, own_tokens)))
    if shared_tokens is None and own_tokens is None:
        # at most half of what the answers leave of the mean prompt
        room = max(float(input_tokens) - float(output_tokens) * (float(calls) - 1) / 2, 0.0) / 2
        shrink = min(1.0, room / (shared + own))
        shared, own = shared * shrink, own * shrink
    added = added_tokens(calls, input_tokens, shared, own, output_tokens)
    return Sessions(calls, shared, own, added, output_tokens, service_seconds, (Pause(think_seconds, claim(SCV).base_value),))


def with_people(sessions: Sessions) -> Sessions:
    """Return the sessions with the assumed share of pauses in which a person answers, the others as they were. Raises: InputError."""
    share = claim(USER_SHARE).base_value
    tools = tuple(Pause(p.mean_seconds, p.scv, p.fraction * (1 - share)) for p in sessions.pauses)
    return Sessions(**{**vars(sessions), "pauses": (*tools, Pause(claim(USER_PAUSE).base_value, claim(SCV).base_value, share))})


def tiers(rack: Rack, hbm_cache_bytes, num_gpus, gpus_per_worker) -> list[Tier]:
    """Return HBM, LPDDR over NVLink-C2C where the rack has it, and local NVMe of a pool of GPUs.

    Parameters: rack; hbm_cache_bytes [B] that all workers together give to caches; num_gpus [1] of the pool; gpus_per_worker [1], whose
    links bring back one prefix together. Returns: list of Tier. Raises: InputError.
    """
    found = [Tier("hbm", hbm_cache_bytes)]
    chip = rack.accelerator
    if chip.host_bytes and chip.c2c is not None:
        found.append(Tier("lpddr", num_gpus * chip.host_bytes, gpus_per_worker * chip.c2c.bytes_per_s, claim(C2C_LATENCY).base_value))
    if rack.gpus == 72:  # the drives are known of these racks only
        found.append(Tier("nvme", num_gpus * claim(NVME_BYTES).base_value / rack.gpus, gpus_per_worker * claim(NVME_SPEED).base_value,
                          claim(NVME_LATENCY).base_value))
    return found
