"""Coolants, rises, approaches and climates: what the fact tables print about cooling, in the shape that the equations take."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from planner.calibration import power
from planner.errors import InputError
from planner.facts.evidence import claim
from planner.facts.files import table
from planner.models import cooling
from planner.units import number

WATER_BOILS = 100.0  # [C] at one atmosphere
FLUIDS = {"pg25": {20.0: ("X0224", "X0228"), 30.0: ("X0225", "X0229"), 40.0: ("X0226", "X0230"), 45.0: ("X0227", "X0231")},
          "water": {40.0: ("X0234", "X0233")}}
INLET, OUTLET, ALL_LIQUID = "H0054", "H0324", ("vr-nvl72", "H0318")
DRY_COOLER, COOLANT_UNIT, FREEZING = "P0176", "P0177", "X0232"


def properties(fluid: str, celsius: float) -> tuple[float, float]:
    """Return (specific heat [J/kg/K], density [kg/L]) of a coolant at a temperature, linear between printed points and beyond the last pair.

    Parameters: fluid, pg25 or water (one printed point: constant); celsius [C], 0 to 95. Raises: InputError.
    """
    key = str(fluid).lower().replace("-", "").replace(" ", "")
    if key not in FLUIDS:
        raise InputError("fluid", fluid, f"must be one of {', '.join(FLUIDS)}")
    at = float(number("celsius", celsius, 0, 95))
    points = sorted((t, claim(heat).base_value, claim(density).base_value / 1000) for t, (heat, density) in FLUIDS[key].items())
    if len(points) == 1:
        return points[0][1], points[0][2]
    below = max((i for i, p in enumerate(points[:-1]) if p[0] <= at), default=0)
    (t0, *first), (t1, *second) = points[below], points[below + 1]
    heat, density = (a + (b - a) * (at - t0) / (t1 - t0) for a, b in zip(first, second, strict=True))
    return float(heat), float(density)


def liquid_range(fluid: str) -> tuple[float, float]:
    """Return the temperatures between which a coolant is liquid [C]: its freezing point, and where water boils. Raises: InputError."""
    properties(fluid, 25.0)
    return (0.0 if "water" in str(fluid).lower() else claim(FREEZING).base_value), WATER_BOILS


def usual_rise() -> float:
    """Return the published outlet less inlet of a Vera Rubin rack [K]."""
    return claim(OUTLET).base_value - claim(INLET).base_value


def approach_kelvin() -> tuple[float, float, float]:
    """Return (value, low, high) of outdoor air to rack coolant over both exchangers [K]: dry cooler and coolant unit."""
    both = [claim(i) for i in (DRY_COOLER, COOLANT_UNIT)]
    low, high = (sum(c.base_range[e] for c in both) for e in (0, 1))
    return sum(c.base_value for c in both), low, high


def liquid_fraction(system: str) -> float:
    """Return the share of a rack's heat that goes to liquid: what its maker prints, else one less the assumed air share [1]."""
    if system == ALL_LIQUID[0]:
        return claim(ALL_LIQUID[1]).base_value
    return 1 - power.assumption("air share of heat").value


def pump_watts(litres_per_s: float) -> tuple[float, float, float]:
    """Return (value, low, high) of the pump power for a flow [W], at the assumed pressure and efficiency."""
    pressure, efficiency = power.assumption("pump pressure"), power.assumption("pump efficiency")
    pairs = ((pressure.value, efficiency.value), (pressure.low, efficiency.high), (pressure.high, efficiency.low))
    return tuple(float(cooling.pump_watts(litres_per_s, p, e)) for p, e in pairs)


def hours_of(path: str | Path) -> np.ndarray:
    """Return the hourly temperatures of a user's CSV file with a column `celsius` (hours,) [C].

    Raises: InputError naming the line for a value that is no number or outside -90 to 60, or fewer than 24 of them.
    """
    place = Path(path)
    try:
        with place.open(newline="", encoding="utf-8-sig") as handle:
            rows = list(csv.DictReader(handle))
    except (OSError, ValueError) as error:
        raise InputError("file", getattr(error, "strerror", None) or str(error), "must be a readable CSV in UTF-8", place.name) from None
    if len(rows) < 24 or "celsius" not in rows[0]:
        raise InputError("celsius", len(rows), "must be a column with at least 24 hours", place.name)
    found = np.empty(len(rows))
    for line, row in enumerate(rows, 2):
        try:
            found[line - 2] = float(number("celsius", float(row["celsius"]), -90, 60))
        except (TypeError, ValueError):
            raise InputError(f"line {line}, celsius", row["celsius"], "must be a number from -90 to 60", place.name) from None
    return found


def climates() -> list[str]:
    """Return the names of data/climates.csv."""
    return [r["climate"] for r in table("climates.csv")]


def climate_celsius(name: str) -> tuple[np.ndarray, str]:
    """Return (8,760 hourly temperatures [C], what they are) of a climate. Raises: InputError for an unknown name."""
    for row in table("climates.csv"):
        if row["climate"] == str(name).strip().lower():
            numbers = [float(row[k]) for k in ("mean_celsius", "season_kelvin", "day_kelvin", "weather_kelvin")]
            return cooling.outdoor_celsius(*numbers), f"{row['climate']}: {row['note']}"
    raise InputError("climate", name, f"must be one of {', '.join(climates())}")
