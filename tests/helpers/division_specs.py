"""Specs of ops on tensors in their default layouts, not divided."""

from dataclasses import replace
from math import prod

import sympy

from torch_spyre._inductor.op_spec import DataFormats, OpSpec, TensorArg

FORMATS = {
    32: DataFormats.IEEE_FP32,
    64: DataFormats.SEN169_FP16,
    128: DataFormats.SENINT8,
}
C = tuple(sympy.Symbol(f"c{number}", integer=True) for number in range(6))


def tensor(shape, coordinates, *, elements=64, is_input=True, name=None, stick_dim=-1):
    """A tensor in its default layout; `coordinates` has an expression per host dim.

    With another `stick_dim` the host dims are permuted so that it is the last of the layout.
    """
    strides = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
    order = [dim for dim in range(len(shape)) if dim != stick_dim % len(shape)]
    last = stick_dim % len(shape)
    sticks_of_last = None
    outer = [*order[1:], sticks_of_last, *order[:1]]
    device_size, device_coordinates, stride_map = [], [], []
    for dim in outer:
        if dim is sticks_of_last:
            size, at = -(-shape[last] // elements), sympy.floor(coordinates[last] / elements)
            stride = strides[last] * elements
        else:
            size, at, stride = shape[dim], coordinates[dim], strides[dim]
        device_size.append(size)
        device_coordinates.append(sympy.Integer(0) if size == 1 else sympy.sympify(at))
        stride_map.append(-1 if size == 1 else stride)
    return TensorArg(
        is_input=is_input,
        arg_index=0,
        device_dtype=FORMATS[elements],
        device_size=[*device_size, elements],
        device_coordinates=[*device_coordinates, sympy.Mod(coordinates[last], elements)],
        allocation={"hbm": 0},
        stride_map=[*stride_map, strides[last]],
        name=name,
    )


def op_spec(op, sizes, inputs, output, *, is_reduction=False, op_info=None):
    return OpSpec(
        op=op,
        is_reduction=is_reduction,
        iteration_space={symbol: (sympy.Integer(size), 1) for symbol, size in sizes.items()},
        args=[*inputs, replace(output, is_input=False)],
        op_info=op_info or {},
    )


def pointwise(op, *shape, elements=64, op_info=None):
    """Symbols c0, c1, ... for the host dims; a dim of size 1 has none."""
    coordinates = [C[dim] if size > 1 else sympy.Integer(0) for dim, size in enumerate(shape)]
    sizes = {C[dim]: size for dim, size in enumerate(shape) if size > 1}
    arg = tensor(shape, coordinates, elements=elements)
    return op_spec(op, sizes, [arg], arg, op_info=op_info)


def row_sum(rows, columns, op="sum"):
    """Over the last dim; one result at the start of each stick."""
    result = TensorArg(
        is_input=False,
        arg_index=1,
        device_dtype=DataFormats.SEN169_FP16,
        device_size=[rows, 64],
        device_coordinates=[C[0], sympy.Integer(0)],
        allocation={"hbm": 0},
        stride_map=[1, -1],
    )
    source = tensor((rows, columns), (C[0], C[1]))
    return op_spec(op, {C[0]: rows, C[1]: columns}, [source], result, is_reduction=True)


def column_sum(rows, columns):
    """Over the first dim: c0 are the columns, c1 the rows."""
    source = tensor((rows, columns), (C[1], C[0]))
    result = tensor((columns,), (C[0],))
    return op_spec("sum", {C[0]: columns, C[1]: rows}, [source], result, is_reduction=True)


def matmul(rows, inner, columns, *, op_info=None):
    """c0 rows, c1 columns, c2 inner."""
    m, n, k = (C[0] if rows > 1 else sympy.Integer(0)), C[1], C[2]
    sizes = {C[0]: rows, C[1]: columns, C[2]: inner}
    if rows == 1:
        del sizes[C[0]]
    left, right = tensor((rows, inner), (m, k)), tensor((inner, columns), (k, n))
    result = tensor((rows, columns), (m, n))
    return op_spec("batchmatmul", sizes, [left, right], result, is_reduction=True, op_info=op_info)


def batch_matmul(batch, rows, inner, columns, *, shared=False):
    """c0 batch, c1 rows, c2 columns, c3 inner."""
    b, m, n, k = C[:4]
    left = tensor((batch, rows, inner), (b, m, k))
    right = (
        tensor((inner, columns), (k, n)) if shared else tensor((batch, inner, columns), (b, k, n))
    )
    result = tensor((batch, rows, columns), (b, m, n))
    sizes = {b: batch, m: rows, n: columns, k: inner}
    return op_spec("batchmatmul", sizes, [left, right], result, is_reduction=True)


def with_splits(spec, splits):
    space = {
        symbol: (size, splits.get(symbol, 1)) for symbol, (size, _) in spec.iteration_space.items()
    }
    return replace(spec, iteration_space=space)
