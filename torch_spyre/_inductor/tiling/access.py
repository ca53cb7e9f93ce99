"""Describes how a tensor is accessed at the points of a tile, from its device coordinates.

Nearly every access is a *box*: each coordinate is a sum of symbols with constant factors, so that a
tile of the iteration space accesses a rectangle of the tensor. The stick's two device dims (which
stick, which lane) count as one dim of elements. Other accesses evaluate their coordinates for every
element.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import sympy
from sympy import Symbol

from torch_spyre._inductor.op_spec import IndirectAccess, TensorArg


@dataclass(frozen=True)
class Sum:
    """`constant` plus symbols times factors, in order of their factors, largest first."""

    constant: int
    terms: tuple[tuple[Symbol, int], ...] = ()

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(symbol for symbol, _ in self.terms)

    def length(self, extents: Mapping[Symbol, int]) -> int:
        """Return the number of integers from its minimum to its maximum."""
        return 1 + sum(factor * (extents[symbol] - 1) for symbol, factor in self.terms)


@dataclass(frozen=True)
class Box:
    """One dim of a rectangle in device memory: `stride` elements from one index to the next."""

    sum: Sum
    # Stride and size of the device dim.
    stride: int
    size: int
    # Elements per stick, for the dim that merges sticks and lanes.
    stick: int = 0
    # Whether this is the lane of a tensor with one stick.
    is_lane: bool = False
    # The position of the device dim; for sticks, of the dim that counts them.
    dim: int = 0

    @property
    def is_stick(self) -> bool:
        return self.stick > 0


@dataclass(frozen=True)
class Access:
    """The access of a kernel to a tensor; `boxes` is None unless it is a rectangle."""

    arg: TensorArg
    boxes: tuple[Box, ...] | None

    @property
    def symbols(self) -> frozenset[Symbol]:
        return frozenset(
            symbol for index in self.arg.device_coordinates for symbol in _symbols(index)
        )

    @property
    def stick_symbols(self) -> frozenset[Symbol]:
        """The symbols that run along sticks."""
        if self.boxes is None:
            return frozenset()
        return frozenset(symbol for box in self.boxes if box.is_stick for symbol in box.sum.symbols)

    @property
    def stick_symbol(self) -> Symbol | None:
        """The only symbol along the sticks, if it has no gaps or offset; None otherwise."""
        if self.boxes is None:
            return None
        for box in self.boxes:
            if box.is_stick:
                terms, constant = box.sum.terms, box.sum.constant
                is_aligned = len(terms) == 1 and terms[0][1] == 1 and constant % box.stick == 0
                return terms[0][0] if is_aligned else None
        return None


def row_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    strides = [1] * len(sizes)
    for position in range(len(sizes) - 2, -1, -1):
        strides[position] = strides[position + 1] * sizes[position + 1]
    return tuple(strides)


def access_of(arg: TensorArg) -> Access:
    return Access(arg, _boxes(tuple(arg.device_size), tuple(arg.device_coordinates)))


@lru_cache(maxsize=4096)
def _boxes(sizes: tuple[int, ...], coordinates: tuple[sympy.Expr, ...]) -> tuple[Box, ...] | None:
    strides = row_major(sizes)
    stick = sizes[-1]
    lane = coordinates[-1]
    inner = _modulo_of(lane, stick)
    boxes: list[Box] = []
    has_stick_dim = False
    for position, coordinate in enumerate(coordinates[:-1]):
        if inner is not None and not has_stick_dim:
            # Other symbols may have strides of whole sticks.
            whole_sticks = sympy.sympify(coordinate) - sympy.floor(inner / stick)
            total = _sum(sympy.expand(inner + whole_sticks * stick))
            if total is not None:
                boxes.append(Box(total, strides[position], sizes[position], stick, dim=position))
                has_stick_dim = True
                continue
        plain = _sum(coordinate)
        if plain is None:
            return None
        boxes.append(Box(plain, strides[position], sizes[position], dim=position))
    if not has_stick_dim:
        # The tensor has one stick: the lane is a plain sum.
        lane_sum = _sum(lane)
        if lane_sum is None:
            return None
        boxes.append(Box(lane_sum, 1, stick, is_lane=True, dim=len(sizes) - 1))
    return _without_diagonals(tuple(boxes))


def _without_diagonals(boxes: tuple[Box, ...]) -> tuple[Box, ...] | None:
    """Return the boxes, or None for a diagonal: a symbol in two dims makes no rectangle."""
    symbols = [symbol for box in boxes for symbol in box.sum.symbols]
    return boxes if len(symbols) == len(set(symbols)) else None


def _modulo_of(lane: sympy.Expr, stick: int) -> sympy.Expr | None:
    if isinstance(lane, sympy.Mod) and lane.args[1] == stick:
        return lane.args[0]
    return None


def _sum(expression: sympy.Expr) -> Sum | None:
    expression = sympy.sympify(expression)
    if expression.is_Integer:
        return Sum(int(expression))
    constant, terms = 0, []
    for term, factor in expression.as_coefficients_dict().items():
        if term == 1:
            constant = int(factor)
        elif term.is_Symbol and factor.is_Integer and factor > 0:
            terms.append((term, int(factor)))
        else:
            return None
    if constant < 0:
        return None
    return Sum(constant, tuple(sorted(terms, key=lambda term: (-term[1], term[0].name))))


def _symbols(expression: sympy.Expr) -> frozenset[Symbol]:
    expression = sympy.sympify(expression)
    if isinstance(expression, IndirectAccess):
        return frozenset()
    if expression.is_Symbol:
        return frozenset((expression,))
    return frozenset(symbol for arg in expression.args for symbol in _symbols(arg))
