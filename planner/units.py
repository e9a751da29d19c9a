"""Table units to base units, and the range checks that every model uses.

Inside the package every number is in a base unit: byte, second, FLOP, watt, joule, USD, litre, kelvin or degree C.
Table units (GB/s, PFLOPS, USD/kWh) exist only in data files and views; `to_base` and `from_base` are the one door.
"""

from __future__ import annotations

import numpy as np

from planner.errors import InputError

_SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "day": 86400.0, "week": 604800.0,
            "month": 2628000.0, "year": 31536000.0}
_HOUR = 3600.0


def _table() -> dict[str, tuple[str, float]]:
    """Return every table unit as (base unit, factor): the base value is the table value times the factor."""
    units = {"B": ("B", 1.0), "bit": ("B", 0.125), "1": ("1", 1.0), "count": ("1", 1.0), "fraction": ("1", 1.0),
             "%": ("1", 0.01), "ratio": ("1", 1.0), "C": ("C", 1.0), "K": ("K", 1.0), "USD": ("USD", 1.0),
             "kUSD": ("USD", 1e3), "MUSD": ("USD", 1e6), "BUSD": ("USD", 1e9), "V": ("V", 1.0), "A": ("A", 1.0),
             "m": ("m", 1.0), "km": ("m", 1e3), "mm": ("m", 1e-3), "kg": ("kg", 1.0), "lb": ("kg", 0.45359237),
             "L": ("L", 1.0), "L/min": ("L/s", 1 / 60), "m2": ("m2", 1.0), "ns": ("s", 1e-9),
             "USD/kWh": ("USD/J", 1 / 3.6e6), "USD/MWh": ("USD/J", 1 / 3.6e9), "USD/h": ("USD/s", 1 / _HOUR),
             "USD/GPU-h": ("USD/s", 1 / _HOUR), "USD/Mtok": ("USD/token", 1e-6), "USD/tok": ("USD/token", 1.0),
             "USD/W": ("USD/W", 1.0), "USD/kW": ("USD/W", 1e-3), "USD/MW": ("USD/W", 1e-6),
             "MUSD/MW": ("USD/W", 1.0), "USD/kW-month": ("USD/W/s", 1e-3 / _SECONDS["month"]),
             "USD/GB-month": ("USD/B/s", 1e-9 / _SECONDS["month"]),
             "USD/GiB-month": ("USD/B/s", 2.0**-30 / _SECONDS["month"]),
             "USD/GB": ("USD/B", 1e-9), "USD/GiB": ("USD/B", 2.0**-30), "tok/s/MW": ("token/J", 1e-6),
             "tok/s/kW": ("token/J", 1e-3), "L/min/kW": ("L/J", 1e-3 / 60), "J/tok": ("J/token", 1.0),
             "billion": ("1", 1e9), "million": ("1", 1e6), "h/year": ("1", _HOUR / _SECONDS["year"]), "kJ/kg/K": ("J/kg/K", 1e3),
             "kg/m3": ("kg/m3", 1.0), "pJ/bit": ("J/B", 8e-12), "ns/m": ("s/m", 1e-9), "W/GB": ("W/B", 1e-9),
             "MUSD/MW-year": ("USD/W/s", 1 / _SECONDS["year"]), "USD/MW-day": ("USD/W/s", 1e-6 / _SECONDS["day"]),
             "MUSD/year": ("USD/s", 1e6 / _SECONDS["year"]), "Mgal/MW-year": ("L/J", 3.785411784 / _SECONDS["year"]),
             "MB/s/W": ("B/J", 1e6), "MEUR": ("EUR", 1e6), "JPY": ("JPY", 1.0), "TOPS": ("op/s", 1e12), "Gpps": ("1/s", 1e9),
             "U": ("U", 1.0), "degF": ("degF", 1.0), "IOPS": ("1/s", 1.0), "MIOPS": ("1/s", 1e6), "USD/month": ("USD/s", 1 / _SECONDS["month"]),
             "USD/year": ("USD/s", 1 / _SECONDS["year"]), "USD/day": ("USD/s", 1 / _SECONDS["day"]), "USD/rack-h": ("USD/s", 1 / _HOUR),
             "USD/MW-h": ("USD/W/s", 1e-6 / _HOUR), "USD/MW-month": ("USD/W/s", 1e-6 / _SECONDS["month"]), "Pa": ("Pa", 1.0),
             "psi": ("Pa", 6894.757293168),
             "%/year": ("1/s", 0.01 / _SECONDS["year"]), "%/C": ("1/C", 0.01)}
    for prefix, factor in _SI.items():
        if prefix != "K":  # K is kelvin, kB and KB are the same thousand bytes
            units[f"{prefix}W"] = ("W", factor)
            units[f"{prefix}Wh"] = ("J", factor * _HOUR)
            units[f"{prefix}J"] = ("J", factor)
            units[f"{prefix}FLOP"] = ("FLOP", factor)
            units[f"{prefix}FLOPS"] = units[f"{prefix}FLOP/s"] = ("FLOP/s", factor)
        if prefix:
            units[f"{prefix}B"] = ("B", factor)
            units[f"{prefix}b"] = ("B", factor / 8)
        units[f"{prefix}B/s"] = ("B/s", factor)
        units[f"{prefix}b/s"] = ("B/s", factor / 8)
    for prefix, factor in _BINARY.items():
        units[f"{prefix}B"] = ("B", factor)
        units[f"{prefix}B/s"] = ("B/s", factor)
    for name, factor in _SECONDS.items():
        units[name] = ("s", factor)
        units[f"1/{name}"] = ("1/s", 1 / factor)
    for name in ("years", "weeks"):
        units[name] = units[name[:-1]]
    units["hour"], units["days"], units["hours"], units["months"] = units["h"], units["day"], units["h"], units["month"]
    for noun in ("GPU", "rack", "param", "token", "tok", "layer", "expert", "head", "switch", "link", "endpoint", "image"):
        units[noun] = units[noun + "s"] = ("1", 1.0)
    for noun in ("tok", "token", "tokens", "samples", "queries", "req"):
        units[f"{noun}/s"] = ("1/s", 1.0)
        for per in ("GPU", "user", "rack"):
            units[f"{noun}/s/{per}"] = ("1/s", 1.0)
    return units


