"""Arguments of every kind through the CPU fallback."""

import warnings

import pytest
import torch
from comparisons import assert_same, on_card

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
    pytest.mark.filterwarnings("ignore:An output with one or more elements was resized"),
]


# --- Arguments that are written -----------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        lambda base: base[1],
        lambda base: base[:, 1],
        lambda base: base.t(),
        lambda base: base[::2, 1::3],
        lambda base: base.unfold(0, 2, 2)[..., 1],
        lambda base: base.diagonal(),
        lambda base: base.view(-1)[3:-2],
        lambda base: base[1, 1],
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.lgamma_(),
        lambda t: t.neg_(),
        lambda t: t.mul_(t),
        lambda t: t.clamp_(1, 20),
        lambda t: t.masked_fill_(t > 9, -1.0),
        lambda t: t.cumsum_(0) if t.dim() else t.cumsum_(-1),
        lambda t: torch.exp(t.clone(), out=t),
        lambda t: torch._foreach_neg_([t]),
    ],
)
def test_writing_a_view_changes_only_its_elements_of_the_base(target, change):
    base = torch.arange(36.0).reshape(6, 6)
    (device,) = on_card(base)
    change(target(base))
    change(target(device))
    assert_same(device, base)


def test_aliased_output_is_the_input():
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    da, db = on_card(a, b)
    assert torch.add(da, db, out=da) is da
    assert_same(da, a + b)
    torch.matmul(db, db.t(), out=(square := torch.empty(3, 3, device="spyre")))
    torch.testing.assert_close(square.cpu(), b @ b.t())
    whole = torch.randn(8).to("spyre")
    expected = whole.cpu().cumsum(0)
    torch.cumsum(whole, 0, out=whole[:])
    assert_same(whole, expected)


def test_overlapping_writes_raise_as_on_the_cpu():
    x = torch.randn(4, 4, device="spyre")
    before = x.cpu()
    for bad in (
        lambda: x.add_(x.t()),
        lambda: torch.sin(x[:-1], out=x[1:]),
        lambda: torch.ones(4, device="spyre").expand(4, 4).mul_(2),
        lambda: torch.ones(4, device="spyre").expand(4, 4).cumsum_(0),
        lambda: torch._foreach_add_([x[:-1]], [x[1:]]),
    ):
        with pytest.raises(RuntimeError, match="memory location"):
            bad()
    assert_same(x, before)


def test_writes_are_visible_through_aliased_views():
    x = torch.arange(12.0)
    (d,) = on_card(x)
    for t in (x, d):
        torch._foreach_add_([t[:8], t[4:], t.view(3, 4).t()[1]], [1.0, 10.0, 100.0])
        torch._foreach_mul_([t, t], 2)
    assert_same(d, x)


@pytest.mark.parametrize("shape", [(0,), (3, 4), (2,), (4, 5, 6)])
def test_out_is_resized_to_the_result(shape):
    x = torch.randn(3, 4)
    (d,) = on_card(x)
    out, expected = torch.ones(shape, device="spyre"), torch.ones(shape)
    resized = expected.numel() > 0 and shape != (3, 4)
    for call in (torch.lgamma, torch.neg, lambda t, out: torch.cumsum(t, 1, out=out)):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            result = call(d, out=out)
        assert result is out
        assert resized == any("was resized" in str(w.message) for w in seen)
        assert_same(out, call(x, out=expected))
        resized = False


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("shape", [(0,), (), (2,)])
@pytest.mark.parametrize("loss", ["mse_loss", "smooth_l1_loss", "huber_loss"])
def test_losses_warn_only_if_out_is_resized(loss, shape, reduction):
    x, y = torch.rand(3, 4), torch.rand(3, 4)
    d, e = on_card(x, y)
    out = torch.ones(shape, device="spyre")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        getattr(torch._C._nn, loss)(d, e, reduction=reduction, out=out)
    # The card sums in another order.
    expected = getattr(torch._C._nn, loss)(x, y, reduction=reduction)
    torch.testing.assert_close(out.cpu(), expected)
    changed = shape == (2,) or (shape == () and reduction == 0)
    assert changed == any("was resized" in str(w.message) for w in seen)


