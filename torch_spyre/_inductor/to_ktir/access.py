"""How a tensor is read or written at the points of a tile, from its device coordinates.

Nearly every access is a *box*: each coordinate is a sum of symbols with constant factors, so that a
tile of the iteration space touches a rectangle of the tensor. The stick's two device dims (which
stick, which lane) count as one dim of elements. Any other access is read element by element, by
evaluating its coordinates.
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
        """How many numbers lie from its least to its largest value."""
        return 1 + sum(factor * (extents[symbol] - 1) for symbol, factor in self.terms)


@dataclass(frozen=True)
class Box:
    """One dim of a rectangle in device memory: `stride` elements from one index to the next."""

    sum: Sum
    # Of the device dim: from one index to the next, and how many there are.
    stride: int
    size: int
    # Elements per stick, for the dim of elements that the sticks make.
    stick: int = 0
    # The lanes of a stick that holds all there is.
    is_lane: bool = False

    @property
    def is_stick(self) -> bool:
        return self.stick > 0


@dataclass(frozen=True)
class Access:
    """A tensor as a kernel touches it. `boxes` is None where only its coordinates say where."""

    arg: TensorArg
    boxes: tuple[Box, ...] | None

    @property
    def symbols(self) -> frozenset[Symbol]:
        return frozenset(
            symbol for each in self.arg.device_coordinates for symbol in _symbols(each)
        )

    @property
    def stick_symbols(self) -> frozenset[Symbol]:
        """Those whose steps move along sticks."""
        if self.boxes is None:
            return frozenset()
        return frozenset(symbol for box in self.boxes if box.is_stick for symbol in box.sum.symbols)

    @property
    def stick_symbol(self) -> Symbol | None:
        """The symbol that runs along the sticks, where one alone does, without gaps or offset."""
        if self.boxes is None:
            return None
        for box in self.boxes:
            if box.is_stick:
                terms, constant = box.sum.terms, box.sum.constant
                aligned = len(terms) == 1 and terms[0][1] == 1 and constant % box.stick == 0
                return terms[0][0] if aligned else None
        return None


def row_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
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
    paired = False
    for position, coordinate in enumerate(coordinates[:-1]):
        if inner is not None and not paired:
            # Other symbols may step over whole sticks.
            whole = sympy.sympify(coordinate) - sympy.floor(inner / stick)
            total = _sum(sympy.expand(inner + whole * stick))
            if total is not None:
                boxes.append(Box(total, strides[position], sizes[position], stick))
                paired = True
                continue
        found = _sum(coordinate)
        if found is None:
            return None
        boxes.append(Box(found, strides[position], sizes[position]))
    if not paired:
        # The whole of it lies in one stick: the lane is a plain sum.
        found = _sum(lane)
        if found is None:
            return None
        boxes.append(Box(found, 1, stick, is_lane=True))
    return _each_symbol_once(tuple(boxes))


def _each_symbol_once(boxes: tuple[Box, ...]) -> tuple[Box, ...] | None:
    """Diagonals have a symbol in two dims: no rectangle."""
    seen = [symbol for box in boxes for symbol in box.sum.symbols]
    return boxes if len(seen) == len(set(seen)) else None


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
    return Sum(constant, tuple(sorted(terms, key=lambda each: (-each[1], each[0].name))))


def _symbols(expression: sympy.Expr) -> frozenset[Symbol]:
    expression = sympy.sympify(expression)
    if isinstance(expression, IndirectAccess):
        return frozenset()
    if expression.is_Symbol:
        return frozenset((expression,))
    return frozenset(symbol for each in expression.args for symbol in _symbols(each))
