"""Determines from a KTIR function which arguments are arrays, which it writes, and their sizes."""

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from torch_spyre.backend.lowering.arguments import array_argument, views_on
from torch_spyre.backend.program.instructions import Argument
from torch_spyre.ktir.dialects.ktdp.indirect_tiles import ConstructIndirectAccessTileOp
from torch_spyre.ktir.dialects.ktdp.tiles import ConstructAccessTileOp
from torch_spyre.ktir.dialects.ktdp.transfers import StoreOp
from torch_spyre.ktir.dialects.ktdp.views import (
    ConstructDistributedMemoryViewOp,
    ConstructMemoryViewOp,
)


def array_arguments(function: FuncOp, names: Sequence[str]) -> dict[str, Argument]:
    """Return the array arguments by name, with the element type and shape of their views."""
    views = {name: views_on(value, False) for name, value in zip(names, function.args, strict=True)}
    values = dict(zip(names, function.args, strict=True))
    return {name: array_argument(name, values[name], views[name]) for name in names if views[name]}


def is_written(value: SSAValue) -> bool:
    """Return whether the kernel stores to an array argument."""
    return any(
        isinstance(use.operation, StoreOp)
        for view in views_on(value, True)
        for tile in _tiles_of(view.result)
        for use in tile.uses
    )


def _tiles_of(view: SSAValue) -> Iterator[SSAValue]:
    """Yield the tiles of a view, also those of distributed views that it is a partition of."""
    for use in view.uses:
        operation = use.operation
        if isinstance(operation, ConstructDistributedMemoryViewOp):
            yield from _tiles_of(operation.result)
        elif _is_tile_of(operation, view):
            yield operation.results[0]


def _is_tile_of(operation: Operation, view: SSAValue) -> bool:
    return (
        isinstance(operation, ConstructAccessTileOp | ConstructIndirectAccessTileOp)
        and operation.base is view
    )


def end_of_view(view: ConstructMemoryViewOp) -> int | None:
    """Return one more than the last element of a view; None if that is not static."""
    sizes = list(view.static_sizes.get_values())
    strides = list(view.static_strides.get_values())
    if DYNAMIC_INDEX in (*sizes, *strides) or min(strides, default=0) < 0:
        return None
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def index_limit(function: FuncOp, value: SSAValue) -> int | None:
    """Return the size of the smallest dim that an array's elements index; None if none is known.

    Random indices below it are valid in every gather and scatter of the kernel.
    """
    views = {view.result for view in views_on(value, True)}
    limits = []
    for operation in function.walk():
        if not isinstance(operation, ConstructIndirectAccessTileOp):
            continue
        indexed = [dim for dim, is_indirect in enumerate(operation.kinds) if is_indirect]
        assert isinstance(operation.base.type, MemRefType)
        shape = operation.base.type.get_shape()
        for dim, view in zip(indexed, operation.index_views, strict=True):
            if view in views and shape[dim] != DYNAMIC_INDEX:
                limits.append(shape[dim])
    return min(limits, default=None)
