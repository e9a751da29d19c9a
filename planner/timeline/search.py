"""The cheapest phased plan that meets demand with a chosen chance, inside power, places and budget; and what a fixed rule would order."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from planner.errors import Infeasible, InputError
from planner.timeline import fleet, money
from planner.timeline.ledger import Order, Supply, by_name
from planner.timeline.simulate import Future, Site, Timeline, simulate
from planner.units import count, fraction, nonnegative, positive

SECONDS = 20.0
GAP = 1e-3
MOST_RACKS = 1_000_000  # in one order or month: past it the solver's numbers lie too far apart


@dataclass(frozen=True)
class Limits:
    """What a plan must stay inside. site; budget_usd [USD] for racks bought over the horizon, None = no limit; spares, supply -> racks kept hot;
    serve_from [1], the first month that must be served; rate_per_year [1] of money."""

    site: Site = field(default_factory=Site)
    budget_usd: float | None = None
    spares: Mapping[str, int] | None = None
    serve_from: int = 0
    rate_per_year: float = 0.08

    def __post_init__(self):
        fraction("rate_per_year", self.rate_per_year)


@dataclass(frozen=True)
class Found:
    """A plan of orders: usd [USD], the present value of its racks' monthly costs inside the horizon; gap [1] to the proven bound; status; assigned
    (supplies, workloads, months), the racks that the search gave to each workload, None for a rule."""

    orders: tuple[Order, ...]
    usd: float
    gap: float
    status: str
    seconds: float
    assigned: np.ndarray | None = None


def _discount(rate_per_year: float, months: int) -> np.ndarray:
    return (1 + money.monthly_rate(rate_per_year)) ** -np.arange(months)


def plan_usd(supplies: Sequence[Supply], orders: Sequence[Order], months: int, rate_per_year: float) -> float:
    """Return the present value of what ordered racks cost inside the horizon [USD]: each month in service its annuity or rent and running cost.

    Lives that reach past the horizon are paid for only inside it. Raises: InputError for a supply with orders and without a price.
    """
    place, worth = by_name(supplies), _discount(rate_per_year, months)
    total = 0.0
    for order in orders:
        s = supplies[place[order.supply]]
        if order.racks:
            start = order.month + s.delay
            total += order.racks * money.rack_usd_per_month(s, rate_per_year) * worth[start:start + s.life_months].sum()
    return float(total)


class _Problem:
    """The mixed-integer program of one horizon: racks ordered x[s, t], racks at work z[s, w, m] (whole racks)."""

    def __init__(self, supplies: Sequence[Supply], demand: np.ndarray, workloads: Sequence[str], limits: Limits, months: int):
        self.supplies, self.months, self.workloads = supplies, months, workloads
        S, W, M = len(supplies), len(workloads), months
        self.num_orders = S * M
        rates = fleet.rates(supplies, workloads, M)[0]
        x = np.arange(S * M).reshape(S, M)
        z = S * M + np.arange(S * W * M).reshape(S, W, M)
        self.x, size = x, S * M + S * W * M
        worth = _discount(limits.rate_per_year, M)
        cost = np.zeros(size)
        upper = np.full(size, np.inf)
        stand = sparse.lil_matrix((S * M, size))  # racks that stand because they were ordered
        base = np.zeros((S, M))
        for i, s in enumerate(supplies):
            each = money.rack_usd_per_month(s, limits.rate_per_year)
            base[i, :min(s.life_months, M)] = s.initial
            for t in range(M):
                start, end = t + s.delay, min(t + s.delay + s.life_months, M)
                if t < s.first_month or start >= M:
                    upper[x[i, t]] = 0.0
                    continue
                # a hair dearer the earlier, so that equal plans order late
                cost[x[i, t]] = each * worth[start:end].sum() * (1 + 1e-7 * (M - t) / M)
                for m in range(start, end):
                    stand[i * M + m, x[i, t]] = 1.0
        kept = np.array([float((limits.spares or {}).get(s.name, 0)) for s in supplies])
        self.cost, self.upper = cost, upper
        held = np.zeros((S, M))  # spares are kept from the first month that must be served, or that their supply can reach
        for i, s in enumerate(supplies):
            held[i, max(limits.serve_from, 0 if s.initial else s.first_month + s.delay):] = kept[i]
        rows = [self._work(stand.tocsr(), z, base - held, size), self._serve(z, rates, demand, limits.serve_from, size)]
        for limit, need in ((limits.site.watts, [s.watts for s in supplies]), (limits.site.racks, [1.0] * S)):
            if limit is not None:
                rows.append(self._fits(stand.tocsr(), base, nonnegative("site", limit)[:M], need))
        if limits.budget_usd is not None:
            line = sparse.lil_matrix((1, size))
            for i, s in enumerate(supplies):
                line[0, x[i]] = s.usd or 0.0
            rows.append(LinearConstraint(line.tocsr(), -np.inf, positive("budget_usd", limits.budget_usd)))
        self.rows = rows

    def _work(self, stand, z, base, size):
        """Racks at work are at most the racks that stand, less those kept as spares."""
        S, _, M = z.shape
        use = sparse.lil_matrix((S * M, size))
        for i in range(S):
            for m in range(M):
                use[i * M + m, z[i, :, m]] = 1.0
        return LinearConstraint(use.tocsr() - stand, -np.inf, base.ravel())

    def _serve(self, z, rates, demand, serve_from, size):
        _, W, M = z.shape
        lines = sparse.lil_matrix((W * M, size))
        for w in range(W):
            for m in range(M):
                lines[w * M + m, z[:, w, m]] = rates[:, w, m]
        least = demand[:, :M].copy()
        least[:, :serve_from] = 0.0
        scale = np.where(least.ravel() > 0, least.ravel(), max(float(rates.max()), 1.0))  # so that the tolerance is a share of the demand
        return LinearConstraint(sparse.diags(1 / scale) @ lines.tocsr(), np.where(least.ravel() > 0, 1.0, 0.0), np.inf)

    def _fits(self, stand, base, limit, need):
        S, M = base.shape
        lines = sum(sparse.diags(np.ones(M)) @ stand[i * M:(i + 1) * M] * need[i] for i in range(S))
        taken = (base * np.array(need)[:, None]).sum(0)
        scale = np.maximum(limit, 1.0)
        return LinearConstraint(sparse.diags(1 / scale) @ lines, -np.inf, (limit - taken) / scale)

    def solve(self, seconds: float, whole: bool = True):
        """Return scipy's result; whole, False for the relaxation."""
        size = len(self.cost)
        integrality = np.ones(size) if whole else np.zeros(size)
        peak = max(float(self.cost.max()), 1.0)
        result = milp(self.cost / peak, constraints=self.rows, bounds=Bounds(0, self.upper), integrality=integrality,
                      options={"time_limit": seconds, "mip_rel_gap": GAP})
        if "Model error" in result.message:  # numbers too far apart for the solver are no proof that nothing serves
            raise InputError("demand", float(self.cost.max()), f"and supplies must be of a size the solver can hold ({result.message.strip()})")
        return result


