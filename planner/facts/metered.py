"""Which MLPerf runs had their wall power metered, and how a platform is cooled: words, no watts."""

from __future__ import annotations

from planner.errors import InputError
from planner.facts.files import table
from planner.facts.names import resolve_system

LIQUID_WORDS = ("liquid", "water", "direct", "cold plate", "neptune")


def cooling_kind(given: object) -> str:
    """Return air or liquid for the words of a system description. Raises: InputError."""
    words = str(given).lower().replace("‑", "-")
    if not isinstance(given, str) or not any(w in words for w in (*LIQUID_WORDS, "air", "fan")):
        raise InputError("cooling", given, "must be air or liquid")
    return "liquid" if any(w in words for w in LIQUID_WORDS) else "air"


def _plain(text: str) -> str:
    return "".join(c for c in str(text).lower() if c.isalnum())


def runs() -> list[dict[str, str]]:
    """Return the rows of data/mlperf_results.csv with measured wall power."""
    return [r for r in table("mlperf_results.csv") if r["power_w_measured"]]


def platform(system: str, model: str, scenario: str) -> str:
    """Return the platform whose run of this model and scenario on this system was metered, "" where none or several were.

    Parameters: system, a catalogue id; model and scenario in any spelling, "" matches nothing. Raises: nothing.
    """
    found = set()
    for row in runs():
        named, wanted = _plain(row["model"]), _plain(model)
        if wanted and (named.startswith(wanted) or wanted.startswith(named)) and _plain(row["scenario"]) == _plain(scenario) \
                and resolve_system(row["accelerator"]) == system:
            found.add(row["platform"])
    return found.pop() if len(found) == 1 else ""


def cooling(name: str) -> str:
    """Return how the description of a platform words its cooling. Raises: InputError for a platform without a description."""
    for row in table("mlperf_systems.csv"):
        if row["platform"] == name or row["system_name"] == name:
            return row["cooling"]
    raise InputError("platform", name, "must be a platform of data/mlperf_systems.csv")
