"""The interface of a model to evaluate: how to build it at any size and with which inputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch

Arguments = tuple[Sequence[Any], dict[str, Any]]


@dataclass(frozen=True)
class Step:
    """One call of the model. `arguments` maps the previous step's output to this step's arguments.

    It returns None where the step cannot run, for example because no cache was returned.
    """

    name: str
    tokens: int
    arguments: Callable[[Any], Arguments | None]


@dataclass(frozen=True)
class RepeatedLayer:
    """A kind of identical layers: its name and how many of them the model has."""

    name: str
    count: int


class ModelSource(Protocol):
    name: str
    kind: str
    source: str

    def repeated(self) -> Sequence[RepeatedLayer]:
        """Return the kinds of layers whose count can be chosen, or none."""

    def build(self, layers: Mapping[str, int] | None = None) -> torch.nn.Module:
        """Return the full-size model on the meta device, with `layers` layers of each kind."""

    def small(self) -> torch.nn.Module | None:
        """Return a small model of the same module classes on the CPU, or None if there is none."""

    def steps(self, model: torch.nn.Module, batch: int, prompt: int) -> Sequence[Step]:
        """Return the calls that a user of the model makes, in order, with tensors on the CPU."""


def run_steps(
    model: Callable[..., Any],
    steps: Sequence[Step],
    device: str | torch.device,
    around: Callable[[Step, Callable[[], Any]], Any] = lambda step, call: call(),
) -> None:
    """Call the model step by step; `around` receives each call and makes it."""
    output: Any = None
    for step in steps:
        arguments = step.arguments(output)
        if arguments is None:
            return
        args, kwargs = to_device(arguments, device)
        output = around(step, partial(model, *args, **kwargs))


def to_device(value: Any, device: str | torch.device) -> Any:
    """Return a nested structure with its tensors on `device`; opaque objects stay as they are."""
    return torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.to(device), value, is_leaf=_is_opaque
    )


def _is_opaque(value: Any) -> bool:
    return not isinstance(value, torch.Tensor | list | tuple | dict)
