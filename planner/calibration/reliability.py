"""Failure rates of published populations, each by itself: no law is fitted across them."""

from __future__ import annotations

import re

from scipy.stats import gamma

from planner.calibration.table import Constant, constant
from planner.errors import InputError
from planner.facts.files import table

SOURCE = "data/reliability.csv"


def _published(study: str, metric: str, scale: str = "") -> dict[str, str]:
    for row in table("reliability.csv"):
        if row["study"] == study and row["metric"] == metric and scale in row["scale"]:
            return row
    raise InputError("reliability.csv", f"{study}: {metric} {scale}".strip(), "must be a row of data/reliability.csv")


def _node_rate(row: dict[str, str]) -> tuple[float, float, float, str]:
    """Return (rate, low, high) [1/day of one node] and what it was counted from."""
    nodes = int(row["gpus_per_node"])
    if row["kind"] == "assumed":
        value = float(row["value"])
        return value, 0.5 * value, 2 * value, "assumed; range a factor of two"
    found = _published(row["study"], row["metric"])
    value = float(found["value"])
    if row["kind"] == "count":
        gpus, days = (float(n) for n in re.findall(r"\d+", re.sub(r"H\d+", "", found["scale"])))
        node_days = gpus / nodes * days
        low, high = gamma.ppf(0.1, value) / node_days, gamma.ppf(0.9, value + 1) / node_days
        return value / node_days, float(low), float(high), f"{value:g} in {node_days:,.0f} node-days; range: counting statistics of the one run"
    if row["kind"] == "node_rate":
        return value / 1000, 0.8 * value / 1000, 1.2 * value / 1000, "printed rate; range 20 % assumed (months differ)"
    return nodes / value, 0.8 * nodes / value, 1.2 * nodes / value, f"{value:g} days a GPU; range 20 % assumed"


def fit() -> list[Constant]:
    """Return node_rate [1/day] and job_rate [1/day] of each population of data/failure_populations.csv."""
    rows = []
    for row in table("failure_populations.csv"):
        rate, low, high, note = _node_rate(row)
        rows.append(Constant("node_rate", row["population"], rate, low, high, "1/day", 1, row["source"], note))
        job = 0.0
        if row["job_metric"]:
            days = float(_published("Meta RSC", row["job_metric"], "8 GPUs")["value"])
            job = 1 / days - rate
        rows.append(Constant("job_rate", row["population"], job, 0.5 * job, 1.5 * job, "1/day", 1, row["source"],
                             "what an 8-GPU job loses beyond its node's rate; range 50 % assumed" if job else "no small job published: taken as 0"))
    return rows


def cause_shares(study: str = "Llama 3 405B") -> dict[str, tuple[int, float, float | None]]:
    """Return cause -> (count [1], share of all unexpected interruptions [1] by count, share as printed [1] or None), most frequent first.

    Shares are counted again, not copied: a printed one may contradict its own count. Raises: InputError for a study without counted causes.
    """
    total = float(_published(study, "unexpected interruptions")["value"])
    found = {}
    for row in table("reliability.csv"):
        if row["study"] == study and row["metric"].startswith("interruptions: "):
            printed = re.search(r"printed share ([\d.]+)%", row["note"])
            found[row["metric"].removeprefix("interruptions: ")] = (int(row["value"]), float(row["value"]) / total,
                                                                    float(printed[1]) / 100 if printed else None)
    if not found:
        raise InputError("study", study, "must be one whose causes were counted, such as Llama 3 405B")
    return dict(sorted(found.items(), key=lambda item: -item[1][0]))


def population(name: str) -> tuple[str, Constant, Constant, dict[str, str]]:
    """Return (id, node rate, job rate, row) of a population by its id or a spelling. Raises: InputError naming the known ones."""
    wanted = str(name).strip().lower()
    for row in table("failure_populations.csv"):
        if wanted == row["population"] or wanted in row["spellings"].split(";"):
            found = row["population"]
            return found, constant("reliability", "node_rate", found), constant("reliability", "job_rate", found), row
    known = ", ".join(r["population"] for r in table("failure_populations.csv"))
    raise InputError("population", name, f"must be one of {known}, or give failure_rate with its unit")
