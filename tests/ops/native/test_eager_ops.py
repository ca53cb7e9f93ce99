"""Eager ops on the card against the CPU: overloads, dtypes, shapes and errors."""

import math
import warnings
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import assert_close, assert_close_to_cpu, make_tensor, to_card, to_reference

pytestmark = pytest.mark.usefixtures("verified_kernels")
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
INTEGERS = (torch.int32, torch.int64)
SHAPES = [(), (1,), (7,), (0, 5), (3, 70), (1, 64, 1), (2, 3, 130)]


def check(function, *args, units=2, scale=0.25, **kwargs):
    card = to_card(args)
    reference = to_reference(card)
    actual, expected = function(*card, **kwargs), function(*reference, **kwargs)
    type_of = function(*[arg.cpu() if isinstance(arg, torch.Tensor) else arg for arg in card])
    leaves = torch.utils._pytree.tree_leaves
    for one, other in zip(leaves(actual), leaves(type_of), strict=True):
        assert one.device.type == "spyre" and one.dtype == other.dtype, (one.dtype, other.dtype)
    assert_close(actual, expected, units, scale)


UNARY = [torch.abs, torch.neg, torch.exp, torch.exp2, torch.expm1, torch.sigmoid, torch.tanh]
UNARY += [torch.sin, torch.cos, torch.erf, torch.floor, torch.ceil, torch.trunc, torch.round]
UNARY += [torch.relu, torch.square, torch.sign, torch.isnan, torch.isinf, torch.isneginf]
UNARY += [torch.isposinf, torch.logical_not, F.silu, F.gelu, F.softplus, F.hardswish]
UNARY += [F.leaky_relu, F.elu, F.mish, F.hardtanh, F.hardsigmoid]
POSITIVE = [torch.sqrt, torch.rsqrt, torch.reciprocal, torch.log, torch.log2, torch.log10]
POSITIVE += [torch.log1p]
ARITHMETIC = [torch.add, torch.sub, torch.mul, torch.fmod, torch.remainder]
COMPARISONS = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge]
TENSORS_ONLY = [torch.maximum, torch.minimum, torch.logical_and, torch.logical_or]
TENSORS_ONLY += [torch.logical_xor]
BITS = [torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor]
BINARY = [*ARITHMETIC, *COMPARISONS, *TENSORS_ONLY, torch.div, torch.copysign]


def named(function):
    return function.__name__


@pytest.mark.parametrize("function", [*UNARY, *POSITIVE], ids=named)
def test_unary_ops(function, no_fallbacks):
    low = 0.1 if function in POSITIVE else -2.0
    for shape in SHAPES:
        check(function, make_tensor(*shape, low=low))
    for dtype in FLOATS[1:]:
        check(function, make_tensor(3, 70, low=low, dtype=dtype), units=8)
    view = make_tensor(70, 9, low=low).to("spyre").t()[1::2, 3:68]
    assert_close(function(view), function(to_reference(view)), 2, 0.25)


@pytest.mark.parametrize("function", BINARY, ids=named)
def test_binary_ops(function, no_fallbacks):
    for left, right in [((), ()), ((3, 70), ()), ((3, 70), (70,)), ((3, 1), (1, 70)), ((0,), (1,))]:
        check(function, make_tensor(*left), make_tensor(*right, low=0.5))
    for left, right in product(FLOATS, repeat=2):
        check(
            function,
            make_tensor(3, 7, dtype=left),
            make_tensor(3, 7, low=0.5, dtype=right),
            units=8,
        )
    if function not in TENSORS_ONLY:
        check(function, make_tensor(3, 7), 2.0)
    x, y = make_tensor(9, 70).to("spyre"), make_tensor(70, 9, low=0.5).to("spyre")
    for view in (
        lambda t: t,
        lambda t: t[1:8:2],
        lambda t: t[:, 3:],
        lambda t: t[:1].expand(4, 70),
    ):
        left, right = view(x), view(y.t())
        assert_close(
            function(left, right), function(to_reference(left), to_reference(right)), 2, 0.25
        )


@pytest.mark.parametrize("function", [*ARITHMETIC, *COMPARISONS, *TENSORS_ONLY, *BITS], ids=named)
def test_ops_of_integers_and_bool(function, no_fallbacks):
    for left, right in product((*INTEGERS, torch.bool), repeat=2):
        if function is torch.sub and torch.bool in (left, right):
            continue
        if function in (torch.fmod, torch.remainder) and left == right == torch.bool:
            continue
        check(function, make_tensor(3, 70, dtype=left), make_tensor(70, low=1, dtype=right))
    if function not in TENSORS_ONLY:
        check(function, make_tensor(7, dtype=torch.int64), 2)


