"""Decompositions of upsampling with `antialias=True`.

Where results lie further apart than elements, each is an average of all that are near, by a filter
as wide as the distance: a product with a matrix for each dim, forward and backward.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre._inductor.decompositions.resampling import (
    Along,
    Row,
    keep_whole,
    times,
    upsampling,
)

aten = torch.ops.aten


@dataclass(frozen=True)
class _Filter:
    """Weights by distance, which is in results where these are sparser; and how far it reaches."""

    weight: Callable[[torch.Tensor], torch.Tensor]
    reach: float

    def matrix(self, row: Row) -> torch.Tensor:
        """How much each result, which is a row, has of each element."""
        width = max(row.step, 1.0)
        centre = ((row.results() + 0.5) * row.step).unsqueeze(-1)
        place = torch.arange(row.size, dtype=torch.float32, device=row.device)
        first = torch.floor(centre - self.reach * width + 0.5)
        end = torch.floor(centre + self.reach * width + 0.5)
        weight = self.weight(((place - centre + 0.5) / width).abs())
        weight = torch.where((place >= first) & (place < end), weight, 0.0)
        return weight / weight.sum(-1, keepdim=True)

    def ways(self) -> tuple[Along, Along]:
        return (
            lambda x, dim, row: times(x, dim, self.matrix(row).t()),
            lambda gradient, dim, row: times(gradient, dim, self.matrix(row)),
        )


def _triangle(distance: torch.Tensor) -> torch.Tensor:
    return (1 - distance).clamp(min=0)


def _cubic(distance: torch.Tensor) -> torch.Tensor:
    """Of other parameters than where nothing is averaged."""
    a = -0.5
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return torch.where(distance < 1, near, torch.where(distance < 2, far, 0.0))


_FILTERS = {
    "_upsample_bilinear2d_aa": _Filter(_triangle, 1.0),
    "_upsample_bicubic2d_aa": _Filter(_cubic, 2.0),
}

for _name, _filter in _FILTERS.items():
    keep_whole(_name, aligns=True)
    _forward, _backward = upsampling(2, _filter.ways(), aligns=True, adds=True)
    decomposes(getattr(aten, _name).default)(_forward)
    decomposes(getattr(aten, f"{_name}_backward").default)(_backward)
