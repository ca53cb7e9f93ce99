"""Decompositions of upsampling with `antialias=True`.

When downsampling, each result is a weighted average of the elements around it. The filter is scaled
by the distance between results. Each dim is a matmul, forward and backward.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from torch_spyre._inductor.decompositions.interpolate import (
    Resampler,
    Row,
    prevent_early_decomposition,
    upsampling,
)
from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre._inductor.decompositions.zero_skipping_matmul import matmul_along

aten = torch.ops.aten


@dataclass(frozen=True)
class _Filter:
    """The weight of an element as a function of its distance; zero from `radius` on.

    The unit of distance is an element, or the distance between results if that is larger.
    """

    weight: Callable[[torch.Tensor], torch.Tensor]
    radius: float

    def matrix(self, row: Row) -> torch.Tensor:
        """Return the weight of each element (column) in each result (row)."""
        unit = max(row.step, 1.0)
        centre = ((row.results() + 0.5) * row.step).unsqueeze(-1)
        position = torch.arange(row.size, dtype=torch.float32, device=row.device)
        first = torch.floor(centre - self.radius * unit + 0.5)
        end = torch.floor(centre + self.radius * unit + 0.5)
        weight = self.weight(((position - centre + 0.5) / unit).abs())
        weight = torch.where((position >= first) & (position < end), weight, 0.0)
        return weight / weight.sum(-1, keepdim=True)

    def resamplers(self) -> tuple[Resampler, Resampler]:
        """Return the resampler of a dim, and its gradient."""
        return (
            lambda x, dim, row: matmul_along(x, dim, self.matrix(row).t()),
            lambda gradient, dim, row: matmul_along(gradient, dim, self.matrix(row)),
        )


def _triangle(distance: torch.Tensor) -> torch.Tensor:
    return (1 - distance).clamp(min=0)


def _cubic(distance: torch.Tensor) -> torch.Tensor:
    """Return Keys' cubic kernel with a = -0.5; without antialiasing PyTorch takes a = -0.75."""
    a = -0.5
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return torch.where(distance < 1, near, torch.where(distance < 2, far, 0.0))


_FILTERS = {
    "_upsample_bilinear2d_aa": _Filter(_triangle, 1.0),
    "_upsample_bicubic2d_aa": _Filter(_cubic, 2.0),
}

for _name, _filter in _FILTERS.items():
    prevent_early_decomposition(_name, has_align_corners=True)
    _forward, _backward = upsampling(
        2, _filter.resamplers(), has_align_corners=True, accumulates=True
    )
    register_decomposition(getattr(aten, _name).default)(_forward)
    register_decomposition(getattr(aten, f"{_name}_backward").default)(_backward)
