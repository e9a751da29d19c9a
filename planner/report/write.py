"""A report folder: HTML, XLSX, plan.json and the executed notebook, made whole beside its place and then moved there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from planner import __version__
from planner.errors import InputError
from planner.facts.files import folder
from planner.report.whole import spare
from planner.scenario import Scenario

FILES = ("report.html", "report.xlsx", "plan.json", "report.ipynb")
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Written:
    """Where a report is, and whether it was made now or found identical. status, the plan's own status."""

    path: Path
    reused: bool
    status: str


def slug(name: str) -> str:
    """Return a safe folder name for a scenario's name: lower case a-z, 0-9 and dashes, at most 60 letters, never empty."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:60].strip("-") or "scenario"


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def facts_digest() -> str:
    """Return a digest of everything a report rests on beside its inputs: the data files, the template notebook, the version."""
    total = hashlib.sha256(__version__.encode())
    for path in sorted(p for p in folder("data").rglob("*") if p.suffix in (".csv", ".json")):
        total.update(path.name.encode() + path.read_bytes())
    total.update((folder("notebooks") / "report.ipynb").read_bytes())
    return total.hexdigest()[:16]


def _identical(place: Path, key: dict) -> str | None:
    """Return the plan's status when `place` holds exactly the report that `key` names, else None."""
    try:
        manifest = json.loads((place / MANIFEST).read_text())
        same = manifest["made_from"] == key and set(manifest["files"]) == set(FILES)
        good = same and all(_sha((place / f).read_bytes()) == h for f, h in manifest["files"].items())
        return manifest["status"] if good else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_report(place: Path) -> bool:
    """Whether a folder carries a manifest of ours, of whatever content."""
    try:
        return set(json.loads((place / MANIFEST).read_text())) >= {"made_from", "status", "files"}
    except (OSError, ValueError, TypeError):
        return False


def _place(out: Path, scenario: Scenario) -> Path:
    place = out / f"{slug(scenario.name)}-{scenario.digest}"
    if place.is_symlink():
        raise InputError("output folder", str(place), "must not be a symbolic link")
    if place.resolve().parent != out.resolve():
        raise InputError("output folder", str(place), "must lie inside the folder given")
    return place


def write(scenario: Scenario, out: str | Path = "reports", *, force: bool = False, language: str = "en") -> Written:
    """Make the report of one scenario in `out`/<name>-<input digest>/.

    Parameters: scenario; out, a folder that is made if absent; force, replace the files of a report
    whose content differs, and no others; language.
    Returns: Written. An identical folder is reused. Raises: InputError for a folder that exists with other content and for an
    output folder that cannot be written; nothing half written remains.
    """
    if not str(out).strip():
        raise InputError("output folder", str(out), "must be named")
    out = Path(out)
    made = [p for p in (out, *out.parents) if not p.exists()]  # deepest first
    try:
        out.mkdir(parents=True, exist_ok=True)
        place = _place(out, scenario)
        for name in (*FILES, MANIFEST):
            spare(place / name, scenario.files, "output folder")
        key = {"input_digest": scenario.digest, "facts": facts_digest(), "language": language}
        status = _identical(place, key)
        if status is not None:
            return Written(place, True, status)
        if place.exists() and not force:
            raise InputError("output folder", str(place), "exists with other content: choose another folder or add --force")
        if place.exists() and not _is_report(place):
            raise InputError("output folder", str(place), "is not a report of the planner: --force replaces only those")
        stage = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=out))
    except OSError as error:
        raise InputError("output folder", str(out), f"must be a folder that can be written ({error.strerror})") from None
    try:
        status = _fill(stage, scenario, key, language)
        _move(stage, place)
        return Written(place, False, status)
    except OSError as error:
        if _identical(place, key) is not None:  # another run made the same report in the meantime
            return Written(place, True, status)
        raise InputError("output folder", str(out), f"must have room and allow writing ({error.strerror})") from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        for one in made:  # what was made for a report that was not written goes again
            with contextlib.suppress(OSError):
                one.rmdir()


def _fill(stage: Path, scenario: Scenario, key: dict, language: str) -> str:
    from planner.decide import decide
    from planner.report.html import render
    from planner.report.notebook import execute
    from planner.report.xlsx import workbook
    from planner.views.decision import tables

    answer = decide(scenario)
    document = json.dumps(answer.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    (stage / "plan.json").write_text(document, encoding="utf-8")
    notebook = execute(stage, answer)
    content = {
        "report.html": render(notebook, f"{scenario.name} · Planner", language).encode("utf-8"),
        "report.xlsx": workbook(tables(answer), scenario.as_of),
    }
    for name, data in content.items():
        (stage / name).write_bytes(data)
    hashes = {name: _sha((stage / name).read_bytes()) for name in FILES}
    manifest = {"made_from": key, "status": answer.status, "files": hashes}
    (stage / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return answer.status


def _move(stage: Path, place: Path) -> None:
    """Put a report in its place: as a whole where nothing is, else file by file, the manifest last, so that nothing else there is touched."""
    if not place.exists():
        os.chmod(stage, 0o755)
        os.replace(stage, place)
        return
    for name in (*FILES, MANIFEST):
        os.replace(stage / name, place / name)
