"""The price at which Vera Rubin costs as much a token as GB300: by claim and by the plan's own throughput, to rent, to own, and by the megawatt."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

from planner import scenario as scenarios
from planner.calibration import power as powers
from planner.calibration.grades import grade_spread
from planner.calibration.serving import constants
from planner.calibration.serving.join import prior, vision_patches
from planner.calibration.serving.submissions import shape_of
from planner.draws import Distribution, between, fixed, from_claim, interval, sample
from planner.errors import Infeasible, InputError
from planner.facts import catalog
from planner.facts.evidence import claim
from planner.facts.files import folder, table
from planner.models import cost
from planner.plan.case import resolve
from planner.sensitivity import plan_draws
from planner.sensitivity.analysis import Bar, probability_better, tornado
from planner.units import UNITS, number

OWN, OTHER, ROUND = ("vr-nvl72", "upto"), "gb300-nvl72", "v6.1"
CLAIMS = {"deepseek-r1": "H0073", "qwen3-vl-235b-a22b": "H0072"}
SCENARIOS = ("Offline", "Server", "Interactive")
ANALYST = {"rent": ("vr200", "gb300", "usd_gpu_hr_rental_3yr"), "own": ("vr200", "gb300", "usd_gpu_hr_hyperscaler_own")}
LATEST = "2026-08..09"
VR_RACK, GB_RACK, MW_PRICE = "H0423", "H0447", "H0440"
PUE, ELECTRICITY, COLOCATION, NETWORK = ("H0332", "H0333"), "H0451", "H0454", "H0460"
KINDS = ("rent", "rack", "megawatt")
UNITS_OF = {"rent": "USD/GPU-h", "rack": "USD", "megawatt": "MUSD/MW-year"}
SOFTWARE = between(1.0, 0.85, 1.05)  # a preview's own software against a mature one, assumed
LOAD = between(1.0, 0.9, 1.1)  # how full one fleet runs against the other, assumed
YEARS, RATE = between(5.0, 3.0, 6.0), between(0.10, 0.07, 0.14)  # H0445 H0446 H0448 H0449 give 3 to 6 years; cost of money assumed


def measured(model: str, scenario: str, system: str = OTHER) -> tuple[float, float, float, str]:
    """Return (median, lowest, highest, metric) per GPU over the closed, available v6.1 results of a system. Raises: InputError for none."""
    rows = [r for r in table("mlperf_results.csv") if r["round"] == ROUND and r["division"] == "closed" and r["availability"] == "available"
            and r["model"] == model and r["scenario"] == scenario and r["per_accelerator"] and _is(r["accelerator"], system)
            and int(r["accelerators_total"]) % 72 == 0]
    if not rows:
        raise InputError("scenario", scenario, f"must be one in which {system} ran {model} in {ROUND}")
    values = [float(r["per_accelerator"]) for r in rows]
    return float(np.median(values)), min(values), max(values), rows[0]["metric"]


def _is(accelerator: str, system: str) -> bool:
    try:
        return catalog.resolve_system(accelerator) == system
    except InputError:
        return False


def analyst(kind: str, side: int) -> float:
    """Return the analyst's USD per GPU-hour of the latest table: kind rent or own; side 0 Vera Rubin, 1 GB300. Raises: InputError."""
    gpu, column = ANALYST[kind][side], ANALYST[kind][2]
    for row in table("power_and_price_estimates.csv"):
        if row["gpu"] == gpu and row["table_date"] == LATEST:
            return float(row[column])
    raise InputError("power_and_price_estimates.csv", gpu, f"must have a row of {LATEST}")


def claimed_ratio(model: str) -> Distribution:
    """Return the claimed throughput of Vera Rubin over GB300 a GPU. "Up to": the claim is the high end, memory bandwidth a GPU the low one.

    Neither claim says which scenario it is of, so it stands for all three. Raises: InputError for a model without a claim.
    """
    if model not in CLAIMS:
        raise InputError("model", model, f"must be one of {', '.join(CLAIMS)}")
    item = claim(CLAIMS[model])
    if item.qualifier == "up to":
        own, other = catalog.system(*OWN).accelerator, catalog.system(OTHER).accelerator
        low = min(own.hbm_bytes_per_s / other.hbm_bytes_per_s, item.value * grade_spread(item.grade).low)
        return between(float(np.sqrt(low * item.value)), low, item.value, item.grade, "claimed", (item.id,))
    return from_claim(item)


