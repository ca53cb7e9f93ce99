"""Lowers `spyreop.sort` to the instruction that sorts rows in the scratchpad."""

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.nodes import SortRows
from torch_spyre.ktir.dialects.spyreop import SortOp


def lower_sort(kernel: KernelContext, operation: SortOp) -> None:
    keys = kernel.to_buffer(kernel.tensor(operation.keys), operation.keys)
    indices = kernel.to_buffer(kernel.tensor(operation.indices), operation.indices)
    extents = kernel.extents_of(operation.sorted_keys.type)
    sorted_keys, sorted_indices = (
        kernel.allocate(type, extents, result)
        for type, result in (
            (keys.type, operation.sorted_keys),
            (indices.type, operation.sorted_indices),
        )
    )
    kernel.add(
        SortRows(
            kernel.location,
            keys.extents,
            kernel.constant(0) if operation.first is None else kernel.scalar(operation.first),
            extents[-1],
            operation.runs.value.data,
            operation.descending is not None,
            keys,
            indices,
            sorted_keys,
            sorted_indices,
        )
    )
    kernel.tensors[operation.sorted_keys] = sorted_keys
    kernel.tensors[operation.sorted_indices] = sorted_indices
