"""Which decompositions are our own."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

OURS: dict[Any, Callable[..., Any]] = {}


def decomposes(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            gives_views = any(each.alias_info for each in overload._schema.returns)
            OURS[overload] = function if gives_views else _giving_memory_of_its_own(function)
        return function

    return register


def _giving_memory_of_its_own(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where there is nothing to do, an argument is the result: it must not change with it."""

    @functools.wraps(function)
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        given = {_memory(each) for each in tree_leaves((args, kwargs)) if _is_tensor(each)}
        return tree_map(
            lambda each: each.clone() if _is_tensor(each) and _memory(each) in given else each,
            result,
        )

    return decomposed


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
