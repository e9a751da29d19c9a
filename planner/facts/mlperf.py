"""MLPerf Inference rows as facts: joined, renamed and flagged, so that a reader sees which of them compare."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from planner.errors import InputError
from planner.facts.evidence import Claim, claims
from planner.facts.files import table
from planner.facts.names import resolve_model, resolve_system, resolve_unit
from planner.specs import Lengths, Slo, Workload
from planner.units import to_base

NOT_COMPARED = frozenset({"open", "mixed", "unavailable", "low_accuracy"})
INPUTS = {"qwen3-vl-235b-a22b": "mlperf-qwen3-vl-235b"}  # model -> subject of its claims, where it is not mlperf-<model>
WATTS = re.compile(r"(\d{3,4}) ?W TGP|TGP (\d{3,4}) ?W")


@dataclass(frozen=True)
class Run:
    """One result. value [1/s, or s for the metric s] of the whole system; wall_watts [W] measured, gpu_watts [W] as noted, or None.

    model as the rules name it (`llama2-70b`), shape the catalogue's name of it or ""; system the catalogue id, "" for a mix;
    flags, closed words: open, mixed, virtual, unavailable (preview or research), inferred, tray (part of a rack), nvl4, low_accuracy,
    mtp, count_uncertain, other_model.
    """

    id: str
    round: str
    submitter: str
    platform: str
    system: str
    accelerators: int
    nodes: int | None
    model: str
    shape: str
    scenario: str
    metric: str
    value: float
    flags: frozenset[str]
    weights: str
    gpu_watts: float | None
    wall_watts: float | None
    source: str

    @property
    def per_accelerator(self) -> float:
        """The value over the accelerators used [1/s]."""
        return self.value / self.accelerators

    @property
    def compared(self) -> bool:
        """Whether the row may stand in a calibration: closed, one kind of GPU, available, at full accuracy."""
        return not self.flags & NOT_COMPARED

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Round, submitter, platform, model and scenario: unique among compared rows, the join with `latencies`."""
        return self.round, self.submitter, self.platform, self.model, self.scenario


@dataclass(frozen=True)
class Latency:
    """Measured latencies of one run [s], None where not recorded; samples_per_s [1/s]; mean_output_tokens [token]."""

    key: tuple[str, str, str, str, str]
    samples_per_s: float
    tokens_per_s: float | None
    mean_output_tokens: float | None
    ttft_p50: float | None
    ttft_p99: float | None
    ttft_mean: float | None
    tpot_p50: float | None
    tpot_p99: float | None
    tpot_mean: float | None
    latency_p99: float | None


def _model(row: dict[str, str]) -> str:
    """Return the model that ran: the rules' name without its accuracy suffix; open rows whose source names another keep that one."""
    if "llama3_1-70b" in row["source"]:
        return "llama3.1-70b"
    return row["model"].removesuffix("-99.9")


def _flags(row: dict[str, str]) -> frozenset[str]:
    accelerator, platform, notes = row["accelerator"], row["platform"], row["notes"].lower()
    mixed = "+" in accelerator or accelerator.count("Instinct") > 1 or "heterogeneous" in notes
    rack = accelerator in ("NVIDIA GB200", "NVIDIA GB300", "NVIDIA Vera Rubin", "NVIDIA VR200")
    tests = {
        "open": row["division"] == "open", "mixed": mixed, "virtual": accelerator.startswith("Virtualized"),
        "unavailable": row["availability"] != "available" or "NVL8-CoreWeave" in platform, "inferred": row["inferred"] == "1",
        "tray": rack and int(row["accelerators_total"]) < 16, "nvl4": "NVL4" in platform, "low_accuracy": "accuracy below" in notes,
        "mtp": "mtp" in notes or row["submitter"] == "ScitiX", "count_uncertain": bool(re.search(r"\(x\d+\)$", accelerator)) and not mixed,
        "other_model": "llama3_1-70b" in row["source"]}
    return frozenset(name for name, found in tests.items() if found)


def _system(accelerator: str) -> str:
    try:
        return resolve_system(accelerator)
    except InputError:
        return ""


def _shape(model: str) -> str:
    try:
        return resolve_model(model)
    except InputError:
        return ""


@cache
def runs() -> tuple[Run, ...]:
    """Return every result, in the order of the table. Raises: InputError for a row without a number."""
    found = []
    for line, row in enumerate(table("mlperf_results.csv"), 2):
        unit = resolve_unit(row["metric"])
        watts = WATTS.search(row["notes"])
        model, flags = _model(row), _flags(row)
        found.append(Run(
            f"mlperf_results.csv:{line}", row["round"], row["submitter"], row["platform"], "" if "mixed" in flags else _system(row["accelerator"]),
            int(row["accelerators_total"]), int(row["nodes"]) if row["nodes"] else None, model, _shape(model), row["scenario"], unit,
            float(to_base(float(row["value"]), unit)), flags, row["weight_data_types"], float(watts[1] or watts[2]) if watts else None,
            float(row["power_w_measured"]) if row["power_w_measured"] else None, row["source"]))
    return tuple(found)


