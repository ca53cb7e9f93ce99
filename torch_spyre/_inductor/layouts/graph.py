"""The input of layout planning (buffers, ops with their accesses) and its result, a plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import sympy
import torch

from torch_spyre._C import SpyreTensorLayout, get_elem_in_stick
from torch_spyre._inductor.layouts.terms import Linear, digits, names, parse
from torch_spyre._inductor.multi_loop.registry import find_multi_loop_op

# Kinds with a rule in `propagation.py`. Names of multi-loop ops are kinds too.
KINDS = frozenset({"pointwise", "reduction", "matmul", "clone", "fill", "mutation"})

# The read position of a copy after an op, from the buffer that it writes to its destination.
WRITE = -1


@dataclass(frozen=True)
class Buffer:
    """A buffer with host sizes and strides; its layout is None until it has been planned."""

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
    # Whether the buffer holds indices for another access; any layout is valid then.
    is_index: bool = False
    # For each symbol that is a value of an index tensor, the loop symbols at which that tensor is
    # read; by default, all loop symbols that do not occur in the index.
    indirect: Mapping[sympy.Symbol, frozenset[sympy.Symbol]] = field(default_factory=dict)


@dataclass(frozen=True)
class LayoutOp:
    """The reads and the write of one op at each point of its loops."""

    name: str
    kind: str
    # Output symbols first, reduction symbols last.
    ranges: Mapping[sympy.Symbol, int]
    reads: Sequence[Access]
    write: Access

    def __post_init__(self) -> None:
        if self.kind not in KINDS and find_multi_loop_op(self.kind) is None:
            raise ValueError(f"{self.name}: op kind {self.kind!r} is not one of {sorted(KINDS)}")
        if self.kind == "matmul" and len(self.reads) < 2:
            raise ValueError(f"{self.name}: a matmul reads two tensors, not {len(self.reads)}")

    @cached_property
    def loops(self) -> dict[str, int]:
        """The sizes of the loops of more than one iteration, by name."""
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
        """Return whether the index contains values of index tensors."""
        return any(variable.name not in self.loops for variable, _ in digits(index))

    def indirect_loops(self, access: Access, index: Linear) -> frozenset[str]:
        """Return the loops that the access depends on through index tensors."""
        loops_of_value = {symbol.name: loops for symbol, loops in access.indirect.items()}
        direct_loops = names(index)
        indirect_loops: set[str] = set()
        for variable, _ in digits(index):
            if variable.name in loops_of_value:
                indirect_loops.update(loop.name for loop in loops_of_value[str(variable.name)])
            elif variable.name not in self.loops:
                indirect_loops.update(self.loops.keys() - direct_loops)
        return frozenset(indirect_loops)


@dataclass(frozen=True)
class Restickify:
    """A copy before an op (or after it, if `read_position` is `WRITE`).

    Kind `restickify` copies the whole source buffer to `target_layout`; the op then reads the copy
    at the same index. Kind `gather` reads the source at the op's index (element by element if
    necessary) for all points of `ranges`, the loops that the access depends on, into a buffer of
    `size` and `stride`, which the op then reads at `index`. Kind `scatter` is the inverse of a
    gather: the op writes such a buffer, and the copy moves it to the op's destination. Copies with
    the same `name` are one copy.
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
    """Layouts of all buffers, and the copies that the ops need with them."""

    # Includes the inputs.
    layouts: Mapping[str, SpyreTensorLayout]
    copies: Sequence[Restickify]
    # The number of device elements that the copies move.
    cost: int
