"""Tensors filled by a rule: repeated, and identity matrices."""

from collections.abc import Sequence
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes

aten = torch.ops.aten


@decomposes(aten.repeat.default)
def _repeat(x: torch.Tensor, repeats: Sequence[int]) -> torch.Tensor:
    size = [*[1] * (len(repeats) - x.dim()), *x.shape]
    pairs = [each for n in size for each in (1, n)]
    wanted = [each for times, n in zip(repeats, size, strict=True) for each in (times, n)]
    result = [times * n for times, n in zip(repeats, size, strict=True)]
    # In order, whatever the order of what is repeated: those who view the result rely on that.
    whole = x.reshape(pairs).expand(wanted).clone(memory_format=torch.contiguous_format)
    return whole.reshape(result)


@decomposes(aten.eye.m)
def _eye(
    n: int,
    m: int,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    rows, columns = (torch.arange(each, device=device) for each in (n, m))
    return (rows[:, None] == columns).to(dtype or torch.get_default_dtype())


@decomposes(aten.eye.default)
def _square_eye(n: int, **options: Any) -> Any:
    return _eye(n, n, **options)
