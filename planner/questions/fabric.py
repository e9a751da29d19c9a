"""Questions on the fabric: how many endpoints, switches and links, and what a failure leaves."""

from __future__ import annotations

from planner.calibration.fabric import named
from planner.errors import InputError
from planner.models.fabric.design import Design, design, max_endpoints
from planner.models.fabric.failures import KINDS, remaining
from planner.models.fabric.low_diameter import prime_power, slim_fly
from planner.models.fabric.rules import CELLS, FLAT, Rule, contradictions, rule_counts, rule_design, units_for
from planner.plan.answer import Answer, exact, missing
from planner.questions.registry import Input, Question
from planner.units import count

GENERAL = "general"
_ALIASES = {"links_node_leaf": "links_host", "cables_node_leaf": "cables_host",
            "switches_total": "switches", "leaves": "leaf", "spines": "spine", "cores": "core", "leaf_switches": "leaf",
            "spine_switches": "spine", "core_switches": "core", "endpoints": "gpus", "total": "switches"}
QUANTITIES = ("gpus", "nodes", "leaf", "spine", "core", "switches", "links_host", "links_leaf_spine", "links_spine_core", "links",
              "links_inter_switch", "cables_host", "cables_leaf_spine", "cables_spine_core", "ports_used", "ports_dark", "cost_usd")


def _units(rule: Rule, given: dict, default: bool = False) -> int:
    endpoints = given.get("endpoints", given.get("gpus"))
    if given.get("units") is not None:
        if endpoints is not None and units_for(rule, endpoints) != given["units"]:
            raise InputError("endpoints", endpoints, f"must be left out, or agree with {given['units']} {rule.unit}s")
        return given["units"]
    if endpoints is not None:
        return units_for(rule, endpoints)
    if rule.topology in FLAT:
        return FLAT[rule.topology](rule.radix)["endpoints"]
    if not rule.default_units and default:
        return 1
    if not rule.default_units:
        raise InputError("units", None, f"is required for {rule.design} ({rule.unit}s), or endpoints")
    return rule.default_units


def _printed(name: str) -> str:
    """Return the quantity as the tables print it: a design counts its links the way its table does."""
    return {"links_host": "cables_host", "links_leaf_spine": "cables_leaf_spine", "links_spine_core": "cables_spine_core"}.get(name, name)


def _printed_row(given: dict) -> dict:
    """Return the printed cells that came with the question. Raises: InputError where they are no object."""
    row = given.get("printed") or {}
    if not isinstance(row, dict):
        raise InputError("printed", row, 'must be an object of cells such as {"leaf": 32, "spine": 16}')
    return {str(name): value for name, value in row.items()}


def _agrees(rule: Rule, given: dict) -> None:
    for name in ("radix", "planes", "rails", "tiers", "ports_per_gpu"):
        fixed = getattr(rule, name)
        # a printed MPFT row calls planes what are separate rails for a GPU
        if given.get(name) is not None and fixed and given[name] not in (fixed, rule.planes * rule.rails):
            raise InputError(name, given[name], f"is {fixed} in {rule.design}: leave it out, or ask for design general")


def _named_counts(given: dict, quantity: str) -> Answer:
    found = named(given["design"], given.get("table"))
    _agrees(found[0], given)
    values = {}
    quantity = "links_inter_switch" if quantity == "links" else quantity
    for rule in found:
        counts = rule_counts(rule, _units(rule, given))
        values[rule.table] = counts.get(_printed(quantity))
    if len(set(values.values())) > 1:
        each = "; ".join(f"{t}: {v:,}" for t, v in values.items())
        raise InputError("table", given.get("table"), f"must be named for {found[0].design}: its tables differ ({each})")
    rule = found[0]
    notes = [rule.note, rule.source]
    if rule.links_per_cable > 1 and quantity.startswith("links"):
        notes.insert(0, f"counted as printed, in cables of {rule.links_per_cable} links")
    if rule.topology in FLAT and all(given.get(n) is None for n in ("units", "endpoints", "gpus")):
        notes.insert(0, "no size was given: the largest that the formula counts at this radix, not a printed size")
    if rule.topology == "slim_fly" and not prime_power(slim_fly(rule.radix)["q"]):
        notes.insert(0, f"q = {slim_fly(rule.radix)['q']} is no power of one prime: counted as comparisons print it, no such graph is known")
    if quantity == "links_inter_switch":
        notes.insert(0, "links between switches, as the tables that print one number count them")
    columns, row = {counted: column for column, counted in CELLS.items()}, {}
    for name, cell in _printed_row(given).items():
        column = name if name in {*CELLS, "su", "units"} else columns.get(_printed(_ALIASES.get(name, name)))
        if column is None:
            raise InputError("printed", name, f"must be of {', '.join([*CELLS, 'su', 'units'])}")
        row[column] = cell
    notes += contradictions(rule, {**row, "su": _units(rule, given)})
    value = values[rule.table]
    if value is None:
        return missing("fabric_counts", "count", f"{rule.design}: {rule.note or 'not published'}")
    return exact("fabric_counts", float(value), "count", basis=f"{rule.design}, {rule.table}", note="; ".join(n for n in notes if n))


