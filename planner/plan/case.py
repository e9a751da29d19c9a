"""One workload on one system, everything looked up once: the place where facts meet models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from planner.calibration import residency as memory
from planner.calibration.serving import constants
from planner.calibration.serving.submissions import SYSTEMS
from planner.draws import Z90
from planner.errors import InputError
from planner.facts import catalog, modelcards
from planner.facts.evidence import claims
from planner.facts.files import regular
from planner.facts.formats import peak_format, stored_bits, weight_formats
from planner.plan import lengths
from planner.plan.inputs import Drawn, Range, draw
from planner.scenario import Scenario, SystemIn, WorkloadIn
from planner.shapes import Format, ModelShape
from planner.specs import Rack

LEARNED = ("speed_against_model", "software_factor", "mtp_tokens_per_step")  # of the serving model; a user may set them under [facts]
OWN = (*catalog.FIELDS, *LEARNED)


@dataclass(frozen=True)
class Case:
    """A workload and a system, resolved: rack, shape, formats, and the uncertain inputs as draws."""

    scenario: Scenario
    workload: WorkloadIn
    given: SystemIn
    rack: Rack
    shape: ModelShape
    formats: Mapping[str, Format]
    kv_bits: float

    @property
    def label(self) -> str:
        """The system as printed beside its numbers: name, profile, the power setting where it was typed, and the software where two are compared."""
        watts = f"{self.given.gpu_watts:,.0f} W" if self.given.gpu_watts is not None else ""
        rivals = {s.software for s in self.scenario.systems if catalog.resolve_system(s.name) == self.rack.name}
        software = f"software {self.given.software}" if len(rivals) > 1 else ""
        about = ", ".join(part for part in (self.rack.profile, watts, software) if part)
        return f"{self.rack.name} ({about})" if about else self.rack.name

    @property
    def input_tokens(self) -> float:
        """Mean input tokens of a request, images included [token]."""
        return self.workload.input_tokens.mean + self.workload.images * self.workload.image_tokens

    @property
    def output_tokens(self) -> float:
        """Mean output tokens of a request [token]."""
        return self.workload.output_tokens.mean

    @property
    def stored_format(self) -> str:
        """The format in which the weights of the model's large products are stored."""
        return next((self.formats[p].name for p in ("experts", "dense_mlp", "attention") if p in self.formats), "bf16")

    @property
    def peak_name(self) -> str:
        """The format whose dense peak the model's large products run at, the fastest that the GPU has for the stored format."""
        wanted, peaks = peak_format(self.stored_format), self.rack.accelerator.peak_flops_per_s
        for name in (wanted, "fp8" if wanted in ("nvfp4", "mxfp4", "mxfp8") else "bf16", "bf16"):
            if name in peaks:
                return name
        raise InputError("systems.name", self.rack.name, "has no published peak: throughput is not available")

    @cached_property
    def inputs(self) -> dict[str, Drawn]:
        """The uncertain inputs of this case, drawn with the scenario's seed; a user's own value replaces a claim and says so."""
        ranges: dict[str, Range] = {}
        for field, behind in catalog.claims_behind(self.rack, _catalogue_facts(self.scenario)).items():
            value = _field(self.rack, field)
            if value is not None and behind.low > 0:
                how = "exact" if behind.own else "assumed" if behind.grade == "P" else "claimed"
                ranges[field] = Range(value, min(behind.low, value), max(behind.high, value), behind.grade, how, behind.claims)
        if self.given.gpu_watts is not None:
            ranges["gpu_watts"] = Range(self.given.gpu_watts, self.given.gpu_watts, self.given.gpu_watts, "P", "exact", ("own:gpu_watts",))
        ranges |= self._learned()
        named = [(key, p) for key, p in self.scenario.prices.items() if _names(key, self.rack)]
        price = next((p for key, p in sorted(named, key=lambda pair: "/" not in pair[0])), None)  # a profile's own price wins
        if price is not None:
            cost = price.gpu_hour_usd
            ranges["gpu_hour_usd"] = Range(cost.value, cost.low, cost.high, "P", "exact", ("own:price",))
        for key, own in self.scenario.facts.items():
            name, _, field = key.rpartition(".")
            if field in LEARNED and name and _names(name, self.rack):
                ranges[field] = Range(own.value, own.low, own.high, "P", "exact", (f"own:{key}",))
        return draw(ranges, seed=self.scenario.plan.seed)

    @property
    def speed_inputs(self) -> dict[str, Drawn]:
        """The drawn inputs that a throughput rests on."""
        return self.pick(*LEARNED, "hbm_bytes_per_s", "hbm_bytes", self.peak_name)

    def _learned(self) -> dict[str, Range]:
        """Return what the serving model does not know for sure: its own error, the software's state, what drafted tokens yield."""
        one = constants.of_model(self.shape)
        spread = Z90 * constants.time_spread(self.limited, self.rack.name, self.shape)
        grade, how = ("P", "extrapolated") if self.extrapolated else ("A", "modelled")
        found = {"speed_against_model": Range(1.0, math.exp(-spread), math.exp(spread), grade, how, (one.claim,))}
        value, low, high, _ = self.software_state
        found["software_factor"] = Range(value, low, high, "P" if low < high else "A", "assumed" if low < high else "modelled", (one.claim,))
        if self.mtp:
            found["mtp_tokens_per_step"] = Range(*constants.tokens_per_step(one), "C", "modelled", (one.claim,))
        return found

    @property
    def limited(self) -> bool:
        """Whether the workload has a latency limit."""
        slo = self.workload.slo
        return slo.ttft_s is not None or slo.tpot_s is not None or slo.e2e_s is not None

    @property
    def extrapolated(self) -> bool:
        """Whether the system or the model stands outside what the serving constants were fitted on."""
        return self.rack.name not in SYSTEMS or not constants.seen_model(self.shape)

    @property
    def software_state(self) -> tuple[float, float, float, str]:
        """The share of mature throughput that the system's software reaches: value, low, high, and where it comes from."""
        return constants.software_factor(constants.of_model(self.shape), self.rack.name, self.given.software, self.limited)

    @property
    def mtp(self) -> bool:
        """Whether decode steps yield more than one token: asked for, and the model has the module for it."""
        return bool(self.workload.mtp) and self.shape.mtp_layers > 0

    def pick(self, *names: str) -> dict[str, Drawn]:
        """Return the drawn inputs of these names, those that exist."""
        return {n: self.inputs[n] for n in names if n in self.inputs}

    def memory_bytes(self) -> dict[str, float]:
        """Return activations and other memory of one GPU besides weights and cache [B]."""
        return {"activations": memory.activation_bytes(self.shape)[0], "runtime reserve": self.rack.accelerator.reserve_bytes}


