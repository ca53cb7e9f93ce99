"""Decompositions of upsampling: nearest, linear and cubic interpolation, and their gradients.

Dims are resampled one after the other. A tap holds an index and a weight for each result of a row:
a result is the weighted sum of its taps. The gradient is a matmul with the taps as a matrix, in
float32, in which infinities and NaNs reach only the elements that were read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._decomp.decompositions import upsample_compute_output_size

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre._inductor.decompositions.windows import broadcast_along
from torch_spyre._inductor.decompositions.zero_skipping_matmul import matmul_along
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten
# An index for each result, and its weight; None is a weight of 1.
Tap = tuple[torch.Tensor, torch.Tensor | None]


@dataclass(frozen=True)
class Row:
    """A dim that is resampled; `scale` is the scale factor that the caller passed, if any."""

    size: int
    out: int
    scale: float | None
    align_corners: bool
    device: torch.device

    @property
    def step(self) -> float:
        """The distance between neighbouring results, in elements."""
        if self.align_corners:
            return (self.size - 1) / (self.out - 1) if self.out > 1 else 0.0
        if self.scale is not None and self.scale > 0:
            return 1.0 / self.scale
        return self.size / self.out

    def results(self) -> torch.Tensor:
        """Return the indices of the results as float32."""
        return torch.arange(self.out, dtype=torch.float32, device=self.device)

    def sources(self) -> torch.Tensor:
        """Return the coordinates of the results among the elements."""
        if self.align_corners:
            return self.results() * self.step
        return (self.results() + 0.5) * self.step - 0.5

    def index(self, coordinate: torch.Tensor) -> torch.Tensor:
        """Return coordinates as indices, clamped to the elements that exist."""
        return coordinate.to(torch.int32).clamp(0, self.size - 1)


def _nearest(row: Row) -> list[Tap]:
    return [(row.index(torch.floor(row.results() * row.step)), None)]


def _nearest_exact(row: Row) -> list[Tap]:
    return [(row.index(torch.floor((row.results() + 0.5) * row.step)), None)]


def _linear(row: Row) -> list[Tap]:
    source = row.sources().clamp(min=0)
    low = torch.floor(source).clamp(max=row.size - 1)
    fraction = (source - low).clamp(0, 1)
    return [(row.index(low), 1 - fraction), (row.index(low + 1), fraction)]


def _cubic(row: Row) -> list[Tap]:
    source = row.sources()
    low = torch.floor(source)
    fraction = source - low
    taps: list[Tap] = []
    for offset in range(-1, 3):
        distance = fraction - offset if offset < 1 else offset - fraction
        weight = _cubic_weight(distance, is_near=offset in (0, 1))
        taps.append((row.index(low + offset), weight))
    return taps


def _cubic_weight(distance: torch.Tensor, is_near: bool) -> torch.Tensor:
    """Return Keys' cubic convolution kernel at distances below 1, or from 1 to 2."""
    a = -0.75
    if is_near:
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a


def apply_taps(x: torch.Tensor, dim: int, taps: Sequence[Tap]) -> torch.Tensor:
    """Return the weighted sum of the elements that the taps read along a dim."""
    total: torch.Tensor | None = None
    for index, weight in taps:
        part = aten.index_select(x, dim, index)
        part = part if weight is None else part * broadcast_along(weight, dim)
        total = part if total is None else total + part
    assert total is not None
    return total


def apply_taps_backward(
    gradient: torch.Tensor, dim: int, size: int, taps: Sequence[Tap]
) -> torch.Tensor:
    """Return the gradient of `size` elements along a dim, from that of what the taps read."""
    return matmul_along(gradient, dim, _matrix(size, taps))


def _matrix(size: int, taps: Sequence[Tap]) -> torch.Tensor:
    """Return the weight of each element (column) in each result (row)."""
    position = torch.arange(size, dtype=torch.int32, device=taps[0][0].device)
    matrix = None
    for index, weight in taps:
        weights = (index.unsqueeze(-1) == position).to(torch.float32)
        weights = weights if weight is None else weights * weight.unsqueeze(-1)
        matrix = weights if matrix is None else matrix + weights
    assert matrix is not None
    return matrix


