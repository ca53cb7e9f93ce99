"""The element types of the card: one entry per type, from which every table of types derives."""

import enum
from dataclasses import dataclass


@dataclass(frozen=True)
class ElementTypeInfo:
    """The properties of one element type.

    `code` is its number in program files. `mlir_name` is its spelling in KTIR. The dtypes whose
    elements it holds name it in torch_spyre/dtype_table.py.
    """

    code: int
    bits: int
    is_float: bool
    mlir_name: str

    @property
    def bytes(self) -> int:
        """Return the bytes of one element in memory; an I1 takes a whole byte."""
        return max(self.bits // 8, 1)


class ElementType(enum.IntEnum):
    """Types of elements and scalars; `index` is I64. Codes never change: files hold them."""

    info: ElementTypeInfo

    def __new__(cls, code: int, bits: int, is_float: bool, mlir_name: str) -> "ElementType":
        member = int.__new__(cls, code)
        member._value_ = code
        member.info = ElementTypeInfo(code, bits, is_float, mlir_name)
        return member

    F16 = 0, 16, True, "f16"
    BF16 = 1, 16, True, "bf16"
    F32 = 2, 32, True, "f32"
    F8E4M3 = 3, 8, True, "f8E4M3FN"
    F8E5M2 = 4, 8, True, "f8E5M2FNUZ"
    I1 = 5, 1, False, "i1"
    I8 = 6, 8, False, "i8"
    I16 = 7, 16, False, "i16"
    I32 = 8, 32, False, "i32"
    I64 = 9, 64, False, "i64"

    @property
    def bytes(self) -> int:
        """Return the bytes of one element in memory."""
        return self.info.bytes

    @property
    def bits(self) -> int:
        """Return the bits that carry meaning: 1 for I1, else all of them."""
        return self.info.bits

    @property
    def is_float(self) -> bool:
        """Return whether the type is a floating-point format."""
        return self.info.is_float

    @property
    def mlir_name(self) -> str:
        """Return the type's spelling in KTIR."""
        return self.info.mlir_name


ELEMENT_TYPES_BY_MLIR_NAME = {type.mlir_name: type for type in ElementType}
