"""Arrays in device memory as kernels address them: contiguous, in row-major order."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from torch_spyre.backend.lowering.constants import argument_bits
from torch_spyre.backend.program.instructions import Argument, ElementType
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.dtypes import RECORDS

_ELEMENT_TYPES = {
    dtype: ElementType[record.element_type]
    for dtype, record in RECORDS.items()
    if record.element_type is not None
}
_NUMPY_DTYPES = {dtype for dtype in _ELEMENT_TYPES if RECORDS[dtype].is_in_numpy}
_NUMPY_ELEMENT_TYPES = {RECORDS[dtype].name: _ELEMENT_TYPES[dtype] for dtype in _NUMPY_DTYPES}


def is_array(value: Any) -> bool:
    """Return whether a value is a NumPy array or a tensor."""
    return isinstance(value, np.ndarray | torch.Tensor)


def element_type_of(value: np.ndarray | torch.Tensor) -> ElementType | None:
    """Return the element type of an array; None if the card has none for its dtype."""
    if isinstance(value, torch.Tensor):
        return _ELEMENT_TYPES.get(value.dtype)
    return _NUMPY_ELEMENT_TYPES.get(value.dtype.name)


@dataclass(frozen=True)
class ArrayArgument:
    """An array on the card; `memory` is one-dimensional, of float16 for f16 and else of int8."""

    name: str
    type: ElementType
    memory: torch.Tensor
    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    def to_numpy(self) -> np.ndarray:
        """Return a copy of the array; bfloat16 and float8, which NumPy lacks, become float32."""
        # NumPy allocates huge pages; page faults of small ones take longer than the copy.
        memory_dtype = np.float16 if self.type is ElementType.F16 else np.int8
        host = np.empty(self.memory.shape, memory_dtype)
        torch.from_numpy(host).copy_(self.memory)
        if self.type is ElementType.F16:
            return host.reshape(self.shape)
        values = _reinterpreted(self.dtype, torch.from_numpy(host))
        if self.dtype not in _NUMPY_DTYPES:
            values = values.to(torch.float32)
        return values.numpy().reshape(self.shape)


def copy_to_card(name: str, type: ElementType, value: np.ndarray | torch.Tensor) -> ArrayArgument:
    """Copy an array to new device memory."""
    tensor = value if isinstance(value, torch.Tensor) else _from_numpy(value)
    flat = tensor.detach().reshape(-1)
    size = flat.numel() * type.bytes
    if type is ElementType.F16:
        memory = _copied_to_card(flat)
    else:
        memory = _copied_to_card(_reinterpreted(torch.int8, flat.cpu().contiguous()))
    return ArrayArgument(name, type, memory, size, tuple(tensor.shape), tensor.dtype)


def _reinterpreted(dtype: torch.dtype, flat: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor as another dtype."""
    # An empty NumPy array may have strides that torch cannot reinterpret.
    return flat.view(dtype) if flat.numel() else torch.empty(0, dtype=dtype)


def _from_numpy(value: np.ndarray) -> torch.Tensor:
    # Copy if torch cannot alias the array: negative strides, or read-only memory.
    if value.flags.writeable and value.flags.c_contiguous:
        return torch.from_numpy(value)
    return torch.from_numpy(np.array(value, order="C"))


def _copied_to_card(flat: torch.Tensor) -> torch.Tensor:
    """Copy a one-dimensional tensor, whose elements are contiguous in device memory."""
    memory = torch.empty(flat.shape, dtype=flat.dtype, device=DEVICE_NAME)
    return memory.copy_(flat)


def zeros_on_card(name: str, type: ElementType, num_bytes: int) -> ArrayArgument:
    """Return a one-dimensional array of zeros in new device memory."""
    if type is ElementType.F16:
        memory = torch.zeros(num_bytes // 2, dtype=torch.float16, device=DEVICE_NAME)
    else:
        memory = _copied_to_card(torch.zeros(num_bytes, dtype=torch.int8))
    shape = (num_bytes // type.bytes,)
    return ArrayArgument(name, type, memory, num_bytes, shape, dtype_of(type))


def dtype_of(type: ElementType) -> torch.dtype:
    """Return the first dtype of the table whose arrays have this element type."""
    return next(dtype for dtype, element_type in _ELEMENT_TYPES.items() if element_type is type)


def scalar_bits(kernel: str, argument: Argument, value: Any) -> int:
    """Return a scalar argument as the 64 bits of its register."""
    return argument_bits(kernel, argument.name, argument.type, value)
