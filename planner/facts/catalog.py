"""The catalogue: chosen claims joined into the nouns that models take. A device is rows of data/systems.csv, never a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache

from planner.errors import InputError
from planner.facts.evidence import Claim, claim, own_claim, own_number, spread
from planner.facts.files import table
from planner.facts.names import resolve, resolve_model, resolve_precision, resolve_switch, resolve_system, resolve_unit
from planner.specs import Accelerator, Link, Rack, Switch
from planner.units import count

__all__ = ["FIELDS", "Behind", "claims_behind", "claims_of", "profiles", "resolve", "resolve_model", "resolve_precision", "resolve_switch",
           "resolve_system", "resolve_unit", "switch", "switch_names", "system", "system_from", "system_names"]
FORMATS = ("bf16", "fp8", "nvfp4", "mxfp4", "mxfp8", "int8")
LINKS = ("nvlink", "nic", "c2c")
COUNTS = ("gpus", "gpus_per_tray", "nics_per_gpu", "usable_gpus", "domain_gpus")
FIELDS = ("hbm_bytes", "hbm_bytes_per_s", *FORMATS, "gpu_watts", *LINKS, "overhead_watts", "rack_watts", "host_bytes", "reserve_bytes", *COUNTS)
POWER_LIMITS = (50.0, 20_000.0)
POSSIBLE = {  # field of one GPU -> least and most that any can be, in the base unit: a number outside was typed in another unit
    "hbm_bytes": (1e9, 1e14), "hbm_bytes_per_s": (1e9, 1e15), "gpu_watts": (10.0, 1e5), **dict.fromkeys(FORMATS, (1e12, 1e19)),
}
UNIT_OF = {"hbm_bytes": "B", "hbm_bytes_per_s": "B/s", "gpu_watts": "W", **dict.fromkeys(FORMATS, "FLOP/s")}
RESERVE = "P0010"
PER_RACK = ("cpu_memory_per_rack", "host_memory_per_node", "nics_per_rack")
PER_TRAY = ("host_memory_per_tray", "connectx7_count", "connectx8_count")


@dataclass(frozen=True)
class Behind:
    """What a field of a system rests on: claim ids (the first gives the value), the weakest grade, low and high in the base unit.

    Low and high span the printed range and every other claim of the same subject, quantity, basis and profile. own = the user's value.
    """

    claims: tuple[str, ...]
    grade: str
    low: float
    high: float
    own: bool = False


@cache
def _shapes() -> dict[str, dict[str, str]]:
    return {r["system"]: r for r in table("system_shapes.csv")}


@cache
def _rows() -> dict[tuple[str, str], dict[str, tuple[str, ...]]]:
    found: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for row in table("systems.csv"):
        found.setdefault((row["system"], row["profile"]), {})[row["field"]] = tuple(row["claims"].split())
    return found


def system_names(status: str = "") -> list[str]:
    """Return the catalogue's system ids, all or those of one status (available, preview, roadmap, older)."""
    return [n for n, r in _shapes().items() if status in ("", r["status"])]


def profiles(name: str) -> list[str]:
    """Return the named profiles of a system; [""] where it has one set of figures."""
    found = resolve_system(name)
    return [profile for system, profile in _rows() if system == found] or [""]


def _profile(name: str, profile: str | None) -> str:
    known = profiles(name)
    if profile in (None, ""):
        if known == [""]:
            return ""
        raise InputError("profile", profile, f"must be named for {name}: {' or '.join(known)}")
    chosen = str(profile).strip().lower()
    if chosen not in known:
        allowed = f"must be one of {', '.join(known)}" if known != [""] else "is not used: it has one set of figures"
        raise InputError("profile", profile, f"of {name} {allowed}")
    return chosen


def claims_of(name: str, profile: str | None = None) -> dict[str, Claim]:
    """Return field -> the claim that gives its value, of one system and profile, in their sources' own units."""
    found = resolve_system(name)
    return {field: claim(ids[0]) for field, ids in _rows().get((found, _profile(found, profile)), {}).items()}


