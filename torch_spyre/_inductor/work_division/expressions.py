"""Analysis of coordinates: symbols, bounds, and the blocks that they divide a symbol into."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import floor

import sympy

from torch_spyre._inductor.op_spec import IndirectAccess, TensorArg, index_names

Bounds = tuple[Fraction, Fraction]


def symbols_of(expression: sympy.Expr | int) -> set[sympy.Symbol]:
    """Return the symbols of an expression, without those inside an indirect access."""
    return {
        node
        for node in _nodes(sympy.sympify(expression))
        if isinstance(node, sympy.Symbol) and node.is_Symbol
    }


def is_indirect(tensor: TensorArg) -> bool:
    return bool(index_tensors(tensor))


def index_tensors(tensor: TensorArg) -> set[str]:
    """Return the names of the tensors whose values are indices into `tensor`."""
    return set(index_names(tensor))


def bounds(expression: sympy.Expr | int, last: Mapping[sympy.Symbol, int]) -> Bounds | None:
    """Return the least and greatest value while every symbol runs from 0 to its `last`.

    They are exact where no symbol occurs twice, and never too narrow. None if they are unknown.
    """
    return _bounds(sympy.sympify(expression), last)


def _bounds(node: sympy.Expr, last: Mapping[sympy.Symbol, int]) -> Bounds | None:
    if node.is_Rational:
        value = Fraction(int(node.p), int(node.q))
        return value, value
    if node.is_Symbol:
        return Fraction(0), Fraction(last[node])
    if not isinstance(node, sympy.Add | sympy.Mul | sympy.floor | sympy.Mod):
        return None
    operands: list[Bounds] = []
    for argument in node.args:
        limits = _bounds(argument, last)
        if limits is None:
            return None
        operands.append(limits)
    if isinstance(node, sympy.Add):
        return _sum_bounds(operands)
    if isinstance(node, sympy.Mul):
        return _product_bounds(operands)
    low, high = operands[0]
    if isinstance(node, sympy.floor):
        return Fraction(floor(low)), Fraction(floor(high))
    divisor, largest_divisor = operands[1]
    if divisor != largest_divisor or divisor <= 0:
        return None
    if low // divisor == high // divisor:
        return low % divisor, high % divisor
    return Fraction(0), divisor - 1


def _sum_bounds(operands: list[Bounds]) -> Bounds:
    return (
        sum((low for low, _ in operands), Fraction(0)),
        sum((high for _, high in operands), Fraction(0)),
    )


def _product_bounds(operands: list[Bounds]) -> Bounds:
    low = high = Fraction(1)
    for least, greatest in operands:
        corners = [low * least, low * greatest, high * least, high * greatest]
        low, high = min(corners), max(corners)
    return low, high


def block_sizes(expression: sympy.Expr | int) -> Iterator[tuple[sympy.Symbol, Fraction]]:
    """Yield the blocks that floors and moduli divide a symbol into: (symbol, elements per block).

    `Mod(c, 2)` and `floor(c/2)` have blocks of 2, `Mod(floor(c/64), 2)` blocks of 64 and of 128.
    Sums have no such blocks.
    """
    for node in _nodes(sympy.sympify(expression)):
        if isinstance(node, sympy.floor):
            block = _elements_per_increment(node.args[0])
            if block is not None:
                yield block
        if isinstance(node, sympy.Mod) and node.args[1].is_Integer:
            block = _elements_per_increment(node.args[0])
            if block is not None:
                yield block[0], block[1] * int(node.args[1])


def _elements_per_increment(node: sympy.Expr) -> tuple[sympy.Symbol, Fraction] | None:
    """Return the only symbol of a node, and by how much it grows while the node grows by 1."""
    coefficient, factor = node.as_coeff_Mul()
    if not coefficient.is_Rational or coefficient <= 0:
        return None
    scale = Fraction(int(coefficient.q), int(coefficient.p))
    if factor.is_Symbol:
        return factor, scale
    if isinstance(factor, sympy.floor | sympy.Mod):
        inner = _elements_per_increment(factor.args[0])
        return None if inner is None else (inner[0], inner[1] * scale)
    return None


def overlapping_symbols(
    expression: sympy.Expr | int, last: Mapping[sympy.Symbol, int]
) -> set[sympy.Symbol]:
    """Return the symbols of sums with equal values at several points: `2*c0 + c1` with c1 < 3."""
    overlapping: set[sympy.Symbol] = set()
    for node in _nodes(sympy.sympify(expression)):
        if isinstance(node, sympy.Add):
            overlapping |= _overlapping_terms(node, last)
    return overlapping


def _overlapping_terms(node: sympy.Expr, last: Mapping[sympy.Symbol, int]) -> set[sympy.Symbol]:
    terms = [term for term in node.args if symbols_of(term)]
    terms.sort(key=lambda term: (abs(term.as_coeff_Mul()[0]), str(term)))
    reached = Fraction(0)
    smaller_symbols: set[sympy.Symbol] = set()
    overlapping: set[sympy.Symbol] = set()
    for term in terms:
        limits = _bounds(term, last)
        if limits is None:
            return symbols_of(node)
        extent = limits[1] - limits[0]
        if extent == 0:
            continue
        if abs(term.as_coeff_Mul()[0]) <= reached:
            overlapping |= smaller_symbols | symbols_of(term)
        reached += extent
        smaller_symbols |= symbols_of(term)
    return overlapping


def _nodes(node: sympy.Expr) -> Iterator[sympy.Expr]:
    if isinstance(node, IndirectAccess):
        return
    yield node
    for argument in node.args:
        yield from _nodes(argument)
