"""Drops loops over empty tensors, and replaces reductions of no elements by constants."""

from dataclasses import replace

from torch_spyre._inductor.bundle import Bundle
from torch_spyre._inductor.loop_ir import Constant, LoopOp, Reduction
from torch_spyre._inductor.op_table import record_of
from torch_spyre.errors import UnsupportedError


def simplify_empty(bundle: Bundle) -> Bundle:
    """Drop ops without iterations, and replace reductions of no elements by constants."""
    ops = []
    for op in bundle.ops:
        if any(size == 0 for symbol, size in op.sizes.items() if symbol not in op.reduced):
            continue
        if any(op.sizes[symbol] == 0 for symbol in op.reduced):
            op = _to_constant(op)
        ops.append(op)
    accessed = {op.target for op in ops}
    for op in ops:
        accessed.update(load.buffer for load in op.loads)
        accessed.update(index.buffer for index in op.indices)
    # A kernel has no parameters for tensors that its ops do not access.
    arguments = tuple(name for name in bundle.arguments if name in accessed)
    return replace(bundle, ops=tuple(ops), arguments=arguments)


def _to_constant(op: LoopOp) -> LoopOp:
    assert isinstance(op.value, Reduction)
    rule = record_of(op.value.op).reduction
    if rule is None or rule.empty_result is None:
        raise UnsupportedError(f"{op.value.op} of an empty tensor")
    sizes = {symbol: size for symbol, size in op.sizes.items() if symbol not in op.reduced}
    value = Constant(rule.empty_result, op.dtype)
    return replace(op, sizes=sizes, reduced=(), value=value)
