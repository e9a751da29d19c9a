"""Amounts in USD as they are typed: one currency, a unit that fits or converts, and null, which is not available and never 0."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InputError
from planner.facts.catalog import resolve_unit
from planner.units import convert, nonnegative, number, positive

CURRENCY = "USD"
HOURLY = {"usd_per_gpu_hour": "USD/GPU-h", "usd_per_rack_hour": "USD/rack-h", "usd_per_mw_hour": "USD/MW-h"}
UNIT = {"usd_per_kwh": "USD/kWh", "running_usd_per_year": "USD/year", "usd_per_hour": "USD/h", "extra_usd_per_hour": "USD/h", **HOURLY}


def _converted(name: str, value: object, given: object, unit: str) -> object:
    """Return an amount in `unit`. Raises: InputError for a unit of another kind, or of an hour of another thing."""
    if given in (unit, CURRENCY) or value is None:
        return value
    refusal = InputError(f"{name}.unit", given, f"must be {unit}, or a unit that converts to it")
    try:
        said = resolve_unit(given)
        if said != unit and said in HOURLY.values() and unit in HOURLY.values():  # all are an hour, but not of one thing
            raise refusal
        return float(convert(number(name, value), said, unit))
    except InputError as error:
        raise error if error.field == name else refusal from None


def _unit(name: str) -> str:
    return UNIT.get(name, "USD/Mtok" if name.startswith("usd_per_mtok") else CURRENCY)


def money(name: str, given: object, *, zero: bool = True) -> float | None:
    """Return an amount in USD (in the unit that its name says), None where it is not available.

    Parameters: name, for the message; given, a number, None, or an object {value, currency, unit, as_of}; zero, whether 0 is an amount.
    Raises: InputError for text ("$3", "3,00": a number and its currency are separate), another currency, a unit that does not convert, or a
    negative amount.
    """
    if isinstance(given, Mapping):
        named = [k for k in given if k in ("gpu_hour", "gpu_hour_usd", "usd_per_gpu_hour")]
        if named:  # {"gpu_hour_usd": 5} under a price of a GPU-hour says the same twice
            given = {**{k: v for k, v in given.items() if k not in named}, "value": given[named[0]]}
        unknown = set(given) - {"value", "currency", "as_of", "unit"}
        if unknown:
            raise InputError(f"{name}.{sorted(unknown)[0]}", given[sorted(unknown)[0]], "must be one of value, currency, unit, as_of")
        one_currency(given, f"{name}.")
        if not isinstance(given.get("unit", CURRENCY), str):
            raise InputError(f"{name}.unit", given["unit"], "must be a unit")
        given = _converted(name, given.get("value"), given.get("unit", CURRENCY), _unit(name.rsplit(".", 1)[-1]))
    if given is None:
        return None
    if isinstance(given, (str, bool)):
        raise InputError(name, given, "must be a number in USD; the currency is not typed with it")
    return float(nonnegative(name, given) if zero else positive(name, given))


def one_currency(inputs: Mapping, where: str = "") -> None:
    """Refuse a question whose `currency`, or one of its prices, is another than USD. Raises: InputError."""
    given = inputs.get("currency", CURRENCY)
    if str(given).strip().upper() != CURRENCY:
        raise InputError(f"{where}currency", given, "must be USD: convert all prices first, at a dated rate")


def unpriced(inputs: Mapping) -> str:
    """Return the name of the first amount that is given without a value, empty where there is none."""
    for name, given in inputs.items():
        if "usd" in name and (given is None or (isinstance(given, Mapping) and money(name, given) is None)):
            return f"{name} has no value: not available, and not 0"
    return ""
