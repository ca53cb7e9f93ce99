"""What the patches share: which tensors are ours, and how a function is put before another."""

from collections.abc import Callable
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME

Function = Callable[..., Any]


def wrap(owner: Any, name: str, wrapping: Callable[[Function], Function]) -> None:
    """Replaces `owner.name` by what `wrapping` makes of it."""
    original = getattr(owner, name)
    wrapper = wrapping(original)
    # Not functools.wraps: torch's built-ins refuse some attributes it copies.
    wrapper.__name__ = name
    wrapper.__doc__ = original.__doc__
    setattr(owner, name, wrapper)


def add(owner: Any, name: str, value: Any) -> None:
    """Gives a class or function of torch's an attribute that its type does not know."""
    setattr(owner, name, value)


def is_spyre(tensor: object) -> bool:
    """A real tensor on a card: not a fake one, nor one that another tool has wrapped."""
    return (
        isinstance(tensor, torch.Tensor)
        and type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == DEVICE_NAME
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )
