"""Parsing and printing helpers of the `ktdp` ops."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from xdsl.dialects.builtin import AffineMapAttr, AffineSetAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.ir.affine import AffineExpr
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from torch_spyre.ktir.suggestions import suggestion
from torch_spyre.ktir.syntax.affine_format import format_expression
from torch_spyre.ktir.syntax.printer import value_name

AttributeT = TypeVar("AttributeT", bound=Attribute)


def parse_type_of(parser: Parser, kind: type[AttributeT]) -> AttributeT:
    """Parse a type of class `kind`, in full or elided to its `<...>`."""
    position = parser.pos
    if parser.parse_optional_punctuation("<") is not None:
        parser._resume_from(position)
        assert issubclass(kind, ParametrizedAttribute)
        parsed_type: Attribute = kind.new(kind.parse_parameters(parser))
    else:
        parsed_type = parser.parse_type()
    if not isinstance(parsed_type, kind):
        parser.raise_error(
            f"expected a type !{kind.name}, found {parsed_type}", position, parser.pos
        )
    return parsed_type


def print_elided(printer: Printer, attribute: Attribute) -> None:
    """Print a type without its name, as MLIR does for operand types of the op's own dialect."""
    assert isinstance(attribute, ParametrizedAttribute)
    attribute.print_parameters(printer)


def parse_operands_in_parens(parser: Parser) -> list[UnresolvedOperand]:
    return parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, parser.parse_unresolved_operand
    )


def parse_types(parser: Parser) -> list[TypeAttribute]:
    return parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)


def parse_tensor_types(parser: Parser) -> list[Attribute]:
    position = parser.pos
    types = parse_types(parser)
    for parsed_type in types:
        if not isinstance(parsed_type, TensorType):
            parser.raise_error(f"expected a ranked tensor type, found {parsed_type}", position)
    return list(types)


def parse_typed_operands(parser: Parser) -> list[SSAValue]:
    """Parse `(` [ssa {`,` ssa} `:` type {`,` type}] `)`"""
    position = parser.pos
    parser.parse_punctuation("(")
    if parser.parse_optional_punctuation(")") is not None:
        return []
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    parser.parse_punctuation(":")
    types = parse_types(parser)
    parser.parse_punctuation(")")
    return list(parser.resolve_operands(operands, types, position))


def print_typed_operands(printer: Printer, operands: Sequence[SSAValue]) -> None:
    with printer.in_parens():
        if operands:
            printer.print_list(operands, printer.print_operand)
            printer.print_string(" : ")
            printer.print_list([operand.type for operand in operands], printer.print_attribute)


def pop_attribute(
    parser: Parser,
    attributes: dict[str, Attribute],
    name: str,
    kind: type[AttributeT],
    default: Callable[[], AttributeT] | None = None,
) -> AttributeT:
    """Remove an entry of class `kind` from a parsed attribute dictionary and return it."""
    attribute = attributes.pop(name, None)
    if attribute is None:
        if default is None:
            parser.raise_error(f"{name} is missing{_misspelled(name, attributes)}")
        return default()
    if not isinstance(attribute, kind):
        descriptions = {AffineSetAttr: "an affine set", AffineMapAttr: "an affine map"}
        description = descriptions.get(kind, kind.__name__)
        parser.raise_error(f"{name} must be {description}, not {attribute}")
    return attribute


def _misspelled(name: str, attributes: Iterable[str]) -> str:
    """Return a hint at an attribute whose name is nearly the missing one."""
    similar = get_close_matches(name, list(attributes), n=1, cutoff=0.7)
    return f"; did you mean {name} by {similar[0]}?" if similar else ""


def check_attribute_names(
    parser: Parser, attributes: Iterable[str], known: Iterable[str], position: int
) -> None:
    """Raise for an attribute whose name is nearly one that the op knows, and ignored otherwise."""
    names = list(known)
    for name in attributes:
        if name not in names and (hint := suggestion(name, names)):
            parser.raise_error(f"unknown attribute {name}{hint}", position)


def print_attributes(
    printer: Printer, named: Mapping[str, Attribute | None], additional: Mapping[str, Attribute]
) -> None:
    """Print `{name = attribute, ...}`, or nothing if there are no attributes."""
    entries = {name: value for name, value in (*named.items(), *additional.items()) if value}
    printer.print_op_attributes(entries)


def value_names(printer: Printer, values: Iterable[SSAValue]) -> list[str]:
    """Return the `%names` that a printer uses for values, without printing them."""
    return [f"%{value_name(printer, value)}" for value in values]


def print_expressions(
    printer: Printer, expressions: Sequence[AffineExpr], operands: Sequence[SSAValue]
) -> None:
    """Print affine expressions with the operands' names as dims."""
    names = value_names(printer, operands)
    printer.print_list(
        expressions, lambda expression: printer.print_string(format_expression(expression, names))
    )
