"""Builders of the buffers, ops and accesses that layout planning works on."""

from math import prod

import numpy as np
import sympy
import torch

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts import Access, Buffer, LayoutOp

F16, F32, BOOL = torch.float16, torch.float32, torch.bool
D = sympy.symbols("d0:8", integer=True)


def row_major(size):
    """Return the row-major strides of a size."""
    return tuple(prod(size[dim + 1 :]) for dim in range(len(size)))


def graph_input(name, *size, dtype=F16, order=None):
    """Return a graph input, in the default layout or with its dims in the given order."""
    stride = row_major(size)
    order = list(range(len(size))) if order is None else order
    layout = SpyreTensorLayout(list(size), list(stride), dtype, order)
    return Buffer(name, size, stride, dtype, layout)


def result(name, *size, dtype=F16):
    """Return a row-major buffer without a layout, the result of an op."""
    return Buffer(name, size, row_major(size), dtype)


def at(buffer, *symbols, offset=0, **options):
    """Return the access to one element, with a symbol or integer for each dim."""
    steps = zip(buffer.stride, symbols, strict=True)
    index = sum((step * symbol for step, symbol in steps), sympy.Integer(offset))
    return Access(buffer, index, **options)


def loops(*sizes):
    """Return the ranges of loops over d0, d1, ... with the given sizes."""
    return dict(zip(D, sizes, strict=False))


def pointwise(out, *reads, kind="pointwise"):
    """Return a pointwise op; reads are accesses, or pairs of a buffer and its order of symbols."""
    symbols = D[: len(out.size)]
    accesses = [
        read if isinstance(read, Access) else at(read[0], *(D[dim] for dim in read[1]))
        for read in reads
    ]
    return LayoutOp(f"op_{out.name}", kind, loops(*out.size), accesses, at(out, *symbols))


def matmul(out, left, right, sizes):
    """Return out[d0, d1] = sum over d2; operands are pairs of a buffer and its order of symbols."""
    reads = [at(buffer, *(D[dim] for dim in order)) for buffer, order in (left, right)]
    return LayoutOp(f"op_{out.name}", "matmul", loops(*sizes), reads, at(out, D[0], D[1]))


def floor(quotients):
    """Return the floor of fractions with small denominators, regardless of rounding errors."""
    return np.floor(quotients + 1e-9)


def values(expressions, ranges):
    """Return the value of each expression at every point of the loops."""
    points = np.meshgrid(*(np.arange(size) for size in ranges.values()), indexing="ij")
    shape = tuple(ranges.values())
    modules = [{"floor": floor, "Mod": np.mod}, "numpy"]
    functions = [sympy.lambdify(list(ranges), expression, modules) for expression in expressions]
    return [np.broadcast_to(function(*points), shape).astype(np.int64) for function in functions]