def test_type_promotion(no_fallbacks):
    half, whole, flags = (
        make_tensor(7),
        make_tensor(7, dtype=torch.int32),
        make_tensor(7, dtype=torch.bool),
    )
    for left, right in product((half, half.float(), whole, whole.long(), flags), repeat=2):
        check(torch.add, left, right)
        check(torch.mul, left, right)
    check(lambda x: x + 1.5, whole)
    check(lambda x: x + True, whole)
    check(lambda x: x * 2, flags)
    check(lambda x: x / 2, whole)
    check(torch.div, whole, whole.abs() + 1, units=8)
    check(torch.exp, whole, units=8)
    check(torch.sigmoid, flags, units=8)


FORMS = {
    "alpha": lambda x, y: torch.add(x, y, alpha=3),
    "sub alpha": lambda x, y: torch.sub(x, y, alpha=0.5),
    "rsub": lambda x, y: torch.rsub(x, y, alpha=2),
    "from scalar": lambda x, y: 2 - x,
    "scalar over": lambda x, y: 1 / y,
    "trunc": lambda x, y: torch.div(4 * x, 2, rounding_mode="trunc"),
    "floor": lambda x, y: torch.div(4 * x, 2, rounding_mode="floor"),
    "clamp both": lambda x, y: x.clamp(-0.5, 0.75),
    "clamp low": lambda x, y: x.clamp(min=0.5),
    "clamp high": lambda x, y: x.clamp(max=0.5),
    "clamp tensors": lambda x, y: x.clamp(-y, y),
    "clamp_min": lambda x, y: x.clamp_min(0.1),
    "clamp_max tensor": lambda x, y: x.clamp_max(y),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "where scalar": lambda x, y: torch.where(x > 0, x, 2.5),
    "where scalars": lambda x, y: torch.where(x > 0, 1.0, 2.5).to(x.dtype),
    "masked_fill": lambda x, y: x.masked_fill(x > 0, -5),
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "lerp tensor": lambda x, y: torch.lerp(x, y, y),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=2),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=0.5),
    "square root": lambda x, y: y.pow(0.5),
    "cube": lambda x, y: x.pow(3),
    "inverse": lambda x, y: y.pow(-1),
    "power": lambda x, y: y.pow(x),
    "of base": lambda x, y: 2**x,
    "gelu tanh": lambda x, y: F.gelu(x, approximate="tanh"),
    "softplus": lambda x, y: F.softplus(x, beta=2, threshold=3),
    "leaky_relu": lambda x, y: F.leaky_relu(x, 0.2),
    "elu": lambda x, y: F.elu(x, alpha=0.5),
    "hardtanh": lambda x, y: F.hardtanh(x, -0.5, 0.25),
    "floor by tensor": lambda x, y: torch.div(x.floor(), 2 * (y > 1) + 1, rounding_mode="floor"),
    "round tens": lambda x, y: torch.round(10 * x.floor(), decimals=-1),
    "tril": lambda x, y: x.tril(2),
    "triu": lambda x, y: x.triu(-1),
    "pad": lambda x, y: F.pad(x, (1, 2, 0, 3), value=1.5),
    "crop": lambda x, y: F.pad(x, (-1, 2)),
    "cat": lambda x, y: torch.cat([x, y, x]),
    "cat last": lambda x, y: torch.cat([x, y, x], -1),
    "stack": lambda x, y: torch.stack([x, y], 1),
    "full_like": lambda x, y: torch.full_like(x, 2.5),
    "sign of zero": lambda x, y: torch.copysign(y, -0.0),
}


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("name", FORMS)
def test_forms(name, no_fallbacks):
    for dtype in FLOATS:
        x, y = make_tensor(9, 70, dtype=dtype), make_tensor(9, 70, low=0.5, dtype=dtype)
        check(FORMS[name], x, y, units=4 if dtype is torch.float16 else 8, scale=4.0)


