"""Decompositions of ops on lists of tensors: the op that they are named after, on each."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes

aten = torch.ops.aten
_PREFIX = "_foreach_"


def _plus(combine: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def added(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor, value: Any = 1) -> Any:
        if isinstance(value, torch.Tensor):
            return x + combine(first, second) * value
        return (torch.addcmul if combine is torch.mul else torch.addcdiv)(
            x, first, second, value=value
        )

    return added


def _limit(
    of_tensors: Callable[..., torch.Tensor], of_number: Callable[..., torch.Tensor]
) -> Callable[..., torch.Tensor]:
    def limited(x: torch.Tensor, other: Any) -> torch.Tensor:
        return (of_tensors if isinstance(other, torch.Tensor) else of_number)(x, other)

    return limited


_maximum, _minimum = (
    _limit(torch.maximum, torch.clamp_min),
    _limit(torch.minimum, torch.clamp_max),
)
# Where it is not the function of `torch` that has the name.
_SINGLE: dict[str, Callable[..., torch.Tensor]] = {
    "addcmul": _plus(torch.mul),
    "addcdiv": _plus(torch.true_divide),
    "clamp_max": _minimum,
    "clamp_min": _maximum,
    "copy": lambda x, source, non_blocking=False: aten.copy(x, source),
    "max": torch.amax,
    "maximum": _maximum,
    "minimum": _minimum,
    "norm": lambda x, ord=2, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
    "zero": torch.zeros_like,
}


def _on_each(single: Callable[..., torch.Tensor]) -> Callable[..., list[torch.Tensor]]:
    def on_each(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        lists = [each for each in args if isinstance(each, list | tuple)]
        count = len(lists[0])
        # One tensor with as many numbers as there are tensors counts as a list.
        rows = [_row(each, number, count, lists) for number, each in enumerate(args)]
        return [single(*given, **kwargs) for given in zip(*rows, strict=True)]

    return on_each


def _row(value: Any, number: int, count: int, lists: list[Any]) -> Any:
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, torch.Tensor) and value.dim() == 1 and len(lists) == number == 3:
        return value.unbind()
    return [value] * count


def _overloads() -> Iterator[tuple[torch._ops.OpOverload, Callable[..., torch.Tensor]]]:
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
    decomposes(_overload)(_on_each(_function))
