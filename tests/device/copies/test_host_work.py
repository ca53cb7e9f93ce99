"""Copies and new layouts of storages compute on the card, or count as a fallback."""

import pytest
import torch

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]

DEV = "spyre"
HOST_WORK = ("fallbacks", "d2h_bytes", "h2d_bytes")


def host_work(action):
    """Return the fallbacks and the bytes over the host link that `action` adds."""
    before = torch.spyre.counters()
    action()
    after = torch.spyre.counters()
    return {name: after[name] - before[name] for name in HOST_WORK if after[name] != before[name]}


# --- Lazy negation --------------------------------------------------------------------------------


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_the_card_negates_a_view_that_is_copied_within_it(dtype):
    source = torch.arange(64, dtype=dtype).to(DEV)
    target = torch.zeros(64, dtype=dtype, device=DEV)
    launches = torch.spyre.counters()["launches"]
    assert host_work(lambda: target.copy_(source._neg_view())) == {}
    assert torch.spyre.counters()["launches"] > launches
    assert torch.equal(target.cpu(), -torch.arange(64, dtype=dtype))
    assert host_work(lambda: target._neg_view().copy_(source)) == {}
    assert torch.equal(target.cpu(), -torch.arange(64, dtype=dtype))


@pytest.mark.usefixtures("kernels")
def test_the_card_negates_a_view_that_is_copied_to_the_host():
    source, target = torch.arange(64.0).to(DEV), torch.zeros(64)
    launches = torch.spyre.counters()["launches"]
    assert host_work(lambda: target.copy_(source._neg_view())) == {"d2h_bytes": 256}
    assert torch.spyre.counters()["launches"] > launches
    assert torch.equal(target, -torch.arange(64.0))
