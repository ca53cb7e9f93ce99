"""`linalg.solve_triangular`: a product with the inverse, which is made of inverses of its blocks.

The inverse of a lower triangle follows from those of its two halves along the diagonal:

    [A 0]⁻¹   [   A⁻¹      0 ]
    [B C]   = [-C⁻¹BA⁻¹   C⁻¹]

so blocks along the whole diagonal double in width together, from single elements on, by products of
many small matrices. Row by row there would be as many steps as rows.
"""

from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes

aten = torch.ops.aten


@decomposes(aten.linalg_solve_triangular.default)
def _solve_triangular(
    matrix: torch.Tensor,
    sides: torch.Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Any:
    torch._check(
        matrix.dtype == sides.dtype and matrix.shape[-1] == matrix.shape[-2],
        lambda: (
            "linalg.solve_triangular: expected square matrices and right-hand sides of one type, "
            f"got {matrix.dtype}{list(matrix.shape)} and {sides.dtype}{list(sides.shape)}"
        ),
    )
    if matrix.dtype is not torch.float32 or matrix.numel() == 0 or sides.numel() == 0:
        return NotImplemented
    lower = matrix.mT if upper else matrix
    inverse = _inverse(lower, unitriangular)
    inverse = inverse.mT if upper else inverse
    return torch.matmul(inverse, sides) if left else torch.matmul(sides, inverse)


def _inverse(lower: torch.Tensor, unitriangular: bool) -> torch.Tensor:
    """Of triangles below the diagonal; what is above it is not looked at."""
    *batch, size, _ = lower.shape
    padded = 1 << (size - 1).bit_length()
    more = [0, padded - size]
    whole = aten.constant_pad_nd(lower, [*more, *more], 0.0)
    diagonal = lower.diagonal(dim1=-2, dim2=-1)
    diagonal = torch.ones_like(diagonal) if unitriangular else diagonal
    known: torch.Tensor = aten.constant_pad_nd(diagonal, more, 1.0).reciprocal()
    known = known.reshape(*batch, padded, 1, 1)
    width = 1
    while width < padded:
        count = padded // (2 * width)
        pairs = known.reshape(*batch, count, 2, width, width)
        first, second = pairs[..., 0, :, :], pairs[..., 1, :, :]
        blocks = whole.reshape(*batch, count, 2 * width, count, 2 * width)
        below = blocks.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)[..., width:, :width]
        corner = -torch.matmul(torch.matmul(second, below), first)
        upper_half = torch.cat([first, torch.zeros_like(first)], -1)
        known = torch.cat([upper_half, torch.cat([corner, second], -1)], -2)
        width *= 2
    return known.reshape(*batch, padded, padded)[..., :size, :size]
