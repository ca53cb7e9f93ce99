"""Maps the data formats of the card to element types of KTIR."""

from xdsl.dialects.builtin import (
    AnyFloat,
    Float8E4M3FNType,
    Float8E5M2FNUZType,
    Float16Type,
    Float32Type,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute

from torch_spyre._C import DataFormats
from torch_spyre._inductor.to_ktir.extents import Shape, static
from torch_spyre.dtype_table import FORMATS
from torch_spyre.errors import UnsupportedError

F16, F32 = Float16Type(), Float32Type()
F8E4M3, F8E5M2 = Float8E4M3FNType(), Float8E5M2FNUZType()
I1, I8, I16, I32, I64 = (IntegerType(width) for width in (1, 8, 16, 32, 64))

_BY_NAME: dict[str, Attribute] = {
    str(type): type for type in (F16, F32, F8E4M3, F8E5M2, I1, I8, I16, I32, I64)
}
_TYPES: dict[DataFormats, Attribute] = {
    DataFormats.__members__[format.name]: _BY_NAME[format.ktir_type] for format in FORMATS.values()
}


def element_type(format: DataFormats) -> Attribute:
    """Return the element type of a format; raise `UnsupportedError` if kernels have none."""
    if format not in _TYPES:
        raise UnsupportedError(f"kernels on tensors in the format {format.name}")
    return _TYPES[format]


def tensor_type(element: Attribute, shape: Shape) -> TensorType[Attribute]:
    """Return the type of a tensor value."""
    return TensorType(element, static(shape))


def is_float(element: Attribute) -> bool:
    """Return whether an element type is a float of any width."""
    return isinstance(element, AnyFloat)


def bytes_of(element: Attribute) -> int:
    """Return the width of an element in bytes; a bool takes one."""
    assert isinstance(element, AnyFloat | IntegerType)
    width: int = element.bitwidth if isinstance(element, AnyFloat) else element.width.data
    return max(1, width // 8)
