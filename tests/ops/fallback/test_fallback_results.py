"""Results of every kind through the CPU fallback."""

import warnings

import pytest
import torch
from comparisons import assert_same, on_card

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
    pytest.mark.filterwarnings("ignore:An output with one or more elements was resized"),
]


# --- Results ------------------------------------------------------------------------------------


def test_integer_and_boolean_results():
    x = torch.randn(4, 5)
    (d,) = on_card(x)
    for call in (
        lambda t: t.argmax(1),
        lambda t: t > 0,
        lambda t: (t > 0).nonzero(),
        lambda t: t.argsort(),
        lambda t: t.to(torch.int32).bincount(minlength=3) if t.dim() == 1 else (t > 0).sum(0),
        lambda t: torch.unique((t * 2).round(), return_counts=True)[1],
    ):
        assert_same(call(d), call(x))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: torch.fft.fft(x), r"aten\.fft_fft\.default: .*ComplexFloat"),
        (lambda x: torch.fft.rfft2(x), r"aten\.fft_rfft2\.default: .*ComplexFloat"),
        (lambda x: torch.linalg.eigvals(x), r"eig.*ComplexFloat"),
        (lambda x: torch.complex(x, x), r"aten\.complex\.default: .*ComplexFloat"),
        (lambda x: x.float_power(2), r"aten\.float_power\.Tensor_Scalar: .*Double"),
        (lambda x: x.to_sparse(), r"aten\._to_sparse\.default: .*sparse"),
        (lambda x: torch.sparse_coo_tensor([[0], [0]], [1.0], device="spyre"), "sparse"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), "quantized"),
        (lambda x: torch.view_as_complex(x), "does not support dtype ComplexFloat"),
        (lambda x: x.to("spyre", torch.float64), "does not support dtype Double"),
        (lambda x: x.sum(dtype=torch.float64), "does not support dtype Double"),
    ],
)
def test_unsupported_result_dtype_is_named_in_the_error(call, message):
    x = torch.ones(2, 2, device="spyre")
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        call(x)
    assert (x + x).tolist() == [[2, 2], [2, 2]]


def test_conversion_to_float64_returns_a_cpu_tensor():
    x = torch.tensor([1.5, -2.0], dtype=torch.float16, device="spyre", requires_grad=True)
    with warnings.catch_warnings(action="ignore"):
        before = torch.spyre.counters()["fallbacks"]
        wide = x.double()
        assert torch.spyre.counters()["fallbacks"] == before
    assert wide.device.type == "cpu"
    assert wide.dtype is torch.float64
    (wide * wide).sum().backward()
    assert x.grad.device.type == "spyre"
    assert x.grad.tolist() == [3.0, -4.0]


def test_unsupported_intermediate_dtypes_are_allowed():
    x = torch.randn(6, 6)
    x = x @ x.t()
    (d,) = on_card(x)
    for call in (
        torch.linalg.pinv,
        torch.linalg.matrix_rank,
        torch.fft.hfft,
        torch.fft.irfft2,
        lambda t: t.renorm(2, 0, 1.0),
        lambda t: torch.linalg.pinv(t, atol=torch.tensor(0.1).to(t.device)),
    ):
        torch.testing.assert_close(call(d).cpu(), call(x))
    a, b = x.clone().requires_grad_(), d.clone().requires_grad_()
    for t in (a, b):
        (
            torch.linalg.pinv(t).sum() + torch.fft.hfft(t).sum() + t.renorm(2, 0, 1.0).sum()
        ).backward()
    torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-4, atol=1e-3)


def test_as_strided_accesses_the_whole_storage_and_not_beyond():
    base = torch.arange(20.0)
    (dbase,) = on_card(base)
    geometry = (2, 3), (1, 2), 1
    for view in (lambda t: t[5:15], lambda t: t.view(4, 5)[:, 2], lambda t: t[::3]):
        x, d = view(base), view(dbase)
        assert_same(d.as_strided(*geometry), x.as_strided(*geometry))
        d.as_strided(*geometry).mul_(2)
        x.as_strided(*geometry).mul_(2)
        assert_same(dbase, base)
        assert_same(d.clone().as_strided_((2, 2), (1, 2)), x.clone().as_strided_((2, 2), (1, 2)))
    for reach in (torch.as_strided, torch.Tensor.as_strided_):
        with pytest.raises(RuntimeError, match="out of bounds"):
            reach(dbase[5:15], (21,), (1,), 0)


