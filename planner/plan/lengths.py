"""A file of lengths: one request a row, in tokens, as a serving log gives them -> mean, median and 99th percentile."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np

from planner.errors import InputError
from planner.facts.files import regular
from planner.scenario import LengthsIn

MAX_BYTES = 20_000_000
MOST_TOKENS = 1e8


def _column(header: list[str], name: str, file: str) -> int:
    """Return which of several columns holds the lengths: the one called as the scenario's key, or `tokens`."""
    plain = [h.strip().lower() for h in header]
    wanted = next((w for w in (name, "tokens") if plain.count(w) == 1), None)
    if wanted is None:
        raise InputError("header", ",".join(header), f"must be one column, or name one of them {name} or tokens", file)
    return plain.index(wanted)


def _tokens(cell: str, line: int, file: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 < value <= MOST_TOKENS:
        raise InputError(f"line {line}", cell, f"must be a number of tokens above 0 and at most {MOST_TOKENS:g}", file)
    return value


def read(path: str | Path, name: str = "tokens") -> LengthsIn:
    """Return the lengths of a CSV file (UTF-8, with or without a header).

    Parameters: path; name, the key it stands for, so that one file may hold `input_tokens` and `output_tokens` side by side.
    Raises: InputError naming file and line for a cell that is no number of tokens, a file that is none, or has no rows.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if not regular(path):
            raise InputError("file", str(path), "must be a regular file", path.name)
        if size > MAX_BYTES:
            raise InputError("file", f"{size} bytes", f"must be at most {MAX_BYTES} bytes", path.name)
        text = path.read_bytes().decode("utf-8-sig")
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError("file", getattr(error, "strerror", None) or str(error), "must be a readable UTF-8 file", str(path)) from None
    csv.field_size_limit(MAX_BYTES)
    rows = [(reader.line_num, cells) for reader in [csv.reader(io.StringIO(text, newline=""))] for cells in reader if any(c.strip() for c in cells)]
    place = 0 if not rows or len(rows[0][1]) == 1 else _column(rows[0][1], name, path.name)
    headed = bool(rows) and (len(rows[0][1]) > 1 or not _is_number(rows[0][1][0]))
    values = []
    for line, cells in rows[headed:]:
        if place >= len(cells):
            raise InputError(f"line {line}", len(cells), f"must have at least {place + 1} cells", path.name)
        values.append(_tokens(cells[place], line, path.name))
    if not values:
        raise InputError("rows", 0, "must hold at least one length", path.name)
    array = np.array(values)
    p50, p99 = np.percentile(array, [50, 99])
    return LengthsIn(mean=float(array.mean()), p50=float(p50), p99=float(p99))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