def _general(given: dict) -> Design:
    if given.get("radix") is None:
        raise InputError("radix", None, "is required for a general design (ports of one switch at the endpoints' speed)")
    if given.get("units") is not None:
        raise InputError("units", given["units"], "belongs to a published design: give endpoints")
    gpus, endpoints, planes = given.get("gpus"), given.get("endpoints"), given.get("planes", 1)
    if (gpus is None) == (endpoints is None):
        raise InputError("endpoints", endpoints, "is required (per plane and rail), or gpus (of the whole cluster), one of the two")
    ports, mine, rails = given.get("ports_per_gpu", planes), given.get("rails_per_gpu", 1), given.get("rails", 1)
    if gpus is None:
        numbers = [int(count(n, v)) for n, v in (("endpoints", endpoints), ("rails", rails), ("rails_per_gpu", mine),
                                                 ("ports_per_gpu", ports), ("planes", planes))]
        gpus = numbers[0] * numbers[1] // (numbers[2] * max(1, numbers[3] // (numbers[2] * numbers[4])))
    return design(gpus, ports, given["radix"], planes=planes, rails=rails, rails_per_gpu=mine, tiers=given.get("tiers"),
                  oversubscribed=given.get("oversubscription", 1.0), spare=given.get("spare_ports", 0))


def _contradicted(counts: dict, printed: dict) -> list[str]:
    """Return where a printed row differs from the counts of a general design, in sentences."""
    said = []
    for name, value in printed.items():
        known = _ALIASES.get(name, name).replace("cables", "links")
        if known not in counts:
            raise InputError("printed", name, f"of a general design must be of {', '.join(counts)}")
        if value not in (None, "") and int(count(f"printed.{name}", value, 0)) != counts[known]:
            said.append(f"{name} is printed as {int(value):,}; this design has {counts[known]:,}")
    return said


def _general_counts(given: dict, quantity: str) -> Answer:
    made = _general(given)
    counts = {**made.counts, "links_inter_switch": made.counts["links"] - made.counts["links_host"]}
    value = counts.get(quantity.replace("cables", "links"))
    if value is None:
        raise InputError("quantity", quantity, f"of a general design must be one of {', '.join(counts)}")
    net = made.net
    shape = f"{net.tiers} tier{'s' * (net.tiers > 1)}, leaves of {net.down} down and {net.up} up, "
    shape += "non-blocking" if net.nonblocking else f"oversubscribed {net.down / net.up:.4g}:1"
    if net.tiers > 1:
        shape += f", bundles of {' or '.join(map(str, sorted(set(net.bundles))))} links between a leaf and a spine"
    return exact("fabric_counts", float(value), "count", basis=f"{made.rails} rails x {made.planes} planes of {net.endpoints:,} endpoints",
                 note="; ".join([shape, *_contradicted(counts, _printed_row(given))]))


def fabric_counts(given: dict) -> Answer:
    """Answer `fabric_counts`: a count of a published design (by units or endpoints) or of a general one (by radix)."""
    quantity = _ALIASES.get(str(given["quantity"]), str(given["quantity"]))
    if quantity not in QUANTITIES:
        raise InputError("quantity", given["quantity"], f"must be one of {', '.join(QUANTITIES)}")
    name = str(given["design"]).strip().lower()
    return _general_counts(given, quantity) if name in ("", GENERAL) else _named_counts(given, quantity)


def _max_endpoints(given: dict) -> Answer:
    return exact("fabric_max_endpoints", float(max_endpoints(given["radix"], given["tiers"])), "endpoints",
                 basis="one plane of one rail, non-blocking", note="2 (k/2)^L for an even radix; rails multiply GPUs, planes do not")


