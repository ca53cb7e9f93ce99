"""Arithmetic on device coordinates: values, bounds, symbols, and a text form that is safe to read.

Coordinates are sympy expressions of numbers, symbols, sums, products, `floor`, `ceiling`, `Mod` and
`IndirectAccess`. Evaluating them here is far quicker than sympy's substitution.
"""

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import sympy

from torch_spyre._inductor.op_spec import IndirectAccess

NAME = re.compile(r"[A-Za-z_]\w*")
_LONGEST_TEXT = 1000
_LARGEST_NUMBER = 1 << 62

Number = int | Fraction
Interval = tuple[Number, Number]


def integer_symbol(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True)


def strides_of(device_size: Sequence[int]) -> list[int]:
    """Elements from one index of each device dim to the next."""
    strides = [1]
    for size in reversed(device_size[1:]):
        strides.append(strides[-1] * size)
    return strides[::-1]


def value(
    expression: sympy.Expr,
    point: Mapping[sympy.Symbol, int],
    lookup: Callable[[str], int] = lambda name: 0,
) -> Number:
    """At a point; `lookup` gives the element of a named index tensor there."""
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
    arguments = [value(each, point, lookup) for each in expression.args]
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
    """Is it made of what this module knows, and always an integer?"""
    known = (sympy.Add, sympy.Mul, sympy.floor, sympy.ceiling, sympy.Mod, IndirectAccess)
    for each in sympy.preorder_traversal(expression):
        if each.args and not isinstance(each, known):
            return False
        if not each.args and not (each.is_Symbol or each.is_Rational):
            return False
        if isinstance(each, sympy.Mod) and not (each.args[1].is_Integer and each.args[1] > 0):
            return False
    symbols = {
        each: integer_symbol(f"_{number}")
        for number, each in enumerate(expression.atoms(IndirectAccess, sympy.Symbol))
    }
    return expression.xreplace(symbols).is_integer is True


def address(
    device_size: Sequence[int],
    coordinates: Sequence[sympy.Expr],
    point: Mapping[sympy.Symbol, int],
    lookup: Callable[[str], int] = lambda name: 0,
) -> int:
    """Elements from the tensor's start to the one that belongs to the point."""
    total = sum(
        value(coordinate, point, lookup) * stride
        for coordinate, stride in zip(coordinates, strides_of(device_size), strict=True)
    )
    return int(total)


def bounds(
    expression: sympy.Expr, sizes: Mapping[sympy.Symbol, int], indirect: Interval
) -> Interval:
    """Lowest and highest value, exact where every symbol occurs once."""
    if isinstance(expression, IndirectAccess):
        return indirect
    if expression.is_Symbol:
        return 0, sizes[expression] - 1
    if not expression.args:
        fixed = value(expression, {})
        return fixed, fixed
    parts = [bounds(each, sizes, indirect) for each in expression.args]
    if expression.is_Add:
        return sum(low for low, _ in parts), sum(high for _, high in parts)
    if expression.is_Mul:
        low: Number = 1
        high: Number = 1
        for part in parts:
            corners = [one * other for one in (low, high) for other in part]
            low, high = min(corners), max(corners)
        return low, high
    if isinstance(expression, sympy.floor):
        return math.floor(parts[0][0]), math.floor(parts[0][1])
    if isinstance(expression, sympy.ceiling):
        return math.ceil(parts[0][0]), math.ceil(parts[0][1])
    (low, high), (modulus, _) = parts
    if low // modulus == high // modulus:
        return low % modulus, high % modulus
    return 0, modulus - 1


def direct_symbols(expression: sympy.Expr) -> list[sympy.Symbol]:
    """Outside index tensors, by name."""
    found = expression.atoms(sympy.Symbol) - {
        symbol for each in expression.atoms(IndirectAccess) for symbol in each.atoms(sympy.Symbol)
    }
    return sorted(found, key=str)


def index_names(expression: sympy.Expr) -> list[str]:
    return sorted(each.tensor for each in expression.atoms(IndirectAccess))


def nontrivial(
    device_size: Sequence[int],
    coordinates: Sequence[sympy.Expr],
    sizes: Mapping[sympy.Symbol, int],
) -> list[tuple[int, sympy.Expr]]:
    """Dims and coordinates in a form in which two descriptions of one tensor are equal."""
    stick = device_size[-1]
    kept = [
        (size, _without_needless(coordinate, sizes, stick))
        for size, coordinate in zip(device_size[:-1], coordinates[:-1], strict=True)
        if size > 1
    ]
    return [*kept, (stick, _without_needless(coordinates[-1], sizes, stick))]


def _without_needless(
    coordinate: sympy.Expr, sizes: Mapping[sympy.Symbol, int], stick: int
) -> sympy.Expr:
    """A symbol that stays within one stick makes its `floor` 0 and its `Mod` the symbol."""
    exact = {
        each: IndirectAccess(integer_symbol(each.tensor), *each.args[1:])
        for each in coordinate.atoms(IndirectAccess)
    }
    for symbol in direct_symbols(coordinate):
        if sizes[symbol] == 1:
            exact[symbol] = sympy.Integer(0)
        elif sizes[symbol] <= stick:
            exact[sympy.floor(symbol / stick)] = sympy.Integer(0)
            exact[sympy.Mod(symbol, stick)] = symbol
    return coordinate.xreplace(exact) if exact else coordinate


# --- text -----------------------------------------------------------------------------------------


def parse(text: str) -> sympy.Expr:
    """Read what `str` made of a coordinate. Nothing is executed; ValueError for anything else."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"longer than {_LONGEST_TEXT} characters")
    try:
        expression = _built(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("not an expression") from error
    if not is_coordinate(expression):
        raise ValueError("is not always an integer, or not made of sums and products of numbers")
    return expression


def _built(node: ast.expr) -> sympy.Expr:
    match node:
        case ast.Constant(value=int(number)) if type(number) is int and number <= _LARGEST_NUMBER:
            return sympy.Integer(number)
        case ast.Name(id=name):
            return integer_symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_built(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _built(left) + _built(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _built(left) - _built(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _built(left) * _built(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _built(left) / _positive(right)
        case ast.Call(func=ast.Name(id="floor"), args=[argument], keywords=[]):
            return sympy.floor(_built(argument))
        case ast.Call(func=ast.Name(id="ceiling"), args=[argument], keywords=[]):
            return sympy.ceiling(_built(argument))
        case ast.Call(func=ast.Name(id="Mod"), args=[argument, modulus], keywords=[]):
            return sympy.Mod(_built(argument), _positive(modulus))
        case ast.Call(func=ast.Name(id="IndirectAccess"), args=[ast.Name(id=name)], keywords=[]):
            return IndirectAccess(integer_symbol(name))
        case ast.Call(
            func=ast.Name(id="IndirectAccess"), args=[ast.Name(id=name), choices], keywords=[]
        ):
            return IndirectAccess(integer_symbol(name), _positive(choices))
    raise ValueError(f"{ast.unparse(node)[:60]!r} is not part of a coordinate")


def _positive(node: ast.expr) -> sympy.Integer:
    number = _built(node)
    if not (number.is_Integer and number > 0):
        raise ValueError(f"{ast.unparse(node)[:60]!r} must be a positive number")
    return number