def test_out_of_another_dtype():
    x = torch.randn(3, 4)
    (d,) = on_card(x)
    for call in (lambda t, out: torch.add(t, t, out=out), torch.lgamma):
        # The card stores both 16-bit float dtypes with nine fraction bits, and rounds once more.
        torch.testing.assert_close(
            call(d, out=torch.empty(3, 4, dtype=torch.bfloat16, device="spyre")).cpu(),
            call(x, out=torch.empty(3, 4, dtype=torch.bfloat16)),
            rtol=2**-7,
            atol=0,
        )
    for refused in (
        lambda: torch.add(d, d, out=torch.empty(3, 4, dtype=torch.int32, device="spyre")),
        lambda: torch.lgamma(d, out=torch.empty(3, 4, dtype=torch.int32, device="spyre")),
        lambda: d.int().mul_(1.5),
    ):
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type Int"):
            refused()
    with pytest.raises(RuntimeError, match="only supports bool"):
        torch.all(d, (0, 1), out=torch.empty((), dtype=torch.int32, device="spyre"))


def test_outputs_of_several_tensors():
    x = torch.randn(5, 6)
    (d,) = on_card(x)
    out = torch.empty(0, device="spyre"), torch.empty(0, dtype=torch.int64, device="spyre")
    result = torch.topk(d, 3, out=out)
    assert result.values is out[0] and result.indices is out[1]
    for actual, expected in zip(result, torch.topk(x, 3), strict=True):
        assert_same(actual, expected)
    for actual, expected in zip(torch.mode(d, 0, out=out), torch.mode(x, 0), strict=True):
        assert_same(actual, expected)


def test_output_has_the_strides_of_the_op():
    x = torch.randn(4, 4)
    (d,) = on_card(x)
    cpu, card = torch.empty(0), torch.empty(0, device="spyre")
    torch.linalg.cholesky(x @ x.t() + 4 * torch.eye(4), out=cpu)
    torch.linalg.cholesky(d @ d.t() + 4 * torch.eye(4, device="spyre"), out=card)
    assert card.stride() == cpu.stride() == (1, 4)
    torch.testing.assert_close(card.cpu(), cpu)
    kept = torch.zeros(4, 4, 2, device="spyre")[..., 0]
    assert torch.softmax(d, 0, out=kept).stride() == (8, 2)


def test_foreach_ops_mutate_lists():
    params, grads = [torch.randn(3), torch.randn(2, 2)], [torch.randn(3), torch.randn(2, 2)]
    states = [[torch.zeros_like(p) for p in params] for _ in range(3)]
    steps = [torch.tensor(1.0), torch.tensor(1.0)]
    options = dict(lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=False)
    lists = [params, grads, *states[:2], [], steps]
    device = [on_card(*tensors) for tensors in lists]
    for given in (lists, device):
        torch._fused_adam_(*given, **options, maximize=False)
        torch._foreach_addcdiv_(given[0], given[1], given[3], [0.5, 0.25])
    for actual, expected in zip(device, lists, strict=True):
        for g, w in zip(actual, expected, strict=True):
            torch.testing.assert_close(g.cpu(), w)


@pytest.mark.parametrize("bad", [False, True])
def test_gradient_scaling(bad):
    grads = [torch.tensor([2.0, 4.0]), torch.tensor([float("inf") if bad else 8.0])]
    device = on_card(*grads)
    actual, scale = torch.zeros(1).to("spyre"), torch.tensor(0.5).to("spyre")
    torch._amp_foreach_non_finite_check_and_unscale_(device, actual, scale)
    assert actual.item() == bad
    assert device[0].tolist() == [1.0, 2.0]
    growth = torch.tensor(1, dtype=torch.int32, device="spyre")
    torch._amp_update_scale_(scale, growth, actual, 2.0, 0.25, 2)
    assert scale.item() == (0.125 if bad else 1.0) and growth.item() == 0


