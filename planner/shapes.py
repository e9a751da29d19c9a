"""The shape of a model as its files define it: every weight tensor, and what each attention layer keeps per token."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.errors import InputError
from planner.units import count

PARTS = ("embedding", "head", "attention", "indexer", "recurrent", "dense_mlp", "router", "shared_experts", "experts", "norm", "mtp",
         "vision")
KINDS = ("full", "sliding", "latent", "sparse", "compressed", "linear")


@dataclass(frozen=True)
class Weight:
    """One kind of tensor: rows x cols (cols 0: a vector), `copies` of it in the model, `used` of them by one token.

    part, one of `PARTS`; linear, a matrix product that a low-precision checkpoint may hold in few bits; layers [1] it is spread
    over, for pipeline stages; name, what it is called; bits [1] a value is always stored in (0: as the checkpoint).
    """

    part: str
    name: str
    rows: int
    cols: int
    copies: int
    used: float
    linear: bool = True
    layers: int = 1
    bits: int = 0

    def __post_init__(self):
        if self.part not in PARTS:
            raise InputError(f"weight.{self.name}.part", self.part, f"must be one of {', '.join(PARTS)}")
        count(f"weight.{self.name}.rows", self.rows)
        count(f"weight.{self.name}.cols", self.cols, 0)
        count(f"weight.{self.name}.copies", self.copies, 0)

    @property
    def elements(self) -> int:
        """Values in one tensor."""
        return self.rows * max(self.cols, 1)

    @property
    def total(self) -> int:
        """Values in all copies."""
        return self.elements * self.copies


@dataclass(frozen=True)
class Attention:
    """`layers` alike layers: what they compute and what they keep.

    kind, one of `KINDS`; heads and kv_heads [1]; qk_dim and v_dim per head [1]; cache_elements per token and layer, as stored (K and V,
    or the latent and its rope part); window [token] that a sliding layer sees, 0 = all; stride [token] per stored entry (compressed
    layers); top_k [token] that a sparse layer reads, 0 = all; index_elements per token and layer (the indexer's keys); state_elements per
    sequence and layer (recurrent layers); state_bits, their width; index_heads [1]; latent [1], its size without the rope part.
    """

    kind: str
    layers: int
    heads: int
    kv_heads: int
    qk_dim: int
    v_dim: int
    cache_elements: int
    window: int = 0
    stride: int = 1
    top_k: int = 0
    index_elements: int = 0
    state_elements: int = 0
    state_bits: int = 16
    index_heads: int = 0
    latent: int = 0

    def __post_init__(self):
        if self.kind not in KINDS:
            raise InputError("attention.kind", self.kind, f"must be one of {', '.join(KINDS)}")
        for name in ("layers", "heads", "kv_heads", "stride"):
            count(f"attention.{name}", getattr(self, name))
        for name in ("qk_dim", "v_dim", "cache_elements", "window", "top_k", "index_elements", "state_elements"):
            count(f"attention.{name}", getattr(self, name), 0)

    @property
    def shared_latent(self) -> bool:
        """True where all heads read one latent: tensor parallelism replicates it."""
        return self.kind in ("latent", "compressed") or (self.kind == "sparse" and self.kv_heads == 1)


@dataclass(frozen=True)
class Experts:
    """The routed experts: num [1], top_k [1] per token, layers [1] that have them."""

    num: int
    top_k: int
    layers: int

    def __post_init__(self):
        count("experts.num", self.num)
        count("experts.layers", self.layers)
        if count("experts.top_k", self.top_k) > self.num:
            raise InputError("experts.top_k", self.top_k, f"must be at most the number of experts ({self.num})")


@dataclass(frozen=True)
class ModelShape:
    """A model: its tensors, its attention layers and the few sizes that activations need.

    stored, how the checkpoint is written by part (format names); extra_elements, stored values that are not parameters (a second
    embedding for MTP); notes, what a reader must know; upper_bound, True where an unknown field may only shrink the cache.
    """

    name: str
    architecture: str
    hidden: int
    layers: int
    vocab: int
    heads: int
    max_context: int
    weights: tuple[Weight, ...]
    attention: tuple[Attention, ...]
    experts: Experts | None = None
    mlp_width: int = 0
    mtp_layers: int = 0
    duplicated: tuple[Weight, ...] = ()
    notes: tuple[str, ...] = ()
    upper_bound: bool = False
    quantisation: dict = field(default_factory=dict, compare=False, hash=False)

    def __hash__(self):
        return hash((self.name, self.architecture, self.hidden, self.layers))


@dataclass(frozen=True)
class Format:
    """A number format: bits [1] a value, scale_bits [1] for each block of block_rows x block_cols values (0: no scales).

    tensor_bytes [B] stored beside each tensor (a packed tensor's shape).
    """

    name: str
    bits: float
    block_rows: int = 0
    block_cols: int = 0
    scale_bits: int = 0
    tensor_bytes: int = 0

    @property
    def bits_per_value(self) -> float:
        """Bits a value with its share of the scale, blocks full."""
        block = self.block_rows * self.block_cols
        return self.bits + (self.scale_bits / block if block else 0.0)


@dataclass(frozen=True)
class Layout:
    """How a replica is split: tp x dp GPUs a pipeline stage, pp stages; experts over moe_tp x ep GPUs of a stage.

    tp [1] splits heads and dense layers; dp [1] runs attention on different requests; ep [1] GPUs that hold different experts; moe_tp [1]
    splits one expert. tp x dp must equal moe_tp x ep: a layout that says otherwise is refused with both products.
    """

    tp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1
    moe_tp: int = 0

    def __post_init__(self):
        for name in ("tp", "ep", "dp", "pp"):
            count(f"layout.{name}", getattr(self, name), 1, 10**6)
        if not self.moe_tp:
            if self.stage_gpus % self.ep:
                raise InputError("layout.ep", self.ep, f"must divide tp x dp = {self.stage_gpus}")
            object.__setattr__(self, "moe_tp", self.stage_gpus // self.ep)
        if self.stage_gpus != self.moe_tp * self.ep:
            products = f"tp x dp = {self.tp} x {self.dp} = {self.stage_gpus}, moe_tp x ep = {self.moe_tp} x {self.ep} = {self.moe_tp * self.ep}"
            raise InputError("layout", products, "must have one number of GPUs for attention and for experts")

    @property
    def stage_gpus(self) -> int:
        """GPUs of one pipeline stage."""
        return self.tp * self.dp

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.stage_gpus * self.pp

    @property
    def label(self) -> str:
        """The layout in the field's short form, such as TP8, DEP16 or TP4 PP2."""
        if self.dp > 1 and self.tp == 1:
            head = f"DEP{self.dp}" if self.ep == self.dp else f"DP{self.dp} EP{self.ep}"
        else:
            head = f"TP{self.tp}" + (f" DP{self.dp}" if self.dp > 1 else "") + (f" EP{self.ep}" if self.ep > 1 else "")
        return head + (f" PP{self.pp}" if self.pp > 1 else "")
