"""Decompositions of `grid_sample`: interpolation at the coordinates in a grid tensor.

Along each dim a result reads some neighbouring elements, its taps. Tensors of tap indices, weights
and derivatives of weights have a dim of taps before that of the results. The gradient of the input
is a matmul with a matrix of the weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre._inductor.decompositions.zero_skipping_matmul import zero_skipping_matmul
from torch_spyre.errors import UnsupportedError

aten = torch.ops.aten
_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)
_CUBIC = -0.75
# The size of the matrix of weights, which is in memory together with its mask.
_MAX_PAIRS = 1 << 26


@dataclass(frozen=True)
class Taps:
    """The elements that results read along one dim.

    Taps outside the input have the index 0. `slopes` are the derivatives of the weights by the
    coordinate in the grid.
    """

    is_inside: torch.Tensor
    index: torch.Tensor
    weights: torch.Tensor
    slopes: torch.Tensor


@dataclass(frozen=True)
class Dim:
    """A dim of the input. Coordinates from -1 to 1 cover its elements."""

    size: int
    padding: int
    align_corners: bool

    def taps(self, grid: torch.Tensor, mode: int) -> Taps:
        """Return the taps at the coordinates in a grid."""
        scale = (self.size - 1) / 2 if self.align_corners else self.size / 2
        position = (grid.unsqueeze(1) + 1) * scale
        position = position if self.align_corners else position - 0.5
        if mode == _BICUBIC:
            return self._cubic(position, scale)
        position, derivative = self._apply_padding(position)
        if mode == _NEAREST:
            ones, zeros = torch.ones_like(position), torch.zeros_like(position)
            return self._taps(torch.round(position), ones, zeros)
        low = torch.floor(position)
        fraction, slope = position - low, derivative * scale
        offset = torch.arange(2, dtype=torch.float32, device=grid.device).unsqueeze(-1)
        weights = torch.where(offset == 0, 1 - fraction, fraction)
        return self._taps(low + offset, weights, torch.where(offset == 0, -slope, slope))

    def _cubic(self, position: torch.Tensor, scale: float) -> Taps:
        low = torch.floor(position)
        offset = torch.arange(-1, 3, dtype=torch.float32, device=position.device).unsqueeze(-1)
        distance = torch.abs(position - low - offset)
        sign = torch.where(offset < 1, scale, -scale)
        near, far = _cubic_near(distance), _cubic_far(distance)
        is_near = (offset == 0) | (offset == 1)
        weights, slopes = (torch.where(is_near, *pair) for pair in zip(near, far, strict=True))
        # The padding applies to each tap, not to the position between them.
        return self._taps(self._apply_padding(low + offset)[0], weights, slopes * sign)

    def _taps(self, position: torch.Tensor, weights: torch.Tensor, slopes: torch.Tensor) -> Taps:
        is_inside = (position >= 0) & (position <= self.size - 1)
        index = torch.where(is_inside, position, 0.0).to(torch.int32)
        return Taps(is_inside, index, weights, slopes)

    def _apply_padding(self, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return positions clamped or reflected by the padding mode, and their derivative."""
        derivative = torch.ones_like(position)
        if self.padding == _ZEROS:
            return position, derivative
        if self.padding == _REFLECTION:
            position, derivative = self._reflect(position)
        last = self.size - 1
        # A NaN becomes 0, as on the CPU.
        is_outside = (position <= 0) | (position >= last)
        clamped = torch.where(position > 0, torch.clamp(position, max=float(last)), 0.0)
        return clamped, torch.where(is_outside, 0.0, derivative)

    def _reflect(self, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return positions reflected at both borders, and their derivative."""
        low, span = (0.0, self.size - 1) if self.align_corners else (-0.5, self.size)
        if span == 0:
            return torch.zeros_like(position), torch.zeros_like(position)
        distance = torch.abs(position - low)
        reflections = torch.floor(distance / span)
        remainder = distance - reflections * span
        is_even = torch.floor(reflections / 2) * 2 == reflections
        result = torch.where(is_even, remainder + low, span - remainder + low)
        result = torch.where(torch.isfinite(position), result, 0.0)
        return result, torch.where((position < low) == is_even, -1.0, 1.0)


def _cubic_near(distance: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights at distances below 1, and their derivatives."""
    a = _CUBIC
    weights = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    return weights, (3 * (a + 2) * distance - 2 * (a + 3)) * distance


def _cubic_far(distance: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights at distances from 1 to 2, and their derivatives."""
    a = _CUBIC
    weights = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return weights, (3 * a * distance - 10 * a) * distance + 8 * a


def _taps_of(
    size: Sequence[int], grid: torch.Tensor, mode: int, padding: int, align_corners: bool
) -> list[Taps]:
    """Return the taps of each dim, the outermost first, with the results flattened.

    Grids have the innermost dim first.
    """
    flat = grid.to(torch.float32).flatten(1, -2)
    return [
        Dim(length, padding, align_corners).taps(flat[..., len(size) - 1 - dim], mode)
        for dim, length in enumerate(size)
    ]


def _outer(
    factors: Sequence[torch.Tensor], combine: Callable[[Any, Any], torch.Tensor]
) -> torch.Tensor:
    """Combine the taps of all dims: every pair, or triple, becomes one entry of a single dim."""
    result = factors[0]
    for factor in factors[1:]:
        result = combine(result.unsqueeze(2), factor.unsqueeze(1)).flatten(1, 2)
    return result


def _read(x: torch.Tensor, size: Sequence[int], taps: Sequence[Taps]) -> torch.Tensor:
    """Return the elements at the taps, for each batch and channel."""
    index = taps[0].index
    for length, tap in zip(size[1:], taps[1:], strict=True):
        index = (index.unsqueeze(2) * length + tap.index.unsqueeze(1)).flatten(1, 2)
    rows = index.flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)
    return x.gather(-1, rows).reshape(*x.shape[:2], *index.shape[1:])


def _is_inside(taps: Sequence[Taps]) -> torch.Tensor:
    """Return which taps are inside the input. Elements read for other taps may not be finite."""
    return _outer([tap.is_inside for tap in taps], torch.logical_and)


def _grid_sampler(dims: int) -> Callable[..., Any]:
    def sample(
        x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool
    ) -> Any:
        out = [*x.shape[:2], *grid.shape[1:-1]]
        if 0 in (*x.shape, *out):
            return NotImplemented
        size = x.shape[-dims:]
        taps = _taps_of(size, grid, mode, padding, align_corners)
        weights = _outer([tap.weights for tap in taps], torch.mul).unsqueeze(1)
        terms = _read(x.to(torch.float32).flatten(2), size, taps) * weights
        total = torch.where(_is_inside(taps).unsqueeze(1), terms, 0.0).sum(2)
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
        flat = gradient.to(torch.float32).flatten(2)
        # PyTorch expects the gradient of the grid in any case.
        grad_grid = _grid_gradient(flat, x.to(torch.float32).flatten(2), size, taps)
        grad_x = None
        if output_mask[0]:
            grad_x = _input_gradient(flat, size, taps).reshape(x.shape).to(x.dtype)
        return grad_x, grad_grid.reshape(grid.shape).to(grid.dtype)

    return backward


def _input_gradient(
    gradient: torch.Tensor, size: Sequence[int], taps: Sequence[Taps]
) -> torch.Tensor:
    if gradient.shape[0] * gradient.shape[2] * prod(size) > _MAX_PAIRS:
        raise UnsupportedError(
            f"the gradient of grid_sample for {gradient.shape[2]} results and {prod(size)} "
            f"elements: the weights of all pairs exceed {_MAX_PAIRS} elements"
        )
    matrix = None
    for length, tap in zip(size, taps, strict=True):
        position = torch.arange(length, dtype=torch.int32, device=gradient.device)
        is_read = (tap.index.unsqueeze(-1) == position) & tap.is_inside.unsqueeze(-1)
        weights = torch.where(is_read, tap.weights.unsqueeze(-1), 0.0).sum(1)
        matrix = weights if matrix is None else _row_outer(matrix, weights)
    assert matrix is not None
    return zero_skipping_matmul(gradient, matrix)


def _row_outer(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the flattened outer product of each pair of rows."""
    return (left.unsqueeze(-1) * right.unsqueeze(-2)).flatten(-2)


def _grid_gradient(
    gradient: torch.Tensor, rows: torch.Tensor, size: Sequence[int], taps: Sequence[Taps]
) -> torch.Tensor:
    weighted = (_read(rows, size, taps) * gradient.unsqueeze(2)).sum(1)
    is_inside = _is_inside(taps)
    by_dim = []
    for dim in reversed(range(len(size))):
        factors = [tap.slopes if axis == dim else tap.weights for axis, tap in enumerate(taps)]
        terms = weighted * _outer(factors, torch.mul)
        by_dim.append(torch.where(is_inside, terms, 0.0).sum(1))
    return torch.stack(by_dim, -1)


for _dims in (2, 3):
    register_decomposition(getattr(aten, f"grid_sampler_{_dims}d").default)(_grid_sampler(_dims))
    register_decomposition(getattr(aten, f"grid_sampler_{_dims}d_backward").default)(
        _grid_sampler_backward(_dims)
    )