def test_batch_norm_updates_running_statistics():
    x = torch.randn(8, 3)
    (d,) = on_card(x)
    for call in (
        lambda t, mean, var: torch.native_batch_norm(t, None, None, mean, var, True, 0.1, 1e-5),
        lambda t, mean, var: torch.native_batch_norm(t, None, None, mean, var, False, 0.1, 1e-5),
        lambda t, mean, var: torch.batch_norm_update_stats(t, mean, var, 0.1),
        lambda t, mean, var: torch.ops.aten.native_batch_norm.out(
            t, None, None, mean, var, True, 0.1, 1e-5,
            out=torch.empty_like(t), save_mean=torch.empty_like(mean),
            save_invstd=torch.empty_like(mean),
        ),
    ):  # fmt: skip
        statistics = torch.zeros(3), torch.ones(3)
        device = on_card(*statistics)
        for actual, expected in zip(call(d, *device), call(x, *statistics), strict=True):
            torch.testing.assert_close(actual.cpu(), expected)
        for actual, expected in zip(device, statistics, strict=True):
            assert_same(actual, expected)


# --- Other arguments ----------------------------------------------------------------------------


def test_optional_lists_and_indices_on_the_cpu():
    x, value = torch.zeros(4, 5, 3), torch.randn(2, 4, 3)
    d, dvalue = on_card(x, value)
    index = torch.tensor([1, 3])
    for given in (index, index.to("spyre")):
        assert_same(
            torch.ops.aten.index_put(d, [None, given], dvalue.movedim(0, 1)),
            torch.ops.aten.index_put(x, [None, index], value.movedim(0, 1)),
        )
        assert_same(d[given, 1:, None], x[index, 1:, None])
        d[:, given, 0] += 2
        x[:, index, 0] += 2
        assert_same(d, x)
    assert_same(d[d > 1], x[x > 1])
    assert_same(d[torch.tensor(2)], x[2])


def test_cpu_scalar_tensors_are_accepted():
    x = torch.randn(3)
    (d,) = on_card(x)
    two = torch.tensor(2.0)
    assert_same(d * two, x * two)
    assert_same(two - d, two - x)
    assert_same(torch.where(d > 0, d, two), torch.where(x > 0, x, two))
    assert_same(d.masked_fill(d > 0, two), x.masked_fill(x > 0, two))
    assert (d + torch.tensor(2.0, dtype=torch.float64)).dtype == torch.float32


@pytest.mark.parametrize(
    "mixed",
    [
        lambda d, c: d + c,
        lambda d, c: c.mul(d),
        lambda d, c: torch.mm(d, c),
        lambda d, c: torch.add(d, d, out=c),
        lambda d, c: torch.sin(c, out=d),
        lambda d, c: torch.cat([d, c]),
        lambda d, c: torch.nn.functional.embedding(torch.zeros(2, dtype=torch.int64), d),
        lambda d, c: torch._foreach_add([d], [c]),
        lambda d, c: torch.stack([d[0, 0], c[0, 0]]),
        lambda d, c: d.addmm_(d, c),
        lambda d, c: d + c.to("meta"),
    ],
)
def test_tensors_of_other_devices_raise(mixed):
    d, c = torch.ones(2, 2, device="spyre"), torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="(?i)expected .*device"):
        mixed(d, c)
    assert d.tolist() == c.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    "make",
    [
        lambda **on: torch.arange(2, 9, 2, **on),
        lambda **on: torch.linspace(0, 1, 7, **on),
        lambda **on: torch.logspace(0, 1, 3, **on),
        lambda **on: torch.eye(3, 4, **on),
        lambda **on: torch.tril_indices(3, 4, **on),
        lambda **on: torch.hann_window(9, **on),
        lambda **on: torch.full((2, 2), 3, dtype=torch.int16, **on),
        lambda **on: torch.tensor([[1, 2], [3, 4]], **on).new_full((2,), 5),
        lambda **on: torch.empty(0, 3, **on).sum(0),
    ],
)
def test_factory_functions(make):
    assert_same(make(device="spyre"), make())
