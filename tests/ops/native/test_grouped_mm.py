"""grouped_mm in the dtypes that PyTorch's kernels support."""

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_grouped_mm_of_half_precision_dtypes_is_native(dtype):
    generator = torch.Generator().manual_seed(0)
    rows, weights = (torch.randn(size, generator=generator) for size in ((12, 64), (2, 64, 32)))
    ends = torch.tensor([5, 12], dtype=torch.int32)
    before = torch.spyre.counters()["fallbacks"]
    given = (tensor.to(dtype).to("spyre") for tensor in (rows, weights))
    actual = torch._grouped_mm(*given, offs=ends.to("spyre"))
    assert torch.spyre.counters()["fallbacks"] == before
    expected = torch.cat([rows[:5] @ weights[0], rows[5:] @ weights[1]])
    # Operands and results have 8 or 9 fraction bits, and 64 products are summed.
    assert (actual.cpu().float() - expected).norm() <= 2.0**-7 * expected.norm()
