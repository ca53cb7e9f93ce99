"""The `tensor` dialect: xDSL's, with `tensor.generate` and expand_shape from rank 0."""

import math
from collections.abc import Sequence

from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    ShapedType,
    TensorType,
    i64,
)
from xdsl.dialects.utils.dynamic_index_list import print_dynamic_index_list
from xdsl.dialects.utils.reshape_ops_utils import (
    ContiguousArrayOfIntArray,
    verify_reshape_like_types,
)
from xdsl.ir import Attribute, Dialect, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class GenerateOp(IRDLOperation):
    """A tensor whose elements the region computes from their coordinates."""

    name = "tensor.generate"

    dynamic_extents = var_operand_def(IndexType)
    body = region_def("single_block")
    result = result_def(TensorType)

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self, dynamic_extents: Sequence[SSAValue], result_type: Attribute, body: Region
    ) -> None:
        super().__init__(operands=[dynamic_extents], result_types=[result_type], regions=[body])

    def verify_(self) -> None:
        declared = self.result.type
        shape = declared.get_shape()
        if shape.count(DYNAMIC_INDEX) != len(self.dynamic_extents):
            raise VerifyException(
                f"{len(self.dynamic_extents)} extents for {shape.count(DYNAMIC_INDEX)} dims `?`"
            )
        arguments = [argument.type for argument in self.body.block.args]
        if arguments != [IndexType()] * len(shape):
            raise VerifyException(f"the region must have {len(shape)} arguments of type index")
        terminator = self.body.block.last_op
        if not isinstance(terminator, tensor.YieldOp):
            raise VerifyException("the region must end with tensor.yield")
        yielded = [value.type for value in terminator.arguments]
        if yielded != [declared.element_type]:
            raise VerifyException(f"the region must yield one {declared.element_type}")

    @classmethod
    def parse(cls, parser: Parser) -> "GenerateOp":
        extents = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        body = parser.parse_region()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operation = cls(
            [parser.resolve_operand(extent, IndexType()) for extent in extents or ()],
            parser.parse_type(),
            body,
        )
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        if self.dynamic_extents:
            printer.print_list(self.dynamic_extents, printer.print_operand)
            printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class ExpandShapeOp(IRDLOperation):
    """A row-major reshape to a higher rank. `output_shape` is optional if it is static."""

    name = "tensor.expand_shape"

    src = operand_def(TensorType)
    dynamic_output_shape = var_operand_def(IndexType)
    reassociation = prop_def(ContiguousArrayOfIntArray())
    static_output_shape = prop_def(DenseArrayBase.constr(i64))
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(
        self,
        src: SSAValue,
        output_shape: Sequence[int | SSAValue],
        reassociation: Attribute,
        result_type: Attribute,
    ) -> None:
        static = [size if isinstance(size, int) else DYNAMIC_INDEX for size in output_shape]
        super().__init__(
            operands=[src, [size for size in output_shape if isinstance(size, SSAValue)]],
            result_types=[result_type],
            properties={
                "reassociation": reassociation,
                "static_output_shape": DenseArrayBase.from_list(i64, static),
            },
        )

    def verify_(self) -> None:
        source, result = self.src.type, self.result.type
        assert isinstance(source, ShapedType)
        if tuple(self.static_output_shape.get_values()) != result.get_shape():
            raise VerifyException(f"output_shape is not the shape of {result}")
        if source.get_num_dims():
            verify_reshape_like_types(source, result, self.reassociation)
        elif math.prod(result.get_shape()) != 1:
            raise VerifyException(f"one element cannot fill {result}")

    @classmethod
    def parse(cls, parser: Parser) -> "ExpandShapeOp":
        source = parser.parse_unresolved_operand()
        reassociation = parser.parse_attribute()
        shape: list[int | SSAValue] | None = None
        if parser.parse_optional_keyword("output_shape") is not None:
            shape = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: _parse_size(parser)
            )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        parser.parse_keyword("into")
        position = parser.pos
        result_type = parser.parse_type()
        if not isinstance(result_type, TensorType):
            parser.raise_error(f"{cls.name}: expected a ranked tensor type", position)
        operation = cls(
            parser.resolve_operand(source, source_type),
            list(result_type.get_shape()) if shape is None else shape,
            reassociation,
            result_type,
        )
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.src)
        printer.print_string(" ")
        printer.print_attribute(self.reassociation)
        printer.print_string(" output_shape ")
        sizes = self.static_output_shape.get_values()
        print_dynamic_index_list(printer, DYNAMIC_INDEX, self.dynamic_output_shape, sizes)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.src.type)
        printer.print_string(" into ")
        printer.print_attribute(self.result.type)


def _parse_size(parser: Parser) -> int | SSAValue:
    operand = parser.parse_optional_unresolved_operand()
    if operand is None:
        return parser.parse_integer(allow_boolean=False, allow_negative=False)
    return parser.resolve_operand(operand, IndexType())


_REPLACED = (GenerateOp, ExpandShapeOp)
_REPLACED_NAMES = {operation.name for operation in _REPLACED}

Tensor = Dialect(
    "tensor",
    [
        *(
            operation
            for operation in tensor.Tensor.operations
            if operation.name not in _REPLACED_NAMES
        ),
        *_REPLACED,
    ],
    list(tensor.Tensor.attributes),
)
