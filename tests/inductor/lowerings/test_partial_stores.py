"""Partial stores preserve other elements, also in the same stick."""

import pytest
import torch

WIDTHS = [1, 31, 33, 63, 64, 65]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool])
@pytest.mark.parametrize("width", WIDTHS)
def test_partial_store_preserves_other_elements(width, dtype, compiled):
    def write(whole, part):
        whole[:, : part.shape[1]] = part
        return whole

    part = (torch.arange(3 * width).reshape(3, width) % 2).to(dtype)
    expected = write(torch.ones(3, 130).to(dtype), part)
    call = torch.compile(write) if compiled else write
    actual = call(torch.ones(3, 130).to(dtype).to("spyre"), part.to("spyre"))
    assert torch.equal(actual.cpu(), expected)


def test_partial_stores_in_any_order():
    """A loss pads its labels: the padding may be written before the labels."""

    def shifted(ids):
        padded = torch.empty(2, 34, dtype=ids.dtype, device=ids.device)
        padded[:, 33:] = -100
        padded[:, :33] = ids
        return padded[:, 1:].reshape(-1) * 1

    ids = torch.arange(66).reshape(2, 33)
    assert torch.compile(shifted)(ids.to("spyre")).tolist() == shifted(ids).tolist()
