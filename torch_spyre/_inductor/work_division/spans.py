"""How far apart in device memory a core's part of a tensor lies: its span.

A core reaches a tensor through a window of addresses. What counts is the range of addresses, not
the bytes touched: only a split of the outermost device dim that a core moves in lessens the span.
"""

from collections.abc import Mapping
from math import floor, prod

import sympy

from torch_spyre._inductor.op_spec import TensorArg
from torch_spyre._inductor.work_division.expressions import bounds
from torch_spyre.constants import BYTES_IN_STICK

SPAN_LIMIT_BYTES = 256 * 2**20
"""Largest span of one tensor on one core; a span as large as this is legal."""


def span_bytes(
    tensor: TensorArg, ranges: Mapping[sympy.Symbol, int], splits: Mapping[sympy.Symbol, int]
) -> int:
    """Span of a core's part of `tensor`: sizes in elements, divided by `splits` (1 if missing)."""
    shares = {symbol: -(-size // splits.get(symbol, 1)) for symbol, size in ranges.items()}
    return span_of_share(tensor, shares)


def span_of_share(tensor: TensorArg, shares: Mapping[sympy.Symbol, int]) -> int:
    """The same, from the elements of each symbol that one core has."""
    elements = 1
    for position in range(len(tensor.device_size) - 1):
        extent = coordinate_extent(tensor, position, shares)
        if extent > 1:
            elements = extent * prod(tensor.device_size[position + 1 :])
            break
    # At least one byte: formats of less than a byte have more elements in a stick than bytes.
    return max(1, elements * BYTES_IN_STICK // tensor.elements_per_stick)


def coordinate_extent(tensor: TensorArg, position: int, shares: Mapping[sympy.Symbol, int]) -> int:
    """Indices of a device dim, from the first to the last that a core touches."""
    size = tensor.device_size[position]
    if size == 1:
        return 1
    last = {symbol: share - 1 for symbol, share in shares.items()}
    limits = bounds(tensor.device_coordinates[position], last)
    if limits is None:  # decided by data
        return size
    low, high = limits
    return min(size, floor(high) - floor(low) + 1)
