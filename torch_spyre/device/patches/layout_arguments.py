"""`device_layout=` of `Tensor.to` and `torch.empty`, whose signatures are C++."""

from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.patches import module_loading
from torch_spyre.device.patches.import_hook import after_import
from torch_spyre.device.patches.wrapping import Function, is_spyre, wrap

_CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)
# PyTorch builds these from their parts without asking the device.
_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def apply() -> None:
    torch.Tensor.device_tensor_layout = _device_tensor_layout  # type: ignore[attr-defined]
    wrap(torch.Tensor, "to", _to_with_layout)
    wrap(torch, "empty", _empty_with_layout)


def _device_tensor_layout(self: torch.Tensor) -> _C.SpyreTensorLayout | None:
    """The layout in device memory; None for tensors that are not on a card."""
    return _C.get_spyre_tensor_layout(self) if is_spyre(self) else None


def _to_with_layout(original: Function) -> Function:
    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        layout = kwargs.pop("device_layout", None)
        if layout is None:
            layout = module_loading.layout_for(self, args, kwargs)
        if layout is None:
            result: torch.Tensor = original(self, *args, **kwargs)
            if result.layout in _COMPRESSED and result.device.type == DEVICE_NAME:
                raise NotImplementedError(
                    f"Non strided layout not supported: spyre holds no {result.layout} tensors"
                )
            return result
        return _move_to_layout(original, self, layout, args, kwargs)

    return to


def _move_to_layout(
    original: Function,
    tensor: torch.Tensor,
    layout: _C.SpyreTensorLayout,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> torch.Tensor:
    device, dtype, non_blocking, memory_format = torch._C._nn._parse_to(
        *args, **_without_copy(kwargs)
    )
    del non_blocking, memory_format
    if device is not None and device.type != DEVICE_NAME:
        raise ValueError(f"device_layout needs a {DEVICE_NAME} device, got {device}")
    if not isinstance(layout, _C.SpyreTensorLayout):
        raise TypeError(f"device_layout must be a SpyreTensorLayout, got {type(layout).__name__}")
    source = tensor if dtype in (None, tensor.dtype) else original(tensor, dtype)
    here = source.device if source.device.type == DEVICE_NAME else None
    target = here if device is None or (here is not None and device.index is None) else device
    unchanged = here is not None and target == here and _C.get_spyre_tensor_layout(source) == layout
    if unchanged and not kwargs.get("copy", False):
        return source
    with torch.no_grad():
        moved = _C.spyre_empty_with_layout(
            list(source.shape), list(source.stride()), source.dtype, layout, target
        )
        moved.copy_(source.detach())
    return moved.requires_grad_(source.requires_grad and source.is_leaf)


def _without_copy(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name != "copy"}


# The card has no channels_last. Ops that PyTorch composes need such strides all the same, and the
# dispatcher cannot tell who calls, so the refusal is here.
def _refuse_channels_last(memory_format: torch.memory_format, device: Any) -> None:
    if torch.device(device or torch.get_default_device()).type == DEVICE_NAME:
        name = "ChannelsLast" if memory_format is torch.channels_last else "ChannelsLast3d"
        raise RuntimeError(f"Spyre backend only supports contiguous memory format, got: {name}")


def _empty_with_layout(original: Function) -> Function:
    # `with torch.device(...)` knows the factories by identity.
    after_import("torch.utils._device", lambda module: module._device_constructors().add(original))

    def empty(*size: Any, device_layout: Any = None, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("memory_format") in _CHANNELS_LAST:
            _refuse_channels_last(kwargs["memory_format"], kwargs.get("device"))
        if device_layout is None:
            result: torch.Tensor = original(*size, **kwargs)
            return result
        as_one = len(size) == 1 and not isinstance(size[0], int)
        shape = kwargs.pop("size", size[0] if as_one else size)
        device = torch.device(kwargs.pop("device", None) or DEVICE_NAME)
        if device.type != DEVICE_NAME:
            raise ValueError(f"device_layout needs a {DEVICE_NAME} device, got {device}")
        requires_grad = kwargs.pop("requires_grad", False)
        tensor = _C.empty_with_layout(list(shape), device_layout, device=device, **kwargs)
        return tensor.requires_grad_(requires_grad)

    return empty
