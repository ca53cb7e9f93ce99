"""The KTIR parser: xDSL's with syntax extensions, exact SSA names, and a location on every op."""

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap, AffineSet
from xdsl.parser import ForwardDeclaredValue, ParserState, UnresolvedOperand
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Position, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from torch_spyre.errors import KtirError
from torch_spyre.ktir.dialects.context import ktir_context
from torch_spyre.ktir.dialects.ktdp import SpyreMemorySpaceAttr
from torch_spyre.ktir.locations import location
from torch_spyre.ktir.source import Source
from torch_spyre.ktir.suggestions import op_suggestion
from torch_spyre.ktir.syntax.affine_parser import KtirAffineParser
from torch_spyre.ktir.syntax.literals import LiteralParser
from torch_spyre.ktir.syntax.names import set_exact_name
from torch_spyre.ktir.syntax.syntax_extensions import CURRENT_NAMES, EXTENDED_PARSERS, parse_infix

_ALIAS_TOKENS = (MLIRTokenKind.HASH_IDENT, MLIRTokenKind.EXCLAMATION_IDENT)


def parse_text(source: Source) -> ModuleOp:
    """Parse a whole text. Raise KtirError for whatever is wrong with it."""
    parser = None
    try:
        parser = KtirParser(source)
        return parser.parse_module()
    except ParseError as error:
        raise KtirError(error.msg, source.location(error.span.start, error.span.end)) from error
    except RecursionError as error:
        raise KtirError("nested too deeply", _current_location(source, parser)) from error
    # xDSL constructs ops while it parses, and reports invalid ones by assertions, ValueError,
    # OverflowError and others. All of them are converted to a KtirError here.
    except Exception as error:
        name = f"{parser.operation_name}: " if parser is not None else ""
        # Assertions have no message, and a TypeError describes a call inside xDSL.
        message = str(error) if not isinstance(error, TypeError) else ""
        problem = message or "its operands, types and attributes do not match"
        raise KtirError(f"{name}{problem}", _current_location(source, parser)) from error


def _current_location(source: Source, parser: "KtirParser | None") -> Any:
    position = parser.operation_start if parser is not None else 0
    return source.word_at(*source.line_and_column(position))


