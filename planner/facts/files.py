"""The one door to files that ship with the planner: data, notebooks, scenarios and outputs, in a wheel and a checkout; and what a user's file is."""

from __future__ import annotations

import csv
import hashlib
from functools import cache
from pathlib import Path

from planner.errors import InputError

FOLDERS = ("data", "notebooks", "scenarios", "outputs")


def folder(name: str) -> Path:
    """Return the folder `name` that ships with the planner.

    Parameters: name, one of `FOLDERS`. Returns: an existing path, `planner/share/<name>` in a wheel and the top folder
    of the repository in a checkout. Raises: InputError for another name; FileNotFoundError for a broken installation.
    """
    if name not in FOLDERS:
        raise InputError("folder", name, f"must be one of {', '.join(FOLDERS)}")
    package = Path(__file__).resolve().parent.parent
    for place in (package / "share" / name, package.parent / name):
        if place.is_dir():
            return place
    raise FileNotFoundError(f"the planner's folder {name} is missing: reinstall the package")


@cache
def table(name: str, place: str = "data") -> tuple[dict[str, str], ...]:
    """Return a CSV table of `data/` as rows of text, the header's names as keys; read once per process.

    Parameters: name, a path below `data/` such as "claims.csv"; place, another of `FOLDERS`. Returns: a tuple of dicts, to be treated as
    read-only. Raises: InputError naming file and line for a row with too many or too few cells, or a file that is not there.
    """
    path = (folder(place) / name).resolve()
    if not path.is_relative_to(folder(place).resolve()) or not path.is_file():
        raise InputError("table", name, f"must be a file of the {place} folder")
    with path.open(newline="", encoding="utf-8") as handle:
        reader = csv.reader(handle, strict=True)
        header = next(reader, [])
        rows = []
        for cells in reader:
            if len(cells) != len(header):
                raise InputError(f"line {reader.line_num}", len(cells), f"must have {len(header)} cells", f"{place}/{name}")
            rows.append(dict(zip(header, cells, strict=True)))
    return tuple(rows)


def regular(path: Path) -> bool:
    """Return whether a path is a file that ends: no folder, no pipe and no device. Raises: nothing, whatever the name."""
    try:
        return path.is_file()
    except OSError:  # a name too long for a file
        return False


def content_digest(path: Path) -> str:
    """Return a digest of a file's content, empty for what is no readable file: whoever reads it refuses it. Raises: nothing."""
    if not regular(path):
        return ""  # a pipe is never opened: it may not end
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError:
        return ""