def _names(owner: str, rack: Rack) -> bool:
    """Whether `system` or `system/profile`, in any spelling, names this rack."""
    name, _, profile = owner.partition("/")
    return catalog.resolve_system(name) == rack.name and profile in ("", rack.profile)


def _catalogue_facts(scenario: Scenario) -> dict:
    """Return the scenario's facts that replace a claim by its id or a field of a system; the others are assumptions of the plan."""
    return {key: own for key, own in scenario.facts.items() if key.rpartition(".")[2] not in LEARNED}


def _check_facts(scenario: Scenario) -> None:
    for key in scenario.facts:
        name, _, field = key.rpartition(".")
        if not name:
            if key not in claims():
                raise InputError(f"facts.{key}", key, "must be <system>.<field> or the id of a claim")
            continue
        _keyed(f"facts.{key}", catalog.resolve_system, name.split("/")[0])
        if field not in OWN:
            raise InputError(f"facts.{key}", field, f"must end in one of {', '.join(OWN)}")
        twice = [s.name for s in scenario.systems if field == "gpu_watts" and s.gpu_watts is not None
                 and catalog.resolve_system(s.name) == catalog.resolve_system(name.split("/")[0])]
        if twice:
            raise InputError(f"facts.{key}", field, f"must be set once: {twice[0]} has its own gpu_watts under [[systems]]")


