"""Ops on nothing: no elements to make, or none to fold."""

from dataclasses import replace

from torch_spyre._inductor.bundle import Bundle
from torch_spyre._inductor.loop_ir import Constant, LoopOp, Reduction
from torch_spyre._inductor.op_table import record_of
from torch_spyre.errors import UnsupportedError


def simplify_empty(bundle: Bundle) -> Bundle:
    """Drops ops without points; what folds nothing is a constant."""
    ops = []
    for op in bundle.ops:
        if any(size == 0 for symbol, size in op.sizes.items() if symbol not in op.reduced):
            continue
        if any(op.sizes[symbol] == 0 for symbol in op.reduced):
            op = _of_nothing(op)
        ops.append(op)
    touched = {op.target for op in ops}
    for op in ops:
        touched.update(load.buffer for load in op.loads)
        touched.update(index.buffer for index in op.indices)
    # No program knows the others, and a bundle takes as many arguments as its programs know.
    arguments = tuple(name for name in bundle.arguments if name in touched)
    return replace(bundle, ops=tuple(ops), arguments=arguments)


def _of_nothing(op: LoopOp) -> LoopOp:
    assert isinstance(op.value, Reduction)
    rule = record_of(op.value.op).reduction
    if rule is None or rule.of_empty is None:
        raise UnsupportedError(f"{op.value.op} of no elements")
    sizes = {symbol: size for symbol, size in op.sizes.items() if symbol not in op.reduced}
    value = Constant(rule.of_empty, op.dtype)
    return replace(op, sizes=sizes, reduced=(), value=value)
