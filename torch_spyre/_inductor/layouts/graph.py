"""What layout planning knows of a graph (buffers, the accesses of each op), and what it decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import sympy
import torch

from torch_spyre._C import SpyreTensorLayout, get_elem_in_stick
from torch_spyre._inductor.layouts.terms import Linear, digits, names, parse

# fmt: off
KINDS = frozenset({
    "pointwise", "reduction", "matmul", "exx2", "topk", "clone", "fill", "fallback", "mutation",
    "attention", "attentionlogsumexp",
})
# fmt: on

# The position of a copy that stands behind an op, between its result and where it goes.
WRITE = -1


@dataclass(frozen=True)
class Buffer:
    """Memory with host sizes and strides; `layout` is known for inputs, and planned for others."""

    name: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    layout: SpyreTensorLayout | None = None

    @property
    def per_stick(self) -> int:
        return get_elem_in_stick(self.dtype)


@dataclass(frozen=True)
class Access:
    """One read or write: `index` is a host offset in the buffer, storage offset included."""

    buffer: Buffer
    index: sympy.Expr
    # The tensor holds indices for another access: any layout will do.
    is_index: bool = False
    # Symbols that stand for values of an index tensor -> the loop symbols that tensor is read at.
    # Without an entry: all loop symbols that are not in the index themselves.
    indirect: Mapping[sympy.Symbol, frozenset[sympy.Symbol]] = field(default_factory=dict)


@dataclass(frozen=True)
class LayoutOp:
    """One op: what it reads and writes for each point of its loops."""

    name: str
    kind: str
    # Output symbols first, reduction symbols last.
    ranges: Mapping[sympy.Symbol, int]
    reads: Sequence[Access]
    write: Access

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.name}: op kind {self.kind!r} is not one of {sorted(KINDS)}")
        if self.kind == "matmul" and len(self.reads) < 2:
            raise ValueError(f"{self.name}: a matmul reads two tensors, not {len(self.reads)}")

    @cached_property
    def loops(self) -> dict[str, int]:
        """The loops that run more than once."""
        return {symbol.name: int(n) for symbol, n in self.ranges.items() if int(n) > 1}

    @cached_property
    def read_indices(self) -> list[Linear]:
        return [parse(read.index, self.ranges) for read in self.reads]

    @cached_property
    def write_index(self) -> Linear:
        return parse(self.write.index, self.ranges)

    @cached_property
    def reduced(self) -> list[str]:
        written = names(self.write_index) | self.indirect_loops(self.write, self.write_index)
        return [name for name in self.loops if name not in written]

    def is_indirect(self, index: Linear) -> bool:
        """Are values of index tensors in it? Those of one element depend on no loop."""
        return any(variable.name not in self.loops for variable, _ in digits(index))

    def indirect_loops(self, access: Access, index: Linear) -> frozenset[str]:
        """The loops that the access depends on through index tensors."""
        given = {symbol.name: loops for symbol, loops in access.indirect.items()}
        direct = names(index)
        found: set[str] = set()
        for variable, _ in digits(index):
            if variable.name in given:
                found.update(symbol.name for symbol in given[str(variable.name)])
            elif variable.name not in self.loops:
                found.update(self.loops.keys() - direct)
        return frozenset(found)


@dataclass(frozen=True)
class Restickify:
    """A copy to make before an op (or behind it, if `read_position` is `WRITE`).

    Kind `restickify` copies the whole source buffer to `target_layout`; the op then reads the copy
    through its own index. Kind `gather` reads the source through the op's index (element by
    element if need be) for all points of `ranges`, the loops that the access depends on, into a
    buffer of `size` and `stride`, which the op then reads at `index`. Kind `scatter` is a gather
    the other way round: the op writes such a buffer, and the copy moves it to where the op should
    have written. Copies with equal `name` are one copy.
    """

    name: str
    op_name: str
    read_position: int
    source: str
    kind: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    target_layout: SpyreTensorLayout
    index: sympy.Expr
    ranges: Mapping[sympy.Symbol, int]
    reason: str
    cost: int


@dataclass(frozen=True)
class LayoutPlan:
    # Of every buffer that is read or written, inputs included.
    layouts: Mapping[str, SpyreTensorLayout]
    copies: Sequence[Restickify]
    # Device elements that the copies move.
    cost: int
