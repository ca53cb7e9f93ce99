"""Spans: the range of device addresses that a core touches in a tensor.

A core reaches a tensor through a window of addresses, whose size the card limits. The range counts,
not the bytes touched: only a split of the outermost device dim along which a core moves makes the
span smaller.
"""

from collections.abc import Mapping
from math import floor, prod

import sympy

from torch_spyre._inductor.op_spec import TensorArg
from torch_spyre._inductor.work_division.expressions import bounds
from torch_spyre.constants import BYTES_IN_STICK


def span_bytes(
    tensor: TensorArg, sizes: Mapping[sympy.Symbol, int], splits: Mapping[sympy.Symbol, int]
) -> int:
    """Return the span of a core's slice of `tensor`.

    `sizes` are in elements and are divided by `splits`; a symbol without a split is not divided.
    """
    slice_sizes = {symbol: -(-size // splits.get(symbol, 1)) for symbol, size in sizes.items()}
    return span_of_slice(tensor, slice_sizes)


def span_of_slice(tensor: TensorArg, slice_sizes: Mapping[sympy.Symbol, int]) -> int:
    """Return the span in bytes, given the elements of each symbol that one core has."""
    elements = 1
    for position in range(len(tensor.device_size) - 1):
        extent = coordinate_extent(tensor, position, slice_sizes)
        if extent > 1:
            elements = extent * prod(tensor.device_size[position + 1 :])
            break
    # At least one byte: formats of less than a byte have more elements in a stick than bytes.
    return max(1, elements * BYTES_IN_STICK // tensor.elements_per_stick)


def coordinate_extent(
    tensor: TensorArg, position: int, slice_sizes: Mapping[sympy.Symbol, int]
) -> int:
    """Return the number of indices of a device dim from the first to the last a core touches."""
    size = tensor.device_size[position]
    if size == 1:
        return 1
    last = {symbol: slice_size - 1 for symbol, slice_size in slice_sizes.items()}
    limits = bounds(tensor.device_coordinates[position], last)
    if limits is None:  # the index depends on data
        return size
    low, high = limits
    return min(size, floor(high) - floor(low) + 1)
