"""Loops cut so that each coordinate of each tensor is plain.

A view that merges dims leaves coordinates such as `Mod(d, 10)` and `floor(d/10)`. Where the loop
over `d` is two loops, over 10 and over the rest, these are loop variables. Only the division in
sticks stays: `floor(e/64)` with `Mod(e, 64)`. A tensor whose cuts do not fit those of the output
and of the tensors before it keeps its divisions; it can be read element by element only.
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
    digit,
    digits,
    expression,
    linear,
    parse,
    scale,
    split,
)


@dataclass(frozen=True)
class Alignment:
    # The loops, in the order of those they come from, the innermost part of each first.
    ranges: Mapping[sympy.Symbol, int]
    # For each former loop its parts, and how far one step of the part steps in the former.
    segments: Mapping[sympy.Symbol, Sequence[tuple[sympy.Symbol, int]]]
    # For each tensor.
    coordinates: Sequence[Sequence[sympy.Expr]]
    # Whether only divisions in sticks are left in the tensor's coordinates.
    is_plain: Sequence[bool]


def align(
    ranges: Mapping[sympy.Symbol, int],
    accesses: Sequence[tuple[Sequence[int], Sequence[sympy.Expr]]],
) -> Alignment:
    """Cuts the loops for tensors with the given (device size, device coordinates), output last."""
    parsed = [tuple(parse(each, ranges) for each in coordinates) for _, coordinates in accesses]
    cuts = _Cuts({symbol.name: int(size) for symbol, size in ranges.items()})
    for position in (len(accesses) - 1, *range(len(accesses) - 1)):
        device_size, _ = accesses[position]
        cuts.admit(parsed[position], device_size[-1])
    new_ranges, segments, values = _cut_loops(ranges, cuts.points)
    rewritten = [[substitute(each, values) for each in coordinates] for coordinates in parsed]
    return Alignment(
        new_ranges,
        segments,
        [[expression(each) for each in coordinates] for coordinates in rewritten],
        [
            _is_plain(coordinates, device_size[-1])
            for coordinates, (device_size, _) in zip(rewritten, accesses, strict=True)
        ],
    )


def _is_plain(coordinates: Sequence[Linear], per_stick: int) -> bool:
    """Whether nothing is divided but the one sum that runs along the sticks, and in sticks."""
    stick = coordinates[-1]
    along = [each.base for _, each in stick.terms]
    return all(
        each.divisor == 1 and each.modulus in (0, per_stick) for _, each in stick.terms
    ) and all(
        (each.divisor, each.modulus) == (1, 0)
        or ((each.divisor, each.modulus) == (per_stick, 0) and [each.base] == along)
        for coordinate in coordinates[:-1]
        for _, each in coordinate.terms
    )


class _Cuts:
    """The points where each loop is cut, and the sticks that must stay whole."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.points: dict[str, list[int]] = {name: [] for name in sizes}
        self._sizes = sizes
        self._sticks: dict[str, set[int]] = {name: set() for name in sizes}

    def admit(self, coordinates: Sequence[Linear], per_stick: int) -> None:
        """Adds the cuts of one tensor, for each loop if they fit those there are."""
        stick_names = _stick_names(coordinates[-1], per_stick) & self.points.keys()
        sticks = dict.fromkeys(stick_names, per_stick)
        wanted: dict[str, set[int]] = {name: set() for name in sticks}
        for coordinate in coordinates:
            for variable, each in digits(coordinate):
                if variable.name in self.points:
                    wanted.setdefault(str(variable.name), set()).update(_cut_points(each))
        for name, points in wanted.items():
            # Where sticks cannot stay whole, they are a cut like others.
            if not self._admit(name, points, sticks.get(name)) and name in sticks:
                self._admit(name, points, None)

    def _admit(self, name: str, points: set[int], stick: int | None) -> bool:
        size = self._sizes[name]
        inner = {point for point in points if 1 < point < size and point != stick}
        merged = sorted(inner.union(self.points[name]))
        sticks = self._sticks[name] | ({stick} if stick else set())
        chain = all(large % small == 0 for small, large in pairwise([*merged, size]))
        whole = all(point % each == 0 for point in merged for each in sticks)
        if merged and not (chain and whole):
            return False
        self.points[name] = merged
        self._sticks[name] = sticks
        return True


def _cut_points(each: Digit) -> tuple[int, int]:
    return each.divisor, each.divisor * each.modulus


def _stick_names(coordinate: Linear, per_stick: int) -> set[str]:
    """The loops that run along sticks: those of `e` in the coordinate `Mod(e, per_stick)`."""
    if len(coordinate.terms) != 1:
        return set()
    coefficient, each = coordinate.terms[0]
    if coefficient != 1 or each.divisor != 1 or each.modulus not in (0, per_stick):
        return set()
    inner = each.base.terms if isinstance(each.base, Linear) else ((1, each),)
    return {
        str(part.base.name)
        for factor, part in inner
        if factor == 1 and part.divisor == 1 and part.modulus in (0, each.modulus)
        if isinstance(part.base, Variable)
    }


def _cut_loops(
    ranges: Mapping[sympy.Symbol, int], points: Mapping[str, Sequence[int]]
) -> tuple[
    dict[sympy.Symbol, int],
    dict[sympy.Symbol, list[tuple[sympy.Symbol, int]]],
    dict[str, Linear],
]:
    taken = {symbol.name for symbol in ranges}
    fresh = (name for count in range(1 << 30) if (name := f"z{count}") not in taken)
    new_ranges: dict[sympy.Symbol, int] = {}
    segments: dict[sympy.Symbol, list[tuple[sympy.Symbol, int]]] = {}
    values: dict[str, Linear] = {}
    for symbol, size in ranges.items():
        ends = [1, *points[symbol.name], int(size)]
        parts: list[tuple[sympy.Symbol, int]] = []
        for stride, end in pairwise(ends):
            name = next(fresh) if parts else symbol.name
            parts.append((sympy.Symbol(name, integer=True), stride))
            new_ranges[parts[-1][0]] = end // stride
        segments[symbol] = parts
        if len(parts) > 1:
            terms = [(stride, digit(Variable(s.name, new_ranges[s]))) for s, stride in parts]
            values[symbol.name] = linear(0, terms)
    return new_ranges, segments, values


def substitute(value: Linear, values: Mapping[str, Linear]) -> Linear:
    """The value with loop variables replaced by sums."""
    total = Linear(value.constant, ())
    for coefficient, each in value.terms:
        base = _substitute_base(each.base, values)
        if base is None:
            part = Linear(0, ((1, each),))
        else:
            part = split(base, each.divisor)[0]
            part = split(part, each.modulus)[1] if each.modulus else part
        total = add(total, scale(part, coefficient))
    return total


def _substitute_base(base: Variable | Linear, values: Mapping[str, Linear]) -> Linear | None:
    if isinstance(base, Linear):
        return substitute(base, values)
    return values.get(base.name) if isinstance(base.name, str) else None
