"""Parse affine maps and sets with additional checks, and expressions over SSA values (`%i * 2`)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineExpr,
)
from xdsl.parser import AffineParser, Parser, UnresolvedOperand
from xdsl.utils.mlir_lexer import MLIRToken

# Expressions are trees, and their traversals are recursive.
_MAX_OPERATORS = 200
_MAX_CONSTANT = 1 << 62


class KtirAffineParser(AffineParser):
    """xDSL's affine parser, with a located error for every unsupported map or set."""

    _operators = 0

    def _parse_affine_expr(
        self, parse_optional_bare_id: Callable[[], AffineExpr | None]
    ) -> AffineExpr:
        expression = super()._parse_affine_expr(parse_optional_bare_id)
        if self._operators > _MAX_OPERATORS:
            self.raise_error(f"more than {_MAX_OPERATORS} operators in affine expressions")
        return expression

    def _parse_primary(self, parse_optional_bare_id: Callable[[], AffineExpr | None]) -> AffineExpr:
        self._operators += 1
        if self._operators > 4 * _MAX_OPERATORS:
            self.raise_error("affine expression too long")
        token = self._current_token
        primary = super()._parse_primary(parse_optional_bare_id)
        self._operators -= 1
        return self._checked_range(primary, token)

    def _create_binop_expr(self, lhs: AffineExpr, rhs: AffineExpr, binop: MLIRToken) -> AffineExpr:
        self._operators += 1
        constants = [isinstance(side, AffineConstantExpr) for side in (lhs, rhs)]
        if binop.text == "*" and not any(constants):
            self.raise_error(
                "a product in an affine expression needs a constant factor", binop.span
            )
        if binop.text in ("floordiv", "ceildiv", "mod") and (
            not isinstance(rhs, AffineConstantExpr) or rhs.value <= 0
        ):
            self.raise_error(f"{binop.text} needs a positive constant divisor", binop.span)
        return self._checked_range(super()._create_binop_expr(lhs, rhs, binop), binop)

    def _checked_range(self, expression: AffineExpr, token: MLIRToken) -> AffineExpr:
        constant = expression.rhs if isinstance(expression, AffineBinaryOpExpr) else expression
        if isinstance(constant, AffineConstantExpr) and abs(constant.value) > _MAX_CONSTANT:
            self.raise_error("a constant in an affine expression exceeds 62 bits", token.span)
        return expression

    def _parse_affine_constraint(
        self, parse_optional_bare_id: Callable[[], AffineExpr | None]
    ) -> AffineConstraintExpr:
        lhs = self._parse_affine_expr(parse_optional_bare_id)
        for kind in AffineConstraintKind:
            if self.parse_optional_characters(kind.value[0]) is not None:
                self.parse_characters("=", " in affine constraint")
                return AffineConstraintExpr(
                    kind, lhs, self._parse_affine_expr(parse_optional_bare_id)
                )
        self.raise_error("expected `>=`, `<=` or `==` in affine constraint")

    def _parse_affine_space(self) -> tuple[list[str], list[str]]:
        position = self.pos
        dims, symbols = super()._parse_affine_space()
        names = dims + symbols
        if len(set(names)) != len(names):
            self.raise_error("a name occurs twice among dims and symbols", position)
        return dims, symbols


@dataclass
class OperandExpressions:
    """Parses affine expressions over SSA values, which become dims in order of appearance.

    `fixed` maps some names to expressions, such as the variables of an indirect tile.
    """

    parser: Parser
    fixed: dict[str, AffineExpr] = field(default_factory=dict)
    operands: list[UnresolvedOperand] = field(default_factory=list)

    def parse(self) -> AffineExpr:
        return KtirAffineParser(self.parser._parser_state)._parse_affine_expr(self._parse_atom)

    def _parse_atom(self) -> AffineExpr | None:
        operand = self.parser.parse_optional_unresolved_operand()
        if operand is None:
            return None
        if operand.operand_name in self.fixed:
            return self.fixed[operand.operand_name]
        for position, known in enumerate(self.operands):
            if (known.operand_name, known.index) == (operand.operand_name, operand.index):
                return AffineExpr.dimension(position)
        self.operands.append(operand)
        return AffineExpr.dimension(len(self.operands) - 1)
