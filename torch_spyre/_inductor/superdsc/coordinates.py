"""Evaluates, bounds, simplifies and parses device coordinates.

Coordinates are sympy expressions of rational constants, symbols, sums, products, `floor`,
`ceiling`, `Mod` and `IndirectAccess`. Evaluating them here is much faster than substituting in
sympy.
"""

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import sympy

from torch_spyre._inductor.op_spec import IndirectAccess

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_MAX_TEXT_LENGTH = 1000
_MAX_INTEGER = 1 << 62

Number = int | Fraction
Interval = tuple[Number, Number]


def integer_symbol(name: str) -> sympy.Symbol:
    """Return the sympy symbol of an iteration variable or index tensor."""
    return sympy.Symbol(name, integer=True)


def contiguous_strides(device_size: Sequence[int]) -> list[int]:
    """Return the row-major strides of the device dims, in elements."""
    strides = [1]
    for size in reversed(device_size[1:]):
        strides.append(strides[-1] * size)
    return strides[::-1]


def evaluate(
    expression: sympy.Expr,
    point: Mapping[sympy.Symbol, int],
    lookup: Callable[[str], int] = lambda name: 0,
) -> Number:
    """Return the coordinate's value at a point; `lookup` returns the element of an index tensor."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, IndirectAccess):
        return lookup(expression.tensor)
    if expression.is_Symbol:
        return point[expression]
    if expression.is_Integer:
        return int(expression)
    if expression.is_Rational:
        return Fraction(int(expression.p), int(expression.q))
    arguments = [evaluate(argument, point, lookup) for argument in expression.args]
    if expression.is_Add:
        return sum(arguments, start=0)
    if expression.is_Mul:
        return math.prod(arguments, start=1)
    if isinstance(expression, sympy.floor):
        return math.floor(arguments[0])
    if isinstance(expression, sympy.ceiling):
        return math.ceil(arguments[0])
    assert isinstance(expression, sympy.Mod), expression
    return arguments[0] % arguments[1]


def is_coordinate(expression: sympy.Expr) -> bool:
    """Return whether the expression is of the supported functions and always an integer."""
    supported = (sympy.Add, sympy.Mul, sympy.floor, sympy.ceiling, sympy.Mod, IndirectAccess)
    for node in sympy.preorder_traversal(expression):
        if node.args and not isinstance(node, supported):
            return False
        if not node.args and not (node.is_Symbol or node.is_Rational):
            return False
        if isinstance(node, sympy.Mod) and not (node.args[1].is_Integer and node.args[1] > 0):
            return False
    symbols = {
        atom: integer_symbol(f"_{position}")
        for position, atom in enumerate(expression.atoms(IndirectAccess, sympy.Symbol))
    }
    return expression.xreplace(symbols).is_integer is True


def element_offset(
    device_size: Sequence[int],
    coordinates: Sequence[sympy.Expr],
    point: Mapping[sympy.Symbol, int],
    lookup: Callable[[str], int] = lambda name: 0,
) -> int:
    """Return the offset of the element at a point, in elements from the tensor's start."""
    total = sum(
        evaluate(coordinate, point, lookup) * stride
        for coordinate, stride in zip(coordinates, contiguous_strides(device_size), strict=True)
    )
    return int(total)


def bounds(
    expression: sympy.Expr, sizes: Mapping[sympy.Symbol, int], indirect: Interval
) -> Interval:
    """Return the minimum and maximum, exact if every symbol occurs once."""
    if isinstance(expression, IndirectAccess):
        return indirect
    if expression.is_Symbol:
        return 0, sizes[expression] - 1
    if not expression.args:
        constant = evaluate(expression, {})
        return constant, constant
    intervals = [bounds(argument, sizes, indirect) for argument in expression.args]
    if expression.is_Add:
        return sum(low for low, _ in intervals), sum(high for _, high in intervals)
    if expression.is_Mul:
        low: Number = 1
        high: Number = 1
        for interval in intervals:
            corners = [left * right for left in (low, high) for right in interval]
            low, high = min(corners), max(corners)
        return low, high
    if isinstance(expression, sympy.floor):
        return math.floor(intervals[0][0]), math.floor(intervals[0][1])
    if isinstance(expression, sympy.ceiling):
        return math.ceil(intervals[0][0]), math.ceil(intervals[0][1])
    (low, high), (modulus, _) = intervals
    if low // modulus == high // modulus:
        return low % modulus, high % modulus
    return 0, modulus - 1


def direct_symbols(expression: sympy.Expr) -> list[sympy.Symbol]:
    """Return the symbols outside `IndirectAccess`, sorted by name."""
    indirect_symbols = {
        symbol
        for access in expression.atoms(IndirectAccess)
        for symbol in access.atoms(sympy.Symbol)
    }
    return sorted(expression.atoms(sympy.Symbol) - indirect_symbols, key=str)


