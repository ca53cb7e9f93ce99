"""Arrays in device memory as kernels address them: elements one after the other, row by row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from torch_spyre.backend.lowering.constants import argument_bits
from torch_spyre.backend.program.instructions import Argument, ElementType
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.dtypes import RECORDS

_TORCH = {
    dtype: ElementType[record.element_type]
    for dtype, record in RECORDS.items()
    if record.element_type is not None
}
_NUMPY_DTYPES = {dtype for dtype in _TORCH if RECORDS[dtype].is_in_numpy}
_NUMPY = {RECORDS[dtype].name: _TORCH[dtype] for dtype in _NUMPY_DTYPES}


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | torch.Tensor)


def element_type_of(value: np.ndarray | torch.Tensor) -> ElementType | None:
    if isinstance(value, torch.Tensor):
        return _TORCH.get(value.dtype)
    return _NUMPY.get(value.dtype.name)


@dataclass(frozen=True)
class ArrayArgument:
    """An array on the card. `memory` is one-dimensional; all but f16 is held as plain bytes."""

    name: str
    type: ElementType
    memory: torch.Tensor
    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    def to_numpy(self) -> np.ndarray:
        """What the card holds now. bfloat16 and float8, which NumPy lacks, come as float32."""
        # NumPy asks for huge pages; filling fresh memory in small ones takes longer than the copy.
        held = np.float16 if self.type is ElementType.F16 else np.int8
        host = np.empty(self.memory.shape, held)
        torch.from_numpy(host).copy_(self.memory)
        if self.type is ElementType.F16:
            return host.reshape(self.shape)
        values = _seen_as(self.dtype, torch.from_numpy(host))
        if self.dtype not in _NUMPY_DTYPES:
            values = values.to(torch.float32)
        return values.numpy().reshape(self.shape)


def place(
    name: str, type: ElementType, value: np.ndarray | torch.Tensor, *, raw: bool = False
) -> ArrayArgument:
    """Copies an array to new device memory. `raw`: it holds bytes of the type already."""
    tensor = value if isinstance(value, torch.Tensor) else _from_numpy(value)
    flat = tensor.detach().reshape(-1)
    if raw:
        memory = _to_card(flat)
        if type is ElementType.F16:
            memory = _as_half(memory)
        return ArrayArgument(
            name, type, memory, flat.numel(), (flat.numel() // type.bytes,), dtype_of(type)
        )
    size = flat.numel() * type.bytes
    if type is ElementType.F16:
        memory = _to_card(flat)
    else:
        memory = _to_card(_seen_as(torch.int8, flat.cpu().contiguous()))
    return ArrayArgument(name, type, memory, size, tuple(tensor.shape), tensor.dtype)


def _seen_as(dtype: torch.dtype, flat: torch.Tensor) -> torch.Tensor:
    """The same bytes. NumPy's arrays of nothing have a stride that torch sees no bytes through."""
    return flat.view(dtype) if flat.numel() else torch.empty(0, dtype=dtype)


def _from_numpy(value: np.ndarray) -> torch.Tensor:
    # A copy where torch could not share: negative strides, or memory that must not be written.
    if value.flags.writeable and value.flags.c_contiguous:
        return torch.from_numpy(value)
    return torch.from_numpy(np.array(value, order="C"))


def _to_card(flat: torch.Tensor) -> torch.Tensor:
    """One dimension in device memory is elements one after the other."""
    memory = torch.empty(flat.shape, dtype=flat.dtype, device=DEVICE_NAME)
    return memory.copy_(flat)


def _as_half(memory: torch.Tensor) -> torch.Tensor:
    """Bytes of zero as halves of zero."""
    return torch.zeros(memory.numel() // 2, dtype=torch.float16, device=DEVICE_NAME)


def dtype_of(type: ElementType) -> torch.dtype:
    """Return the first dtype of the table whose arrays have this element type."""
    return next(dtype for dtype, element_type in _TORCH.items() if element_type is type)


def scalar_bits(kernel: str, argument: Argument, value: Any) -> int:
    """A scalar argument as the 64 bits of its register."""
    return argument_bits(kernel, argument.name, argument.type, value)
