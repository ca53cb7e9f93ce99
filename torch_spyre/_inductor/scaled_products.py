"""Products of matrices in eight bits, with the scales that make numbers of them."""

import torch

from torch_spyre._inductor.decompositions import decomposes
from torch_spyre._inductor.op_functions import STORED

aten = torch.ops.aten


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
    if scale_result is not None and dtype in STORED:
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
