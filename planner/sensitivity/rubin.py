"""Vera Rubin over GB300 and GB200 by the plan's own throughput: at four scenarios and along per-user speed, per GPU, per megawatt, per dollar."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from planner import scenario as scenarios
from planner.draws import interval, sample
from planner.errors import Infeasible, InputError
from planner.plan import serving
from planner.plan.case import Case, resolve
from planner.plan.throughput import Throughput, best
from planner.sensitivity import plan_draws, pricing
from planner.sensitivity.plan_draws import Through

SCENARIOS = (*pricing.SCENARIOS, "Agentic")  # agentic: the preset's lengths, cache hits and limits, all assumed
SETTINGS = {"upto": 2300.0, "maxlps": 1800.0}  # power of a GPU [W]; the pairing is this project's assumption
SOFTWARE = ("preview", "mature")
NEW, GB300, GB200 = "vr-nvl72", "gb300-nvl72", "gb200-nvl72"
SPEEDS = (10.0, 20.0, 35.0, 50.0, 75.0, 100.0, 150.0, 200.0)
BASES = ("GPU", "IT megawatt")
NUM, FEW = 256, 128  # draws at a scenario and at a speed


@dataclass(frozen=True)
class Level:
    """One system at one scenario: output tokens per deployed GPU [1/s] with low and high; kw [kW] of IT power per GPU as provisioned; tpot, ttft [s];
    layout and limit in words; unserved [1], draws that miss the SLO; why, the reason where nothing serves (numbers are nan then)."""

    system: str
    profile: str
    software: str
    value: float
    low: float
    high: float
    kw: float
    tpot: float
    ttft: float
    layout: str
    limit: str
    unserved: float
    how: str
    why: str = ""


def _systems(software, other: str) -> list[dict]:
    mine = [{"name": NEW, "profile": p, "gpu_watts": w, "software": s} for s in software for p, w in SETTINGS.items()]
    return [*mine, {"name": other}]


@cache
def _cases(model: str, scenario: str) -> tuple[Case, ...]:
    if scenario not in (known := (*pricing.SCENARIOS, "Agentic")):
        raise InputError("scenario", scenario, f"must be one of {', '.join(known)}")
    return tuple(resolve(scenarios.parse(pricing.content_of(model, scenario) | {"systems": _systems(SOFTWARE, GB300)})))


@cache
def _drawn(model: str, scenario: str) -> tuple[dict[str, np.ndarray], dict[str, Through]]:
    """The draws of every system that serves the scenario, on shared columns."""
    served = [c for c in _cases(model, scenario) if isinstance(_central(c), Throughput)]
    return plan_draws.compare(served, NUM)


def _central(case: Case) -> Throughput | str:
    try:
        return best(serving.central(case))
    except Infeasible as error:
        return error.limit


def kw_per_gpu(case: Case, columns=None) -> np.ndarray:
    """Return the provisioned IT power of a GPU with its share of the rack [kW]: drawn with the rack's overhead, or the one central value (1,)."""
    overhead = np.array([case.rack.overhead_watts]) if columns is None else columns[plan_draws.column(case, "overhead_watts")]
    return (case.rack.gpus * case.rack.accelerator.gpu_watts + overhead) / case.rack.gpus / 1e3


@cache
def levels(model: str, scenario: str) -> tuple[Level, ...]:
    """Return every setting of Vera Rubin, preview and mature, and GB300 last. Raises: InputError."""
    _, through = _drawn(model, scenario)
    found = []
    for case in _cases(model, scenario):
        software = case.given.software if case.rack.name == NEW else ""
        place, kw = (case.rack.name, case.rack.profile, software), float(kw_per_gpu(case)[0])
        how, middle = "extrapolated" if case.extrapolated else "modelled", _central(case)
        if isinstance(middle, str):
            found.append(Level(*place, *(np.nan,) * 3, kw, np.nan, np.nan, "", "", 1.0, how, middle))
            continue
        mine = through[case.label]
        numbers = (*interval(mine.values["tokens_per_s_per_gpu"]), kw, float(middle.tpot[0]), float(middle.ttft[0]))
        found.append(Level(*place, *numbers, middle.layout.label, middle.limit, mine.unserved, how))
    return tuple(found)


