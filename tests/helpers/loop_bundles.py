"""Builders of loops and bundles for tests of single passes."""

from math import prod

import sympy
import torch

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.loop_ir import Interner, Load, LoopOp, Reduction

F16 = torch.float16
C0, C1, C2, R0 = (sympy.Symbol(name, integer=True) for name in ("c0", "c1", "c2", "r0"))
_interner = Interner()


def tensor(name, *size, dtype=F16):
    stride = tuple(prod(size[dim + 1 :]) for dim in range(len(size)))
    return Tensor(name, size, stride, dtype, SpyreTensorLayout(list(size), dtype))


def load(name, index, dtype=F16, indirect=()):
    return Load(name, sympy.sympify(index), dtype, indirect)


def step(op, *inputs, dtype=F16):
    return _interner.step(op, inputs, dtype)


def loop(name, sizes, value, write, *, target=None, reduced=(), **options):
    """Return a loop over `sizes` by symbol that writes `target`, by default its own buffer."""
    write = sympy.sympify(write)
    return LoopOp(name, target or name, F16, sizes, reduced, value, write, **options)


def total(name, sizes, value, write, reduced, op="sum", **options):
    """Return a loop that reduces the symbols `reduced`."""
    return loop(name, sizes, Reduction(op, (value,)), write, reduced=reduced, **options)


def matmul(name, rows, columns, inner, left, right):
    """Return the matmul of [rows, inner] and [inner, columns]."""
    operands = load(left, inner * C0 + R0), load(right, columns * R0 + C1)
    sizes = {C0: rows, C1: columns, R0: inner}
    return loop(name, sizes, Reduction("batchmatmul", operands), columns * C0 + C1, reduced=(R0,))


def bundle(ops, tensors, results, arguments=None):
    """Return a bundle; arguments are by default the tensors that no op creates, and the results."""
    created = {op.name for op in ops if op.name == op.target}
    if arguments is None:
        arguments = [*(tensor.name for tensor in tensors if tensor.name not in created), *results]
    by_name = {tensor.name: tensor for tensor in tensors}
    names = tuple(dict.fromkeys(arguments))
    return Bundle("kernel", tuple(ops), by_name, names, frozenset(results))