def _factor(field: str, item: Claim, counts: Mapping[str, int]) -> float:
    """Return the factor from a claim's base value to the field's: one direction, of one GPU or of one NIC."""
    if item.source == "user" and item.quantity == field:
        return 1.0
    factor = 0.5 if item.basis == "both_directions" else 1.0
    if item.quantity == "nvlink_c2c":
        factor /= 2  # a superchip joins two GPUs to one CPU
    elif item.quantity in PER_RACK:
        factor /= counts["gpus"]
    elif item.quantity in PER_TRAY:
        factor /= counts["gpus_per_tray"]
    return factor / counts["nics_per_gpu"] if field == "nic" else factor


def _counts(known: Mapping[str, Claim]) -> dict[str, int]:
    """Return the whole numbers of a system; where no claim gives one: a tray, a domain and the usable part are the whole, one NIC a GPU."""
    for field in COUNTS:
        if field in known and known[field].source == "user":
            count(f"facts.{known[field].id.removeprefix('own:')}", known[field].value)
    gpus = round(known["gpus"].base_value)
    found = {"gpus": gpus, "gpus_per_tray": gpus, "usable_gpus": gpus, "domain_gpus": gpus, "nics_per_gpu": 1}
    for field in ("gpus_per_tray", "usable_gpus", "domain_gpus", "nics_per_gpu"):
        if field in known:
            item = known[field]
            value = item.base_value * _factor(field, item, found)
            found[field] = round(gpus / value if item.quantity == "compute_trays" else value)
    return found


def _known(name: str, profile: str, facts: Mapping) -> dict[str, Claim]:
    """Return field -> claim with a user's own values in place of claims and fields."""
    known = {f: own_claim(c, facts) for f, c in claims_of(name, profile).items()}
    known.setdefault("reserve_bytes", own_claim(claim(RESERVE), facts))
    for key, given in facts.items():
        owner, _, field = key.rpartition(".")
        if not owner:
            claim(key)  # a claim's id: refused here when no such claim exists
            continue
        owner, _, wanted = owner.partition("/")
        if field not in FIELDS:
            raise InputError(f"facts.{key}", field, f"must end in one of {', '.join(FIELDS)}")
        if resolve_system(owner) == name and wanted in ("", profile):
            known[field] = own_number(key, field, given)
    for field, item in known.items():
        if item.source == "user" and field in POSSIBLE:
            for value in (item.base_value, *item.base_range):
                _possible(f"facts.{item.id.removeprefix('own:')}", field, value)
    return known


def _possible(key: str, field: str, value: float) -> None:
    """Refuse a number of a GPU that no GPU can have. Raises: InputError with the least, the most and the unit."""
    low, high = POSSIBLE[field]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 and not low <= value <= high:
        raise InputError(key, value, f"must be {low:g} to {high:g} {UNIT_OF[field]} of one GPU")


def claims_behind(rack: Rack, facts: Mapping | None = None) -> dict[str, Behind]:
    """Return what each field of a catalogue system rests on, in the unit of its field; a user's own system has nothing behind it.

    Parameters: rack, made by `system` with the same `facts`. Returns: field (of `FIELDS`) -> Behind; `gpu_watts` is listed only while
    the rack keeps the catalogue's setting. Raises: InputError as `system`.
    """
    if rack.name not in _shapes():
        return {}
    known = _known(rack.name, rack.profile, facts or {})
    counts, ids, found = _counts(known), _rows().get((rack.name, rack.profile), {}), {}
    for field, item in known.items():
        if item.base_value is None or field == "reserve_bytes":
            continue
        own = item.source == "user"
        if field == "gpu_watts" and rack.accelerator.gpu_watts != item.base_value:
            continue
        if field in COUNTS:
            value = float(getattr(rack, field))
            low, high = (value, value) if item.quantity != "usable_gpus" else item.base_range
        else:
            factor = _factor(field, item, counts)
            low, high = (e * factor for e in (item.base_range if own else spread(item)))
        behind = (item.id,) if own else ids[field]
        grade = "P" if own else max((claim(i).grade for i in behind), key="ABCDEFPX".index)
        found[field] = Behind(behind, grade, low, high, own)
    return found


