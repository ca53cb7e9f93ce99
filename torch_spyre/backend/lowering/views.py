"""Lowers memory views and access tiles, which describe memory and add no nodes."""

import math
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from torch_spyre.backend.lowering.boxes import (
    Box,
    box_of,
    boxes_of_points,
    ordered_points,
    origin_of,
    points_of,
)
from torch_spyre.backend.lowering.context import MAX_ADDRESS, KernelContext
from torch_spyre.backend.lowering.values import Extent, row_major
from torch_spyre.backend.program.instructions import (
    NO_REGISTER,
    FixedBuffer,
    Space,
    View,
)
from torch_spyre.ktir.affine import permutation_of
from torch_spyre.ktir.dialects.ktdp.attributes import (
    MemorySpaceAttr,
    SpyreMemorySpaceAttr,
    Visibility,
)
from torch_spyre.ktir.dialects.ktdp.tiles import ConstructAccessTileOp
from torch_spyre.ktir.dialects.ktdp.views import (
    ConstructDistributedMemoryViewOp,
    ConstructMemoryViewOp,
)


@dataclass(frozen=True)
class DirectTile:
    """A tile of views; `extents` and `anchor` are per dim of the view, iterated in `order`."""

    views: tuple[View, ...]
    anchor: tuple[int, ...]
    extents: tuple[Extent, ...]
    order: tuple[int, ...]
    points: tuple[int, ...] = ()

    @property
    def ordered_extents(self) -> tuple[Extent, ...]:
        """Return the extents in the order of iteration: the shape of the loaded tensor."""
        return tuple(self.extents[dim] for dim in self.order)

    def strides(self) -> tuple[int, ...]:
        """Return the stride of each dim of the view in a contiguous loaded tensor."""
        by_dim = dict(zip(self.order, row_major(self.ordered_extents), strict=True))
        return tuple(by_dim[dim] for dim in range(len(self.extents)))


@dataclass(frozen=True)
class TensorTile:
    """A tile of a tensor in the scratchpad."""

    tensor: SSAValue
    tile: DirectTile


def lower_view(kernel: KernelContext, operation: ConstructMemoryViewOp) -> None:
    element = kernel.element_type(operation.result.type.element_type)
    base = kernel.scalar(operation.offset)
    sizes = tuple(kernel.mixed_values(operation.static_sizes.get_values(), operation.sizes))
    strides = tuple(kernel.mixed_values(operation.static_strides.get_values(), operation.strides))
    space, core = _space(kernel, operation.memory_space)
    view = View(space, element, core, base, strides, (), sizes)
    kernel.views[operation.result] = (view,)
    end = _end_of_view(kernel, view)
    if end is not None:
        kernel.view_ends[operation.result] = end
    if space is Space.GLOBAL and kernel.registers.constant_value(base) is not None:
        _add_fixed_buffer(kernel, operation, view)


def _end_of_view(kernel: KernelContext, view: View) -> int | None:
    """Return a bound of the elements from the start of the array to the end of a view."""
    bounds = [
        kernel.registers.bounds(register) for register in (view.base, *view.extents, *view.strides)
    ]
    upper = [bound[1] for bound in bounds if bound is not None]
    if len(upper) < len(bounds):
        return None
    base, limits = upper[0] - MAX_ADDRESS, upper[1:]
    sizes, strides = limits[: len(view.extents)], limits[len(view.extents) :]
    if 0 in sizes:
        return 0
    return base + 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))


def _space(
    kernel: KernelContext, memory_space: MemorySpaceAttr | SpyreMemorySpaceAttr
) -> tuple[Space, int]:
    """Return the memory of a view, and the register with its core if it names one."""
    if isinstance(memory_space, SpyreMemorySpaceAttr):
        canonical = memory_space.canonical()
        if not isinstance(canonical, MemorySpaceAttr):
            raise kernel.error(f"programs cannot address {memory_space}; use global memory or LX")
        memory_space = canonical
    if memory_space.visibility is Visibility.GLOBAL:
        return Space.GLOBAL, NO_REGISTER
    core = memory_space.ct_id
    if core is None:
        return Space.SCRATCHPAD, NO_REGISTER
    if core >= kernel.cores:
        raise kernel.error(f"core {core} of a grid of {kernel.cores} cores does not exist")
    return Space.SCRATCHPAD, kernel.constant(core)


