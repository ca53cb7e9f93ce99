"""The content of a SuperDSC file as dataclasses, before it is written as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import sympy

# The key of extensions to the public format.
EXTENSION_KEY = "torchSpyre_"

MemorySpace = Literal["hbm", "pool", "lx"]
IndirectKind = Literal["no_indirection", "index_tensor", "value_tensor"]


@dataclass(frozen=True)
class Dim:
    """A dim of an op's iteration space; without a symbol, one that was added for the hardware."""

    label: str
    symbol: sympy.Symbol | None
    unpadded: int
    size: int
    split: int


@dataclass(frozen=True)
class OpDims:
    """The dims of an op; `synthetic` is the dim of lanes that no symbol indexes."""

    all: tuple[Dim, ...]
    # Dims of the reference tensor (first input of a reduction, else the output), innermost first.
    reference_order: tuple[str, ...]
    stick: str
    synthetic: str | None
    virtual: tuple[str, ...]

    def named(self, label: str) -> Dim:
        """Return the dim with the label."""
        return next(dim for dim in self.all if dim.label == label)

    @property
    def label_of(self) -> dict[sympy.Symbol, str]:
        """Labels by symbol."""
        return {dim.symbol: dim.label for dim in self.all if dim.symbol is not None}


@dataclass(frozen=True)
class LayoutClass:
    """A layout that one or more tensors of the op have."""

    dims: tuple[str, ...]
    stick: str
    stick_size: int


@dataclass(frozen=True)
class Constant:
    """A constant of an op, encoded in a data format."""

    name: str
    data_format: str
    bits: int


@dataclass(frozen=True)
class SDSCArgs:
    """One tensor of an op. Dims are labels, innermost first."""

    layout: str
    dims: tuple[str, ...]
    # 1: the dim indexes the tensor; -1: it does not; -2: it does not, and it is the stick dim.
    scale: Mapping[str, int]
    # Elements that the iterated indices of the dim span.
    stride: Mapping[str, int]
    # Elements before the first accessed one, and indices of the dim after the last.
    offset: Mapping[str, int]
    back_gap: Mapping[str, int]
    max_dim_size: Mapping[str, int]
    stick: str
    stick_size: int
    word_length: int
    data_format: str
    memory_space: MemorySpace
    arg_index: int
    # Byte addresses of the tensor's buffer, and of the first element on each core.
    base: int
    starts: tuple[int, ...]
    indirect_kind: IndirectKind = "no_indirection"
    # Position of the other tensor of an indirect access: the index of a value, or vice versa.
    indirect_partner: int | None = None
    # Whether its dims and gaps give the address of every element.
    is_affine: bool = True
    extension: Mapping[str, Any] = field(default_factory=dict)

    @property
    def component(self) -> str:
        return "lx" if self.memory_space == "lx" else "hbm"


@dataclass(frozen=True)
class SDSCSpec:
    """One op. Dims are labels, in the order of the iteration space."""

    op: str
    op_func: str
    unit: str
    data_format: str
    # Rounded up to whole sticks for ops that work on whole sticks.
    sizes: Mapping[str, int]
    splits: Mapping[str, int]
    core_slices: tuple[Mapping[str, int], ...]
    # The first index of the padding of a dim, and its size.
    mask: Mapping[str, tuple[int, int]]
    mask_constant: int
    constants: tuple[Constant, ...]
    layouts: Mapping[str, LayoutClass]
    args: tuple[SDSCArgs, ...]
    inputs: tuple[int, ...]
    output: int
    index_tensors: tuple[int, ...]
    extension: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cores(self) -> int:
        return len(self.core_slices)

    def size_per_core(self, label: str) -> int:
        return self.sizes[label] // self.splits[label]
