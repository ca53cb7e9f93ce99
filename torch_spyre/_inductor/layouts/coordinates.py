"""Computes the device coordinates of an access, one for each dim of a tiled buffer.

A host offset is a mixed-radix number whose digits are the coordinates: the strides of the device
dims are the weights of the digits. Dividing the index by each stride in turn, largest first, gives
the coordinates. This is exact for every view, including those with partly filled sticks.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import sympy

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts.terms import (
    UNBOUNDED,
    ZERO,
    Digit,
    Linear,
    Variable,
    expression,
    make_digit,
    make_linear,
    parse,
    split,
)


def device_coordinates(
    device_size: Sequence[int],
    stride_map: Sequence[int],
    ranges: Mapping[sympy.Symbol, int],
    index: sympy.Expr | int,
) -> list[sympy.Expr]:
    """Return the coordinates of host offset `index`, for loop variables with these ranges.

    Dims without a host stride (synthetic, replicated) and dims of size 1 have coordinate 0.
    """
    coordinates = linear_coordinates(tuple(device_size), tuple(stride_map), parse(index, ranges))
    return [expression(coordinate) for coordinate in coordinates]


def host_coordinates(
    size: Sequence[int],
    stride: Sequence[int],
    ranges: Mapping[sympy.Symbol, int],
    index: sympy.Expr | int,
) -> list[sympy.Expr]:
    """Return the index along each host dim for host offset `index`."""
    coordinates, remainder = divide_on_host(tuple(size), tuple(stride), parse(index, ranges))
    _check_remainder(size, stride, index, remainder)
    return [expression(coordinate) for coordinate in coordinates]


def linear_coordinates(
    size: tuple[int, ...], stride: tuple[int, ...], index: Linear
) -> tuple[Linear, ...]:
    """Return `device_coordinates` as `Linear` records."""
    coordinates, remainder = divide(size, stride, index)
    _check_remainder(size, stride, index, remainder)
    return coordinates


def _check_remainder(
    size: Sequence[int], stride: Sequence[int], index: Linear | sympy.Expr | int, remainder: Linear
) -> None:
    if remainder.is_zero:
        return
    text = expression(index) if isinstance(index, Linear) else index
    raise ValueError(
        f"index {text} is not the offset of an element of a buffer with size {list(size)} and "
        f"strides {list(stride)}: the remainder is {expression(remainder)}"
    )


@lru_cache(maxsize=1 << 14)
def divide(
    size: tuple[int, ...], stride: tuple[int, ...], index: Linear
) -> tuple[tuple[Linear, ...], Linear]:
    """Return the device coordinates, and the remainder, nonzero between elements."""
    extents = _extents(size, stride)
    per_stick, stick_stride = size[-1], stride[-1]
    counts = [
        extent
        for extent, step in zip(size, stride, strict=True)
        if step == stick_stride * per_stick
    ]
    # A host dim along the stick continues in the device dim that counts its sticks.
    extents[stick_stride] = per_stick * min(counts, default=1)
    return _divide(size, stride, _bounded(index, extents))


@lru_cache(maxsize=1 << 14)
def divide_on_host(
    size: tuple[int, ...], stride: tuple[int, ...], index: Linear
) -> tuple[tuple[Linear, ...], Linear]:
    """Return the host coordinates and the remainder: `divide` without sticks."""
    return _divide(size, stride, _bounded(index, _extents(size, stride)))


def _divide(
    size: tuple[int, ...], stride: tuple[int, ...], index: Linear
) -> tuple[tuple[Linear, ...], Linear]:
    dims = [dim for dim, step in enumerate(stride) if step > 0 and size[dim] > 1]
    dims.sort(key=lambda dim: -stride[dim])
    coordinates = [ZERO] * len(size)
    remainder = index
    for dim in dims:
        coordinates[dim], remainder = split(remainder, stride[dim])
    return tuple(coordinates), remainder


def _extents(size: tuple[int, ...], stride: tuple[int, ...]) -> dict[int, int]:
    """Return the extent for each stride. A dim of size 1 may have the stride of another dim."""
    extents: dict[int, int] = {}
    for extent, step in zip(size, stride, strict=True):
        extents[step] = max(extent, extents.get(step, 0))
    return extents


def _bounded(index: Linear, extents: Mapping[int, int]) -> Linear:
    """Bound the values of index tensors by the extent of the dim that they index."""
    if all(digit.high < UNBOUNDED - 1 for _, digit in index.terms):
        return index
    return make_linear(
        index.constant,
        (
            (coefficient, _bounded_digit(digit, extents.get(coefficient, UNBOUNDED)))
            for coefficient, digit in index.terms
        ),
    )


def _bounded_digit(digit: Digit, extent: int) -> Digit:
    if isinstance(digit.base, Variable) and digit.base.size == UNBOUNDED and digit.divisor == 1:
        return make_digit(Variable(digit.base.name, extent))
    return digit


@lru_cache(maxsize=1 << 12)
def sizes_and_strides(layout: SpyreTensorLayout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return device sizes and strides as tuples; cached, as each read of the fields copies."""
    return tuple(layout.device_size), tuple(layout.stride_map)


def layout_coordinates(layout: SpyreTensorLayout, index: Linear) -> tuple[Linear, ...]:
    """Return the device coordinates of host offset `index` in a layout."""
    size, stride = sizes_and_strides(layout)
    return linear_coordinates(size, stride, index)
