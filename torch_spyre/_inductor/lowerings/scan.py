"""Lowers scans to the loop of the multi-loop op in `multi_loop/scan`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V

from torch_spyre._inductor.lowerings.memory import memory_loader
from torch_spyre._inductor.lowerings.multi_loop import multi_loop_reduction
from torch_spyre._inductor.lowerings.registry import register_lowering
from torch_spyre._inductor.op_table.scan import SCANS
from torch_spyre.ops.scan import OVERLOAD


@register_lowering(OVERLOAD)
def _scan(x: ir.TensorBox, combine: str, dtype: torch.dtype) -> ir.TensorBox:
    load, size = memory_loader(x), x.get_size()

    def operands(index: Sequence[Any], scanned: Sequence[Any]) -> tuple[Any, ...]:
        outer, _, inner = index
        return (load([outer, *scanned, inner]),)

    result = V.graph.current_node.meta["val"]
    return multi_loop_reduction(SCANS[combine], operands, size, [size[1]], x, result)