REDUCTIONS = {
    "sum": lambda x, dim, keep: x.sum(dim, keepdim=keep),
    "mean": lambda x, dim, keep: x.mean(dim, keepdim=keep),
    "amax": lambda x, dim, keep: x.amax(dim, keepdim=keep),
    "amin": lambda x, dim, keep: x.amin(dim, keepdim=keep),
    "var": lambda x, dim, keep: x.var(dim, keepdim=keep),
    "std": lambda x, dim, keep: x.std(dim, keepdim=keep, correction=0),
    "any": lambda x, dim, keep: torch.any(x > 1.875, dim, keepdim=keep),
    "all": lambda x, dim, keep: torch.all(x > -1.875, dim, keepdim=keep),
}
DIMS = [0, -1, (0, 2), (1,), [-1, 0], (0, 1, 2), []]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, no_fallbacks):
    function = REDUCTIONS[name]
    x = make_tensor(4, 6, 70)
    for dim, keep in product(DIMS, (False, True)):
        if dim == [] and name in ("any", "all"):
            continue
        check(lambda x, dim=dim, keep=keep: function(x, dim, keep), x, scale=32.0)
    for dtype in FLOATS[1:]:
        check(lambda x: function(x, -1, False), x.to(dtype), units=32, scale=32.0)
    view = make_tensor(70, 9, 4).to("spyre").transpose(0, 2)[:, 1:8:2, 3:68]
    for dim in DIMS[:5]:
        assert_close(function(view, dim, False), function(to_reference(view), dim, False), 2, 32.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32])
def test_padding_of_the_last_stick_does_not_affect_extrema(dtype, no_fallbacks):
    """Zeros there would be below all of x and above all of -x."""
    x = make_tensor(3, 70, low=1.0, dtype=dtype)
    for dim in (0, 1, (0, 1)):
        check(lambda x, dim=dim: (x.amin(dim), (-x).amax(dim)), x)
    check(lambda x: (x.argmin(1), (-x).argmax(1)), x)


@pytest.mark.parametrize("dim", [0, -1, (0,), None, ()])
def test_reduction_of_a_0d_tensor_over_dim_0(dim, no_fallbacks):
    def spreads(x):
        return x.std(dim), x.var(dim, correction=0), *torch.var_mean(x, dim, keepdim=True)

    assert_close_to_cpu(spreads, torch.tensor(1.5))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax_and_argmin(name, no_fallbacks):
    function = getattr(torch, name)
    x = torch.randperm(4 * 3 * 70, generator=torch.Generator().manual_seed(1)).reshape(4, 3, 70)
    x = (x - 400).half()
    for dim, keep in product((0, 1, -1), (False, True)):
        check(lambda x, dim=dim, keep=keep: function(x, dim, keepdim=keep), x)
    check(function, x)
    check(function, torch.zeros(5, 70).half())
    check(lambda x: getattr(torch, name[3:])(x, 1), x)


def test_other_reductions(no_fallbacks):
    x = make_tensor(3, 70)
    for function in (torch.sum, torch.mean, torch.max, torch.min, torch.any, torch.all, torch.prod):
        check(function, x, scale=32.0)
    check(lambda x: x.sum(0, dtype=torch.float32), x, units=2**14, scale=32.0)
    check(lambda x: x.prod(0), x)
    whole, flags = make_tensor(3, 70, dtype=torch.int64), make_tensor(3, 70, dtype=torch.bool)
    for function in (torch.sum, torch.amax, lambda x: x.sum(0), lambda x: x.amin(1)):
        check(function, whole)
    for function in (torch.any, torch.all, torch.sum, lambda x: x.sum(0), lambda x: x.any(1)):
        check(function, flags)
    check(lambda x: x.sum(0), torch.empty(0, 5).half())
    check(lambda x: x.sum(1), torch.empty(0, 5).half())
    check(torch.sum, torch.tensor(3.0).half())


NORMALS = {
    "softmax": lambda x: x.softmax(-1),
    "softmax first": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "layer_norm of two": lambda x: F.layer_norm(x, x.shape[-2:]),
}


@pytest.mark.parametrize("name", NORMALS)
def test_normalizations(name, no_fallbacks):
    for shape in [(3, 7), (9, 200), (2, 3, 64)]:
        check(NORMALS[name], make_tensor(*shape), units=8)
    view = make_tensor(70, 9).to("spyre").t()[1:]
    assert_close(NORMALS[name](view), NORMALS[name](to_reference(view)), 8, 0.25)


