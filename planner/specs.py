"""The nouns: frozen records of what the models are asked about, in base units, checked once when made.

A device is a row of the catalogue, never a class. `None` means "not available": a model that needs it must refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from planner.errors import InputError
from planner.units import count, fraction, nonnegative, positive


def _check_optional(owner: str, **values) -> None:
    for name, value in values.items():
        if value is not None:
            positive(f"{owner}.{name}", value)


@dataclass(frozen=True)
class Link:
    """One direction of one device's connection. bytes_per_s [B/s] one direction, all lanes; latency_seconds [s]."""

    name: str
    bytes_per_s: float
    latency_seconds: float | None = None

    def __post_init__(self):
        positive(f"{self.name}.bytes_per_s", self.bytes_per_s)
        if self.latency_seconds is not None:
            nonnegative(f"{self.name}.latency_seconds", self.latency_seconds)


@dataclass(frozen=True)
class Accelerator:
    """One GPU as one profile of the catalogue describes it.

    hbm_bytes [B] as the driver reports it; hbm_bytes_per_s [B/s] peak; peak_flops_per_s [FLOP/s] **dense** peak by
    format (`bf16`, `fp8`, `nvfp4`, ...), a format that is absent is not available; nvlink, one direction of one GPU
    inside its domain; c2c, the link to host memory; host_bytes [B] host memory per GPU; gpu_watts [W] power setting.
    """

    name: str
    generation: str
    hbm_bytes: float
    hbm_bytes_per_s: float | None
    peak_flops_per_s: Mapping[str, float]
    nvlink: Link | None
    gpu_watts: float | None
    reserve_bytes: float = 0.0
    c2c: Link | None = None
    host_bytes: float | None = None

    def __post_init__(self):
        positive(f"{self.name}.hbm_bytes", self.hbm_bytes)
        nonnegative(f"{self.name}.reserve_bytes", self.reserve_bytes)
        _check_optional(self.name, hbm_bytes_per_s=self.hbm_bytes_per_s, gpu_watts=self.gpu_watts, host_bytes=self.host_bytes)
        for name, value in self.peak_flops_per_s.items():
            positive(f"{self.name}.peak_flops_per_s.{name}", value)
        object.__setattr__(self, "peak_flops_per_s", MappingProxyType(dict(self.peak_flops_per_s)))

    def __hash__(self):
        return hash((self.name, self.hbm_bytes, self.gpu_watts))


@dataclass(frozen=True)
class Rack:
    """The unit a buyer orders: a rack of one NVLink domain, or one eight-GPU node for HGX systems.

    gpus per rack [1]; domain_gpus [1], how many share one NVLink domain; usable_gpus [1] of a rack for jobs that need
    powers of two; gpus_per_tray [1]; nics_per_gpu [1] and nic, one direction of one NIC; rack_watts [W] the published
    maximum of the whole rack, None when unpublished; overhead_watts [W] the rack less its GPUs at their setting.
    """

    name: str
    profile: str
    accelerator: Accelerator
    gpus: int
    domain_gpus: int
    usable_gpus: int
    gpus_per_tray: int
    nics_per_gpu: int
    nic: Link | None
    rack_watts: float | None = None
    overhead_watts: float | None = None
    status: str = "available"

    def __post_init__(self):
        for name in ("gpus", "domain_gpus", "usable_gpus", "gpus_per_tray", "nics_per_gpu"):
            count(f"{self.name}.{name}", getattr(self, name))
        if self.usable_gpus > self.gpus:
            raise InputError(f"{self.name}.usable_gpus", self.usable_gpus, f"must be at most {self.gpus} (gpus)")
        _check_optional(self.name, rack_watts=self.rack_watts, overhead_watts=self.overhead_watts)

    @property
    def label(self) -> str:
        """The name with its profile, as printed beside every number."""
        return f"{self.name} ({self.profile})" if self.profile else self.name


@dataclass(frozen=True)
class Switch:
    """One switch ASIC box: total_bytes_per_s [B/s] one direction; radix by port speed; watts and price when known."""

    name: str
    total_bytes_per_s: float
    ports: Mapping[str, int]
    watts: float | None = None
    price_usd: float | None = None

    def __post_init__(self):
        positive(f"{self.name}.total_bytes_per_s", self.total_bytes_per_s)
        for speed, radix in self.ports.items():
            count(f"{self.name}.ports.{speed}", radix, 2)
        _check_optional(self.name, watts=self.watts, price_usd=self.price_usd)
        object.__setattr__(self, "ports", MappingProxyType(dict(self.ports)))


@dataclass(frozen=True)
class Slo:
    """A service-level objective. ttft_seconds, tpot_seconds, e2e_seconds [s], None = no limit; quantile [1]."""

    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    e2e_seconds: float | None = None
    quantile: float = 0.99

    def __post_init__(self):
        _check_optional("slo", ttft_seconds=self.ttft_seconds, tpot_seconds=self.tpot_seconds, e2e_seconds=self.e2e_seconds)
        fraction("slo.quantile", self.quantile, zero=False)


@dataclass(frozen=True)
class Lengths:
    """A length distribution in tokens: mean [token], and where known p50 and p99 [token]."""

    mean: float
    p50: float | None = None
    p99: float | None = None

    def __post_init__(self):
        positive("lengths.mean", self.mean)
        _check_optional("lengths", p50=self.p50, p99=self.p99)
        if self.p50 is not None and self.p99 is not None and self.p99 < self.p50:
            raise InputError("lengths.p99", self.p99, f"must be >= p50 ({self.p50:g})")


@dataclass(frozen=True)
class Workload:
    """What is asked of a model: lengths per request, prefix-cache hits and the offered load.

    input_tokens, output_tokens; cache_hit_fraction [1] of input tokens; requests_per_s [1/s] mean offered load;
    peak_to_mean [1]; images [1] per request and image_tokens [token] each.
    """

    name: str
    input_tokens: Lengths
    output_tokens: Lengths
    cache_hit_fraction: float = 0.0
    requests_per_s: float | None = None
    peak_to_mean: float = 1.0
    images: float = 0.0
    image_tokens: float = 0.0
    slo: Slo = field(default_factory=Slo)

    def __post_init__(self):
        fraction(f"{self.name}.cache_hit_fraction", self.cache_hit_fraction)
        nonnegative(f"{self.name}.images", self.images)
        nonnegative(f"{self.name}.image_tokens", self.image_tokens)
        _check_optional(self.name, requests_per_s=self.requests_per_s)
        if positive(f"{self.name}.peak_to_mean", self.peak_to_mean) < 1:
            raise InputError(f"{self.name}.peak_to_mean", self.peak_to_mean, "must be >= 1")


@dataclass(frozen=True)
class Site:
    """Where it stands. facility_watts [W] at the meter; pue [1]; electricity_usd_per_joule; inlet_celsius [C]."""

    facility_watts: float | None = None
    pue: float | None = None
    electricity_usd_per_joule: float | None = None
    inlet_celsius: float | None = None

    def __post_init__(self):
        _check_optional("site", facility_watts=self.facility_watts)
        if self.pue is not None and positive("site.pue", self.pue) < 1:
            raise InputError("site.pue", self.pue, "must be >= 1 (facility power over IT power)")
        if self.electricity_usd_per_joule is not None:
            nonnegative("site.electricity_usd_per_joule", self.electricity_usd_per_joule)
