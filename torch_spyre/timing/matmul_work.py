"""Derives the work of a matmul from a program: its format, kind, shape and splits over cores.

The whole matmul is inferred from its counts. Every element of the left operand is multiplied with
each column of the result, every element of the right one with each row: multiply-accumulates per
element of an operand are the columns and the rows. Operands that several cores load at the same
time tell the splits: cores that share the right operand split the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch_spyre.backend.program.instructions import Matmul, Operand
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.timing.counts import InstructionCounts
from torch_spyre.timing.record import PtWork
from torch_spyre.timing.tile_flow import BufferContent, TileAccess, TileFlow

PtFormat = Literal["fp16", "fp8", "int8", "fp32"]
PtKind = Literal["matmul", "batched", "projection"]

# The format of the matrix unit for operands of a kind (float or not) and width.
_FORMATS: dict[tuple[bool, int], PtFormat] = {
    (True, 16): "fp16",
    (True, 8): "fp8",
    (False, 8): "int8",
}


@dataclass(frozen=True)
class _LoadedOperand:
    access: TileAccess
    # Elements that are loaded, each counted once, and the cores that load the same at a time.
    elements: int
    sharing: int
    # Matrices that alternate stick by stick in memory: the batch, in the default layout.
    inner_batch: int


def matmul_work(
    matmul: Matmul, index: int, flow: TileFlow, counts: Mapping[int, InstructionCounts]
) -> PtWork | None:
    """Return the work of a matmul instruction; None if it does none."""
    macs, busiest = counts[index]["macs"]
    if macs == 0:
        return None
    tiles = flow.operands[index]
    a = _loaded_operand(matmul.a, tiles[0], flow, counts)
    b = _loaded_operand(matmul.b, tiles[1], flow, counts)
    kind, batch = _kind(a, b, counts[index]["batch"])
    tile_rows, tile_columns = counts[index]["rows"], counts[index]["columns"]
    row_splits, column_splits = (1 if load is None else load.sharing for load in (b, a))
    rows = tile_rows if b is None else _per_core(macs, b, tile_rows)
    columns = tile_columns if a is None else _per_core(macs, a, tile_columns)
    return PtWork(
        macs=macs,
        busiest_core_macs=busiest,
        format=_FORMATS.get((matmul.a.type.is_float, matmul.a.type.bits), "fp32"),
        kind=kind,
        batch=batch,
        rows=rows,
        columns=columns,
        row_splits=row_splits,
        column_splits=column_splits,
        output_tiled=rows > tile_rows,
    )


def _per_core(macs: int, operand: _LoadedOperand, in_tile: int) -> int:
    """Return the rows or columns of a core, at least those of a tile."""
    return max(in_tile, macs // (operand.elements * operand.sharing))


def _loaded_operand(
    operand: Operand,
    tile: BufferContent | None,
    flow: TileFlow,
    counts: Mapping[int, InstructionCounts],
) -> _LoadedOperand | None:
    """Return the load of an operand, or None if it is computed or has several."""
    if tile is None or len(tile.tiles) != 1:
        return None
    access = flow.accesses[tile.tiles[0].load]
    load = counts.get(access.index)
    if load is None or access.lane_stride is None or load["unique_device_bytes"] == 0:
        return None
    return _LoadedOperand(
        access,
        load["unique_device_bytes"] // access.element_bytes,
        max(1, load["device_bytes"][0] // load["distinct_device_bytes"]),
        _inner_batch(operand, access),
    )


def _inner_batch(operand: Operand, access: TileAccess) -> int:
    """Return how many matrices alternate stick by stick in memory; 1 if each is contiguous."""
    dimensions = access.outer_dimensions
    if len(dimensions) < 2:
        return 1
    innermost, following = dimensions[0], dimensions[1]
    elements_in_stick = BYTES_IN_STICK // access.element_bytes
    stick_stride = operand.strides[2] * elements_in_stick
    if innermost.tile_stride in (operand.strides[1], stick_stride):
        return 1
    return max(1, abs(following.memory_stride or 1) // abs(innermost.memory_stride or 1))


def _kind(
    a: _LoadedOperand | None, b: _LoadedOperand | None, batch_of_tile: int
) -> tuple[PtKind, int]:
    """Return the kind whose rate upstream measured, and its batch.

    The lower rates were measured for tensors whose batch alternates stick by stick, the default
    layout. Matrices that follow each other in memory run at the rate of single ones.
    """
    if a is None and b is None:
        return ("batched", batch_of_tile) if batch_of_tile > 1 else ("matmul", 1)
    left, right = (1 if load is None else load.inner_batch for load in (a, b))
    if right > 1:
        return "batched", right
    return ("projection", left) if left > 1 else ("matmul", batch_of_tile)
