"""Derives the loops over tiles of a program: the tile that a core transfers in each iteration."""

from collections.abc import Mapping
from math import prod

from torch_spyre.backend.program.instructions import Matmul, ProgramContent
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.timing.counts import InstructionCounts
from torch_spyre.timing.record import TileLoop
from torch_spyre.timing.tile_flow import TileAccess, TileFlow


def tile_loops(
    content: ProgramContent, flow: TileFlow, counts: Mapping[int, InstructionCounts]
) -> dict[int, TileLoop]:
    """Return the tile of the transfer that moves most bytes, if a loop executes it repeatedly.

    Upstream measured small tiles for elementwise ops and reductions: a program with matmuls has no
    entry.
    """
    if any(isinstance(instruction, Matmul) for instruction in content.code):
        return {}
    candidates = [
        access
        for access in flow.accesses.values()
        if access.index in counts and access.lane_stride is not None
    ]
    if not candidates:
        return {}
    largest = max(candidates, key=lambda access: counts[access.index]["device_bytes"][0])
    tile = _tile_shape(largest)
    if tile is None or counts[largest.index]["executions"][1] < 2:
        return {}
    return {largest.index: tile}


def _tile_shape(access: TileAccess) -> TileLoop | None:
    """Return rows and columns; None if they are not constants.

    Columns are those of contiguous rows, or the lanes and the sticks of a row: the second innermost
    dimension in memory, or the innermost if there is no other.
    """
    extents = [dimension.extent for dimension in access.dimensions]
    if None in extents or 0 in extents:
        return None
    outer = access.outer_dimensions
    lanes = prod(dimension.extent or 0 for dimension in access.dimensions if dimension.is_lane)
    is_contiguous = lanes * access.element_bytes > BYTES_IN_STICK
    sticks = None if is_contiguous or not outer else outer[min(1, len(outer) - 1)]
    rows = columns = 1
    for dimension in access.dimensions:
        if dimension.is_lane or dimension is sticks:
            columns *= dimension.extent or 0
        else:
            rows *= dimension.extent or 0
    return TileLoop(rows=rows, columns=columns, element_bytes=access.element_bytes)
