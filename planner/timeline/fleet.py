"""Several workloads on one fleet: whole NVLink domains by priority and hour of day, work that fills the valleys, and what must stay up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.errors import Infeasible, InputError
from planner.timeline.ledger import Supply
from planner.units import count, fraction, nonnegative, positive, whole_up

HOURS = 24


@dataclass(frozen=True)
class Allocation:
    """What racks do. served and short (draws, workloads, months) [1/s], served + short = demand; racks (draws, supplies, workloads, months) at the
    busiest hour; idle (draws, supplies, months) racks that no workload takes at that hour; stranded (draws, workloads, months) [1/s] capacity of
    whole racks beyond the demand of its busiest hour; valley (draws, months) rack-hours a day that no workload takes: training fills them."""

    workloads: tuple[str, ...]
    served: np.ndarray
    short: np.ndarray
    racks: np.ndarray
    idle: np.ndarray
    stranded: np.ndarray
    valley: np.ndarray


def rates(supplies: Sequence[Supply], workloads: Sequence[str], months: int, factor: np.ndarray | None = None) -> np.ndarray:
    """Return the throughput of a rack (draws or 1, supplies, workloads, months) [1/s], software maturing, times a factor (draws, supplies)."""
    known = {w for s in supplies for w in s.throughput}
    for workload in workloads:
        if not any(s.throughput.get(workload, 0.0) > 0 for s in supplies):
            reason = "no supply has a throughput for it above 0" if workload in known else f"known workloads: {', '.join(sorted(known))}"
            raise Infeasible("demand", f"nobody can serve {workload}: {reason}", "add a supply that serves it")
    plain = np.array([[s.throughput.get(w, 0.0) for w in workloads] for s in supplies])
    mature = np.array([s.maturity(months) for s in supplies])
    table = (plain[:, :, None] * mature[:, None, :])[None]
    return table if factor is None else table * positive("factor", factor)[:, :, None, None]


def _order(supplies: Sequence[Supply], workload: str) -> list[int]:
    """Return the places of the supplies in the order a workload takes them: where it is nearest their best use first, the faster first."""
    def advantage(i: int) -> tuple[float, float]:
        rate = supplies[i].throughput.get(workload, 0.0)
        return -round(rate / max(max(supplies[i].throughput.values()), 1e-300), 6), -rate

    return sorted(range(len(supplies)), key=advantage)


def allocate(supplies: Sequence[Supply], in_service: np.ndarray, demand: Mapping[str, np.ndarray], *, priority: Sequence[str] | None = None,
             hourly: Mapping[str, Sequence[float]] | None = None, prefer: Mapping[str, Sequence[str]] | None = None,
             factor: np.ndarray | None = None) -> Allocation:
    """Give whole racks to workloads, the first in priority first, hour by hour.

    Parameters: supplies; in_service (draws, supplies, months) racks; demand, workload -> (months,) or (draws, months) [1/s] at its busiest hour;
    priority, workloads in order (absent: as in demand); hourly, workload -> 24 shares of its busiest hour in 0..1 (absent: flat); prefer,
    workload -> supplies in the order it takes them (absent: those it suits best first, then the faster); factor (draws, supplies) [1] on
    the throughput. Returns: Allocation; short is that of the worst hour, and served the rest of the demand. Raises: InputError; Infeasible (demand).
    Validity: a rack serves one workload at a time and changes within the hour. Error: exact. Source: a fixed rule, greedy.
    """
    names = list(demand)
    order = list(priority or names)
    if sorted(order) != sorted(names):
        raise InputError("priority", ", ".join(map(str, order)), f"must name each workload once: {', '.join(names)}")
    racks, months = np.asarray(in_service, float), in_service.shape[-1]
    if racks.ndim != 3 or racks.shape[1] != len(supplies):
        raise InputError("in_service", racks.shape, f"must be (draws, {len(supplies)}, months)")
    for given, known in ((hourly, names), (prefer, names), (dict.fromkeys(s for w in (prefer or {}) for s in prefer[w]), [s.name for s in supplies])):
        unknown = [name for name in given or () if name not in known]
        if unknown:
            raise InputError("sharing", unknown[0], f"must be one of {', '.join(known)}")
    wanted = np.stack(np.broadcast_arrays(*(nonnegative(f"demand.{w}", np.atleast_2d(demand[w])) for w in names)), axis=1)
    if wanted.shape[2] != months:
        raise InputError("demand", wanted.shape[2], f"must hold one value a month ({months})")
    speed = rates(supplies, names, months, factor)
    draws = max(racks.shape[0], wanted.shape[0], speed.shape[0])
    profile = np.ones((len(names), HOURS if hourly else 1))
    for i, w in enumerate(names):
        if hourly and w in hourly:
            if len(hourly[w]) != HOURS:
                raise InputError(f"hourly.{w}", len(hourly[w]), f"must hold {HOURS} shares of the busiest hour")
            profile[i] = fraction(f"hourly.{w}", hourly[w])
            if profile[i].max() != 1:
                raise InputError(f"hourly.{w}", float(profile[i].max()), "must reach 1 in the busiest hour")
    places = {s.name: i for i, s in enumerate(supplies)}
    choice = {w: [places[s] for s in prefer[w]] if w in (prefer or {}) else _order(supplies, w) for w in names}
    # hours that look alike are worked once
    hours, times = np.unique(profile, axis=1, return_counts=True)
    cells = (draws, months)
    short, stranded = (np.zeros((draws, len(names), months)) for _ in range(2))
    used_most, valley = np.zeros((draws, len(supplies), len(names), months)), np.zeros(cells)
    idle_least = np.broadcast_to(racks, (draws, *racks.shape[1:])).copy()
    flat_racks = [np.broadcast_to(racks[:, s], cells).ravel() for s in range(len(supplies))]
    flat_speed = [[np.broadcast_to(speed[:, s, i], cells).ravel() for i in range(len(names))] for s in range(len(supplies))]
    places_of = [names.index(w) for w in order]
    for column, repeat in zip(hours.T, times * (HOURS / profile.shape[1]), strict=True):
        need = [np.broadcast_to(wanted[:, i] * column[i], cells).ravel() for i in range(len(names))]
        left, used, missing = _assigned(flat_racks, flat_speed, need, places_of, [choice[w] for w in names])
        left, used, missing = (np.moveaxis(np.array(x).reshape(*np.shape(x)[:-1], *cells), -2, 0) for x in (left, used, missing))
        short = np.maximum(short, missing)
        at_peak = column == 1
        over = (used[:, :, at_peak] * speed[:, :, at_peak]).sum(1) - wanted[:, at_peak]
        stranded[:, at_peak] = np.maximum(stranded[:, at_peak], over)
        used_most, idle_least = np.maximum(used_most, used), np.minimum(idle_least, left)
        valley += repeat * left.sum(1)
    wanted = np.broadcast_to(wanted, short.shape)
    return Allocation(tuple(names), wanted - short, short, used_most, idle_least, stranded, valley)


def _assigned(racks: list, speed: list, need: list, order: list[int], choice: list[list[int]]) -> tuple[list, list, list]:
    """Give racks to workloads in every cell; where a few racks less waste would serve all, try each workload's supplies the other way round.

    racks [supplies](cells), speed [supplies][workloads](cells), need [workloads](cells); order of workloads; choice, supplies by workload.
    Returns left [supplies], used [supplies][workloads] and missing [workloads], each (cells).
    """
    left, used, missing = _greedy(racks, speed, need, order, choice)
    # a shortfall of less than one rack a workload may be waste of whole racks, not want of them
    owed = sum(missing[i] / np.maximum(np.max([s[i] for s in speed], axis=0), 1e-300) for i in order)
    for turn in range(1, 2 ** min(len(order), 4)):
        at = np.flatnonzero((owed > 0) & (owed < len(order)))
        if not len(at):
            break
        other = [c[::-1] if turn >> i & 1 else c for i, c in enumerate(choice)]
        mine = _greedy([r[at] for r in racks], [[x[at] for x in s] for s in speed], [n[at] for n in need], order, other)
        again = sum(mine[2][i] / np.maximum(np.max([s[i][at] for s in speed], axis=0), 1e-300) for i in order)
        better = again < owed[at]
        place = at[better]
        for s in range(len(racks)):
            left[s][place] = mine[0][s][better]
            for i in order:
                used[s][i][place] = mine[1][s][i][better]
        for i in order:
            missing[i][place] = mine[2][i][better]
        owed[place] = again[better]
    return left, used, missing


def _greedy(racks: list, speed: list, need: list, order: list[int], choice: list[list[int]]) -> tuple[list, list, list]:
    """One pass of `_assigned`: full racks first, then what is left over takes one of the slowest racks at hand."""
    left = [r.copy() for r in racks]
    used = [[np.zeros_like(r) for _ in need] for r in racks]
    missing = [n.copy() for n in need]
    for i in order:
        rest = missing[i]
        for s in choice[i]:
            rate = speed[s][i]
            taken = np.minimum(left[s], np.floor(rest / np.where(rate > 0, rate, np.inf) * (1 + 1e-12)))
            rest -= taken * rate
            left[s] -= taken
            used[s][i] += taken
        rest[rest < 1e-9 * need[i]] = 0.0
        for s in sorted(choice[i], key=lambda s, i=i: float(speed[s][i][0]) if len(rest) else 0.0):
            rate = speed[s][i]
            taken = ((rest > 0) & (left[s] >= 1) & (rate > 0)).astype(float)
            rest -= taken * np.minimum(rate, rest)
            left[s] -= taken
            used[s][i] += taken
    return left, used, missing


def shared_racks(units_per_rack: Mapping[str, float], demand_by_hour: Mapping[str, Sequence[float]], gpus: int) -> dict[str, object]:
    """Return how many racks workloads need on their own, and sharing them hour by hour, in whole NVLink domains.

    Parameters: units_per_rack, workload -> [1/s] of a rack; demand_by_hour, workload -> (24,) [1/s]; gpus [1] of a rack.
    Returns: `alone`, workload -> racks; `apart`, their sum; `shared`, racks at the busiest hour of all; `valley_rack_hours` a day that shared racks
    stand idle; `stranded_gpus`, workload -> GPUs of the last rack that its busiest hour leaves unused. Raises: InputError.
    Validity: a rack changes workload within the hour. Error: exact. Source: counting.
    """
    by_hour, alone, stranded = [], {}, {}
    for name, series in demand_by_hour.items():
        wanted = nonnegative(f"demand.{name}", series)
        if wanted.shape != (HOURS,):
            raise InputError(f"demand.{name}", wanted.shape, "must hold 24 hours")
        if name not in units_per_rack:
            raise InputError(f"units_per_rack.{name}", None, "is required")
        each = float(positive(f"units_per_rack.{name}", units_per_rack[name]))
        needed = np.asarray(whole_up(wanted / each))
        by_hour.append(needed)
        alone[name] = int(needed.max())
        stranded[name] = int(np.floor((needed.max() - wanted.max() / each) * int(count("gpus", gpus)) + 1e-9))
    total = np.sum(by_hour, axis=0)
    shared = int(total.max())
    valley = int((shared - total).sum())
    return {"alone": alone, "apart": sum(alone.values()), "shared": shared, "valley_rack_hours": valley, "stranded_gpus": stranded}


def one_more(units_per_rack: Mapping[str, float], demand_by_hour: Mapping[str, Sequence[float]], name: str, gpus: int,
             usd_per_rack_month: float | None) -> dict[str, object]:
    """Return what one more workload costs a fleet that is shared: racks with and without it, and their monthly cost [USD], None without a price.

    Parameters: as `shared_racks`, with the workload `name` among them; usd_per_rack_month [USD]. Returns: `before`, `after`, `extra` and
    `usd_per_month`. Raises: InputError. Validity: as `shared_racks`. Error: exact. Source: difference.
    """
    if name not in demand_by_hour:
        raise InputError("name", name, f"must be one of {', '.join(demand_by_hour)}")
    after = shared_racks(units_per_rack, demand_by_hour, gpus)["shared"]
    others = {k: v for k, v in demand_by_hour.items() if k != name}
    before = shared_racks(units_per_rack, others, gpus)["shared"] if others else 0
    extra = after - before
    return {"before": before, "after": after, "extra": extra, "usd_per_month": None if usd_per_rack_month is None else extra * usd_per_rack_month}


DOMAINS = ("tray", "rack", "plane", "power_feed", "site")


def survival(serving_racks: int, gpus_per_rack: int, gpus_per_tray: int, down: Mapping[str, int], *, trays_tolerated: int = 0, feeds: int = 1,
             planes: int = 1, plane_loss_fraction: float | None = None, sites: int = 1, maintenance_racks: int = 0) -> dict[str, int]:
    """Return the racks to buy so that the SLO holds with failure domains down, as named parts that sum to the total.

    Parameters: serving_racks [1] that the load needs at full strength; gpus_per_rack, gpus_per_tray [1]; down, domain -> how many are down at once
    (tray, rack, plane, power_feed, site; the worst of them at the same time); trays_tolerated [1] of every rack that may be out while it counts as
    whole (providers ask for two); feeds, planes, sites [1] that share the load evenly; plane_loss_fraction [1] of throughput that one plane down
    costs (absent: 1 / planes); maintenance_racks [1] out at once in a rolling window.
    Returns: ordered dict `serving`, `tray tolerance`, `tray`, `plane`, `rack`, `power_feed`, `site`, `maintenance`. Raises: InputError for an unknown
    domain; Infeasible where all feeds, planes or sites are down. Validity: even spread. Error: exact for it. Source: counting.
    """
    unknown = [d for d in down if d not in DOMAINS]
    if unknown:
        raise InputError("down", unknown[0], f"must be one of {', '.join(DOMAINS)}")
    lost = {d: int(count(f"down.{d}", down.get(d, 0), 0)) for d in DOMAINS}
    need = int(count("serving_racks", serving_racks, 0))
    trays = int(count("gpus_per_rack", gpus_per_rack)) / int(count("gpus_per_tray", gpus_per_tray))
    if trays != int(trays):
        raise InputError("gpus_per_tray", gpus_per_tray, f"must divide the {gpus_per_rack} GPUs of a rack")
    for name, has in (("power_feed", feeds), ("plane", planes), ("site", sites)):
        if lost[name] >= int(count(name, has)) and lost[name]:
            raise Infeasible(name, f"{lost[name]} of {has} {name.replace('_', ' ')}s down leaves none", f"at least {lost[name] + 1}")
    if not 0 <= trays_tolerated < trays:
        raise InputError("trays_tolerated", trays_tolerated, f"must be 0 to {int(trays) - 1}")
    parts = {"serving": need}

    def add(name: str, racks: float) -> None:
        parts[name] = int(whole_up(racks)) - sum(parts.values())

    add("tray tolerance", need * trays / (trays - trays_tolerated))
    # trays out beyond what is tolerated take their racks' share; a rack with a tray too many down is a weaker rack, not a lost one
    add("tray", sum(parts.values()) + max(0, lost["tray"] - trays_tolerated) / trays)
    share = lost["plane"] * (1 / planes if plane_loss_fraction is None else float(fraction("plane_loss_fraction", plane_loss_fraction)))
    if share >= 1:
        raise Infeasible("plane", "the planes that are down carry all the traffic", "fewer planes down, or a smaller loss a plane")
    add("plane", sum(parts.values()) / (1 - share))
    add("rack", sum(parts.values()) + lost["rack"])
    for name, has in (("power_feed", feeds), ("site", sites)):
        before = sum(parts.values())
        total = before
        while total - lost[name] * int(whole_up(total / has)) < before:
            total += 1
        add(name, total)
    add("maintenance", sum(parts.values()) + int(count("maintenance_racks", maintenance_racks, 0)))
    return parts
