"""Compute tile ids, runtime arguments, and the ops that move data: load and store."""

import math

from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineSet
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from torch_spyre.errors import SetError
from torch_spyre.ktir.affine.sets import count_points
from torch_spyre.ktir.dialects.ktdp.attributes import ExtractKind, ExtractKindAttr
from torch_spyre.ktir.dialects.ktdp.format import (
    parse_type_of,
    parse_types,
    print_attributes,
    print_elided,
)
from torch_spyre.ktir.dialects.ktdp.indirect_tiles import ConstructIndirectAccessTileOp
from torch_spyre.ktir.dialects.ktdp.tiles import ConstructAccessTileOp
from torch_spyre.ktir.dialects.ktdp.types import AccessTileType, RuntimeArgType

MAX_GRID_DIMS = 3


@irdl_op_definition
class GetComputeTileIdOp(IRDLOperation):
    """Returns the coordinates of the executing core in the grid: x, then y, then z."""

    name = "ktdp.get_compute_tile_id"

    ids = var_result_def(IndexType)

    traits = traits_def(Pure())

    def __init__(self, num_dims: int) -> None:
        super().__init__(result_types=[[IndexType()] * num_dims])

    def verify_(self) -> None:
        if not 1 <= len(self.ids) <= MAX_GRID_DIMS:
            raise VerifyException(f"expected 1 to {MAX_GRID_DIMS} results, not {len(self.ids)}")

    @classmethod
    def parse(cls, parser: Parser) -> "GetComputeTileIdOp":
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        types = parse_types(parser)
        if not all(isinstance(result_type, IndexType) for result_type in types):
            parser.raise_error(f"{cls.name}: every result must have type index", position)
        operation = cls(len(types))
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        print_attributes(printer, {}, self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.ids.types, printer.print_attribute)


@irdl_op_definition
class RuntimeArgExtractOp(IRDLOperation):
    """Returns the value of a runtime argument, or its granularity or upper bound."""

    name = "ktdp.runtime_arg_extract"

    kind = prop_def(ExtractKindAttr)
    argument = operand_def(RuntimeArgType)
    result = result_def()

    traits = traits_def(Pure())

    def __init__(self, kind: ExtractKind, argument: SSAValue, result_type: Attribute) -> None:
        super().__init__(
            operands=[argument],
            result_types=[result_type],
            properties={"kind": ExtractKindAttr(kind)},
        )

    def verify_(self) -> None:
        argument_type = self.argument.type
        assert isinstance(argument_type, RuntimeArgType)
        kind = self.kind.data
        if kind is ExtractKind.VALUE:
            if self.result.type != argument_type.underlying_type:
                raise VerifyException(
                    f"value has type {argument_type.underlying_type}, not {self.result.type}"
                )
            return
        if not isinstance(self.result.type, IndexType):
            raise VerifyException(f"{kind.value} has type index, not {self.result.type}")
        limits = {
            ExtractKind.GRANULARITY: argument_type.granularity,
            ExtractKind.UPPERBOUND: argument_type.upperbound,
        }
        if limits[kind] is None:
            raise VerifyException(f"{argument_type} has no {kind.value}")

    @classmethod
    def parse(cls, parser: Parser) -> "RuntimeArgExtractOp":
        kind = ExtractKind(parser.parse_keyword_in([kind.value for kind in ExtractKind]))
        parser.parse_keyword("from")
        argument = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        value = parser.resolve_operand(argument, parse_type_of(parser, RuntimeArgType))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation("->")
        operation = cls(kind, value, parser.parse_type())
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data.value} from ")
        printer.print_operand(self.argument)
        printer.print_string(" : ")
        print_elided(printer, self.argument.type)
        print_attributes(printer, {}, self.attributes)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


def _num_points(tile: SSAValue) -> int | None:
    """Return the number of points of a tile if it is static, otherwise None."""
    tile_set = _set_of_tile(tile)
    if tile_set is None or tile_set.num_symbols:
        return None
    try:
        return count_points(tile_set)
    except SetError:
        return None


def _set_of_tile(tile: SSAValue) -> AffineSet | None:
    match tile.owner:
        case ConstructAccessTileOp(access_tile_set=attribute):
            return attribute.data
        case ConstructIndirectAccessTileOp(variables_space_set=attribute):
            return attribute.data
    return None


def _verify_shapes(tile: SSAValue, tensor_type: Attribute) -> None:
    """Verify that the shapes are equal, or that the tensor has one element per point of the set."""
    assert isinstance(tile.type, AccessTileType)
    assert isinstance(tensor_type, TensorType)
    tile_shape, tensor_shape = tile.type.get_shape(), tensor_type.get_shape()
    if tile_shape == tensor_shape:
        return
    if DYNAMIC_INDEX not in tensor_shape:
        elements = math.prod(tensor_shape)
        if elements == _num_points(tile):
            return
        tile_set = _set_of_tile(tile)
        if tile_set is not None and tile_set.num_symbols:
            # The number of points depends on the values of the symbols.
            return
    raise VerifyException(
        f"tensor shape {list(tensor_shape)} differs from tile shape {list(tile_shape)}"
    )


@irdl_op_definition
class LoadOp(IRDLOperation):
    """Copies the coordinates of a tile into a tensor in this core's LX."""

    name = "ktdp.load"

    tile = operand_def(AccessTileType)
    result = result_def(TensorType)

    traits = traits_def(MemoryReadEffect())

    def __init__(self, tile: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[tile], result_types=[result_type])

    def verify_(self) -> None:
        _verify_shapes(self.tile, self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> "LoadOp":
        tile = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        tile_type = parse_type_of(parser, AccessTileType)
        parser.parse_punctuation("->")
        operation = cls(parser.resolve_operand(tile, tile_type), parser.parse_type())
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.tile)
        print_attributes(printer, {}, self.attributes)
        printer.print_string(" : ")
        print_elided(printer, self.tile.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Copies a tensor to the coordinates of a tile; other elements are not modified."""

    name = "ktdp.store"

    value = operand_def(TensorType)
    tile = operand_def(AccessTileType)

    traits = traits_def(MemoryWriteEffect())

    def __init__(self, value: SSAValue, tile: SSAValue) -> None:
        super().__init__(operands=[value, tile])

    def verify_(self) -> None:
        _verify_shapes(self.tile, self.value.type)

    @classmethod
    def parse(cls, parser: Parser) -> "StoreOp":
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        tile = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        value_type = parser.parse_type()
        parser.parse_punctuation(",")
        tile_type = parse_type_of(parser, AccessTileType)
        operation = cls(
            parser.resolve_operand(value, value_type), parser.resolve_operand(tile, tile_type)
        )
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(", ")
        printer.print_operand(self.tile)
        print_attributes(printer, {}, self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)
        printer.print_string(", ")
        print_elided(printer, self.tile.type)
