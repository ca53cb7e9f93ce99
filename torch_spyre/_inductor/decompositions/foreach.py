"""Decompositions of `_foreach` ops: the op that they are named after, on each tensor of a list."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition

aten = torch.ops.aten
_PREFIX = "_foreach_"


def _add_scaled(combine: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return `addcmul` or `addcdiv` with a scale that may be a tensor."""

    def add_scaled(
        x: torch.Tensor, first: torch.Tensor, second: torch.Tensor, value: Any = 1
    ) -> Any:
        if isinstance(value, torch.Tensor):
            return x + combine(first, second) * value
        return (torch.addcmul if combine is torch.mul else torch.addcdiv)(
            x, first, second, value=value
        )

    return add_scaled


def _by_operand(
    tensor_op: Callable[..., torch.Tensor], scalar_op: Callable[..., torch.Tensor]
) -> Callable[..., torch.Tensor]:
    """Return the op that calls one of two ops, by the kind of its second operand."""

    def call(x: torch.Tensor, other: Any) -> torch.Tensor:
        return (tensor_op if isinstance(other, torch.Tensor) else scalar_op)(x, other)

    return call


_maximum = _by_operand(torch.maximum, torch.clamp_min)
_minimum = _by_operand(torch.minimum, torch.clamp_max)
# The functions for one tensor that are not those of `torch` with the same name.
_SINGLE: dict[str, Callable[..., torch.Tensor]] = {
    "addcmul": _add_scaled(torch.mul),
    "addcdiv": _add_scaled(torch.true_divide),
    "clamp_max": _minimum,
    "clamp_min": _maximum,
    "copy": lambda x, source, non_blocking=False: aten.copy(x, source),
    "max": torch.amax,
    "maximum": _maximum,
    "minimum": _minimum,
    "norm": lambda x, ord=2, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
    "zero": torch.zeros_like,
}


def _map_over_lists(single: Callable[..., torch.Tensor]) -> Callable[..., list[torch.Tensor]]:
    """Return the op that calls a function for the elements of its list arguments."""

    def foreach(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        num_lists = sum(isinstance(arg, list | tuple) for arg in args)
        count = next(len(arg) for arg in args if isinstance(arg, list | tuple))
        columns = [_as_list(arg, index, count, num_lists) for index, arg in enumerate(args)]
        return [single(*single_args, **kwargs) for single_args in zip(*columns, strict=True)]

    return foreach


def _as_list(arg: Any, index: int, count: int, num_lists: int) -> Any:
    """Return an argument as a list: the scales after three lists may be a vector."""
    if isinstance(arg, list | tuple):
        return arg
    if isinstance(arg, torch.Tensor) and arg.dim() == 1 and num_lists == index == 3:
        return arg.unbind()
    return [arg] * count


def _overloads() -> Iterator[tuple[torch._ops.OpOverload, Callable[..., torch.Tensor]]]:
    """Yield every functional `_foreach` overload with its function for one tensor."""
    for full in sorted({name.split(".")[0] for name in torch._C._dispatch_get_all_op_names()}):
        name = full.removeprefix(f"aten::{_PREFIX}")
        if name == full or name.endswith("_"):
            continue
        single = _SINGLE.get(name) or getattr(torch, name, None)
        packet = getattr(aten, f"{_PREFIX}{name}")
        for variant in packet.overloads():
            overload = getattr(packet, variant)
            if single is not None and not overload._schema.is_mutable:
                yield overload, single


for _overload, _function in _overloads():
    register_decomposition(_overload)(_map_over_lists(_function))