def _add_fixed_buffer(kernel: KernelContext, operation: ConstructMemoryViewOp, view: View) -> None:
    """Add a fixed buffer for a view at a constant address."""
    sizes = [kernel.registers.constant_value(register) for register in view.extents]
    strides = [kernel.registers.constant_value(register) for register in view.strides]
    base = kernel.registers.constant_value(view.base)
    if base is None or None in sizes or None in strides:
        raise kernel.error("a view at a fixed address needs static sizes and strides")
    known_sizes = [size for size in sizes if size is not None]
    known_strides = [stride for stride in strides if stride is not None]
    if base < 0 or min(known_strides, default=0) < 0:
        raise kernel.error(
            f"a view at element {base} with strides {known_strides}: neither may be negative"
        )
    extent = 1 + sum(
        (size - 1) * stride for size, stride in zip(known_sizes, known_strides, strict=True)
    )
    if math.prod(known_sizes) == 0:
        return
    if base + extent > MAX_ADDRESS:
        raise kernel.error(
            f"a view at element {base} ends at element {base + extent}; the largest address is "
            f"{MAX_ADDRESS}"
        )
    name = operation.result.name_hint or f"view{len(kernel.fixed_buffers)}"
    kernel.fixed_buffers.append(
        FixedBuffer(
            name,
            base * view.type.bytes,
            extent * view.type.bytes,
            view.type,
            tuple(known_sizes),
        )
    )


def lower_distributed_view(
    kernel: KernelContext, operation: ConstructDistributedMemoryViewOp
) -> None:
    """Lower each partition to one view, or to several boxes of one."""
    partitions: list[View] = []
    for value in operation.views:
        owner = value.owner
        if not isinstance(owner, ConstructMemoryViewOp):
            raise kernel.error("partitions must come from ktdp.construct_memory_view")
        (view,) = kernel.views[value]
        symbols = [kernel.scalar(operand) for operand in owner.symbol_operands()]
        coordinates = owner.coordinate_set.data
        box = box_of(kernel, coordinates, symbols)
        if box is not None:
            partitions.append(replace(view, lower=box.lower, extents=box.sizes))
            continue
        origin = origin_of(kernel, coordinates, symbols)
        if origin is None:
            continue
        for lower, sizes in boxes_of_points(points_of(kernel, coordinates, symbols)):
            partitions.append(_box_of_view(kernel, view, origin, lower, sizes))
    kernel.views[operation.result] = tuple(partitions)


def _box_of_view(
    kernel: KernelContext,
    view: View,
    origin: tuple[int, ...],
    lower: tuple[int, ...],
    sizes: tuple[int, ...],
) -> View:
    """Return the view of a box of a partition, addressed with the partition's strides."""
    base = view.base
    for start, first, stride in zip(lower, origin, view.strides, strict=True):
        distance = kernel.compute_index("muli", kernel.constant(start - first), stride)
        base = kernel.compute_index("addi", base, distance)
    return replace(
        view,
        base=base,
        lower=tuple(kernel.constant(value) for value in lower),
        extents=tuple(kernel.constant(value) for value in sizes),
    )


def lower_access_tile(kernel: KernelContext, operation: ConstructAccessTileOp) -> None:
    indices = [kernel.scalar(value) for value in operation.indices]
    anchor = [kernel.compute_affine(expr, indices) for expr in operation.base_map.data.results]
    order = permutation_of(operation.access_tile_order.data)
    if order is None:
        raise kernel.error("access_tile_order must be a permutation of the tile's dims")
    symbols = [kernel.scalar(value) for value in operation.symbols]
    tile_set = operation.access_tile_set.data
    views = () if not isinstance(operation.base.type, MemRefType) else _views(kernel, operation)
    box = box_of(kernel, tile_set, symbols)
    if box is not None:
        tile = _box_tile(kernel, views, anchor, box, order)
    else:
        points = ordered_points(kernel, tile_set, symbols, order)
        length = kernel.static_extent(len(points))
        coordinates = tuple(int(value) for value in points.ravel())
        tile = DirectTile(views, tuple(anchor), (length,), (0,), coordinates)
    if isinstance(operation.base.type, MemRefType):
        kernel.tiles[operation.result] = tile
    else:
        kernel.tiles[operation.result] = TensorTile(operation.base, tile)


def _views(kernel: KernelContext, operation: ConstructAccessTileOp) -> tuple[View, ...]:
    if operation.base not in kernel.views:
        raise kernel.error("the base must be a memory view constructed in this function")
    return kernel.views[operation.base]


def _box_tile(
    kernel: KernelContext,
    views: tuple[View, ...],
    anchor: list[int],
    box: Box,
    order: tuple[int, ...],
) -> DirectTile:
    corner = tuple(
        kernel.compute_index("addi", start, lower)
        for start, lower in zip(anchor, box.lower, strict=True)
    )
    extents = tuple(kernel.extent(size) for size in box.sizes)
    return DirectTile(views, corner, extents, order)
