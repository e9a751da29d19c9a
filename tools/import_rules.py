"""The closed words that printed claims are brought into: units, quantities, bases, profiles, and rows that are never chosen.

Each table names the quirk it settles. `import_reference.py` applies them; data/vocabulary.csv explains the words.
"""

from __future__ import annotations

import re

GRADES = "ABCDEFP"
MERGED = {
    "scale_up_per_gpu": "nvlink_bandwidth_per_gpu", "scale_out_per_gpu": "scale_out_bandwidth_per_gpu",
    "scale_out_per_rack": "scale_out_bandwidth_per_rack", "scale_out_per_system": "scale_out_bandwidth_per_system",
    "fp4_dense": "nvfp4_dense", "bf16_fp16_dense": "bf16_dense", "tdp_default": "tdp", "tgp_as_tested": "tdp", "asic": "switch_capacity",
    "aggregate_throughput": "switch_capacity", "capacity_max": "cooling_capacity_max", "mean_prompt_tokens": "mean_input_tokens",
    "mean_response_tokens": "mean_output_tokens", "nvlink_links": "links_per_gpu", "nvlink6_tray_bandwidth": "nvlink_bandwidth_per_tray",
    "nvlink6_switch_tray_bandwidth": "nvlink_bandwidth_per_switch_tray"}
MERGED_BY_UNIT = {("capacity", "Tb/s"): "switch_capacity", ("capacity", "kW"): "cooling_capacity", ("capacity", "MW"): "cooling_capacity"}
MERGED_BY_SUBJECT = {("fp4_dense", "mi355x"): "mxfp4_dense"}  # this GPU's FP4 is the OCP microscaling format

AMBIGUOUS = re.compile(r"gb-nvl72|nvl72|vr-or-gb300-nvl72|all-nvidia")  # one subject for several systems
SUPERSEDED = re.compile(r"vr-nvl144-2025|vr200-2025|vr300-2025|vr-nvl144-cpx|.*-nvl576-2025")  # roadmap names of 2025
NEVER = {
    "H0118": "contradicted by the official dense figure", "H0119": "contradicted by the official dense figure",
    "H0120": "contradicted by the official dense figure", "H0287": "3000 kg is 3000 lb", "H0109": "old press reading",
    "H0331": "old press reading", "H0414": "a GB300 figure credited to Vera Rubin", "X0336": "two orders of magnitude off",
    "H0015": "28.8 + 18 x 0.2 TB/s: BlueField-4 ports included", "H0016": "28.8 + 18 x 0.2 TB/s: BlueField-4 ports included",
    "X0073": "implausible as idle power", "X0267": "18 x 3.2 kW does not fit the rack total", "X0379": "the page has other errors"}
DOUBTED = re.compile(r"do not use|treat as wrong|wrong as stated|superseded|garbled|;?\s*secondary; higher than measured")
NOTES = {
    "H0017": "per-GPU BF16 is printed in the MaxLPS column only and stands for both profiles",
    "H0018": "printed in the MaxLPS column; the up-to column's 1,260 PFLOPS a rack is 72 times the same figure",
    "H0019": "printed in the up-to column only and stands for both profiles"}
REASONS = {"H0385": "the figure that AMD states, the other is a die's"}
LOWER_GRADE = "treat as grade F at best"
PRESS_AS_A = {"H0072", "H0073", "H0407", "H0408", "H0409", "H0410"}

UNITS = {
    "": "1", "F": "degF", "billion": "billion", "million": "million", "years": "years", "weeks": "weeks", "bytes": "B", "x": "ratio",
    "x lower": "ratio", "x fewer": "ratio", "x steady state": "ratio", "fraction": "fraction", "fraction of 10.2 kW": "fraction",
    "L/min per kW": "L/min/kW", "L/min for 100 kW": "L/min", "h/yr": "h/year", "V DC": "V", "VAC": "V", "USD per rack": "USD",
    "GB/s per GPU": "GB/s", "TiB per AZ": "TiB", "kJ/kg K": "kJ/kg/K", "MUSD/MW-yr": "MUSD/MW-year", "MUSD/yr": "MUSD/year",
    "Mgal/MW-yr": "Mgal/MW-year", "failures/day": "1/day", "MB/s per W": "MB/s/W", "IOPS": "IOPS", "million IOPS": "MIOPS",
    "% per year": "%/year", "% per C": "%/C", "GW of 12 GW announced": "GW", "GbE": "Gb/s", "gen x lanes": "1", "generation": "1", "date": "1",
    "75% water / 25% propylene glycol": "1", "tok/s/MW": "tok/s/MW"}
