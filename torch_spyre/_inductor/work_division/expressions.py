"""What division needs to know of a coordinate: its symbols, its bounds, where it cuts a symbol."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import floor

import sympy

from torch_spyre._inductor.op_spec import IndirectAccess, TensorArg, index_names

Bounds = tuple[Fraction, Fraction]


def symbols_of(expression: sympy.Expr | int) -> set[sympy.Symbol]:
    """Those of the iteration space; an indirect access hides the point it is read at."""
    return {
        node
        for node in _nodes(sympy.sympify(expression))
        if isinstance(node, sympy.Symbol) and node.is_Symbol
    }


def is_indirect(tensor: TensorArg) -> bool:
    return bool(index_tensors(tensor))


def index_tensors(tensor: TensorArg) -> set[str]:
    """Names of the tensors whose values say where in `tensor` to read or write."""
    return set(index_names(tensor))


def bounds(expression: sympy.Expr | int, last: Mapping[sympy.Symbol, int]) -> Bounds | None:
    """Least and greatest value while each symbol runs from 0 to its `last`; None: not known.

    Exact where no symbol occurs twice, and never too narrow.
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
    found = [_bounds(each, last) for each in node.args]
    parts = [each for each in found if each is not None]
    if len(parts) < len(found):
        return None
    if isinstance(node, sympy.Add):
        return sum((low for low, _ in parts), Fraction(0)), sum(
            (high for _, high in parts), Fraction(0)
        )
    if isinstance(node, sympy.Mul):
        return _product(parts)
    low, high = parts[0]
    if isinstance(node, sympy.floor):
        return Fraction(floor(low)), Fraction(floor(high))
    divisor, other = parts[1]
    if divisor != other or divisor <= 0:
        return None
    if low // divisor == high // divisor:
        return low % divisor, high % divisor
    return Fraction(0), divisor - 1


def _product(parts: list[Bounds]) -> Bounds:
    low = high = Fraction(1)
    for least, greatest in parts:
        corners = [low * least, low * greatest, high * least, high * greatest]
        low, high = min(corners), max(corners)
    return low, high


def cuts(expression: sympy.Expr | int) -> Iterator[tuple[sympy.Symbol, Fraction]]:
    """Where floors and moduli cut a symbol into blocks: (symbol, elements in a block).

    `Mod(c, 2)` and `floor(c/2)` cut c into blocks of 2, `Mod(floor(c/64), 2)` into blocks of 64 and
    of 128. Sums have no such blocks, and are left out.
    """
    for node in _nodes(sympy.sympify(expression)):
        if isinstance(node, sympy.floor):
            step = _step(node.args[0])
            if step is not None:
                yield step
        if isinstance(node, sympy.Mod) and node.args[1].is_Integer:
            step = _step(node.args[0])
            if step is not None:
                yield step[0], step[1] * int(node.args[1])


def _step(node: sympy.Expr) -> tuple[sympy.Symbol, Fraction] | None:
    """The one symbol of the expression, and by how many elements of it the value grows by one."""
    coefficient, rest = node.as_coeff_Mul()
    if not coefficient.is_Rational or coefficient <= 0:
        return None
    scale = Fraction(int(coefficient.q), int(coefficient.p))
    if rest.is_Symbol:
        return rest, scale
    if isinstance(rest, sympy.floor | sympy.Mod):
        inner = _step(rest.args[0])
        return None if inner is None else (inner[0], inner[1] * scale)
    return None


def overlapping(
    expression: sympy.Expr | int, last: Mapping[sympy.Symbol, int]
) -> set[sympy.Symbol]:
    """Symbols of a sum that reach the same value from different points: `2*c0 + c1` with c1 < 3."""
    found: set[sympy.Symbol] = set()
    for node in _nodes(sympy.sympify(expression)):
        if isinstance(node, sympy.Add):
            found |= _overlapping_terms(node, last)
    return found


def _overlapping_terms(node: sympy.Expr, last: Mapping[sympy.Symbol, int]) -> set[sympy.Symbol]:
    terms = [term for term in node.args if symbols_of(term)]
    terms.sort(key=lambda term: (abs(term.as_coeff_Mul()[0]), str(term)))
    reached = Fraction(0)
    below: set[sympy.Symbol] = set()
    found: set[sympy.Symbol] = set()
    for term in terms:
        limits = _bounds(term, last)
        if limits is None:
            return symbols_of(node)
        extent = limits[1] - limits[0]
        if extent == 0:
            continue
        if abs(term.as_coeff_Mul()[0]) <= reached:
            found |= below | symbols_of(term)
        reached += extent
        below |= symbols_of(term)
    return found


def _nodes(node: sympy.Expr) -> Iterator[sympy.Expr]:
    if isinstance(node, IndirectAccess):
        return
    yield node
    for each in node.args:
        yield from _nodes(each)
