"""Loops written by hand, for tests of single passes."""

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


def loop(name, sizes, value, write, *, target=None, reduced=(), **more):
    """`sizes` by symbol; the buffer is its own memory unless there is a target."""
    write = sympy.sympify(write)
    return LoopOp(name, target or name, F16, sizes, reduced, value, write, **more)


def total(name, sizes, value, write, reduced, op="sum", **more):
    return loop(name, sizes, Reduction(op, (value,)), write, reduced=reduced, **more)


def product(name, rows, columns, inner, left, right):
    """Of [rows, inner] and [inner, columns]."""
    factors = load(left, inner * C0 + R0), load(right, columns * R0 + C1)
    sizes = {C0: rows, C1: columns, R0: inner}
    return loop(name, sizes, Reduction("batchmatmul", factors), columns * C0 + C1, reduced=(R0,))


def bundle(ops, tensors, results, arguments=None):
    """Arguments are what no op makes, and the results, unless they are given."""
    made = {op.name for op in ops if op.name == op.target}
    names = [each.name for each in tensors if each.name not in made]
    given = [*names, *results] if arguments is None else arguments
    known = {each.name: each for each in tensors}
    return Bundle("kernel", tuple(ops), known, tuple(dict.fromkeys(given)), frozenset(results))
