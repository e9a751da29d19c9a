"""Cost: rent by the GPU-hour for every GPU in every rack, spread over the tokens served on average; missing stays missing."""

from __future__ import annotations

import numpy as np

from planner.plan.answer import Answer, missing
from planner.plan.inputs import Drawn, answer
from planner.plan.racks import Racks
from planner.specs import Rack

UNITS_OF = {"usd_per_h": "USD/h", "usd_per_mtok_output": "USD/Mtok", "usd_per_mtok_input": "USD/Mtok", "usd_per_mtok_total": "USD/Mtok"}


def cost_answers(racks: Racks, rack: Rack, mean_output_per_s: float, mean_input_per_s: float, prefill_fraction: np.ndarray,
                 inputs: dict[str, Drawn], price_date: str) -> dict[str, Answer]:
    """Return usd_per_h and the cost per million output, input and total tokens.

    Parameters: racks; rack; mean_output_per_s and mean_input_per_s [1/s] tokens served on average over time (the peak over
    peak_to_mean); prefill_fraction (n,) [1] of GPU time; inputs, with `gpu_hour_usd` where a price exists; price_date.
    Returns: answers; each "not available" without a price. Raises: nothing.
    """
    if "gpu_hour_usd" not in inputs:
        return {name: missing(name, unit, f"no price for {rack.label} in [prices]") for name, unit in UNITS_OF.items()}
    hourly = inputs["gpu_hour_usd"].values * racks.total * rack.gpus
    per_s = hourly / 3600
    dated = f"rent of all racks, price of {price_date}"

    def per_million(name, rate, share, basis):
        if rate <= 0:
            return missing(name, "USD/Mtok", "no such tokens in this workload")
        return answer(name, per_s * share / rate * 1e6, "USD/Mtok", inputs, basis=f"{basis}; {dated}")

    return {
        "usd_per_h": answer("usd_per_h", hourly, "USD/h", inputs, basis=dated),
        "usd_per_mtok_output": per_million("usd_per_mtok_output", mean_output_per_s, 1.0, "all cost on output tokens, mean load"),
        "usd_per_mtok_total": per_million("usd_per_mtok_total", mean_output_per_s + mean_input_per_s, 1.0, "input and output alike"),
        "usd_per_mtok_input": per_million("usd_per_mtok_input", mean_input_per_s, prefill_fraction, "the prefill share of GPU time"),
        "usd_per_mtok_output_split": per_million("usd_per_mtok_output_split", mean_output_per_s, 1 - prefill_fraction,
                                                 "the decode share of GPU time"),
    }