@cache
def latencies() -> dict[tuple[str, str, str, str, str], Latency]:
    """Return the measured latencies by `Run.key`. Raises: InputError for two rows of one key."""
    found: dict[tuple[str, str, str, str, str], Latency] = {}
    for line, row in enumerate(table("mlperf_latency.csv"), 2):
        key = (row["round"], row["submitter"], row["platform"], row["model"].removesuffix("-99.9"), row["scenario"])
        if key in found:
            raise InputError(f"line {line}", " ".join(key), "must be given once", "data/mlperf_latency.csv")
        times = {c: float(row[f"{c}_ms"]) / 1e3 if row[f"{c}_ms"] else None for c in Latency.__dataclass_fields__ if f"{c}_ms" in row}
        tokens = [float(row[c]) if row[c] else None for c in ("tokens_per_s", "mean_output_tokens")]
        found[key] = Latency(key, float(row["samples_per_s"]), *tokens, **times)
    return found


@cache
def system_rows() -> dict[tuple[str, str, str], dict[str, str]]:
    """Return the system descriptions by (round, submitter, platform); of an open and a closed copy the closed one."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in table("mlperf_systems.csv"):
        key = (row["round"], row["submitter"], row["platform"])
        if key not in found or "closed/" in row["source"]:
            found[key] = row
    return found


def _input_claims(model: str) -> dict[str, Claim]:
    subject = INPUTS.get(model, f"mlperf-{model}")
    return {c.quantity: c for c in claims().values() if c.subject == subject and c.chosen}


def limits(model: str, scenario: str, release: str = "v6.1") -> dict[str, float | str | None]:
    """Return what the rules of a round ask of a scenario.

    Parameters: model, any spelling; scenario, Offline, Server, Interactive or SingleStream in any case; release, a round.
    Returns: ttft_seconds, tpot_seconds, e2e_seconds (p99, None = no limit) [s], mean_output_tokens, max_input_tokens [token], source.
    Raises: InputError where the rules have no such scenario in that round.
    """
    name = _rules_name(model)
    rows = [r for r in table("mlperf_constraints.csv") if r["model"] == name and r["scenario"].lower() == str(scenario).strip().lower()]
    if not rows:
        held = sorted({r["scenario"] for r in table("mlperf_constraints.csv") if r["model"] == name})
        raise InputError("scenario", scenario, f"of {name} must be one of {', '.join(held)}")
    row, since = rows[0], rows[0]["round"].strip("v+")
    asked = str(release).strip("v+ ")
    if not re.fullmatch(r"\d+\.\d+", asked):
        raise InputError("release", release, "must be a round such as v6.1")
    if tuple(map(int, asked.split("."))) < tuple(map(int, since.split("."))):
        raise InputError("release", release, f"must be v{since} or later: {name} {row['scenario']} did not exist")
    columns = {"ttft_seconds": "ttft_p99_s", "tpot_seconds": "tpot_p99_s", "e2e_seconds": "e2e_p99_s",
               "mean_output_tokens": "mean_output_tokens", "max_input_tokens": "max_input_tokens"}
    return {**{k: float(row[c]) if row[c] else None for k, c in columns.items()}, "source": row["source"]}


def _rules_name(model: str) -> str:
    """Return the rules' name of a model (`deepseek-r1`) from any spelling. Raises: InputError for a model without a benchmark."""
    held = dict.fromkeys(r["model"] for r in table("mlperf_constraints.csv"))
    plain = str(model).strip().lower().removesuffix("-99.9").removesuffix("-99")
    if plain in held:
        return plain
    shape = resolve_model(model)
    for name in held:
        if _shape(name) == shape:
            return name
    raise InputError("model", model, f"must have a benchmark: {', '.join(held)}")


def workload(model: str, scenario: str, release: str = "v6.1") -> tuple[Workload, tuple[str, ...]]:
    """Return the workload of a benchmark scenario, and the claims behind the parts that the rules do not publish.

    Mean input lengths are not published: they are this project's assumption (grade P), shown as such. Raises: InputError as `limits`,
    and for a benchmark of no language model.
    """
    rules, name = limits(model, scenario, release), _rules_name(model)
    assumed = _input_claims(name)
    if "mean_input_tokens" not in assumed or rules["mean_output_tokens"] is None:
        raise InputError("model", model, "must be a language model with known lengths")
    slo = Slo(rules["ttft_seconds"], rules["tpot_seconds"], rules["e2e_seconds"], 0.99)
    lengths = Lengths(assumed["mean_input_tokens"].base_value), Lengths(rules["mean_output_tokens"])
    return Workload(f"mlperf {name} {scenario.strip().lower()}", *lengths, slo=slo), (assumed["mean_input_tokens"].id,)
