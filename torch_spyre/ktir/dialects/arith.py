"""`arith` as KTIR uses it: xDSL's dialect, where comparisons, selects and casts take tensors too.

Also the ops that xDSL lacks: remf, index_castui, convertf.
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


def element_of(found: Attribute) -> Attribute:
    return found.element_type if isinstance(found, TensorType) else found


def _shape_of(found: Attribute) -> tuple[int, ...] | None:
    return found.get_shape() if isinstance(found, ShapedType) else None


def _flags_like(found: Attribute) -> Attribute:
    """i1, or a tensor of i1 of the same shape."""
    return TensorType(i1, found.get_shape()) if isinstance(found, TensorType) else i1


def _is_integer(found: Attribute) -> bool:
    return isinstance(element_of(found), IntegerType | IndexType)


def _is_float(found: Attribute) -> bool:
    return isinstance(element_of(found), AnyFloat)


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
            result_types=[_flags_like(lhs.type)],
            properties={"predicate": IntegerAttr(self.PREDICATES.index(predicate), 64)},
        )

    def verify_comparison(self) -> None:
        if self.lhs.type != self.rhs.type:
            raise VerifyException(f"compares {self.lhs.type} with {self.rhs.type}")
        if self.result.type != _flags_like(self.lhs.type):
            raise VerifyException(f"the result has type {_flags_like(self.lhs.type)}")
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
        flags = {}
        if parser.parse_optional_keyword("fastmath") is not None:
            flags["fastmath"] = FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))
        attributes = parser.parse_optional_attr_dict() | flags
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
    """One of two values by a flag, or element by element by a tensor of flags."""

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
            raise VerifyException(f"selects between {self.lhs.type} and {self.rhs.type}")
        if self.condition.type not in (i1, _flags_like(self.lhs.type)):
            raise VerifyException(
                f"the condition has type i1 or {_flags_like(self.lhs.type)}, "
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
            condition_type, value_type = _known_flags(parser, operands[0].operand_name), first
        types = (condition_type, value_type, value_type)
        operation = cls(
            *(
                parser.resolve_operand(operand, found)
                for operand, found in zip(operands, types, strict=True)
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


def _known_flags(parser: Parser, name: str) -> Attribute:
    """The type of a condition whose type the text leaves out: i1, unless it is a known tensor."""
    known = parser.ssa_values.get(name)
    return known[0].type if known is not None else i1


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
        """The widths of the elements in bits; zero for index."""
        ends = (element_of(self.input.type), element_of(self.result.type))
        before, after = (end.bitwidth if isinstance(end, FixedBitwidthType) else 0 for end in ends)
        return before, after


class _IndexCast(_Cast):
    def verify_(self) -> None:
        ends = (element_of(self.input.type), element_of(self.result.type))
        indices = sum(isinstance(end, IndexType) for end in ends)
        integers = sum(isinstance(end, IntegerType) for end in ends)
        self.verify_cast(indices == integers == 1)


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
            _is_float(self.input.type) and isinstance(element_of(self.result.type), IntegerType)
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
            isinstance(element_of(self.input.type), IntegerType) and _is_float(self.result.type)
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
    WIDENS: ClassVar[bool] = True

    def verify_(self) -> None:
        before, after = self.widths()
        fits = 0 < before < after if self.WIDENS else 0 < after < before
        both = (element_of(self.input.type), element_of(self.result.type))
        self.verify_cast(fits and all(isinstance(end, IntegerType) for end in both))


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
    WIDENS: ClassVar[bool] = False
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
            raise VerifyException(f"takes two floats of one type, not {self.lhs.type}")


_OURS = (
    CmpiOp, CmpfOp, SelectOp, IndexCastOp, IndexCastUIOp, FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp,
    ExtSIOp, ExtUIOp, TruncIOp, ExtFOp, TruncFOp, ConvertFOp, RemFOp,
)  # fmt: skip
_OUR_NAMES = {operation.name for operation in _OURS}

Arith = Dialect(
    "arith",
    [
        *(operation for operation in arith.Arith.operations if operation.name not in _OUR_NAMES),
        *_OURS,
    ],
    list(arith.Arith.attributes),
)
