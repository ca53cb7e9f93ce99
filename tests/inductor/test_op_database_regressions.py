"""Calls that PyTorch's op database has shown to be wrong, or to fall back without need."""

import math

import pytest
import torch
from cpu_reference import assert_close, assert_close_to_cpu, make_tensor, to_card, to_reference


def fallbacks():
    return torch.spyre.counters()["fallbacks"]


@pytest.mark.parametrize("op", [torch.addmm, torch.addmv, torch.addbmm, torch.baddbmm])
def test_integer_addmm_truncates_alpha_and_beta(op):
    cube = torch.arange(12).reshape(3, 2, 2)
    factors = {
        torch.addmm: (cube[0], cube[1], cube[2]),
        torch.addmv: (cube[0, 0], cube[1], cube[2, 0]),
        torch.addbmm: (cube[0], cube, cube),
        torch.baddbmm: (cube, cube, cube),
    }[op]
    actual = op(*to_card(factors), alpha=1.6, beta=2.7)
    assert actual.dtype is torch.int64
    assert torch.equal(actual.cpu(), op(*factors, alpha=1.6, beta=2.7))


RESIZED = {
    "pointwise": lambda a, out: torch.add(a, a, out=out),
    "comparison": lambda a, out: torch.gt(a, 0, out=out),
    "reduction": lambda a, out: torch.sum(a, 0, out=out),
    "product": lambda a, out: torch.mm(a.t(), a, out=out),
}


@pytest.mark.parametrize("name", RESIZED)
@pytest.mark.parametrize("turned", [False, True])
def test_out_is_resized_without_fallback(name, turned):
    host = make_tensor(9, 70)
    card = host.to("spyre")
    host = card.cpu()
    if turned:
        host, card = host.t(), card.t()
    out, expected = torch.empty(0).half().to("spyre"), torch.empty(0).half()
    before = fallbacks()
    for _ in range(2):  # the second time it has its size
        assert RESIZED[name](card, out) is out
    assert fallbacks() == before
    RESIZED[name](host, expected)
    assert out.stride() == expected.stride()
    assert_close(out, RESIZED[name](to_reference(card), None).to(out.dtype))
    with pytest.warns(UserWarning, match="was resized"):
        assert RESIZED[name](card, torch.empty(2, 3).half().to("spyre")).shape == expected.shape
    assert fallbacks() == before


def test_out_that_cannot_be_resized_raises():
    x = make_tensor(9, 70).to("spyre")
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(x, x, out=torch.empty(0, dtype=torch.int64, device="spyre"))
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(x, x, out=torch.empty(3, 1, device="spyre", dtype=x.dtype).expand(3, 4))
    assert_close(x + x, 2 * to_reference(x))


def test_variance_of_too_few_elements():
    x = torch.tensor([[1.0, 2.0], [3.0, 3.0]])
    for correction in (2, 3):
        expected = torch.var(x, 1, correction=correction)
        actual = torch.var(x.to("spyre"), 1, correction=correction)
        assert torch.equal(actual.cpu().isinf(), expected.isinf())
        assert torch.equal(actual.cpu().isnan(), expected.isnan())


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_soft_margin_loss_does_not_overflow(reduction):
    loss = torch.nn.functional.soft_margin_loss
    x, y = to_card((make_tensor(5, 70, low=-9, high=9), make_tensor(5, 70, low=-9, high=9).flip(0)))
    before = fallbacks()
    actual = loss(x, y, reduction=reduction)
    assert fallbacks() == before
    assert_close(actual, loss(to_reference(x), to_reference(y), reduction=reduction), units=8)


COMPOSED = {
    "tan": (torch.tan, -1.2, 1.2),
    "cosh": (torch.cosh, -8.0, 8.0),
    "sinh": (torch.sinh, -8.0, 8.0),
    "small sinh": (torch.sinh, -0.01, 0.01),
    "glu": (torch.nn.functional.glu, -4.0, 4.0),
}


@pytest.mark.parametrize("name", COMPOSED)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_composite_functions_are_accurate(name, dtype):
    function, low, high = COMPOSED[name]
    x = make_tensor(9, 70, low=low, high=high, dtype=dtype).to("spyre")
    before = fallbacks()
    actual = function(x)
    assert fallbacks() == before
    expected = function(to_reference(x))
    # Relative to the value itself: small ones must not drown in the rounding of large ones.
    assert_close(actual / expected.to(dtype).to("spyre"), torch.ones_like(expected), units=6)


def test_sinh_overflows_to_infinity():
    x = torch.tensor([100.0, -100.0, math.inf, -math.inf, 0.0])
    assert torch.sinh(x.to("spyre")).tolist() == torch.sinh(x).tolist()


