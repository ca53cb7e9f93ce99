"""Verify ops against the affine sets, views and grid they refer to."""

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap, AffineSet
from xdsl.utils.exceptions import VerifyException

from torch_spyre.errors import SetError
from torch_spyre.ktir.affine import as_box, permutation_of
from torch_spyre.ktir.dialects.ktdp import (
    AccessTileType,
    ConstructAccessTileOp,
    ConstructDistributedMemoryViewOp,
    ConstructIndirectAccessTileOp,
    ConstructMemoryViewOp,
    GetComputeTileIdOp,
    LoadOp,
    StoreOp,
)
from torch_spyre.ktir.source import Source
from torch_spyre.ktir.verification.report import warn_at


def verify_shapes(
    operation: Operation, grid: tuple[int, int, int], source: Source | None, *, strict: bool
) -> None:
    """Verify one op; raise VerifyException or emit a KtirWarning."""
    problem = None
    match operation:
        case GetComputeTileIdOp():
            problem = _unread_coordinates(operation, grid)
        case ConstructAccessTileOp():
            problem = _extent_mismatch(
                operation.access_tile_set.data,
                operation.access_tile_order.data,
                operation.result.type,
            )
        case ConstructIndirectAccessTileOp():
            problem = _extent_mismatch(
                operation.variables_space_set.data,
                operation.variables_space_order.data,
                operation.result.type,
            )
        case ConstructDistributedMemoryViewOp():
            _verify_partitions(operation)
        case LoadOp() if strict:
            _verify_same_shape(operation.tile, operation.result)
        case StoreOp() if strict:
            _verify_same_shape(operation.tile, operation.value)
    if problem is not None:
        warn_at(operation, problem, source)


def _unread_coordinates(operation: GetComputeTileIdOp, grid: tuple[int, int, int]) -> str | None:
    """Return a warning if cores of the grid get identical ids, otherwise None."""
    unread_sizes = [size for size in grid[len(operation.ids) :] if size > 1]
    if not unread_sizes:
        return None
    return (
        f"{len(operation.ids)} of the coordinates on a grid of {list(grid)}; cores that differ "
        "only in the remaining ones get the same ids"
    )


def _extent_mismatch(
    tile_set: AffineSet, order: AffineMap, tile_type: AccessTileType
) -> str | None:
    """Return a warning if the extents of the set, in order, differ from those of the tile."""
    permutation = permutation_of(order)
    if tile_set.num_symbols or permutation is None:
        return None
    try:
        box = as_box(tile_set)
    except SetError as error:
        return str(error)
    if box is None:
        return None
    extents = tuple(box[dim].size for dim in permutation)
    declared = tile_type.get_shape()
    if DYNAMIC_INDEX in declared or extents == declared:
        return None
    return f"the set spans {list(extents)}, the tile is declared {list(declared)}"


def _verify_same_shape(tile: SSAValue, tensor: SSAValue) -> None:
    assert isinstance(tile.type, AccessTileType)
    assert isinstance(tensor.type, TensorType)
    if tile.type.get_shape() != tensor.type.get_shape():
        raise VerifyException(
            f"tensor shape {list(tensor.type.get_shape())} differs from tile shape "
            f"{list(tile.type.get_shape())}"
        )


def _verify_partitions(operation: ConstructDistributedMemoryViewOp) -> None:
    """Verify that the declared sizes are the ends of the last box partition."""
    sets = [
        view.owner.coordinate_set.data
        for view in operation.views
        if isinstance(view.owner, ConstructMemoryViewOp)
    ]
    assert isinstance(operation.result.type, MemRefType)
    declared = operation.result.type.get_shape()
    # Whether a set is a box does not depend on the values of its symbols.
    boxes = [as_box(partition, [8] * partition.num_symbols) for partition in sets]
    if None in boxes and DYNAMIC_INDEX in declared:
        raise VerifyException("a dim `?` needs partitions whose sets are boxes")
    if any(partition.num_symbols for partition in sets) or len(sets) != len(operation.views):
        return
    static = [box for box in boxes if box is not None]
    if not static:
        return
    for dim, size in enumerate(declared):
        end = max(box[dim].high for box in static) + 1
        if size not in (DYNAMIC_INDEX, end):
            raise VerifyException(f"dim {dim} is declared {size}, and the partitions end at {end}")
