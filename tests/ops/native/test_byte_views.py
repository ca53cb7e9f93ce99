"""Ops on the bytes of a storage fall back: the card holds elements, not the host's bytes."""

import pytest
import torch

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]

DTYPES = [torch.float32, torch.float16, torch.int64, torch.uint8]
OPS = {
    "sum": lambda x: x.sum(),
    "flip": lambda x: x.flip(0),
    "cat": lambda x: torch.cat([x, x]),
    "index": lambda x: x[torch.tensor([5, 1], device=x.device)],
    "add": lambda x: x + 1,
}


def bytes_of(storage):
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def storage_of(dtype):
    """Return a storage on the card, with a dtype or raw."""
    if dtype is not None:
        return torch.arange(10).to(dtype).to("spyre").untyped_storage()
    raw = torch.UntypedStorage(40, device="spyre")
    return raw.copy_(torch.arange(40, dtype=torch.uint8).untyped_storage())


@pytest.mark.parametrize("dtype", [*DTYPES, None], ids=str)
@pytest.mark.parametrize("name", OPS)
def test_ops_on_bytes_return_what_the_cpu_does(name, dtype):
    card = bytes_of(storage_of(dtype))
    host = card.cpu()
    before = torch.spyre.counters()["fallbacks"]
    actual = OPS[name](card)
    assert torch.spyre.counters()["fallbacks"] > before
    assert torch.equal(actual.cpu(), OPS[name](host))


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_compiled_graphs_of_bytes_return_what_the_cpu_does(dtype):
    card = bytes_of(storage_of(dtype))
    actual = torch.compile(lambda x: (x + 1).sum())(card)
    assert torch.equal(actual.cpu(), (card.cpu() + 1).sum())
