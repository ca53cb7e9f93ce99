"""Lowers sorts to the two loops of the multi-loop op in `multi_loop/sort`.

The first loop computes the sorted elements, the second their indices. Both become one program.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V, ops

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.memory import memory_loader, realized_copy
from torch_spyre._inductor.lowerings.multi_loop import multi_loop_reduction
from torch_spyre._inductor.lowerings.registry import register_lowering
from torch_spyre._inductor.op_table.sort import INDICES, VALUES
from torch_spyre._inductor.work_division.sort_blocks import MAX_BLOCK
from torch_spyre.ops.sort import OVERLOAD


@register_lowering(OVERLOAD)
def _sort(
    x: ir.TensorBox,
    indices: ir.TensorBox | None,
    kept: int,
    descending: bool,
    runs: int = 1,
) -> tuple[ir.TensorBox, ir.TensorBox]:
    outer, length, inner = x.get_size()
    if concrete(length) > MAX_BLOCK and kept == concrete(length):
        # Blocks of a view can be no blocks of its memory.
        x = realized_copy(x)
    loads = [memory_loader(tensor) for tensor in (x, indices) if tensor is not None]

    def operands(index: Sequence[Any], sorted_index: Sequence[Any]) -> tuple[Any, ...]:
        """Return an element and perhaps its index, then constants."""
        point = [index[0], *sorted_index, index[2]]
        constants = (
            ops.constant(descending, torch.bool),
            ops.constant(runs, torch.int32),
        )
        return (*(load(point) for load in loads), *constants)

    values, order = (
        multi_loop_reduction(kind, operands, [outer, kept, inner], [length], x, result)
        for kind, result in zip((VALUES, INDICES), V.graph.current_node.meta["val"], strict=True)
    )
    return values, order
