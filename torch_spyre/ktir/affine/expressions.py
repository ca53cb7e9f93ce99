"""Evaluate affine expressions on integers or NumPy arrays, and convert them to linear forms.

`floordiv` rounds down, `ceildiv` rounds up, `mod` is never negative. Divisors are positive.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

IntegerArray: TypeAlias = NDArray[np.int64]
Value: TypeAlias = int | IntegerArray


def _ceildiv(left: Value, right: Value) -> Value:
    return -(-left // right)


_OPERATIONS: dict[AffineBinaryOpKind, Callable[[Value, Value], Value]] = {
    AffineBinaryOpKind.Add: lambda left, right: left + right,
    AffineBinaryOpKind.Mul: lambda left, right: left * right,
    AffineBinaryOpKind.Mod: lambda left, right: left % right,
    AffineBinaryOpKind.FloorDiv: lambda left, right: left // right,
    AffineBinaryOpKind.CeilDiv: _ceildiv,
}


def evaluate(expression: AffineExpr, dims: Sequence[Value], symbols: Sequence[Value] = ()) -> Value:
    """Return the value of an expression; array inputs are combined elementwise."""
    match expression:
        case AffineConstantExpr():
            return expression.value
        case AffineDimExpr():
            return dims[expression.position]
        case AffineSymExpr():
            return symbols[expression.position]
        case AffineBinaryOpExpr():
            left = evaluate(expression.lhs, dims, symbols)
            right = evaluate(expression.rhs, dims, symbols)
            return _OPERATIONS[expression.kind](left, right)
    raise AssertionError(f"unknown affine expression {expression!r}")


@dataclass(frozen=True)
class LinearForm:
    """`constant + sum of coefficient * variable`. Variables are numbered by a Linearizer."""

    coefficients: dict[int, int]
    constant: int

    def plus(self, other: "LinearForm", factor: int = 1) -> "LinearForm":
        """Return `self + factor * other`."""
        merged = dict(self.coefficients)
        for variable, coefficient in other.coefficients.items():
            merged[variable] = merged.get(variable, 0) + factor * coefficient
        nonzero = {variable: value for variable, value in merged.items() if value}
        return LinearForm(nonzero, self.constant + factor * other.constant)


@dataclass
class Linearizer:
    """Converts expressions to linear forms over the dims and one extra variable per division.

    `q = e floordiv m` becomes a variable q with `0 <= e - m*q <= m - 1`; ceildiv and mod follow
    from it. The constraints `form >= 0` are collected in `inequalities`.
    """

    num_dims: int
    symbols: Sequence[int]
    inequalities: list[LinearForm] = field(default_factory=list)
    _quotients: dict[tuple[AffineExpr, int], int] = field(default_factory=dict)

    @property
    def num_variables(self) -> int:
        return self.num_dims + len(self._quotients)

    def linearize(self, expression: AffineExpr) -> LinearForm:
        match expression:
            case AffineConstantExpr():
                return LinearForm({}, expression.value)
            case AffineDimExpr():
                return LinearForm({expression.position: 1}, 0)
            case AffineSymExpr():
                return LinearForm({}, self.symbols[expression.position])
            case AffineBinaryOpExpr():
                return self._binary(expression)
        raise AssertionError(f"unknown affine expression {expression!r}")

    def _binary(self, expression: AffineBinaryOpExpr) -> LinearForm:
        left = self.linearize(expression.lhs)
        right = self.linearize(expression.rhs)
        zero = LinearForm({}, 0)
        match expression.kind:
            case AffineBinaryOpKind.Add:
                return left.plus(right)
            case AffineBinaryOpKind.Mul:
                factor, form = (right, left) if not right.coefficients else (left, right)
                return zero.plus(form, factor.constant)
            case AffineBinaryOpKind.FloorDiv:
                return self._quotient(expression.lhs, left, right.constant)
            case AffineBinaryOpKind.CeilDiv:
                divisor = right.constant
                raised = left.plus(LinearForm({}, divisor - 1))
                return self._quotient(expression.lhs + (divisor - 1), raised, divisor)
            case AffineBinaryOpKind.Mod:
                quotient = self._quotient(expression.lhs, left, right.constant)
                return left.plus(quotient, -right.constant)

    def _quotient(self, numerator: AffineExpr, form: LinearForm, divisor: int) -> LinearForm:
        if not form.coefficients:
            return LinearForm({}, form.constant // divisor)
        key = (numerator, divisor)
        if key not in self._quotients:
            variable = self._quotients[key] = self.num_variables
            remainder = form.plus(LinearForm({variable: 1}, 0), -divisor)
            self.inequalities.append(remainder)
            self.inequalities.append(LinearForm({}, divisor - 1).plus(remainder, -1))
        return LinearForm({self._quotients[key]: 1}, 0)
