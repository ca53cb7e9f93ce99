"""Parse literals: hexadecimal floats as bit patterns, splats, limits on sizes, and strings."""

import math
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    RankedStructure,
    StringAttr,
)
from xdsl.parser import AttrParser, Parser
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

# No valid kernel has a constant far larger than the scratchpad.
_MAX_CONSTANT_BYTES = 1 << 26
_MIN_INDEX, _MAX_INDEX = -(1 << 63), (1 << 63) - 1


def _is_hexadecimal(text: str) -> bool:
    return text[:2] in ("0x", "0X")


def _float_from_bits(bits: int, float_type: AnyFloat) -> float | None:
    """Return the float with these bits, or None if there are too many bits."""
    size = float_type.compile_time_size
    if bits >= 1 << (8 * size):
        return None
    return float(next(iter(float_type.iter_unpack(bits.to_bytes(size, "little")))))


def _rounded_to_range(value: float, float_type: AnyFloat) -> float:
    """Return the value, or infinity where it overflows the type, as MLIR does for literals."""
    try:
        float_type.pack((value,))
    except OverflowError:
        return math.copysign(math.inf, value)
    return value


@dataclass
class _HexadecimalElement(AttrParser._TensorLiteralElement):
    """An element of a dense literal, written `0x...`."""

    def to_float_type(self, parser: AttrParser, float_type: AnyFloat) -> float:
        assert isinstance(self.value, int)
        number = _float_from_bits(self.value, float_type)
        if number is None:
            parser.raise_error(f"too many bits for {float_type}", self.span)
        return number


class LiteralParser(Parser):
    """The part of the parser for numbers, dense constants and strings."""

    def parse_optional_builtin_int_or_float_attr(
        self,
    ) -> IntegerAttr[Any] | FloatAttr[Any] | None:
        position = self.pos
        start = self._current_token
        is_negative = start.kind == MLIRTokenKind.MINUS
        is_number = start.kind in (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.FLOAT_LIT)
        if not is_negative and not is_number:
            return super().parse_optional_builtin_int_or_float_attr()
        text = self.lexer.input.content[position : position + 3].lstrip("-")
        value = self.parse_number()
        if self.parse_optional_punctuation(":") is None:
            self._resume_from(position)
            return super().parse_optional_builtin_int_or_float_attr()
        literal_type = self.parse_type()
        if not isinstance(literal_type, AnyFloat):
            if isinstance(literal_type, IndexType) and not _MIN_INDEX <= value <= _MAX_INDEX:
                self.raise_error(f"{value} does not fit in an index, which has 64 bits", position)
            self._resume_from(position)
            return super().parse_optional_builtin_int_or_float_attr()
        if not _is_hexadecimal(text):
            return FloatAttr(_rounded_to_range(float(value), literal_type), literal_type)
        if is_negative:
            self.raise_error("a hexadecimal float is a bit pattern and has no sign", position)
        number = _float_from_bits(int(value), literal_type)
        if number is None:
            self.raise_error(f"too many bits for {literal_type}", position)
        return FloatAttr(number, literal_type)

    def _parse_tensor_literal_element(self) -> AttrParser._TensorLiteralElement:
        is_hexadecimal = _is_hexadecimal(self._current_token.text)
        element = super()._parse_tensor_literal_element()
        if is_hexadecimal:
            return _HexadecimalElement(element.is_negative, element.value, element.span)
        return element

    def _parse_dense_literal_type(
        self,
    ) -> RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType]:
        position = self.pos
        literal_type = super()._parse_dense_literal_type()
        element_size = literal_type.element_type.compile_time_size
        size = math.prod(literal_type.get_shape()) * element_size
        if size > _MAX_CONSTANT_BYTES:
            self.raise_error(
                f"a constant of {size} bytes; the limit is {_MAX_CONSTANT_BYTES}", position
            )
        return literal_type

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[Any] | None
    ) -> DenseIntOrFPElementsAttr[Any]:
        start = self.pos
        self.parse_punctuation("<", " in dense attribute")
        if self._current_token.kind in (MLIRTokenKind.STRING_LIT, MLIRTokenKind.GREATER):
            self._resume_from(start)
            return super().parse_dense_int_or_fp_elements_attr(type)
        elements, shape = self._parse_tensor_literal()
        self.parse_punctuation(">", " in dense attribute")
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self._parse_dense_literal_type()
        if shape and list(type.get_shape()) != shape:
            self.raise_error(
                f"the literal has shape {shape}, its type {list(type.get_shape())}", start
            )
        element_type = type.element_type
        values = [self._element_value(element, element_type) for element in elements]
        try:
            return DenseIntOrFPElementsAttr.from_list(type, values)
        except VerifyException as error:
            self.raise_error(str(error), start, self.pos)

    def _element_value(self, element: AttrParser._TensorLiteralElement, element_type: Any) -> Any:
        if not isinstance(element_type, AnyFloat):
            return element.to_type(self, element_type)
        if isinstance(element, _HexadecimalElement):
            return element.to_float_type(self, element_type)
        return _rounded_to_range(element.to_float(self), element_type)

    def parse_optional_str_literal(self) -> str | None:
        position = self.pos
        return self._without_zero(super().parse_optional_str_literal(), position)

    def parse_optional_symbol_name(self) -> StringAttr | None:
        position = self.pos
        name = super().parse_optional_symbol_name()
        self._without_zero(None if name is None else name.data, position)
        return name

    def _without_zero(self, text: str | None, position: int) -> str | None:
        """Return a text; reject the character 0, which no text of a program may contain."""
        if text is not None and "\0" in text:
            self.raise_error("a string with the character 0", position)
        return text
