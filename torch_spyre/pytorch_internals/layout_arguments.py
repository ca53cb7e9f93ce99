"""The argument `device_layout=` of `Tensor.to` and `torch.empty`; `Tensor.device_tensor_layout`.

PyTorch parses both signatures in C++. `csrc/torch/bind_layout_arguments.cpp` replaces the C
functions in PyTorch's method tables and calls the functions of this module only if one of our
keywords is present; all other calls go straight to the original C function.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import is_spyre, set_attribute

_CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)


def _apply(undo: ExitStack) -> None:
    set_attribute(undo, torch.Tensor, "device_tensor_layout", _device_tensor_layout)
    undo.callback(_C._restore_method_tables)
    _C._intercept_to(torch.Tensor.to, to_layout)
    _C._intercept_empty(torch.empty, _empty)


def _device_tensor_layout(self: torch.Tensor) -> _C.SpyreTensorLayout | None:
    """Return the layout in device memory; None for tensors that are not on a card."""
    return _C.get_spyre_tensor_layout(self) if is_spyre(self) else None


def to_layout(
    self: torch.Tensor, *args: Any, device_layout: _C.SpyreTensorLayout | None, **kwargs: Any
) -> torch.Tensor:
    """Implement `Tensor.to` with `device_layout=`."""
    if device_layout is None:
        return self.to(*args, **kwargs)
    if has_torch_function_unary(self):
        kwargs["device_layout"] = device_layout
        moved: torch.Tensor = handle_torch_function(torch.Tensor.to, (self,), self, *args, **kwargs)
        return moved
    if not isinstance(device_layout, _C.SpyreTensorLayout):
        kind = type(device_layout).__name__
        raise TypeError(f"device_layout must be a SpyreTensorLayout, got {kind}")
    args, copy = _without_copy(args, kwargs)
    device, dtype, non_blocking, memory_format = torch._C._nn._parse_to(*args, **kwargs)
    _check_device(device)
    _reject_channels_last(memory_format)
    source = self if dtype is None else self.to(dtype)
    is_dense = memory_format is torch.contiguous_format or _is_expanded(source)
    strides = _contiguous_strides(source) if is_dense else source.stride()
    is_on_card = source.device.type == DEVICE_NAME
    stays = is_on_card and (device is None or device.index in (None, source.device.index))
    same_strides = stays and not copy and strides == source.stride()
    if same_strides and _C.get_spyre_tensor_layout(source) == device_layout:
        return source
    target = source.device if stays else device or torch.device(DEVICE_NAME)
    moved = _C.spyre_empty_with_layout(
        list(source.shape), list(strides), source.dtype, device_layout, target
    )
    return moved.copy_(source, non_blocking)


def _without_copy(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], bool]:
    """Remove `copy` from the arguments of `to`: PyTorch's parser function does not accept it."""
    if "copy" in kwargs:
        return args, bool(kwargs.pop("copy"))
    position = 2 if args and isinstance(args[0], torch.dtype | torch.Tensor) else 3
    return args[:position], len(args) > position and bool(args[position])


def _is_expanded(tensor: torch.Tensor) -> bool:
    return any(
        size > 1 and not step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    )


def _contiguous_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    return torch.empty(tensor.shape, device="meta").stride()


def _check_device(device: torch.device | None) -> None:
    if device is not None and device.type != DEVICE_NAME:
        raise ValueError(f"device_layout needs a {DEVICE_NAME} device, got {device}")


# Cards do not support channels_last. Composite ops of PyTorch need such strides all the same, and a
# kernel does not know its caller, so the check is here.
def _reject_channels_last(memory_format: torch.memory_format | None) -> None:
    if memory_format in _CHANNELS_LAST:
        name = "ChannelsLast" if memory_format is torch.channels_last else "ChannelsLast3d"
        raise RuntimeError(f"Spyre backend only supports contiguous memory format, got: {name}")


def _empty(*size: Any, **kwargs: Any) -> Any:
    """Implement `torch.empty` with `device_layout=` or `memory_format=`."""
    device = kwargs.get("device")
    if "device_layout" not in kwargs:
        is_on_card = device is not None and torch.device(device).type == DEVICE_NAME
        _reject_channels_last(kwargs.get("memory_format") if is_on_card else None)
        return NotImplemented
    if kwargs["device_layout"] is None:
        del kwargs["device_layout"]
        return torch.empty(*size, **kwargs)
    if has_torch_function_unary(None):  # a mode, which may choose the device
        return handle_torch_function(torch.empty, (), *size, **kwargs)
    _check_device(None if device is None else torch.device(device))
    is_one_sequence = len(size) == 1 and not isinstance(size[0], int)
    shape = kwargs.pop("size", size[0] if is_one_sequence else size)
    requires_grad = kwargs.pop("requires_grad", False)
    kwargs["device"] = torch.device(DEVICE_NAME if device is None else device)
    layout = kwargs.pop("device_layout")
    tensor = _C.empty_with_layout(list(shape), layout, **kwargs)
    return tensor.requires_grad_(requires_grad)


PATCH = Patch(
    name="layout_arguments",
    targets=(PrivateName("torch.Tensor.to"), PrivateName("torch.empty")),
    changes="`Tensor.to` and `torch.empty` accept `device_layout=`; tensors have "
    "`device_tensor_layout()`. The entries of both functions in PyTorch's C method tables "
    "(`PyMethodDef.ml_meth`) are replaced, so the Python objects stay the same.",
    reason="Their signatures are parsed in C++. Replacing the Python attributes would slow down "
    "every call and hide the functions from Dynamo, TorchScript and `__torch_function__`.",
    breaks="`import torch` fails with 'called in a way that torch_spyre does not support' if the "
    "calling convention changes; `device_layout=` is a TypeError if the functions move.",
    apply=_apply,
)
