"""The catalogue: chosen claims joined into the nouns that models take. A device is rows of data/systems.csv, never a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache

from planner.errors import InputError
from planner.facts.evidence import Claim, claim
from planner.facts.files import table
from planner.facts.names import resolve, resolve_model, resolve_precision, resolve_system, resolve_unit
from planner.specs import Accelerator, Link, Rack, Switch

__all__ = ["Behind", "claims_behind", "claims_of", "profiles", "resolve", "resolve_model", "resolve_precision", "resolve_system",
           "resolve_unit", "switch", "switch_names", "system", "system_from", "system_names"]
FORMATS = ("bf16", "fp8", "nvfp4", "mxfp4", "mxfp8", "int8")
POWER_LIMITS = (50.0, 20_000.0)


@dataclass(frozen=True)
class Behind:
    """What a field of a system rests on: claim ids, grade, and low and high in the field's base unit."""

    claims: tuple[str, ...]
    grade: str
    low: float
    high: float


@cache
def _shapes() -> dict[str, dict[str, str]]:
    return {r["system"]: r for r in table("system_shapes.csv")}


def system_names(status: str = "") -> list[str]:
    """Return the catalogue's system ids, all or those of one status (available, preview, roadmap)."""
    return [n for n, r in _shapes().items() if status in ("", r["status"])]


def profiles(name: str) -> list[str]:
    """Return the named profiles of a system; [""] where it has one set of figures."""
    found = dict.fromkeys(r["profile"] for r in table("systems.csv") if r["system"] == resolve_system(name))
    return list(found) or [""]


def _profile(name: str, profile: str | None) -> str:
    known = profiles(name)
    if profile in (None, ""):
        if known == [""]:
            return ""
        raise InputError("profile", profile, f"must be named for {name}: {' or '.join(known)}")
    chosen = str(profile).lower()
    if chosen not in known:
        allowed = f"must be one of {', '.join(known)}" if known != [""] else "is not used: it has one set of figures"
        raise InputError("profile", profile, f"of {name} {allowed}")
    return chosen


def claims_of(name: str, profile: str | None = None) -> dict[str, Claim]:
    """Return field -> claim of one system and profile, the claims in their sources' own units."""
    found, chosen = resolve_system(name), _profile(resolve_system(name), profile)
    return {r["field"]: claim(r["claim"]) for r in table("systems.csv") if (r["system"], r["profile"]) == (found, chosen)}


def _per_gpu(field: str, item: Claim, shape: Mapping[str, str]) -> float:
    """Return the factor from a claim's base value to the field's: one direction of one GPU, or the share of one."""
    factor = 0.5 if item.basis == "both_directions" else 1.0
    if field == "host_bytes_per_rack":
        factor /= int(shape["gpus"])
    elif field == "c2c_per_superchip":
        factor /= 2
    elif field == "nic_total":
        factor /= int(shape["nics_per_gpu"])
    return factor


def claims_behind(rack: Rack) -> dict[str, Behind]:
    """Return what each field of a catalogue system rests on, in base units; a user's own system has nothing behind it.

    The field `gpu_watts` is listed only while the rack keeps the catalogue's setting.
    """
    if rack.name not in _shapes():
        return {}
    shape, found = _shapes()[rack.name], {}
    for field, item in claims_of(rack.name, rack.profile).items():
        if item.value is None:
            continue
        factor = _per_gpu(field, item, shape)
        low, high = item.base_range
        if field == "gpu_watts" and rack.accelerator.gpu_watts != item.base_value:
            continue
        found[field] = Behind((item.id,), item.grade, low * factor, high * factor)
    return found


def system(name: str, profile: str | None = None, gpu_watts: float | None = None) -> Rack:
    """Return a system of the catalogue.

    Parameters: name, an id or any spelling of data/aliases.csv; profile, required where the system has two (columns of one
    profile are carried together, never mixed); gpu_watts [W] another power setting than the catalogue's.
    Returns: Rack; a field that nothing is known of is None or absent. Raises: InputError for an unknown name or profile, a power
    setting outside 50 to 20,000 W, or a system without a memory size (roadmap).
    """
    found = resolve_system(name)
    rack = _system(found, _profile(found, profile))
    if gpu_watts is None:
        return rack
    if isinstance(gpu_watts, bool) or not POWER_LIMITS[0] <= gpu_watts <= POWER_LIMITS[1]:
        raise InputError("gpu_watts", gpu_watts, f"must be {POWER_LIMITS[0]:g} to {POWER_LIMITS[1]:g} W")
    return replace(rack, accelerator=replace(rack.accelerator, gpu_watts=float(gpu_watts)))


