"""Replace attributes and table entries of PyTorch so that the change can be undone."""

from collections.abc import Callable, Mapping, MutableMapping
from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME

Function = Callable[..., Any]
ORIGINAL = "_spyre_original"
"""The attribute of a wrapper that holds the function it replaces."""


def wrap(undo: ExitStack, owner: Any, name: str, wrapping: Callable[[Function], Function]) -> None:
    """Replace the function `owner.name` by `wrapping(owner.name)`."""
    original = getattr(owner, name)
    wrapper = wrapping(original)
    # Not functools.wraps: PyTorch's built-in functions reject some attributes it copies.
    wrapper.__name__ = name
    wrapper.__doc__ = original.__doc__
    wrapper.__dict__[ORIGINAL] = original
    set_attribute(undo, owner, name, wrapper)


def set_attribute(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a class, function or module of PyTorch."""
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, value)


def update_table(
    undo: ExitStack, table: MutableMapping[Any, Any], entries: Mapping[Any, Any]
) -> None:
    """Add or replace entries of a mapping."""
    previous = {key: table[key] for key in entries if key in table}

    def restore() -> None:
        for key in entries:
            table.pop(key, None)
        table.update(previous)

    undo.callback(restore)
    table.update(entries)


def is_spyre(tensor: object) -> bool:
    """Return whether this is a real tensor on a card: neither fake nor wrapped by functorch."""
    return (
        isinstance(tensor, torch.Tensor)
        and type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == DEVICE_NAME
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )
