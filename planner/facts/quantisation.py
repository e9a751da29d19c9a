"""How a checkpoint is stored: which tensors in which format, as its quantisation files say."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from planner.errors import InputError
from planner.facts.files import table
from planner.facts.modules import modules
from planner.shapes import Weight

EXCLUSIONS = ("exclude_modules", "ignore", "modules_to_not_convert", "ignored_layers")
METHODS = ("fp8", "modelopt", "modelopt_fp4", "compressed-tensors", "mxfp4")
PREFIXES = ("language_model.model.", "model.language_model.", "thinker.model.", "language_model.", "backbone.")
IN_NAMES = re.compile(r"(?<![a-z])(nvfp4|mxfp4|mxfp8|fp4|fp8|int4|int8|awq|gptq|bf16|w4a16|w4a8|w8a8|w8a16)(?![a-z0-9])")
HALF, SINGLE = ("bfloat16", "float16", "half", "auto"), ("float32", "float")


class Unread(Exception):
    """A quantisation section that this reader cannot turn into bytes: the reason is its text."""


def declared(config: Mapping, text: Mapping) -> Mapping:
    """Return the quantisation part of a config, from wherever it stands: empty when there is none. Raises: InputError for no object."""
    places = (("hf_quant_config", config), ("quantization_config", config), ("quantization_config", text), ("compression_config", config))
    for name, holder in places:
        place = holder.get(name)
        if place is not None and not isinstance(place, Mapping):
            raise InputError(name, place, "must be an object")
        if place:
            return place.get("quantization", place) if isinstance(place.get("quantization"), Mapping) else place
    return {}


def _weights_format(weights: Mapping) -> str:
    """Return the format of a group's weights by bits, type, strategy and group size."""
    bits, kind, group = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    strategy = weights.get("strategy")
    blocks = weights.get("block_structure")
    said = f"{bits} bits of type {kind}, group_size {group}, strategy {strategy}"
    if (bits, kind) == (4, "float") and group in (16, 32):
        return "nvfp4" if group == 16 else "mxfp4"
    if (bits, kind) == (4, "int") and weights.get("symmetric") is not False and group in (32, 128):
        return "int4_group32" if group == 32 else "int4"
    if (bits, kind) == (8, "float") and strategy == "block" and blocks in (None, [128, 128]):
        return "fp8_block"
    if (bits, kind) == (8, "float") and strategy in (None, "tensor", "channel") and not group:
        return "fp8"
    if (bits, kind) == (8, "int") and strategy in (None, "tensor", "channel") and not group and weights.get("symmetric") is not False:
        return "int8"
    raise Unread(f"stores {said}, which is not understood")


def _algorithm(algo: str, group: object = None) -> str:
    """Return the format of an algorithm's name."""
    name = algo.upper()
    if "MXFP4" in name or "MXFP8" in name:
        return "mxfp4" if "MXFP4" in name else "mxfp8"
    if "NVFP4" in name and group in (None, 16):
        return "nvfp4"
    if name in ("FP8_PB_WO", "FP8_BLOCK", "FP8_BLOCK_SCALES", "FP8_PB_REAL"):
        return "fp8_block"
    if name in ("FP8", "FP8_PER_CHANNEL_PER_TOKEN"):
        return "fp8"
    raise Unread(f"stores {algo}{f' in groups of {group}' if group else ''}, which is not understood")


def _bare(pattern: str) -> str:
    """Return a module name or pattern as the plain decoder spells it."""
    for prefix in PREFIXES:
        if pattern.startswith(prefix):
            return "model." + pattern.removeprefix(prefix).removeprefix("model.")
    return f"model.{pattern}" if pattern.startswith("layers.") else pattern


class Names:
    """A set of module names and patterns (exact, a part of the path, a glob, or re:...), asked whether it holds a module or its parents."""

    def __init__(self, patterns: Iterable[str]):
        plain, self.globs, self.regexes, starts = set(), [], [], []
        for text in dict.fromkeys(patterns):
            if text.startswith("re:"):
                self.regexes.append(_regex(text))
                continue
            pattern = _bare(text)
            if pattern.endswith("*") and not set(pattern[:-1]) & set("*?["):
                starts.append(pattern[:-1])
            elif set(pattern) & set("*?["):
                self.globs.append(re.compile(fnmatch.translate(pattern)))
            else:
                plain.add(pattern)
        self.plain, self.starts = plain, tuple(starts)

    def hold(self, module: str) -> bool:
        """Return whether the module, or one that contains it, is meant."""
        words = module.split(".")
        if not self.plain.isdisjoint(words) or module.startswith(self.starts or ("\0",)):
            return True
        if any(".".join(words[:i]) in self.plain for i in range(2, len(words) + 1)):
            return True
        spelled = (module, *(prefix + module.removeprefix("model.") for prefix in PREFIXES))
        return any(g.match(module) for g in self.globs) or any(r.match(s) for r in self.regexes for s in spelled)


def _regex(text: str) -> re.Pattern:
    try:
        return re.compile(text[3:])
    except re.error as error:
        raise InputError("quantization_config.ignore", text, f"must be a regular expression after re: ({error})") from None


def _checked(quant: Mapping) -> None:
    """Refuse a quantisation section whose lists are no lists."""
    for key in EXCLUSIONS:
        names = quant.get(key) or []
        if not isinstance(names, list) or any(not isinstance(n, str) for n in names):
            raise InputError(f"quantization_config.{key}", quant[key], "must be a list of names")
    for key in ("config_groups", "quantized_layers", "sparsity_config"):
        if not isinstance(quant.get(key) or {}, Mapping):
            raise InputError(f"quantization_config.{key}", quant[key], "must be an object")
    for key in ("quant_method", "quant_algo", "fmt"):
        if not isinstance(quant.get(key) or "", str):
            raise InputError(f"quantization_config.{key}", quant[key], "must be text")
    for key, value in (quant.get("quantized_layers") or {}).items():
        if not isinstance(value, Mapping) or not isinstance(value.get("quant_algo"), str):
            raise InputError(f"quantization_config.quantized_layers.{key}", value, "must be an object with a quant_algo")
    for group in (quant.get("config_groups") or {}).values():
        if not isinstance(group, Mapping) or not isinstance(group.get("weights") or {}, Mapping):
            raise InputError("quantization_config.config_groups", group, "must hold objects with weights")
        targets = group.get("targets") or []
        if not isinstance(targets, list) or any(not isinstance(t, str) for t in targets):
            raise InputError("quantization_config.config_groups.targets", targets, "must be a list of names")


def _rules(quant: Mapping) -> list[tuple[Names | None, str]]:
    """Return (modules, format) in the order in which they apply; None: every linear layer."""
    method, algo = str(quant.get("quant_method") or "").lower(), str(quant.get("quant_algo") or "")
    if method and method not in METHODS:
        raise Unread(f"uses quant_method {method}, whose bytes are not understood")
    if str((quant.get("sparsity_config") or {}).get("format", "dense")) != "dense":
        raise Unread("is stored sparse, which is not understood")
    layers = quant.get("quantized_layers")
    if layers:
        formats: dict[str, list[str]] = {}
        for name, entry in layers.items():
            formats.setdefault(_algorithm(entry["quant_algo"], entry.get("group_size")), []).append(name)
        return [(Names(names), stored) for stored, names in formats.items()]
    if algo and algo.upper() != "MIXED_PRECISION":
        return [(None, _algorithm(algo, quant.get("group_size")))]
    if quant.get("config_groups"):
        found = []
        for group in quant["config_groups"].values():
            if not group.get("weights"):
                continue
            targets = group.get("targets") or ["Linear"]
            found.append((None if "Linear" in targets else Names(targets), _weights_format(group["weights"])))
        return found
    if method == "fp8" or "float8" in str(quant.get("fmt") or ""):
        block = quant.get("weight_block_size")
        if block not in (None, [128, 128]):
            raise Unread(f"has FP8 blocks of {block}, which are not understood")
        return [(None, "fp8_block" if block else "fp8")]
    if method == "mxfp4":
        return [(Names(["experts"]), "mxfp4")]
    raise Unread(f"declares a quantisation ({', '.join(quant) or 'empty'}) whose format is not understood")


def base_format(config: Mapping, text: Mapping) -> str:
    """Return the format of what is not quantised: bf16 (also for FP16, and where no dtype is named) or fp32. Raises: Unread, InputError."""
    named = {}
    for field, holder in (("dtype", text), ("torch_dtype", text), ("dtype", config), ("torch_dtype", config)):
        value = holder.get(field)
        if value is not None and not isinstance(value, str):
            raise InputError(field, value, "must be text such as bfloat16")
        if value:
            named.setdefault(field, value.removeprefix("torch."))
    if len(set(named.values())) > 1:
        raise InputError("dtype and torch_dtype", " and ".join(named.values()), "must agree")
    value = next(iter(named.values()), "bfloat16").lower()
    if value not in HALF + SINGLE:
        raise Unread(f"is stored as {value}, which is not understood")
    return "fp32" if value in SINGLE else "bf16"


