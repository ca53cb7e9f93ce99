"""Slices of tiles that cores send to each other, and their destinations in the results.

Several split or concatenated axes are treated as one merged axis in row-major order. A slice of it
must be a box of the tile; for adjacent axes it always is.
"""

import math
from dataclasses import dataclass, replace

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.values import Extent, TensorView, reshaped, row_major

Axes = tuple[int, ...]


@dataclass(frozen=True)
class TileExchange:
    """A tile of one core, the result of another, and the axes that are split and concatenated."""

    tile: TensorView
    result: TensorView
    split: Axes = ()
    concat: Axes = ()

    def with_merged_axes(self, kernel: KernelContext) -> "TileExchange":
        """Return the same exchange with adjacent axes as one; both tensors are contiguous."""
        if (self.split or self.concat) and not _have_static_sizes(self.tile, self.result):
            raise kernel.error("tiles that are split or concatenated need static sizes")
        multi_axes = {axes for axes in (self.split, self.concat) if len(axes) > 1}
        are_compatible = self.split == self.concat or not set(self.split) & set(self.concat)
        if not are_compatible or any(axes[-1] - axes[0] >= len(axes) for axes in multi_axes):
            return self
        merged_into_previous = {axis for axes in multi_axes for axis in axes[1:]}
        groups: list[list[int]] = []
        for axis in range(len(self.tile.extents)):
            if axis in merged_into_previous:
                groups[-1].append(axis)
            else:
                groups.append([axis])
        new_axis = {axis: index for index, group in enumerate(groups) for axis in group}

        def merged(tensor: TensorView) -> TensorView:
            sizes = [math.prod(tensor.extents[axis].upper for axis in group) for group in groups]
            extents = [
                tensor.extents[group[0]] if len(group) == 1 else kernel.static_extent(size)
                for group, size in zip(groups, sizes, strict=True)
            ]
            return reshaped(tensor, tuple(extents))

        def renumbered(axes: Axes) -> Axes:
            return tuple(dict.fromkeys(new_axis[axis] for axis in axes))

        split, concat = renumbered(self.split), renumbered(self.concat)
        return TileExchange(merged(self.tile), merged(self.result), split, concat)

    def slice(self, kernel: KernelContext, num_slices: int, rank: int) -> TensorView:
        """Return a slice of the tile's split axes; the register `rank` holds its index."""
        if not self.split or num_slices == 1:
            return self.tile
        length = _size(self.tile, self.split) // num_slices
        extents = _box(kernel, self.tile, self.split, length)
        first = kernel.compute_index("muli", rank, kernel.constant(length))
        return replace(
            self.tile,
            extents=extents,
            strides=row_major(self.tile.extents),
            offset_register=_offset(kernel, first, self.tile, self.split),
        )

    def destination(
        self, kernel: KernelContext, tile_slice: TensorView, num_slices: int, index: int
    ) -> TensorView:
        """Return the view of slice `index` of the result's concatenated axes."""
        length = _size(self.result, self.concat) // num_slices
        if tile_slice.extents != _box(kernel, self.result, self.concat, length):
            raise kernel.error(
                f"slices of shape {_shape(tile_slice)} do not fill a result of shape "
                f"{_shape(self.result)}"
            )
        first = kernel.constant(index * length)
        offset = kernel.registers.constant_value(_offset(kernel, first, self.result, self.concat))
        assert offset is not None, "the offset is computed from constants"
        strides = row_major(self.result.extents)
        return replace(self.result, extents=tile_slice.extents, strides=strides, offset=offset)


def _have_static_sizes(*tensors: TensorView) -> bool:
    return all(extent.is_static for tensor in tensors for extent in tensor.extents)


def _size(tensor: TensorView, axes: Axes) -> int:
    return math.prod(tensor.extents[axis].upper for axis in axes)


def _shape(tensor: TensorView) -> list[int]:
    return [extent.upper for extent in tensor.extents]


def _box(kernel: KernelContext, tensor: TensorView, axes: Axes, length: int) -> tuple[Extent, ...]:
    """Return the extents of a box of `length` consecutive elements of the merged axes."""
    extents = list(tensor.extents)
    remaining = length
    for axis in reversed(axes):
        size = tensor.extents[axis].upper
        extent = min(remaining, size)
        if extent and (remaining % extent or size % extent):
            raise kernel.error(
                f"{length} consecutive elements of axes {list(axes)} are not a box of a tile of "
                f"shape {_shape(tensor)}"
            )
        extents[axis] = kernel.static_extent(extent)
        remaining //= max(extent, 1)
    return tuple(extents)


def _offset(kernel: KernelContext, position: int, tensor: TensorView, axes: Axes) -> int:
    """Return a register with the offset of the element at a position in the merged axes."""
    strides = row_major(tensor.extents)
    offset = kernel.constant(0)
    for axis in reversed(axes):
        coordinate = position
        if axis != axes[0]:
            size = kernel.constant(tensor.extents[axis].upper)
            coordinate = kernel.compute_index("remui", position, size)
            position = kernel.compute_index("divui", position, size)
        distance = kernel.compute_index("muli", coordinate, kernel.constant(strides[axis]))
        offset = kernel.compute_index("addi", offset, distance)
    return offset
