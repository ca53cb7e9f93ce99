"""`nn.Module.to("spyre")`: weights of linear layers get the layout the matrix unit reads.

A 2-D `nn.Linear.weight` is stored with the output features inside the stick; shape and strides
stay. Everything else takes the default layout. Parameters keep their identity, as on other devices,
so ties and optimizers made before the move stay valid.
"""

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import UnsupportedDtypeError

_being_moved = threading.local()


def load_model_to_spyre(
    model: torch.nn.Module, dtype: torch.dtype | None = None, device: str = DEVICE_NAME
) -> torch.nn.Module:
    """Moves a model to a card; the same as `model.to("spyre", dtype)`."""
    return model.to(device) if dtype is None else model.to(device, dtype)


def apply() -> None:
    original = torch.nn.Module.to
    if getattr(original, "_spyre_patched", False):
        return
    replacement = _to_card(original)
    replacement._spyre_patched = True  # type: ignore[attr-defined]
    torch.nn.Module.to = replacement  # type: ignore[method-assign]
    # The generated one goes around `to`.
    torch.nn.Module.spyre = lambda self, device=None: self.to(_device(device))  # type: ignore[attr-defined]


def _device(device: Any) -> torch.device:
    if isinstance(device, int):
        return torch.device(DEVICE_NAME, device)
    return torch.device(device or DEVICE_NAME)


def _to_card(original: Callable[..., Any]) -> Callable[..., Any]:
    def to(self: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
        device, dtype, _, _ = torch._C._nn._parse_to(*args, **kwargs)
        if device is None or device.type != DEVICE_NAME:
            result: torch.nn.Module = original(self, *args, **kwargs)
            return result
        _check_dtypes(self, dtype)
        _being_moved.weights = _linear_weights(self)
        try:
            moved: torch.nn.Module = original(self, *args, **kwargs)
        finally:
            _being_moved.weights = frozenset()
        return moved

    to.__doc__ = original.__doc__
    return to


def _check_dtypes(module: torch.nn.Module, dtype: torch.dtype | None) -> None:
    """Before anything moves, so that a model is never left half on the card."""
    for tensor in [*module.parameters(), *module.buffers()]:
        wanted = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        if _C.get_device_dtype(wanted) is _C.DataFormats.INVALID:
            raise UnsupportedDtypeError(wanted)


def _linear_weights(module: torch.nn.Module) -> frozenset[int]:
    # Not `part.weight`: of a parametrised layer that computes, and may change, the weight.
    linears = (part for part in module.modules() if isinstance(part, torch.nn.Linear))
    weights = (part._parameters.get("weight") for part in linears)
    return frozenset(
        id(weight)
        for weight in weights
        if weight is not None
        and not is_lazy(weight)
        and weight.dim() == 2
        and weight.device.type == "cpu"
    )


def layout_for(
    tensor: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _C.SpyreTensorLayout | None:
    """The layout a tensor gets in the move going on; None outside one, or for the default."""
    if id(tensor) not in getattr(_being_moved, "weights", ()):
        return None
    _, dtype, _, _ = torch._C._nn._parse_to(*args, **kwargs)
    return _C.SpyreTensorLayout(
        list(tensor.shape), list(tensor.stride()), dtype or tensor.dtype, [1, 0]
    )
