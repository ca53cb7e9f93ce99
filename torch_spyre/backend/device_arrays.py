"""Binds tensors on a card as arrays of kernels: directly, or through a copy on the card.

A kernel addresses an array in row-major order, or, where the shape of its view is the device size
of the tensor's default layout, in the order of that layout. A tensor whose memory has that
order and the element type of the kernel's view is bound directly. Any other is copied to new
device memory first, and back afterwards if the kernel writes it; nothing passes through the host.
"""

from dataclasses import dataclass
from math import prod

import torch
from torch._subclasses.fake_tensor import FakeTensor

from torch_spyre import _C
from torch_spyre.backend.arrays import element_type_of
from torch_spyre.backend.conversion_kernels import convert
from torch_spyre.backend.program.instructions import Argument, ElementType
from torch_spyre.dtype_table import FORMATS
from torch_spyre.errors import KernelArgumentError

_FORMAT_TYPES = {
    name: type
    for name, record in FORMATS.items()
    for type in ElementType
    if type.mlir_name == record.ktir_type
}


@dataclass(frozen=True)
class DeviceArray:
    """A tensor on a card, bound to an argument of a kernel.

    `memory` is the tensor itself or a copy for the kernel; `row_major` has the tensor's elements in
    the order that the kernel addresses, in its own format; `memory` may hold another one.
    """

    name: str
    type: ElementType
    tensor: torch.Tensor
    row_major: torch.Tensor
    memory: torch.Tensor
    bytes: int

    @property
    def is_direct(self) -> bool:
        """Return whether the kernel accesses the memory of the tensor itself."""
        return self.memory is self.tensor

    def write_back(self) -> None:
        """Copy what the kernel wrote to the tensor, unless the kernel wrote the tensor itself."""
        if self.memory is not self.row_major:
            count, stored = self.tensor.numel(), stored_type(self.tensor)
            convert(count, self.memory, self.type, self.row_major, stored)
        if self.row_major is not self.tensor:
            self.tensor.copy_(self.row_major.view(self.tensor.shape))


def stored_type(tensor: torch.Tensor) -> ElementType:
    """Return the element type that a kernel sees in the memory of a tensor on a card."""
    return _FORMAT_TYPES[_C.get_device_dtype(tensor.dtype).name]


def accepted_types(tensor: torch.Tensor) -> tuple[ElementType, ...]:
    """Return the element types of views that a tensor on a card can be bound to.

    The first is the one in its memory; the other, that of its dtype, needs a conversion.
    """
    stored, declared = stored_type(tensor), element_type_of(tensor)
    return (stored,) if declared is None or declared is stored else (stored, declared)


def bind_device_tensor(
    kernel: str, argument: Argument, tensor: torch.Tensor, *, is_read: bool = True
) -> DeviceArray:
    """Bind a tensor on a card to an argument; copy it on the card if its memory does not match.

    Without `is_read`, the elements of such a copy are undefined. Raises KernelArgumentError for
    another dtype or shape than that of the kernel's view.
    """
    check_device_tensor(kernel, argument, tensor)
    detached = tensor.detach()
    layout = _tiles_of(argument, tensor)
    if layout is not None:
        size = prod(argument.shape) * argument.type.bytes
        memory = detached if _has_layout(tensor, layout) else _C.to_with_layout(detached, layout)
        return DeviceArray(argument.name, argument.type, detached, memory, memory, size)
    size = tensor.numel() * argument.type.bytes
    row_major = detached
    if not is_row_major(detached):
        row_major = torch.empty(tensor.numel(), dtype=tensor.dtype, device=tensor.device)
        if is_read:
            row_major.view(tensor.shape).copy_(detached)
    memory = row_major
    if stored_type(tensor) is not argument.type:
        memory = torch.empty(size, dtype=torch.int8, device=tensor.device)
        if is_read:
            convert(tensor.numel(), row_major, stored_type(tensor), memory, argument.type)
    return DeviceArray(argument.name, argument.type, detached, row_major, memory, size)


def check_device_tensor(kernel: str, argument: Argument, tensor: torch.Tensor) -> None:
    """Raise KernelArgumentError if the kernel's view has another dtype or shape than a tensor."""
    types = accepted_types(tensor)
    if argument.type not in types:
        held = " or ".join(type.name.lower() for type in types)
        raise KernelArgumentError(
            kernel,
            f"{argument.name} is a tensor of {tensor.dtype} on {tensor.device}, which kernels "
            f"access as {held}, and the kernel's view of it holds "
            f"{argument.type.name.lower()}; convert the tensor first",
        )
    if not argument.has_shape or tuple(tensor.shape) == argument.shape:
        return
    if _tiles_of(argument, tensor) is not None:
        return
    raise KernelArgumentError(
        kernel,
        f"{argument.name} has shape {tuple(tensor.shape)}, and the kernel's view of it "
        f"{argument.shape}; pass a tensor of that shape",
    )


def _tiles_of(argument: Argument, tensor: torch.Tensor) -> _C.SpyreTensorLayout | None:
    """Return the layout whose device size is the shape of the kernel's view; None if there is none.

    It is the default layout, or else the one that the tensor has.
    """
    if not argument.has_shape or tuple(tensor.shape) == argument.shape:
        return None
    if argument.type is not stored_type(tensor) or len(argument.shape) <= tensor.ndim:
        return None
    layouts = [_default_layout(tensor)]
    if not isinstance(tensor, FakeTensor):
        layouts.append(_C.get_spyre_tensor_layout(tensor))
    matching = (layout for layout in layouts if tuple(layout.device_size) == argument.shape)
    return next(matching, None)


def _has_layout(tensor: torch.Tensor, layout: _C.SpyreTensorLayout) -> bool:
    """Return whether the memory of a tensor is the whole tensor in this layout."""
    return (
        tensor.storage_offset() == 0
        and _C.get_spyre_tensor_layout(tensor) == layout
        and tensor.numel() * tensor.element_size() == _C.content_bytes(tensor)
    )


def _default_layout(tensor: torch.Tensor) -> _C.SpyreTensorLayout:
    """Return the layout of new tensors with the shape, strides and dtype of a tensor."""
    shape, strides = list(map(int, tensor.shape)), list(map(int, tensor.stride()))
    return _C.SpyreTensorLayout(shape, strides, tensor.dtype, list(range(len(shape))))


def is_row_major(tensor: torch.Tensor) -> bool:
    """Return whether the memory of a tensor begins with its elements in row-major order."""
    if tensor.storage_offset() or not tensor.is_contiguous() or _C.is_byte_view(tensor):
        return False
    layout = _C.get_spyre_tensor_layout(tensor)
    if layout.element_arrangement is not _C.ElementArrangement.STANDARD:
        return False
    stride = 1
    for size, host_stride in zip(
        reversed(layout.device_size), reversed(layout.stride_map), strict=True
    ):
        if size > 1 and host_stride != stride:
            return False
        stride *= size
    return True


def empty_row_major(
    shape: torch.Size, dtype: torch.dtype, device: torch.device
) -> torch.Tensor | None:
    """Return a tensor that kernels write directly; None if no layout of its shape is row-major."""
    per_stick = _C.get_elem_in_stick(dtype)
    if not shape or shape[-1] % per_stick or not prod(shape):
        return None
    strides = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
    layout = _C.SpyreTensorLayout(
        [*shape[:-1], shape[-1] // per_stick, per_stick],
        [*strides[:-1], per_stick, 1],
        _C.get_device_dtype(dtype),
    )
    return _C.spyre_empty_with_layout(list(shape), strides, dtype, layout, device)
