"""What SSA values become: registers, and tensors in buffers that have no address yet."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute

from torch_spyre.backend.program.element_types import ELEMENT_TYPES_BY_MLIR_NAME
from torch_spyre.backend.program.instructions import NO_REGISTER, ElementType

_ids = itertools.count()


def element_type_of(attribute: Attribute) -> ElementType | None:
    """Return the element type of a KTIR type; None for a type that the card does not have."""
    if isinstance(attribute, IndexType):
        return ElementType.I64
    if isinstance(attribute, IntegerType):
        return ELEMENT_TYPES_BY_MLIR_NAME.get(f"i{attribute.width.data}")
    # Printing is slow, and the builtin float types are named as they are spelled.
    if attribute.name in ELEMENT_TYPES_BY_MLIR_NAME:
        return ELEMENT_TYPES_BY_MLIR_NAME[attribute.name]
    return ELEMENT_TYPES_BY_MLIR_NAME.get(str(attribute))


@dataclass(frozen=True)
class Extent:
    """A size: always in a register, known or not, and never above `upper`."""

    register: int
    upper: int
    known: bool


@dataclass(eq=False)
class Buffer:
    """Room in the scratchpad. `name` is for people: the value, or the op, that it holds."""

    bytes: int
    name: str
    id: int = field(default_factory=lambda: next(_ids))

    def __repr__(self) -> str:
        return f"Buffer({self.name}, {self.bytes} B)"


@dataclass(frozen=True)
class TensorView:
    """Elements of a buffer. Strides and offset count elements."""

    buffer: Buffer
    type: ElementType
    extents: tuple[Extent, ...]
    strides: tuple[int, ...]
    offset: int = 0
    offset_register: int = NO_REGISTER

    @property
    def is_contiguous(self) -> bool:
        return self.strides == row_major(self.extents)

    @property
    def is_whole(self) -> bool:
        """Does it name each element of its buffer once, in order?"""
        return (
            self.is_contiguous
            and self.offset == 0
            and self.offset_register == NO_REGISTER
            and all(extent.known for extent in self.extents)
            and count(self.extents) * self.type.bytes == self.buffer.bytes
        )


@dataclass(frozen=True)
class Splat:
    """A tensor whose elements all are one scalar, held in a register."""

    register: int
    type: ElementType
    extents: tuple[Extent, ...]


@dataclass(frozen=True)
class Undefined:
    """A tensor nobody has written: only its shape matters."""

    type: ElementType
    extents: tuple[Extent, ...]


Tensor = TensorView | Splat | Undefined


def count(extents: tuple[Extent, ...]) -> int:
    """Elements at most."""
    return math.prod(extent.upper for extent in extents)


def row_major(extents: tuple[Extent, ...]) -> tuple[int, ...]:
    """Strides without gaps. A dim of size 1 has stride 0, so that equal walks look equal."""
    strides = []
    stride = 1
    for extent in reversed(extents):
        strides.append(stride if extent.upper != 1 else 0)
        stride *= extent.upper
    return tuple(reversed(strides))


def new_tensor(type: ElementType, extents: tuple[Extent, ...], name: str) -> TensorView:
    buffer = Buffer(count(extents) * type.bytes, name)
    return TensorView(buffer, type, extents, row_major(extents))


def reshaped(tensor: TensorView, extents: tuple[Extent, ...]) -> TensorView:
    """The same elements under another shape; only for contiguous tensors."""
    return replace(tensor, extents=extents, strides=row_major(extents))


def as_view(tensor: TensorView, extents: tuple[Extent, ...]) -> TensorView | None:
    """The same elements, row by row, under another shape; None if no strides say so."""
    if not all(extent.known for extent in (*tensor.extents, *extents)):
        return None
    strides = _strides_under(
        [extent.upper for extent in tensor.extents],
        tensor.strides,
        [extent.upper for extent in extents],
    )
    return None if strides is None else replace(tensor, extents=extents, strides=strides)


def _strides_under(
    sizes: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Walks both shapes from the innermost dim; a run of dims that lie like one may be cut anew."""
    if 0 in sizes:
        return (0,) * len(wanted)
    runs = _runs(sizes, strides)
    length, step = next(runs, (1, 0))
    found = []
    for size in reversed(wanted):
        if size == 1:
            found.append(0)
            continue
        if length == 1:
            length, step = next(runs)
        if length % size:
            return None
        found.append(step)
        length, step = length // size, step * size
    return tuple(reversed(found))


def _runs(sizes: Sequence[int], strides: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Dims joined as far as one stride walks them all: (elements, stride), innermost first."""
    length, step = 1, 0
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1:
            continue
        if length == 1:
            length, step = size, stride
        elif stride == length * step:
            length *= size
        else:
            yield length, step
            length, step = size, stride
    if length > 1:
        yield length, step
