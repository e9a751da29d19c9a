"""The scale-out fabric of the racks that a plan buys: switches, links, optics, power and price, with the promise of growth."""

from __future__ import annotations

import re
from dataclasses import dataclass

from planner.errors import Infeasible, InputError
from planner.facts import catalog
from planner.facts.evidence import Claim, claim
from planner.models.fabric.design import Design, design
from planner.models.fabric.failures import remaining
from planner.models.fabric.growth import growth
from planner.plan.answer import Answer, exact
from planner.plan.inputs import Drawn, Range, answer, draw
from planner.scenario import FabricIn
from planner.specs import Rack, Switch
from planner.units import to_base

MODULE_BYTES_PER_S = 800e9 / 8
LARGE, SMALL = "sn6600-ld", "sn5600"  # 102.4 Tb/s with pluggable modules, and 51.2 Tb/s
POWER_51T, POWER_102T = "P0082", "P0083"
CO_PACKAGED = ("sn6810", "sn6800", "q3450-ld")


@dataclass(frozen=True)
class Choice:
    """A fabric as designed for racks of one system: the design, the switch, the port speed [B/s] and the claims it rests on."""

    made: Design
    switch: Switch
    port_bytes_per_s: float
    lanes: str


def _ports(rack: Rack, given: FabricIn) -> tuple[int, float, str]:
    """Return (ports of a GPU, bytes per second of a port, lanes) from NICs and their lane split. Raises: InputError where they contradict."""
    if rack.nic is None:
        raise Infeasible("facts", f"{rack.name} has no published scale-out link: the fabric is not available")
    total = rack.nic.bytes_per_s * rack.nics_per_gpu
    tried = list(dict.fromkeys((given.nics_per_gpu or rack.nics_per_gpu, rack.nics_per_gpu)))
    if given.lanes is None:
        tried = tried[:1]
        speed = total / tried[0] * 8 / 1e9
        if abs(speed - round(speed)) > 1e-6:
            raise InputError("fabric.nics_per_gpu", tried[0], f"must split the {total * 8 / 1e9:,.0f} Gb/s of {rack.name} into whole Gb/s")
    for nics in tried:  # one [fabric] serves several systems: a system with other NICs keeps its own number of them
        lanes = given.lanes or f"1x{round(total / nics * 8 / 1e9)}G"
        found = re.fullmatch(r"([1248])x(\d+)G", lanes)
        count, port = int(found[1]), float(to_base(int(found[2]), "Gb/s"))
        if abs(count * port - total / nics) <= 1e-6 * total:
            return nics * count, port, lanes
    speeds = " or ".join(f"{total / n * 8 / 1e9:,.0f} Gb/s ({n} NICs a GPU)" for n in tried)
    raise InputError("fabric.lanes", given.lanes, f"must add to the {speeds} of {rack.name}")


def choose(rack: Rack, gpus: int, given: FabricIn) -> Choice:
    """Return the fabric for a number of GPUs of one system.

    Parameters: rack; gpus [1]; given, the scenario's fabric: absent values are the catalogue's NICs, one lane, one plane, the fewest tiers. Rails are
    the tray positions. Returns: Choice. Raises: InputError for lanes that contradict the NIC, or planes that do not divide the ports;
    Infeasible (fabric) past the ceiling of the tiers, naming the nearest lane split, planes and tiers that hold the GPUs.
    """
    try:
        return _choice(rack, gpus, given)
    except Infeasible as error:
        near = nearest(rack, gpus, given)
        steps = [f"nearest that holds them: {near}"] if near else []
        raise Infeasible(error.cause, error.limit, "; ".join([*steps, error.next_step])) from None


def nearest(rack: Rack, gpus: int, given: FabricIn) -> str:
    """Return the lanes, planes and tiers nearest to what was given that hold the GPUs, in words: same tiers first; empty where none does."""
    if rack.nic is None:
        return ""
    each = round(rack.nic.bytes_per_s * 8 / 1e9)
    for tiers in dict.fromkeys((given.tiers, 2, 3)):
        for lanes in dict.fromkeys((given.lanes, *(f"{n}x{each // n}G" for n in (1, 2, 4, 8)))):
            for planes in dict.fromkeys((given.planes or 1, 1, 2, 4, 8, 16)):
                tried = given.model_copy(update={"lanes": lanes, "planes": planes, "tiers": tiers})
                try:
                    made = _choice(rack, gpus, tried)
                except (Infeasible, InputError):
                    continue
                count = made.made.planes
                return f"lanes {made.lanes} over {count} plane{'s' * (count > 1)} in {made.made.net.tiers} tiers"
    return ""


def _choice(rack: Rack, gpus: int, given: FabricIn) -> Choice:
    ports, speed, lanes = _ports(rack, given)
    switch = catalog.switch(given.switch or (LARGE if rack.accelerator.generation == "rubin" else SMALL))
    radix = switch.ports.get(f"{round(speed * 8 / 1e9)}G")
    if radix is None:
        raise InputError("fabric.lanes", lanes, f"must be a speed that the switch has: {', '.join(switch.ports)}")
    planes, mine = given.planes or 1, given.rails_per_gpu or 1
    rails = given.rails or min(rack.gpus_per_tray if rack.gpus_per_tray < rack.gpus else 8, gpus) * mine
    made = design(gpus, ports, radix, rails=rails, rails_per_gpu=mine, planes=planes, tiers=given.tiers, oversubscribed=given.oversubscription,
                  spare=given.spare_ports, sized_for=given.grow_to_gpus, port_bytes_per_s=speed)
    return Choice(made, switch, speed, lanes)