def test_histc_of_an_empty_range():
    for odd in (math.inf, math.nan):
        assert torch.histc(torch.tensor([1.0, odd]).to("spyre"), 4).isnan().all()


def test_addbmm_is_native():
    bias, left, right = to_card((make_tensor(5, 6), make_tensor(4, 5, 70), make_tensor(4, 70, 6)))
    before = fallbacks()
    actual = torch.addbmm(bias, left, right, beta=0.5, alpha=2)
    assert fallbacks() == before
    expected = torch.addbmm(*map(to_reference, (bias, left, right)), beta=0.5, alpha=2)
    assert_close(actual, expected, scale=40)


def test_glu_of_odd_size_raises_as_on_the_cpu():
    with pytest.raises(RuntimeError, match="even"):
        torch.nn.functional.glu(make_tensor(4, 7).to("spyre"))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_amax_and_amin_of_every_integer_dtype(dtype):
    limits = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
    host = make_tensor(6, 70, dtype=dtype)
    host[0], host[:, 1] = limits.min, limits.max
    before = fallbacks()
    assert_close_to_cpu(
        lambda x: (x.amax(1), x.amin(), x.max(0), x.min(1), x.argmax(1), x.argmin(0)), host
    )
    assert_close_to_cpu(lambda x: x.topk(3)[0], host)
    assert fallbacks() == before


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_norms_of_empty_tensors(shape):
    assert_close_to_cpu(
        lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), torch.empty(shape)
    )


def test_empty_results_next_to_others():
    assert_close_to_cpu(lambda x, y: (x.sum(1), y + 1, x * 2), torch.empty(3, 0), make_tensor(3, 5))


WINDOWS = {
    "overlapping": (1, 4, 2),
    "side by side": (1, 10, 10),
    "with gaps": (1, 2, 3),
    "of rows": (0, 2, 1),
    "one": (1, 66, 1),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_unfold_is_native(name):
    before = fallbacks()
    assert_close_to_cpu(lambda x: x.unfold(*WINDOWS[name]).sum(-1), make_tensor(4, 66), units=8)
    assert_close_to_cpu(lambda x: (x + 1).unfold(*WINDOWS[name]) * 2, make_tensor(4, 66))
    assert fallbacks() == before


def test_writes_of_a_row_and_a_diagonal_in_one_graph():
    def write(x):
        x = x.clone()
        x[1] = 3
        x.fill_diagonal_(2)
        return x

    assert_close_to_cpu(write, make_tensor(4, 66))


@pytest.mark.parametrize("dtype", [None, torch.float16, torch.int64], ids=str)
def test_logspace_needs_no_float64(dtype):
    def powers(x):
        return x + 1, torch.logspace(-1, 3, 7, base=2.5, dtype=dtype, device=x.device)

    before = fallbacks()
    assert_close_to_cpu(powers, make_tensor(4, dtype=torch.float32), units=32)
    assert fallbacks() == before


ENDS = [(4.3, -3), (0, 7), (-3, 3.9), (-2, 9), (5, 5), (-1_000_000, 500_000)]


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("steps", [0, 1, 2, 4, 50])
@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_integer_linspace_is_exact(ends, steps, no_fallbacks):
    def between(x, low, high):
        return (
            x + 1,
            torch.linspace(*ends, steps, dtype=torch.int64, device=x.device),
            torch.linspace(low, high, steps, dtype=torch.int32, device=x.device),
        )

    assert_close_to_cpu(between, make_tensor(4), *map(torch.tensor, ends))


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("steps", [1, 2, 4, 50])
@pytest.mark.parametrize("ends", [(4.3, -3), (1.2, 4), (2, 5), (-2.5, 1)], ids=str)
def test_integer_logspace_is_exact(ends, steps, no_fallbacks):
    def powers(x, low, high):
        return (
            x + 1,
            torch.logspace(*ends, steps, dtype=torch.int64, device=x.device),
            torch.logspace(low, high, steps, 3.0, dtype=torch.int64, device=x.device),
        )

    assert_close_to_cpu(powers, make_tensor(4), *map(torch.tensor, ends))


def test_repeat_is_contiguous():
    def repeated(x):
        made = (x + 1).permute(2, 0, 1).unsqueeze(0).repeat(3, 1, 1, 1)
        return made.view(-1, 4, 5)

    assert_close_to_cpu(repeated, make_tensor(4, 5, 66))


@pytest.mark.parametrize("op", [torch.geqrf, lambda x: torch.histogram(x, 5)], ids=["qr", "bins"])
def test_ops_without_meta_kernels_are_compiled(op):
    """PyTorch has no meta kernel for these ops, and runs them on zeros to infer shapes."""
    x = make_tensor(5, 5, dtype=torch.float32)
    assert_close(torch.compile(lambda x: op(x + 1))(x.to("spyre")), op(x + 1))
