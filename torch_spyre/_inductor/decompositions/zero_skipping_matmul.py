"""Matmuls in float32 in which zero weights drop non-finite elements: 0 · inf contributes nothing.

Weights below zero do not change the sign of an infinity.
"""

import math

import torch


def matmul_along(x: torch.Tensor, dim: int, matrix: torch.Tensor) -> torch.Tensor:
    """Return the matmul of all rows along a dim of a float32 tensor with a matrix."""
    rows = x.movedim(dim, -1)
    result = zero_skipping_matmul(rows.reshape(-1, rows.shape[-1]), matrix)
    return result.reshape(*rows.shape[:-1], matrix.shape[1]).movedim(-1, dim)


def zero_skipping_matmul(rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Return `rows @ matrix` of float32 matrices, or of batches of them.

    Finite elements are multiplied by the weights. Infinities and NaNs reach exactly the results
    for which their weight is not zero: counts of them are separate matmuls.
    """
    matmul = torch.mm if rows.dim() == 2 else torch.bmm
    is_nan, is_nonzero = torch.isnan(rows), (matrix != 0).to(torch.float32)
    has_inf, has_negative_inf = (
        matmul((is_nan | (rows == infinity)).to(torch.float32), is_nonzero) > 0
        for infinity in (math.inf, -math.inf)
    )
    total = matmul(torch.where(is_nan | torch.isinf(rows), 0.0, rows), matrix)
    result = torch.where(has_inf, math.inf, torch.where(has_negative_inf, -math.inf, total))
    return torch.where(has_inf & has_negative_inf, math.nan, result)
