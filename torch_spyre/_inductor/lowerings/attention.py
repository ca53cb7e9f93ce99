"""Lowers attention to two loops of the multi-loop op in `multi_loop/attention`.

The first loop iterates over batch, head, query row and channel of the value, and reduces keys and
channels of the queries. The second computes the logsumexp of each row, which the gradients need,
from the same tensors. Both become one program.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V, ops
from torch.utils._sympy.functions import FloorDiv

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.memory import memory_loader
from torch_spyre._inductor.lowerings.multi_loop import multi_loop_reduction
from torch_spyre._inductor.lowerings.registry import register_lowering
from torch_spyre._inductor.op_table.attention import ATTENTION, LOGSUMEXP
from torch_spyre.ops.attention import OVERLOAD


@register_lowering(OVERLOAD)
def _attention(
    query: ir.TensorBox,
    key: ir.TensorBox,
    value: ir.TensorBox,
    bias: ir.TensorBox | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[ir.TensorBox, ir.TensorBox]:
    batch, heads, rows, inner = query.get_size()
    keys, group_size = key.get_size()[2], concrete(heads) // concrete(key.get_size()[1])
    factor = 1.0 / math.sqrt(concrete(inner)) if scale is None else float(scale)
    load_query, load_key, load_value = (memory_loader(x) for x in (query, key, value))
    load_bias = None if bias is None else _broadcast_loader(bias)

    def logsumexp_operands(index: Sequence[Any], reduced: Sequence[Any]) -> tuple[Any, ...]:
        """Return the operands of a score: tensors, then constants."""
        b, h, row = index[:3]
        key_index, channel = reduced
        query_and_key = (
            load_query([b, h, row, channel]),
            load_key([b, FloorDiv(h, group_size), key_index, channel]),
        )
        biases = () if load_bias is None else (load_bias([b, h, row, key_index]),)
        constants = (ops.constant(factor, torch.float32), ops.constant(is_causal, torch.bool))
        return (*query_and_key, *biases, *constants)

    def attention_operands(index: Sequence[Any], reduced: Sequence[Any]) -> tuple[Any, ...]:
        b, h, _, channel = index
        query_element, key_element, *remaining = logsumexp_operands(index, reduced)
        loaded_value = load_value([b, FloorDiv(h, group_size), reduced[0], channel])
        return (query_element, key_element, loaded_value, *remaining)

    results = V.graph.current_node.meta["val"]
    rows_size, reduced_size = [batch, heads, rows], [keys, inner]
    result_size = [*rows_size, value.get_size()[3]]
    return (
        multi_loop_reduction(
            ATTENTION, attention_operands, result_size, reduced_size, query, results[0]
        ),
        multi_loop_reduction(
            LOGSUMEXP, logsumexp_operands, rows_size, reduced_size, query, results[1]
        ),
    )


def _broadcast_loader(bias: ir.TensorBox) -> Any:
    """Return a loader at four coordinates for a tensor that is broadcast to four dims."""
    load, sizes = memory_loader(bias), [concrete(size) for size in bias.get_size()]

    def broadcast_load(index: Sequence[Any]) -> Any:
        trailing = index[len(index) - len(sizes) :]
        return load([0 if size == 1 else i for i, size in zip(trailing, sizes, strict=True)])

    return broadcast_load
