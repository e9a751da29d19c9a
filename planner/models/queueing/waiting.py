"""Prompts that wait for a prefill worker: Poisson arrivals, c workers, any spread of the service time (M/G/c)."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc, gammainccinv, gammaln, ndtr

from planner.errors import Infeasible
from planner.models.queueing.lengths import inside, rate_of, scv_of
from planner.units import count, nonnegative, positive

# coefficients of the two correction factors of `wait_moments`: tools/check_queueing.py --fit finds them again within the noise (20 min);
# queues left out of the fit: -2.5 to +3.7 %
_D = (0.1322, 1.8066, 1.5639)
_K = (0.0343, 5.0075, 2.3504, 0.0853, 2.3859, 8.2248, 0.3079, 3.4769, 0.8094, 1.5799)


def load_fraction(rate_per_s, service_seconds, num_workers):
    """Return the share of the time a worker is busy: rho = rate x S / c; above 1 the queue grows without end.

    Parameters: rate_per_s [1/s]; service_seconds S [s] mean; num_workers c [1]. Returns: load [1], may exceed 1. Raises: InputError.
    Validity: any arrivals. Error: exact. Source: Little's law.
    """
    work = rate_of("rate_per_s", rate_per_s) * positive("service_seconds", service_seconds)
    return (work / count("num_workers", num_workers))[()]


def check_load(rate_per_s, service_seconds, num_workers, what="prefill"):
    """Return the load, or refuse one of 1 or more with the highest rate and the fewest workers that would do.

    Parameters: as `load_fraction`; what, a word for the message. Returns: load [1]. Raises: InputError; Infeasible (cause demand).
    Validity: any arrivals. Error: exact. Source: Little's law.
    """
    load = np.asarray(load_fraction(rate_per_s, service_seconds, num_workers))
    if (load >= 1).any():
        at = np.unravel_index(np.argmax(load), load.shape)
        rate, seconds, workers = (float(np.broadcast_to(v, load.shape)[at]) for v in (rate_per_s, service_seconds, num_workers))
        most, need = workers / seconds, int(np.floor(rate * seconds)) + 1
        raise Infeasible(
            "demand",
            f"{what} load {load[at]:.3g} of {workers:g} workers at {rate:g} requests/s: the queue grows without end",
            f"below {most:g} requests/s, or at least {need} workers",
        )
    return load[()]


def delay_probability(load, num_workers):
    """Return the chance that all workers are busy: Erlang's C through his B = pdf / cdf of a Poisson number of mean c rho.

    Parameters: load rho [1]; num_workers c [1]. Returns: probability [1]; 1 where the load is 1 or more. Raises: InputError.
    Validity: exact for exponential service times. Error: 1e-9 of the recursion for up to 4,096 workers (tests). Source: Erlang (1917).
    """
    rho, workers = nonnegative("load", load), count("num_workers", num_workers)
    offered = np.minimum(rho, 1.0) * workers
    with np.errstate(divide="ignore", under="ignore"):
        full = np.exp(workers * np.log(offered) - offered - gammaln(workers + 1.0))
    blocked = full / gammaincc(workers + 1.0, offered)
    return np.where(rho < 1, blocked / (1 - np.minimum(rho, 1.0) * (1 - blocked)), 1.0)[()]


def first_release(num_workers, scv, power=1):
    """Return E[T^k] of the time until the first of c busy workers is free, in mean service times: integral of k t^(k-1) (1 - Fe(t))^c.

    Fe is the residual life of a lognormal service time: 1 - Fe(t) = N(d + s) - t N(d), d = -ln(t) / s - s / 2.
    Parameters: num_workers c [1]; scv [1]; power k [1]. Returns: moment [1]. Raises: InputError.
    Validity: lognormal, constant at scv 0. Error: 1e-3 of the closed forms at scv 0 and c = 1 (tests). Source: order statistics.
    """
    workers, spread = np.broadcast_arrays(count("num_workers", num_workers).astype(float), np.sqrt(np.log1p(scv_of("scv", scv))))
    spread, k = np.maximum(spread, 1e-4)[..., None], float(positive("power", power))
    u = np.linspace(0.0, 1.0, 193)
    # t = reach u^4: dense where the least of many residuals lies, and as far as the tail of one worker's goes
    tail = np.exp(spread**2 / 2 * (2 * k - 1) + (4.5 + spread) * spread)
    reach = np.minimum(tail, np.maximum(40 / workers[..., None], tail * workers[..., None] ** -0.6))
    t = reach * u**4
    with np.errstate(divide="ignore", under="ignore"):
        d = -np.log(t) / spread - spread / 2
        left = np.clip(ndtr(d + spread) - t * ndtr(d), 0.0, 1.0) ** workers[..., None]
    body = k * t ** (k - 1) * left * 4 * reach * u**3
    weight = np.where(np.arange(193) % 2, 4.0, 2.0)
    weight[[0, -1]] = 1.0
    return ((body * weight).sum(-1) / (192 * 3))[()]


def wait_moments(load, num_workers, scv):
    """Return P(wait > 0), and mean and variance of the wait of those who wait, in mean service times.

    Those who wait see the first of c workers released (time T), then a geometric number n of requests ahead, each a residual R of S / c:
    E = (E[T] + E[n] E[R]) / K, E[n] = rho / (1 - rho), E[R] = (1 + scv) / 2c. K and the delay's own factor D correct what the renewal
    argument leaves out (many workers look Poisson for a while, constant services do not); both are 1 for one worker and at load 1.
    E[R^2] lies between that of T (a long service blocks one of c workers) and that of S / c (it lasts long enough to block all), by rho^4.
    Parameters: load rho [1]; num_workers c [1]; scv [1] of the service time; broadcast. Returns: (probability [1], mean [1], variance
    [1]); infinite where the load is 1 or more. Raises: InputError. Validity: lognormal service times, scv up to 5.
    Error: see `wait_seconds`. Source: Tijms, A First Course in Stochastic Models, section 9.6 (method); D and K fitted to simulation
    (tools/check_queueing.py --fit).
    """
    rho, workers, spread = nonnegative("load", load), count("num_workers", num_workers), scv_of("scv", scv)
    chance, first, step, ahead, ratio = _renewal(rho, workers, spread)
    mean = first + ahead * step
    variance = (ratio - 1) * first**2 + ahead * _residual_square(rho, spread, ratio) * step**2 + (ahead * step) ** 2
    return chance[()], mean[()], np.maximum(variance, 0.0)[()]


def wait_seconds(rate_per_s, service_seconds, num_workers, scv):
    """Return the mean wait for a worker: P(wait > 0) x mean wait of those who wait; see `wait_moments`.

    Parameters: rate_per_s [1/s]; service_seconds [s] mean; num_workers [1]; scv [1]; broadcast. Returns: wait [s]; infinite at a load
    of 1 or more. Raises: InputError. Validity: Poisson arrivals, first come first served, lognormal service times of scv 0 to 5.
    Error: exact for one worker; 5 % of simulation at 30 to 95 % load where the simulation settles (outputs/queueing_errors.csv); 16 workers
    at 30 % load, where 1 in 20,000 waits, 10 to 16 %; exponential service 12 % low (`exponential` has it exactly). Source: as `wait_moments`.
    """
    rho = load_fraction(rate_per_s, service_seconds, num_workers)
    chance, mean, _ = wait_moments(rho, num_workers, scv)
    return (chance * mean * np.asarray(service_seconds, float))[()]


def wait_seconds_allen_cunneen(rate_per_s, service_seconds, num_workers, scv):
    """Return the common estimate of the mean wait, the baseline: W = C S (1 + scv) / (2 c (1 - rho)), C Erlang's.

    Parameters, Returns [s] and Raises: as `wait_seconds`. Validity: high load. Error: 32 % low to 109 % high (same table).
    Source: Allen, Probability, Statistics and Queueing Theory (1990).
    """
    rho = np.asarray(load_fraction(rate_per_s, service_seconds, num_workers))
    left = np.where(rho < 1, 1 - rho, 1.0)
    wait = delay_probability(rho, num_workers) * (1 + scv_of("scv", scv)) / (2 * np.asarray(num_workers) * left)
    return (np.where(rho < 1, wait, np.inf) * np.asarray(service_seconds, float))[()]


def wait_quantile_seconds_gamma(rate_per_s, service_seconds, num_workers, scv, quantile):
    """Return a quantile of the wait: 0 up to the share that does not wait, beyond it a gamma law with the moments of `wait_moments`.

    The quick one, for searches; `tails.wait_quantile_seconds` keeps the shape of the law.
    Parameters: as `wait_seconds`; quantile [1] inside 0..1. Returns: wait [s]; infinite at a load of 1 or more. Raises: InputError.
    Validity: as `wait_seconds`, scv up to 2. Error: p99 within 10 % of simulation up to scv 2; 19 % at scv 5 (same table).
    Source: two moments of a gamma law.
    """
    rho = load_fraction(rate_per_s, service_seconds, num_workers)
    chance, mean, variance = wait_moments(rho, num_workers, scv)
    above = np.minimum((1 - inside("quantile", quantile)) / np.maximum(chance, 1e-300), 1.0)
    stable = np.isfinite(mean) & np.isfinite(variance)
    m, v = np.where(stable, mean, 1.0), np.where(stable, variance, 1.0)
    inner = gammainccinv(m**2 / v, above) * v / m
    return (np.where(stable, np.where(above < 1, inner, 0.0), np.inf) * np.asarray(service_seconds, float))[()]


def _delay_factor(rho, workers, scv, d=_D):
    """Return D: how far Erlang's delay probability is from that of another service law, fitted."""
    y = np.sqrt(workers) * (1 - rho)
    return np.exp(-d[0] * (1 - 1 / workers) ** d[1] * y / (1 + (y / d[2]) ** 3) * (1 - scv) / (1 + scv))


