"""Questions about coolant flow and temperature, and about the hours of a year that need no chiller."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.calibration import cooling as coolants
from planner.calibration import power as calibrated
from planner.errors import InputError
from planner.models import cooling
from planner.plan.answer import Answer, exact
from planner.questions.power import SYSTEM, load_of, system_of, watts_input
from planner.questions.registry import Input, Question
from planner.units import count, fraction, nonnegative, number, positive


def _heat(inputs: Mapping) -> tuple[np.ndarray, str, str]:
    """Return heat to liquid with draws [W], what it is of, and the grade."""
    if "heat_watts" in inputs:
        unused = [k for k in (*SYSTEM, "racks") if k in inputs]
        if "racks" in unused:
            raise InputError("racks", inputs["racks"], "has no effect on a heat: give the heat of all racks, or a system and its racks")
        watts = np.repeat(float(nonnegative("heat_watts", inputs["heat_watts"])), 2)
        said = f"heat as given: {', '.join(unused)} not used" if unused else "heat as given"
        return watts * float(fraction("liquid_fraction", inputs.get("liquid_fraction", 1.0))), said, "A"
    if "system" not in inputs:
        raise InputError("system", None, "is required, or heat_kw")
    load, _ = load_of(inputs)
    rack = system_of(inputs)
    watts = sum(calibrated.rack_watts(rack, load).values()) * int(count("racks", inputs.get("racks", 1)))
    share = inputs.get("liquid_fraction")
    share = coolants.liquid_fraction(rack.name) if share is None else float(fraction("liquid_fraction", share))
    return watts * share, f"{share:.0%} of {rack.label} at load {load.value:.2f} ({load.scope})", "P"


def _liquid(name: str, celsius: object, fluid: object) -> float:
    """Return a coolant temperature [C] at which the coolant is neither ice nor steam. Raises: InputError."""
    low, high = coolants.liquid_range(fluid)
    try:
        return float(number(name, celsius, low, high))
    except InputError as error:
        raise InputError(name, error.value, f"{error.allowed} C: {fluid} freezes below and boils above") from None


def _coolant(inputs: dict) -> Answer:
    heat, what, grade = _heat(inputs)
    inlet = _liquid("inlet_celsius", inputs["inlet_celsius"], inputs["fluid"])
    quantity = inputs["quantity"]
    if quantity in ("outlet", "outlet_celsius"):
        given = next((k for k in ("rise_kelvin", "outlet_celsius") if k in inputs), None)
        if given:
            raise InputError(given, inputs[given], "has no effect where the outlet is asked: it follows from heat and flow")
        flow = float(positive("litres_per_min", inputs.get("litres_per_min"))) / 60
        outlet = inlet + 10
        for _ in range(20):
            heat_capacity, density = coolants.properties(inputs["fluid"], (inlet + outlet) / 2)
            outlet = float(cooling.outlet_celsius(inlet, heat[0], flow, heat_capacity, density))
            _liquid("outlet_celsius", outlet, inputs["fluid"])
        return exact("coolant_l_per_min", outlet, "C", how="modelled", grade=grade, basis=f"outlet temperature; {what}; inlet {inlet:g} C")
    if "litres_per_min" in inputs:
        raise InputError("litres_per_min", inputs["litres_per_min"], f"has no effect on quantity {quantity}: it is for quantity outlet")
    rise = inputs.get("rise_kelvin")
    if "outlet_celsius" in inputs:
        own = _liquid("outlet_celsius", inputs["outlet_celsius"], inputs["fluid"]) - inlet
        if rise is not None and abs(own - float(rise)) > 1e-6:
            raise InputError("outlet_celsius", inputs["outlet_celsius"], f"contradicts a rise of {rise} K over an inlet of {inlet:g} C")
        rise = own
    rise = float(positive("rise_kelvin", coolants.usual_rise() if rise is None else rise))
    _liquid("outlet_celsius", inlet + rise, inputs["fluid"])
    heat_capacity, density = coolants.properties(inputs["fluid"], inlet + rise / 2)
    flow = cooling.coolant_litres_per_s(heat, rise, heat_capacity, density) * 60
    low, high = float(min(np.percentile(flow[1:], 10), flow[0])), float(max(np.percentile(flow[1:], 90), flow[0]))
    note = f"{what}; {flow[0] / heat[0] * 1e3 if heat[0] else 0:.3g} L/min a kW; {inputs['fluid']} at {inlet + rise / 2:g} C"
    basis = f"coolant at {inlet:g} C in, {inlet + rise:g} C out"
    if quantity == "per_kw":
        value = float(flow[0] / heat[0] * 1e3)
        return exact("coolant_l_per_min", value, "L/min/kW", how="modelled", grade="B", basis=basis, note=note)
    if quantity in ("heat", "heat_watts"):
        return Answer("coolant_l_per_min", float(heat[0]), "W", "modelled", grade, basis="heat to liquid", note=what)
    if quantity != "flow":
        raise InputError("quantity", quantity, "must be flow, per_kw, outlet or heat")
    return Answer("coolant_l_per_min", float(flow[0]), "L/min", "modelled", grade, low, high, basis=basis, note=note)


def _chiller_free(inputs: dict) -> Answer:
    inlet = float(number("inlet_celsius", inputs["inlet_celsius"], -10, 80))
    approach = coolants.approach_kelvin()
    own = inputs.get("approach_kelvin")
    ends = tuple(float(nonnegative("approach_kelvin", own)) for _ in range(3)) if own is not None else approach
    if "outdoor_celsius" in inputs and "climate" in inputs:
        raise InputError("climate", inputs["climate"], "says the temperatures a second time (also outdoor_celsius)")
    if "outdoor_celsius" in inputs:
        air, what, grade = inputs["outdoor_celsius"], "temperatures as given", "A" if own is not None else "P"
    elif "climate" in inputs:
        air, what = coolants.climate_celsius(inputs["climate"])
        grade = "P"
    else:
        raise InputError("climate", None, f"is required ({', '.join(coolants.climates())}), or outdoor_celsius as a list of hours")
    value, low, high = (float(cooling.chiller_free_fraction(air, inlet, a)) for a in (ends[0], ends[2], ends[1]))
    return Answer("chiller_free_fraction", value, "fraction", "assumed" if grade == "P" else "modelled", grade, min(low, value), max(high, value),
                  basis=f"dry bulb at most {inlet - ends[0]:g} C, coolant {inlet:g} C", note=what)


RISES = ("rise_k", "delta_t", "delta_t_k", "delta_t_c", "dt", "dt_k")
FLOWS = ("flow_l_per_min", "flow", "l_per_min", "flow_l_min")

QUESTIONS = (
    Question("coolant_l_per_min", "Coolant flow of a liquid-cooled rack", "L/min", "planner.models.cooling.coolant_litres_per_s",
             {**SYSTEM, "heat_watts": watts_input("heat to carry instead of a system's", "heat", ""),
              "inlet_celsius": Input("coolant at the inlet", "C", default=45.0, also={"inlet_c": "C", "inlet": "C", "supply_c": "C"}),
              "outlet_celsius": Input("coolant at the outlet", "C", also={"outlet_c": "C", "outlet": "C", "return_c": "C"}),
              "rise_kelvin": Input("outlet less inlet; absent: as published for this rack class", "K",
                                   also=dict.fromkeys(RISES, "K")),
              "litres_per_min": Input("a given flow, for quantity outlet", "L/min", also=dict.fromkeys(FLOWS, "L/min")),
              "liquid_fraction": Input("share of the heat that goes to liquid", "fraction"), "racks": Input("racks", "count"),
              "fluid": Input("pg25 or water", default="pg25", also={"coolant": ""}),
              "quantity": Input("flow, per_kw, outlet or heat", default="flow")}, _coolant),
    Question("chiller_free_fraction", "Share of the year in which outdoor air alone cools", "fraction",
             "planner.models.cooling.chiller_free_fraction",
             {"inlet_celsius": Input("coolant wanted at the rack", "C", default=45.0, also={"inlet_c": "C"}),
              "approach_kelvin": Input("outdoor air to coolant, every exchanger", "K", also={"approach_k": "K"}),
              "climate": Input("a climate of data/climates.csv"), "outdoor_celsius": Input("hourly temperatures", structured=True)}, _chiller_free),
)
