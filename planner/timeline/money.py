"""Cash by month and part, and what a rack costs a month when its price is spread over its life."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.errors import InputError
from planner.models import cost
from planner.timeline.ledger import Ledger, Supply
from planner.units import fraction, nonnegative

PARTS = ("racks bought", "racks sold", "rent", "running")


def monthly_rate(rate_per_year) -> float:
    """Return the effective monthly rate of a yearly one, a share in 0..1: (1 + r)^(1/12) - 1. Raises: InputError."""
    return float((1 + fraction("rate_per_year", rate_per_year)) ** (1 / 12) - 1)


def rack_usd_per_month(supply: Supply, rate_per_year: float = 0.0) -> float:
    """Return what one rack costs in each month of its life: rent, or the annuity of its price, plus running cost [USD].

    Raises: InputError where neither price nor rent is known: not available, and not 0.
    """
    if supply.usd is None and supply.rent_usd_per_month is None:
        raise InputError(f"{supply.name}.usd", None, "has no price and no rent: not available, and not 0")
    each = supply.rent_usd_per_month or 0.0
    if supply.usd is not None:
        each = float(cost.annuity_usd(supply.usd, monthly_rate(rate_per_year), supply.life_months, supply.usd * supply.residual_fraction))
    return each + supply.running_usd_per_month


def cash_flow(supplies: Sequence[Supply], found: Ledger, price_factor: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Return the cash flow by part (draws, months) [USD], outflows negative; the parts sum to the whole.

    Racks are paid when delivered, rent from acceptance on whether or not power has come, running cost for racks in service and spare; a bought
    rack is sold for its residual in the month after its life. Initial racks are not paid again. Parameters: supplies; found, their ledger;
    price_factor (draws, supplies) [1] on price and rent. Raises: InputError where a supply with racks has no price.
    """
    draws, _, months = found.ordered.shape
    factor = np.ones((1, len(supplies))) if price_factor is None else nonnegative("price_factor", price_factor)
    draws = max(draws, factor.shape[0])
    parts = {name: np.zeros((draws, months)) for name in PARTS}
    states = found.states
    for i, s in enumerate(supplies):
        arrived = found.ordered[:, i] - states["in transit"][:, i]
        if s.usd is None and s.rent_usd_per_month is None:
            if arrived.any():
                raise InputError(f"{s.name}.usd", None, "has no price and no rent: not available, and not 0")
            continue
        each = factor[:, i, None]
        bought, gone = np.diff(arrived, axis=1, prepend=float(s.initial)), np.diff(states["retired"][:, i], axis=1, prepend=0.0)
        standing = states["in service"][:, i] + states["spare"][:, i] + states["without power"][:, i]
        parts["racks bought"] -= bought * (s.usd or 0.0) * each
        parts["racks sold"] += gone * (s.usd or 0.0) * s.residual_fraction * each
        parts["rent"] -= standing * (s.rent_usd_per_month or 0.0) * each
        parts["running"] -= (states["in service"][:, i] + states["spare"][:, i]) * s.running_usd_per_month
    return parts


def worth_at_end(supplies: Sequence[Supply], found: Ledger) -> np.ndarray:
    """Return what the bought racks are still worth after the last month, straight line over their lives (draws,) [USD].

    Validity: counted from delivery; an estimate for comparing horizons, not a market value. Raises: nothing.
    """
    draws, _, months = found.ordered.shape
    total = np.zeros(draws)
    for i, s in enumerate(supplies):
        if s.usd is None:
            continue
        arrived = found.ordered[:, i] - found.states["in transit"][:, i]
        new = np.diff(arrived, axis=1, prepend=float(s.initial))
        age = months - np.arange(months)
        left = np.clip(1 - age / s.life_months, 0.0, 1.0) * (1 - s.residual_fraction) + s.residual_fraction * (age < s.life_months)
        total += (new * left).sum(1) * s.usd
    return total
