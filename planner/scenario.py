"""The door for users: one TOML file -> Scenario, checked once; every refusal names file, key, value and what is allowed."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import tomllib
import unicodedata
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from planner.errors import InputError, InputErrors
from planner.facts import modelcards
from planner.facts.files import content_digest, regular
from planner.refusals import MAX_DEPTH, in_plain_words, refuse_unusable

SCHEMAS = (1,)
MAX_BYTES = 1_000_000
LEAST_LOAD = 1e-9  # requests, tokens or users: far below any service, and far enough from 0 for every ratio

Positive = Annotated[float, Field(gt=0, le=1e15)]
NonNegative = Annotated[float, Field(ge=0, le=1e15)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=10_000_000)]


def _name(text):
    if not isinstance(text, str):
        return text  # pydantic says what is wrong with the type
    if not text.strip() or len(text) > 200:
        raise ValueError("must be 1 to 200 characters")
    if ".." in text or text.startswith(("/", "~", "\\")):
        raise ValueError("must not look like a path (no .., no leading / or ~)")
    if any(unicodedata.category(c) in ("Cc", "Cs", "Cf") for c in text):
        raise ValueError("must not contain control or direction characters")
    return text


Name = Annotated[str, BeforeValidator(_name)]


def _some_load(value: float) -> float:
    if value < LEAST_LOAD:
        raise ValueError(f"must be at least {LEAST_LOAD:g}")
    return value


_AtLeast = AfterValidator(_some_load)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class LengthsIn(_Strict):
    """A length distribution in tokens: the mean, and where known the median and the 99th percentile; or a CSV of lengths."""

    mean: Annotated[float, Field(gt=0, le=1e8)] | None = None
    p50: Annotated[float, Field(gt=0, le=1e8)] | None = None
    p99: Annotated[float, Field(gt=0, le=1e8)] | None = None
    csv: Annotated[str, Field(min_length=1, max_length=300)] | None = None

    @model_validator(mode="after")
    def _ordered(self):
        if (self.mean is None) == (self.csv is None):
            raise ValueError("needs a mean, or a csv of lengths, not both")
        if self.p50 is not None and self.p99 is not None and self.p99 < self.p50:
            raise ValueError("p99 must be >= p50")
        return self


def _lengths(value):
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"mean": value}
    if isinstance(value, str) and value.lower().endswith(".csv"):
        return {"csv": value}
    if not isinstance(value, dict):
        raise ValueError("must be a number of tokens, {mean=, p50=, p99=} or the name of a .csv file")
    return value


Tokens = Annotated[LengthsIn, BeforeValidator(_lengths)]


class SloIn(_Strict):
    """A service-level objective: limits in seconds at a quantile. An absent limit is no limit."""

    ttft_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    tpot_s: Annotated[float, Field(gt=0, le=1e4)] | None = None
    e2e_s: Annotated[float, Field(gt=0, le=1e7)] | None = None
    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.99


class SessionIn(_Strict):
    """An agentic session: calls in a row, each on the context of the last, with think time between them [s]."""

    calls: Annotated[int, Field(ge=1, le=100_000)]
    think_s: NonNegative = 0.0


class WorkloadIn(_Strict):
    """One workload: the model, its formats, lengths, load and SLO. Give exactly one kind of load."""

    name: Name
    model: Annotated[str, Field(min_length=1, max_length=300)]
    weight_format: Annotated[str, Field(min_length=1, max_length=40)]
    kv_format: Annotated[str, Field(min_length=1, max_length=40)] = "fp8"
    input_tokens: Tokens
    output_tokens: Tokens
    images: Annotated[float, Field(ge=0, le=1e4)] = 0.0
    image_tokens: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    cache_hit_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.0
    session: SessionIn | None = None
    requests_per_s: Annotated[float, Field(gt=0, le=1e9), _AtLeast] | None = None
    output_tokens_per_s: Annotated[float, Field(gt=0, le=1e13), _AtLeast] | None = None
    concurrency: Annotated[float, Field(gt=0, le=1e10), _AtLeast] | None = None
    users: Annotated[float, Field(gt=0, le=1e10), _AtLeast] | None = None
    think_s: NonNegative | None = None
    peak_to_mean: Annotated[float, Field(ge=1, le=1000)] = 1.0
    slo: SloIn = SloIn()
    scenario: Literal["offline", "server", "interactive"] | None = None
    mtp: bool | None = None

    @model_validator(mode="after")
    def _one_load(self):
        loads = [k for k in ("requests_per_s", "output_tokens_per_s", "concurrency", "users") if getattr(self, k) is not None]
        if len(loads) != 1:
            raise ValueError("needs exactly one load: requests_per_s, output_tokens_per_s, concurrency, or users with think_s")
        if (self.users is None) != (self.think_s is None):
            raise ValueError("users and think_s go together")
        if self.images and not self.image_tokens:
            raise ValueError("images needs image_tokens (tokens per image)")
        return self


def _software(text: str) -> str:
    if not re.fullmatch(r"preview|current|mature|v\d{1,3}(\.\d{1,3}){1,2}", text):
        raise ValueError("must be preview, current, mature or a release such as v6.1")
    return text


class SystemIn(_Strict):
    """One system to plan on: a catalogue name, its profile where it has two, a GPU power setting and the software's age."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    profile: Annotated[str, Field(max_length=40)] | None = None
    gpu_watts: Annotated[float, Field(ge=50, le=20_000)] | None = None
    software: Annotated[str, AfterValidator(_software)] = "current"