# Resamples one dim of a tensor, or of its gradient.
Resampler = Callable[[torch.Tensor, int, Row], torch.Tensor]


def _tap_resamplers(taps_of: Callable[[Row], list[Tap]]) -> tuple[Resampler, Resampler]:
    """Return the resampler that applies taps, and its gradient."""
    return (
        lambda x, dim, row: apply_taps(x, dim, taps_of(row)),
        lambda gradient, dim, row: apply_taps_backward(gradient, dim, row.size, taps_of(row)),
    )


def upsampling(
    dims: int,
    resamplers: tuple[Resampler, Resampler],
    *,
    has_align_corners: bool,
    accumulates: bool,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return an upsampling op and its gradient.

    `has_align_corners` states whether the op has that argument, `accumulates` whether a result is
    a sum of several elements.
    """
    forward_along, backward_along = resamplers

    def rows(
        size: Sequence[int], out: Sequence[int], options: Sequence[Any], device: torch.device
    ) -> list[Row]:
        align, *scales = options if has_align_corners else (False, *options)
        scales = [*scales, *[None] * (dims - len(scales))]
        return [
            Row(n, count, scale, bool(align), device)
            for n, count, scale in zip(size[-dims:], out, scales, strict=True)
        ]

    def upsample(x: torch.Tensor, output_size: Sequence[int], *options: Any) -> Any:
        if x.dtype not in FLOAT_DTYPES or x.numel() == 0:
            return NotImplemented
        # Sums of 16-bit floats are rounded once.
        result = x.to(torch.float32) if accumulates else x
        for position, row in enumerate(rows(x.shape, output_size, options, x.device)):
            if row.size != row.out or row.scale not in (None, 1.0):
                result = forward_along(result, position - dims, row)
        return result.to(x.dtype).contiguous()

    def backward(
        gradient: torch.Tensor, output_size: Sequence[int], input_size: Sequence[int], *options: Any
    ) -> Any:
        if gradient.dtype not in FLOAT_DTYPES or gradient.numel() == 0:
            return NotImplemented
        result = gradient.to(torch.float32)
        for position, row in enumerate(rows(input_size, output_size, options, gradient.device)):
            if row.size != row.out or row.scale not in (None, 1.0):
                result = backward_along(result, position - dims, row)
        return result.to(gradient.dtype).contiguous()

    return upsample, backward


# The number of dims, the taps, and whether the op has the argument `align_corners`.
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


def prevent_early_decomposition(name: str, has_align_corners: bool) -> None:
    """Preserve an upsampling op on the card while a graph is traced.

    PyTorch decomposes these ops before a graph is traced, into gathers by pairs of indices, whose
    gradient compares all pairs of positions. The decompositions of this module are cheaper.
    """
    op = getattr(aten, name).default
    keys = torch._C.DispatchKey

    def upsample_aligned(
        x: torch.Tensor,
        output_size: Sequence[int] | None,
        align_corners: bool,
        scale_factors: Sequence[float] | None,
    ) -> Any:
        return upsample(x, output_size, scale_factors, align_corners)

    def upsample(
        x: torch.Tensor,
        output_size: Sequence[int] | None,
        scale_factors: Sequence[float] | None,
        *align_corners: bool,
    ) -> Any:
        # PyTorch's own implementation accepts no symbolic sizes.
        size = upsample_compute_output_size(x.shape, output_size, scale_factors)
        scales: Sequence[float | None] = scale_factors or [None] * len(size)
        return op(x, size, *align_corners, *scales)

    op.py_impl(keys.AutogradPrivateUse1)(partial(op._op_dk, keys.Autograd))
    vector_overload = getattr(aten, name).vec
    vector_overload.py_impl(keys.AutogradPrivateUse1)(
        upsample_aligned if has_align_corners else upsample
    )


for _name, (_dims, _taps_of, _has_align_corners) in _UPSAMPLING.items():
    prevent_early_decomposition(_name, _has_align_corners)
    _forward, _backward = upsampling(
        _dims,
        _tap_resamplers(_taps_of),
        has_align_corners=_has_align_corners,
        accumulates=_taps_of not in (_nearest, _nearest_exact),
    )
    register_decomposition(getattr(aten, _name).default)(_forward)
    register_decomposition(getattr(aten, f"{_name}_backward").default)(_backward)
