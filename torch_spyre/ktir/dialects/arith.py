"""The `arith` dialect: xDSL's, with comparisons, selects and casts that also accept tensors.

It adds the ops that xDSL lacks: remf, index_castui, convertf.
"""

from typing import ClassVar, cast

from xdsl.dialects import arith
from xdsl.dialects.arith import (
    CMPF_COMPARISON_OPERATIONS,
    CMPI_COMPARISON_OPERATIONS,
    FastMathFlagsAttr,
)
from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    IntegerType,
    ShapedType,
    TensorType,
    i1,
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

from torch_spyre.ktir.dialects.same_type import SameTypeOperation


def _element_type(type: Attribute) -> Attribute:
    """Return the element type of a tensor type; other types are returned unchanged."""
    return type.element_type if isinstance(type, TensorType) else type


def _shape_of(type: Attribute) -> tuple[int, ...] | None:
    return type.get_shape() if isinstance(type, ShapedType) else None


def _bool_like(type: Attribute) -> Attribute:
    """Return i1, or a tensor of i1 of the same shape."""
    return TensorType(i1, type.get_shape()) if isinstance(type, TensorType) else i1


def _is_integer(type: Attribute) -> bool:
    return isinstance(_element_type(type), IntegerType | IndexType)


def _is_float(type: Attribute) -> bool:
    return isinstance(_element_type(type), AnyFloat)


class _Comparison(IRDLOperation):
    """predicate `,` lhs `,` rhs `:` type"""

    predicate = prop_def(IntegerAttr)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    PREDICATES: ClassVar[tuple[str, ...]] = ()

    def __init__(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(
            operands=[lhs, rhs],
            result_types=[_bool_like(lhs.type)],
            properties={"predicate": IntegerAttr(self.PREDICATES.index(predicate), 64)},
        )

    def verify_comparison(self) -> None:
        if self.lhs.type != self.rhs.type:
            raise VerifyException(
                f"compares {self.lhs.type} with {self.rhs.type}; the types must be equal"
            )
        if self.result.type != _bool_like(self.lhs.type):
            raise VerifyException(
                f"the result has type {_bool_like(self.lhs.type)}, not {self.result.type}"
            )
        if not 0 <= self.predicate.value.data < len(self.PREDICATES):
            raise VerifyException(f"unknown predicate {self.predicate.value.data}")

    @property
    def predicate_name(self) -> str:
        return self.PREDICATES[self.predicate.value.data]

    @classmethod
    def parse(cls, parser: Parser) -> "_Comparison":
        predicate = parser.parse_keyword_in(cls.PREDICATES)
        parser.parse_punctuation(",")
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        fastmath = {}
        if parser.parse_optional_keyword("fastmath") is not None:
            fastmath["fastmath"] = FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))
        attributes = parser.parse_optional_attr_dict() | fastmath
        parser.parse_punctuation(":")
        operand_type = parser.parse_type()
        operation = cls(
            predicate,
            parser.resolve_operand(lhs, operand_type),
            parser.resolve_operand(rhs, operand_type),
        )
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.predicate_name}, ")
        printer.print_operand(self.lhs)
        printer.print_string(", ")
        printer.print_operand(self.rhs)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)


@irdl_op_definition
class CmpiOp(_Comparison):
    name = "arith.cmpi"

    PREDICATES: ClassVar[tuple[str, ...]] = tuple(CMPI_COMPARISON_OPERATIONS)

    traits = traits_def(Pure())

    def verify_(self) -> None:
        self.verify_comparison()
        if not _is_integer(self.lhs.type):
            raise VerifyException(f"compares integers, not {self.lhs.type}")


