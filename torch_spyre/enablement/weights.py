"""Replace the parameters and buffers of a model: on another device, with or without values."""

import copy
from collections.abc import Callable
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.layout_arguments import to_layout


def to_meta_device(model: torch.nn.Module) -> torch.nn.Module:
    """Return a copy of the model on the meta device; the original is unchanged."""
    memo = {
        id(tensor): _like(tensor, tensor.to("meta"))
        for tensor in (*model.parameters(), *model.buffers())
    }
    return copy.deepcopy(model, memo)


def move_to_card(
    model: torch.nn.Module, values: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> torch.nn.Module:
    """Move a model from the meta device to the card, tensor by tensor, and return it.

    `values` maps each meta tensor to a tensor on the host; at most one of these exists at a time.
    Without it the device memory is never touched and costs the host nothing, so models of any size
    that the card holds can be timed. Weights of linear layers get the layout of `Module.to`.
    """
    linears = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    weights = {id(linear.weight) for linear in linears if linear.weight.dim() == 2}
    device = torch.device(DEVICE_NAME, _C.current_device())

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        size, stride, dtype = list(tensor.shape), list(tensor.stride()), tensor.dtype
        layout = None
        if id(tensor) in weights:
            layout = _C.SpyreTensorLayout(size, stride, dtype, [1, 0])
        if values is not None:
            return to_layout(values(tensor), device, device_layout=layout)
        if layout is None:
            return torch.empty_strided(size, stride, dtype=dtype, device=device)
        return _C.spyre_empty_with_layout(size, stride, dtype, layout, device)

    replace_tensors(model, convert)
    return model


def replace_tensors(
    model: torch.nn.Module, convert: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """Replace a module's parameters and buffers by converted ones.

    Tensors that are tied inside the module stay tied; ties to tensors outside of it end.
    """
    # Holds the old tensor too, so that its id is not reused.
    replacements: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for module in model.modules():
        tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for tensors in tables:
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in replacements:
                    replacements[id(tensor)] = tensor, _like(tensor, convert(tensor))
                tensors[name] = replacements[id(tensor)][1]


def _like(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    if isinstance(old, torch.nn.Parameter):
        return torch.nn.Parameter(new, old.requires_grad)
    return new