def _checked(supplies, demand, limits):
    place = by_name(supplies)
    for s in supplies:
        money.rack_usd_per_month(s)
    for name, racks in (limits.spares or {}).items():
        if name not in place:
            raise InputError(f"spares.{name}", racks, f"must be of a supply: {', '.join(place)}")
        count(f"spares.{name}", racks, 0, MOST_RACKS)
    rows = [nonnegative(f"demand.{w}", d) for w, d in demand.items()]
    lengths = [r.shape for r in rows]
    if not rows or rows[0].ndim != 1 or len(set(lengths)) > 1:
        raise InputError("demand", lengths, "must hold one value a month for each workload, over the same months")
    table, months = np.array(rows), len(rows[0])
    for name, series in demand.items():
        best = max(s.throughput.get(name, 0.0) for s in supplies)
        if best > 0 and np.max(series) > MOST_RACKS * best:
            raise InputError(f"demand.{name}", float(np.max(series)), f"must be at most {MOST_RACKS:,} racks of the fastest supply")
    count("serve_from", limits.serve_from, 0, months - 1)
    for name, limit in (("site_watts", limits.site.watts), ("site_racks", limits.site.racks)):
        if limit is not None and len(limit) != months:
            raise InputError(name, len(limit), f"must hold one value a month ({months})")
    return table, months


def cheapest(supplies: Sequence[Supply], demand: Mapping[str, np.ndarray], limits: Limits | None = None, seconds: float = SECONDS) -> Found:
    """Return the orders with the least present cost that serve a certain demand in every month from `serve_from` on, in whole racks.

    Parameters: supplies; demand, workload -> (months,) [1/s]; limits; seconds, most time for the solver (then a stated gap).
    Returns: Found. Raises: InputError; Infeasible naming the first month that cannot be served and the limit that binds there.
    Validity: racks change workload from month to month, as `assigned` says: the plain sharing rule may waste up to a rack a workload more.
    Error: equal to brute force on small instances (tests).
    Source: mixed-integer program, HiGHS.
    """
    limits = limits or Limits()
    table, months = _checked(supplies, demand, limits)
    begun = time.perf_counter()
    problem = _Problem(supplies, table, list(demand), limits, months)
    result = problem.solve(seconds)
    if result.x is None:
        if result.status == 2:
            raise _why(supplies, table, list(demand), limits, months)
        raise Infeasible("search", f"no plan was found in {seconds:g} s", "more time, fewer months or fewer supplies")
    ordered = np.rint(result.x[:problem.num_orders]).astype(int).reshape(len(supplies), months)
    orders = tuple(Order(s.name, t, int(ordered[i, t])) for t in range(months) for i, s in enumerate(supplies) if ordered[i, t])
    gap = float(result.mip_gap) if result.mip_gap is not None else 0.0
    status = "proven" if gap <= GAP * 1.01 else f"stopped after {seconds:g} s"
    assigned = np.rint(result.x[problem.num_orders:]).reshape(len(supplies), len(demand), months)
    return Found(orders, plan_usd(supplies, orders, months, limits.rate_per_year), gap, status, time.perf_counter() - begun, assigned)