def content_of(model: str, scenario: str) -> dict:
    """Return a scenario, one of `SCENARIOS` or Agentic, with one of the models of `CLAIMS` as its workload, without prices; systems as in the preset.

    Raises: InputError for another model.
    """
    file = "agentic" if scenario == "Agentic" else f"mlperf-{scenario.lower()}"
    content = tomllib.loads((folder("scenarios") / f"{file}.toml").read_text(encoding="utf-8"))
    content.pop("prices", None)
    if model == "qwen3-vl-235b-a22b":
        name = "Qwen/Qwen3-VL-235B-A22B-Instruct"
        if scenario == "Agentic":
            content["workloads"] = [content["workloads"][0] | {"model": name}]
            return content
        limits = {"Server": {"e2e_s": 12.0}, "Interactive": {"e2e_s": 1.5}}
        whole = prompt_tokens(model)[0]
        image = whole * vision_patches(model) / prior("patches_per_image_token")[0]
        load = {"name": model, "model": name, "weight_format": "nvfp4", "kv_format": "fp8", "images": 1.0, "image_tokens": image,
                "input_tokens": _lengths(model, whole - image), "output_tokens": _mean_output(model, scenario), "requests_per_s": 1000.0}
        content["workloads"] = [load | ({"slo": limits[scenario]} if scenario in limits else {})]
    elif model != "deepseek-r1":
        raise InputError("model", model, f"must be one of {', '.join(CLAIMS)}")
    elif scenario != "Agentic":
        content["workloads"][0]["input_tokens"] = _lengths(model, prompt_tokens(model)[0])
    return content


def prompt_tokens(model: str) -> tuple[float, float, float]:
    """Return the mean prompt of a benchmark [token] with its 10th and 90th percentile: not published, fitted once for all systems."""
    learned, name = constants.of_model(shape_of(model)), f"mean_input_tokens|{model}"
    return learned.values[name], learned.low[name], learned.high[name]


def _lengths(model: str, mean: float) -> dict[str, float]:
    """Return prompts of a mean with the benchmark's fitted tail and spread: a lognormal's median under its 99th percentile."""
    learned = constants.of_model(shape_of(model)).values
    tail, scv = (learned[f"{k}|{model}"] for k in ("tail", "service_scv"))
    p99 = mean * max(1.0, tail)
    return {"mean": mean, "p50": p99 / math.exp(NormalDist().inv_cdf(0.99) * math.sqrt(math.log1p(scv))), "p99": p99}


@cache
def modelled_ratio(model: str, scenario: str, num: int = 512, seed: int = 0, speed: float | None = None) -> np.ndarray:
    """Return the plan's own throughput of Vera Rubin over GB300 a GPU, draw by draw, central first (num + 1,) [1].

    speed [1/s], tokens per second per user, replaces the scenario's SLO where it is given. Raises: InputError; Infeasible where a system cannot meet
    the SLO.
    """
    content = content_of(model, scenario)
    content["systems"] = [{"name": OWN[0], "profile": OWN[1]}, {"name": OTHER}]
    if speed is not None:
        content["workloads"][0]["slo"] = {"tpot_s": 1 / float(number("speed", speed, above=0.0))}
    _, found = plan_draws.compare(resolve(scenarios.parse(content)), num, seed)
    own, other = (t.values["tokens_per_s_per_gpu"] for t in found.values())
    return own / other


def _mean_output(model: str, scenario: str) -> float:
    return next(float(r["mean_output_tokens"]) for r in table("mlperf_constraints.csv") if r["model"] == model and r["scenario"] == scenario)


def _kwh(item: str) -> Distribution:
    found = from_claim(claim(item))
    factor = 3.6e6  # USD/J to USD/kWh
    return between(found.value * factor, found.low * factor, found.high * factor, found.grade, found.how, found.claims)


def _scaled(item: str, unit: str) -> Distribution:
    found, factor = from_claim(claim(item)), UNITS[unit][1]
    return between(found.value / factor, found.low / factor, found.high / factor, found.grade, found.how, found.claims)


