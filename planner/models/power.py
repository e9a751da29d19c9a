"""Power from the GPU's setting to the meter, racks that a site feeds, and tokens per joule on a named boundary."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.errors import Infeasible, InputError
from planner.units import count, fraction, nonnegative, number, positive, whole_down


def gpu_watts(setting_watts, load_fraction, idle_fraction):
    """Return the mean power of one GPU: P = S (i + (1 - i) L).

    Parameters: setting_watts S [W] the power limit; load_fraction L [1], 0 idle to 1 at the limit; idle_fraction i [1] idle power over
    the limit; all broadcast. Returns: power [W]. Raises: InputError for S <= 0 or a share outside 0..1.
    Validity: mean over seconds, HBM GPUs; L is a share of power, not of utilisation counters. Error: not validated alone; with `node_parts_watts`
    within 5 % of two measured eight-GPU nodes. Source: affine fit of an idle and a loaded reading.
    """
    setting, load, idle = positive("setting_watts", setting_watts), fraction("load_fraction", load_fraction), fraction("idle_fraction", idle_fraction)
    return (setting * (idle + (1 - idle) * load))[()]


def budget_watts(supply_watts, max_watts, typical_watts, basis: str):
    """Return what to plan a device with: its maximum draw to provision, its typical draw for energy, never the sum of its supplies.

    Parameters: supply_watts [W] of all its power supplies, redundant ones too; max_watts and typical_watts [W] of the device; basis, `max` or
    `typical`. Returns: power [W]. Raises: InputError for another basis, or values out of order (typical <= max <= supplies).
    Validity: a device with its own data sheet. Error: exact, a choice among printed values. Source: data sheets keep the three apart.
    """
    if basis not in ("max", "typical"):
        raise InputError("basis", basis, "must be max (to provision) or typical (for energy): the rating of the supplies is neither")
    supply, most, usual = positive("supply_watts", supply_watts), positive("max_watts", max_watts), positive("typical_watts", typical_watts)
    for name, low, high in (("max_watts", most, supply), ("typical_watts", usual, most)):
        if (low > high).any():
            raise InputError(name, float(np.max(low)), f"must be at most {float(np.min(high)):g}")
    return (most if basis == "max" else usual)[()]


def node_parts_watts(gpus_watts, host_watts, fan_fraction, supply_efficiency):
    """Return what one node draws at the wall, by part: DC = (G + H) / (1 - f), wall = DC / e.

    Parameters: gpus_watts G [W] all GPUs of the node; host_watts H [W] CPUs, memory, drives, NICs; fan_fraction f [1] of DC power that
    moves air; supply_efficiency e [1]; all broadcast.
    Returns: ordered dict `GPUs`, `host`, `fans`, `conversion` [W] that sums to the wall power. Raises: InputError for negative power,
    f outside 0..1 or equal to 1, e outside (0, 1].
    Validity: steady load. Error: within 5 % of the two MLPerf rows with measured wall power, which no constant was fitted to
    (tests/models/test_power.py); two rows are all there is. Source: energy balance.
    """
    gpus, host = nonnegative("gpus_watts", gpus_watts), nonnegative("host_watts", host_watts)
    fans, efficiency = fraction("fan_fraction", fan_fraction), fraction("supply_efficiency", supply_efficiency, zero=False)
    if (fans >= 1).any():
        raise InputError("fan_fraction", 1.0, "must be < 1: fans cannot take all the power")
    dc = (gpus + host) / (1 - fans)
    return {"GPUs": (gpus + 0 * dc)[()], "host": (host + 0 * dc)[()], "fans": (fans * dc)[()], "conversion": (dc / efficiency - dc)[()]}


def fan_fraction_from_wall(wall_watts, gpus_watts, host_watts, supply_efficiency):
    """Return the share of DC power that fans (and what else is not named) take, from a wall reading: f = 1 - (G + H) / (W e).

    Parameters: wall_watts W, gpus_watts G, host_watts H [W]; supply_efficiency e [1]. Returns: share [1]. Raises: InputError where the
    named parts exceed what reaches them. Validity: the inverse of `node_parts_watts`. Error: exact inverse. Source: energy balance.
    """
    dc = positive("wall_watts", wall_watts) * fraction("supply_efficiency", supply_efficiency, zero=False)
    named = nonnegative("gpus_watts", gpus_watts) + nonnegative("host_watts", host_watts)
    if (named > dc * (1 + 1e-9)).any():
        raise InputError("wall_watts", float(np.min(dc)), f"after conversion must be >= the named parts ({float(np.max(named)):,.0f} W)")
    return np.maximum(1 - named / dc, 0.0)[()]


def rack_parts_watts(named_watts: Mapping, rack_watts, supply_efficiency):
    """Return the parts of a rack's provisioned power: the named ones, conversion c = R (1 - e), and the rest, which sum to the rack.

    Parameters: named_watts, part -> power [W] after conversion; rack_watts R [W] at the rack's input; supply_efficiency e [1].
    Returns: ordered dict of [W] that sums to R, with `conversion` and `rest (regulators, fans, pumps, management)` last.
    Raises: InputError where the named parts and conversion exceed the rack. Validity: provisioned power, all parts at their maximum.
    Error: the rest is a remainder, not validated by itself; totals lie inside the published ranges. Source: energy balance.
    """
    total, efficiency = positive("rack_watts", rack_watts), fraction("supply_efficiency", supply_efficiency, zero=False)
    parts = {name: nonnegative(name, value)[()] for name, value in named_watts.items()}
    loss = total * (1 - efficiency)
    rest = total - loss - sum(parts.values())
    if (np.asarray(rest) < -1e-9 * total).any():
        raise InputError("rack_watts", float(np.min(total)), f"must hold its named parts and conversion ({float(np.max(total - rest)):,.0f} W)")
    return {**parts, "conversion": loss[()], "rest (regulators, fans, pumps, management)": np.maximum(rest, 0.0)[()]}


def loaded_watts(gpus_watts, rest_watts, rest_fixed_fraction, load_fraction):
    """Return the mean power of a rack at a load: P = G + O (a + (1 - a) L), with G the GPUs' own mean power.

    Parameters: gpus_watts G [W] at this load; rest_watts O [W] everything else at full load; rest_fixed_fraction a [1] of it that does
    not move with the load; load_fraction L [1]. Returns: power [W]. Raises: InputError.
    Validity: 0 <= L <= 1. Error: not validated: no measured rack is published. Source: affine law, share an assumption of the caller.
    """
    fixed, load = fraction("rest_fixed_fraction", rest_fixed_fraction), fraction("load_fraction", load_fraction)
    return (nonnegative("gpus_watts", gpus_watts) + nonnegative("rest_watts", rest_watts) * (fixed + (1 - fixed) * load))[()]


def pool_watts(num_units, busy_units, busy_watts, idle_watts):
    """Return the power of a pool of which some work: P = b Pb + (n - b) Pi.

    Parameters: num_units n, busy_units b [1]; busy_watts Pb, idle_watts Pi [W] of one unit. Returns: power [W].
    Raises: InputError for b > n, negative values, or an idle power above the busy one. Validity: two states. Error: exact.
    Source: sum over units.
    """
    total, busy = count("num_units", num_units, 0), count("busy_units", busy_units, 0)
    at_work, at_rest = nonnegative("busy_watts", busy_watts), nonnegative("idle_watts", idle_watts)
    if (busy > total).any():
        raise InputError("busy_units", int(np.max(busy)), f"must be at most num_units ({int(np.min(total))})")
    if (at_rest > at_work).any():
        raise InputError("idle_watts", float(np.max(at_rest)), f"must be at most busy_watts ({float(np.min(at_work)):g})")
    return (busy * at_work + (total - busy) * at_rest)[()]


def _pue(value):
    ratio = number("pue", value, high=100.0)
    if (ratio < 1).any():
        low = float(np.min(ratio))
        raise InputError("pue", low, "must be >= 1: facility power over IT power" + (f" (upside down? {1 / low:.3g})" if 0.05 < low < 1 else ""))
    return ratio


def pue_ratio(facility_watts, it_watts):
    """Return PUE = facility / IT, refused below 1.

    Parameters: facility_watts and it_watts [W], or energies over one period [J]. Returns: ratio [1] >= 1. Raises: InputError where the
    facility is below its IT. Validity: one boundary and one period for both. Error: exact by definition. Source: ISO/IEC 30134-2.
    """
    return _pue(positive("facility_watts", facility_watts) / positive("it_watts", it_watts))[()]


def facility_watts(watts, pue, basis="it"):
    """Return power at the meter; PUE is applied once: F = PUE x IT, and facility power stays as it is.

    Parameters: watts [W] or energy [J]; pue [1]; basis, what `watts` is: "it" or "facility". Returns: power [W].
    Raises: InputError for another basis, PUE below 1, negative power. Validity: PUE at this load. Error: exact. Source: ISO/IEC 30134-2.
    """
    ratio, given = _pue(pue), nonnegative("watts", watts)
    if basis not in ("it", "facility"):
        raise InputError("basis", basis, "must be it or facility")
    return (given * ratio if basis == "it" else given + 0 * ratio)[()]


def it_watts(watts, pue, basis="facility"):
    """Return IT power: IT = F / PUE, the inverse of `facility_watts`.

    Parameters: watts [W]; pue [1]; basis, what `watts` is: "it" or "facility". Returns: power [W]. Raises: InputError as
    `facility_watts`. Validity: PUE at this load. Error: exact. Source: ISO/IEC 30134-2.
    """
    ratio, given = _pue(pue), nonnegative("watts", watts)
    if basis not in ("it", "facility"):
        raise InputError("basis", basis, "must be it or facility")
    return (given / ratio if basis == "facility" else given + 0 * ratio)[()]


def racks_that_fit(site_watts, rack_watts, pue, feeds=1, feeds_down=0):
    """Return how many racks a site feeds: n = floor(S (k - d) / k / (PUE R)), forgiving the last bits of a float.

    Parameters: site_watts S [W] at the meter, all feeds; rack_watts R [W] IT of one rack; pue [1]; feeds k [1]; feeds_down d [1] that
    may fail at once (N: 0; N+1 of k: 1; 2N: k = 2, d = 1). Returns: whole racks [1].
    Raises: InputError; Infeasible (power) where not one rack fits. Validity: equal feeds, provisioned power. Error: exact. Source: division.
    """
    k, d = count("feeds", feeds), count("feeds_down", feeds_down, 0)
    if (d >= k).any():
        raise InputError("feeds_down", int(np.max(d)), f"must be below feeds ({int(np.min(k))})")
    usable, each = positive("site_watts", site_watts) * (k - d) / k, positive("rack_watts", rack_watts) * _pue(pue)
    racks = whole_down(usable / each)
    if (np.asarray(racks) < 1).any():
        need, have = float(np.max(each)) / 1e3, float(np.min(usable)) / 1e3
        raise Infeasible("power", f"one rack needs {need:,.1f} kW at the meter, {have:,.1f} kW can be used",
                         f"a site of {float(np.max(each * k / (k - d))) / 1e3:,.1f} kW")
    return racks


def capped_throughput_fraction(cap_watts, setting_watts, idle_fraction, exponent):
    """Return throughput under a power cap over throughput at the setting: y = ((C - I) / (S - I))^x with I = i S.

    Parameters: cap_watts C, setting_watts S [W]; idle_fraction i [1]; exponent x [1]. Returns: fraction [1], 1 at the setting.
    Raises: InputError for a cap above the setting or at or below idle, or an exponent outside (0, 1].
    Validity: extrapolated: one GPU, one model and two scenarios were published at two caps; memory-bound work loses less, compute-bound more.
    Error: both published pairs within 2 % by construction (one exponent, two rows); no row is left to judge it by.
    Source: MLPerf v6.0, MI355X at 1,400 W and at a cap of 1,000 W.
    """
    cap, setting = positive("cap_watts", cap_watts), positive("setting_watts", setting_watts)
    idle, power = fraction("idle_fraction", idle_fraction) * setting, fraction("exponent", exponent, zero=False)
    if (cap > setting).any():
        raise InputError("cap_watts", float(np.max(cap)), f"must be at most the setting ({float(np.min(setting)):g} W)")
    if (cap <= idle).any():
        raise InputError("cap_watts", float(np.min(cap)), f"must be above idle power ({float(np.max(idle)):g} W)")
    return (((cap - idle) / (setting - idle)) ** power)[()]


def output_tokens_per_s(total_tokens_per_s, input_tokens, output_tokens):
    """Return the output part of a total token rate: y = T o / (i + o).

    Parameters: total_tokens_per_s T [1/s] input and output together; input_tokens i, output_tokens o [token] of one request.
    Returns: rate [1/s]. Raises: InputError. Validity: steady state. Error: exact. Source: definition.
    """
    given, inside = nonnegative("total_tokens_per_s", total_tokens_per_s), nonnegative("input_tokens", input_tokens)
    out = positive("output_tokens", output_tokens)
    return (given * out / (inside + out))[()]


def tokens_per_joule(tokens_per_s, watts):
    """Return tokens per joule, which is tokens per second per watt; 1e6 times it is tokens per second per megawatt.

    Parameters: tokens_per_s [1/s]; watts [W] of everything on the boundary that the caller names. Returns: [token/J].
    Raises: InputError for a rate below 0 or a power of 0. Validity: both over one period and one set of GPUs. Error: exact. Source: definition.
    """
    return (nonnegative("tokens_per_s", tokens_per_s) / positive("watts", watts))[()]


def joules_per_token(watts, seconds, tokens):
    """Return energy per token: E = P t / n.

    Parameters: watts [W] of all devices together; seconds [s]; tokens [token] made in that time. Returns: [J/token].
    Raises: InputError. Validity: one period. Error: exact. Source: definition.
    """
    return (nonnegative("watts", watts) * positive("seconds", seconds) / positive("tokens", tokens))[()]
