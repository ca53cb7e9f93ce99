"""Parts of tiles that cores send each other: what is cut out of one, and where it is put.

Axes that are cut or put together count as one axis, the first of them slowest. A part of it must be
a box of the tile. It always is where the axes are neighbours, for these really are one axis.
"""

import math
from dataclasses import dataclass, replace

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.values import Extent, TensorView, reshaped, row_major

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Sharing:
    """How a tile of one core becomes part of a result of another."""

    tile: TensorView
    result: TensorView
    split: Axes = ()
    concat: Axes = ()

    def joined(self, kernel: KernelContext) -> "Sharing":
        """The same with neighbouring axes as one; both tensors lie row by row without gaps."""
        if (self.split or self.concat) and not _are_known(self.tile, self.result):
            raise kernel.error("tiles that are cut or put together need sizes that are known")
        runs = {axes for axes in (self.split, self.concat) if len(axes) > 1}
        apart = self.split == self.concat or not set(self.split) & set(self.concat)
        if not apart or any(axes[-1] - axes[0] >= len(axes) for axes in runs):
            return self
        inner = {axis for axes in runs for axis in axes[1:]}
        groups: list[list[int]] = []
        for axis in range(len(self.tile.extents)):
            if axis in inner:
                groups[-1].append(axis)
            else:
                groups.append([axis])
        numbers = {axis: number for number, group in enumerate(groups) for axis in group}

        def of(tensor: TensorView) -> TensorView:
            sizes = [math.prod(tensor.extents[axis].upper for axis in group) for group in groups]
            known = [
                tensor.extents[group[0]] if len(group) == 1 else kernel.static_extent(size)
                for group, size in zip(groups, sizes, strict=True)
            ]
            return reshaped(tensor, tuple(known))

        def renumbered(axes: Axes) -> Axes:
            return tuple(dict.fromkeys(numbers[axis] for axis in axes))

        split, concat = renumbered(self.split), renumbered(self.concat)
        return Sharing(of(self.tile), of(self.result), split, concat)

    def share(self, kernel: KernelContext, parts: int, rank: int) -> TensorView:
        """Part number `rank`, a register, of the tile's split axes."""
        if not self.split or parts == 1:
            return self.tile
        length = _size(self.tile, self.split) // parts
        extents = _box(kernel, self.tile, self.split, length)
        first = kernel.integer("muli", rank, kernel.constant(length))
        return replace(
            self.tile,
            extents=extents,
            strides=row_major(self.tile.extents),
            offset_register=_offset(kernel, first, self.tile, self.split),
        )

    def target(
        self, kernel: KernelContext, share: TensorView, parts: int, position: int
    ) -> TensorView:
        """The place of part number `position` of the result's concatenated axes."""
        length = _size(self.result, self.concat) // parts
        if share.extents != _box(kernel, self.result, self.concat, length):
            raise kernel.error(
                f"parts of shape {_shape(share)} do not fill a result of {_shape(self.result)}"
            )
        first = kernel.constant(position * length)
        offset = kernel.registers.known(_offset(kernel, first, self.result, self.concat))
        assert offset is not None, "computed from numbers alone"
        strides = row_major(self.result.extents)
        return replace(self.result, extents=share.extents, strides=strides, offset=offset)


def _are_known(*tensors: TensorView) -> bool:
    return all(extent.known for tensor in tensors for extent in tensor.extents)


def _size(tensor: TensorView, axes: Axes) -> int:
    return math.prod(tensor.extents[axis].upper for axis in axes)


def _shape(tensor: TensorView) -> list[int]:
    return [extent.upper for extent in tensor.extents]


def _box(kernel: KernelContext, tensor: TensorView, axes: Axes, length: int) -> tuple[Extent, ...]:
    """The extents of so many elements in a row of the axes: whole inner axes, a piece of one."""
    extents = list(tensor.extents)
    left = length
    for axis in reversed(axes):
        size = tensor.extents[axis].upper
        piece = min(left, size)
        if piece and (left % piece or size % piece):
            raise kernel.error(
                f"{length} elements in a row of axes {list(axes)} are no box of {_shape(tensor)}"
            )
        extents[axis] = kernel.static_extent(piece)
        left //= max(piece, 1)
    return tuple(extents)


def _offset(kernel: KernelContext, position: int, tensor: TensorView, axes: Axes) -> int:
    """A register: where the element is that has this position in the axes taken as one."""
    strides = row_major(tensor.extents)
    offset = kernel.constant(0)
    for axis in reversed(axes):
        coordinate = position
        if axis != axes[0]:
            size = kernel.constant(tensor.extents[axis].upper)
            coordinate = kernel.integer("remui", position, size)
            position = kernel.integer("divui", position, size)
        moved = kernel.integer("muli", coordinate, kernel.constant(strides[axis]))
        offset = kernel.integer("addi", offset, moved)
    return offset