class FabricIn(_Strict):
    """The scale-out network; an absent key takes the catalogue's value."""

    nics_per_gpu: Annotated[int, Field(ge=1, le=16)] | None = None
    lanes: Annotated[str, Field(pattern=r"^[1248]x(100|200|400|800)G$")] | None = None
    planes: Annotated[int, Field(ge=1, le=64)] | None = None
    tiers: Annotated[int, Field(ge=1, le=3)] | None = None
    rails: Annotated[int, Field(ge=1, le=64)] | None = None
    rails_per_gpu: Annotated[int, Field(ge=1, le=16)] | None = None
    switch: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    oversubscription: Annotated[float, Field(ge=1, le=64)] = 1.0
    spare_ports: Annotated[int, Field(ge=0, le=1024)] = 0
    grow_to_gpus: Annotated[int, Field(ge=1, le=100_000_000)] | None = None


class SiteIn(_Strict):
    """The site: power at the meter [W], PUE, electricity price, coolant inlet."""

    facility_watts: Annotated[float, Field(gt=0, le=1e11)] | None = None
    pue: Annotated[float, Field(ge=1, le=20)]
    electricity_usd_per_kwh: Annotated[float, Field(ge=0, le=10)] | None = None
    inlet_celsius: Annotated[float, Field(ge=-20, le=80)] | None = None


class PlanIn(_Strict):
    """How to plan: the share of peak throughput to load, spares, what may fail, and which numbers to believe."""

    utilisation_fraction: Annotated[float, Field(ge=0.01, le=1)] = 0.7
    spare_racks: Annotated[int, Field(ge=0, le=100_000)] = 0
    survive: tuple[Literal["tray", "rack", "plane", "power_feed", "site"], ...] = Field(default=(), strict=False)
    basis: Literal["model", "measured", "claim"] = "model"
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0


class RangeIn(_Strict):
    """A number with the ends of its range (10th and 90th percentile)."""

    low: Positive
    value: Positive
    high: Positive

    @model_validator(mode="after")
    def _ordered(self):
        if not self.low <= self.value <= self.high:
            raise ValueError("low <= value <= high must hold")
        return self


def _range(value):
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"low": value, "value": value, "high": value}
    if not isinstance(value, dict):
        raise ValueError("must be a number or {low=, value=, high=}")
    return value


def _price(value):
    if isinstance(value, str):
        raise ValueError("must be a number or {low=, value=, high=}; the currency is USD and is not typed")
    return _range(value)


class FactIn(RangeIn):
    """A user's own fact, in the base unit of its field or the unit of its claim: FLOP/s of a GPU are above 1e15."""

    low: Annotated[float, Field(gt=0, le=1e21)]
    value: Annotated[float, Field(gt=0, le=1e21)]
    high: Annotated[float, Field(gt=0, le=1e21)]


class PriceIn(_Strict):
    """A price with its date. USD per GPU-hour."""

    gpu_hour_usd: Annotated[RangeIn, BeforeValidator(_price)]
    as_of: datetime.date


class TimelineIn(_Strict):
    """Demand over months and how long an order takes."""

    months: Annotated[int, Field(ge=1, le=240)]
    growth_per_month: Annotated[float, Field(gt=-1, le=10)] = 0.0
    lead_time_months: Annotated[int, Field(ge=0, le=120)] = 6


