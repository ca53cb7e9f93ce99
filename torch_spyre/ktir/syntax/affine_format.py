"""Print affine expressions, maps and sets as MLIR does: `-d0 + 31`, not `((d0 * -1) + 31)`.

Parsing the text again returns the same structure.
"""

from collections.abc import Sequence

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
    AffineSymExpr,
)

_SUM, _PRODUCT, _ATOM = range(3)


def format_expression(
    expression: AffineExpr, dims: Sequence[str], symbols: Sequence[str] = ()
) -> str:
    return _Formatter(dims, symbols).text(expression, _SUM)


def format_map(affine_map: AffineMap) -> str:
    formatter = _default_formatter(affine_map)
    results = ", ".join(formatter.text(result, _SUM) for result in affine_map.results)
    return f"affine_map<{formatter.space()} -> ({results})>"


def format_set(affine_set: AffineSet) -> str:
    formatter = _default_formatter(affine_set)
    constraints = ", ".join(
        f"{formatter.text(constraint.lhs, _SUM)} {constraint.kind.value} "
        f"{formatter.text(constraint.rhs, _SUM)}"
        for constraint in affine_set.constraints
    )
    return f"affine_set<{formatter.space()} : ({constraints})>"


def _default_formatter(space: AffineMap | AffineSet) -> "_Formatter":
    return _Formatter(
        [f"d{position}" for position in range(space.num_dims)],
        [f"s{position}" for position in range(space.num_symbols)],
    )


class _Formatter:
    def __init__(self, dims: Sequence[str], symbols: Sequence[str]) -> None:
        self._dims = dims
        self._symbols = symbols

    def space(self) -> str:
        symbols = f"[{', '.join(self._symbols)}]" if self._symbols else ""
        return f"({', '.join(self._dims)}){symbols}"

    def text(self, expression: AffineExpr, precedence: int) -> str:
        """Return the expression as text, in parentheses if its precedence is below `precedence`."""
        match expression:
            case AffineConstantExpr():
                return str(expression.value)
            case AffineDimExpr():
                return self._dims[expression.position]
            case AffineSymExpr():
                return self._symbols[expression.position]
            case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
                text, own_precedence = self._sum(expression), _SUM
            case AffineBinaryOpExpr():
                text, own_precedence = self._product(expression), _PRODUCT
            case _:
                raise AssertionError(f"unknown affine expression {expression!r}")
        return text if own_precedence >= precedence else f"({text})"

    def _sum(self, expression: AffineBinaryOpExpr) -> str:
        left = self.text(expression.lhs, _SUM)
        right = expression.rhs
        if isinstance(right, AffineConstantExpr) and right.value < 0:
            return f"{left} - {-right.value}"
        if _is_negative_product(right):
            assert isinstance(right, AffineBinaryOpExpr)
            assert isinstance(right.rhs, AffineConstantExpr)
            if right.rhs.value == -1:
                return f"{left} - {self.text(right.lhs, _PRODUCT)}"
            return f"{left} - {self.text(right.lhs, _PRODUCT)} * {-right.rhs.value}"
        # A sum on the right needs parentheses: addition is left-associative.
        return f"{left} + {self.text(right, _PRODUCT)}"

    def _product(self, expression: AffineBinaryOpExpr) -> str:
        if _is_negative_product(expression) and expression.rhs == AffineConstantExpr(-1):
            return f"-{self.text(expression.lhs, _ATOM)}"
        left = self.text(expression.lhs, _PRODUCT)
        if left.startswith("-"):
            left = f"({left})"
        return f"{left} {expression.kind.get_token()} {self.text(expression.rhs, _ATOM)}"


def _is_negative_product(expression: AffineExpr) -> bool:
    return (
        isinstance(expression, AffineBinaryOpExpr)
        and expression.kind is AffineBinaryOpKind.Mul
        and isinstance(expression.rhs, AffineConstantExpr)
        and expression.rhs.value < 0
    )
