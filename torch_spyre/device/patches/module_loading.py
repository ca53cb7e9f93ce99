"""`nn.Module` on the card: weights of linear layers have the layout the matrix unit reads.

A 2-D `nn.Linear.weight` is stored with the output features inside the stick; shape and strides
stay. Everything else takes the default layout. That holds after `to`, `half`, `to_empty` and
whatever else goes through `Module._apply`. Parameters keep their identity, as on other devices, so
ties and optimizers made before the move stay valid.
"""

import threading
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.index import DeviceLike, card_device
from torch_spyre.device.patches.layout_arguments import to_layout
from torch_spyre.device.patches.wrapping import Function, add, is_spyre, wrap
from torch_spyre.errors import UnsupportedDtypeError

_move = threading.local()


def load_model_to_spyre(
    model: torch.nn.Module, dtype: torch.dtype | None = None, device: DeviceLike = None
) -> torch.nn.Module:
    """Moves a model to a card; the same as `model.to("spyre", dtype)`."""
    return model.to(card_device(device), dtype)


def apply() -> None:
    wrap(torch.nn.Module, "to", _to_card)
    add(torch.nn.Module.to, "_spyre_patched", True)
    wrap(torch.nn.Module, "_apply", _keeping_linear_layouts)
    # The generated one goes around `to`.
    add(torch.nn.Module, "spyre", lambda self, device=None: self.to(card_device(device)))


def _to_card(original: Function) -> Function:
    def to(self: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        if device is None or device.type != DEVICE_NAME:
            result: torch.nn.Module = original(self, *args, **kwargs)
            return result
        _check_dtypes(self, dtype)
        _move.arguments = (device, dtype, non_blocking)
        try:
            moved: torch.nn.Module = original(self, *args, **kwargs)
        finally:
            del _move.arguments
        return moved

    return to


def _check_dtypes(module: torch.nn.Module, dtype: torch.dtype | None) -> None:
    """Before anything moves, so that a model is never left half on the card."""
    for tensor in [*module.parameters(), *module.buffers()]:
        wanted = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        if _C.get_device_dtype(wanted) is _C.DataFormats.INVALID:
            raise UnsupportedDtypeError(wanted)


def _keeping_linear_layouts(original: Function) -> Function:
    def _apply(self: torch.nn.Module, fn: Function, recurse: bool = True) -> torch.nn.Module:
        # The outermost module looks for the weights: others may be tied to them.
        if not isinstance(fn, _KeepingLinearLayouts):
            fn = _KeepingLinearLayouts(fn, _linear_weights(self))
        result: torch.nn.Module = original(self, fn, recurse)
        return result

    return _apply


class _KeepingLinearLayouts:
    """A conversion of tensors that gives weights of linear layers their layout."""

    def __init__(self, convert: Function, weights: frozenset[int]) -> None:
        self._convert = convert
        self._weights = weights

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._weights:
            return self._converted(tensor)
        if hasattr(_move, "arguments") and not tensor.is_meta:
            # Straight into its layout, rather than there by way of the default.
            device, dtype, non_blocking = _move.arguments
            dtype = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
            layout = _linear_layout(tensor, dtype)
            return to_layout(tensor, device, dtype, non_blocking, device_layout=layout)
        weight = self._converted(tensor)
        if not is_spyre(weight) or weight.dim() != 2:
            return weight
        layout = _linear_layout(weight, weight.dtype)
        return to_layout(weight, device_layout=layout)

    def _converted(self, tensor: torch.Tensor) -> torch.Tensor:
        converted: torch.Tensor = self._convert(tensor)
        return converted


def _linear_layout(weight: torch.Tensor, dtype: torch.dtype) -> _C.SpyreTensorLayout:
    return _C.SpyreTensorLayout(list(weight.shape), list(weight.stride()), dtype, [1, 0])


def _linear_weights(module: torch.nn.Module) -> frozenset[int]:
    # Not `part.weight`: of a parametrised layer that computes, and may change, the weight.
    linears = (part for part in module.modules() if isinstance(part, torch.nn.Linear))
    weights = (part._parameters.get("weight") for part in linears)
    # Subclasses of tensors have conversions of their own.
    plain = (weight for weight in weights if type(weight) is torch.nn.Parameter)
    return frozenset(id(weight) for weight in plain if not is_lazy(weight) and weight.dim() == 2)