def inputs(kind: str, model: str, scenario: str, basis: str = "claim", speed: float | None = None) -> dict[str, Distribution]:
    """Return the uncertain inputs of one break-even price.

    Parameters: kind, rent, rack or megawatt; model; scenario; basis, claim or model (the ratio is then the spread of `modelled_ratio`); speed
    [1/s], tokens per second per user at which the model's ratio is taken (absent: the scenario's SLO).
    Raises: InputError.
    """
    for name, value, known in (("kind", kind, KINDS), ("basis", basis, ("claim", "model"))):
        if value not in known:
            raise InputError(name, value, f"must be one of {', '.join(known)}")
    if basis == "claim":
        if speed is not None:
            raise InputError("speed", speed, "must be absent where the ratio is the claim's: the claim names no speed")
        ratio = claimed_ratio(model)
    else:
        value, low, high = interval(modelled_ratio(model, scenario, speed=speed))
        ratio = between(value, low, high, "P", "extrapolated")  # no fleet of Vera Rubin has been measured
    median, least, most, _ = measured(model, scenario)
    spread = between(1.0, least / median, most / median, "A", "measured") if least < most else fixed(1.0, "A", "measured")
    price = analyst("rent", 1)
    earlier = next(float(r["usd_gpu_hr_rental_3yr"]) for r in table("power_and_price_estimates.csv") if r["gpu"] == "gb300")
    found = {"throughput ratio": ratio, "GB300 result among submitters": spread, "Vera Rubin software": SOFTWARE, "load of the fleets": LOAD}
    if kind == "rent":
        return {**found, "GB300 price": between(price, min(price, earlier), price * grade_spread("E").high, "E", "claimed")}
    own, other = (_rack_kw(*place) for place in (OWN, (OTHER, None)))
    if kind == "megawatt":
        return {**found, "GB300 rack power": other, "Vera Rubin rack power": own, "price of a megawatt": _megawatt()}
    pues = [claim(i).base_range for i in PUE]
    rack = claim(GB_RACK).base_value
    most = claim("H0427").base_range[1]  # the dearest GB rack that an analyst prints
    return {**found, "GB300 rack price": between(rack, rack * grade_spread("F").low, most, "F", "claimed", (GB_RACK, "H0427")),
            "life of a rack": YEARS, "cost of money": RATE, "PUE": between(pues[0][1], pues[0][0], pues[1][1], "F", "claimed", PUE),
            "electricity": _kwh(ELECTRICITY), "colocation": _scaled(COLOCATION, "USD/kW-month"), "GB300 rack power": other,
            "Vera Rubin rack power": own}


def _megawatt() -> Distribution:
    low, high = claim(MW_PRICE).base_value / UNITS["MUSD/MW-year"][1], claim("H0439").base_value / UNITS["MUSD/MW-year"][1]
    return between(low, low * grade_spread("F").low, high, "F", "claimed", (MW_PRICE, "H0439"))


def _rack_kw(name: str, profile: str | None) -> Distribution:
    value, low, high = interval(sum(powers.rack_watts(catalog.system(name, profile), powers.load_fraction("provisioned")).values()))
    return between(value / 1e3, low / 1e3, high / 1e3, "P", "assumed")