PRODUCTS = {
    "mm": lambda a, b: a @ b,
    "mm of a transpose": lambda a, b: b.t() @ a.t(),
    "mv": lambda a, b: torch.mv(a, b[:, 0]),
    "dot": lambda a, b: torch.dot(a[0], b[:, 0]),
    "addmm": lambda a, b: torch.addmm(b[0], a, b, beta=0.5, alpha=2),
    "addmm of nothing": lambda a, b: torch.addmm(b[0] / 0, a, b, beta=0),
    "addmv": lambda a, b: torch.addmv(a[:, 0], a, b[:, 0], beta=2),
    "bmm": lambda a, b: torch.bmm(a.expand(3, *a.shape), b.expand(3, *b.shape)),
    "baddbmm": lambda a, b: torch.baddbmm(a[:, :1], a[None], b[None], beta=0.5, alpha=2),
    "linear": lambda a, b: F.linear(a, b.t(), b[0]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_matmuls(name, no_fallbacks):
    for rows, inner, columns in [(3, 7, 5), (1, 70, 130), (5, 1, 64), (67, 130, 3)]:
        check(PRODUCTS[name], make_tensor(rows, inner), make_tensor(inner, columns), scale=8.0)
    check(
        PRODUCTS[name], make_tensor(3, 7).float(), make_tensor(7, 5).float(), units=2**10, scale=4.0
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool])
def test_gather_ops(dtype, no_fallbacks):
    table, rows = make_tensor(9, 70, dtype=dtype), torch.tensor([[3, 0], [8, 8]])
    check(lambda t, i: F.embedding(i, t), table, rows)
    check(lambda t, i: t.index_select(0, i[0]), table, rows)
    check(lambda t, i: t.index_select(1, i[0]), table, rows)
    check(lambda t, i: t.gather(0, i), table, rows)
    check(lambda t, i: t.gather(1, i), table, rows)
    check(lambda t, i: t[i], table, rows)
    check(lambda t, i: t[:, -i], table, rows)


def test_index_select_along_any_dim(no_fallbacks):
    """Also where a dim of one stick has the stride of the dim that is indexed."""
    table, one = make_tensor(2, 33, 6, 64), torch.tensor([-2])
    for look_up in (
        lambda t, i: t[i],
        lambda t, i: t[:, i],
        lambda t, i: t[:, :, i],
        lambda t, i: t[..., i],
    ):
        check(look_up, table, one, units=0)
        check(torch.compile(look_up), table, one, units=0)


IN_PLACE = {
    "add_": lambda x, y: x.add_(y),
    "mul_ scalar": lambda x, y: x.mul_(3),
    "sub_ alpha": lambda x, y: x.sub_(y, alpha=2),
    "relu_": lambda x, y: x.relu_(),
    "clamp_": lambda x, y: x.clamp_(-1, 1),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 0, 2),
    "fill_": lambda x, y: x.fill_(1.5),
    "addcmul_": lambda x, y: x.addcmul_(x, y),
    "lerp_": lambda x, y: x.lerp_(y, 0.5),
    "itself": lambda x, y: x.add_(x),
    "row of itself": lambda x, y: x.add_(x[:1].clone()),
    "pow_": lambda x, y: x.pow_(2),
}
PLACES = {
    "whole": lambda x: x,
    "transposed": lambda x: x.t().contiguous().t(),
    "columns": lambda x: x[:, 3:60],
    "first columns": lambda x: x[:, :65],
    "most of a column": lambda x: x[:, 0][:7],
    "most of a row": lambda x: x[0][:66],
    "rows": lambda x: x[2:5],
    "stepped": lambda x: x[::2, 1::3],
}


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_ops(name, place):
    base, other = make_tensor(9, 70).to("spyre"), make_tensor(9, 71).to("spyre")[:, 1:]
    reference, reference_other = to_reference(base), to_reference(other)
    target, expected = PLACES[place](base), PLACES[place](reference)
    version = target._version
    result = IN_PLACE[name](target, PLACES[place](other))
    IN_PLACE[name](expected, PLACES[place](reference_other))
    assert result is target and target._version > version
    assert_close(target, expected)
    assert_close(base, reference)


OUT = {
    "add": lambda x, y, out: torch.add(x, y, out=out),
    "exp": lambda x, y, out: torch.exp(x, out=out),
    "mul": lambda x, y, out: torch.mul(x, y, out=out),
    "where": lambda x, y, out: torch.where(x > 0, x, y, out=out),
    "clamp": lambda x, y, out: torch.clamp(x, -1, 1, out=out),
    "cat": lambda x, y, out: torch.cat([x[:3], y[3:]], out=out),
    "softmax": lambda x, y, out: torch.softmax(x, -1, out=out),
}