def index_names(expression: sympy.Expr) -> list[str]:
    """Return the sorted names of the index tensors that the coordinate reads."""
    return sorted(access.tensor for access in expression.atoms(IndirectAccess))


def canonical_view(
    device_size: Sequence[int],
    coordinates: Sequence[sympy.Expr],
    sizes: Mapping[sympy.Symbol, int],
) -> list[tuple[int, sympy.Expr]]:
    """Return device sizes and coordinates in a form that is equal for equivalent tensors."""
    stick = device_size[-1]
    outer = [
        (size, _simplified(coordinate, sizes, stick))
        for size, coordinate in zip(device_size[:-1], coordinates[:-1], strict=True)
        if size > 1
    ]
    return [*outer, (stick, _simplified(coordinates[-1], sizes, stick))]


def has_same_addresses(
    first: tuple[Sequence[int], Sequence[sympy.Expr]],
    second: tuple[Sequence[int], Sequence[sympy.Expr]],
    sizes: Mapping[sympy.Symbol, int],
) -> bool:
    """Return whether two pairs of device sizes and coordinates access the same elements.

    The tensors must also have the same size, so that other ops find the same tensor.
    """
    offsets = [
        sum(
            _simplified(coordinate, sizes, device_size[-1]) * stride
            for coordinate, stride in zip(coordinates, contiguous_strides(device_size), strict=True)
        )
        for device_size, coordinates in (first, second)
    ]
    is_same_size = math.prod(first[0]) == math.prod(second[0])
    return is_same_size and sympy.expand(offsets[0] - offsets[1]) == 0


def _simplified(
    coordinate: sympy.Expr, sizes: Mapping[sympy.Symbol, int], stick: int
) -> sympy.Expr:
    """Replace symbols of size 1 by 0, and `floor` and `Mod` of symbols shorter than one stick."""
    replacements = {
        access: IndirectAccess(integer_symbol(access.tensor), *access.args[1:])
        for access in coordinate.atoms(IndirectAccess)
    }
    for symbol in direct_symbols(coordinate):
        if sizes[symbol] == 1:
            replacements[symbol] = sympy.Integer(0)
        elif sizes[symbol] <= stick:
            replacements[sympy.floor(symbol / stick)] = sympy.Integer(0)
            replacements[sympy.Mod(symbol, stick)] = symbol
    return coordinate.xreplace(replacements) if replacements else coordinate


# --- parsing --------------------------------------------------------------------------------------


def parse(text: str) -> sympy.Expr:
    """Parse the `str` of a coordinate without executing it; raise ValueError for any other text."""
    if len(text) > _MAX_TEXT_LENGTH:
        raise ValueError(f"longer than {_MAX_TEXT_LENGTH} characters")
    try:
        expression = _to_expression(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("not an expression") from error
    if not is_coordinate(expression):
        raise ValueError("is not an integer expression of sums and products")
    return expression


def _to_expression(node: ast.expr) -> sympy.Expr:
    match node:
        case ast.Constant(value=int(integer)) if type(integer) is int and integer <= _MAX_INTEGER:
            return sympy.Integer(integer)
        case ast.Name(id=name):
            return integer_symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_to_expression(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _to_expression(left) + _to_expression(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _to_expression(left) - _to_expression(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _to_expression(left) * _to_expression(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _to_expression(left) / _positive(right)
        case ast.Call(func=ast.Name(id="floor"), args=[argument], keywords=[]):
            return sympy.floor(_to_expression(argument))
        case ast.Call(func=ast.Name(id="ceiling"), args=[argument], keywords=[]):
            return sympy.ceiling(_to_expression(argument))
        case ast.Call(func=ast.Name(id="Mod"), args=[argument, modulus], keywords=[]):
            return sympy.Mod(_to_expression(argument), _positive(modulus))
        case ast.Call(func=ast.Name(id="IndirectAccess"), args=[ast.Name(id=name)], keywords=[]):
            return IndirectAccess(integer_symbol(name))
        case ast.Call(
            func=ast.Name(id="IndirectAccess"), args=[ast.Name(id=name), choices], keywords=[]
        ):
            return IndirectAccess(integer_symbol(name), _positive(choices))
    raise ValueError(f"{ast.unparse(node)[:60]!r} is not allowed in a coordinate")


def _positive(node: ast.expr) -> sympy.Integer:
    integer = _to_expression(node)
    if not (integer.is_Integer and integer > 0):
        raise ValueError(f"{ast.unparse(node)[:60]!r} must be a positive integer")
    return integer