def _over(columns, through: dict[str, Through], own: Case, other: Case, per: str) -> np.ndarray:
    if per not in BASES:
        raise InputError("per", per, f"must be one of {', '.join(BASES)}")
    value = through[own.label].values["tokens_per_s_per_gpu"] / through[other.label].values["tokens_per_s_per_gpu"]
    return value if per == "GPU" else value * kw_per_gpu(other, columns) / kw_per_gpu(own, columns)


def ratio(model: str, scenario: str, profile: str, software: str, per: str = "GPU") -> np.ndarray | None:
    """Return Vera Rubin over GB300, draw by draw, central first [1]; None where one of them cannot serve. Raises: InputError."""
    columns, through = _drawn(model, scenario)
    own = next((c for c in _cases(model, scenario) if (c.rack.profile, c.given.software) == (profile, software)), None)
    if own is None:
        raise InputError("profile", f"{profile}, {software}", f"must be one of {', '.join(SETTINGS)}, and {' or '.join(SOFTWARE)}")
    other = _cases(model, scenario)[-1]
    return _over(columns, through, own, other, per) if {own.label, other.label} <= set(through) else None


def gb300_price(num: int) -> np.ndarray:
    """Return the analyst's rent of GB300, drawn, central first [USD per GPU-hour]."""
    return sample({"price": pricing.inputs("rent", "deepseek-r1", "Server")["GB300 price"]}, num, seed=1)["price"]


def break_even(model: str, scenario: str, profile: str, software: str) -> tuple[float, float, float] | None:
    """Return the rent at which a token costs the same on both [USD per GPU-hour], with low and high: GB300's rent times the ratio; or None.

    Raises: InputError.
    """
    found = ratio(model, scenario, profile, software)
    return None if found is None else interval(found * gb300_price(len(found) - 1))


@dataclass(frozen=True)
class Along:
    """Ratios along per-user speeds [1/s]: central, low, high (n,), nan where a side does not serve; unserved, the larger share of draws of the two
    sides that miss the speed."""

    speeds: np.ndarray
    central: np.ndarray
    low: np.ndarray
    high: np.ndarray
    unserved: np.ndarray

    def holds(self, claimed: float) -> tuple[list[float], list[float]]:
        """Return the speeds at which the central ratio reaches a claim, and those at which the 80 % interval holds it."""
        central = [float(s) for s, c in zip(self.speeds, self.central, strict=True) if c >= claimed]
        inside = [float(s) for s, lo, hi in zip(self.speeds, self.low, self.high, strict=True) if lo <= claimed <= hi]
        return central, inside


@cache
def along(model: str, profile: str, software: str, other: str = GB300, per: str = "GPU", lengths: tuple[float, float] | None = None,
          mtp: bool | None = None, speeds: tuple[float, ...] = SPEEDS) -> Along:
    """Return Vera Rubin over another system at equal per-user speed, no other limit.

    Parameters: lengths, input and output [token] (absent: those of the Server benchmark); mtp on both sides (absent: as that preset).
    Raises: InputError.
    """
    if profile not in SETTINGS:
        raise InputError("profile", profile, f"must be one of {', '.join(SETTINGS)}")
    content, rows = pricing.content_of(model, "Server"), []
    own = {"name": NEW, "profile": profile, "gpu_watts": SETTINGS[profile], "software": software}
    load = dict(content["workloads"][0])
    if lengths is not None:
        load |= {"input_tokens": lengths[0], "output_tokens": lengths[1], "images": 0.0}
    if mtp is not None:
        load["mtp"] = mtp
    for speed in speeds:
        cases = resolve(scenarios.parse(content | {"systems": [own, {"name": other}], "workloads": [load | {"slo": {"tpot_s": 1 / speed}}]}))
        try:
            columns, through = plan_draws.compare(cases, FEW)
            rows.append((*interval(_over(columns, through, *cases, per)), max(t.unserved for t in through.values())))
        except Infeasible:
            rows.append((np.nan, np.nan, np.nan, 1.0))
    return Along(np.array(speeds), *np.array(rows).T)
