"""The registry of the decompositions of this package."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.utils._pytree import tree_leaves, tree_map

Function = TypeVar("Function", bound=Callable[..., Any])
DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {}


def register_decomposition(*overloads: Any) -> Callable[[Function], Function]:
    """Register a function as the decomposition of overloads.

    The function returns `NotImplemented` for arguments that it leaves to the op's other kernels.
    """

    def register(function: Function) -> Function:
        for overload in overloads:
            returns_view = any(result.alias_info for result in overload._schema.returns)
            DECOMPOSITIONS[overload] = function if returns_view else _without_aliasing(function)
        return function

    return register


def _without_aliasing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a decomposition so that results which alias an argument are cloned."""

    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        leaves = tree_leaves((args, kwargs))
        arguments = {_storage(leaf) for leaf in leaves if _is_tensor(leaf)}
        return tree_map(
            lambda leaf: leaf.clone() if _is_tensor(leaf) and _storage(leaf) in arguments else leaf,
            result,
        )

    return decomposition


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