UNITS_BY_QUANTITY = {
    "price_per_kw_month": "USD/kW-month", "price_per_month": "USD/month", "price_per_month_2014": "USD/month", "gpu_hour_price": "USD/GPU-h",
    "rental_per_rack_hour": "USD/h", "early_delete_fee": "USD/GB"}

WATTS = {  # whose power a power claim is, by the words of its quantity, first match
    "compute_tray_power": "tray", "tray_power_max": "tray", "blade_power": "tray", "superchip_power": "superchip",
    "nvlink_switch_trays_power": "rack_part", "power_shelf_overhead": "rack_part", "gpu_power_sum": "rack_part", "rack": "rack",
    "power_shelf_dc_output": "rack", "power_shelf_usable_output": "rack", "system_power": "system", "peak_node_power": "system",
    "sustained_wall_power": "system", "scalable_unit_power": "it", "farm_peak_power": "it", "all_in_power": "facility",
    "site_capacity": "undisclosed", "under_construction": "undisclosed", "in_rack_cdu_capacity": "heat", "cooling_capacity": "heat",
    "heat_rejection": "heat"}
LINKS = ("nvlink", "scale_out", "scale_up", "pcie", "c2c", "port_speed", "interface_bandwidth", "io_bandwidth", "switch_capacity",
         "switching_per_rack", "bisection_bandwidth")
BASIS_BY_ID = {"H0303": "realistic", "X0334": "peak", "H0046": "one_direction", "X0222": "both_directions", "X0223": "one_direction",
               "X0376": "peak"}

PROFILES = {  # rows of one subject and quantity that hold under different conditions
    "H0065": "maxlps", "H0169": "cx8", "H0187": "cx8", "H0142": "copper", "H0143": "optical", "H0363": "pluggable", "H0364": "cpo",
    "H0332": "hyperscale", "H0333": "average", "H0393": "peak", "H0394": "typical", "H0457": "tier-1", "H0458": "tier-2",
    "H0373": "51.2t", "H0372": "102.4t", "H0101": "max-q", "H0102": "max-p", "H0297": "max-q", "H0298": "max-p", "H0299": "max-q",
    "H0300": "max-p", "X0031": "training", "H0465": "hopper"}
COLUMNS = ("hbm_bandwidth_per_gpu", "hbm_bandwidth_per_rack", "nvlink_bandwidth_per_gpu", "nvlink_bandwidth_per_rack",
           "scale_out_bandwidth_per_gpu", "scale_out_bandwidth_per_rack")

QUALIFIERS = (  # a word of the printed basis that qualifies the number itself, never a word about something else
    (re.compile(r"^about(,|$)|^(approx\w*|around|roughly|estimated?)\b|, (about|around)$|, about,"), "about"),
    (re.compile(r"(^|, )up to( \(|$|,)|^up to\b(?! \d)|as (high|much) as"), "up to"),
    (re.compile(r"(^|, )(over|above|exceeding|more than)(,|;|$)"), "more than"),
    (re.compile(r"(^|, )(under|less than)$"), "less than"))
LOCATORS = (re.compile(r"\bp\.\s?\d+|\bpp\. [\d, -]+\d"), re.compile(r"\b(?:Tables?|Fig(?:ure)?\.?|[Ss]ec(?:tion|\.)?|ch\.|Pt\.) ?[\d.]*\d"),
            re.compile(r"[Aa]ppendix [A-Z][\d.]*"), re.compile(r"spec table"), re.compile(r"constants\.ts"), re.compile(r"commit [0-9a-f]{7}"),
            re.compile(r"issue \d+|pull request \d+"))
ITEM_LOCATOR = re.compile(r"\bD\.\d\b")
