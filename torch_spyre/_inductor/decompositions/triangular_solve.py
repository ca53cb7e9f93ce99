"""Decomposition of `linalg.solve_triangular` into a matmul with the inverse.

The inverse of a lower triangular matrix follows from those of two diagonal blocks:

    [A 0]⁻¹   [   A⁻¹      0 ]
    [B C]   = [-C⁻¹BA⁻¹   C⁻¹]

so all blocks along the diagonal double in width at once, starting from single elements, by batched
matmuls. Substitution row by row would take as many steps as there are rows.
"""

from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition

aten = torch.ops.aten


@register_decomposition(aten.linalg_solve_triangular.default)
def _solve_triangular(
    matrix: torch.Tensor,
    rhs: torch.Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Any:
    torch._check(
        matrix.dtype == rhs.dtype and matrix.shape[-1] == matrix.shape[-2],
        lambda: (
            "linalg.solve_triangular: expected square matrices and right-hand sides of one dtype, "
            f"got {matrix.dtype}{list(matrix.shape)} and {rhs.dtype}{list(rhs.shape)}"
        ),
    )
    if matrix.dtype is not torch.float32 or matrix.numel() == 0 or rhs.numel() == 0:
        return NotImplemented
    lower = matrix.mT if upper else matrix
    inverse = _inverse(lower, unitriangular)
    inverse = inverse.mT if upper else inverse
    return torch.matmul(inverse, rhs) if left else torch.matmul(rhs, inverse)


def _inverse(lower: torch.Tensor, unitriangular: bool) -> torch.Tensor:
    """Return the inverse of the lower triangle; elements above the diagonal are ignored."""
    *batch, size, _ = lower.shape
    padded_size = 1 << (size - 1).bit_length()
    padding = [0, padded_size - size]
    matrix = aten.constant_pad_nd(lower, [*padding, *padding], 0.0)
    diagonal = lower.diagonal(dim1=-2, dim2=-1)
    diagonal = torch.ones_like(diagonal) if unitriangular else diagonal
    inverses: torch.Tensor = aten.constant_pad_nd(diagonal, padding, 1.0).reciprocal()
    inverses = inverses.reshape(*batch, padded_size, 1, 1)
    width = 1
    while width < padded_size:
        count = padded_size // (2 * width)
        pairs = inverses.reshape(*batch, count, 2, width, width)
        first, second = pairs[..., 0, :, :], pairs[..., 1, :, :]
        blocks = matrix.reshape(*batch, count, 2 * width, count, 2 * width)
        below = blocks.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)[..., width:, :width]
        corner = -torch.matmul(torch.matmul(second, below), first)
        upper_half = torch.cat([first, torch.zeros_like(first)], -1)
        inverses = torch.cat([upper_half, torch.cat([corner, second], -1)], -2)
        width *= 2
    return inverses.reshape(*batch, padded_size, padded_size)[..., :size, :size]
