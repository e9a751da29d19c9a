"""Questions about money: annuities, bills, owned cost of a GPU-hour, cost per token, and the price at which two systems cost the same."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InputError
from planner.models import cost
from planner.plan.answer import Answer, exact, missing
from planner.questions import break_even
from planner.questions.money import money, one_currency, unpriced
from planner.questions.power import watts_input
from planner.questions.registry import Input, Question, not_used
from planner.questions.tokens_per_mw import RATES, token_rate
from planner.units import count, fraction, number, positive


def _annuity(inputs: dict) -> Answer:
    one_currency(inputs)
    if lacking := unpriced(inputs):
        return missing("annuity", "USD/year", lacking)
    capital = money("capital_usd", inputs["capital_usd"])
    per = {"year": 1, "yearly": 1, "annual": 1, "month": 12, "monthly": 12, "quarter": 4}.get(str(inputs["payments"]).lower())
    if per is None:
        raise InputError("payments", inputs["payments"], "must be year, quarter or month")
    rate, years = float(fraction("rate", inputs["rate"])), float(positive("years", inputs["years"]))
    if inputs["compounding"] not in ("nominal", "effective"):
        raise InputError("compounding", inputs["compounding"], "must be nominal (rate over the payments a year) or effective")
    each = rate / per if inputs["compounding"] == "nominal" else (1 + rate) ** (1 / per) - 1
    if abs(years * per - round(years * per)) > 1e-9 or years * per < 0.5:
        raise InputError("years", years, f"must hold a whole number of payments ({per} a year)")
    residual = money("residual_usd", inputs.get("residual_usd", 0.0))
    if "residual_fraction" in inputs:
        if residual:
            raise InputError("residual_fraction", inputs["residual_fraction"], "says the residual a second time")
        residual = capital * float(fraction("residual_fraction", inputs["residual_fraction"]))
    payment = float(cost.annuity_usd(capital, each, years * per, residual))
    unit = {1: "USD/year", 12: "USD/month", 4: "USD"}[per]
    if inputs["quantity"] in ("total", "total_paid"):
        return exact("annuity", payment * years * per, "USD", basis=f"{years * per:g} payments")
    if inputs["quantity"] == "interest":
        return exact("annuity", payment * years * per + residual - capital, "USD", basis="interest over the whole time")
    if inputs["quantity"] not in ("payment", "annuity"):
        raise InputError("quantity", inputs["quantity"], "must be payment, total or interest")
    basis = f"level payment at the end of each {inputs['payments']}, {inputs['compounding']} rate"
    return exact("annuity", payment, unit, basis=basis)


def _energy_usd_per_hour(inputs: Mapping) -> float | None:
    """Return what electricity costs an hour at the meter [USD/h], None where neither power nor price is given. Raises: InputError.

    A price without a value is refused by `unpriced` before.
    """
    has = [k in inputs for k in ("watts", "usd_per_kwh")]
    if not any(has):
        return None
    if not all(has):
        raise InputError("usd_per_kwh" if has[0] else "watts", None, "is required: electricity needs power and a price")
    boundary = inputs.get("boundary", "it")
    if boundary not in ("it", "facility"):
        raise InputError("boundary", boundary, "must be it or facility: what the power is of")
    price, ratio = money("usd_per_kwh", inputs["usd_per_kwh"]), number("pue", inputs.get("pue", 1.0), 1.0, 100.0)
    return None if price is None else float(cost.energy_usd(inputs["watts"], 1.0, ratio if boundary == "it" else 1.0, price))


def _price(inputs: Mapping) -> tuple[float | None, int | None, str]:
    """Return (price of an hour [USD/h], GPUs it is of or None for all, what it is)."""
    given = [k for k in ("usd_per_gpu_hour", "usd_per_hour", "usd_per_rack_hour") if k in inputs]
    if len(given) > 1:
        raise InputError(given[1], inputs[given[1]], f"says the price a second time (also {given[0]})")
    if not given:
        return None, 1, ""
    amount = money(given[0], inputs[given[0]], zero=False)
    if given[0] == "usd_per_gpu_hour":
        return amount, 1, "price of a GPU-hour"
    if given[0] == "usd_per_rack_hour":
        gpus = int(count("gpus_per_rack", inputs.get("gpus_per_rack", RACK_GPUS)))
        return amount, gpus, f"price of a rack-hour ({gpus} GPUs{'' if 'gpus_per_rack' in inputs else ' assumed'})"
    return amount, int(count("gpus", inputs["gpus"])) if "gpus" in inputs else None, "price of an hour of everything"


def _with_tps(inputs: Mapping) -> dict:
    """Return the inputs with a bare `tps` read as the rate of what the price is of: a GPU, a rack, or everything. Raises: InputError."""
    found = dict(inputs)
    if "tps" not in found:
        return found
    if twice := [k for k in RATES if "tokens_per_s" in k and k in found]:
        raise InputError("tps", found["tps"], f"says the rate a second time (also {twice[0]})")
    whole = [k for k in ("usd_per_hour", "usd_per_rack_hour") if k in found]
    priced = {"usd_per_gpu_hour": 1, "usd_per_rack_hour": found.get("gpus_per_rack", RACK_GPUS)}
    for name, gpus in priced.items():
        if name in found and count("gpus", found.setdefault("gpus", gpus)) != gpus:
            raise InputError("tps", found["tps"], "must say what it is of: tokens_per_s of all GPUs, or tokens_per_s_per_gpu")
    found["tokens_per_s" if whole else "tokens_per_s_per_gpu"] = found.pop("tps")
    return found


def _usd_per_mtok(inputs: dict) -> Answer:
    one_currency(inputs)
    if lacking := unpriced(inputs):
        return missing("usd_per_mtok", "USD/Mtok", lacking)
    amount, of, what = _price(inputs)
    inputs = _with_tps(inputs)
    rate, tokens, per_gpu = token_rate(inputs)
    utilisation = float(fraction("utilisation", inputs.get("utilisation", 1.0), zero=False))
    energy = _energy_usd_per_hour(inputs)
    if amount is None and energy is None:
        return missing("usd_per_mtok", "USD/Mtok", "no price is given: not available, and not 0")
    if amount is not None and per_gpu:
        if of is None:
            raise InputError("gpus", None, "is required: the price is of everything, the rate of one GPU")
        amount /= of
    elif amount is not None and of is not None:
        if "gpus" not in inputs:
            raise InputError("gpus", None, "is required: the rate is of all GPUs, the price of some")
        amount *= int(count("gpus", inputs["gpus"])) / of
    value = float(cost.usd_per_million_tokens((amount or 0.0) + (energy or 0.0), rate, utilisation))
    parts = " and ".join(p for p in (what, "electricity" if energy is not None else "") if p)
    only = "; electricity only: no price of hardware" if amount is None else ""
    note = "" if "utilisation" in inputs else "utilisation not given: taken as 1, fully used"
    if energy is None and (unused := not_used(inputs, "pue", "boundary")):
        note += f"{'; ' if note else ''}{unused}: no power is given"
    basis = f"{tokens} tokens at utilisation {utilisation:g}, all cost on them; {parts}{only}"
    return exact("usd_per_mtok", value, "USD/Mtok", basis=basis, note=note)


def _gpu_hour(inputs: dict) -> Answer:
    one_currency(inputs)
    if lacking := unpriced(inputs):
        return missing("gpu_hour_usd", "USD/GPU-h", lacking)
    capital, years = money("capital_usd_per_gpu", inputs["capital_usd_per_gpu"]), float(positive("years", inputs["years"]))
    used = float(fraction("used_fraction", inputs["used_fraction"], zero=False))
    rate = float(fraction("rate", inputs["rate"]))
    residual = capital * float(fraction("residual_fraction", inputs["residual_fraction"]))
    hours = cost.HOURS_PER_YEAR * used
    parts = {"capital": float(cost.annuity_usd(capital, rate, years, residual)) / hours}
    energy = _energy_usd_per_hour(inputs)
    if energy is not None:
        parts["electricity"] = energy / used
    parts["running"] = money("running_usd_per_year", inputs.get("running_usd_per_year", 0.0)) / hours
    note = ", ".join(f"{k} {v:,.4f}" for k, v in parts.items() if v)
    if energy is None and (unused := not_used(inputs, "pue", "boundary")):
        note += f"; {unused}: no power is given"
    if inputs["quantity"] in ("electricity_share", "electricity_fraction"):
        if not sum(parts.values()):
            raise InputError("capital_usd_per_gpu", capital, "must be > 0 where nothing else costs: there is no share of nothing")
        share = parts.get("electricity", 0.0) / sum(parts.values())
        return exact("gpu_hour_usd", share, "fraction", basis="electricity in the whole cost", note=note)
    if inputs["quantity"] not in ("total", *parts):
        raise InputError("quantity", inputs["quantity"], f"must be total, electricity_share or one of {', '.join(parts)}")
    value = sum(parts.values()) if inputs["quantity"] == "total" else parts[inputs["quantity"]]
    return exact("gpu_hour_usd", value, "USD/GPU-h", basis=f"owned, per hour used ({used:.0%} of hours; power drawn all hours)", note=note)


def _rent(inputs: dict) -> Answer:
    one_currency(inputs)
    price = money("usd_per_gpu_hour", inputs.get("usd_per_gpu_hour"), zero=False)
    if price is None:
        return missing("rent_usd", "USD", "no price is given: not available, and not 0")
    used = inputs.get("used_fraction")
    basis = inputs.get("basis", "allocation" if used is None else "used")
    if basis not in ("allocation", "used", "idle"):
        raise InputError("basis", basis, "must be allocation, used or idle")
    if (basis == "allocation") != (used is None):
        raise InputError("used_fraction", used, "is required for the used or the idle part" if used is None else
                         "must be left out: an allocation bills every hour")
    if used is not None:
        price = float(cost.allocation_usd(price, used)[basis])
    value = float(cost.rent_usd(inputs["gpus"], price, inputs["hours"], inputs["gpus_per_rack"]))
    return exact("rent_usd", value, "USD", basis=f"{inputs['hours']:g} h; {'every hour' if used is None else f'the {basis} part'} billed")


def _tokens_usd(inputs: dict) -> Answer:
    one_currency(inputs)
    prices = {k: money(f"usd_per_mtok_{k}", inputs.get(f"usd_per_mtok_{k}")) for k in ("input", "cached_input", "output")}
    parts = cost.tokens_usd(inputs["input_tokens"], inputs["cached_tokens"], inputs["output_tokens"], prices)
    note = ", ".join(f"{k} {float(v):,.6g}" for k, v in parts.items())
    return exact("tokens_usd", float(sum(parts.values())), "USD", basis="list prices; cached tokens are part of the input", note=note)


def _npv(inputs: dict) -> Answer:
    one_currency(inputs)
    flow = inputs["cash_flow_usd"]
    if not isinstance(flow, list) or not flow:
        raise InputError("cash_flow_usd", flow, "must be a list of numbers, the first now")
    rate = float(number("rate", inputs["rate"], -0.99))
    if rate > 1:
        fraction("rate", rate)
    return exact("npv", float(cost.npv_usd([float(number("cash_flow_usd", v)) for v in flow], rate, inputs["periods_per_year"])), "USD",
                 basis="effective yearly rate; the first flow is now")


def _same(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "")


RATE_NAMES = {**_same("rate_per_year", "discount_rate", "wacc", "interest", "interest_rate", "r"), "rate_percent": "%", "rate_pct": "%"}
GPU_HOUR = ("usd_gpu_h", "usd_gpu_hr", "gpu_hour_usd", "price", "price_usd", "usd_per_gpu_h", "price_per_gpu_hour", "gpu_hour_price",
            "usd_per_gpu_hr", "prices")
UTILISATION = Input("share of the full rate that is used over time, 0..1", also=_same("utilization", "util", "utilisation_fraction"))
ENERGY = {"watts": watts_input("mean IT power of what the rate is of", "it", "", "power", "per_gpu"),
          "usd_per_kwh": Input("price of electricity", structured=True, null=True, also=_same("usd_kwh", "electricity_usd_per_kwh", "kwh_price")),
          "pue": Input("facility over IT, where the power is IT power", also=_same("PUE")),
          "boundary": Input("what the power is of: it or facility", also=_same("power_boundary"))}
MONEY = {"currency": Input("USD"), "as_of": Input("date of the prices")}
CAPITAL = _same("capital", "capex", "principal", "price_usd", "amount", "cost_usd", "pv", "investment")
RACK_GPUS = 72  # of an NVL72 rack, where a rack-hour says nothing else
SPEEDUP = _same("ratio", "throughput_ratio", "relative_throughput")

QUESTIONS = (
    Question("annuity", "Level payment that repays a capital", "USD/year", "planner.models.cost.annuity_usd",
             {"capital_usd": Input("what is paid at the start [USD]", required=True, structured=True, also=CAPITAL),
              "rate": Input("yearly rate, a share", "fraction", required=True, also=RATE_NAMES),
              "years": Input("how long it is repaid", required=True, also=_same("n", "term_years", "lifetime_years", "life_years")),
              "residual_usd": Input("worth at the end [USD]", structured=True, null=True, also=_same("residual", "salvage_usd", "residual_value")),
              "residual_fraction": Input("worth at the end, of the capital"),
              "payments": Input("year, quarter or month", default="year", also=_same("per")),
              "compounding": Input("nominal (rate / payments a year) or effective", default="nominal"),
              "quantity": Input("payment, total or interest", default="payment"), **MONEY}, _annuity),
    Question("usd_per_mtok", "Cost of a million tokens at a utilisation", "USD/Mtok", "planner.models.cost.usd_per_million_tokens",
             {"usd_per_gpu_hour": Input("price of a GPU-hour [USD]", structured=True, null=True, also=_same(*GPU_HOUR)),
              "usd_per_hour": Input("price of an hour of all GPUs [USD]", structured=True, null=True, also=_same("usd_h", "hourly_usd")),
              "usd_per_rack_hour": Input("price of a rack-hour [USD]", structured=True, null=True, also=_same("rack_hour_usd")),
              **RATES, "tps": Input("tokens per second of what the price is of"), "gpus": Input("GPUs that the rate is of", "count"),
              "gpus_per_rack": Input("GPUs of a rack (absent: 72)", "count"), "utilisation": UTILISATION, **ENERGY, **MONEY}, _usd_per_mtok),
    Question("break_even_gpu_hour", "Price of a GPU-hour at which two systems cost the same a token", "USD/GPU-h",
             "planner.models.cost.break_even_usd_per_hour",
             {"own": Input("the system whose price is sought: {tokens_per_s_per_gpu, utilisation, kw, ...}", structured=True,
                           also=_same("a", "new", "candidate", "system_a", "target")),
              "other": Input("the system with a price: {usd_per_gpu_hour, tokens_per_s_per_gpu, utilisation, kw, ...}", structured=True,
                             also=_same("b", "reference", "baseline", "system_b", "against")),
              "other_usd_per_gpu_hour": Input("price of the other system [USD]", structured=True, also=_same(
                  "reference_usd_per_gpu_hour", "baseline_usd_per_gpu_hour", *GPU_HOUR, "usd_per_gpu_hour")),
              "tokens_per_s_per_gpu": Input("rate of the system sought", also=_same("tps", "tps_a", "own_tokens_per_s_per_gpu", "tps_new")),
              "other_tokens_per_s_per_gpu": Input("rate of the other system", also=_same(
                  "reference_tokens_per_s_per_gpu", "baseline_tokens_per_s_per_gpu", "tps_b", "other_tps", "reference_tps", "baseline_tps")),
              "speedup": Input("rate of the system sought over the other's", also=SPEEDUP),
              "utilisation": UTILISATION, "other_utilisation": Input("of the other system, where it differs", also=_same("reference_utilisation")),
              "watts": watts_input("IT power of a GPU of the system sought", "", "own", "per_gpu"),
              "other_watts": watts_input("IT power of a GPU of the other", "other", "reference", "baseline"),
              "usd_per_kwh": ENERGY["usd_per_kwh"], "pue": ENERGY["pue"],
              "power_included": Input("the prices hold electricity (rent); false: it is paid beside them", default=True), **MONEY},
             break_even.answer),
    Question("gpu_hour_usd", "What an hour of an owned GPU costs", "USD/GPU-h", "planner.models.cost.annuity_usd",
             {"capital_usd_per_gpu": Input("capital for one GPU [USD]", required=True, structured=True, also=CAPITAL),
              "years": Input("useful life", required=True),
              "used_fraction": Input("share of all hours used", default=1.0, also=_same("utilisation", "used")),
              "rate": Input("yearly rate, a share", "fraction", default=0.0, also=RATE_NAMES),
              "residual_fraction": Input("worth at the end, of the capital", default=0.0), **ENERGY,
              "running_usd_per_year": Input("other running cost of one GPU [USD/year]", structured=True, null=True),
              "quantity": Input("total, capital, electricity, running or electricity_share", default="total"), **MONEY}, _gpu_hour),
    Question("rent_usd", "Bill for rented GPUs", "USD", "planner.models.cost.rent_usd",
             {"gpus": Input("GPUs", "count", default=1), "usd_per_gpu_hour": Input("price [USD]", structured=True, also=_same(*GPU_HOUR)),
              "hours": Input("hours billed: 720 or 730 a month is your choice", required=True, also=_same("hours_per_month")),
              "gpus_per_rack": Input("whole racks of so many GPUs", "count", default=1),
              "used_fraction": Input("share of the hour used", also=_same("used")),
              "basis": Input("allocation, used or idle; absent: used with a used_fraction"),
              **MONEY}, _rent),
    Question("tokens_usd", "What tokens cost at list prices", "USD", "planner.models.cost.tokens_usd",
             {"input_tokens": Input("all input tokens, cached ones among them", required=True, also=_same("input")),
              "cached_tokens": Input("of which found in a cache", default=0.0, also=_same("cached")),
              "output_tokens": Input("output tokens", default=0.0, also=_same("output")),
              "usd_per_mtok_input": Input("USD a million", structured=True, also=_same("p_in")),
              "usd_per_mtok_cached_input": Input("USD a million", structured=True, also=_same("p_cached")),
              "usd_per_mtok_output": Input("USD a million", structured=True, also=_same("p_out")), **MONEY}, _tokens_usd),
    Question("npv", "Net present value of a cash flow", "USD", "planner.models.cost.npv_usd",
             {"cash_flow_usd": Input("list of flows, the first now [USD]", required=True, structured=True, also=_same("cash_flow", "flows")),
              "rate": Input("effective yearly rate, a share", "fraction", required=True, also=RATE_NAMES),
              "periods_per_year": Input("flows a year", "count", default=1), **MONEY}, _npv),
)