def _feasible(supplies, table, workloads, limits, months) -> bool:
    return _Problem(supplies, table, workloads, limits, months).solve(SECONDS / 2, whole=False).x is not None


def _why(supplies, table, workloads, limits, months) -> Infeasible:
    """Return the refusal: the first month that cannot be served, and the limit whose absence would let it be."""
    low, high = limits.serve_from, months - 1
    while low < high:  # the first horizon that is infeasible; the relaxation decides, whole racks only where it does not
        middle = (low + high) // 2
        if _feasible(supplies, table, workloads, limits, middle + 1):
            low = middle + 1
        else:
            high = middle
    month, horizon = low, low + 1
    soon = [replace(s, lead_months=0, acceptance_months=0) for s in supplies]
    early = [replace(s, lead_months=0, acceptance_months=0, first_month=0) for s in supplies]
    site = limits.site
    tries = [("power", "the site's power", supplies, replace(limits, site=Site(None, site.racks)), site.watts is not None),
             ("places", "the site's places for racks", supplies, replace(limits, site=Site(site.watts, None)), site.racks is not None),
             ("budget", "the budget", supplies, replace(limits, budget_usd=None), limits.budget_usd is not None),
             ("lead time", "lead time and acceptance: nothing ordered now is in service by then", soon, limits, True),
             ("lead time", "the first month in which a supply can be ordered", early, limits, True)]
    for cause, words, given, loose, applies in tries:
        if applies and _feasible(given, table, workloads, loose, horizon):
            return Infeasible(cause, f"month {month} cannot be served: {words} binds first", _nearest(supplies, month, cause))
    if not _feasible(supplies, table, workloads, limits, months):
        return Infeasible("demand", f"month {month} cannot be served: several limits bind at once", "less demand, more power and a larger budget")
    return Infeasible("whole racks", f"no plan of whole racks serves month {months - 1} inside the limits, fractions of racks would",
                      "a little more power or budget")


def _nearest(supplies, month: int, cause: str) -> str:
    if cause == "lead time":
        soonest = min(s.first_month + s.delay for s in supplies)
        return f"serve_from {soonest}, or racks that are in service already"
    return f"more of it by month {month}, or less demand from then on"


def fixed_rule(supplies: Sequence[Supply], demand: Mapping[str, np.ndarray], limits: Limits | None = None) -> Found:
    """Return what a plain rule orders: month by month, what is short, of the supply cheapest a unit that can be there by then, as late as it can.

    The rule looks at one month at a time, keeps the same spares and knows no budget; it orders no racks that the site cannot feed.
    Parameters and raises as `cheapest`; a plan of the rule may leave months short. Source: order-up-to rule.
    """
    limits = limits or Limits()
    table, months = _checked(supplies, demand, limits)
    names, orders = list(demand), []
    rates = fleet.rates(supplies, names, months)[0]
    cost = np.array([money.rack_usd_per_month(s, limits.rate_per_year) for s in supplies])
    kept = {s.name: int((limits.spares or {}).get(s.name, 0)) for s in supplies}
    standing = np.zeros((len(supplies), months))
    for i, s in enumerate(supplies):
        standing[i, :min(s.life_months, months)] = max(0, s.initial - kept[s.name])
        kept[s.name] = max(0, kept[s.name] - s.initial)
    for month in range(limits.serve_from, months):
        able = [i for i, s in enumerate(supplies) if month - s.delay >= s.first_month]
        for _ in range(4 * len(names)):
            short = fleet.allocate(supplies, standing[:, [month]][None], {n: table[k, [month]] for k, n in enumerate(names)},
                                   factor=_mature(supplies, month)).short[0, :, 0]
            choices = [(cost[i] / rates[i, w, month], i, w) for w in np.flatnonzero(short) for i in able
                       if rates[i, w, month] > 0 and _room(supplies, standing, limits.site, i, month) > 0]
            if not choices:
                break
            _, best, w = min(choices)
            s = supplies[best]
            racks = min(int(np.ceil(short[w] / rates[best, w, month] * (1 - 1e-12))), _room(supplies, standing, limits.site, best, month))
            orders.append(Order(s.name, month - s.delay, racks + kept[s.name]))
            kept[s.name] = 0
            standing[best, month:month + s.life_months] += racks
    orders.sort(key=lambda o: o.month)
    return Found(tuple(orders), plan_usd(supplies, orders, months, limits.rate_per_year), float("nan"), "fixed rule", 0.0)


