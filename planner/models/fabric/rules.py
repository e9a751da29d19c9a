"""Published designs as rules of numbers: units in, counts out, and whether a printed row agrees with itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.errors import Infeasible, InputError
from planner.models.fabric.design import Design, design, network
from planner.models.fabric.low_diameter import dragonfly, slim_fly
from planner.units import count

FLAT = {"slim_fly": slim_fly, "dragonfly": dragonfly}
TOPOLOGIES = ("clos", "counted", *FLAT)
CELLS = {"nodes": "nodes", "gpus": "gpus", "leaf": "leaf", "spine": "spine", "core": "core", "switches_total": "switches",
         "cables_node_leaf": "cables_host", "cables_leaf_spine": "cables_leaf_spine", "cables_spine_core": "cables_spine_core"}


@dataclass(frozen=True)
class Rule:
    """One published design. unit, what `units` counts; gpus and nodes per unit; default_units, the size that was published.

    nodes_withheld [1] of the whole fabric, whose places `extra_host_links` take; radix [ports]; ports_per_gpu, rails and planes as
    in `design`; leaf_down, leaf_up, pod_leaves, pod_spines where the design fixes them (0: derived); core_per_unit [1] where the
    table counts them so; forwarding_gpus [1] of a node over whose NVLink a GPU reaches the planes it has no port in (its planes are
    then counted as rails); links_per_cable [1], links at port speed that one printed cable carries.
    """

    design: str
    table: str
    unit: str
    gpus_per_unit: int
    nodes_per_unit: int = 0
    default_units: int = 0
    nodes_withheld: int = 0
    extra_host_links: int = 0
    topology: str = "clos"
    radix: int = 0
    ports_per_gpu: int = 1
    rails: int = 1
    planes: int = 1
    tiers: int = 0
    leaf_down: int = 0
    leaf_up: int = 0
    pod_leaves: int = 0
    pod_spines: int = 0
    core_per_unit: int = 0
    forwarding_gpus: int = 0
    links_per_cable: int = 1
    source: str = ""
    note: str = ""

    def __post_init__(self):
        if self.topology not in TOPOLOGIES:
            raise InputError(f"{self.design}.topology", self.topology, f"must be one of {', '.join(TOPOLOGIES)}")

    @property
    def rails_per_gpu(self) -> int:
        """Rails one GPU has ports in: what its ports leave after the planes."""
        return max(1, self.ports_per_gpu // self.planes)


def units_for(rule: Rule, gpus: int) -> int:
    """Return the units of a published design that hold this many GPUs.

    Parameters: rule; gpus [1] as the design's table counts them. Returns: units [1].
    Raises: InputError for a count that is not whole units, naming the nearest two.
    Validity: whole units only, as the tables have them. Error: exact. Source: the rule's own.
    """
    wanted, per_node = int(count("endpoints", gpus)), rule.gpus_per_unit // rule.nodes_per_unit if rule.nodes_per_unit else 0
    places = wanted + rule.nodes_withheld * per_node
    if places % rule.gpus_per_unit:
        below = places // rule.gpus_per_unit * rule.gpus_per_unit - rule.nodes_withheld * per_node
        nearest = " or ".join(f"{g:,}" for g in (below, below + rule.gpus_per_unit) if g > 0)
        raise InputError("endpoints", wanted, f"must be whole {rule.unit}s of {rule.gpus_per_unit} GPUs (nearest: {nearest})")
    return places // rule.gpus_per_unit


def rule_design(rule: Rule, units: int) -> Design:
    """Return the Clos of a published design with `units` units, all places filled.

    Parameters: rule; units [1]. Returns: Design. Raises: Infeasible where the design is not a published Clos or past its ceiling.
    Validity: topology `clos`. Error: exact against the tables. Source: the rule's own.
    """
    if rule.topology != "clos":
        raise Infeasible("fabric", f"{rule.design}: {rule.note or 'no switch layout was published'}", "ask for a general design with a radix")
    gpus = int(count("units", units)) * rule.gpus_per_unit
    if not (rule.leaf_down or rule.pod_leaves):
        return design(gpus, rule.ports_per_gpu, rule.radix, rails=rule.rails, rails_per_gpu=rule.rails_per_gpu, planes=rule.planes,
                      tiers=rule.tiers or None)
    endpoints = -(-gpus * rule.ports_per_gpu // (rule.rails * rule.planes))
    pod = (rule.pod_leaves, rule.pod_spines) if rule.pod_leaves else None
    net = network(endpoints, rule.radix, rule.tiers or None, split=(rule.leaf_down, rule.leaf_up), pod=pod)
    return Design(gpus, rule.ports_per_gpu, rule.rails, rule.rails_per_gpu, rule.planes, net)


def rule_counts(rule: Rule, units: int) -> dict[str, int]:
    """Return what the design's table prints for `units` units.

    Parameters: rule; units [1]. Returns: dict of counts [1]: units, nodes, gpus, leaf, spine, core, switches, links_host,
    links_leaf_spine, links_spine_core, links_inter_switch, and the same as printed cables (cables_*); a count that the published
    facts do not settle is absent.
    Raises: InputError for units out of range, Infeasible past the design's ceiling.
    Validity: the tables' own range; other unit counts by the same rule. Error: exact for every handed cell.
    Source: the rule's own; see data/fabric_rules.csv.
    """
    units = int(count("units", units))
    places, nodes = units * rule.gpus_per_unit, units * rule.nodes_per_unit - rule.nodes_withheld
    per_node = rule.gpus_per_unit // rule.nodes_per_unit if rule.nodes_per_unit else 0
    found = {"units": units, "gpus": places - rule.nodes_withheld * per_node}
    if rule.nodes_per_unit:
        found["nodes"] = nodes
    host = found["gpus"] * rule.ports_per_gpu
    if rule.topology == "counted" or rule.tiers == 1:  # leaves stand alone, or no more was published
        leaf = {"leaf": -(-host // rule.leaf_down)} if rule.leaf_down else {}
        return {**found, "links_host": host, "cables_host": host, **leaf}
    if rule.topology == "clos":
        net = rule_design(rule, units)
        counts = dict(net.counts)
        if rule.core_per_unit:
            counts["core"] = rule.core_per_unit * units
            counts["switches"] = counts["leaf"] + counts["spine"] + counts["core"]
        layers = {"links_host": host + rule.extra_host_links, "links_leaf_spine": counts["links_leaf_spine"],
                  "links_spine_core": counts["links_spine_core"]}
        found |= {n: counts[n] for n in ("leaf", "spine", "core", "switches")}
    else:
        flat = FLAT[rule.topology](rule.radix, units * rule.gpus_per_unit)
        found |= {"leaf": flat["switches"], "spine": 0, "core": 0, "switches": flat["switches"]}
        layers = {"links_host": flat["endpoints"], "links_leaf_spine": flat["links"], "links_spine_core": 0}
    found |= layers
    found["links_inter_switch"] = layers["links_leaf_spine"] + layers["links_spine_core"]
    return found | {name.replace("links", "cables"): -(-links // rule.links_per_cable) for name, links in layers.items()}


def listed_total(listed: Sequence[int], declared: int | None = None) -> tuple[int, str]:
    """Return how many parts a list has, layer by layer, and what is wrong with a total that was declared beside it.

    Parameters: listed [1], the counts of each layer; declared [1], a printed total, or None. Returns: (sum of the list [1], text: empty where they
    agree).
    Raises: InputError for a count that is not whole. Validity: any list. Error: exact. Source: counting: the list is what gets built.
    """
    total = sum(int(count("listed", n, 0)) for n in listed)
    if declared is None or total == int(count("declared", declared, 0)):
        return total, ""
    return total, f"{int(declared):,} are declared and {total:,} are listed ({' + '.join(f'{int(n):,}' for n in listed)})"


def contradictions(rule: Rule, printed: Mapping[str, float]) -> list[str]:
    """Return what a printed row of the design's table says against itself, in sentences; an empty list when it agrees.

    Parameters: rule; printed, cells [1] by the tables' column names (su or units, nodes, gpus, leaf, spine, core, switches_total,
    cables_node_leaf, cables_leaf_spine, cables_spine_core), those that are filled.
    Returns: list of text, each naming the two cells that disagree and what follows from the rest of the row.
    Raises: InputError for a cell that is not a count.
    Validity: rows of whole units. A cell that one wrong unit count explains is not a contradiction but another row.
    Error: exact. Source: counting; the cells are compared with each other first, then with the rule.
    """
    cells = {n: int(count(n, v, 0)) for n, v in printed.items() if n in {*CELLS, "su", "units"} and v not in (None, "")}
    units = cells.pop("su", None) or cells.pop("units", None)
    per_node = rule.gpus_per_unit // rule.nodes_per_unit if rule.nodes_per_unit else 0
    said = []
    if per_node and {"nodes", "gpus"} <= cells.keys() and cells["nodes"] * per_node != cells["gpus"]:
        said.append(f"{cells['nodes']:,} nodes of {per_node} GPUs are {cells['nodes'] * per_node:,} GPUs, not the {cells['gpus']:,} printed")
    if "switches_total" in cells and {"leaf", "spine"} <= cells.keys():
        wrong = listed_total([cells["leaf"], cells["spine"], cells.get("core", 0)], cells["switches_total"])[1]
        said += [f"switches: {wrong} of leaf, spine and core"] if wrong else []
    if units is None:
        units = units_for(rule, cells["gpus"]) if "gpus" in cells else rule.default_units
    for name, value in rule_counts(rule, units).items() if units else ():
        column = next((c for c, n in CELLS.items() if n == name), None)
        if column in cells and cells[column] != value:
            said.append(f"{column} is printed as {cells[column]:,}; {units:,} {rule.unit}s of this design have {value:,}")
    return said