def _field(rack: Rack, field: str) -> float | None:
    gpu = rack.accelerator
    places = {"hbm_bytes": gpu.hbm_bytes, "hbm_bytes_per_s": gpu.hbm_bytes_per_s, "gpu_watts": gpu.gpu_watts,
              "overhead_watts": rack.overhead_watts, "nvlink": gpu.nvlink.bytes_per_s if gpu.nvlink else None, "rack_watts": rack.rack_watts}
    return places.get(field, gpu.peak_flops_per_s.get(field))


def resolve(scenario: Scenario) -> list[Case]:
    """Return every workload on every system, in file order.

    Raises: InputError with the scenario's key for a name that the catalogue does not know, a profile that is missing, a price or a
    fact of a system that does not exist, or a model or length file that cannot be read.
    """
    try:
        return _resolved(scenario)
    except InputError as error:
        file = ": ".join(part for part in (scenario.file, error.file) if part)
        raise InputError(error.field, error.value, error.allowed, file) from None


def _resolved(scenario: Scenario) -> list[Case]:
    for i, given in enumerate(scenario.systems):
        _keyed(f"systems[{i}]", catalog.system, given.name, given.profile, given.gpu_watts)
    for key in scenario.prices:
        _keyed(f"prices.{key}", catalog.resolve_system, key.split("/")[0])
    _check_facts(scenario)
    facts = _catalogue_facts(scenario)
    systems = [catalog.system(s.name, s.profile, s.gpu_watts, facts) for s in scenario.systems]
    _all_different(scenario, systems)
    cases = []
    for i, workload in enumerate(scenario.workloads):
        workload = _with_lengths(scenario, i, workload)
        shape = _keyed(f"workloads[{i}].model", _shape, scenario, workload.model)
        formats = _keyed(f"workloads[{i}].weight_format", weight_formats, shape, workload.weight_format)
        bits = _keyed(f"workloads[{i}].kv_format", stored_bits, workload.kv_format)
        needed = workload.input_tokens.mean + workload.images * workload.image_tokens + workload.output_tokens.mean
        if shape.max_context and needed > shape.max_context:
            raise InputError(f"workloads[{i}].input_tokens", needed, f"with the output must fit the model's {shape.max_context:,} positions")
        cases += [Case(scenario, workload, given, rack, shape, formats, bits) for given, rack in zip(scenario.systems, systems, strict=True)]
    return cases


def _all_different(scenario: Scenario, systems: list[Rack]) -> None:
    seen: dict[tuple, int] = {}
    for i, (given, rack) in enumerate(zip(scenario.systems, systems, strict=True)):
        key = (rack.name, rack.profile, rack.accelerator.gpu_watts, given.software)
        if key in seen:
            raise InputError(f"systems[{i}].name", given.name, f"must differ from systems[{seen[key]}] in name, profile, gpu_watts or software")
        seen[key] = i


def _shape(scenario: Scenario, model: str) -> ModelShape:
    """Return the shape of a model by its name in the catalogue, or of the file beside the scenario."""
    own = scenario.own_model(model)
    if own is not None and own.exists() and not regular(own):
        raise InputError("model", model, "must be a regular file")
    return modelcards.load(model if own is None else str(own))


def _with_lengths(scenario: Scenario, number: int, workload: WorkloadIn) -> WorkloadIn:
    """Return the workload with its files of lengths read: mean, median and 99th percentile in the file's place."""
    read = {}
    for name in ("input_tokens", "output_tokens"):
        file = getattr(workload, name).csv
        if file is not None:
            read[name] = _keyed(f"workloads[{number}].{name}", lengths.read, scenario.place(file), name)
    return workload.model_copy(update=read) if read else workload


def _keyed(key: str, function, *args):
    try:
        return function(*args)
    except InputError as error:
        whole = key if not key.startswith("systems[") else f"{key}.name"
        field = whole if error.field in ("system", "model", "precision", "format") else f"{key}.{error.field}"
        raise InputError(field, error.value, error.allowed, error.file) from None
