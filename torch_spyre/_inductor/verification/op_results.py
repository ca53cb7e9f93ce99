"""Bounds of the results of ops on the card, rounded to the formats that its programs use."""

from collections.abc import Sequence

import torch

from torch_spyre._inductor.op_table import Kind, OpRecord
from torch_spyre._inductor.verification import reductions
from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.enclosures import enclose
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre._inductor.verification.value_formats import (
    ValueFormat,
    converted,
    float32_format,
    rounded,
    to_bool,
)


def elementwise(
    record: OpRecord,
    operands: Sequence[Bounds],
    constants: Sequence[float],
    source: ValueFormat,
    target: ValueFormat,
) -> Bounds:
    """Return the result of an op that computes in the source format, in the target format."""
    if record.kind in (Kind.DATA_MOVEMENT, Kind.CONVERSION):
        return converted(operands[0], source, target)
    if record.kind is Kind.LOGICAL:
        operands = [to_bool(operand) for operand in operands]
    if record.kind is Kind.SELECTION:
        condition, *choices = operands
        operands = [to_bool(condition), *choices]
    result = enclose(record, operands, constants, source)
    if record.kind in (Kind.COMPARISON, Kind.LOGICAL):
        dtype = torch.float64 if target.is_float else torch.int64
        return result.monotone(lambda values: values.to(dtype))
    return converted(rounded(result, source, _ulps(record, source)), source, target)


def matmul(
    left: Bounds,
    right: Bounds,
    dims: Sequence[int],
    grid: Grid,
    cores: int,
    target: ValueFormat,
) -> Bounds:
    """Return the sum of products over dims of the grid, accumulated in float32 or as integers."""
    return multi_loop(reductions.matmul(left, right, dims, grid.shape, cores), target)


def multi_loop(result: Bounds, target: ValueFormat) -> Bounds:
    """Return the result of an op of several loops, which computes in float32 or in integers."""
    if not result.is_float:
        return rounded(result, target)
    return converted(rounded(result, float32_format()), float32_format(), target)


def reduction(
    record: OpRecord,
    operand: Bounds,
    constants: Sequence[float],
    dims: Sequence[int],
    grid: Grid,
    cores: int,
    source: ValueFormat,
    target: ValueFormat,
) -> Bounds:
    """Return the reduction of dims of the grid, of an operand in the source format."""
    shape = [size if dim in dims else 1 for dim, size in enumerate(grid.shape)]
    operand = operand.expand(torch.broadcast_shapes(operand.shape, shape))
    result = reductions.reduce(record, operand, dims, constants, cores)
    if record.kind is Kind.ARG_REDUCTION:
        return rounded(result, target)
    return converted(rounded(result, source, _ulps(record, source)), source, target)


def constant(value: float, format: ValueFormat, grid: Grid) -> Bounds:
    """Return a constant as programs hold it: 16-bit floats are truncated from float32."""
    if not format.is_float:
        lowest, highest = format.limits
        clamped = max(min(value, highest), lowest) if abs(value) == float("inf") else value
        return Bounds.exact(torch.full(grid.unit_shape, int(clamped)))
    single = torch.full(grid.unit_shape, float(value), dtype=torch.float64)
    single = single.to(torch.float32).to(torch.float64)
    return converted(Bounds.exact(single), float32_format(), format)


def _ulps(record: OpRecord, format: ValueFormat) -> float:
    exactness = record.exactness
    return exactness.single if format.bits == 32 else exactness.half
