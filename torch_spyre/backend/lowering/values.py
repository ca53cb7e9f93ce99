"""The lowered forms of SSA values: registers, and tensors in buffers without an address."""

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
    """A size in a register; `upper` is its value if it is static, else an upper bound."""

    register: int
    upper: int
    is_static: bool


@dataclass(eq=False)
class Buffer:
    """A range of the scratchpad; `name` is the value or op that it holds, for messages."""

    bytes: int
    name: str
    id: int = field(default_factory=lambda: next(_ids))

    def __repr__(self) -> str:
        return f"Buffer({self.name}, {self.bytes} B)"


@dataclass(frozen=True)
class TensorView:
    """A strided view of a buffer; strides and offset are in elements."""

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
        """Return whether the view is all of its buffer, in row-major order."""
        return (
            self.is_contiguous
            and self.offset == 0
            and self.offset_register == NO_REGISTER
            and all(extent.is_static for extent in self.extents)
            and max_elements(self.extents) * self.type.bytes == self.buffer.bytes
        )


@dataclass(frozen=True)
class Splat:
    """A tensor whose elements are all the scalar in a register."""

    register: int
    type: ElementType
    extents: tuple[Extent, ...]


@dataclass(frozen=True)
class Undefined:
    """A tensor with undefined elements: only its shape matters."""

    type: ElementType
    extents: tuple[Extent, ...]


Tensor = TensorView | Splat | Undefined


def max_elements(extents: tuple[Extent, ...]) -> int:
    """Return the upper bound of the number of elements."""
    return math.prod(extent.upper for extent in extents)


def row_major(extents: tuple[Extent, ...]) -> tuple[int, ...]:
    """Return contiguous strides: 0 in dims of size 1, so that equal views compare equal."""
    strides = []
    stride = 1
    for extent in reversed(extents):
        strides.append(stride if extent.upper != 1 else 0)
        stride *= extent.upper
    return tuple(reversed(strides))


def new_tensor(type: ElementType, extents: tuple[Extent, ...], name: str) -> TensorView:
    """Return a contiguous tensor in a new buffer."""
    buffer = Buffer(max_elements(extents) * type.bytes, name)
    return TensorView(buffer, type, extents, row_major(extents))


def reshaped(tensor: TensorView, extents: tuple[Extent, ...]) -> TensorView:
    """Return a contiguous tensor with another shape."""
    return replace(tensor, extents=extents, strides=row_major(extents))


def as_view(tensor: TensorView, extents: tuple[Extent, ...]) -> TensorView | None:
    """Return the elements in row-major order with another shape; None if that needs a copy."""
    if not all(extent.is_static for extent in (*tensor.extents, *extents)):
        return None
    strides = _reshaped_strides(
        [extent.upper for extent in tensor.extents],
        tensor.strides,
        [extent.upper for extent in extents],
    )
    return None if strides is None else replace(tensor, extents=extents, strides=strides)


def dynamic_reshape(
    tensor: TensorView, extents: tuple[Extent, ...], groups: Sequence[Sequence[int]]
) -> TensorView | None:
    """Return a view with dims split or merged, some of them known at run time; None if none exists.

    `groups` are the dims of the higher rank that become, or come from, each dim of the lower one.
    In a group with a dim known at run time, that dim is the outermost one.
    """
    merges = len(tensor.extents) > len(extents)
    strides: list[int] = []
    for position, group in enumerate(groups):
        fine = [(tensor.extents if merges else extents)[dim] for dim in group]
        first = next((dim for dim, extent in enumerate(fine) if extent.upper != 1), len(fine))
        if not all(extent.is_static for extent in fine[first + 1 :]):
            return None
        # Elements of the coarse dim from one index of each fine dim to the next.
        steps = [math.prod(extent.upper for extent in fine[dim + 1 :]) for dim in range(len(fine))]
        if not merges:
            stride = tensor.strides[position]
            strides.extend(
                0 if extent.upper == 1 else stride * step
                for extent, step in zip(fine, steps, strict=True)
            )
            continue
        known = [
            (tensor.strides[dim], step)
            for dim, extent, step in zip(group, fine, steps, strict=True)
            if extent.upper != 1
        ]
        stride = known[-1][0] if known else 0
        if any(fine_stride != stride * step for fine_stride, step in known):
            return None
        strides.append(stride)
    return replace(tensor, extents=extents, strides=tuple(strides))


def _reshaped_strides(
    sizes: Sequence[int], strides: Sequence[int], target_sizes: Sequence[int]
) -> tuple[int, ...] | None:
    """Return strides that preserve row-major order with other sizes; None if there are none."""
    if 0 in sizes:
        return (0,) * len(target_sizes)
    runs = _runs(sizes, strides)
    length, step = next(runs, (1, 0))
    target_strides = []
    for size in reversed(target_sizes):
        if size == 1:
            target_strides.append(0)
            continue
        if length == 1:
            length, step = next(runs)
        if length % size:
            return None
        target_strides.append(step)
        length, step = length // size, step * size
    return tuple(reversed(target_strides))


def _runs(sizes: Sequence[int], strides: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield maximal runs of dims that have one stride, as (elements, stride), innermost first."""
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
