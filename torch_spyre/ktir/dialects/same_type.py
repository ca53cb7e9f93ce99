"""The syntax `%a, %b : type` of ops whose operands and result have the same type."""

from typing import Self

from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer


class SameTypeOperation(IRDLOperation):
    """operand {`,` operand} [attributes] `:` type"""

    def __init__(self, *values: SSAValue) -> None:
        super().__init__(operands=values, result_types=[values[0].type])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = [parser.parse_unresolved_operand()]
        while len(operands) < len(cls.get_irdl_definition().operands):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand_type = parser.parse_type()
        operation = cls(*(parser.resolve_operand(operand, operand_type) for operand in operands))
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.results[0].type)
