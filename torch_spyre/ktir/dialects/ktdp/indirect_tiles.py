"""Indirect access tiles: coordinates read from index views (gather, scatter, paged access)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AffineSetAttr,
    ArrayAttr,
    BoolAttr,
    IndexType,
    IntegerType,
    MemRefType,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap, AffineSet
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, MemoryReadEffect, Pure
from xdsl.utils.exceptions import VerifyException

from torch_spyre.ktir.affine.maps import dims_in_order, permutation_of
from torch_spyre.ktir.affine.sets import bounds
from torch_spyre.ktir.dialects.ktdp.format import (
    check_attribute_names,
    parse_type_of,
    parse_types,
    pop_attribute,
    print_attributes,
    print_expressions,
)
from torch_spyre.ktir.dialects.ktdp.tiles import parse_symbols, print_symbols, verify_space
from torch_spyre.ktir.dialects.ktdp.types import AccessTileType
from torch_spyre.ktir.syntax.affine_parser import OperandExpressions
from torch_spyre.ktir.syntax.names import set_exact_name


@irdl_op_definition
class RegionTerminatorOp(IRDLOperation):
    """Terminates the hidden region of an indirect tile; not printed in the custom syntax."""

    name = "ktdp.region_terminator"

    traits = lazy_traits_def(
        lambda: (IsTerminator(), HasParent(ConstructIndirectAccessTileOp), Pure())
    )

    def __init__(self) -> None:
        super().__init__()


@dataclass(frozen=True)
class Subscript:
    """One subscript: expressions over the captured values, then the intermediate variables.

    With an index view it is indirect: the coordinate is the view's element at these expressions.
    """

    expressions: tuple[AffineExpr, ...]
    index_view: SSAValue | None = None


@irdl_op_definition
class ConstructIndirectAccessTileOp(IRDLOperation):
    """Constructs a tile with one coordinate per subscript, direct or read from an index view.

    The intermediate variables are the arguments of the hidden region's only block.
    """

    name = "ktdp.construct_indirect_access_tile"

    base = operand_def(MemRefType)
    index_views = var_operand_def(MemRefType)
    captured = var_operand_def(IndexType)
    symbols = var_operand_def(IndexType)
    per_dim_subscript_kinds = prop_def(ArrayAttr[BoolAttr])
    per_dim_subscript_maps = prop_def(ArrayAttr[AffineMapAttr])
    variables_space_set = prop_def(AffineSetAttr)
    variables_space_order = prop_def(AffineMapAttr)
    variables = region_def("single_block")
    result = result_def(AccessTileType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        base: SSAValue,
        subscripts: Sequence[Subscript],
        captured: Sequence[SSAValue],
        space: AffineSet,
        result_type: Attribute,
        *,
        order: AffineMap | None = None,
        symbols: Sequence[SSAValue] = (),
        variable_names: Sequence[str] = (),
    ) -> None:
        rank = space.num_dims
        expressions = [subscript.expressions for subscript in subscripts]
        maps, captured = _canonical_maps(expressions, captured, rank)
        block = Block([RegionTerminatorOp()], arg_types=[IndexType()] * rank)
        for argument, name in zip(block.args, variable_names, strict=False):
            set_exact_name(argument, name)
        views = [subscript.index_view for subscript in subscripts]
        super().__init__(
            operands=[base, [view for view in views if view is not None], captured, symbols],
            result_types=[result_type],
            properties={
                "per_dim_subscript_kinds": ArrayAttr(
                    [BoolAttr.from_bool(view is not None) for view in views]
                ),
                "per_dim_subscript_maps": ArrayAttr(
                    [AffineMapAttr(affine_map) for affine_map in maps]
                ),
                "variables_space_set": AffineSetAttr(space),
                "variables_space_order": AffineMapAttr(order or AffineMap.identity(rank)),
            },
            regions=[Region(block)],
        )

    @property
    def kinds(self) -> list[bool]:
        """Return for each dim of the base whether its subscript is indirect."""
        return [bool(kind.value.data) for kind in self.per_dim_subscript_kinds]

    @property
    def maps(self) -> list[AffineMap]:
        return [attribute.data for attribute in self.per_dim_subscript_maps]

    def verify_(self) -> None:
        space = self.variables_space_set.data
        order = self.variables_space_order.data
        variables = len(self.variables.block.args)
        verify_space(
            space,
            "variables_space_set",
            order,
            "variables_space_order",
            len(self.result.type.get_shape()),
            len(self.symbols),
        )
        if permutation_of(order) is None:
            raise VerifyException("variables_space_order must be a permutation")
        if variables != space.num_dims:
            raise VerifyException(
                f"{variables} intermediate variables, but variables_space_set has "
                f"{space.num_dims} dims"
            )
        self._verify_subscripts(variables)

    def _verify_subscripts(self, variables: int) -> None:
        base_type = self.base.type
        assert isinstance(base_type, MemRefType)
        kinds, maps = self.kinds, self.maps
        if len(kinds) != len(maps) or len(kinds) != base_type.get_num_dims():
            raise VerifyException(
                f"{len(kinds)} subscripts for a base of rank {base_type.get_num_dims()}"
            )
        if sum(kinds) != len(self.index_views):
            raise VerifyException(
                f"{sum(kinds)} indirect subscripts, but {len(self.index_views)} index views"
            )
        views = iter(self.index_views)
        for dim, (is_indirect, subscript) in enumerate(zip(kinds, maps, strict=True)):
            if subscript.num_dims != len(self.captured) + variables:
                raise VerifyException(
                    f"subscript {dim} must be a map over the captured values and variables"
                )
            num_expressions = 1
            if is_indirect:
                view_type = next(views).type
                assert isinstance(view_type, MemRefType)
                num_expressions = view_type.get_num_dims()
                _verify_index_type(dim, view_type.element_type)
            if len(subscript.results) != num_expressions:
                raise VerifyException(
                    f"subscript {dim} has {len(subscript.results)} expressions, "
                    f"not {num_expressions}"
                )

    @classmethod
    def parse(cls, parser: Parser) -> "ConstructIndirectAccessTileOp":
        return _IndirectTileParser(parser).parse()

    def print(self, printer: Printer) -> None:
        variables = self.variables.block.args
        printer.print_string(" intermediate_variables(")
        printer.print_list(variables, printer.print_ssa_value)
        printer.print_string(") ")
        printer.print_operand(self.base)
        atoms = [*self.captured, *variables]
        views = iter(self.index_views)
        with printer.in_square_brackets():
            for dim, (is_indirect, subscript) in enumerate(zip(self.kinds, self.maps, strict=True)):
                if dim:
                    printer.print_string(", ")
                printer.print_string("ind(" if is_indirect else "(")
                if is_indirect:
                    printer.print_operand(next(views))
                    printer.print_string("[")
                print_expressions(printer, subscript.results, atoms)
                printer.print_string("])" if is_indirect else ")")
        print_symbols(printer, self.symbols)
        named = {
            "variables_space_set": self.variables_space_set,
            "variables_space_order": self.variables_space_order,
        }
        print_attributes(printer, named, self.attributes)
        printer.print_string(" : ")
        types = [self.base.type, *(view.type for view in self.index_views)]
        printer.print_list(types, printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


def _verify_index_type(dim: int, element_type: Attribute) -> None:
    is_supported_integer = isinstance(element_type, IntegerType) and element_type.width.data in (
        32,
        64,
    )
    if not is_supported_integer and not isinstance(element_type, IndexType):
        raise VerifyException(
            f"the index view of subscript {dim} holds {element_type}, not i32/i64"
        )


def _canonical_maps(
    subscripts: Sequence[Sequence[AffineExpr]], captured: Sequence[SSAValue], variables: int
) -> tuple[list[AffineMap], list[SSAValue]]:
    """Return maps over the captured values in order of first appearance and then the variables,
    and these values.
    """
    expressions = [expression for subscript in subscripts for expression in subscript]
    used = [dim for dim in dims_in_order(expressions) if dim < len(captured)]
    distinct = list(dict.fromkeys(captured[dim] for dim in used))
    new_dims = [AffineExpr.constant(0)] * len(captured)
    for dim in used:
        new_dims[dim] = AffineExpr.dimension(distinct.index(captured[dim]))
    new_dims += [AffineExpr.dimension(len(distinct) + dim) for dim in range(variables)]
    maps = [
        AffineMap(len(captured) + variables, 0, tuple(subscript)).replace_dims_and_symbols(
            new_dims, (), len(distinct) + variables, 0
        )
        for subscript in subscripts
    ]
    return maps, distinct


class _IndirectTileParser:
    """Parses one indirect tile. During parsing, symbols represent the intermediate variables."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._views: list[UnresolvedOperand | None] = []

    def parse(self) -> ConstructIndirectAccessTileOp:
        parser = self._parser
        position = parser.pos
        variables = self._parse_variables()
        # A variable that is also defined outside has its outer value, as in the interpreter.
        shadowed = [name for name in variables if name in parser.ssa_values]
        fixed = {
            name: AffineExpr.symbol(index)
            for index, name in enumerate(variables)
            if name not in shadowed
        }
        base = parser.parse_unresolved_operand()
        self._atoms = OperandExpressions(parser, fixed)
        subscripts = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, self._parse_subscript
        )
        symbols = parse_symbols(parser)
        start = parser.pos
        attributes = parser.parse_optional_attr_dict()
        known = ("variables_space_set", "variables_space_order")
        check_attribute_names(parser, attributes, known, start)
        space = pop_attribute(parser, attributes, "variables_space_set", AffineSetAttr).data
        identity = AffineMapAttr(AffineMap.identity(space.num_dims))
        order = pop_attribute(
            parser, attributes, "variables_space_order", AffineMapAttr, lambda: identity
        )
        if len(variables) != space.num_dims:
            parser.raise_error(
                f"{len(variables)} intermediate variables, but variables_space_set has "
                f"{space.num_dims} dims",
                position,
            )
        self._check_shadowed(variables, shadowed, space, position)
        base_value, views = self._resolve(base)
        captured = [
            parser.resolve_operand(operand, IndexType()) for operand in self._atoms.operands
        ]
        parser.parse_punctuation("->")
        dims = [AffineExpr.dimension(len(captured) + index) for index in range(len(variables))]
        operation = ConstructIndirectAccessTileOp(
            base_value,
            [
                Subscript(
                    tuple(entry.replace_dims_and_symbols((), dims) for entry in expressions), view
                )
                for expressions, view in zip(subscripts, views, strict=True)
            ],
            captured,
            space,
            parse_type_of(parser, AccessTileType),
            order=order.data,
            symbols=symbols,
            variable_names=variables,
        )
        operation.attributes |= attributes
        return operation

    def _parse_variables(self) -> list[str]:
        parser = self._parser
        parser.parse_keyword("intermediate_variables")
        position = parser.pos
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
        )
        names = [argument.name.text[1:] for argument in arguments]
        if len(set(names)) != len(names):
            parser.raise_error("an intermediate variable is listed twice", position)
        return names

    def _parse_subscript(self) -> list[AffineExpr]:
        """Parse `ind` `(` view `[` expressions `]` `)`, or an expression."""
        parser = self._parser
        if parser.parse_optional_keyword("ind") is None:
            self._views.append(None)
            return [self._atoms.parse()]
        with parser.in_parens():
            self._views.append(parser.parse_unresolved_operand())
            return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, self._atoms.parse)

    def _resolve(self, base: UnresolvedOperand) -> tuple[SSAValue, list[SSAValue | None]]:
        """Parse the types of the base and the index views, and return their values."""
        parser = self._parser
        parser.parse_punctuation(":")
        position = parser.pos
        base_type, *view_types = cast(list[Attribute], parse_types(parser))
        index_views = [view for view in self._views if view is not None]
        if len(index_views) != len(view_types):
            parser.raise_error(
                f"{len(index_views)} indirect subscripts, but {len(view_types)} index view types",
                position,
            )
        base_value = parser.resolve_operand(base, base_type)
        types = iter(view_types)
        views = [
            None if view is None else parser.resolve_operand(view, next(types))
            for view in self._views
        ]
        return base_value, views

    def _check_shadowed(
        self, variables: list[str], shadowed: list[str], space: AffineSet, position: int
    ) -> None:
        if not shadowed:
            return
        box = bounds(space) if not space.num_symbols else None
        for name in shadowed:
            interval = box[variables.index(name)] if box is not None else None
            if interval is None or (interval.low, interval.high) != (0, 0):
                self._parser.raise_error(
                    f"%{name} is defined outside, so its range as an intermediate variable must "
                    "be 0 only",
                    position,
                )
