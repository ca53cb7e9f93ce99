"""Attention as a loop of its own kind: what each element of the result is made of.

Its points are batch, head, query row and channel of the value; it folds keys and channels of the
queries. The logarithms of the rows' sums, which gradients need, are a second loop over the same
tensors; both become one program.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V, ops
from torch.utils._sympy.functions import FloorDiv

from torch_spyre._inductor.attention_roles import ATTENTION, LOGSUMEXP
from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.memory import read_from_memory
from torch_spyre._inductor.lowerings.registry import lowers
from torch_spyre.ops.attention import OVERLOAD


@lowers(OVERLOAD)
def _attention(
    query: ir.TensorBox,
    key: ir.TensorBox,
    value: ir.TensorBox,
    bias: ir.TensorBox | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[ir.TensorBox, ir.TensorBox]:
    batch, heads, rows, inner = query.get_size()
    keys, shared = key.get_size()[2], concrete(heads) // concrete(key.get_size()[1])
    factor = 1.0 / math.sqrt(concrete(inner)) if scale is None else float(scale)
    load_query, load_key, load_value = (read_from_memory(each) for each in (query, key, value))
    load_bias = None if bias is None else _broadcast(bias)

    def sums(index: Sequence[Any], along: Sequence[Any]) -> tuple[Any, ...]:
        """What the scores are made of: tensors, then numbers."""
        b, h, row = index[:3]
        at, channel = along
        query_and_key = (
            load_query([b, h, row, channel]),
            load_key([b, FloorDiv(h, shared), at, channel]),
        )
        added = () if load_bias is None else (load_bias([b, h, row, at]),)
        numbers = (ops.constant(factor, torch.float32), ops.constant(is_causal, torch.bool))
        return (*query_and_key, *added, *numbers)

    def result(index: Sequence[Any], along: Sequence[Any]) -> tuple[Any, ...]:
        b, h, _, channel = index
        summed = sums(index, along)
        value_here = load_value([b, FloorDiv(h, shared), along[0], channel])
        return (*summed[:2], value_here, *summed[2:])

    def folded(kind: str, inner_fn: Any, ranges: list[Any], like: torch.Tensor) -> ir.TensorBox:
        made = ir.TensorBox.create(
            ir.Reduction(
                device=query.get_device_or_error(),
                dtype=like.dtype,
                inner_fn=inner_fn,
                ranges=ranges,
                reduction_ranges=[keys, inner],
                reduction_type=kind,  # type: ignore[arg-type]  # a kind of our own
                src_dtype=query.get_dtype(),
                reduction_hint=ir.ReductionHint.DEFAULT,
            )
        )
        made.realize()
        # In memory of its own: nothing else may say where the program writes.
        ir.as_storage_and_layout(made, freeze=True, exact_strides=list(like.stride()))
        return made

    results = V.graph.current_node.meta["val"]
    size = [batch, heads, rows]
    return (
        folded(ATTENTION, result, [*size, value.get_size()[3]], results[0]),
        folded(LOGSUMEXP, sums, size, results[1]),
    )


def _broadcast(bias: ir.TensorBox) -> Any:
    """Loads at four coordinates from a tensor that may have fewer, or a single element of some."""
    load, size = read_from_memory(bias), [concrete(each) for each in bias.get_size()]

    def at(index: Sequence[Any]) -> Any:
        own = index[len(index) - len(size) :]
        return load([0 if extent == 1 else each for each, extent in zip(own, size, strict=True)])

    return at
