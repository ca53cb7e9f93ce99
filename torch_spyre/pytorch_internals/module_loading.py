"""Moving an `nn.Module` to a card: weights of linear layers get the layout of the matrix unit.

A 2-D `nn.Linear.weight` is stored with the output features inside the stick; its shape and strides
do not change. All other tensors get the default layout. This holds after `to`, `half`, `to_empty`
and every other method that uses `Module._apply`. Parameters keep their identity, as on other
devices, so tied weights and optimizers created before the move stay valid.
"""

import threading
from contextlib import ExitStack
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.index import DeviceLike, card_device
from torch_spyre.dtypes import RAW_DTYPES
from torch_spyre.errors import UnsupportedDtypeError
from torch_spyre.pytorch_internals.layout_arguments import to_layout
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import (
    Function,
    is_spyre,
    set_attribute,
    wrap,
)

_move = threading.local()


def load_model_to_spyre(
    model: torch.nn.Module, dtype: torch.dtype | None = None, device: DeviceLike = None
) -> torch.nn.Module:
    """Move a model to a card; the same as `model.to("spyre", dtype)`."""
    return model.to(card_device(device), dtype)


def _apply(undo: ExitStack) -> None:
    wrap(undo, torch.nn.Module, "to", _to_card)
    set_attribute(undo, torch.nn.Module.to, "_spyre_patched", True)
    wrap(undo, torch.nn.Module, "_apply", _with_linear_layouts)
    # The method that PyTorch generates for a backend does not call `to`.
    to_card = lambda self, device=None: self.to(card_device(device))  # noqa: E731  (a method)
    set_attribute(undo, torch.nn.Module, "spyre", to_card)


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
    """Raise for an unsupported dtype before any tensor moves, so that no model is half moved."""
    for tensor in [*module.parameters(), *module.buffers()]:
        target = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        if _C.get_device_dtype(target) is _C.DataFormats.INVALID:
            raise UnsupportedDtypeError(target)


def _with_linear_layouts(original: Function) -> Function:
    def _apply(self: torch.nn.Module, fn: Function, recurse: bool = True) -> torch.nn.Module:
        # The outermost module collects the weights: other modules may be tied to them.
        if not isinstance(fn, _LinearLayoutConversion):
            fn = _LinearLayoutConversion(fn, _linear_weights(self))
        result: torch.nn.Module = original(self, fn, recurse)
        return result

    return _apply


class _LinearLayoutConversion:
    """A conversion of tensors that stores weights of linear layers in their layout."""

    def __init__(self, convert: Function, weights: frozenset[int]) -> None:
        self._convert = convert
        self._weights = weights

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._weights:
            return self._converted(tensor)
        if hasattr(_move, "arguments") and not tensor.is_meta:
            # Directly into its layout, without a copy in the default layout.
            device, dtype, non_blocking = _move.arguments
            dtype = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
            if dtype in RAW_DTYPES:  # they have one layout, and no kernel reads them
                return self._converted(tensor)
            layout = _linear_layout(tensor, dtype)
            return to_layout(tensor, device, dtype, non_blocking, device_layout=layout)
        weight = self._converted(tensor)
        if not is_spyre(weight) or weight.dim() != 2 or weight.dtype in RAW_DTYPES:
            return weight
        layout = _linear_layout(weight, weight.dtype)
        return to_layout(weight, device_layout=layout)

    def _converted(self, tensor: torch.Tensor) -> torch.Tensor:
        converted: torch.Tensor = self._convert(tensor)
        return converted


def _linear_layout(weight: torch.Tensor, dtype: torch.dtype) -> _C.SpyreTensorLayout:
    return _C.SpyreTensorLayout(list(weight.shape), list(weight.stride()), dtype, [1, 0])


def _linear_weights(module: torch.nn.Module) -> frozenset[int]:
    # Not `linear.weight`: for a parametrised layer that computes, and may change, the weight.
    linears = (child for child in module.modules() if isinstance(child, torch.nn.Linear))
    weights = (linear._parameters.get("weight") for linear in linears)
    # Tensor subclasses implement their own conversions.
    plain = (weight for weight in weights if type(weight) is torch.nn.Parameter)
    return frozenset(id(weight) for weight in plain if not is_lazy(weight) and weight.dim() == 2)


PATCH = Patch(
    name="module_loading",
    targets=(
        PrivateName("torch.nn.Module.to"),
        PrivateName("torch.nn.Module._apply", ("fn", "recurse")),
    ),
    changes="`Module.to` stores 2-D weights of linear layers in the layout of the matrix unit, and "
    "checks all dtypes before it moves the first tensor.",
    reason="`Module._apply` converts tensors without saying to which module they belong.",
    breaks="Weights arrive in the default layout: each matmul copies its weight first.",
    apply=_apply,
)
