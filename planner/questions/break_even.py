"""The price of an hour at which two systems cost the same a token: each side's rate, utilisation and price, of one and the same unit."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InputError
from planner.models import cost
from planner.plan.answer import Answer, exact, missing
from planner.questions.money import HOURLY, money, one_currency, unpriced
from planner.units import positive

PRICES = {"usd_per_gpu_hour": ("usd_gpu_h", "price", "gpu_hour_usd", "price_usd", "usd_gpu_hr"), "usd_per_hour": (), "usd_per_rack_hour": (),
          "usd_per_mw_hour": ()}
RATES = {"tokens_per_s": (), "tps": ("throughput",), "tokens_per_s_per_gpu": ("tok_s_gpu", "tps_per_gpu"), "tokens_per_s_per_mw": (),
         "samples_per_s": ()}
OTHERS = {"utilisation": ("utilization", "util"), "watts": ("w",), "watts_kw": ("kw", "kw_per_gpu", "it_kw"),
          "usd_per_kwh": ("usd_kwh", "electricity"), "pue": (), "extra_usd_per_hour": ("other_usd_per_hour",),
          "tokens_per_s_per_user": ("tps_user", "interactivity"), "slo": (), "system": ("name",), "as_of": (), "currency": ()}
_SIDE = {other: own for names in (PRICES, RATES, OTHERS) for own, others in names.items() for other in (own, *others)}
FITS = {"usd_per_gpu_hour": ("tps", "tokens_per_s", "tokens_per_s_per_gpu", "samples_per_s"), "usd_per_mw_hour": ("tps", "tokens_per_s_per_mw"),
        "usd_per_rack_hour": ("tps", "tokens_per_s", "samples_per_s"),
        "usd_per_hour": ("tps", "tokens_per_s", "tokens_per_s_per_gpu", "samples_per_s")}  # rates of what the price is of
ALIKE = {"slo": "equal SLO", "tokens_per_s_per_user": "equal SLO"}  # what both sides must say alike, or not at all


def _named(name: str, given: object) -> dict:
    """Return one side of a comparison under its own names. Raises: InputError."""
    if not isinstance(given, Mapping):
        raise InputError(name, given, "must be an object: tokens_per_s_per_gpu, utilisation, and a price where it is known")
    found: dict = {}
    for key, value in given.items():
        own = _SIDE.get(key)
        if own is None:
            raise InputError(f"{name}.{key}", value, f"must be one of {', '.join((*PRICES, *RATES, *OTHERS))}")
        for group in (PRICES, RATES, (own,)):
            if own in group and any(k in found for k in group):
                raise InputError(f"{name}.{key}", value, f"says {next(k for k in group if k in found)} a second time")
        found[own] = value
    one_currency(found, f"{name}.")
    if "watts_kw" in found:
        if "watts" in found:
            raise InputError(f"{name}.kw", found["watts_kw"], "says watts a second time")
        found["watts"] = 1e3 * float(positive(f"{name}.kw", found.pop("watts_kw")))
    return found


def _one(side: Mapping, group: Mapping) -> str:
    """Return which price or which rate a side has, empty where it has none."""
    return next((k for k in group if side.get(k) is not None), "")


def _flat(inputs: Mapping, side: str) -> dict:
    """Return what the inputs outside the two objects say of one side."""
    names = {"own": {"tokens_per_s_per_gpu": "tokens_per_s_per_gpu", "watts": "watts"},
             "other": {"other_usd_per_gpu_hour": "usd_per_gpu_hour", "other_tokens_per_s_per_gpu": "tokens_per_s_per_gpu", "other_watts": "watts"}}
    found = {key: inputs[name] for name, key in names[side].items() if name in inputs}
    if "speedup" in inputs:
        if _one(found, RATES):
            raise InputError("speedup", inputs["speedup"], "says the rates a second time")
        found["tps"] = float(positive("speedup", inputs["speedup"])) if side == "own" else 1.0
    return found


def _sides(inputs: Mapping) -> tuple[dict, dict]:
    """Return (the system whose price is sought, the one whose price is known), shared inputs filled in. Raises: InputError."""
    if ("own" in inputs) != ("other" in inputs):
        lacking = "other" if "own" in inputs else "own"
        raise InputError(lacking, None, "is required: own is the system whose price is sought, other the one with a price")
    sides = []
    for name in ("own", "other"):
        typed, flat = _named(name, inputs.get(name, {})), _flat(inputs, name)
        for key in flat:
            group = next((g for g in (PRICES, RATES) if key in g), (key,))
            if any(k in typed for k in group):
                raise InputError(f"{name}.{key}", flat[key], "is said a second time: inside the object and beside it")
        used = inputs.get("other_utilisation", inputs.get("utilisation")) if name == "other" else inputs.get("utilisation")
        shared = {**{k: inputs[k] for k in ("usd_per_kwh", "pue") if k in inputs}, **({} if used is None else {"utilisation": used})}
        sides.append({**shared, **flat, **typed})
    own, other = sides
    if _one(own, PRICES) and not _one(other, PRICES):
        own, other = other, own
    return own, other


def _alike(own: Mapping, other: Mapping) -> None:
    """Refuse two sides that do not compare. Raises: InputError."""
    for word, why in ALIKE.items():
        if own.get(word) != other.get(word):
            raise InputError(word, " against ".join(str(s.get(word, "not stated")) for s in (own, other)), f"must be the same on both sides: {why}")
    for name, side in (("own", own), ("other", other)):
        if not _one(side, RATES):
            raise InputError(f"{name}.tokens_per_s_per_gpu", None, "is required (or speedup for both)")
    rates, price = [_one(s, RATES) for s in (own, other)], _one(other, PRICES)
    if len({r for r in rates if r != "tps"}) > 1:
        raise InputError("tokens_per_s", " against ".join(rates), "must be rates of one unit on both sides")
    for rate in rates:
        if rate not in FITS[price]:
            raise InputError(rate, f"with {price}", f"must be a rate of what the price is of: {' or '.join(FITS[price])}")
    if ("utilisation" in own) != ("utilisation" in other):
        raise InputError("utilisation", " against ".join(str(s.get("utilisation", "not stated")) for s in (own, other)),
                         "must be stated for both systems, or for neither")


def _extra(name: str, side: Mapping, included: bool) -> float:
    """Return what an hour costs beside the price: electricity where prices leave it out, and what is given [USD/h]."""
    extra = money(f"{name}.extra_usd_per_hour", side.get("extra_usd_per_hour", 0.0))
    if included or "watts" not in side or side.get("usd_per_kwh") is None:
        return extra
    return extra + float(cost.energy_usd(side["watts"], 1.0, side.get("pue", 1.0), money("usd_per_kwh", side["usd_per_kwh"])))


def _beside(own: Mapping, price: str, value: float) -> str:
    """Return how the price that was given beside the one sought compares with it, empty where none was given. Raises: InputError."""
    given = _one(own, PRICES)
    if not given:
        return ""
    if given != price:
        raise InputError(f"own.{given}", own[given], f"must be {price}, as the other system's price, or be left out: it is sought")
    asked = money(f"own.{given}", own[given], zero=False)
    said = "" if asked is None else f"; at the {asked:g} USD given for it, it is the {'dearer' if asked > value else 'cheaper'} one a token"
    return said if asked != value else "; the price given for it is the same"


def answer(inputs: dict) -> Answer:
    """Return the answer of the question break_even_gpu_hour. Raises: InputError; Infeasible where no price does it."""
    one_currency(inputs)
    own, other = _sides(inputs)
    kind = _one(other, PRICES)
    price = money(f"other.{kind}", other[kind], zero=False) if kind else None
    if price is None:
        return missing("break_even_gpu_hour", "USD/GPU-h", "the other system has no price: not available, and not 0")
    _alike(own, other)
    included = inputs["power_included"]
    if not isinstance(included, bool):
        raise InputError("power_included", included, "must be true or false")
    unused = (*PRICES, "usd_per_kwh") if included else PRICES
    for side in (own, other):
        if lacking := unpriced({k: v for k, v in side.items() if k not in unused}):
            return missing("break_even_gpu_hour", "USD/GPU-h", lacking)
    if not included and not all("watts" in s and s.get("usd_per_kwh") is not None for s in (own, other)):
        raise InputError("watts", None, "and usd_per_kwh are required for both systems where prices leave electricity out")
    rates = [s[_one(s, RATES)] for s in (own, other)]
    value = float(cost.break_even_usd_per_hour(price + _extra("other", other, included), _extra("own", own, included), *rates,
                                               own.get("utilisation", 1.0), other.get("utilisation", 1.0)))
    said = "electricity in the price" if included else "electricity beside the price"
    who = " against ".join(str(s["system"]) for s in (own, other) if "system" in s)
    note = "" if "utilisation" in own else "utilisation not given: the same full rate on both sides"
    if included and any(k in s for s in (own, other) for k in ("watts", "usd_per_kwh", "pue")):
        note += "; power and its price not used: the prices hold electricity"
    note += _beside(own, kind, value)
    return exact("break_even_gpu_hour", value, HOURLY.get(kind, "USD/h"), note=note.removeprefix("; "),
                 basis=f"{who + '; ' if who else ''}equal cost a token at one SLO; {said}; the price is of the same unit as the other system's")
