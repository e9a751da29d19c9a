"""Coolant flow, outlet temperature and pump power of liquid-cooled racks, and the share of a year without chillers."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from planner.errors import InputError
from planner.units import fraction, nonnegative, number, positive

HOURS = 8760


def heat_split_watts(rack_watts, liquid_fraction):
    """Return the heat of a rack by where it goes: to liquid h = f R, to the room's air R - h; all power becomes heat.

    Parameters: rack_watts R [W]; liquid_fraction f [1]. Returns: ordered dict `liquid`, `air` [W] that sums to R. Raises: InputError.
    Validity: steady state. Error: exact. Source: energy balance.
    """
    power, share = nonnegative("rack_watts", rack_watts), fraction("liquid_fraction", liquid_fraction)
    return {"liquid": (power * share)[()], "air": (power * (1 - share))[()]}


def coolant_litres_per_s(heat_watts, rise_kelvin, specific_heat_j_per_kg_kelvin, density_kg_per_litre):
    """Return the coolant flow that carries a heat: V = Q / (c rho dT).

    Parameters: heat_watts Q [W]; rise_kelvin dT [K] outlet less inlet; specific_heat c [J/kg/K]; density rho [kg/L].
    Returns: flow [L/s]. Raises: InputError for a rise of 0 or below. Validity: no boiling, properties at the mean temperature.
    Error: within 2 % of the published rule of 1.5 L/min per kW for PG25 at 10 K (data/references/cooling.csv). Source: heat balance.
    """
    heat, rise = nonnegative("heat_watts", heat_watts), positive("rise_kelvin", rise_kelvin)
    return (heat / (positive("specific_heat", specific_heat_j_per_kg_kelvin) * positive("density", density_kg_per_litre) * rise))[()]


def outlet_celsius(inlet_celsius, heat_watts, litres_per_s, specific_heat_j_per_kg_kelvin, density_kg_per_litre):
    """Return the outlet temperature of a given flow: T = Ti + Q / (c rho V).

    Parameters: inlet_celsius Ti [C]; heat_watts Q [W]; litres_per_s V [L/s]; specific_heat c [J/kg/K]; density rho [kg/L].
    Returns: temperature [C]. Raises: InputError. Validity: as `coolant_litres_per_s`. Error: its exact inverse. Source: heat balance.
    """
    inlet, heat = number("inlet_celsius", inlet_celsius, -40, 100), nonnegative("heat_watts", heat_watts)
    flow = positive("litres_per_s", litres_per_s)
    return (inlet + heat / (positive("specific_heat", specific_heat_j_per_kg_kelvin) * positive("density", density_kg_per_litre) * flow))[()]


def pump_watts(litres_per_s, pressure_pascal, pump_efficiency):
    """Return the electric power of a pump: P = V dp / e.

    Parameters: litres_per_s V [L/s]; pressure_pascal dp [Pa]; pump_efficiency e [1]. Returns: power [W]. Raises: InputError.
    Validity: pump and motor together. Error: exact by definition; dp not validated. Source: hydraulic power.
    """
    flow, pressure = nonnegative("litres_per_s", litres_per_s), nonnegative("pressure_pascal", pressure_pascal)
    return (flow * 1e-3 * pressure / fraction("pump_efficiency", pump_efficiency, zero=False))[()]


def chiller_free_fraction(outdoor_celsius, inlet_celsius, approach_kelvin):
    """Return the share of hours in which outdoor air alone cools the coolant: T_out <= T_in - approach.

    Parameters: outdoor_celsius (hours,) [C] dry bulb, one value an hour or any even sample; inlet_celsius (...) [C] wanted at the rack;
    approach_kelvin (...) [K] from outdoor air to coolant over every exchanger. Returns: fraction [1], broadcast shape of the last two.
    Raises: InputError for fewer than 24 values or a temperature outside -90 to 60 C. Validity: dry coolers, storage ignored.
    Error: exact for the temperatures given. Source: counting.
    """
    air = np.sort(number("outdoor_celsius", outdoor_celsius, -90, 60).ravel())
    if air.size < 24:
        raise InputError("outdoor_celsius", air.size, "must hold at least 24 values")
    limit = number("inlet_celsius", inlet_celsius, -20, 90) - nonnegative("approach_kelvin", approach_kelvin)
    return (np.searchsorted(air, limit, side="right") / air.size)[()]


def outdoor_celsius(mean_celsius, season_kelvin, day_kelvin, weather_kelvin):
    """Return 8,760 hourly temperatures of a plain climate: mean + season + day + weather, the last a fixed normal spread.

    T(h) = m - s cos(2 pi d / 365) - a cos(2 pi (h - 3) / 24) + w z; z runs once through 2,190 normal quantiles, four hours each, in a
    fixed order without season, so that equal inputs give equal hours. Parameters: mean m [C]; season s, day a half amplitudes [K]; weather w
    standard deviation [K]. Returns: (8760,) [C]. Raises: InputError. Validity: where no hourly record is at hand; heat waves are only as
    long as w allows. Error: not validated: an assumption of its four numbers. Source: Fourier's first terms.
    """
    mean, parts = number("mean_celsius", mean_celsius, -60, 50), [nonnegative(n, v) for n, v in (
        ("season_kelvin", season_kelvin), ("day_kelvin", day_kelvin), ("weather_kelvin", weather_kelvin))]
    hour = np.arange(HOURS)
    # a spell of weather lasts four hours here; multiplying by a number prime to 2,190 spreads the quantiles over the year
    spell = (hour // 4 * 787) % (HOURS // 4)
    weather = ndtri((spell + 0.5) / (HOURS // 4))
    return mean - parts[0] * np.cos(2 * np.pi * hour / HOURS) - parts[1] * np.cos(2 * np.pi * (hour - 3) / 24) + parts[2] * weather
