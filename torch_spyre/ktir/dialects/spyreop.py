"""`spyreop`: scalar intrinsics of the device's vector unit, used inside `linalg.generic`.

Gathers and scatters of tensors are in `indexed`.
"""

from typing import ClassVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f64,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from torch_spyre.ktir.dialects.indexed import GatherOp, ScatterOp
from torch_spyre.ktir.dialects.same_type import SameTypeOperation

_HALF_TYPES = (Float16Type, BFloat16Type)
_FLOAT_TYPES = (*_HALF_TYPES, Float32Type)


class _FloatIntrinsic(IRDLOperation):
    TYPES: ClassVar[tuple[type[Attribute], ...]] = _FLOAT_TYPES

    def verify_scalars(self) -> None:
        result_type = self.results[0].type
        if any(operand.type != result_type for operand in self.operands):
            raise VerifyException("operands and result must have the same type")
        if not isinstance(result_type, self.TYPES):
            names = ", ".join(kind().name for kind in self.TYPES)
            raise VerifyException(f"expects a scalar of type {names}, not {result_type}")


class _Unary(_FloatIntrinsic, SameTypeOperation):
    input = operand_def()
    result = result_def()

    def verify_(self) -> None:
        self.verify_scalars()


@irdl_op_definition
class ExpOp(_Unary):
    name = "spyreop.exp"
    traits = traits_def(Pure())


@irdl_op_definition
class LayerNormScaleOp(_Unary):
    name = "spyreop.layernormscale"
    traits = traits_def(Pure())


@irdl_op_definition
class ReciprocalOp(_Unary):
    name = "spyreop.reciprocal"
    traits = traits_def(Pure())


@irdl_op_definition
class SigmoidOp(_Unary):
    name = "spyreop.sigmoid"
    traits = traits_def(Pure())


@irdl_op_definition
class SiluOp(_Unary):
    name = "spyreop.silu"
    traits = traits_def(Pure())


@irdl_op_definition
class SqrtOp(_Unary):
    name = "spyreop.sqrt"
    traits = traits_def(Pure())


@irdl_op_definition
class RsqrtOp(_Unary):
    name = "spyreop.rsqrt"
    traits = traits_def(Pure())


@irdl_op_definition
class GeluOp(_Unary):
    name = "spyreop.gelu"
    TYPES: ClassVar[tuple[type[Attribute], ...]] = _HALF_TYPES
    traits = traits_def(Pure())


@irdl_op_definition
class RealDivOp(_FloatIntrinsic, SameTypeOperation):
    name = "spyreop.realdiv"

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    traits = traits_def(Pure())

    def verify_(self) -> None:
        self.verify_scalars()


@irdl_op_definition
class SoftplusOp(_FloatIntrinsic):
    """`log(1 + exp(beta * x)) / beta`, and x itself where `beta * x` exceeds the threshold."""

    name = "spyreop.softplus"

    input = operand_def()
    beta = prop_def(FloatAttr)
    threshold = prop_def(FloatAttr)
    result = result_def()

    traits = traits_def(Pure())

    def __init__(self, input: SSAValue, beta: float, threshold: float) -> None:
        super().__init__(
            operands=[input],
            result_types=[input.type],
            properties={"beta": FloatAttr(beta, f64), "threshold": FloatAttr(threshold, f64)},
        )

    def verify_(self) -> None:
        self.verify_scalars()
        if self.beta.value.data == 0:
            raise VerifyException("beta must not be zero")

    @classmethod
    def parse(cls, parser: Parser) -> "SoftplusOp":
        operand = parser.parse_unresolved_operand()
        parser.parse_keyword("beta")
        beta = float(parser.parse_number())
        parser.parse_keyword("threshold")
        threshold = float(parser.parse_number())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operation = cls(parser.resolve_operand(operand, parser.parse_type()), beta, threshold)
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.input)
        printer.print_string(" beta ")
        printer.print_float(self.beta.value.data, f64)
        printer.print_string(" threshold ")
        printer.print_float(self.threshold.value.data, f64)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


class _IntegerBinary(IRDLOperation):
    """lhs `,` rhs; the op name determines the type."""

    lhs = operand_def(IntegerType)
    rhs = operand_def(IntegerType)
    result = result_def(IntegerType)

    WIDTH: ClassVar[IntegerType] = i32

    def __init__(self, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(operands=[lhs, rhs], result_types=[self.WIDTH])

    def verify_(self) -> None:
        if any(value.type != self.WIDTH for value in (*self.operands, *self.results)):
            raise VerifyException(f"operands and result must have type {self.WIDTH}")

    @classmethod
    def parse(cls, parser: Parser) -> "_IntegerBinary":
        lhs = parser.parse_operand(cls.WIDTH)
        parser.parse_punctuation(",")
        operation = cls(lhs, parser.parse_operand(cls.WIDTH))
        operation.attributes |= parser.parse_optional_attr_dict()
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class AddI32Op(_IntegerBinary):
    name = "spyreop.addi32toi32"
    traits = traits_def(Pure())


@irdl_op_definition
class MulI32Op(_IntegerBinary):
    name = "spyreop.muli32toi32"
    traits = traits_def(Pure())


@irdl_op_definition
class AddI64Op(_IntegerBinary):
    name = "spyreop.addi64toi64"
    WIDTH: ClassVar[IntegerType] = i64
    traits = traits_def(Pure())


@irdl_op_definition
class IndexToAddressOp(IRDLOperation):
    """`base + stride * index`: a 32-bit index becomes a 64-bit address."""

    name = "spyreop.idx32toaddr"

    index = operand_def(i32)
    base = prop_def(IntegerAttr)
    stride = prop_def(IntegerAttr)
    result = result_def(i64)

    traits = traits_def(Pure())

    def __init__(self, index: SSAValue, base: int, stride: int) -> None:
        super().__init__(
            operands=[index],
            result_types=[i64],
            properties={"base": IntegerAttr(base, i64), "stride": IntegerAttr(stride, i64)},
        )

    @classmethod
    def parse(cls, parser: Parser) -> "IndexToAddressOp":
        index = parser.parse_operand(i32)
        parser.parse_keyword("base")
        base = parser.parse_integer(allow_boolean=False)
        parser.parse_keyword("stride")
        operation = cls(index, base, parser.parse_integer(allow_boolean=False))
        operation.attributes |= parser.parse_optional_attr_dict()
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.index)
        base = self.base.value.data
        printer.print_string(f" base {base:#x} stride {self.stride.value.data}")
        printer.print_op_attributes(self.attributes)


Spyreop = Dialect(
    "spyreop",
    [
        ExpOp,
        LayerNormScaleOp,
        RealDivOp,
        ReciprocalOp,
        SigmoidOp,
        SiluOp,
        SqrtOp,
        RsqrtOp,
        GeluOp,
        SoftplusOp,
        AddI32Op,
        MulI32Op,
        AddI64Op,
        IndexToAddressOp,
        GatherOp,
        ScatterOp,
    ],
)