def plane_down(choice: Choice) -> Answer:
    """Return fabric_left_plane_down: the share of scale-out bandwidth that the worst GPU keeps with one plane down."""
    left = remaining(choice.made, {"plane": 1})
    note = "replicas lie inside one NVLink domain and take no racks more" if left.gpu_even else "one plane carries everything: not survived"
    return exact("fabric_left_plane_down", left.gpu_even, "fraction", basis=f"one of {choice.made.planes} planes down, even spraying over those left",
                 note=note)


def modules(choice: Choice) -> float:
    """Return the 800G optical modules of a fabric: both ends of every link, by share of 800G; switches with co-packaged optics need none."""
    counts, share = choice.made.counts, choice.port_bytes_per_s / MODULE_BYTES_PER_S
    return (counts["links_host"] if choice.switch.name in CO_PACKAGED else 2 * counts["links"]) * share


def switch_power(switch: Switch) -> str:
    """Return the claim that a switch's planned power rests on, by its capacity: 51.2 or 102.4 Tb/s. Raises: Infeasible for another capacity."""
    capacity = round(switch.total_bytes_per_s * 8e-12, 1)
    if capacity not in (51.2, 102.4):
        raise Infeasible("facts", f"no power is known of {switch.name} ({capacity:g} Tb/s)", "choose a switch of 51.2 or 102.4 Tb/s")
    return POWER_51T if capacity == 51.2 else POWER_102T


def _own_nics(rack: Rack, given: FabricIn, ports: int, lanes: str) -> str:
    """Return what to say where one [fabric] names NICs that this system does not have."""
    used = ports // int(lanes.split("x")[0])
    return f"{rack.name} keeps its own {used} a GPU: {given.nics_per_gpu} do not fit {lanes}" if given.nics_per_gpu not in (None, used) else ""


def _range(item: Claim, how: str = "assumed") -> Range:
    return Range(item.base_value, *item.base_range, item.grade, how, (item.id,))


def fabric_answers(rack: Rack, gpus: int, given: FabricIn, seed: int, survive: tuple[str, ...] = ()) -> tuple[dict[str, Answer], dict[str, float]]:
    """Return the answers of the fabric for the central rack count, and its power by part [W].

    Answers: fabric_leaf, fabric_spine, fabric_core, fabric_links, fabric_power (IT), fabric_cost, fabric_growth; with "plane" among the failures to
    survive also fabric_left_plane_down. Raises: as `choose`.
    """
    choice = choose(rack, gpus, given)
    made, counts = choice.made, choice.made.counts
    ranges = {"switch_watts": _range(claim(switch_power(choice.switch))), "module_watts": _range(claim("P0084")),
              "switch_usd": _range(claim("P0080")), "link_usd": _range(claim("P0081"))}
    drawn: dict[str, Drawn] = draw(ranges, seed=seed)
    optics = modules(choice)
    watts = counts["switches"] * drawn["switch_watts"].values + optics * drawn["module_watts"].values
    between = counts["links_leaf_spine"] + counts["links_spine_core"]
    cost = counts["switches"] * drawn["switch_usd"].values + between * drawn["link_usd"].values
    grown = growth(made)
    shape = (f"{gpus:,} GPUs, {made.rails} rails x {made.planes} planes, {made.net.tiers} tiers of {choice.switch.name} at {made.net.radix} ports, "
             f"{made.ports_per_gpu} ports a GPU ({choice.lanes})")
    power = {n: drawn[n] for n in ("switch_watts", "module_watts")}
    price = {n: drawn[n] for n in ("switch_usd", "link_usd")}
    found = {f"fabric_{n}": exact(f"fabric_{n}", float(counts[n]), "switches", basis=shape) for n in ("leaf", "spine", "core") if counts[n]}
    lit, apart = f"{optics:,.0f} modules of 800G", "host cables and NICs not counted"
    found |= {
        "fabric_links": exact("fabric_links", float(counts["links"]), "links", basis=f"{shape}; host, leaf-spine and spine-core",
                              note=_own_nics(rack, given, made.ports_per_gpu, choice.lanes)),
        "fabric_power": answer("fabric_power", watts / 1e3, "kW", power, basis="IT: switches and optics, all ports lit", note=lit),
        "fabric_cost": answer("fabric_cost", cost / 1e6, "MUSD", price, basis="switches and links between them, capital", note=apart),
        "fabric_growth": exact("fabric_growth", float(grown.gpus), "GPUs", basis="without moving a cable", note=grown.ends),
    }
    if "plane" in survive:
        found["fabric_left_plane_down"] = plane_down(choice)
    return found, {"switches": float(counts["switches"] * drawn["switch_watts"].values[0]), "optics": float(optics * drawn["module_watts"].values[0])}
