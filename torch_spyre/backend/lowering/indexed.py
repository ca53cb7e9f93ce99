"""Lowers `spyreop.gather` and `spyreop.scatter`, which work in place on a copy of `into`."""

from dataclasses import replace

from xdsl.ir import SSAValue

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.nodes import IndexedTile
from torch_spyre.backend.lowering.values import Splat, TensorView
from torch_spyre.backend.program.vector_instructions import VECTOR_INSTRUCTIONS
from torch_spyre.ktir.dialects.indexed import GatherOp, ScatterOp

_REDUCTIONS = {entry.mnemonic for entry in VECTOR_INSTRUCTIONS if entry.reduction is not None}


def lower_gather(kernel: KernelContext, operation: GatherOp) -> None:
    table = _operand(kernel, operation.table)
    result = _copy_of(kernel, operation.into, operation.result)
    _add(kernel, operation, tile=result, table=table, scatter=False, combine="")
    kernel.tensors[operation.result] = result


def lower_scatter(kernel: KernelContext, operation: ScatterOp) -> None:
    combine = "" if operation.combine is None else operation.combine.data
    if combine and combine not in _REDUCTIONS:
        raise kernel.error(f"the card cannot combine elements with {combine!r}")
    values = _operand(kernel, operation.values)
    result = _copy_of(kernel, operation.into, operation.result)
    _add(kernel, operation, tile=values, table=result, scatter=True, combine=combine)
    kernel.tensors[operation.result] = result


def _operand(kernel: KernelContext, value: SSAValue) -> TensorView:
    """Return an operand in a buffer, which has one element if all are equal."""
    tensor = kernel.tensor(value)
    if not isinstance(tensor, Splat):
        return kernel.to_buffer(tensor, value)
    one = replace(tensor, extents=(kernel.static_extent(1),))
    element = kernel.to_buffer(one, value)
    strides = (0,) * len(tensor.extents)
    return replace(element, extents=tensor.extents, strides=strides)


def _copy_of(kernel: KernelContext, value: SSAValue, result: SSAValue) -> TensorView:
    """Return a new tensor with the elements of a value."""
    initial = kernel.tensor(value)
    copy = kernel.allocate(initial.type, initial.extents, result)
    kernel.write(initial, copy)
    return copy


def _add(
    kernel: KernelContext,
    operation: GatherOp | ScatterOp,
    *,
    tile: TensorView,
    table: TensorView,
    scatter: bool,
    combine: str,
) -> None:
    dim = operation.dim.value.data
    index = _operand(kernel, operation.index)
    moved = tuple(0 if d == dim else stride for d, stride in enumerate(table.strides))
    origin = [kernel.scalar(value) for value in operation.origin]
    kernel.add(
        IndexedTile(
            kernel.location,
            scatter,
            combine,
            tile.extents,
            index,
            tile,
            replace(table, strides=moved),
            table.strides[dim],
            kernel.scalar(operation.first),
            table.extents[dim],
            kernel.constant(operation.size.value.data),
            tuple(origin or [kernel.constant(0)] * len(tile.extents)),
        )
    )