def _remaining(given: dict) -> Answer:
    failed = given["failed"]
    if isinstance(failed, dict):
        failed = {_PARTS.get(str(k), str(k)): v for k, v in failed.items()}
    elif not isinstance(failed, list):
        raise InputError("failed", failed, 'must be an object of counts such as {"spine": 1}, or a list of parts such as ["r0p3-spine4"]')
    made, rule = fabric(given)
    measure, domain = str(given["measure"]), given.get("domain_gpus", 1)
    if measure not in MEASURES:
        raise InputError("measure", measure, f"must be one of {', '.join(MEASURES)}")
    if rule and rule.forwarding_gpus and isinstance(failed, dict):
        failed = {"rail" if k == "plane" else k: v for k, v in failed.items()}
        domain, measure = max(domain, rule.forwarding_gpus), "over_nvlink" if measure == "gpu" else measure
    left = remaining(made, failed, domain)
    value, upper = (getattr(left, name) for name in MEASURES[measure])
    lower = min(value, left.gpu_adaptive) if measure == "over_nvlink" else value
    notes = [f"{left.gpus_touched:,} of {made.gpus:,} GPUs touched"]
    if measure == "gpu" and left.gpu_even < left.gpu_adaptive:
        notes.insert(0, "NICs spray evenly over live planes (the published 1/uplinks of a NIC); upper: when they weigh planes by what is left")
    if domain > 1:
        notes.append(f"{left.over_nvlink:.6g} when the {domain} GPUs of an NVLink domain share their NICs, {left.gpu_adaptive:.6g} without")
    return Answer("fabric_remaining", value, "fraction", "modelled", "F", lower=lower, upper=upper,
                  basis="of a GPU's healthy scale-out bandwidth, all GPUs busy, failures placed where they hurt most",
                  limit=", ".join(map(str, failed)), note="; ".join(notes))


def fabric(given: dict) -> tuple[Design, Rule | None]:
    """Return the Design that the inputs of a question name and its rule: a published one by units or endpoints, or a general one."""
    if str(given["design"]).strip().lower() in ("", GENERAL):
        return _general(given), None
    found = named(given["design"], given.get("table"))
    if len(found) > 1 and len({(r.radix, r.planes, r.rails, r.gpus_per_unit) for r in found}) > 1:
        raise InputError("table", given.get("table"), f"must be named for {found[0].design}: {'; '.join(r.table for r in found)}")
    _agrees(found[0], given)
    return rule_design(found[0], _units(found[0], given, default=True)), found[0]


MEASURES = {"gpu": ("gpu_even", "gpu_adaptive"), "all_reduce": ("all_reduce_lower", "all_reduce_upper"),
            "all_to_all": ("all_to_all", "all_to_all"), "mean": ("mean", "mean"), "over_nvlink": ("over_nvlink", "over_nvlink")}
_PARTS = {"links": "link", "nic": "nic_port", "nic_ports": "nic_port", "host_link": "nic_port", "leaves": "leaf", "spines": "spine",
          "cores": "core", "planes": "plane", "rails": "rail", "leaf_spine_link": "link", "port": "nic_port"}
_SHAPE = {"planes": Input("planes (general: default 1)", "count"), "rails": Input("rails (general: default 1)", "count"),
          "tiers": Input("tiers 1 to 3 (general: the fewest)", "count"),
          "ports_per_gpu": Input("NIC ports of a GPU after the lane split (general: one a plane)", "count"),
          "rails_per_gpu": Input("rails a GPU has ports in (general: 1)", "count"),
          "oversubscription": Input("leaf down over up bandwidth (general: 1)", "ratio"),
          "spare_ports": Input("ports left dark on every leaf (general: 0)", "count")}
_WHICH = {"design": Input("a published design in any printed spelling, or general", default=GENERAL),
          "table": Input("the published table, where a design has several"),
          "units": Input("scalable units of a published design (its racks, segments or GPUs where it has no units)", "count"),
          "endpoints": Input("general: endpoints per plane and rail; published: GPUs as its table counts them", "count"),
          "gpus": Input("general: GPUs of the whole cluster, instead of endpoints", "count"),
          "radix": Input("logical ports of one switch at the endpoints' speed", "count"), **_SHAPE}

QUESTIONS = (
    Question("fabric_max_endpoints", "most endpoints of a non-blocking Clos", "endpoints", "planner.models.fabric.design.max_endpoints",
             {"radix": Input("logical ports of one switch at the endpoints' speed", "count", True),
              "tiers": Input("switch tiers", "count", True)}, _max_endpoints),
    Question("fabric_counts", "switches, links, nodes or GPUs of a fabric", "count", "planner.models.fabric.design.design",
             {**_WHICH,
              "printed": Input("cells of a printed row, to be held against themselves and the rule", structured=True),
              "quantity": Input(f"one of {', '.join(QUANTITIES)}", required=True)}, fabric_counts),
    Question("fabric_remaining", "what failures leave of a GPU's scale-out bandwidth", "fraction", "planner.models.fabric.failures.remaining",
             {**_WHICH,
              "failed": Input(f"counts by kind ({', '.join(KINDS)}), or a list of named parts", required=True, structured=True),
              "domain_gpus": Input("GPUs of one NVLink domain, for over_nvlink", "GPUs", default=1),
              "measure": Input(f"one of {', '.join(MEASURES)}", default="gpu")}, _remaining),
)
