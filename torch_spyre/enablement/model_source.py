"""A model to look at: how to build it in any size, and what to call it with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch

Arguments = tuple[Sequence[Any], dict[str, Any]]


@dataclass(frozen=True)
class Step:
    """One call of the model. `arguments` takes what the step before returned.

    It gives None where there is nothing to go on with, such as a cache that was not returned.
    """

    name: str
    tokens: int
    arguments: Callable[[Any], Arguments | None]


@dataclass(frozen=True)
class RepeatedLayer:
    """Layers that are all alike: what they are called, and how many the model has."""

    name: str
    count: int


class ModelSource(Protocol):
    name: str
    kind: str
    source: str

    def repeated(self) -> Sequence[RepeatedLayer]:
        """The layers whose number can be chosen; none if it cannot."""

    def build(self, layers: Mapping[str, int] | None = None) -> torch.nn.Module:
        """The full-size model on the meta device, with so many layers of each kind."""

    def small(self) -> torch.nn.Module | None:
        """The same kinds of modules in small, with weights on the CPU; None if it has no small."""

    def steps(self, model: torch.nn.Module, batch: int, prompt: int) -> Sequence[Step]:
        """What a user of the model calls, in order, with tensors on the CPU."""


def run_steps(
    model: Callable[..., Any],
    steps: Sequence[Step],
    device: str | torch.device,
    around: Callable[[Step, Callable[[], Any]], Any] = lambda step, call: call(),
) -> None:
    """Calls the model step by step; `around` is given each call to make."""
    output: Any = None
    for step in steps:
        given = step.arguments(output)
        if given is None:
            return
        args, kwargs = moved(given, device)
        output = around(step, partial(model, *args, **kwargs))


def moved(value: Any, device: str | torch.device) -> Any:
    """Tensors on another device, in whatever they are nested; caches stay where they are."""
    return torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.to(device), value, is_leaf=_is_opaque
    )


def _is_opaque(value: Any) -> bool:
    return not isinstance(value, torch.Tensor | list | tuple | dict)
