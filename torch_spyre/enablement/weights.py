"""Parameters and buffers in other places, with other values or without any."""

import copy
from collections.abc import Callable
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.patches.layout_arguments import to_layout


def to_meta_device(model: torch.nn.Module) -> torch.nn.Module:
    """The same model without memory; the one given keeps its own."""
    memo = {
        id(tensor): _like(tensor, tensor.to("meta"))
        for tensor in (*model.parameters(), *model.buffers())
    }
    return copy.deepcopy(model, memo)


def move_to_card(
    model: torch.nn.Module, values: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> torch.nn.Module:
    """Changes a model on the meta device into one on the card, tensor by tensor.

    `values` makes of each a tensor on the host, of which there is never more than one. Without it
    nobody touches the memory: it costs the host nothing, so models of any size that the card holds
    can be timed. Weights of linear layers have the layout that `Module.to` gives them.
    """
    linears = [part for part in model.modules() if isinstance(part, torch.nn.Linear)]
    weights = {id(part.weight) for part in linears if part.weight.dim() == 2}
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
    """Others for a module's parameters and buffers. Ties inside it stay, those to others end."""
    kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for part in model.modules():
        places: tuple[dict[str, Any], ...] = (part._parameters, part._buffers)
        for tensors in places:
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in kept:
                    # The old one is kept too: its id must not become another's.
                    kept[id(tensor)] = tensor, _like(tensor, convert(tensor))
                tensors[name] = kept[id(tensor)][1]


def _like(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    if isinstance(old, torch.nn.Parameter):
        return torch.nn.Parameter(new, old.requires_grad)
    return new