def price(kind: str, x: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the break-even price in the unit of `UNITS_OF`, from columns under the names of `inputs`.

    gain = ratio x software x load / GB300 result. Rent: p = GB300 price x gain. Megawatt: p = GB300's price x gain x GB300 rack power over
    Vera Rubin's. Rack: the price whose annuity (with network, both sides the same share) and running costs make the cost a token equal.
    """
    gain = x["throughput ratio"] * x["Vera Rubin software"] * x["load of the fleets"] / x["GB300 result among submitters"]
    if kind == "rent":
        return x["GB300 price"] * gain
    if kind == "megawatt":
        return x["price of a megawatt"] * gain * x["GB300 rack power"] / x["Vera Rubin rack power"]
    per_kw = x["colocation"] * 12 + x["electricity"] * 8760 * x["PUE"]  # USD a year for a kW of provisioned IT power
    paid = cost.annuity_usd(1.0, x["cost of money"], x["life of a rack"]) * (1 + claim(NETWORK).base_value)
    other = x["GB300 rack price"] * paid + x["GB300 rack power"] * per_kw
    return (other * gain - x["Vera Rubin rack power"] * per_kw) / paid


@dataclass(frozen=True)
class BreakEven:
    """One break-even price: value with its 80 % interval in `unit`, the three inputs that move it most, and the analyst's figure beside it."""

    kind: str
    model: str
    scenario: str
    basis: str
    unit: str
    value: float
    low: float
    high: float
    bars: tuple[Bar, ...]
    grade: str
    analyst: float | None
    chance: float | None
    other_usd_per_million: float | None


def break_even_price(kind: str, model: str, scenario: str, basis: str = "claim", num: int = 512, seed: int = 0, **own: float) -> BreakEven:
    """Return the break-even price of Vera Rubin against GB300 at one scenario.

    Parameters: as `inputs`; num, seed; own, values that replace inputs, under their names with underscores (`GB300_price=4.5`).
    Returns: BreakEven; chance, that Vera Rubin costs less a token at the analyst's price, drawn with its grade's spread. Raises: InputError.
    """
    given = inputs(kind, model, scenario, basis)
    for key, value in own.items():
        name = key.replace("_", " ")
        if name not in given:
            raise InputError(name, value, f"must be one of {', '.join(given)}")
        given[name] = fixed(float(number(name, value, above=0.0)))
    values = price(kind, sample(given, num, seed))
    value, low, high = interval(values)
    _, bars = tornado(lambda x: price(kind, x), given)
    listed = {"rent": analyst("rent", 0), "rack": claim(VR_RACK).base_value, "megawatt": None}[kind]
    chance = None
    if listed is not None:
        spread = grade_spread("E")
        asked = sample({"asked": between(listed, listed * spread.low, listed * spread.high)}, num, seed + 1)["asked"]
        chance = probability_better(asked[1:], values[1:], larger=False)[0]
    heavy = [given[b.name].grade for b in bars[:3]]
    rate, _, _, metric = measured(model, scenario)
    million = float(cost.usd_per_million_tokens(analyst("rent", 1), rate, 1.0)) if metric == "Tokens/s" else None
    grade = max(heavy, key="ABCDEFPX".index)
    return BreakEven(kind, model, scenario, basis, UNITS_OF[kind], value, low, high, tuple(bars[:3]), grade, listed, chance, million)


def curve(kind: str, model: str, scenario: str, basis: str, name: str, values, num: int = 256, seed: int = 0) -> np.ndarray:
    """Return the break-even price along one input (3, n): central, 10th and 90th percentile with every other input drawn. Raises: InputError."""
    given = inputs(kind, model, scenario, basis)
    if name not in given:
        raise InputError("name", name, f"must be one of {', '.join(given)}")
    drawn, at = sample(given, num, seed), number(name, values, above=0.0)
    rows = [interval(price(kind, {**drawn, name: np.full(num + 1, v)})) for v in at]
    return np.array(rows).T


def slo_curve(kind: str, model: str, speeds, num: int = 256, seed: int = 0) -> np.ndarray:
    """Return the break-even price along the SLO, tokens per second per user (3, n): central, 10th and 90th percentile, the ratio by the plan's model.

    The other inputs are those of the Interactive point. NaN where a system cannot meet the speed. Raises: InputError.
    """
    found = []
    for speed in number("speeds", speeds, above=0.0):
        try:
            found.append(interval(price(kind, sample(inputs(kind, model, "Interactive", "model", float(speed)), num, seed))))
        except Infeasible:
            found.append((np.nan,) * 3)
    return np.array(found).T


def rows() -> list[dict]:
    """Return the rows of outputs/break_even.csv: every kind, model, scenario and basis, with the three inputs that matter most."""
    found = []
    for kind in KINDS:
        for model in CLAIMS:
            for scenario in SCENARIOS:
                for basis in ("claim", "model"):
                    b = break_even_price(kind, model, scenario, basis)
                    first, second, third = (bar.name for bar in b.bars)
                    found.append({"kind": kind, "model": model, "scenario": scenario, "basis": basis, "value": b.value, "low": b.low, "high": b.high,
                                  "unit": b.unit, "first": first, "second": second, "third": third, "grade": b.grade, "analyst": b.analyst,
                                  "chance_vera_rubin_cheaper": b.chance})
    return found