class _KtirLexer(MLIRLexer):
    """xDSL's lexer with a string pattern that takes linear time on an unterminated string."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class KtirParser(LiteralParser):
    """Parses one text. `operation_name` and `operation_start` identify the op being parsed."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._file = StringAttr(source.name)
        self._operations: list[tuple[str, Position]] = []
        self._first_uses: dict[str, Span] = {}
        super().__init__(ktir_context(), "", source.name)
        self._parser_state = ParserState(_KtirLexer(Input(source.text, source.name)))

    @property
    def operation_name(self) -> str:
        return self._operations[-1][0] if self._operations else "module"

    @property
    def operation_start(self) -> Position:
        return self._operations[-1][1] if self._operations else 0

    def raise_error(
        self,
        msg: str,
        at_position: Any = None,
        end_position: Position | None = None,
    ) -> NoReturn:
        if self._operations and not msg.startswith(self.operation_name):
            msg = f"{self.operation_name}: {msg}"
        # xDSL accepts None as a position; its overloads omit that.
        super().raise_error(msg, at_position, end_position)  # type: ignore[arg-type]

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        operations: list[Operation] = []
        while self._current_token.kind != MLIRTokenKind.EOF:
            if self._current_token.kind in _ALIAS_TOKENS:
                self._parse_alias_def()
            elif (operation := self.parse_optional_operation()) is not None:
                operations.append(operation)
            else:
                self.raise_error("expected an op, an alias or the end of the text")
        self._check_all_defined()
        if len(operations) == 1 and isinstance(operations[0], ModuleOp):
            return operations[0]
        return ModuleOp(_flattened(operations))

    def _parse_alias_def(self) -> None:
        """(`#` | `!`) name `=` attribute"""
        token = self._consume_token()
        if token.text in self.attribute_aliases:
            raise ParseError(token.span, f"alias {token.text} is defined twice")
        self.parse_punctuation("=", f" after alias {token.text}")
        self.attribute_aliases[token.text] = self.parse_attribute()

    def parse_operation(self) -> Operation:
        results = self._parse_op_result_list()
        token = self._current_token
        self._operations.append((token.text.strip('"'), token.span.start))
        operation, source = self._parse_operation_body(bool(results))
        self._operations.pop()
        self._check_operands(operation, token.span)
        if operation.get_traits_of_type(IsolatedFromAbove):
            self._check_all_defined()
        line, column = self._source.line_and_column(token.span.start)
        position = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        operation.location = location(position, source)
        self._bind_results(operation, results, token.span)
        return operation

    def _parse_operation_body(self, has_results: bool) -> tuple[Operation, LocationAttr | None]:
        """Parse an op and its `loc(...)`, if there is one."""
        token = self._current_token
        if has_results and token.kind == MLIRTokenKind.PERCENT_IDENT:
            return parse_infix(self), self.parse_optional_location()
        is_generic = token.kind == MLIRTokenKind.STRING_LIT
        if is_generic:
            name = self.parse_str_literal()
        else:
            name = self._parse_token(MLIRTokenKind.BARE_IDENT, "expected the name of an op").text
        kind = self.ctx.get_optional_op(
            CURRENT_NAMES.get(name, name), dialect_stack=self._parser_state.dialect_stack
        )
        if kind is None:
            known = (op.name for op in self.ctx.loaded_ops)
            raise ParseError(token.span, f"unknown op {name}{op_suggestion(name, known)}")
        self._parser_state.dialect_stack.append(kind.dialect_name())
        if is_generic:
            operation = self._parse_generic_operation(kind)
            source: LocationAttr | None = operation.location
        else:
            operation = EXTENDED_PARSERS.get(kind.name, kind.parse)(self)
            source = self.parse_optional_location()
        self._parser_state.dialect_stack.pop()
        return operation, source

    def _bind_results(
        self, operation: Operation, results: Sequence[tuple[Span, int]], span: Span
    ) -> None:
        num_names = sum(size for _, size in results)
        if num_names and num_names != len(operation.results):
            raise ParseError(
                span, f"{operation.name} has {len(operation.results)} results, not {num_names}"
            )
        start = 0
        for name, size in results:
            values = operation.results[start : start + size]
            self._register_ssa_definition(name.text[1:], values, name)
            start += size

    def _parse_block(self) -> Block:
        if self._current_token.kind != MLIRTokenKind.CARET_IDENT:
            self.raise_error("expected an op, or `}` at the end of the region")
        return super()._parse_block()

    def _parse_block_body(self, block: Block) -> None:
        """Parse the ops of a block, with alias definitions between them."""
        while True:
            if self._current_token.kind in _ALIAS_TOKENS:
                self._parse_alias_def()
                continue
            operation = self.parse_optional_operation()
            if operation is None:
                return
            block.add_op(operation)

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        for value in values:
            set_exact_name(value, name)

    def resolve_operand(self, operand: UnresolvedOperand, type: Any) -> Any:
        if operand.operand_name not in self.ssa_values:
            self._first_uses.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)

    def _check_operands(self, operation: Operation, span: Span) -> None:
        """Raise if an operand is defined only inside the op's own region."""
        for operand in operation.operands:
            if isinstance(operand, ForwardDeclaredValue) and not any(
                operand in values.values() for values in self.forward_ssa_references.values()
            ):
                raise ParseError(
                    span, f"{operation.name}: an operand is defined inside the op's own region"
                )

    def _check_all_defined(self) -> None:
        for name in self.forward_ssa_references:
            raise ParseError(self._first_uses[name], f"%{name} is used but never defined")

    def _parse_dialect_type_or_attribute_body(
        self,
        attr_name: str,
        is_type: bool,
        is_opaque: bool,
        starting_opaque_pos: Position | None,
    ) -> Attribute:
        position = self.pos
        try:
            attribute: Attribute = super()._parse_dialect_type_or_attribute_body(
                attr_name, is_type, is_opaque, starting_opaque_pos
            )
        except VerifyException as error:
            self.raise_error(str(error), position, self.pos)
        if isinstance(attribute, SpyreMemorySpaceAttr):
            return attribute.canonical()
        return attribute

    def parse_affine_map(self) -> AffineMap:
        return KtirAffineParser(self._parser_state).parse_affine_map()

    def parse_affine_set(self) -> AffineSet:
        return KtirAffineParser(self._parser_state).parse_affine_set()


def _flattened(operations: Sequence[Operation]) -> list[Operation]:
    """Return the functions of a text with several modules, or functions outside a module."""
    flat: list[Operation] = []
    for operation in operations:
        if isinstance(operation, ModuleOp):
            inner = list(operation.body.block.ops)
            for function in inner:
                operation.body.block.detach_op(function)
            flat += inner
        else:
            flat.append(operation)
    return flat
