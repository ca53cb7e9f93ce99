"""Sample tensors, and assertions on them, for tests of serialization and copies."""

import torch

DTYPES = [
    torch.float16, torch.bfloat16, torch.float32, torch.bool, torch.int8, torch.uint8,
    torch.int16, torch.int32, torch.int64, torch.float8_e4m3fn, torch.float8_e5m2fnuz,
]  # fmt: skip


def sample(size, dtype):
    """Return a tensor of values that every format represents exactly."""
    values = torch.arange(torch.Size(size).numel()).remainder(2 if dtype is torch.bool else 8)
    return values.reshape(size).to(torch.float32).to(dtype)


def counting(*size, dtype=torch.float16):
    return torch.arange(torch.Size(size).numel()).remainder(1021).reshape(size).to(dtype)


def assert_equal(actual, expected, device="spyre:0"):
    assert str(actual.device) == device
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    plain = [t.cpu().view(torch.uint8) if t.is_floating_point() and t.itemsize == 1 else t.cpu()
             for t in (actual, expected)]  # fmt: skip
    assert torch.equal(*plain)


def shares_storage(a, b):
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata
