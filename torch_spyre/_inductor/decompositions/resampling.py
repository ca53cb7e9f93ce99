"""Decompositions of what reads each result from a few places of a row: upsampling and padding.

One dim after the other. A tap is where each result of a row reads, and how much that counts. The
gradient is a product with the taps as a matrix, in float32. What is not finite in it is summed
apart, so that it stays where it was read; weights below zero, which only cubic taps have, do not
turn the sign of an infinity.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._decomp.decompositions import upsample_compute_output_size

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre._inductor.decompositions.windows import along
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten
# No weight: the value itself.
Tap = tuple[torch.Tensor, torch.Tensor | None]


@dataclass(frozen=True)
class Row:
    """A dim that is resampled. The scale is what the user said, if anything."""

    size: int
    out: int
    scale: float | None
    align_corners: bool
    device: torch.device

    @property
    def step(self) -> float:
        """From one result to the next, in elements."""
        if self.align_corners:
            return (self.size - 1) / (self.out - 1) if self.out > 1 else 0.0
        if self.scale is not None and self.scale > 0:
            return 1.0 / self.scale
        return self.size / self.out

    def results(self) -> torch.Tensor:
        return torch.arange(self.out, dtype=torch.float32, device=self.device)

    def sources(self) -> torch.Tensor:
        """Where results lie among the elements."""
        if self.align_corners:
            return self.results() * self.step
        return (self.results() + 0.5) * self.step - 0.5

    def index(self, place: torch.Tensor) -> torch.Tensor:
        """Of what is beyond an end: of the last one there."""
        return place.to(torch.int32).clamp(0, self.size - 1)


def _nearest(row: Row) -> list[Tap]:
    return [(row.index(torch.floor(row.results() * row.step)), None)]


def _nearest_exact(row: Row) -> list[Tap]:
    return [(row.index(torch.floor((row.results() + 0.5) * row.step)), None)]


def _linear(row: Row) -> list[Tap]:
    source = row.sources().clamp(min=0)
    low = torch.floor(source).clamp(max=row.size - 1)
    part = (source - low).clamp(0, 1)
    return [(row.index(low), 1 - part), (row.index(low + 1), part)]


def _cubic(row: Row) -> list[Tap]:
    source = row.sources()
    low = torch.floor(source)
    part = source - low
    taps: list[Tap] = []
    for place in range(-1, 3):
        weight = _cubic_weight(part - place if place < 1 else place - part, place in (0, 1))
        taps.append((row.index(low + place), weight))
    return taps


def _cubic_weight(distance: torch.Tensor, near: bool) -> torch.Tensor:
    a = -0.75
    if near:
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a


def _resampled(x: torch.Tensor, dim: int, taps: Sequence[Tap]) -> torch.Tensor:
    total: torch.Tensor | None = None
    for index, weight in taps:
        part = aten.index_select(x, dim, index)
        part = part if weight is None else part * along(weight, dim)
        total = part if total is None else total + part
    assert total is not None
    return total


def _resampled_backward(
    gradient: torch.Tensor, dim: int, size: int, taps: Sequence[Tap]
) -> torch.Tensor:
    return times(gradient, dim, _matrix(size, taps))


def _matrix(size: int, taps: Sequence[Tap]) -> torch.Tensor:
    """How much each result, which is a row, has of each element."""
    place = torch.arange(size, dtype=torch.int32, device=taps[0][0].device)
    matrix = None
    for index, weight in taps:
        reads = (index.unsqueeze(-1) == place).to(torch.float32)
        reads = reads if weight is None else reads * weight.unsqueeze(-1)
        matrix = reads if matrix is None else matrix + reads
    assert matrix is not None
    return matrix


def times(x: torch.Tensor, dim: int, matrix: torch.Tensor) -> torch.Tensor:
    """The product of all rows along a dim, in float32, with a matrix."""
    rows = x.movedim(dim, -1)
    made = product_of_rows(rows.reshape(-1, rows.shape[-1]), matrix)
    return made.reshape(*rows.shape[:-1], matrix.shape[1]).movedim(-1, dim)


def product_of_rows(rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Of matrices in float32, or of batches of them; what is not finite touches what it meets."""
    multiplied = torch.mm if rows.dim() == 2 else torch.bmm
    none, touched = torch.isnan(rows), (matrix != 0).to(torch.float32)
    above, below = (
        multiplied((none | (rows == each)).to(torch.float32), touched) > 0
        for each in (math.inf, -math.inf)
    )
    total = multiplied(torch.where(none | torch.isinf(rows), 0.0, rows), matrix)
    signed = torch.where(above, math.inf, torch.where(below, -math.inf, total))
    return torch.where(above & below, math.nan, signed)


# What an op, or its gradient, does along one dim.
Along = Callable[[torch.Tensor, int, Row], torch.Tensor]


def by_taps(taps_of: Callable[[Row], list[Tap]]) -> tuple[Along, Along]:
    return (
        lambda x, dim, row: _resampled(x, dim, taps_of(row)),
        lambda gradient, dim, row: _resampled_backward(gradient, dim, row.size, taps_of(row)),
    )


