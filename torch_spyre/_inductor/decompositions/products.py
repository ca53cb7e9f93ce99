"""Products of matrices: with a bias, of vectors, and in eight bits with scales."""

from collections.abc import Callable

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre.dtypes import STORAGE_DTYPES

aten = torch.ops.aten


def _plus_bias(multiply: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def with_bias(
        bias: torch.Tensor,
        left: torch.Tensor,
        right: torch.Tensor,
        *,
        beta: float = 1,
        alpha: float = 1,
    ) -> torch.Tensor:
        product = multiply(left, right)
        if not product.is_floating_point():  # as on the CPU
            alpha, beta = int(alpha), int(beta)
        product = product if alpha == 1 else product * alpha
        if beta == 0:
            return product
        return product + (bias if beta == 1 else bias * beta)

    return with_bias


def _mm_of_batches(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    # One product over both dims that are summed.
    wide = left.transpose(0, 1).reshape(left.shape[1], -1)
    return torch.mm(wide, right.reshape(-1, right.shape[2]))


decomposes(aten.addmm.default)(_plus_bias(torch.mm))


decomposes(aten.baddbmm.default)(_plus_bias(torch.bmm))


decomposes(aten.addbmm.default)(_plus_bias(_mm_of_batches))


@decomposes(aten.mv.default)
def _mv(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return torch.mm(matrix, vector.unsqueeze(1)).squeeze(1)


@decomposes(aten.dot.default)
def _dot(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.mm(left.unsqueeze(0), right.unsqueeze(1)).reshape(())


@decomposes(aten._scaled_mm.default)
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
    """In float32, rounded once: sums of these products exceed what halves can tell apart."""
    _check_scale("scale_a", scale_a, (rows.shape[0], 1))
    _check_scale("scale_b", scale_b, (1, columns.shape[1]))
    dtype = rows.dtype if out_dtype is None else out_dtype
    result = torch.mm(rows.to(torch.float32), columns.to(torch.float32)) * scale_a * scale_b
    if bias is not None:
        result = result + bias.to(torch.float32)
    if scale_result is not None and dtype in STORAGE_DTYPES:
        result = result * scale_result
    return result.to(dtype)


def _check_scale(name: str, scale: torch.Tensor, along: tuple[int, int]) -> None:
    torch._check(
        scale.dtype is torch.float32 and (scale.numel() == 1 or tuple(scale.shape) == along),
        lambda: (
            f"_scaled_mm: {name} must be one float32 number or a float32 tensor of size "
            f"{list(along)}, not {scale.dtype} of size {list(scale.shape)}"
        ),
    )
