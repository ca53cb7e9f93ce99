"""Which decompositions are our own."""

from collections.abc import Callable
from typing import Any

OURS: dict[Any, Callable[..., Any]] = {}


def decomposes(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            OURS[overload] = function
        return function

    return register
