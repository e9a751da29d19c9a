"""What it costs: rent and ownership as named parts, money over time, and USD per token at a utilisation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.errors import Infeasible, InputError
from planner.units import count, fraction, nonnegative, number, positive, whole_up

HOURS_PER_YEAR = 8760.0
JOULES_PER_KWH = 3.6e6


def annuity_usd(capital_usd, rate_per_period, periods, residual_usd=0.0):
    """Return the level payment that repays a capital: A = (C - S v^n) r / (1 - v^n), v = 1 / (1 + r); (C - S) / n at r = 0.

    Parameters: capital_usd C [USD]; rate_per_period r [1] of one period; periods n [1]; residual_usd S [USD] at the end; all broadcast.
    Returns: payment at the end of each period [USD]. Raises: InputError for negative money, r <= -1, n <= 0, or a residual above the capital.
    Validity: constant rate; payments in arrears. Error: to the cent against hand-worked tables (data/references/cost.csv). Source: annuity formula.
    """
    capital, residual = nonnegative("capital_usd", capital_usd), nonnegative("residual_usd", residual_usd)
    rate, n = number("rate_per_period", rate_per_period, 0.0, 10.0), positive("periods", periods)
    if (residual > capital).any():
        raise InputError("residual_usd", float(np.max(residual)), f"must be at most the capital ({float(np.min(capital)):,.2f})")
    growth = np.expm1(n * np.log1p(rate))  # (1 + r)^n - 1 without losing digits at small r
    repaid = np.where(rate > 0, rate * (1 + 1 / np.where(growth > 0, growth, 1.0)), 1 / n)
    left = np.where(rate > 0, rate / np.where(growth > 0, growth, 1.0), 1 / n)
    return (capital * repaid - residual * left)[()]


def straight_line_usd(cost_usd, years, residual_usd=0.0):
    """Return straight-line depreciation a year: D = (C - S) / n.

    Parameters: cost_usd C, residual_usd S [USD]; years n [1]. Returns: [USD/year]. Raises: InputError. Validity: bookkeeping, no interest.
    Error: exact. Source: definition.
    """
    cost, residual = nonnegative("cost_usd", cost_usd), nonnegative("residual_usd", residual_usd)
    if (residual > cost).any():
        raise InputError("residual_usd", float(np.max(residual)), f"must be at most the cost ({float(np.min(cost)):,.2f})")
    return ((cost - residual) / positive("years", years))[()]


def capital_usd_per_gpu_hour(capital_usd_per_gpu, years, used_fraction=1.0):
    """Return capital spread over the hours used, without interest: c = C / (8,760 n u).

    Parameters: capital_usd_per_gpu C [USD]; years n [1]; used_fraction u [1] of all hours. Returns: [USD/h]. Raises: InputError.
    Validity: years of 8,760 h. Error: exact. Source: division.
    """
    hours = HOURS_PER_YEAR * positive("years", years) * fraction("used_fraction", used_fraction, zero=False)
    return (nonnegative("capital_usd_per_gpu", capital_usd_per_gpu) / hours)[()]


def energy_usd(watts_it, hours, pue, usd_per_kwh):
    """Return the cost of electricity: E = P PUE t p.

    Parameters: watts_it P [W] mean IT power; hours t [h]; pue [1], 1 where P is at the meter; usd_per_kwh p [USD/kWh]. Returns: [USD].
    Raises: InputError for PUE below 1 or a negative price. Validity: one tariff. Error: exact. Source: definition.
    """
    ratio = number("pue", pue, 1.0, 100.0)
    return (nonnegative("watts_it", watts_it) / 1e3 * ratio * nonnegative("hours", hours) * nonnegative("usd_per_kwh", usd_per_kwh))[()]


def rent_usd(gpus, usd_per_gpu_hour, hours, gpus_per_rack=1):
    """Return the bill for rented GPUs, whole racks where they are only let so: B = ceil(g / k) k p t.

    Parameters: gpus g [1]; usd_per_gpu_hour p [USD/h]; hours t [h] (a month of 720 or 730 h is the caller's choice); gpus_per_rack k [1],
    1 where single GPUs are let. Returns: [USD]. Raises: InputError. Validity: every hour billed. Error: exact. Source: product.
    """
    each = count("gpus_per_rack", gpus_per_rack)
    billed = whole_up(count("gpus", gpus) / each) * each
    return (billed * nonnegative("usd_per_gpu_hour", usd_per_gpu_hour) * nonnegative("hours", hours))[()]


def allocation_usd(usd_per_hour, used_fraction):
    """Return the price of an hour by use and by idleness: used = p u, idle = p (1 - u); they sum to what is paid.

    Parameters: usd_per_hour p [USD/h]; used_fraction u [1]. Returns: ordered dict `used`, `idle` [USD/h]. Raises: InputError.
    Validity: the whole hour is paid. Error: exact. Source: definition.
    """
    price, used = nonnegative("usd_per_hour", usd_per_hour), fraction("used_fraction", used_fraction)
    return {"used": (price * used)[()], "idle": (price * (1 - used))[()]}


def owned_usd_per_year(capital_usd: Mapping, yearly_usd: Mapping, rate_per_year, years, residual_fraction=0.0):
    """Return what an owned fleet costs a year, by part: an annuity for each part of the capital, and the running costs as they are.

    Parameters: capital_usd, part -> [USD] (racks, network, storage, spares, building, ...); yearly_usd, part -> [USD/year] (power, colocation,
    staff, maintenance, ...); rate_per_year r [1]; years n, one number or part -> years; residual_fraction [1] of each part at its end.
    Returns: ordered dict part -> [USD/year]. Raises: InputError for a part of None (a missing price is no zero), or a part named twice.
    Validity: level payments once a year. Error: as `annuity_usd`. Source: sum of annuities.
    """
    twice = set(capital_usd) & set(yearly_usd)
    if twice:
        raise InputError("part", sorted(twice)[0], "is named under capital and under yearly costs")
    missing = [name for name, value in {**capital_usd, **yearly_usd}.items() if value is None]
    if missing:
        raise InputError(missing[0], None, "has no price: not available, and not 0")
    share = fraction("residual_fraction", residual_fraction)
    lives = years if isinstance(years, Mapping) else dict.fromkeys(capital_usd, years)
    parts = {}
    for name, value in capital_usd.items():
        if name not in lives:
            raise InputError(f"years.{name}", None, "is required: how long this part lasts")
        paid = nonnegative(name, value)
        parts[name] = annuity_usd(paid, rate_per_year, lives[name], paid * share)
    return {**parts, **{name: nonnegative(name, value)[()] for name, value in yearly_usd.items()}}


def usd_per_million_tokens(usd_per_hour, tokens_per_s, utilisation):
    """Return the cost of a million tokens: c = p / (3600 T u) x 1e6.

    Parameters: usd_per_hour p [USD/h] of some GPUs; tokens_per_s T [1/s] that the same GPUs make when full; utilisation u [1] of it that is
    used over time. Returns: [USD] a million tokens, of the kind that T counts. Raises: InputError; a utilisation above 1 gets the hint
    that it is no percent. Validity: all cost on these tokens. Error: identity, exact. Source: definition.
    """
    rate = positive("tokens_per_s", tokens_per_s) * fraction("utilisation", utilisation, zero=False)
    return (nonnegative("usd_per_hour", usd_per_hour) / (3600 * rate) * 1e6)[()]


def split_usd_per_million(usd_per_second, input_tokens_per_s, cached_tokens_per_s, output_tokens_per_s, prefill_fraction, cached_cost_fraction):
    """Return the cost of a million fresh input, cached input and output tokens, so that the three together bring in what is spent.

    The prefill share of the GPUs' time is spread over input tokens, a cached one counting k of a fresh one; the decode share over output
    tokens. Parameters: usd_per_second p [USD/s]; input_tokens_per_s (fresh) and cached_tokens_per_s and output_tokens_per_s [1/s] served on
    average; prefill_fraction [1] of GPU time; cached_cost_fraction k [1]. Returns: ordered dict `input`, `cached_input`, `output` [USD] a million.
    Raises: InputError. Validity: time shares measure cost shares. Error: exact sum (tests). Source: cost allocation.
    """
    price, share = nonnegative("usd_per_second", usd_per_second), fraction("prefill_fraction", prefill_fraction)
    fresh, cached = nonnegative("input_tokens_per_s", input_tokens_per_s), nonnegative("cached_tokens_per_s", cached_tokens_per_s)
    out, k = positive("output_tokens_per_s", output_tokens_per_s), fraction("cached_cost_fraction", cached_cost_fraction)
    weighted = fresh + k * cached
    if ((weighted <= 0) & (share > 0)).any():
        raise InputError("prefill_fraction", float(np.max(share)), "must be 0 where no input token is computed")
    each = price * share / np.where(weighted > 0, weighted, 1.0) * 1e6
    return {"input": each[()], "cached_input": (k * each)[()], "output": (price * (1 - share) / out * 1e6)[()]}


def tokens_usd(input_tokens, cached_tokens, output_tokens, usd_per_million: Mapping):
    """Return what tokens cost at list prices: fresh input, cached input (a subset of the input) and output, by part.

    Parameters: input_tokens, cached_tokens, output_tokens [token]; usd_per_million, `input`, `cached_input`, `output` -> [USD] a million tokens;
    a price that is not needed may be absent. Returns: ordered dict of [USD]. Raises: InputError for more cached than input tokens, or a
    price that is needed and absent. Validity: no minimum fees. Error: exact. Source: price list arithmetic.
    """
    total, cached = nonnegative("input_tokens", input_tokens), nonnegative("cached_tokens", cached_tokens)
    out = nonnegative("output_tokens", output_tokens)
    if (cached > total).any():
        most = f"{float(np.min(total)):,.0f}"
        raise InputError("cached_tokens", float(np.max(cached)), f"must be at most the input tokens ({most}), of which they are part")
    parts = {}
    for name, tokens in (("input", total - cached), ("cached_input", cached), ("output", out)):
        price = usd_per_million.get(name)
        if price is None and (tokens > 0).any():
            raise InputError(f"usd_per_million.{name}", None, "has no price: not available, and not 0")
        parts[name] = (tokens * nonnegative(f"usd_per_million.{name}", 0.0 if price is None else price) / 1e6)[()]
    return parts


def npv_usd(cash_flow_usd, rate_per_year, periods_per_year=12):
    """Return the net present value of a cash flow: sum of CF_k / (1 + r)^(k / m), k = 0 now.

    Parameters: cash_flow_usd (..., n) [USD] along the last axis, outflows negative; rate_per_year r [1] effective; periods_per_year m [1].
    Returns: [USD]. Raises: InputError for r <= -1. Validity: flows at the period's start. Error: to the cent (data/references/cost.csv).
    Source: discounting.
    """
    flow = number("cash_flow_usd", cash_flow_usd)
    rate = number("rate_per_year", rate_per_year, -0.99, 10.0)
    when = np.arange(flow.shape[-1]) / positive("periods_per_year", periods_per_year)
    return (flow / (1 + rate[..., None]) ** when).sum(-1)[()]


def ownership_cash_flow_usd(capital_usd, monthly_usd, months, residual_usd=0.0, revenue_usd_per_month=0.0):
    """Return the monthly cash flow of an owned fleet: the capital now, running costs each month after, the residual with the last.

    Parameters: capital_usd, monthly_usd, residual_usd, revenue_usd_per_month [USD]; months n [1]. Returns: (n + 1,) [USD], outflows negative.
    Raises: InputError. Validity: paid at once, no tax. Error: exact. Source: definition.
    """
    n = int(count("months", months, 1, 1200))
    flow = np.full(n + 1, float(nonnegative("revenue_usd_per_month", revenue_usd_per_month) - nonnegative("monthly_usd", monthly_usd)))
    flow[0] = -float(nonnegative("capital_usd", capital_usd))
    flow[-1] += float(nonnegative("residual_usd", residual_usd))
    return flow


def break_even_usd_per_hour(other_usd_per_hour, own_extra_usd_per_hour, own_tokens_per_s, other_tokens_per_s, own_utilisation, other_utilisation):
    """Return the price of an hour at which two systems cost the same a token: p = P (T u) / (T' u') - e.

    Parameters: other_usd_per_hour P [USD/h] all that an hour of the other system costs; own_extra_usd_per_hour e [USD/h] what an hour of the
    own system costs beside the price sought (energy, network; 0 for an all-in price); own_tokens_per_s T, other_tokens_per_s T' [1/s] at one
    SLO, for the same unit (GPU, rack, megawatt) as the prices; utilisations u, u' [1]. Returns: price [USD/h] of that unit.
    Raises: InputError; Infeasible (price) where no price >= 0 does it. Validity: equal SLO on both sides. Error: identity, exact.
    Source: equality of `usd_per_million_tokens`.
    """
    gain = positive("own_tokens_per_s", own_tokens_per_s) * fraction("own_utilisation", own_utilisation, zero=False)
    gain = gain / (positive("other_tokens_per_s", other_tokens_per_s) * fraction("other_utilisation", other_utilisation, zero=False))
    price = nonnegative("other_usd_per_hour", other_usd_per_hour) * gain - nonnegative("own_extra_usd_per_hour", own_extra_usd_per_hour)
    if (price < 0).any():
        raise Infeasible("price", f"even at 0 USD/h it costs more a token: the other costs cost {-float(np.min(price)):,.2f} USD/h too much",
                         "more throughput, or cheaper energy and network")
    return price[()]


def tokens_by_direction(requests, input_tokens, output_tokens) -> dict:
    """Return the tokens of requests by direction: input, output, total; each has its own price, the total has none.

    Parameters: requests [1]; input_tokens and output_tokens [token] of one request; broadcast. Returns: ordered dict [token]. Raises: InputError.
    Validity: means. Error: exact. Source: counting.
    """
    many = nonnegative("requests", requests)
    both = [(many * nonnegative(name, value))[()] for name, value in (("input_tokens", input_tokens), ("output_tokens", output_tokens))]
    return {"input": both[0], "output": both[1], "total": both[0] + both[1]}


def break_even_rack_usd(usd_per_gpu_hour, gpus, rate_per_year, years, yearly_usd, utilised_hours=HOURS_PER_YEAR, residual_fraction=0.0):
    """Return the rack price whose ownership costs as much as renting its GPUs: C = (p g h - y) / ((1 - s v^n) r / (1 - v^n)).

    Parameters: usd_per_gpu_hour p [USD/h] rent to match; gpus g [1] of the rack; rate_per_year r, years n [1]; yearly_usd y [USD/year] running
    costs of the rack; utilised_hours h [h/year] paid; residual_fraction s [1] of the price. Returns: price of the rack [USD].
    Raises: InputError; Infeasible (price) where running costs alone exceed the rent. Validity: as `annuity_usd`. Error: its exact inverse.
    Source: annuity formula.
    """
    left = (nonnegative("usd_per_gpu_hour", usd_per_gpu_hour) * count("gpus", gpus) * positive("utilised_hours", utilised_hours)
            - nonnegative("yearly_usd", yearly_usd))
    if (left < 0).any():
        raise Infeasible("price", f"running costs alone exceed the rent by {-float(np.min(left)):,.0f} USD a year", "a higher rent or cheaper power")
    return (left / annuity_usd(1.0, rate_per_year, years, fraction("residual_fraction", residual_fraction)))[()]