@irdl_op_definition
class CmpfOp(_Comparison):
    name = "arith.cmpf"

    PREDICATES: ClassVar[tuple[str, ...]] = tuple(CMPF_COMPARISON_OPERATIONS)

    traits = traits_def(Pure())

    def verify_(self) -> None:
        self.verify_comparison()
        if not _is_float(self.lhs.type):
            raise VerifyException(f"compares floats, not {self.lhs.type}")


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Selects one of two values by an i1, or elementwise by a tensor of i1."""

    name = "arith.select"

    condition = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    traits = traits_def(Pure())

    def __init__(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(operands=[condition, lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        if self.lhs.type != self.rhs.type or self.lhs.type != self.result.type:
            raise VerifyException(
                f"selects between {self.lhs.type} and {self.rhs.type}; operands and result must "
                "have the same type"
            )
        if self.condition.type not in (i1, _bool_like(self.lhs.type)):
            raise VerifyException(
                f"the condition has type i1 or {_bool_like(self.lhs.type)}, "
                f"not {self.condition.type}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> "SelectOp":
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        first: Attribute = parser.parse_type()
        if parser.parse_optional_punctuation(",") is not None:
            condition_type, value_type = first, cast(Attribute, parser.parse_type())
        else:
            condition_type, value_type = _condition_type(parser, operands[0].operand_name), first
        types = (condition_type, value_type, value_type)
        operation = cls(
            *(
                parser.resolve_operand(operand, type)
                for operand, type in zip(operands, types, strict=True)
            )
        )
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.condition.type != i1:
            printer.print_attribute(self.condition.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)


def _condition_type(parser: Parser, name: str) -> Attribute:
    """Return the type of a condition without a written type: that of its definition, or i1."""
    values = parser.ssa_values.get(name)
    return values[0].type if values is not None else i1


class _Cast(IRDLOperation):
    """input `:` type `to` type; shapes agree."""

    input = operand_def()
    result = result_def()

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[input], result_types=[result_type])

    def verify_cast(self, is_possible: bool) -> None:
        same_shape = _shape_of(self.input.type) == _shape_of(self.result.type)
        if not is_possible or not same_shape:
            raise VerifyException(f"cannot cast {self.input.type} to {self.result.type}")

    def widths(self) -> tuple[int, int]:
        """Return the element widths in bits before and after; zero for index."""
        element_types = (_element_type(self.input.type), _element_type(self.result.type))
        before, after = (
            type.bitwidth if isinstance(type, FixedBitwidthType) else 0 for type in element_types
        )
        return before, after


class _IndexCast(_Cast):
    def verify_(self) -> None:
        element_types = (_element_type(self.input.type), _element_type(self.result.type))
        num_indices = sum(isinstance(type, IndexType) for type in element_types)
        num_integers = sum(isinstance(type, IntegerType) for type in element_types)
        self.verify_cast(num_indices == num_integers == 1)


@irdl_op_definition
class IndexCastOp(_IndexCast):
    name = "arith.index_cast"
    traits = traits_def(Pure())


@irdl_op_definition
class IndexCastUIOp(_IndexCast):
    name = "arith.index_castui"
    traits = traits_def(Pure())


class _FloatToInteger(_Cast):
    def verify_(self) -> None:
        self.verify_cast(
            _is_float(self.input.type) and isinstance(_element_type(self.result.type), IntegerType)
        )


@irdl_op_definition
class FPToSIOp(_FloatToInteger):
    name = "arith.fptosi"
    traits = traits_def(Pure())


@irdl_op_definition
class FPToUIOp(_FloatToInteger):
    name = "arith.fptoui"
    traits = traits_def(Pure())


class _IntegerToFloat(_Cast):
    def verify_(self) -> None:
        self.verify_cast(
            isinstance(_element_type(self.input.type), IntegerType) and _is_float(self.result.type)
        )


@irdl_op_definition
class SIToFPOp(_IntegerToFloat):
    name = "arith.sitofp"
    traits = traits_def(Pure())


@irdl_op_definition
class UIToFPOp(_IntegerToFloat):
    name = "arith.uitofp"
    traits = traits_def(Pure())


class _IntegerResize(_Cast):
    IS_EXTENSION: ClassVar[bool] = True

    def verify_(self) -> None:
        before, after = self.widths()
        fits = 0 < before < after if self.IS_EXTENSION else 0 < after < before
        element_types = (_element_type(self.input.type), _element_type(self.result.type))
        self.verify_cast(fits and all(isinstance(type, IntegerType) for type in element_types))


@irdl_op_definition
class ExtSIOp(_IntegerResize):
    name = "arith.extsi"
    traits = traits_def(Pure())


@irdl_op_definition
class ExtUIOp(_IntegerResize):
    name = "arith.extui"
    traits = traits_def(Pure())


@irdl_op_definition
class TruncIOp(_IntegerResize):
    name = "arith.trunci"
    IS_EXTENSION: ClassVar[bool] = False
    traits = traits_def(Pure())


class _FloatCast(_Cast):
    def verify_(self) -> None:
        self.verify_cast(_is_float(self.input.type) and _is_float(self.result.type))


@irdl_op_definition
class ExtFOp(_FloatCast):
    name = "arith.extf"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        super().verify_()
        before, after = self.widths()
        self.verify_cast(before < after)


@irdl_op_definition
class TruncFOp(_FloatCast):
    name = "arith.truncf"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        super().verify_()
        before, after = self.widths()
        self.verify_cast(before > after)


@irdl_op_definition
class ConvertFOp(_FloatCast):
    name = "arith.convertf"
    traits = traits_def(Pure())


@irdl_op_definition
class RemFOp(SameTypeOperation):
    name = "arith.remf"

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    traits = traits_def(Pure())

    def verify_(self) -> None:
        if not self.lhs.type == self.rhs.type == self.result.type or not _is_float(self.lhs.type):
            raise VerifyException(f"expects two floats of the same type, not {self.lhs.type}")


_REPLACED = (
    CmpiOp, CmpfOp, SelectOp, IndexCastOp, IndexCastUIOp, FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp,
    ExtSIOp, ExtUIOp, TruncIOp, ExtFOp, TruncFOp, ConvertFOp, RemFOp,
)  # fmt: skip
_REPLACED_NAMES = {operation.name for operation in _REPLACED}

Arith = Dialect(
    "arith",
    [
        *(
            operation
            for operation in arith.Arith.operations
            if operation.name not in _REPLACED_NAMES
        ),
        *_REPLACED,
    ],
    list(arith.Arith.attributes),
)
