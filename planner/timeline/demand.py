"""Demand by month: a history and forecast as typed, or start, growth, season and peak, for one future or for many draws."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from planner.errors import InputError
from planner.facts.files import regular
from planner.units import count, nonnegative, number, positive

MONTHS_A_YEAR = 12
MAX_BYTES = 20_000_000
COLUMNS = ("month", "workload", "value", "low", "high")


def grown(start, growth_per_month, months: int, season: Sequence[float] | None = None, peak_to_mean=1.0) -> np.ndarray:
    """Return the peak demand of each month: D_m = D_0 (1 + g)^m s_(m mod 12) p.

    Parameters: start D_0 [1/s] (scalar or (n,) draws), mean rate of month 0; growth_per_month g [1] > -1 (scalar or (n,)); months [1]; season s
    (12,) [1] factors with a mean of 1; peak_to_mean p [1] >= 1. Returns: (months,) or (n, months) [1/s].
    Raises: InputError. Validity: geometric growth. Error: exact. Source: compound growth.
    """
    first, growth = nonnegative("start", start), number("growth_per_month", growth_per_month, high=10.0)
    if (growth <= -1).any():
        raise InputError("growth_per_month", float(np.min(growth)), "must be > -1: demand cannot fall by more than all of it")
    n = int(count("months", months, 1, 600))
    factors = np.ones(MONTHS_A_YEAR) if season is None else positive("season", season)
    if factors.shape != (MONTHS_A_YEAR,) or abs(factors.mean() - 1) > 1e-3:
        raise InputError("season", len(np.ravel(factors)), "must be 12 factors with a mean of 1")
    peak = number("peak_to_mean", peak_to_mean, 1.0, 1000.0)
    at = np.arange(n)
    return (first[..., None] * (1 + growth[..., None]) ** at * factors[at % MONTHS_A_YEAR] * peak[..., None]) if (
        first.ndim or growth.ndim or peak.ndim) else first * (1 + growth) ** at * factors[at % MONTHS_A_YEAR] * peak


def _month(text: str, line: int, file: str) -> int:
    """Return a month as a running number, from `2026-11` or a whole number."""
    plain = str(text).strip()
    year, _, month = plain.partition("-")
    if plain.isdigit():
        return int(plain)
    if len(year) == 4 and year.isdigit() and month.isdigit() and 1 <= int(month) <= 12:
        return int(year) * 12 + int(month) - 1
    raise InputError(f"line {line}, month", text, "must be a month as 2026-11 or a whole number", file)


def typed(rows: Sequence[Mapping[str, str]], file: str = "demand") -> dict[str, np.ndarray]:
    """Return workload -> demand (3, months) [1/s], value, low and high, from rows with month, workload, value and, optional, low and high.

    Raises: InputError naming the line for a month that is missing, double or out of order, a value that is no number, or a range upside down.
    Validity: the same months for every workload. Error: as typed. Source: the caller's table.
    """
    found: dict[str, list[tuple[int, float, float, float]]] = {}
    for line, row in enumerate(rows, 2):
        if None in row:
            raise InputError(f"line {line}", len(row[None]), "must have no cells past the header's", file)
        for column in ("month", "workload", "value"):
            if not str(row.get(column) or "").strip():
                raise InputError(f"line {line}, {column}", row.get(column), "must be filled", file)
        month = _month(row["month"], line, file)
        try:
            value, low, high = (float(row.get(k) or row["value"]) for k in ("value", "low", "high"))
        except ValueError:
            raise InputError(f"line {line}, value", row["value"], "must be a number", file) from None
        if not 0 <= low <= value <= high < np.inf:
            raise InputError(f"line {line}, value", value, f"must be >= 0 and lie between low ({low:g}) and high ({high:g})", file)
        series = found.setdefault(str(row["workload"]).strip(), [])
        if series and month != series[-1][0] + 1:
            what = "given twice or out of order" if month <= series[-1][0] else f"{month - series[-1][0] - 1} month(s) missing before it"
            raise InputError(f"line {line}, month", row["month"], f"must follow the month before: {what}", file)
        series.append((month, value, low, high))
    if not found:
        raise InputError("rows", 0, "must hold at least one month", file)
    spans = {(s[0][0], s[-1][0]) for s in found.values()}
    if len(spans) > 1:
        raise InputError("month", sorted(spans), "must run over the same months for every workload", file)
    return {name: np.array([row[1:] for row in series]).T for name, series in found.items()}


def read(path: str | Path) -> dict[str, np.ndarray]:
    """Return the demand of a CSV file (UTF-8; columns month, workload, value and, optional, low and high), as `typed`.

    Parameters: path. Raises: InputError naming the file for one that cannot be read, is larger than 20 MB or has other columns; and as `typed`.
    Validity: history and forecast in one file: a history has no range. Error: as typed. Source: the caller's table.
    """
    place = Path(path)
    try:
        if not regular(place) or place.stat().st_size > MAX_BYTES:
            raise InputError("file", str(place), f"must be a regular file of at most {MAX_BYTES:,} bytes")
        rows = csv.DictReader(io.StringIO(place.read_bytes().decode("utf-8-sig"), newline=""), strict=True)
        columns = [c.strip().lower() for c in rows.fieldnames or ()]
        if not {"month", "workload", "value"} <= set(columns) <= set(COLUMNS) or len(set(columns)) < len(columns):
            raise InputError("columns", ",".join(columns), f"must be {', '.join(COLUMNS)} (the last two optional)", place.name)
        rows.fieldnames = columns
        return typed(list(rows), place.name)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError("file", getattr(error, "strerror", None) or str(error), "must be a readable CSV file in UTF-8", place.name) from None


def between(ends: np.ndarray, normal_scores: np.ndarray) -> np.ndarray:
    """Return draws of typed demand: one score a draw moves the whole path between its ends, log-normal in two halves.

    A half with an end at 0 has no logarithm: it is normal there, cut at 0.

    Parameters: ends (3, months), value, low and high (10th and 90th percentile); normal_scores (n,) [1]. Returns: (n, months) [1/s].
    Raises: InputError. Validity: a year that runs high runs high in every month. Error: percentiles as typed. Source: two-piece log-normal or normal.
    """
    value, low, high = number("ends", ends, 0.0)
    z = number("normal_scores", normal_scores)[:, None] / 1.2815515655446004
    if (low > value).any() or (value > high).any():
        raise InputError("ends", float(value[(low > value) | (value > high)][0]), "must lie between low and high in every month")
    safe = np.where(value > 0, value, 1.0)
    up, down = np.log(np.maximum(high, safe) / safe), np.log(safe / np.where(low > 0, low, safe))
    above = np.where(value > 0, safe * np.exp(np.maximum(z, 0) * up), np.maximum(z, 0) * high)
    below = np.where(low > 0, safe * np.exp(np.minimum(z, 0) * down), value * np.maximum(0.0, 1 + np.minimum(z, 0)))
    return np.where(z > 0, above, below)