def upsampling(
    dims: int, ways: tuple[Along, Along], *, aligns: bool, adds: bool
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An op and its gradient. Some are told whether corners are aligned; some add elements up."""
    forward_along, backward_along = ways

    def rows(
        size: Sequence[int], out: Sequence[int], options: Sequence[Any], device: torch.device
    ) -> list[Row]:
        align, *scales = options if aligns else (False, *options)
        scales = [*scales, *[None] * (dims - len(scales))]
        each = zip(size[-dims:], out, scales, strict=True)
        return [Row(n, count, scale, bool(align), device) for n, count, scale in each]

    def upsample(x: torch.Tensor, output_size: Sequence[int], *options: Any) -> Any:
        if x.dtype not in FLOAT_DTYPES or x.numel() == 0:
            return NotImplemented
        # Halves are rounded once, where something is added.
        result = x.to(torch.float32) if adds else x
        for place, row in enumerate(rows(x.shape, output_size, options, x.device)):
            if row.size != row.out or row.scale not in (None, 1.0):
                result = forward_along(result, place - dims, row)
        return result.to(x.dtype).contiguous()

    def backward(
        gradient: torch.Tensor, output_size: Sequence[int], input_size: Sequence[int], *options: Any
    ) -> Any:
        if gradient.dtype not in FLOAT_DTYPES or gradient.numel() == 0:
            return NotImplemented
        result = gradient.to(torch.float32)
        for place, row in enumerate(rows(input_size, output_size, options, gradient.device)):
            if row.size != row.out or row.scale not in (None, 1.0):
                result = backward_along(result, place - dims, row)
        return result.to(gradient.dtype).contiguous()

    return upsample, backward


_UPSAMPLING = {
    "upsample_nearest1d": (1, _nearest, False),
    "upsample_nearest2d": (2, _nearest, False),
    "upsample_nearest3d": (3, _nearest, False),
    "_upsample_nearest_exact1d": (1, _nearest_exact, False),
    "_upsample_nearest_exact2d": (2, _nearest_exact, False),
    "_upsample_nearest_exact3d": (3, _nearest_exact, False),
    "upsample_linear1d": (1, _linear, True),
    "upsample_bilinear2d": (2, _linear, True),
    "upsample_trilinear3d": (3, _linear, True),
    "upsample_bicubic2d": (2, _cubic, True),
}


def keep_whole(name: str, aligns: bool) -> None:
    """PyTorch takes these apart before a graph is recorded, into reads through pairs of indices.

    The gradient of those compares all pairs of places with each other. For the card, what was there
    before runs instead.
    """
    whole = getattr(aten, name).default
    keys = torch._C.DispatchKey

    def with_corners(
        x: torch.Tensor,
        output_size: Sequence[int] | None,
        align_corners: bool,
        scale_factors: Sequence[float] | None,
    ) -> Any:
        return resampled(x, output_size, scale_factors, align_corners)

    def resampled(
        x: torch.Tensor,
        output_size: Sequence[int] | None,
        scale_factors: Sequence[float] | None,
        *corners: bool,
    ) -> Any:
        # PyTorch's own takes no symbols for sizes.
        size = upsample_compute_output_size(x.shape, output_size, scale_factors)
        scales: Sequence[float | None] = scale_factors or [None] * len(size)
        return whole(x, size, *corners, *scales)

    whole.py_impl(keys.AutogradPrivateUse1)(partial(whole._op_dk, keys.Autograd))
    given = getattr(aten, name).vec
    given.py_impl(keys.AutogradPrivateUse1)(with_corners if aligns else resampled)


for _name, (_dims, _taps_of, _aligns) in _UPSAMPLING.items():
    keep_whole(_name, _aligns)
    _forward, _backward = upsampling(
        _dims,
        by_taps(_taps_of),
        aligns=_aligns,
        adds=_taps_of not in (_nearest, _nearest_exact),
    )
    decomposes(getattr(aten, _name).default)(_forward)
    decomposes(getattr(aten, f"{_name}_backward").default)(_backward)


def _reflected(place: torch.Tensor, size: int) -> torch.Tensor:
    return (size - 1) - ((size - 1) - place.abs()).abs()


def _replicated(place: torch.Tensor, size: int) -> torch.Tensor:
    return place.clamp(0, size - 1)


def _padding(
    dims: int, index_of: Callable[[torch.Tensor, int], torch.Tensor]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def taps(size: Sequence[int], padding: Sequence[int], dim: int, device: torch.device) -> Any:
        low, high = padding[2 * (-1 - dim) : 2 * (-1 - dim) + 2]
        place = torch.arange(-low, size[dim] + high, dtype=torch.int32, device=device)
        return [(index_of(place, size[dim]), None)] if low or high else None

    def pad(x: torch.Tensor, padding: Sequence[int]) -> Any:
        if 0 in x.shape[-dims:]:
            return NotImplemented
        result = x
        for dim in range(-dims, 0):
            found = taps(x.shape, padding, dim, x.device)
            result = result if found is None else _resampled(result, dim, found)
        return result.clone() if result is x else result

    def backward(gradient: torch.Tensor, x: torch.Tensor, padding: Sequence[int]) -> Any:
        if x.dtype not in FLOAT_DTYPES or gradient.numel() == 0:
            return NotImplemented
        result = gradient.to(torch.float32)
        for dim in range(-dims, 0):
            found = taps(x.shape, padding, dim, x.device)
            if found is not None:
                result = _resampled_backward(result, dim, x.shape[dim], found)
        return result.to(x.dtype).contiguous()

    return pad, backward


for _kind, _index_of in (("reflection", _reflected), ("replication", _replicated)):
    for _dims in (1, 2, 3):
        _forward, _backward = _padding(_dims, _index_of)
        decomposes(getattr(aten, f"{_kind}_pad{_dims}d").default)(_forward)
        decomposes(getattr(aten, f"{_kind}_pad{_dims}d_backward").default)(_backward)
