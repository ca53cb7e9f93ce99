"""`spyreop`: scalar intrinsics of the device's vector unit, used inside `linalg.generic`.

`spyreop.sort` is an op on tensors.
Gathers and scatters of tensors are in `indexed`.
"""

from typing import ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
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
class MulHighI32Op(_IntegerBinary):
    """The upper half of the unsigned product; an addition of Torch-Spyre."""

    name = "spyreop.mulhui32toi32"
    traits = traits_def(Pure())


@irdl_op_definition
class AddI64Op(_IntegerBinary):
    name = "spyreop.addi64toi64"
    WIDTH: ClassVar[IntegerType] = i64
    traits = traits_def(Pure())


@irdl_op_definition
class PhiloxOp(IRDLOperation):
    """The first word of the Philox 4x32-10 block of a counter of four words and a key of two.

    It is an addition of Torch-Spyre: the public dialect has no random numbers.
    """

    name = "spyreop.philox"

    words = var_operand_def(i32)
    result = result_def(i32)

    traits = traits_def(Pure())

    NUM_OPERANDS: ClassVar[int] = 6

    def __init__(self, *words: SSAValue) -> None:
        super().__init__(operands=[words], result_types=[i32])

    def verify_(self) -> None:
        if len(self.words) != self.NUM_OPERANDS:
            raise VerifyException(
                f"expects a counter of four words and a key of two, not {len(self.words)} operands"
            )

    @classmethod
    def parse(cls, parser: Parser) -> "PhiloxOp":
        words = [parser.parse_operand(i32)]
        while parser.parse_optional_punctuation(",") is not None:
            words.append(parser.parse_operand(i32))
        operation = cls(*words)
        operation.attributes |= parser.parse_optional_attr_dict()
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.words, printer.print_operand)
        printer.print_op_attributes(self.attributes)


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


@irdl_op_definition
class SortOp(IRDLOperation):
    """Sorts keys along the last dim, and moves their indices with them.

    Equal keys are in the order of their indices. Zeros are equal, and NaN is larger than all other
    keys. The results may have fewer elements in the last dim: the first ones in the order, or, if
    they are at least half, those from the element `first` on, which then must be the last ones. The
    keys may be `runs` of sorted elements, of which the last may be shorter.
    """

    name = "spyreop.sort"

    keys = operand_def(TensorType)
    indices = operand_def(TensorType)
    first = opt_operand_def(IndexType)
    descending = opt_prop_def(UnitAttr)
    runs = prop_def(IntegerAttr)
    sorted_keys = result_def(TensorType)
    sorted_indices = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(
        self,
        keys: SSAValue,
        indices: SSAValue,
        kept: int,
        *,
        descending: bool,
        runs: int = 1,
        first: SSAValue | None = None,
    ) -> None:
        assert isinstance(keys.type, TensorType)
        shape = (*keys.type.get_shape()[:-1], kept)
        super().__init__(
            operands=[keys, indices, first],
            result_types=[TensorType(keys.type.element_type, shape), TensorType(i32, shape)],
            properties={
                "runs": IntegerAttr(runs, i64),
                "descending": UnitAttr() if descending else None,
            },
        )

    def verify_(self) -> None:
        source, result = self.keys.type, self.sorted_keys.type
        assert isinstance(source, TensorType) and isinstance(result, TensorType)
        element = source.element_type
        if not isinstance(element, AnyFloat) and element not in (i1, i8, i16, i32):
            raise VerifyException(f"keys must be floats or integers of at most 32 bits: {element}")
        if result.element_type != element:
            raise VerifyException("sorted keys must have the type of the keys")
        shape, kept = source.get_shape(), result.get_shape()
        if DYNAMIC_INDEX in shape or not shape:
            raise VerifyException("keys must have a static shape of at least one dim")
        if len(kept) != len(shape) or kept[:-1] != shape[:-1] or not 0 <= kept[-1] <= shape[-1]:
            raise VerifyException(f"a sort of keys of shape {shape} has no result of shape {kept}")
        for indices, keys in ((self.indices, shape), (self.sorted_indices, kept)):
            if indices.type != TensorType(i32, keys):
                raise VerifyException("indices must be i32, one for each key")
        if self.first is not None and 2 * kept[-1] < shape[-1]:
            raise VerifyException("only the last half or more of the elements has another `first`")
        if self.runs.value.data < 1:
            raise VerifyException("runs must have at least one element")

    @classmethod
    def parse(cls, parser: Parser) -> "SortOp":
        keys = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        indices = parser.parse_unresolved_operand()
        descending = parser.parse_optional_keyword("descending") is not None
        runs = 1
        if parser.parse_optional_keyword("runs") is not None:
            runs = parser.parse_integer(allow_boolean=False)
        first = None
        if parser.parse_optional_keyword("from") is not None:
            first = parser.parse_operand(IndexType())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source = _parse_tensor_type(parser)
        parser.parse_punctuation("->")
        result = _parse_tensor_type(parser)
        operation = cls(
            parser.resolve_operand(keys, source),
            parser.resolve_operand(indices, TensorType(i32, source.get_shape())),
            result.get_shape()[-1],
            descending=descending,
            runs=runs,
            first=first,
        )
        if operation.sorted_keys.type != result:
            parser.raise_error(f"sorts {source} to {operation.sorted_keys.type}, not to {result}")
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.keys)
        printer.print_string(", ")
        printer.print_operand(self.indices)
        if self.descending is not None:
            printer.print_string(" descending")
        if self.runs.value.data != 1:
            printer.print_string(f" runs {self.runs.value.data}")
        if self.first is not None:
            printer.print_string(" from ")
            printer.print_operand(self.first)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.keys.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.sorted_keys.type)


def _parse_tensor_type(parser: Parser) -> TensorType[Attribute]:
    type = parser.parse_type()
    if not isinstance(type, TensorType) or not type.get_shape():
        parser.raise_error(f"expects a tensor of at least one dim, not {type}")
    return type


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
        MulHighI32Op,
        AddI64Op,
        PhiloxOp,
        IndexToAddressOp,
        SortOp,
        GatherOp,
        ScatterOp,
    ],
)
