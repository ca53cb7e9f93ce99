"""Ops with data-dependent result sizes, and losses and assertions that use them."""

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import assert_close_to_cpu, make_tensor


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("shape", [(), (1,), (280,), (4, 70), (3, 5, 33), (0,), (4, 0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.bool, torch.uint8], ids=str)
def test_nonzero(shape, dtype, no_fallbacks):
    x = (make_tensor(*shape) > 0.7).to(dtype)
    for given in (x, torch.zeros_like(x), torch.ones_like(x)):
        actual, expected = torch.nonzero(given.to("spyre")), torch.nonzero(given)
        assert torch.equal(actual.cpu(), expected)
        if expected.numel():
            assert actual.stride() == expected.stride()


@pytest.mark.parametrize("mask", [(4, 70), (70,), (4, 1), (1,)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64], ids=str)
def test_masked_select(mask, dtype, no_fallbacks):
    x, shows = make_tensor(4, 70, dtype=dtype), make_tensor(*mask, dtype=torch.bool)
    x = x.to("spyre").cpu()
    actual = torch.masked_select(x.to("spyre"), shows.to("spyre"))
    assert torch.equal(actual.cpu(), torch.masked_select(x, shows))


def test_masked_select_of_views(no_fallbacks):
    x = make_tensor(6, 70, dtype=torch.float32)
    on_card = x.to("spyre")
    for view in (lambda x: x.t(), lambda x: x[1:, ::2], lambda x: x[2]):
        actual = torch.masked_select(view(on_card), view(on_card > 0))
        assert torch.equal(actual.cpu(), torch.masked_select(view(x), view(x > 0)))


REPEATED = {
    "numbers": lambda x, times: torch.repeat_interleave(times),
    "elements": lambda x, times: x[:, 0].repeat_interleave(times),
    "columns": lambda x, times: x.t().repeat_interleave(times, 1),
    "as many as said": lambda x, times: x.repeat_interleave(times, 0, output_size=12),
    "none": lambda x, times: x.repeat_interleave(times * 0, 0),
    "of none": lambda x, times: x[:0].repeat_interleave(times[:0], 0),
    "all alike": lambda x, times: x.repeat_interleave(times[:1], 0),
}


@pytest.mark.parametrize("form", REPEATED)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_repeat_interleave_with_tensor_repeats(form, dtype, no_fallbacks):
    times = torch.tensor([3, 0, 1, 5, 2, 1], dtype=dtype)
    assert_close_to_cpu(REPEATED[form], make_tensor(6, 70), times, units=0)


@pytest.mark.parametrize("times", [[1, -1], [1.0, 2.0], [[1, 2]]], ids=str)
def test_repeat_interleave_rejects_invalid_repeats(times, no_fallbacks):
    with pytest.raises(RuntimeError, match="repeat"):
        torch.repeat_interleave(torch.tensor(times, device="spyre"))
    with pytest.raises(RuntimeError, match="size does not match"):
        torch.repeat_interleave(torch.tensor([1, 2], device="spyre"), output_size=4)


BY_FLAGS = {
    "all dims": lambda x, flags: x[flags],
    "rows": lambda x, flags: x[flags[:, 0]],
    "columns": lambda x, flags: x[:, flags[0]],
    "rows and a place": lambda x, flags: x[flags[:, 0], 3],
    "none of them": lambda x, flags: x[flags & ~flags],
    "views": lambda x, flags: x.t()[flags.t()],
}


@pytest.mark.parametrize("index", BY_FLAGS.values(), ids=BY_FLAGS)
def test_index_with_bool_mask(index, no_fallbacks):
    x = make_tensor(6, 70, dtype=torch.float32)
    before = torch.spyre.counters()["fallbacks"]
    actual = index(x.to("spyre"), (x > 0).to("spyre"))
    assert torch.spyre.counters()["fallbacks"] == before
    assert torch.equal(actual.cpu(), index(x, x > 0))


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_with_bool_mask(accumulate, no_fallbacks):
    x = make_tensor(6, 70, dtype=torch.float32)
    flags = x > 0
    values = torch.arange(int(flags.sum()), dtype=torch.float32)
    before = torch.spyre.counters()["fallbacks"]
    actual = x.to("spyre").index_put((flags.to("spyre"),), values.to("spyre"), accumulate)
    assert torch.spyre.counters()["fallbacks"] == before
    assert torch.equal(actual.cpu(), x.index_put((flags,), values, accumulate))


@pytest.mark.parametrize("shape", [(5, 70), (6, 69), (6, 70, 1), (7,)], ids=str)
def test_bool_mask_of_wrong_shape_raises_as_on_the_cpu(shape, no_fallbacks):
    x, flags = make_tensor(6, 70), torch.ones(shape, dtype=torch.bool)
    for device in ("cpu", "spyre"):
        with pytest.raises(IndexError, match=r"shape of the mask|too many indices"):
            x.to(device)[flags.to(device)]


def test_masked_select_rejects_a_mask_that_is_not_bool():
    x = make_tensor(4, 70).to("spyre")
    with pytest.raises(RuntimeError, match="BoolTensor"):
        torch.masked_select(x, x)


@pytest.mark.parametrize("options", [{}, {"reduction": "none"}, {"ignore_index": 3}], ids=str)
def test_weighted_cross_entropy_with_label_smoothing(options, no_fallbacks):
    scores, weights = make_tensor(12, 10, dtype=torch.float32), make_tensor(10, low=0.1).float()
    labels = torch.arange(12) % 10
    assert_close_to_cpu(
        lambda x, y, w: F.cross_entropy(x, y, weight=w, label_smoothing=0.1, **options),
        *(scores, labels, weights),
        units=64,
    )


@pytest.mark.parametrize("options", [{}, {"p": 2, "margin": 0.5}, {"reduction": "none"}], ids=str)
def test_multi_margin_loss(options, no_fallbacks):
    scores, labels = make_tensor(12, 10, dtype=torch.float32), torch.arange(12) % 10
    assert_close_to_cpu(lambda x, y: F.multi_margin_loss(x, y, **options), scores, labels, units=64)


def test_one_hot(no_fallbacks):
    assert_close_to_cpu(lambda y: F.one_hot(y, 10), torch.arange(12) % 10)


@pytest.mark.parametrize("compiled", [False, True])
def test_failing_assert_async_raises(compiled):
    def one_hot(x):
        torch._assert_async((x >= 0).all(), "negative")
        return x + 1

    torch._dynamo.reset()
    run = torch.compile(one_hot) if compiled else one_hot
    assert run(torch.ones(3, device="spyre")).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="negative"):
        run(-torch.ones(3, device="spyre"))
