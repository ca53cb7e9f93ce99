"""Syntax extensions: forms that other producers of KTIR emit and xDSL or MLIR does not accept.

Each function parses one op, after its name, in the standard or an extended form, and returns the
same op for both. The parser prefers these functions to the op's own parser.
"""

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IndexType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    i1,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, ReduceOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.traits import SingleBlockImplicitTerminator, ensure_terminator

# Older names of ops, and names that only the reference interpreter accepts.
CURRENT_NAMES = {
    "arith.maxf": "arith.maximumf",
    "arith.minf": "arith.minimumf",
    "arith.absf": "math.absf",
    "module": "builtin.module",
}

INFIX_OPERATIONS = {"*": "arith.muli", "+": "arith.addi", "-": "arith.subi"}

_COMBINERS = {
    f"arith.{name}"
    for name in (
        "addf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf",
        "addi", "muli", "maxsi", "minsi", "maxui", "minui", "andi", "ori", "xori",
    )
}  # fmt: skip


def parse_infix(parser: Parser) -> Operation:
    """Parse `%a * %b : index`, also with + and -."""
    left = parser.parse_unresolved_operand()
    position = parser.pos
    name = INFIX_OPERATIONS.get(parser._current_token.text)
    if name is None:
        parser.raise_error("expected an op, or one of `*`, `+` and `-`", position)
    parser._consume_token()
    right = parser.parse_unresolved_operand()
    operand_type: Attribute = IndexType()
    if parser.parse_optional_punctuation(":") is not None:
        operand_type = parser.parse_type()
    operands = [parser.resolve_operand(operand, operand_type) for operand in (left, right)]
    return parser.ctx.get_op(name)(*operands)


def _parse_result_types(parser: Parser) -> list[Attribute]:
    """Parse types in parentheses, or a single type without."""
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if types is None else list(types)


def parse_module(parser: Parser) -> ModuleOp:
    """Parse `builtin.module`; the region is optional."""
    name = parser.parse_optional_symbol_name()
    attributes = parser.parse_optional_attr_dict_with_keyword()
    region = parser.parse_optional_region() or Region()
    if not region.blocks:
        region.add_block(Block())
    return ModuleOp(region, attributes.data if attributes is not None else None, name)


def parse_for(parser: Parser) -> scf.ForOp:
    """Parse `scf.for`; a single result type needs no parentheses."""
    variable = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    bounds = [parser.parse_unresolved_operand()]
    for keyword in ("to", "step"):
        parser.parse_keyword(keyword)
        bounds.append(parser.parse_unresolved_operand())
    position = parser.pos
    arguments: list[Parser.UnresolvedArgument] = []
    initial: list[UnresolvedOperand] = []
    types: list[Attribute] = []
    if parser.parse_optional_keyword("iter_args") is not None:

        def parse_assignment() -> None:
            arguments.append(parser.parse_argument(expect_type=False))
            parser.parse_punctuation("=")
            initial.append(parser.parse_unresolved_operand())

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_assignment)
        parser.parse_punctuation("->")
        types = _parse_result_types(parser)
    variable_type: Attribute = IndexType()
    if parser.parse_optional_punctuation(":") is not None:
        variable_type = parser.parse_type()
    carried = parser.resolve_operands(initial, types, position)
    lower, upper, step = (parser.resolve_operand(bound, variable_type) for bound in bounds)
    block_arguments = [
        variable.resolve(variable_type),
        *(argument.resolve(type) for argument, type in zip(arguments, types, strict=True)),
    ]
    loop = scf.ForOp(lower, upper, step, carried, parser.parse_region(block_arguments))
    loop.attributes |= parser.parse_optional_attr_dict()
    if not carried:
        _add_terminator(loop)
    return loop


def parse_if(parser: Parser) -> scf.IfOp:
    """Parse `scf.if`; a single result type needs no parentheses."""
    condition = parser.parse_operand(i1)
    types: list[Attribute] = []
    if parser.parse_optional_punctuation("->") is not None:
        types = _parse_result_types(parser)
    regions = [scf.IfOp.parse_region_with_yield(parser), Region()]
    if parser.parse_optional_keyword("else") is not None:
        regions[1] = scf.IfOp.parse_region_with_yield(parser)
    return scf.IfOp(condition, types, regions[0], regions[1], parser.parse_optional_attr_dict())


def _add_terminator(operation: Operation) -> None:
    for trait in operation.get_traits_of_type(SingleBlockImplicitTerminator):
        ensure_terminator(operation, trait)


