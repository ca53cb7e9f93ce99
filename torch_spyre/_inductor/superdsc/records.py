"""What one SuperDSC file says, before it is written as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import sympy

# Our own additions to the public form, one object wherever they are needed.
EXTENSION_KEY = "torchSpyre_"

Place = Literal["hbm", "pool", "lx"]
IndirectKind = Literal["no_indirection", "index_tensor", "value_tensor"]


@dataclass(frozen=True)
class Dim:
    """Of an iteration space; without a symbol it was added for the hardware's sake."""

    label: str
    symbol: sympy.Symbol | None
    unpadded: int
    size: int
    split: int


@dataclass(frozen=True)
class OpDims:
    all: tuple[Dim, ...]
    # Of the tensor that the op is described by, from the innermost.
    order: tuple[str, ...]
    stick: str
    synthetic: str | None
    virtual: tuple[str, ...]

    def named(self, label: str) -> Dim:
        return next(dim for dim in self.all if dim.label == label)

    @property
    def label_of(self) -> dict[sympy.Symbol, str]:
        return {dim.symbol: dim.label for dim in self.all if dim.symbol is not None}


@dataclass(frozen=True)
class LayoutClass:
    """A layout that tensors of the op share."""

    dims: tuple[str, ...]
    stick: str
    stick_size: int


@dataclass(frozen=True)
class Constant:
    name: str
    data_format: str
    bits: int


@dataclass(frozen=True)
class SDSCArgs:
    """One tensor. Dims are labels, from the innermost to the outermost."""

    layout: str
    dims: tuple[str, ...]
    # 1: the tensor runs along the dim; -1: it does not; -2: it does not, and that is its stick.
    scale: Mapping[str, int]
    # Elements that the iterated part of the dim covers.
    stride: Mapping[str, int]
    # Elements before the first one, and indices of the dim after the last.
    offset: Mapping[str, int]
    back_gap: Mapping[str, int]
    max_dim_size: Mapping[str, int]
    stick: str
    stick_size: int
    word_length: int
    data_format: str
    place: Place
    arg_index: int
    # Byte address of the tensor's buffer, and of the first element of each core.
    base: int
    starts: tuple[int, ...]
    indirect_kind: IndirectKind = "no_indirection"
    # Position of the partner of an indirect access.
    related: int | None = None
    extension: Mapping[str, Any] = field(default_factory=dict)

    @property
    def component(self) -> str:
        return "lx" if self.place == "lx" else "hbm"


@dataclass(frozen=True)
class SDSCSpec:
    """One op. Dims are labels, in the order of the iteration space."""

    op: str
    op_func: str
    unit: str
    data_format: str
    # Rounded up to whole sticks where the op works on whole sticks.
    sizes: Mapping[str, int]
    splits: Mapping[str, int]
    core_slices: tuple[Mapping[str, int], ...]
    # Dim -> first index that is padding, and how many follow.
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