def _wait_factor(rho, workers, scv, k=_K):
    """Return K: how far the renewal argument's conditional wait is above simulation, fitted."""
    scv, idle = np.minimum(scv, 5.0), 1 - rho
    wide, more, root = np.maximum(workers - k[2], 0.0) * idle, (workers - 1) * idle, np.sqrt(workers) * idle
    long = k[0] * scv * wide / (1 + wide / k[1])
    even = k[3] * np.exp(-k[4] * scv) * more / (1 + more / k[5])
    few = k[6] * np.exp(-k[7] * scv) * (1 - 1 / workers) ** k[8] * root / (1 + (root / k[9]) ** 2)
    return np.exp(long - even + few)


def _renewal(rho, workers, scv):
    """Return P(wait), E[T], E[R], E[n] and E[T^2] / E[T]^2, corrected, in mean service times; infinite n where the load is 1 or more."""
    stable, low = rho < 1, np.minimum(rho, 1.0)
    with np.errstate(divide="ignore"):
        ahead = np.where(stable, low / np.where(stable, 1 - low, 1.0), np.inf)
    first, square = first_release(workers, scv), first_release(workers, scv, 2)
    factor = _wait_factor(low, workers, scv)
    chance = np.minimum(delay_probability(low, workers) * _delay_factor(low, workers, scv), 1.0)
    step = (1 + scv) / (2 * workers)
    # what K takes from the sum is taken from the residuals first: the first release is right at low load
    worked = np.where(stable, ahead, 1.0)
    part = np.maximum(((first + worked * step) / factor - first) / np.where(worked > 0, worked, 1.0), 0.05 * step)
    scaled = np.where(worked > 0, np.maximum((first + worked * step) / factor - worked * part, 0.0), first)
    return chance, np.where(stable, scaled, first), np.where(stable & (worked > 0), part, step), ahead, square / first**2


def _residual_square(rho, scv, ratio):
    """Return E[R^2] / E[R]^2: from that of the first release at low load to that of S / c at load 1."""
    weight = np.minimum(rho, 1.0) ** 4
    return ratio ** (1 - weight) * (4 / 3 * (1 + scv)) ** weight