def parse_reduce(parser: Parser) -> ReduceOp:
    """Parse `linalg.reduce`; the combiner may be an op name before `ins` instead of a region."""
    combiner = None
    if parser.parse_optional_punctuation("{") is not None:
        position = parser.pos
        name = parser.parse_identifier()
        combiner = CURRENT_NAMES.get(name, name)
        if combiner not in _COMBINERS:
            parser.raise_error(f"{name} is not a supported combiner", position)
        parser.parse_optional_attr_dict()
        parser.parse_punctuation("}")
    (source,), (initial,) = _parse_group(parser, "ins", 1), _parse_group(parser, "outs", 1)
    parser.parse_keyword("dimensions")
    parser.parse_punctuation("=")
    dimensions = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
    )
    if combiner is None:
        arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
        region = parser.parse_region(arguments)
    else:
        region = _combiner_region(parser, combiner, source, initial)
    return ReduceOp(source, initial, DenseArrayBase.from_list(i64, dimensions), region)


def _combiner_region(parser: Parser, combiner: str, source: SSAValue, initial: SSAValue) -> Region:
    """Build the region that MLIR expands a named combiner to: `op(accumulator, element)`."""
    block = Block(arg_types=[_element_type(parser, value) for value in (source, initial)])
    element, accumulator = block.args
    element.name_hint, accumulator.name_hint = "in", "out"
    binary = cast(Callable[[SSAValue, SSAValue], Operation], parser.ctx.get_op(combiner))
    operation = binary(accumulator, element)
    block.add_ops([operation, LinalgYieldOp(operation)])
    return Region(block)


def _element_type(parser: Parser, value: SSAValue) -> Attribute:
    if not isinstance(value.type, TensorType | MemRefType):
        parser.raise_error(f"expected a tensor, found {value.type}")
    element_type: Attribute = value.type.element_type
    return element_type


def _parse_group(parser: Parser, keyword: str, count: int | None = None) -> Sequence[SSAValue]:
    """Parse keyword `(` ssa {`,` ssa} `:` type {`,` type} `)`"""
    position = parser.pos
    parser.parse_keyword(keyword)
    parser.parse_punctuation("(")
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    if count is not None and len(operands) != count:
        parser.raise_error(f"{keyword} takes {count} operand here", position)
    return parser.resolve_operands(operands, types, position)


def parse_generic(parser: Parser) -> GenericOp:
    """Parse `linalg.generic`; the traits may be an alias, the result types in parentheses."""
    position = parser.pos
    traits = parser.parse_attribute()
    if not isinstance(traits, DictionaryAttr):
        parser.raise_error("expected {indexing_maps = ..., iterator_types = ...}", position)
    attributes = dict(traits.data)
    maps = attributes.pop("indexing_maps", None)
    iterators = attributes.pop("iterator_types", None)
    if not isinstance(maps, ArrayAttr) or not isinstance(iterators, ArrayAttr):
        parser.raise_error("indexing_maps and iterator_types must be lists", position)
    texts = {name: attributes.pop(name, None) for name in ("doc", "library_call")}
    doc, call = (text if isinstance(text, StringAttr) else None for text in texts.values())
    inputs = _parse_group(parser, "ins") if _is_next_token(parser, "ins") else ()
    outputs = _parse_group(parser, "outs") if _is_next_token(parser, "outs") else ()
    if parser.parse_optional_keyword("attrs") is not None:
        parser.parse_punctuation("=")
        attributes |= parser.parse_optional_attr_dict()
    body = parser.parse_region()
    results = []
    if parser.parse_optional_punctuation("->") is not None:
        results = _parse_result_types(parser)
    kinds = [_iterator_type(parser, kind, position) for kind in iterators]
    operation = GenericOp(inputs, outputs, body, maps, kinds, results, doc, call)
    operation.attributes |= attributes
    return operation


def _is_next_token(parser: Parser, keyword: str) -> bool:
    return parser._current_token.text == keyword


def _iterator_type(parser: Parser, attribute: Attribute, position: int) -> IteratorTypeAttr:
    if isinstance(attribute, IteratorTypeAttr):
        return attribute
    names = [kind.value for kind in IteratorType]
    if not isinstance(attribute, StringAttr) or attribute.data not in names:
        parser.raise_error(
            f"unknown iterator type {attribute}; known: {', '.join(names)}", position
        )
    return IteratorTypeAttr(IteratorType(attribute.data))


EXTENDED_PARSERS: dict[str, Callable[[Parser], Operation]] = {
    "builtin.module": parse_module,
    "scf.for": parse_for,
    "scf.if": parse_if,
    "linalg.reduce": parse_reduce,
    "linalg.generic": parse_generic,
}
