"""Evaluates the coordinates of accesses at all points of an iteration space.

Every symbol of the space is a dim of the result: of its size if the expression depends on it, else
of size 1.
"""

from collections.abc import Callable, Mapping, Sequence

import sympy
import torch
from sympy import Symbol
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from torch_spyre._inductor.op_spec import IndirectAccess
from torch_spyre.errors import NoReferenceError

# Returns the values of an index tensor at all points.
Lookup = Callable[[IndirectAccess], torch.Tensor]


class Grid:
    """The points of an iteration space; with a `part`, only those with these values of symbols."""

    def __init__(
        self, sizes: Mapping[Symbol, int], part: Mapping[Symbol, range] | None = None
    ) -> None:
        # The values of further symbols, at all points.
        self.values: dict[Symbol, torch.Tensor] = {}
        self.sizes = dict(sizes)
        self.dims = {symbol: dim for dim, symbol in enumerate(self.sizes)}
        part = part or {}
        ranges = {symbol: part.get(symbol, range(size)) for symbol, size in sizes.items()}
        self.shape = tuple(map(len, ranges.values()))
        self._ranges = {
            symbol: torch.arange(values.start, values.stop).view(
                [-1 if d == dim else 1 for d in range(len(sizes))]
            )
            for dim, (symbol, values) in enumerate(ranges.items())
        }

    @property
    def unit_shape(self) -> tuple[int, ...]:
        return (1,) * len(self.sizes)

    def evaluate(self, expression: sympy.Expr | int, lookup: Lookup | None = None) -> torch.Tensor:
        """Return an integer expression of the symbols at all points."""
        value = self._value(sympy.sympify(expression), lookup)
        if isinstance(value, int):
            return torch.full(self.unit_shape, value)
        return value

    def positions(
        self,
        sizes: Sequence[int],
        coordinates: Sequence[sympy.Expr],
        lookup: Lookup | None = None,
    ) -> torch.Tensor:
        """Return the row-major position of the element that each point accesses."""
        total: torch.Tensor | int = 0
        stride = 1
        for size, coordinate in zip(reversed(sizes), reversed(coordinates), strict=True):
            total = total + self.evaluate(coordinate, lookup) * stride
            stride *= size
        return total if isinstance(total, torch.Tensor) else torch.zeros(self.unit_shape).long()

    def _value(self, expression: sympy.Expr, lookup: Lookup | None) -> torch.Tensor | int:
        if expression.is_Integer:
            return int(expression)
        if isinstance(expression, Symbol):
            if expression in self._ranges:
                return self._ranges[expression]
            if expression in self.values:
                return self.values[expression]
            raise NoReferenceError(f"a coordinate with {expression}, which is no loop of the op")
        if isinstance(expression, IndirectAccess):
            if lookup is None:
                raise NoReferenceError("an index that is looked up through another index")
            return lookup(expression)
        if expression.is_Add or expression.is_Mul:
            values = [self._value(argument, lookup) for argument in expression.args]
            total = values[0]
            for value in values[1:]:
                total = total + value if expression.is_Add else total * value
            return total
        if isinstance(expression, sympy.floor):
            numerator, denominator = sympy.fraction(sympy.together(expression.args[0]))
            return self._value(numerator, lookup) // self._value(denominator, lookup)
        if isinstance(expression, sympy.Mod):
            value, modulus = (self._value(argument, lookup) for argument in expression.args)
            return value % modulus
        if isinstance(expression, FloorDiv):
            value, divisor = (self._value(argument, lookup) for argument in expression.args)
            return value // divisor
        if isinstance(expression, ModularIndexing):
            values = [self._value(argument, lookup) for argument in expression.args]
            return values[0] // values[1] % values[2]
        raise NoReferenceError(f"a coordinate {expression}")
