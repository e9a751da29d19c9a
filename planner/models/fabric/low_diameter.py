"""Counts of two direct topologies, Slim Fly and Dragonfly: what fat trees are compared with."""

from __future__ import annotations

from planner.errors import Infeasible
from planner.units import count


def prime_power(q: int) -> bool:
    """Return whether q is a power of one prime.

    Parameters: q [1]. Returns: bool. Raises: nothing. Validity: q of 2 and more. Error: exact. Source: trial division.
    """
    prime = next((p for p in range(2, int(q**0.5) + 1) if q % p == 0), q)
    while q % prime == 0:
        q //= prime
    return q == 1


def slim_fly(radix: int, endpoints: int | None = None) -> dict[str, int]:
    """Return the counts of the largest Slim Fly at a radix: 2 q^2 switches of network radix (3 q - e)/2, q = 4 w + e.

    Parameters: radix [ports] of one switch; endpoints [1] wanted (None: all it holds).
    Returns: dict of counts [1]: q, switches, endpoints, links (between switches), network_radix, endpoints_per_switch.
    Raises: InputError for a radix below 8; Infeasible for more endpoints than the largest q holds.
    Validity: counting only, as comparisons print it; a graph is known where q is a power of one prime (`prime_power`). Error: exact by formula.
    Source: Besta and Hoefler 2014.
    """
    k = int(count("radix", radix, 8, 100_000))
    for q in range((2 * k + 1) // 3 + 1, 2, -1):
        if q % 4 == 2:
            continue
        inner = (3 * q - {0: 0, 1: 1, 3: -1}[q % 4]) // 2
        per = -(-inner // 2)
        if inner + per <= k:
            break
    switches = 2 * q * q
    most = switches * per
    if endpoints is not None and int(count("endpoints", endpoints)) > most:
        raise Infeasible("fabric", f"a Slim Fly of {k}-port switches holds {most:,} endpoints, {endpoints:,} asked", f"at most {most:,}")
    return {"q": q, "switches": switches, "endpoints": endpoints or most, "links": switches * inner // 2, "network_radix": inner,
            "endpoints_per_switch": per}


def dragonfly(radix: int, endpoints: int | None = None) -> dict[str, int]:
    """Return the counts of a balanced Dragonfly: groups of a = 2p switches, p endpoints and h = p global links each.

    Parameters: radix [ports] of one switch, 4 p - 1 of them used; endpoints [1] wanted (None: a h + 1 groups).
    Returns: dict of counts [1]: groups, switches, endpoints, links (between switches, every global port wired), group_switches.
    Raises: InputError for a radix below 3; Infeasible for more endpoints than a h + 1 groups hold.
    Validity: counting only; whole groups. Error: exact by formula. Source: Kim et al. 2008.
    """
    k = int(count("radix", radix, 3, 100_000))
    p = (k + 1) // 4
    a, h = 2 * p, p
    most = a * h + 1
    groups = most if endpoints is None else -(-int(count("endpoints", endpoints)) // (a * p))
    if groups > most:
        raise Infeasible("fabric", f"a Dragonfly of {k}-port switches holds {most * a * p:,} endpoints, {endpoints:,} asked",
                         f"at most {most * a * p:,}")
    links = groups * (a * (a - 1) // 2) + groups * a * h // 2
    return {"groups": groups, "switches": groups * a, "endpoints": endpoints or groups * a * p, "links": links, "group_switches": a}
