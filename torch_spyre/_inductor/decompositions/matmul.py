"""Decompositions of matmuls with a bias, of vectors, of scaled 8-bit floats, and of groups."""

from collections.abc import Callable
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre.dtypes import STORAGE_DTYPES

aten = torch.ops.aten


def _with_bias(matmul: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return the op that adds `beta * bias` to `alpha` times a matmul."""

    def add_bias(
        bias: torch.Tensor,
        left: torch.Tensor,
        right: torch.Tensor,
        *,
        beta: float = 1,
        alpha: float = 1,
    ) -> torch.Tensor:
        result = matmul(left, right)
        if not result.is_floating_point():  # as on the CPU
            alpha, beta = int(alpha), int(beta)
        result = result if alpha == 1 else result * alpha
        if beta == 0:
            return result
        return result + (bias if beta == 1 else bias * beta)

    return add_bias


def _sum_of_batches(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the sum of a batched matmul over its batches, as one matmul that reduces both dims."""
    rows = left.transpose(0, 1).reshape(left.shape[1], -1)
    return torch.mm(rows, right.reshape(-1, right.shape[2]))


register_decomposition(aten.addmm.default)(_with_bias(torch.mm))
register_decomposition(aten.baddbmm.default)(_with_bias(torch.bmm))
register_decomposition(aten.addbmm.default)(_with_bias(_sum_of_batches))


@register_decomposition(aten.mv.default)
def _mv(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return torch.mm(matrix, vector.unsqueeze(1)).squeeze(1)


@register_decomposition(aten.dot.default)
def _dot(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.mm(left.unsqueeze(0), right.unsqueeze(1)).reshape(())


@register_decomposition(aten._scaled_mm.default)
def _scaled_mm(
    rows: torch.Tensor,
    columns: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:
    """Multiply in float32 and round once: the sums need more precision than 16-bit floats have."""
    _check_scale("scale_a", scale_a, (rows.shape[0], 1))
    _check_scale("scale_b", scale_b, (1, columns.shape[1]))
    dtype = rows.dtype if out_dtype is None else out_dtype
    result = torch.mm(rows.to(torch.float32), columns.to(torch.float32)) * scale_a * scale_b
    if bias is not None:
        result = result + bias.to(torch.float32)
    if scale_result is not None and dtype in STORAGE_DTYPES:
        result = result * scale_result
    return result.to(dtype)


def _check_scale(name: str, scale: torch.Tensor, shape: tuple[int, int]) -> None:
    torch._check(
        scale.dtype is torch.float32 and (scale.numel() == 1 or tuple(scale.shape) == shape),
        lambda: (
            f"_scaled_mm: {name} must have one float32 element or be a float32 tensor of shape "
            f"{list(shape)}, not {scale.dtype} of shape {list(scale.shape)}"
        ),
    )


@register_decomposition(aten._grouped_mm.default)
def _grouped_mm(
    left: torch.Tensor,
    right: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """Multiply groups of rows, columns or reduced elements; `offs` holds the end of each group."""
    if bias is not None:
        return NotImplemented
    if offs is None:
        result = torch.bmm(left, right)
    elif left.dim() == 2 and right.dim() == 3:
        result = _grouped_rows_mm(left, right, offs)
    elif left.dim() == 3:
        result = _grouped_rows_mm(right.t(), left.transpose(1, 2), offs).t()
    else:
        mask = _group_mask(left.shape[1], offs)
        masked = torch.where(mask.unsqueeze(1), left, torch.zeros_like(left))
        result = torch.mm(masked.reshape(-1, left.shape[1]), right)
        result = result.reshape(offs.shape[0], left.shape[0], -1)
    return result if out_dtype is None else result.to(out_dtype)


def _group_mask(count: int, offs: torch.Tensor) -> torch.Tensor:
    """Return which of `count` elements (columns) belong to each group (rows)."""
    position = torch.arange(count, device=offs.device)
    ends = offs.unsqueeze(-1)
    starts = aten.constant_pad_nd(offs[:-1], [1, 0], 0).unsqueeze(-1)
    mask: torch.Tensor = (position >= starts) & (position < ends)
    return mask


def _grouped_rows_mm(
    rows: torch.Tensor, matrices: torch.Tensor, offs: torch.Tensor
) -> torch.Tensor:
    """Multiply each row by the matrix of its group.

    For few rows, a gather reads the matrices that they need. Many rows are repeated once for each
    group, masked to zero in groups that they do not belong to: then one matmul reads every matrix
    once.
    """
    groups, inner, columns = matrices.shape
    if 3 * rows.shape[0] <= groups:
        position = torch.arange(rows.shape[0], device=rows.device).unsqueeze(-1)
        group = (position >= offs).to(torch.int32).sum(-1).clamp(max=groups - 1)
        return torch.bmm(rows.unsqueeze(1), matrices[group]).squeeze(1)
    mask = _group_mask(rows.shape[0], offs).t().unsqueeze(-1)
    masked = torch.where(mask, rows.unsqueeze(1), torch.zeros_like(rows).unsqueeze(1))
    return torch.mm(masked.reshape(rows.shape[0], groups * inner), matrices.reshape(-1, columns))
