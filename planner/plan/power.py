"""Power: GPUs and the rest of the rack -> IT -> facility, and how many racks the site feeds."""

from __future__ import annotations

import numpy as np

from planner.errors import Infeasible
from planner.plan.answer import Answer, exact
from planner.plan.inputs import Drawn, answer
from planner.plan.racks import Racks
from planner.scenario import SiteIn
from planner.specs import Rack
from planner.units import whole_down


def rack_watts(rack: Rack, inputs: dict[str, Drawn]) -> np.ndarray:
    """Return the provisioned power of one rack over the draws (n,) [W]: GPUs at their setting plus everything else in the rack."""
    return rack.gpus * rack.accelerator.gpu_watts + inputs["overhead_watts"].values


def power_answers(racks: Racks, rack: Rack, watts: np.ndarray, tokens_per_s: np.ndarray, inputs: dict[str, Drawn],
                  site: SiteIn) -> dict[str, Answer]:
    """Return rack_power, it_power, facility_power, racks_that_fit and tokens_per_mw, each with its basis.

    Parameters: racks; rack; watts (n,) [W] of one rack; tokens_per_s (n,) [1/s] output tokens served at the peak; inputs; site.
    Raises: Infeasible (cause power) when the site feeds less than one rack.
    """
    per_rack = float(watts[0]) * site.pue
    found = {
        "rack_power": answer("rack_power", watts / 1e3, "kW", inputs, basis="IT, provisioned: GPUs at their setting"),
        "it_power": answer("it_power", watts * racks.total / 1e6, "MW", inputs, basis="IT, racks only, provisioned, spares on"),
        "facility_power": answer("facility_power", watts * racks.total * site.pue / 1e6, "MW", inputs,
                                 basis=f"facility, provisioned, PUE {site.pue:g}"),
        "tokens_per_mw": answer("tokens_per_mw", tokens_per_s / (watts * racks.total * site.pue / 1e6), "tok/s/MW", inputs,
                                basis="output tokens at the peak, GPUs deployed, facility, provisioned"),
    }
    if rack.rack_watts is not None and "rack_watts" in inputs:
        printed = inputs["rack_watts"]
        found["rack_power_published"] = answer("rack_power_published", printed.values / 1e3, "kW", {"rack_watts": printed},
                                               basis="whole rack, as published: compare, not used")
    if site.facility_watts is not None:
        fit = int(whole_down(site.facility_watts / per_rack))
        if fit < 1:
            kw = f"{per_rack / 1e3:,.0f} kW"
            raise Infeasible("power", f"one rack needs {kw} at the meter, the site has {site.facility_watts / 1e3:,.0f} kW",
                             f"a site of at least {kw}")
        found["racks_that_fit"] = exact("racks_that_fit", fit, "racks", basis="facility power over provisioned rack power", grade="P",
                                        how="modelled")
    return found
