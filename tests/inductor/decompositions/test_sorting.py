"""Orders and counts, eager and compiled: sort, topk, where values belong, how many there are."""

import pytest
import torch
from cpu_reference import assert_close_to_cpu, make_tensor, to_card

from torch_spyre._inductor.decompositions import sorting

NO_FALLBACKS = pytest.mark.usefixtures("no_fallbacks")
TYPES = (torch.float16, torch.int64, torch.bool)


@NO_FALLBACKS
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_sort_is_stable(dtype):
    def both(x):
        return (
            torch.sort(x, stable=True),
            torch.sort(x, stable=True, descending=True),
            torch.argsort(x, dim=0, stable=True),
        )

    assert_close_to_cpu(both, make_tensor(3, 70, dtype=dtype))


@NO_FALLBACKS
def test_sort_puts_nan_last():
    x = make_tensor(100, dtype=torch.float32)
    x[[3, 50]], x[7], x[70] = torch.nan, torch.inf, -torch.inf
    assert_close_to_cpu(lambda x: (x.sort(stable=True), x.sort(stable=True, descending=True)), x)


@NO_FALLBACKS
@pytest.mark.parametrize("shape", [(), (1,), (0, 4), (4, 0), (3, 1), (2, 3, 5)], ids=str)
def test_sort_of_small_tensors(shape):
    assert_close_to_cpu(
        lambda x: (x.sort(dim=0, stable=True), x.sort(stable=True)), make_tensor(*shape)
    )


def distinct(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    generator = torch.Generator().manual_seed(count)
    return torch.randperm(count, generator=generator).reshape(shape).to(dtype)


@NO_FALLBACKS
def test_topk():
    def first(x):
        return x.topk(3), x.topk(5, largest=False), x.topk(2, 0), x.topk(70)[0]

    assert_close_to_cpu(first, distinct(3, 70))
    assert_close_to_cpu(lambda x: (x.topk(1), x.topk(0)), distinct(70, dtype=torch.int32))


@NO_FALLBACKS
def test_topk_of_long_rows():
    assert_close_to_cpu(lambda x: x.topk(50), distinct(2, 9000))


@NO_FALLBACKS
def test_orders_of_long_rows():
    x = to_card(distinct(20000))
    assert torch.equal(x.sort().values.cpu(), torch.arange(20000.0))
    assert x.kthvalue(1234).values.item() == 1233
    assert x.median().item() == 9999
    assert torch.equal(x.topk(300, largest=False).values.cpu(), torch.arange(300.0))


@NO_FALLBACKS
def test_searchsorted_and_bucketize():
    def places(x, bounds, rows):
        return (
            torch.bucketize(x, bounds),
            torch.bucketize(x, bounds, right=True, out_int32=True),
            torch.searchsorted(rows, x),
            torch.searchsorted(rows, x, side="right"),
            torch.searchsorted(bounds, 0.5),
            torch.isin(x, bounds),
        )

    x = torch.tensor([[0.5, -1, 3, 0, torch.nan], [2, 2.5, -torch.inf, 1, 9]])
    bounds = torch.tensor([-1.0, 0.5, 2, 3])
    assert_close_to_cpu(places, x, bounds, torch.stack([bounds, bounds + 1]))


@NO_FALLBACKS
def test_histc():
    def counted(x):
        return torch.histc(x, 10, -1, 1), torch.histc(x, 7), torch.histc(x[:0], 3)

    assert_close_to_cpu(counted, make_tensor(300, dtype=torch.float32))
    experts = to_card(torch.tensor([0, 3, 3, 7, 1], dtype=torch.int32))
    assert torch.histc(experts, 8, 0, 7).tolist() == [1, 1, 0, 2, 0, 0, 0, 1]


@NO_FALLBACKS
def test_bincount():
    x = torch.tensor([1, 5, 1, 0, 9])
    assert_close_to_cpu(lambda x: (torch.bincount(x), torch.bincount(x[:2], minlength=12)), x)
    weights = to_card(torch.tensor([0.5, 1, 2, 4, 8]))
    assert torch.bincount(to_card(x), weights).tolist() == [4, 2.5, 0, 0, 0, 1, 0, 0, 0, 8]
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(to_card(-x))


@pytest.mark.one_case_in(4)
@NO_FALLBACKS
@pytest.mark.parametrize("bins", [1, 2, 3, 64, 65, 70, 4097])
def test_bincount_takes_little_memory(bins, monkeypatch):
    monkeypatch.setattr(sorting, "_MAX_MASK", 512)
    x = torch.arange(200) * 7 % bins
    counted = torch.bincount(to_card(x), minlength=bins)
    assert counted.tolist() == torch.bincount(x, minlength=bins).tolist()
    weights = torch.arange(200.0)
    actual = torch.bincount(to_card(x[:9]), to_card(weights[:9]), minlength=min(bins, 99))
    assert actual.tolist() == torch.bincount(x[:9], weights[:9], minlength=min(bins, 99)).tolist()