def _format_of(weight: Weight, layer: int, rules, kept: Names, after: int) -> str:
    found = "bf16"
    names = modules(weight, layer, after)
    if any(kept.hold(n) for n in names):
        return found
    for holders, stored in rules:
        if weight.linear if holders is None else any(holders.hold(n) for n in names):
            return stored
    return found


def stored_formats(config: Mapping, text: Mapping, weights: Iterable[Weight], layers: Mapping[str, list[int]]) -> dict:
    """Return how a checkpoint is stored as released, for `formats.weight_formats`.

    Parameters: config, the whole config.json; text, its text part; weights of the model; layers, the indices of the layers that hold each
    part. Returns: part -> format for its linear tensors; `part/name` -> format, or format -> share of the layers, for a tensor that differs
    from its part; `base` -> the format of all others where it is not BF16; `assumed` -> what the files leave open; or `refused` -> why the
    bytes are not known.
    Raises: InputError for a section that is no valid one.
    """
    quant = declared(config, text)
    _checked(quant)
    try:
        base = base_format(config, text)
        rules, assumed = _rules(quant) if quant else [], ""
    except Unread as reason:
        return {"refused": f"is refused: this checkpoint {reason}; name a weight_format"}
    if rules and quant.get("quant_algo") and not any(key in quant for key in (*EXCLUSIONS, "quantized_layers")):
        assumed = f"the checkpoint declares {quant['quant_algo']} and does not list what it keeps high: taken as nothing but embeddings and head"
    kept = Names(n for key in EXCLUSIONS for n in (quant.get(key) or []))
    found: dict = {"assumed": assumed} if assumed else {}
    if base != "bf16":
        found["base"] = base
    by_part: dict[str, dict[str, dict[str, float]]] = {}
    sizes: dict[str, Counter] = {}
    for weight in weights if rules else ():
        if weight.part in ("vision", "norm", "embedding") or not weight.cols or not weight.total or weight.bits:
            continue
        indices = layers.get(weight.part) or [0]
        counts = Counter(_format_of(weight, i, rules, kept, text["num_hidden_layers"]) for i in indices)
        if len(set(counts) - {"bf16"}) > 1:
            return {"refused": f"is refused: {weight.name} is stored in {' and '.join(sorted(counts))} by layer; name a weight_format"}
        by_part.setdefault(weight.part, {})[weight.name] = {k: n / len(indices) for k, n in counts.items()}
        if weight.linear:
            sizes.setdefault(weight.part, Counter())[max(counts, key=counts.get)] += weight.total
    for part, names in by_part.items():
        usual = max(sizes[part], key=sizes[part].get) if part in sizes else "bf16"
        if usual != "bf16":
            found[part] = usual
        plain = {w.name for w in weights if w.part == part and not w.linear}
        for name, shares in names.items():
            expected = "bf16" if name in plain else usual
            if shares != {expected: 1.0}:
                found[f"{part}/{name}"] = next(iter(shares)) if len(shares) == 1 else shares
    return found


def as_spelled(spelling: str, name: str, quantisation: Mapping, catalogue: Iterable[str]) -> dict | None:
    """Return how the checkpoint of a spelling is stored where the spelling names another format than the config it stands for.

    Parameters: spelling, as typed; name and quantisation of the catalogue's model behind it; catalogue, all names. Returns: as
    `stored_formats`, `refused` where the spelled checkpoint's own config does not ship; None where the config is that of the spelling.
    """
    known = {r["part"]: r["format"] for r in table("checkpoint_formats.csv") if r["printed"].lower() == spelling.strip().lower()}
    if known:
        return known
    held = " and ".join(sorted({str(v) for k, v in quantisation.items() if k != "assumed"})) or "bf16"
    wanted = IN_NAMES.findall(spelling.lower())
    if "refused" in quantisation or not wanted or spelling.lower() in name.lower() or any(w in held for w in wanted):
        return None
    near = get_close_matches(spelling, [n for n in catalogue if wanted[0] in n.lower()], n=3, cutoff=0.3)
    others = f"; with {wanted[0]} there are {', '.join(near)}" if near else ""
    reason = f"is refused: the config of {spelling} does not ship, only that of {name} ({held}); name a weight_format or give its config.json"
    return {"refused": reason + others}
