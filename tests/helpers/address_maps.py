"""Which element of each tensor belongs to each point of each core, by enumeration.

Written apart from what it checks: coordinates are evaluated as Python text over all points at once.
"""

import math

import numpy as np

from torch_spyre._inductor.op_table import MATMUL_OPS


def address_map(spec):
    """Core -> byte addresses: a row for each of its points, a column for each tensor."""
    symbols = [str(symbol) for symbol in spec.iteration_space]
    sizes = [int(size) for size, _ in spec.iteration_space.values()]
    splits = [split for _, split in spec.iteration_space.values()]
    found = {}
    for core, slices in enumerate(_slices(spec, splits)):
        ranges = []
        for position, (size, split) in enumerate(zip(sizes, splits, strict=True)):
            part = _padded(spec, symbols[position], size, split) // split
            first = slices[position] * part
            ranges.append(range(first, min(first + part, size)))
        grid = np.meshgrid(*ranges, indexing="ij") if ranges else []
        point = {symbol: each.ravel() for symbol, each in zip(symbols, grid, strict=True)}
        found[core] = _rows(spec, point, math.prod(map(len, ranges)))
    return found


def same_addresses(one, other):
    """Of two specs: do they touch the same bytes on the same cores, point by point?"""
    left, right = address_map(one), address_map(other)
    return left.keys() == right.keys() and all(
        np.array_equal(left[core], right[core]) for core in left
    )


def places(spec):
    return [
        (arg.is_input, arg.arg_index, arg.device_dtype.name, sorted(arg.allocation), arg.name)
        for arg in spec.args
    ]


def _slices(spec, splits):
    """Slices of each core, the first dim varying fastest, or K where cores share it."""
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
    """Cores share whole sticks."""
    sticks = [
        arg.device_size[-1]
        for arg in spec.args
        if symbol in {str(each) for each in arg.device_coordinates[-1].free_symbols}
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
                "floor": lambda each: np.floor(each).astype(np.int64),
                "Mod": lambda each, modulus: each % modulus,
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