class Scenario(_Strict):
    """One scenario file, whole: what is asked, on what, where, and at which prices."""

    schema_number: Annotated[int, Field(alias="schema", ge=1)]
    name: Name
    as_of: datetime.date
    workloads: Annotated[tuple[WorkloadIn, ...], Field(min_length=1, max_length=100, strict=False)]
    systems: Annotated[tuple[SystemIn, ...], Field(min_length=1, max_length=100, strict=False)]
    fabric: FabricIn = FabricIn()
    site: SiteIn
    plan: PlanIn = PlanIn()
    prices: dict[str, PriceIn] = Field(default_factory=dict)
    timeline: TimelineIn | None = None
    facts: dict[str, Annotated[FactIn, BeforeValidator(_range)]] = Field(default_factory=dict)
    _folder: Path | None = PrivateAttr(default=None)
    _file: str = PrivateAttr(default="")

    @model_validator(mode="after")
    def _known_schema_and_single_names(self):
        if self.schema_number not in SCHEMAS:
            raise ValueError(f"schema must be one of {', '.join(map(str, SCHEMAS))}")
        names = [w.name for w in self.workloads]
        if len(set(names)) < len(names):
            raise ValueError("workloads must have different names")
        return self

    def place(self, name: str) -> Path:
        """Return where a file named in the scenario lies: beside the scenario file, or in the working folder where it was not read from one."""
        return Path(name) if self._folder is None else self._folder / name

    def own_model(self, model: str) -> Path | None:
        """Return the config.json that a workload's model names, None for a name of the catalogue."""
        if model in modelcards.catalogue():
            return None
        path = self.place(model)
        if "/" in model and (path / "config.json").is_file():  # a checkpoint's own folder
            return path / "config.json"
        return path if model.endswith(".json") or regular(path) else None

    @property
    def file(self) -> str:
        """The name of the file that this was read from, for messages; empty for a scenario made in Python."""
        return self._file

    @property
    def files(self) -> list[Path]:
        """The files that this names beside itself: models and lengths."""
        found: list[Path] = []
        for workload in self.workloads:
            own = self.own_model(workload.model)
            if own is not None:
                found += [own, *([own.with_name("hf_quant_config.json")] if own.name == "config.json" else [])]
            found += [self.place(t.csv) for t in (workload.input_tokens, workload.output_tokens) if t.csv]
        return found

    @property
    def digest(self) -> str:
        """Twelve hex digits over the checked content and the content of the files it names: the same inputs give the same digest, comments do not
        count."""
        content = self.model_dump(mode="json", by_alias=True)
        files = [content_digest(p) for p in self.files]
        text = json.dumps({**content, "files": files} if files else content, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def parse(content: dict, file: str = "", folder: Path | None = None) -> Scenario:
    """Check the content of a scenario file, or of a dict of the same shape.

    Parameters: content, nested dicts as `tomllib` reads them; file, its name for the messages; folder, from which the files it names are read
    (absent: the working folder). Returns: Scenario. Raises: InputErrors with one line per fault.
    """
    try:
        refuse_unusable(content, "", file)
        number = content.get("schema")
        if isinstance(number, bool) or number not in SCHEMAS:
            raise InputError("schema", number, f"must be one of {', '.join(map(str, SCHEMAS))}", file)
        checked = Scenario.model_validate(content)
        checked._folder, checked._file = folder, file
        return checked
    except ValidationError as error:
        raise InputErrors(in_plain_words(error, file)) from None
    except InputError as error:
        raise InputErrors([error]) from None


def parse_fabric(content: dict) -> FabricIn:
    """Check a [fabric] section given as a dict; absent values are None. Raises: InputErrors with one line a fault."""
    try:
        return FabricIn.model_validate({k: v for k, v in content.items() if v is not None})
    except ValidationError as error:
        raise InputErrors([InputError(f"fabric.{e.field}", e.value, e.allowed) for e in in_plain_words(error, "")]) from None


def loads(text: str, file: str = "scenario", folder: Path | None = None) -> Scenario:
    """Read a scenario from TOML text. Parameters, returns and raises as `parse`."""
    try:
        content = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise InputErrors([InputError("TOML", str(error), "must be readable", file)]) from None
    except RecursionError:
        raise InputErrors([InputError("TOML", "deep brackets", f"must be nested at most {MAX_DEPTH} deep", file)]) from None
    except ValueError as error:
        raise InputErrors([InputError("TOML", str(error), "must hold integers of at most 18 digits", file)]) from None
    return parse(content, file, folder)


def load(path: str | Path) -> Scenario:
    """Read a scenario file.

    Parameters: path, a TOML file of at most 1 MB in UTF-8. Returns: Scenario. Raises: InputErrors, a line per fault.
    """
    path = Path(path)
    file = path.name
    try:
        size = path.stat().st_size
        if not regular(path):
            raise InputError("file", str(path), "must be a regular file", file)  # a pipe or a device may never end
        if size > MAX_BYTES:
            raise InputError("file", f"{size} bytes", f"must be at most {MAX_BYTES} bytes", file)
        text = path.read_bytes().decode("utf-8")
    except InputError as error:
        raise InputErrors([error]) from None
    except UnicodeDecodeError as error:
        raise InputErrors([InputError("file", f"byte {error.start}", "must be UTF-8 text", file)]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputErrors([InputError("file", reason, "must be a readable file", str(path))]) from None
    return loads(text, file, path.parent.absolute())


def schema() -> dict:
    """Return the JSON Schema of the scenario file, for editors."""
    return Scenario.model_json_schema(by_alias=True)
