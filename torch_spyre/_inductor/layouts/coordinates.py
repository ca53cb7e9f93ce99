"""Where an access of a loop lands in a tiled buffer, one coordinate per device dim.

A host offset is a mixed-radix number: the strides of the device dims are the place values, the
coordinates its digits. So coordinates come from dividing the index by each stride in turn, largest
first, which is exact for every view, ragged sticks included.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import sympy

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts.terms import ZERO, Linear, expression, parse, split


def device_coordinates(
    device_size: Sequence[int],
    stride_map: Sequence[int],
    ranges: Mapping[sympy.Symbol, int],
    index: sympy.Expr | int,
) -> list[sympy.Expr]:
    """The coordinates of host offset `index`, for loop variables with the given ranges.

    Dims without a host stride (synthetic, replicated) and dims of size 1 have coordinate 0.
    """
    found = place(tuple(device_size), tuple(stride_map), parse(index, ranges))
    return [expression(each) for each in found]


def host_coordinates(
    size: Sequence[int],
    stride: Sequence[int],
    ranges: Mapping[sympy.Symbol, int],
    index: sympy.Expr | int,
) -> list[sympy.Expr]:
    """The index in each host dim that `index` stands for."""
    return device_coordinates(size, stride, ranges, index)


@lru_cache(maxsize=1 << 14)
def place(size: tuple[int, ...], stride: tuple[int, ...], index: Linear) -> tuple[Linear, ...]:
    """`device_coordinates` on records."""
    found, rest = divide(size, stride, index)
    if not rest.is_zero:
        raise ValueError(
            f"index {expression(index)} lies between the elements of a buffer with size "
            f"{list(size)} and strides {list(stride)}: {expression(rest)} is left over"
        )
    return found


def divide(
    size: tuple[int, ...], stride: tuple[int, ...], index: Linear
) -> tuple[tuple[Linear, ...], Linear]:
    """The coordinates, and what is left of an index that lies between elements."""
    dims = [dim for dim, step in enumerate(stride) if step > 0 and size[dim] > 1]
    dims.sort(key=lambda dim: -stride[dim])
    found = [ZERO] * len(size)
    rest = index
    for dim in dims:
        found[dim], rest = split(rest, stride[dim])
    return tuple(found), rest


@lru_cache(maxsize=1 << 12)
def sizes_and_strides(layout: SpyreTensorLayout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Read once: every look at these fields of a layout makes new lists."""
    return tuple(layout.device_size), tuple(layout.stride_map)


def layout_coordinates(layout: SpyreTensorLayout, index: Linear) -> tuple[Linear, ...]:
    size, stride = sizes_and_strides(layout)
    return place(size, stride, index)