@cache
def _system(name: str, profile: str) -> Rack:
    shape, known = _shapes()[name], claims_of(name, profile)
    values = {f: c.base_value * _per_gpu(f, c, shape) for f, c in known.items() if c.value is not None}
    if "hbm_bytes" not in values:
        raise InputError("system", name, f"is {shape['status']}: its memory size is not available")

    def link(kind: str, field: str) -> Link | None:
        return Link(kind, values[field]) if field in values else None

    reserve = claim("P0010").base_value
    gpu = Accelerator(shape["accelerator"], shape["generation"], values["hbm_bytes"], values.get("hbm_bytes_per_s"),
                      {f: values[f] for f in FORMATS if f in values}, link("nvlink", "nvlink"), values.get("gpu_watts"), reserve,
                      link("c2c", "c2c_per_superchip"), values.get("host_bytes_per_rack"))
    counts = {f: int(shape[f]) for f in ("gpus", "domain_gpus", "usable_gpus", "gpus_per_tray", "nics_per_gpu")}
    return Rack(name, profile, gpu, nic=link("nic", "nic_total"), rack_watts=values.get("rack_watts"),
                overhead_watts=values.get("overhead_watts"), status=shape["status"], **counts)


_GPU_KEYS = {f.name for f in fields(Accelerator)}
_RACK_KEYS = {f.name for f in fields(Rack)} - {"accelerator"}


def system_from(given: str | Mapping, profile: str | None = None, gpu_watts: float | None = None) -> Rack:
    """Return a system by name, or from an object with the fields of `Rack` and `Accelerator` (flat, base units).

    An object may start from a catalogue system with `base` (and `profile`) and replace fields; without one it must give at least
    name, hbm_bytes, gpus. nvlink, nic and c2c are given as one-direction bytes per second. Raises: InputError.
    """
    if isinstance(given, str):
        return system(given, profile, gpu_watts)
    if not isinstance(given, Mapping):
        raise InputError("system", given, "must be a name or an object")
    content = dict(given)
    unknown = [k for k in content if k not in _GPU_KEYS | _RACK_KEYS | {"base"}]
    if unknown:
        raise InputError(f"system.{unknown[0]}", content[unknown[0]], f"is not one of {', '.join(sorted(_GPU_KEYS | _RACK_KEYS))}")
    base = system(content.pop("base"), content.pop("profile", profile), gpu_watts) if "base" in content else None
    for field in ("nvlink", "nic", "c2c"):
        if isinstance(content.get(field), (int, float)) and not isinstance(content[field], bool):
            content[field] = Link(field, float(content[field]))
    if base is None:
        for field in ("name", "hbm_bytes", "gpus"):
            if field not in content:
                raise InputError(f"system.{field}", None, "is required for a system of your own")
        n = content["gpus"]
        empty = {"generation": "own", "hbm_bytes_per_s": None, "peak_flops_per_s": {}, "nvlink": None, "gpu_watts": gpu_watts}
        gpu = Accelerator(**{**empty, **{k: v for k, v in content.items() if k in _GPU_KEYS}})
        counts = {"profile": "", "domain_gpus": n, "usable_gpus": n, "gpus_per_tray": n, "nics_per_gpu": 1, "nic": None}
        return Rack(accelerator=gpu, **{**counts, **{k: v for k, v in content.items() if k in _RACK_KEYS}})
    content.setdefault("name", f"{base.name} (own)")
    gpu = replace(base.accelerator, **{k: v for k, v in content.items() if k in _GPU_KEYS and k != "name"})
    return replace(base, accelerator=gpu, **{k: v for k, v in content.items() if k in _RACK_KEYS})


def switch_names() -> list[str]:
    """Return the catalogue's switch ids."""
    return [r["switch"] for r in table("switches.csv")]


def switch(name: str) -> Switch:
    """Return a switch of the catalogue: its capacity and its ports by speed; absent speeds follow from the capacity.

    Raises: InputError for an unknown name.
    """
    for row in table("switches.csv"):
        if row["switch"] == name:
            total = claim(row["total"]).base_value
            ports = {}
            for speed in (800, 400, 200, 100):
                printed = row[f"ports_{speed}g"]
                ports[f"{speed}G"] = int(claim(printed).value) if printed else round(total / (speed * 1e9 / 8))
            return Switch(name, total, ports)
    raise InputError("switch", name, f"must be one of {', '.join(switch_names())}")
