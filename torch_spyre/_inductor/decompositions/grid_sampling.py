"""Decompositions of `grid_sample`: results that read at places which a tensor tells.

Along each dim a result reads at some neighbours, which are a dim of their own here, before that of
the results: where they are, how much each counts, and how that changes with the place. The gradient
of what is read is a product with a matrix of what counts; see `resampling`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre._inductor.decompositions.resampling import product_of_rows
from torch_spyre.errors import UnsupportedError

aten = torch.ops.aten
_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)
_CUBIC = -0.75
# Elements of the matrix: it is in memory, with its flags.
_MOST_PAIRS = 1 << 26


@dataclass(frozen=True)
class Taps:
    """Of one dim. `slopes` are the weights', by the grid's coordinate."""

    inside: torch.Tensor
    index: torch.Tensor
    weights: torch.Tensor
    slopes: torch.Tensor


@dataclass(frozen=True)
class Dim:
    """How a coordinate between -1 and 1 becomes places among so many elements."""

    size: int
    padding: int
    align_corners: bool

    def taps(self, grid: torch.Tensor, mode: int) -> Taps:
        step = (self.size - 1) / 2 if self.align_corners else self.size / 2
        place = (grid.unsqueeze(1) + 1) * step
        place = place if self.align_corners else place - 0.5
        if mode == _BICUBIC:
            return self._cubic(place, step)
        place, turn = self._kept_inside(place)
        if mode == _NEAREST:
            return self._taps(torch.round(place), torch.ones_like(place), torch.zeros_like(place))
        low = torch.floor(place)
        part, slope = place - low, turn * step
        second = torch.arange(2, dtype=torch.float32, device=grid.device).unsqueeze(-1)
        weights = torch.where(second == 0, 1 - part, part)
        return self._taps(low + second, weights, torch.where(second == 0, -slope, slope))

    def _cubic(self, place: torch.Tensor, step: float) -> Taps:
        low = torch.floor(place)
        offset = torch.arange(-1, 3, dtype=torch.float32, device=place.device).unsqueeze(-1)
        ahead = place - low - offset
        distance, sign = torch.abs(ahead), torch.where(offset < 1, step, -step)
        near, far = _cubic_near(distance), _cubic_far(distance)
        is_near = (offset == 0) | (offset == 1)
        weights, slopes = (torch.where(is_near, *pair) for pair in zip(near, far, strict=True))
        # Each is brought inside by itself.
        return self._taps(self._kept_inside(low + offset)[0], weights, slopes * sign)

    def _taps(self, place: torch.Tensor, weights: torch.Tensor, slopes: torch.Tensor) -> Taps:
        inside = (place >= 0) & (place <= self.size - 1)
        return Taps(inside, torch.where(inside, place, 0.0).to(torch.int32), weights, slopes)

    def _kept_inside(self, place: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """With how it changes when the place does."""
        one = torch.ones_like(place)
        if self.padding == _ZEROS:
            return place, one
        if self.padding == _REFLECTION:
            place, one = self._reflected(place)
        last = self.size - 1
        # What is not a number is at the first, as on the CPU.
        beyond = (place <= 0) | (place >= last)
        clipped = torch.where(place > 0, torch.clamp(place, max=float(last)), 0.0)
        return clipped, torch.where(beyond, 0.0, one)

    def _reflected(self, place: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low, span = (0.0, self.size - 1) if self.align_corners else (-0.5, self.size)
        if span == 0:
            return torch.zeros_like(place), torch.zeros_like(place)
        away = torch.abs(place - low)
        turns = torch.floor(away / span)
        rest = away - turns * span
        even = torch.floor(turns / 2) * 2 == turns
        found = torch.where(even, rest + low, span - rest + low)
        found = torch.where(torch.isfinite(place), found, 0.0)
        return found, torch.where((place < low) == even, -1.0, 1.0)


def _cubic_near(distance: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a = _CUBIC
    weights = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    return weights, (3 * (a + 2) * distance - 2 * (a + 3)) * distance


def _cubic_far(distance: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a = _CUBIC
    weights = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return weights, (3 * a * distance - 10 * a) * distance + 8 * a


def _taps_of(
    size: Sequence[int], grid: torch.Tensor, mode: int, padding: int, align_corners: bool
) -> list[Taps]:
    """Of each dim, the outermost first; grids name the innermost first. Results are in a row."""
    flat = grid.to(torch.float32).flatten(1, -2)
    return [
        Dim(length, padding, align_corners).taps(flat[..., len(size) - 1 - dim], mode)
        for dim, length in enumerate(size)
    ]


def _together(
    parts: Sequence[torch.Tensor], combine: Callable[[Any, Any], torch.Tensor]
) -> torch.Tensor:
    """What neighbours have that are so in each dim: all pairs, or triples, in one dim."""
    total = parts[0]
    for part in parts[1:]:
        total = combine(total.unsqueeze(2), part.unsqueeze(1)).flatten(1, 2)
    return total


def _read(x: torch.Tensor, size: Sequence[int], taps: Sequence[Taps]) -> torch.Tensor:
    """What the neighbours are, of each batch and channel."""
    index = taps[0].index
    for length, tap in zip(size[1:], taps[1:], strict=True):
        index = (index.unsqueeze(2) * length + tap.index.unsqueeze(1)).flatten(1, 2)
    rows = index.flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)
    return x.gather(-1, rows).reshape(*x.shape[:2], *index.shape[1:])


def _inside(taps: Sequence[Taps]) -> torch.Tensor:
    """Which neighbours there are. What is read for the others may not be finite."""
    return _together([tap.inside for tap in taps], torch.logical_and)


def _grid_sampler(dims: int) -> Callable[..., Any]:
    def sample(
        x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool
    ) -> Any:
        out = [*x.shape[:2], *grid.shape[1:-1]]
        if 0 in (*x.shape, *out):
            return NotImplemented
        size = x.shape[-dims:]
        taps = _taps_of(size, grid, mode, padding, align_corners)
        weights = _together([tap.weights for tap in taps], torch.mul).unsqueeze(1)
        parts = _read(x.to(torch.float32).flatten(2), size, taps) * weights
        total = torch.where(_inside(taps).unsqueeze(1), parts, 0.0).sum(2)
        return total.reshape(out).to(x.dtype)

    return sample


def _grid_sampler_backward(dims: int) -> Callable[..., Any]:
    def backward(
        gradient: torch.Tensor,
        x: torch.Tensor,
        grid: torch.Tensor,
        mode: int,
        padding: int,
        align_corners: bool,
        output_mask: Sequence[bool],
    ) -> Any:
        if 0 in (*x.shape, *gradient.shape):
            return NotImplemented
        size = x.shape[-dims:]
        taps = _taps_of(size, grid, mode, padding, align_corners)
        share = gradient.to(torch.float32).flatten(2)
        # PyTorch wants the gradient of the grid in any case.
        of_x, of_grid = None, _gradient_of_places(share, x.to(torch.float32).flatten(2), size, taps)
        if output_mask[0]:
            of_x = _gradient_of_read(share, size, taps).reshape(x.shape).to(x.dtype)
        return of_x, of_grid.reshape(grid.shape).to(grid.dtype)

    return backward


def _gradient_of_read(
    share: torch.Tensor, size: Sequence[int], taps: Sequence[Taps]
) -> torch.Tensor:
    if share.shape[0] * share.shape[2] * prod(size) > _MOST_PAIRS:
        raise UnsupportedError(f"pairs of {share.shape[2]} results and {prod(size)} elements")
    matrix = None
    for length, tap in zip(size, taps, strict=True):
        place = torch.arange(length, dtype=torch.int32, device=share.device)
        reads = (tap.index.unsqueeze(-1) == place) & tap.inside.unsqueeze(-1)
        counts = torch.where(reads, tap.weights.unsqueeze(-1), 0.0).sum(1)
        matrix = counts if matrix is None else _pairs(matrix, counts)
    assert matrix is not None
    return product_of_rows(share, matrix)


def _pairs(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one.unsqueeze(-1) * other.unsqueeze(-2)).flatten(-2)


def _gradient_of_places(
    share: torch.Tensor, rows: torch.Tensor, size: Sequence[int], taps: Sequence[Taps]
) -> torch.Tensor:
    seen = (_read(rows, size, taps) * share.unsqueeze(2)).sum(1)
    inside = _inside(taps)
    found = []
    for dim in reversed(range(len(size))):
        factors = [tap.slopes if at == dim else tap.weights for at, tap in enumerate(taps)]
        parts = seen * _together(factors, torch.mul)
        found.append(torch.where(inside, parts, 0.0).sum(1))
    return torch.stack(found, -1)


for _dims in (2, 3):
    decomposes(getattr(aten, f"grid_sampler_{_dims}d").default)(_grid_sampler(_dims))
    decomposes(getattr(aten, f"grid_sampler_{_dims}d_backward").default)(
        _grid_sampler_backward(_dims)
    )