UNITS: dict[str, tuple[str, float]] = _table()


def to_base(value, unit: str):
    """Convert a table value to its base unit.

    Parameters: value, number or array [unit]; unit, a key of `UNITS`, case matters (b is a bit, B a byte).
    Returns: float or array [base unit]. Raises: InputError for an unknown unit.
    Validity: linear units only. Error: exact to one rounding. Source: SI and IEC 80000-13 prefixes.
    """
    return np.multiply(value, _known(unit)[1])[()]


def from_base(value, unit: str):
    """Convert a base value to a table unit; the inverse of `to_base`, same arguments and errors."""
    return np.divide(value, _known(unit)[1])[()]


def base_unit(unit: str) -> str:
    """Return the base unit that a table unit converts to. Raises: InputError for an unknown unit."""
    return _known(unit)[0]


def convert(value, unit: str, to_unit: str):
    """Convert between two table units of one kind.

    Parameters: value, number or array [unit]; unit and to_unit, keys of `UNITS`. Returns: float or array [to_unit].
    Raises: InputError for an unknown unit, or for two units of different kinds.
    """
    if base_unit(unit) != base_unit(to_unit):
        raise InputError("unit", unit, f"must be convertible to {to_unit} (base {base_unit(to_unit)})")
    return from_base(to_base(value, unit), to_unit)


def _known(unit: str) -> tuple[str, float]:
    try:
        return UNITS[unit]
    except (KeyError, TypeError):
        raise InputError("unit", unit, "must be a unit of data/vocabulary.csv, such as GB, GiB, GB/s, Gb/s or kW") from None


def number(name: str, value, low: float = -np.inf, high: float = np.inf, *, above: float | None = None):
    """Return `value` as a float array inside a range, or refuse it.

    Parameters: name, the argument's name for the message; value, scalar or array; low and high, inclusive bounds;
    above, an exclusive lower bound instead of `low`. Returns: ndarray of float64, shape of `value`.
    Raises: InputError for booleans, text, NaN, infinities and values outside the range, naming the first offender.
    """
    if value is None:
        raise InputError(name, None, "is required")
    allowed = f"must be > {above:g}" if above is not None else f"must be >= {low:g}" if np.isfinite(low) else "must be finite"
    if np.isfinite(high):
        low_end = f"{low:g} to {high:g}" if np.isfinite(low) else f"<= {high:g}"
        allowed = f"must be > {above:g} and <= {high:g}" if above is not None else f"must be {low_end}"
    if isinstance(value, (bool, str, bytes)) or (isinstance(value, np.ndarray) and value.dtype == bool):
        raise InputError(name, value, allowed + " (a number)")
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InputError(name, value, allowed + " (a number)") from None
    good = np.isfinite(array) & (array <= high) & ((array > above) if above is not None else (array >= low))
    if not good.all():
        raise InputError(name, float(array[~good].flat[0]) if array.ndim else float(array), allowed)
    return array


def positive(name: str, value):
    """Return `value` as a float array > 0; InputError otherwise. Shape kept, unit the caller's."""
    return number(name, value, above=0.0)


def nonnegative(name: str, value):
    """Return `value` as a float array >= 0; InputError otherwise. Shape kept, unit the caller's."""
    return number(name, value, 0.0)


def fraction(name: str, value, *, zero: bool = True):
    """Return `value` as a float array in 0..1 (above 0 where `zero` is False); a percent typed by mistake gets a hint.

    Raises: InputError. Shape kept, unit 1.
    """
    try:
        return number(name, value, 0.0, 1.0) if zero else number(name, value, high=1.0, above=0.0)
    except InputError as error:
        if isinstance(error.value, float) and 1 < error.value <= 100:
            hint = f" (a share, not a percent: {error.value:g} % is {error.value / 100:g})"
            raise InputError(name, error.value, error.allowed + hint) from None
        raise


def count(name: str, value, low: int = 1, high: int = 10**12):
    """Return `value` as an int64 array of whole numbers in low..high; InputError otherwise. Shape kept, unit 1."""
    array = number(name, value, low, high)
    if (array != np.floor(array)).any():
        raise InputError(name, value, f"must be a whole number from {low} to {high}")
    return array.astype(np.int64)


def whole_up(value, slack: float = 1e-9):
    """Return the least whole number >= value, forgiving the last bits of a float (0.3 / 0.1 needs 3, not 4).

    Parameters: value, number or array [1]; slack, relative tolerance. Returns: int or int64 array.
    """
    return np.ceil(np.asarray(value, float) * (1 - slack) - slack * 1e-3).astype(np.int64)[()]


def whole_down(value, slack: float = 1e-9):
    """Return the greatest whole number <= value, forgiving the last bits of a float (0.3 / 0.1 holds 3, not 2).

    Parameters: value, number or array [1]; slack, relative tolerance. Returns: int or int64 array.
    """
    return np.floor(np.asarray(value, float) * (1 + slack)).astype(np.int64)[()]
