"""Questions on the fabric: how many endpoints, switches and links, and what a failure leaves."""

from __future__ import annotations

from planner.calibration.fabric import named
from planner.errors import InputError
from planner.models.fabric.design import design, max_endpoints
from planner.models.fabric.rules import FLAT, Rule, contradictions, rule_counts, units_for
from planner.plan.answer import Answer, exact, missing
from planner.questions.registry import Input, Question

GENERAL = "general"
_ALIASES = {"links_node_leaf": "links_host", "cables_node_leaf": "cables_host",
            "switches_total": "switches", "leaves": "leaf", "spines": "spine", "cores": "core", "leaf_switches": "leaf",
            "spine_switches": "spine", "core_switches": "core", "endpoints": "gpus", "total": "switches"}
QUANTITIES = ("gpus", "nodes", "leaf", "spine", "core", "switches", "links_host", "links_leaf_spine", "links_spine_core", "links",
              "links_inter_switch", "cables_host", "cables_leaf_spine", "cables_spine_core", "ports_used", "ports_dark", "cost_usd")


def _units(rule: Rule, given: dict) -> int:
    endpoints = given.get("endpoints", given.get("gpus"))
    if given.get("units") is not None:
        if endpoints is not None and units_for(rule, endpoints) != given["units"]:
            raise InputError("endpoints", endpoints, f"must be left out, or agree with {given['units']} {rule.unit}s")
        return given["units"]
    if endpoints is not None:
        return units_for(rule, endpoints)
    if rule.topology in FLAT:
        return FLAT[rule.topology](rule.radix)["endpoints"]
    if not rule.default_units:
        raise InputError("units", None, f"is required for {rule.design} ({rule.unit}s), or endpoints")
    return rule.default_units


def _printed(name: str) -> str:
    """Return the quantity as the tables print it: a design counts its links the way its table does."""
    return {"links_host": "cables_host", "links_leaf_spine": "cables_leaf_spine", "links_spine_core": "cables_spine_core"}.get(name, name)


def _named_counts(given: dict, quantity: str) -> Answer:
    found = named(given["design"], given.get("table"))
    for name in ("radix", "planes", "rails", "tiers", "ports_per_gpu"):
        fixed = getattr(found[0], name)
        # a printed MPFT row calls planes what are separate rails for a GPU
        if given.get(name) is not None and fixed and given[name] not in (fixed, found[0].planes * found[0].rails):
            raise InputError(name, given[name], f"is {fixed} in {found[0].design}: leave it out, or ask for design general")
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
    if quantity == "links_inter_switch":
        notes.insert(0, "links between switches, as the tables that print one number count them")
    notes += contradictions(rule, {**given.get("printed", {}), "su": _units(rule, given)})
    value = values[rule.table]
    if value is None:
        return missing("fabric_counts", "count", f"{rule.design}: {rule.note or 'not published'}")
    return exact("fabric_counts", float(value), "count", basis=f"{rule.design}, {rule.table}", note="; ".join(n for n in notes if n))


def _general_counts(given: dict, quantity: str) -> Answer:
    for name in ("radix",):
        if given.get(name) is None:
            raise InputError(name, None, "is required for a general design (ports of one switch at the endpoints' speed)")
    rails, planes = given.get("rails", 1), given.get("planes", 1)
    if given.get("units") is not None:
        raise InputError("units", given["units"], "belongs to a published design: give endpoints")
    gpus, endpoints = given.get("gpus"), given.get("endpoints")
    if (gpus is None) == (endpoints is None):
        raise InputError("endpoints", endpoints, "is required (per plane and rail), or gpus (of the whole cluster), one of the two")
    ports = given.get("ports_per_gpu", planes)
    more = {"planes": planes, "rails": rails, "rails_per_gpu": given.get("rails_per_gpu", 1), "tiers": given.get("tiers"),
            "oversubscribed": given.get("oversubscription", 1.0), "spare": given.get("spare_ports", 0)}
    if gpus is None:
        from planner.units import count

        per_gpu = max(1, ports // (more["rails_per_gpu"] * planes)) if planes and more["rails_per_gpu"] else 1
        gpus = int(count("endpoints", endpoints)) * int(count("rails", rails)) // (more["rails_per_gpu"] * per_gpu)
    made = design(gpus, ports, given["radix"], **more)
    counts = {**made.counts, "links_inter_switch": made.counts["links"] - made.counts["links_host"]}
    value = counts.get(quantity.replace("cables", "links"))
    if value is None:
        raise InputError("quantity", quantity, f"of a general design must be one of {', '.join(counts)}")
    net = made.net
    return exact("fabric_counts", float(value), "count", basis=f"{made.rails} rails x {made.planes} planes of {net.endpoints:,} endpoints",
                 note=f"{net.tiers} tier{'s' * (net.tiers > 1)}, leaves of {net.down} down and {net.up} up, "
                 f"{'non-blocking' if net.nonblocking else 'oversubscribed'}")


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


QUESTIONS = (
    Question("fabric_max_endpoints", "most endpoints of a non-blocking Clos", "endpoints", "planner.models.fabric.design.max_endpoints",
             {"radix": Input("logical ports of one switch at the endpoints' speed", "count", True),
              "tiers": Input("switch tiers", "count", True)}, _max_endpoints),
    Question("fabric_counts", "switches, links, nodes or GPUs of a fabric", "count", "planner.models.fabric.design.design",
             {"design": Input("a published design in any printed spelling, or general", default=GENERAL),
              "table": Input("the published table, where a design has several"),
              "units": Input("scalable units of a published design (its racks, segments or GPUs where it has no units)", "count"),
              "endpoints": Input("general: endpoints per plane and rail; published: GPUs as its table counts them", "count"),
              "gpus": Input("general: GPUs of the whole cluster, instead of endpoints", "count"),
              "radix": Input("logical ports of one switch at the endpoints' speed", "count"),
              "planes": Input("planes (general: default 1)", "count"), "rails": Input("rails (general: default 1)", "count"),
              "tiers": Input("tiers 1 to 3 (general: the fewest)", "count"),
              "ports_per_gpu": Input("NIC ports of a GPU after the lane split (general: one a plane)", "count"),
              "rails_per_gpu": Input("rails a GPU has ports in (general: 1)", "count"),
              "oversubscription": Input("leaf down over up bandwidth (general: 1)", "ratio"),
              "spare_ports": Input("ports left dark on every leaf (general: 0)", "count"),
              "printed": Input("cells of a printed row, to be held against themselves and the rule", structured=True),
              "quantity": Input(f"one of {', '.join(QUANTITIES)}", required=True)}, fabric_counts),
)