def _mature(supplies: Sequence[Supply], month: int) -> np.ndarray:
    """The share of each supply's throughput in one month against month 0 (1, supplies), for a table of that month alone."""
    return np.array([[s.maturity(month + 1)[month] / s.maturity(1)[0] for s in supplies]])


def _room(supplies, standing, site: Site, place: int, month: int) -> int:
    """Return the racks of one supply that still find power and a place in every month from `month` on."""
    room = 10**7
    last = min(month + supplies[place].life_months, standing.shape[1])
    for limit, need in ((site.watts, [s.watts for s in supplies]), (site.racks, [1.0] * len(supplies))):
        if limit is not None:
            free = np.asarray(limit)[month:last] - np.einsum("sm,s->m", standing[:, month:last], need)
            room = min(room, int(np.floor(free.min() / need[place] * (1 + 1e-12))))
    return max(room, 0)


@dataclass(frozen=True)
class Chosen:
    """The cheapest plan whose futures are served with the chance asked for: found, its timeline, the quantile it was searched at, and tries."""

    found: Found
    timeline: Timeline
    quantile: float
    tries: int


def with_chance(supplies: Sequence[Supply], demand: Mapping[str, np.ndarray], chance: float, limits: Limits | None = None,
                future: Future | None = None, seconds: float = SECONDS, most_tries: int = 5, **sharing) -> Chosen:
    """Return a plan whose futures see no shortfall from `serve_from` on with at least the chance asked for.

    The search meets a quantile of demand over throughput in every month, with lead times at the same quantile; the quantile is raised or lowered
    until the simulated chance just holds. Parameters: supplies; demand, workload -> (draws, months) [1/s]; chance in 0..1; limits; future;
    seconds for all tries together; sharing, as `simulate`. Returns: Chosen, the cheapest that holds. Raises: Infeasible where no try holds it,
    with the best chance found. Validity: one quantile for all months is a heuristic: a plan with another shape may be cheaper.
    """
    limits, future = limits or Limits(), future or Future()
    wanted = float(fraction("chance", chance, zero=False))
    low, high, at, best, nearest, refusal = 0.0, 1.0, wanted, None, 0.0, None
    for tries in range(1, most_tries + 1):
        try:
            found = cheapest(delayed(supplies, future, at), worst_demand(supplies, demand, future, at), limits, seconds / most_tries)
        except Infeasible as error:
            refusal, high = error, at
            at = (low + high) / 2
            continue
        timeline = simulate(supplies, found.orders, demand, site=limits.site, future=future, spares=limits.spares, **sharing)
        reached = float(1 - (timeline.fleet.short[:, :, limits.serve_from:] > 0).any((1, 2)).mean())
        nearest = max(nearest, reached)
        if reached >= wanted:
            best = Chosen(found, timeline, at, tries) if best is None or found.usd <= best.found.usd else best
            high = at
        else:
            low = at
        at = (low + high) / 2
        if high - low < 0.01:
            break
    if best is None:
        if refusal is not None and nearest == 0.0:
            raise refusal
        raise Infeasible("chance", f"the best plan found is served in {nearest:.1%} of the futures, {wanted:.1%} was asked for",
                         "a lower chance, more power or budget, or earlier orders" + (f" ({refusal})" if refusal else ""))
    return best


def delayed(supplies: Sequence[Supply], future: Future, quantile: float) -> list[Supply]:
    """Return the supplies with their lead times at a quantile of the futures."""
    if future.late is None:
        return list(supplies)
    late = np.quantile(future.late, quantile, axis=0, method="higher")
    return [replace(s, lead_months=max(0, s.lead_months + int(late[i]))) for i, s in enumerate(supplies)]


def worst_demand(supplies: Sequence[Supply], demand: Mapping[str, np.ndarray], future: Future, quantile: float) -> dict[str, np.ndarray]:
    """Return the demand over the throughput factor at a quantile, month by month; the factor is that of the supply that serves the workload best."""
    found = {}
    for name, series in demand.items():
        best = int(np.argmax([s.throughput.get(name, 0.0) for s in supplies]))
        factor = 1.0 if future.throughput is None else np.asarray(future.throughput)[:, [best]]
        found[name] = np.quantile(np.atleast_2d(series) / factor, quantile, axis=0)
    return found