@pytest.mark.parametrize("name", OUT)
def test_out_arguments(name):
    x, y = to_card((make_tensor(9, 70), make_tensor(9, 70).flip(0)))
    expected = OUT[name](to_reference(x), to_reference(y), None)
    for place, view in PLACES.items():
        if place in ("columns", "rows", "stepped"):
            base = torch.zeros({"columns": (9, 75), "rows": (20, 70), "stepped": (18, 140)}[place])
            base = base.half().to("spyre")
            view = {
                "columns": lambda t: t[:, 2:72],
                "rows": lambda t: t[5:14],
                "stepped": lambda t: t[::2, 1::2],
            }[place]
        else:
            base = torch.zeros(9, 70).half().to("spyre")
        out = view(base)
        assert OUT[name](x, y, out) is out
        assert_close(out, expected)
        assert base.cpu().count_nonzero() <= expected.numel()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for shape in ((0,), (2, 3)):
            out = torch.empty(shape).half().to("spyre")
            assert OUT[name](x, y, out) is out
            assert_close(out, expected)
    assert any("resized" in str(warning.message) for warning in seen)


def test_results_of_other_dtypes():
    x = make_tensor(3, 70).to("spyre")
    out = torch.empty(3, 70).to("spyre")
    torch.add(x, x, out=out)
    assert_close(out, 2 * to_reference(x), units=2**13)
    torch.gt(x, 0, out=out)
    assert torch.equal(out.cpu(), (x.cpu() > 0).float())


def test_ops_with_nan(no_fallbacks):
    x = torch.tensor([math.nan, -7.0, 0.0, -0.0, 1.0, 3.0]).half()
    for function in (torch.abs, torch.neg, torch.exp, torch.isnan, torch.tanh, torch.floor):
        check(function, x)
    for function in (torch.relu, torch.sigmoid, torch.square, torch.isinf):
        check(function, x)
    # A zero divisor gives infinity, which is tested below.
    divisors = x[[0, 1, 4, 5]]
    for function in (*COMPARISONS, torch.add, torch.mul, torch.div, torch.maximum, torch.minimum):
        check(lambda a, b, function=function: function(a[:, None], b[None]), x, divisors)
    for function in (torch.sum, torch.amax, torch.amin, torch.max, torch.argmax, torch.argmin):
        check(function, x)
    for function in (lambda x: x.clamp(-1, 1), lambda x: torch.where(x > 0, x, 0.0)):
        check(function, x)


def test_ops_with_infinity(no_fallbacks):
    """SEN169 represents infinity by one value, which behaves as a finite value in arithmetic."""
    x = torch.tensor([math.inf, -math.inf, 1.0]).half()
    for function in (torch.abs, torch.neg, torch.isinf, torch.isposinf, torch.isneginf):
        check(function, x)
    for function in (torch.amax, torch.amin, torch.argmax, lambda x: x.clamp(-1, 1), torch.sigmoid):
        check(function, x)
    check(lambda x: x.softmax(0), x[1:])


INVALID = {
    "shapes": lambda x: x + x[:, :3],
    "inner": lambda x: x @ x,
    "batch": lambda x: torch.bmm(x, x),
    "dim": lambda x: x.sum(5),
    "overlap": lambda x: x[:1].expand(3, 70).add_(1),
    "grows": lambda x: x[0].add_(x),
    "cat": lambda x: torch.cat([x, x[:, :3]]),
    "integer mean": lambda x: x.int().mean(),
    "flags minus": lambda x: (x > 0) - (x > 0),
    "minus a flag": lambda x: x - torch.ones((), dtype=torch.bool, device=x.device),
    "minus a flag of the host": lambda x: torch.sub(x, torch.tensor(True)),
    "a flag minus": lambda x: torch.rsub(x, x > 0),
    "clamp without bounds": lambda x: x.clamp(),
    "clip without bounds": lambda x: torch.clip(x),
    "extreme of nothing": lambda x: x[:0].amax(0),
    "cast": lambda x: torch.add(x, x, out=torch.empty(3, 70, dtype=torch.int32, device=x.device)),
    "cast in place": lambda x: x.int().add_(1.5),
    "index": lambda x: x.index_select(0, torch.zeros(2, device=x.device)),
}


@pytest.mark.parametrize("name", INVALID)
def test_errors_match_pytorch(name):
    x = make_tensor(3, 70)
    with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)) as expected:
        INVALID[name](x)
    with pytest.raises(expected.type) as actual:
        INVALID[name](x.to("spyre"))
    words = str(expected.value).split()[:3]
    assert str(actual.value).split()[:3] == words, (str(actual.value), str(expected.value))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("width", [96, 128, 256])
def test_heads_of_several_sticks(width, dtype, no_fallbacks):
    """Heads step over whole sticks of the rows that they lie side by side in."""
    rows, other = (
        make_tensor(2, 33, 4 * width, dtype=dtype),
        make_tensor(1, 1, 33, width, dtype=dtype),
    )

    def turned(rows, other):
        return rows.view(2, 33, 4, width).transpose(1, 2) * other

    check(turned, rows, other)
