"""How many racks: replicas to whole racks, GPUs left over, racks for survival and spares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.plan.answer import Answer, exact
from planner.plan.inputs import Drawn, answer
from planner.scenario import PlanIn
from planner.specs import Rack
from planner.units import whole_up

RACK_FAILURES = ("tray", "rack", "power_feed")  # each takes the racks of one replica at most


@dataclass(frozen=True)
class Racks:
    """Rack counts over the draws, index 0 central: serving, survival, spare and total [1]; usable_gpus (n,) [1] of a rack, those that replicas fill;
    lost [1], the racks that one of the failures to survive takes."""

    serving: np.ndarray
    survival: int
    spare: int
    usable_gpus: np.ndarray
    lost: int

    @property
    def total(self) -> np.ndarray:
        """Serving, survival and spare racks together."""
        return self.serving + self.survival + self.spare


def racks_needed(output_tokens_per_s: np.ndarray, per_gpu: np.ndarray, replica_gpus, rack: Rack, how: PlanIn) -> Racks:
    """Return the whole racks that serve a peak load.

    Parameters: output_tokens_per_s (n,) [1/s] peak demand; per_gpu (n,) [1/s] output tokens per deployed GPU; replica_gpus, scalar or (n,) [1],
    the smallest group that serves; rack; how, utilisation, spares and what must survive. Returns: Racks. A replica inside one
    rack leaves rack.gpus mod replica_gpus GPUs unused; a larger one takes whole racks. Raises: nothing for replicas of at least one GPU.
    """
    replica = np.atleast_1d(replica_gpus).astype(float)
    group = np.maximum(whole_up(replica / rack.gpus), 1.0)
    usable = np.where(replica <= rack.gpus, rack.gpus // replica * replica, replica / group)
    gpus = output_tokens_per_s / (per_gpu * how.utilisation_fraction)
    serving = np.maximum(whole_up(gpus / (usable * group)), 1) * group  # whatever the load, one group serves it
    lost = int(group[0]) if set(RACK_FAILURES) & set(how.survive) else 0
    return Racks(np.atleast_1d(serving), max(0, lost - how.spare_racks), how.spare_racks, usable, lost)


def load_answers(peak: float, closed_loop: bool, racks: Racks, per_gpu: np.ndarray, inputs: dict[str, Drawn], how: PlanIn) -> dict[str, Answer]:
    """Return peak_tokens_per_s, the load that is planned for, and tokens_per_s_per_rack, what a serving rack gives at the utilisation.

    Parameters: peak [1/s] output tokens; closed_loop, whether it was solved from users or concurrency; racks; per_gpu (n,) [1/s]; inputs; how.
    """
    each = per_gpu * how.utilisation_fraction * racks.usable_gpus
    low, high = (float(np.percentile(each[1:], q, method=m)) for q, m in ((10, "lower"), (90, "higher")))  # draws, as the racks' ends are
    value, solved = float(each[0]), {"how": "assumed", "grade": "P"} if closed_loop else {}
    loop = ", closed loop solved at the central case" if closed_loop else ""
    serves = f"output tokens, per serving rack at {how.utilisation_fraction:g} of what its GPUs can serve"
    ends = {"low": min(low, value), "high": max(high, value)}
    return {
        "peak_tokens_per_s": exact("peak_tokens_per_s", peak, "tok/s", basis=f"output tokens at the peak{loop}", **solved),
        "tokens_per_s_per_rack": answer("tokens_per_s_per_rack", each, "tok/s/rack", inputs, basis=serves, **ends),
    }


def rack_answers(racks: Racks, rack: Rack, inputs: dict[str, Drawn], how: PlanIn) -> dict[str, Answer]:
    """Return the answers racks_serving, racks_survival, racks_spare, racks_total, gpus_total and gpus_stranded."""
    stranded = (rack.gpus - int(racks.usable_gpus[0])) * int(racks.serving[0])
    note = f"peak load at {how.utilisation_fraction:g} of what the GPUs can serve"
    return {
        "racks_serving": answer("racks_serving", racks.serving.astype(float), "racks", inputs, basis="whole racks for the peak", note=note),
        "racks_survival": exact(
            "racks_survival",
            racks.survival,
            "racks",
            how="assumed" if racks.lost else "exact",
            grade="P" if racks.lost else "A",
            basis="beyond the spares",
            note=_survived(racks, how),
        ),
        "racks_spare": exact("racks_spare", racks.spare, "racks", basis="as typed"),
        "racks_total": answer("racks_total", racks.total.astype(float), "racks", inputs, basis="serving + survival + spare"),
        "gpus_total": answer("gpus_total", racks.total * float(rack.gpus), "GPUs", inputs, basis="GPUs in all racks"),
        "gpus_stranded": exact("gpus_stranded", stranded, "GPUs", basis="in serving racks, outside any replica"),
    }


def _survived(racks: Racks, how: PlanIn) -> str:
    """Return what the racks survive, what covers the loss, and what adds no rack."""
    by_racks = [name for name in how.survive if name in RACK_FAILURES]
    text = f"survives one {' or '.join(name.replace('_', ' ') for name in by_racks)}" if by_racks else "survives no loss of racks"
    if racks.lost and racks.spare:
        text += ": spare racks run hot and cover " + ("the loss" if not racks.survival else f"{racks.spare} of {racks.lost} racks")
    if "tray" in by_racks and "rack" not in by_racks:
        text += "; a tray counts as its rack"
    if "plane" in how.survive:
        text += "; a plane takes no racks, see fabric_left_plane_down"
    return text + ("; a site is not planned" if "site" in how.survive else "")