def test_scatter_ops_on_views():
    base = torch.randn(5, 6)
    (dbase,) = on_card(base)
    for view in (lambda t: t, lambda t: t[1:, ::2], lambda t: t.t()):
        x, d = view(base), view(dbase)
        for call in (
            lambda t: torch.ops.aten.copy.default(t, t[0] * 2),
            lambda t: t.select_scatter(t[0] * 2, 0, 1),
            lambda t: t.slice_scatter(t[1:3] * 2, 0, 1, 3),
            lambda t: t.diagonal_scatter(t.diagonal() * 2),
            lambda t: t.as_strided_scatter(t.new_full((2, 2), 7.0), (2, 2), (1, 3), 4),
        ):
            assert_same(call(d), call(x))
            assert call(d).stride() == call(x).stride()
    assert_same(dbase, base)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: torch.cat([t, t], 1),
        lambda t: torch.nn.functional.interpolate(t, scale_factor=2),
        lambda t: torch.nn.functional.max_pool2d(t, 2),
        lambda t: torch.nn.functional.pad(t, (1, 1, 1, 1), mode="reflect"),
        lambda t: t + 1,
        lambda t: t.to(torch.bfloat16),
        lambda t: t.contiguous(memory_format=torch.channels_last),
        lambda t: torch.empty_like(t).copy_(t),
    ],
)
def test_channels_last_strides_are_preserved(call):
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    (d,) = on_card(x)
    assert d.stride() == x.stride()
    actual, expected = call(d), call(x)
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual.cpu(), expected)


# --- Random ops ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        lambda on: torch.rand(40, **on),
        lambda on: torch.randn(3, 5, **on),
        lambda on: torch.randint(0, 100, (20,), **on),
        lambda on: torch.randperm(20, **on),
        lambda on: torch.zeros(40, 2, **on)[:, 0].normal_(),
        lambda on: torch.zeros(40, 2, **on)[:, 1].uniform_(),
        lambda on: torch.normal(torch.ones(20, 2, **on)[:, 0], 2.0),
        lambda on: torch.normal(0.0, torch.ones(20, **on), out=torch.ones(20, 2, **on)[:, 0]),
        lambda on: torch.multinomial(torch.ones(10, **on), 4),
        lambda on: torch.nn.functional.dropout(torch.ones(50, **on), 0.3),
        lambda on: torch.native_dropout(torch.ones(50, **on), 0.3, True)[0],
        lambda on: torch.nn.functional.rrelu(-torch.ones(20, **on), training=True),
        lambda on: torch.empty(30, **on).exponential_(),
        lambda on: torch.bernoulli(torch.full((30,), 0.5, **on)),
        lambda on: torch.nn.init.trunc_normal_(torch.empty(20, **on)),
    ],
)
def test_random_ops_draw_from_the_generator_of_the_card(draw):
    torch.manual_seed(11)
    undisturbed = torch.random.get_rng_state()
    first = draw({"device": "spyre"}), draw({"device": "spyre"})
    torch.spyre.manual_seed(11)
    second = draw({"device": "spyre"}), draw({"device": "spyre"})
    for g, w in zip(first, second, strict=True):
        assert_same(g, w.cpu())
    assert not torch.equal(*first)
    assert torch.equal(torch.random.get_rng_state(), undisturbed)


def test_explicit_generator_is_used():
    on = {"device": "spyre"}
    a, b = (torch.Generator(**on).manual_seed(3) for _ in range(2))
    state = torch.spyre.get_rng_state()
    assert_same(torch.randn(9, generator=a, **on), torch.randn(9, generator=b, **on).cpu())
    assert_same(torch.randperm(9, generator=a, **on), torch.randperm(9, generator=b, **on).cpu())
    assert a.get_offset() == b.get_offset() == 8
    assert torch.equal(torch.spyre.get_rng_state(), state)
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(9, generator=torch.Generator(), **on)
