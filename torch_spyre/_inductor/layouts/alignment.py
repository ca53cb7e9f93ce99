"""Splits loops so that the coordinates of tensors are loop variables without divisions.

A view that merges dims leaves coordinates such as `Mod(d, 10)` and `floor(d/10)`. If the loop over
`d` is split into an inner loop of 10 and an outer loop, these coordinates are loop variables. Only
the division into sticks remains: `floor(e/64)` with `Mod(e, 64)`. A tensor whose split points
conflict with those of the output or of an earlier tensor keeps its divisions; it can only be read
element by element.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import sympy

from torch_spyre._inductor.layouts.terms import (
    Digit,
    Linear,
    Variable,
    add,
    digits,
    expression,
    make_digit,
    make_linear,
    parse,
    scale,
    split,
)


@dataclass(frozen=True)
class Alignment:
    """Split loops, and the coordinates of each tensor in terms of them."""

    # The loops in the order of the original ones, the innermost segment of each first.
    ranges: Mapping[sympy.Symbol, int]
    # For each original loop its segments, with the step of each in the original loop.
    segments: Mapping[sympy.Symbol, Sequence[tuple[sympy.Symbol, int]]]
    # One entry for each tensor.
    coordinates: Sequence[Sequence[sympy.Expr]]


def align(
    ranges: Mapping[sympy.Symbol, int],
    accesses: Sequence[tuple[Sequence[int], Sequence[sympy.Expr]]],
) -> Alignment:
    """Split the loops for tensors with these (device size, device coordinates), output last."""
    parsed = [tuple(parse(value, ranges) for value in coordinates) for _, coordinates in accesses]
    split_points = _SplitPoints({symbol.name: int(size) for symbol, size in ranges.items()})
    for position in (len(accesses) - 1, *range(len(accesses) - 1)):
        device_size, _ = accesses[position]
        split_points.add_tensor(parsed[position], device_size[-1])
    new_ranges, segments, values = _split_loops(ranges, split_points.points)
    rewritten = [[substitute(value, values) for value in coordinates] for coordinates in parsed]
    return Alignment(
        new_ranges,
        segments,
        [[expression(value) for value in coordinates] for coordinates in rewritten],
    )


class _SplitPoints:
    """The points where each loop is split, and the stick sizes that must not be split."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.points: dict[str, list[int]] = {name: [] for name in sizes}
        self._sizes = sizes
        self._sticks: dict[str, set[int]] = {name: set() for name in sizes}

    def add_tensor(self, coordinates: Sequence[Linear], per_stick: int) -> None:
        """Add the split points of one tensor for every loop where they are compatible."""
        stick_names = _stick_names(coordinates[-1], per_stick) & self.points.keys()
        sticks = dict.fromkeys(stick_names, per_stick)
        new_points: dict[str, set[int]] = {name: set() for name in sticks}
        for coordinate in coordinates:
            for variable, digit in digits(coordinate):
                if variable.name in self.points:
                    points = new_points.setdefault(str(variable.name), set())
                    points.update(_points_of_digit(digit))
        for name, points in new_points.items():
            # If the sticks cannot stay whole, their size is a split point like any other.
            if not self._add(name, points, sticks.get(name)) and name in sticks:
                self._add(name, points, None)

    def _add(self, name: str, points: set[int], stick: int | None) -> bool:
        """Add split points to a loop; return False if they conflict with those it has."""
        size = self._sizes[name]
        inner = {point for point in points if 1 < point < size and point != stick}
        merged = sorted(inner.union(self.points[name]))
        sticks = self._sticks[name] | ({stick} if stick else set())
        is_chain = all(large % small == 0 for small, large in pairwise([*merged, size]))
        keeps_sticks = all(point % stick_size == 0 for point in merged for stick_size in sticks)
        if merged and not (is_chain and keeps_sticks):
            return False
        self.points[name] = merged
        self._sticks[name] = sticks
        return True


def _points_of_digit(digit: Digit) -> tuple[int, int]:
    return digit.divisor, digit.divisor * digit.modulus


def _stick_names(coordinate: Linear, per_stick: int) -> set[str]:
    """Return the loops along the sticks: those of `e` in the coordinate `Mod(e, per_stick)`."""
    if len(coordinate.terms) != 1:
        return set()
    coefficient, digit = coordinate.terms[0]
    if coefficient != 1 or digit.divisor != 1 or digit.modulus not in (0, per_stick):
        return set()
    summands = digit.base.terms if isinstance(digit.base, Linear) else ((1, digit),)
    return {
        str(summand.base.name)
        for factor, summand in summands
        if factor == 1 and summand.divisor == 1 and summand.modulus in (0, digit.modulus)
        if isinstance(summand.base, Variable)
    }


def _split_loops(
    ranges: Mapping[sympy.Symbol, int], points: Mapping[str, Sequence[int]]
) -> tuple[
    dict[sympy.Symbol, int],
    dict[sympy.Symbol, list[tuple[sympy.Symbol, int]]],
    dict[str, Linear],
]:
    """Return the ranges and segments of the split loops, and each split loop as their sum."""
    used_names = {symbol.name for symbol in ranges}
    new_names = (name for count in range(1 << 30) if (name := f"z{count}") not in used_names)
    new_ranges: dict[sympy.Symbol, int] = {}
    segments: dict[sympy.Symbol, list[tuple[sympy.Symbol, int]]] = {}
    values: dict[str, Linear] = {}
    for symbol, size in ranges.items():
        ends = [1, *points[symbol.name], int(size)]
        parts: list[tuple[sympy.Symbol, int]] = []
        for step, end in pairwise(ends):
            part = sympy.Symbol(next(new_names) if parts else symbol.name, integer=True)
            parts.append((part, step))
            new_ranges[part] = end // step
        segments[symbol] = parts
        if len(parts) > 1:
            values[symbol.name] = make_linear(
                0,
                [(step, make_digit(Variable(part.name, new_ranges[part]))) for part, step in parts],
            )
    return new_ranges, segments, values


def substitute(value: Linear, values: Mapping[str, Linear]) -> Linear:
    """Return the value with loop variables replaced by sums."""
    total = Linear(value.constant, ())
    for coefficient, digit in value.terms:
        base = _substitute_base(digit.base, values)
        if base is None:
            replaced = Linear(0, ((1, digit),))
        else:
            replaced = split(base, digit.divisor)[0]
            replaced = split(replaced, digit.modulus)[1] if digit.modulus else replaced
        total = add(total, scale(replaced, coefficient))
    return total


def _substitute_base(base: Variable | Linear, values: Mapping[str, Linear]) -> Linear | None:
    if isinstance(base, Linear):
        return substitute(base, values)
    return values.get(base.name) if isinstance(base.name, str) else None