def system(name: str, profile: str | None = None, gpu_watts: float | None = None, facts: Mapping | None = None) -> Rack:
    """Return a system of the catalogue.

    Parameters: name, an id or any spelling of data/aliases.csv; profile, required where the system has two (columns of one
    profile are carried together, never mixed); gpu_watts [W] another power setting than the catalogue's; facts, a user's own values:
    "<system>[/<profile>].<field>" -> number in the field's base unit, or a claim's id -> number in that claim's unit (a number, or
    an object with value, low, high).
    Returns: Rack; a field that nothing is known of is None or absent. Raises: InputError for an unknown name, profile, field or claim,
    a power setting outside 50 to 20,000 W, or a system without a memory size.
    """
    found = resolve_system(name)
    chosen = _profile(found, profile)
    rack = _build(found, chosen, _known(found, chosen, facts)) if facts else _system(found, chosen)
    if gpu_watts is None:
        return rack
    if isinstance(gpu_watts, (bool, str)) or not POWER_LIMITS[0] <= gpu_watts <= POWER_LIMITS[1]:
        raise InputError("gpu_watts", gpu_watts, f"must be {POWER_LIMITS[0]:g} to {POWER_LIMITS[1]:g} W")
    return replace(rack, accelerator=replace(rack.accelerator, gpu_watts=float(gpu_watts)))


@cache
def _system(name: str, profile: str) -> Rack:
    return _build(name, profile, _known(name, profile, {}))


def _build(name: str, profile: str, known: Mapping[str, Claim]) -> Rack:
    shape = _shapes()[name]
    if "hbm_bytes" not in known:
        raise InputError("system", name, f"is {shape['status']}: its memory size is not available")
    counts = _counts(known)
    values = {f: c.base_value * _factor(f, c, counts) for f, c in known.items() if c.base_value is not None and f not in COUNTS}
    links = {f: Link("pcie" if "pcie" in known[f].subject + known[f].quantity else f, values[f]) if f in values else None for f in LINKS}
    gpu = Accelerator(shape["accelerator"], shape["generation"], values["hbm_bytes"], values.get("hbm_bytes_per_s"),
                      {f: values[f] for f in FORMATS if f in values}, links["nvlink"], values.get("gpu_watts"), values["reserve_bytes"],
                      links["c2c"], values.get("host_bytes"))
    return Rack(name, profile, gpu, nic=links["nic"], rack_watts=values.get("rack_watts"), overhead_watts=values.get("overhead_watts"),
                status=shape["status"], **counts)


_GPU_KEYS = {f.name for f in fields(Accelerator)}
_RACK_KEYS = {f.name for f in fields(Rack)} - {"accelerator"}


