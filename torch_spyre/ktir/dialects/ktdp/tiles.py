"""Direct access tiles: sets of coordinates of a view. They move no data."""

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AffineSetAttr,
    IndexType,
    MemRefType,
    ShapedType,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap, AffineSet
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from torch_spyre.ktir.affine.maps import canonical_operands
from torch_spyre.ktir.dialects.ktdp.format import (
    check_attribute_names,
    parse_operands_in_parens,
    parse_type_of,
    pop_attribute,
    print_attributes,
    print_expressions,
)
from torch_spyre.ktir.dialects.ktdp.types import AccessTileType
from torch_spyre.ktir.syntax.affine_parser import OperandExpressions


def verify_space(
    space: AffineSet, space_name: str, order: AffineMap, order_name: str, rank: int, symbols: int
) -> None:
    """Verify the set, order and rank of a direct or indirect tile."""
    if space.num_symbols != symbols:
        raise VerifyException(
            f"{space_name} has {space.num_symbols} symbols, but there are {symbols} symbol operands"
        )
    if order.num_dims != space.num_dims or len(order.results) != space.num_dims:
        raise VerifyException(
            f"{order_name} maps {order.num_dims} dims to {len(order.results)}, but {space_name} "
            f"has {space.num_dims}"
        )
    if order.num_symbols:
        raise VerifyException(f"{order_name} must have no symbols")
    if rank != space.num_dims:
        raise VerifyException(
            f"the tile has rank {rank}, but {space_name} has {space.num_dims} dims"
        )


def parse_symbols(parser: Parser) -> list[SSAValue]:
    """Parse [`symbols` `(` ssa {`,` ssa} `)`]"""
    if parser.parse_optional_keyword("symbols") is None:
        return []
    operands = parse_operands_in_parens(parser)
    return [parser.resolve_operand(operand, IndexType()) for operand in operands]


def print_symbols(printer: Printer, symbols: Sequence[SSAValue]) -> None:
    if symbols:
        printer.print_string(" symbols(")
        printer.print_list(symbols, printer.print_operand)
        printer.print_string(")")


def type_of_defined(parser: Parser, operand: UnresolvedOperand) -> Attribute:
    """Return the type of a value that is already defined."""
    values = parser.ssa_values.get(operand.operand_name, ())
    if operand.index >= len(values):
        parser.raise_error("the type of this value is not known here", operand.span)
    return values[operand.index].type


@irdl_op_definition
class ConstructAccessTileOp(IRDLOperation):
    """Constructs the tile of coordinates `base_map(indices) + p` for every p of the set.

    `base_map` is over distinct indices in order of first appearance.
    """

    name = "ktdp.construct_access_tile"

    base = operand_def(MemRefType | TensorType)
    indices = var_operand_def(IndexType)
    symbols = var_operand_def(IndexType)
    base_map = prop_def(AffineMapAttr)
    access_tile_set = prop_def(AffineSetAttr)
    access_tile_order = prop_def(AffineMapAttr)
    result = result_def(AccessTileType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def __init__(
        self,
        base: SSAValue,
        indices: Sequence[SSAValue],
        tile_set: AffineSet,
        result_type: Attribute,
        *,
        base_map: AffineMap | None = None,
        order: AffineMap | None = None,
        symbols: Sequence[SSAValue] = (),
    ) -> None:
        base_map = base_map or AffineMap.identity(len(indices))
        base_map, indices = canonical_operands(base_map, indices)
        super().__init__(
            operands=[base, indices, symbols],
            result_types=[result_type],
            properties={
                "base_map": AffineMapAttr(base_map),
                "access_tile_set": AffineSetAttr(tile_set),
                "access_tile_order": AffineMapAttr(order or AffineMap.identity(tile_set.num_dims)),
            },
        )

    def verify_(self) -> None:
        base_map = self.base_map.data
        tile_set = self.access_tile_set.data
        base_type = self.base.type
        assert isinstance(base_type, ShapedType)
        if base_map.num_dims != len(self.indices) or base_map.num_symbols:
            raise VerifyException(
                f"base_map has {base_map.num_dims} dims, but there are {len(self.indices)} indices"
            )
        if base_type.get_num_dims() != len(base_map.results):
            raise VerifyException(
                f"{len(base_map.results)} index expressions for a base of rank "
                f"{base_type.get_num_dims()}"
            )
        if tile_set.num_dims != len(base_map.results):
            raise VerifyException(
                f"access_tile_set has {tile_set.num_dims} dims, but base_map has "
                f"{len(base_map.results)} results"
            )
        verify_space(
            tile_set,
            "access_tile_set",
            self.access_tile_order.data,
            "access_tile_order",
            len(self.result.type.get_shape()),
            len(self.symbols),
        )

    @classmethod
    def parse(cls, parser: Parser) -> "ConstructAccessTileOp":
        base = parser.parse_unresolved_operand()
        expressions = OperandExpressions(parser)
        position = parser.pos
        results = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, expressions.parse)
        base_map = AffineMap(len(expressions.operands), 0, tuple(results))
        symbols = parse_symbols(parser)
        start = parser.pos
        attributes = parser.parse_optional_attr_dict()
        known = ("access_tile_set", "access_tile_order", "base_map")
        check_attribute_names(parser, attributes, known, start)
        tile_set = pop_attribute(parser, attributes, "access_tile_set", AffineSetAttr).data
        identity = AffineMapAttr(AffineMap.identity(tile_set.num_dims))
        order = pop_attribute(
            parser, attributes, "access_tile_order", AffineMapAttr, lambda: identity
        )
        if "base_map" in attributes:
            outer = pop_attribute(parser, attributes, "base_map", AffineMapAttr).data
            if outer.num_dims != len(results) or outer.num_symbols:
                parser.raise_error(
                    f"{cls.name}: base_map has {outer.num_dims} dims, but there are "
                    f"{len(results)} indices",
                    position,
                )
            base_map = outer.compose(base_map)
        if parser.parse_optional_punctuation(":") is not None:
            base_type: Attribute = parser.parse_type()
        else:
            base_type = type_of_defined(parser, base)
        parser.parse_punctuation("->")
        operation = cls(
            parser.resolve_operand(base, base_type),
            [parser.resolve_operand(operand, IndexType()) for operand in expressions.operands],
            tile_set,
            parse_type_of(parser, AccessTileType),
            base_map=base_map,
            order=order.data,
            symbols=symbols,
        )
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.base)
        with printer.in_square_brackets():
            print_expressions(printer, self.base_map.data.results, self.indices)
        print_symbols(printer, self.symbols)
        named = {
            "access_tile_set": self.access_tile_set,
            "access_tile_order": self.access_tile_order,
        }
        print_attributes(printer, named, self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.base.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)
