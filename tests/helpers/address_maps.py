"""Enumerates the byte addresses that each core accesses at each point of its iteration space.

Independent of the code under test: coordinates are evaluated as Python text over all points.
"""

import math

import numpy as np

from torch_spyre._inductor.op_table import MATMUL_OPS


def address_map(spec):
    """Return the byte addresses of each core: a row for each point, a column for each tensor."""
    symbols = [str(symbol) for symbol in spec.iteration_space]
    sizes = [int(size) for size, _ in spec.iteration_space.values()]
    splits = [split for _, split in spec.iteration_space.values()]
    addresses = {}
    for core, slices in enumerate(_slices(spec, splits)):
        ranges = []
        for position, (size, split) in enumerate(zip(sizes, splits, strict=True)):
            slice_size = _padded(spec, symbols[position], size, split) // split
            first = slices[position] * slice_size
            ranges.append(range(first, min(first + slice_size, size)))
        grid = np.meshgrid(*ranges, indexing="ij") if ranges else []
        point = {symbol: axis.ravel() for symbol, axis in zip(symbols, grid, strict=True)}
        addresses[core] = _rows(spec, point, math.prod(map(len, ranges)))
    return addresses


def same_addresses(actual, expected):
    """Return whether two specs access the same bytes on the same cores, point by point."""
    left, right = address_map(actual), address_map(expected)
    return left.keys() == right.keys() and all(
        np.array_equal(left[core], right[core]) for core in left
    )


def argument_properties(spec):
    """Return input or output, index, dtype, memory spaces and name of each tensor."""
    return [
        (arg.is_input, arg.arg_index, arg.device_dtype.name, sorted(arg.allocation), arg.name)
        for arg in spec.args
    ]


def _slices(spec, splits):
    """Yield the slices of each core; the first dim varies fastest, or K if it is split."""
    order = list(range(len(splits)))
    k_fast = spec.op in MATMUL_OPS and len(splits) >= 3 and spec.op_info.get("k_fast", True)
    if k_fast and splits[-1] > 1:
        order = [order[-1], *order[:-1]]
    for core in range(math.prod(splits)):
        slices = {}
        for position in order:
            slices[position] = core % splits[position]
            core //= splits[position]
        yield slices


def _padded(spec, symbol, size, split):
    """Return the size of a dim, rounded up to whole sticks if it is split."""
    sticks = [
        arg.device_size[-1]
        for arg in spec.args
        if symbol in {str(free) for free in arg.device_coordinates[-1].free_symbols}
    ]
    return -(-size // max(sticks)) * max(sticks) if sticks and split > 1 else size


def _rows(spec, point, count):
    named = {arg.name: arg for arg in spec.args if arg.name}

    def elements(arg):
        total = np.zeros(count, dtype=np.int64)
        stride = 1
        pairs = list(zip(arg.device_size, arg.device_coordinates, strict=True))
        for size, coordinate in reversed(pairs):
            scope = {
                "floor": lambda values: np.floor(values).astype(np.int64),
                "Mod": lambda values, modulus: values % modulus,
                "IndirectAccess": lambda name, size=size: elements(named[name]) * 7919 % size,
                **{name: name for name in named},
                **point,
            }
            total += np.asarray(eval(str(coordinate), scope), dtype=np.int64) * stride
            stride *= size
        return total

    columns = []
    for arg in spec.args:
        (base,) = arg.allocation.values()
        columns.append(base + elements(arg) * (128 // arg.device_size[-1]))
    return np.stack(columns, axis=1)
