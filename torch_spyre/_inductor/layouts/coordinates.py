"""Where an access of a loop lands in a tiled buffer, one coordinate per device dim.

A host offset is a mixed-radix number: the strides of the device dims are the place values, the
coordinates its digits. So coordinates come from dividing the index by each stride in turn, largest
first, which is exact for every view, ragged sticks included.
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
    digit,
    expression,
    linear,
    parse,
    split,
)


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
    found, rest = divide_on_host(tuple(size), tuple(stride), parse(index, ranges))
    _check_remainder(size, stride, index, rest)
    return [expression(each) for each in found]


def place(size: tuple[int, ...], stride: tuple[int, ...], index: Linear) -> tuple[Linear, ...]:
    """`device_coordinates` on records."""
    found, rest = divide(size, stride, index)
    _check_remainder(size, stride, index, rest)
    return found


def _check_remainder(
    size: Sequence[int], stride: Sequence[int], index: Linear | sympy.Expr | int, rest: Linear
) -> None:
    if not rest.is_zero:
        shown = expression(index) if isinstance(index, Linear) else index
        raise ValueError(
            f"index {shown} lies between the elements of a buffer with size {list(size)} and "
            f"strides {list(stride)}: {expression(rest)} is left over"
        )


@lru_cache(maxsize=1 << 14)
def divide(
    size: tuple[int, ...], stride: tuple[int, ...], index: Linear
) -> tuple[tuple[Linear, ...], Linear]:
    """The device coordinates, and what is left of an index that lies between elements."""
    extents = _extents(size, stride)
    per_stick, step = size[-1], stride[-1]
    counts = [n for n, each in zip(size, stride, strict=True) if each == step * per_stick]
    # A host dim along the stick goes on in the dim that counts its sticks.
    extents[step] = per_stick * min(counts, default=1)
    return _divide(size, stride, _bounded(index, extents))


@lru_cache(maxsize=1 << 14)
def divide_on_host(
    size: tuple[int, ...], stride: tuple[int, ...], index: Linear
) -> tuple[tuple[Linear, ...], Linear]:
    """`divide` for host dims, where there are no sticks."""
    return _divide(size, stride, _bounded(index, _extents(size, stride)))


def _divide(
    size: tuple[int, ...], stride: tuple[int, ...], index: Linear
) -> tuple[tuple[Linear, ...], Linear]:
    dims = [dim for dim, step in enumerate(stride) if step > 0 and size[dim] > 1]
    dims.sort(key=lambda dim: -stride[dim])
    found = [ZERO] * len(size)
    rest = index
    for dim in dims:
        found[dim], rest = split(rest, stride[dim])
    return tuple(found), rest


def _extents(size: tuple[int, ...], stride: tuple[int, ...]) -> dict[int, int]:
    """Elements along each stride. A dim of one element may have the stride of another dim."""
    found: dict[int, int] = {}
    for extent, step in zip(size, stride, strict=True):
        found[step] = max(extent, found.get(step, 0))
    return found


def _bounded(index: Linear, extents: Mapping[int, int]) -> Linear:
    """Values of index tensors are as many as the dim has elements that they step through."""
    if all(each.high < UNBOUNDED - 1 for _, each in index.terms):
        return index
    return linear(
        index.constant,
        (
            (coefficient, _bounded_digit(each, extents.get(coefficient, UNBOUNDED)))
            for coefficient, each in index.terms
        ),
    )


def _bounded_digit(each: Digit, extent: int) -> Digit:
    if isinstance(each.base, Variable) and each.base.size == UNBOUNDED and each.divisor == 1:
        return digit(Variable(each.base.name, extent))
    return each


@lru_cache(maxsize=1 << 12)
def sizes_and_strides(layout: SpyreTensorLayout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Read once: every look at these fields of a layout makes new lists."""
    return tuple(layout.device_size), tuple(layout.stride_map)


def layout_coordinates(layout: SpyreTensorLayout, index: Linear) -> tuple[Linear, ...]:
    size, stride = sizes_and_strides(layout)
    return place(size, stride, index)