def _flat(given: Mapping) -> dict:
    """Return a user's object with `accelerator` opened and links made; checked for unknown and mistyped fields."""
    content = {**(given.get("accelerator") if isinstance(given.get("accelerator"), Mapping) else {}),
               **{k: v for k, v in given.items() if k != "accelerator" or not isinstance(v, Mapping)}}
    if "system" in content:
        content.setdefault("base", content.pop("system"))
    unknown = [k for k in content if k not in _GPU_KEYS | _RACK_KEYS | {"base"}]
    if unknown:
        raise InputError(f"system.{unknown[0]}", content[unknown[0]], f"is not one of {', '.join(sorted(_GPU_KEYS | _RACK_KEYS))}")
    for field in LINKS:
        if isinstance(content.get(field), Mapping):
            parts = {k: v for k, v in content[field].items() if k != "name"}
            if set(parts) - {"bytes_per_s", "latency_seconds"} or "bytes_per_s" not in parts:
                raise InputError(f"system.{field}", dict(content[field]), "must be a number [B/s] or {bytes_per_s, latency_seconds}")
            content[field] = Link(field, **parts)
        elif content.get(field) is not None and not isinstance(content[field], Link):
            content[field] = Link(field, content[field])
    for field in ("name", "profile", "status", "generation"):
        if field in content and not (isinstance(content[field], str) and len(content[field]) <= 200):
            raise InputError(f"system.{field}", content[field], "must be text of at most 200 characters")
    if not isinstance(content.get("peak_flops_per_s", {}), Mapping):
        raise InputError("system.peak_flops_per_s", content["peak_flops_per_s"], "must be an object: format -> dense peak [FLOP/s]")
    for field in POSSIBLE:
        _possible(f"system.{field}", field, content.get(field) if field not in FORMATS else None)
    for name, peak in content.get("peak_flops_per_s", {}).items():
        if name in POSSIBLE:
            _possible(f"system.peak_flops_per_s.{name}", name, peak)
    return content


def system_from(given: str | Mapping, profile: str | None = None, gpu_watts: float | None = None) -> Rack:
    """Return a system by name, or from an object with the fields of `Rack` and `Accelerator` (flat or nested, base units).

    An object may start from a catalogue system with `base` (and `profile`) and replace fields; without one it must give at least
    name, hbm_bytes, gpus. nvlink, nic and c2c are one direction: bytes per second, or an object with bytes_per_s and
    latency_seconds. Raises: InputError naming the field.
    """
    if isinstance(given, str):
        return system(given, profile, gpu_watts)
    if not isinstance(given, Mapping):
        raise InputError("system", given, "must be a name or an object")
    content = _flat(given)
    if "base" in content:
        base = system(content.pop("base"), content.pop("profile", None) or profile, gpu_watts)
        content.setdefault("name", f"{base.name} (own)")
        gpu = replace(base.accelerator, **{k: v for k, v in content.items() if k in _GPU_KEYS and k != "name"})
        return replace(base, accelerator=gpu, **{k: v for k, v in content.items() if k in _RACK_KEYS})
    for field in ("name", "hbm_bytes", "gpus"):
        if field not in content:
            raise InputError(f"system.{field}", None, "is required for a system of your own")
    n = content["gpus"]
    empty = {"generation": "own", "hbm_bytes_per_s": None, "peak_flops_per_s": {}, "nvlink": None, "gpu_watts": gpu_watts}
    gpu = Accelerator(**{**empty, **{k: v for k, v in content.items() if k in _GPU_KEYS}})
    counts = {"profile": "", "domain_gpus": n, "usable_gpus": n, "gpus_per_tray": n, "nics_per_gpu": 1, "nic": None}
    return Rack(accelerator=gpu, **{**counts, **{k: v for k, v in content.items() if k in _RACK_KEYS}})


SPEEDS = (1600, 800, 400, 200, 100)


def switch_names() -> list[str]:
    """Return the catalogue's switch ids."""
    return [r["switch"] for r in table("switches.csv")]


@cache
def switch(name: str) -> Switch:
    """Return a switch of the catalogue by any spelling: capacity of one direction, and ports by speed.

    A speed without a printed count has capacity over speed ports, at most one a lane. Raises: InputError for an unknown name.
    """
    found = resolve_switch(name)
    row = next(r for r in table("switches.csv") if r["switch"] == found)
    capacity = claim(row["capacity"])
    total = capacity.base_value * (0.5 if capacity.basis == "both_directions" else 1.0)
    lanes = round(claim(row["lanes"]).base_value)
    ports = {}
    for speed in SPEEDS:
        printed = row[f"ports_{speed}g"]
        fitting = round(total / (speed * 1e9 / 8))
        ports[f"{speed}G"] = round(claim(printed).base_value) if printed else min(fitting, lanes)
    watts, price = (claim(row[c]).base_value if row[c] else None for c in ("watts", "price"))
    return Switch(found, total, ports, watts, price)
