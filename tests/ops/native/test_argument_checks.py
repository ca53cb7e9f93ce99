"""Eager kernels reject the invalid arguments that PyTorch's kernels reject."""

import pytest
import torch
import torch.nn.functional as F


def on_card(*shape, dtype=torch.float32):
    return torch.ones(shape, device="spyre").to(dtype)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.add_(x.t()),
        lambda x: torch.sin(x[:-1], out=x[1:]),
        lambda x: on_card(4).expand(4, 4).mul_(2),
    ],
)
def test_writes_that_overlap_reads_raise(call):
    with pytest.raises(RuntimeError, match="single memory location"):
        call(on_card(4, 4))


def test_exact_aliases_and_disjoint_views_may_be_written():
    x = on_card(4, 4)
    torch.add(x, x, out=x)
    torch.neg(x[:2], out=x[2:])
    assert x.tolist() == [[2.0] * 4] * 2 + [[-2.0] * 4] * 2


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.add(x, x, out=on_card(4, 4, dtype=torch.int32)),
        lambda x: x.int().mul_(1.5),
        lambda x: torch.mul(x.int(), 2, out=on_card(4, 4, dtype=torch.bool)),
    ],
)
def test_out_of_an_incompatible_dtype_raises(call):
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        call(on_card(4, 4))


def test_comparisons_accept_numeric_out_and_all_only_bool():
    x = on_card(4, 4)
    with pytest.raises(RuntimeError, match="only supports bool tensor for result, got: Int"):
        torch.all(x, (0, 1), out=torch.empty((), dtype=torch.int32, device="spyre"))
    assert torch.eq(x, 1, out=on_card(4, 4, dtype=torch.int32)).tolist() == [[1] * 4] * 4


OTHER_OUTPUTS = {
    "matmul": lambda x, out: torch.matmul(x, x, out=out(torch.float16)),
    "floor": lambda x, out: torch.floor(x, out=out(torch.float16)),
    "clamp": lambda x, out: torch.clamp(x, 0, out=out(torch.float16)),
    "softmax": lambda x, out: torch.softmax(x, 0, out=out(torch.float16)),
    "tril": lambda x, out: torch.tril(x, out=out(torch.float16)),
    "nan_to_num": lambda x, out: torch.nan_to_num(x, out=out(torch.float16)),
    "sum of a dtype": lambda x, out: torch.sum(x, 0, dtype=x.dtype, out=out(torch.float16)),
    "argmax": lambda x, out: torch.argmax(x, 0, out=out(torch.int32)),
    "sort": lambda x, out: torch.sort(x, out=(out(x.dtype), out(torch.int32))),
    "values of sort": lambda x, out: torch.sort(x, out=(out(torch.float16), out(torch.int64))),
    "median": lambda x, out: torch.median(x, 0, out=(out(x.dtype), out(torch.int32))),
}


@pytest.mark.parametrize("name", OTHER_OUTPUTS)
def test_out_of_another_dtype_has_the_error_of_the_cpu(name):
    def error(device):
        def out(dtype):
            return torch.empty(0, dtype=dtype, device=device)

        with pytest.raises(RuntimeError) as raised:
            OTHER_OUTPUTS[name](torch.ones(4, 4, device=device), out)
        return str(raised.value)

    assert error("spyre") == error("cpu")


def test_ops_that_cast_their_result_do_not_fall_back():
    x, before = on_card(4, 4), torch.spyre.counters()["fallbacks"]
    for call in (
        lambda out: torch.add(x, x, out=out),
        lambda out: torch.exp(x - x, out=out),
        lambda out: torch.sum(x, 0, out=out),
        lambda out: torch.clamp(x, x, x, out=out),
    ):
        out = torch.empty(0, dtype=torch.float16, device="spyre")
        call(out)
        assert out.dtype is torch.float16
    assert torch.spyre.counters()["fallbacks"] == before


ARGUMENTS = {
    "topk": (lambda x: torch.topk(x, 9), "selected index k out of range"),
    "layer_norm of another size": (lambda x: F.layer_norm(x, (3,)), "Given normalized_shape"),
    "layer_norm of another weight": (
        lambda x: F.layer_norm(x, (4,), x.new_ones(1)),
        "Expected weight to be of same shape",
    ),
    "gelu": (lambda x: F.gelu(x, approximate="sinh"), "must be either none or tanh"),
    "cat": (lambda x: torch.cat([x, x[:0, :3]], 0), "Sizes of tensors must match"),
    "histc without bins": (lambda x: torch.histc(x, 0), "bins must be > 0"),
    "histc between nothing": (lambda x: torch.histc(x, 4, 3, 1), "max must be larger than min"),
    "searchsorted": (
        lambda x: torch.searchsorted(x, x, side="left", right=True),
        "can't be set to opposites",
    ),
    "bucketize": (lambda x: torch.bucketize(x, x), "boundaries tensor must be 1 dimension"),
    "index_add": (
        lambda x: x.index_add(0, torch.tensor([0, 1], device=x.device), x[0]),
        "index_add",
    ),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_invalid_arguments_raise_as_on_the_cpu(name):
    call, message = ARGUMENTS[name]
    for x in (torch.ones(4, 4), on_card(4, 4)):
        with pytest.raises(RuntimeError, match=message):
            call(x)


FLOATS_ALONE = [F.celu, F.elu, F.gelu, F.hardshrink, F.hardsigmoid, F.hardswish, F.leaky_relu]
FLOATS_ALONE += [F.logsigmoid, F.mish, F.selu, F.silu, F.softplus, F.softshrink]
NUMBERS_ALONE = [torch.abs, torch.floor, torch.ceil, torch.relu, torch.argmax, torch.argmin]


@pytest.mark.parametrize("function", [*FLOATS_ALONE, *NUMBERS_ALONE], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_unsupported_dtypes_raise_as_on_the_cpu(function, dtype):
    x = torch.tensor([[1, 0, 1]], dtype=dtype)
    if function in NUMBERS_ALONE and dtype is torch.int64:
        assert torch.equal(function(x.to("spyre")).cpu(), function(x))
        return
    with pytest.raises(RuntimeError) as expected:
        function(x)
    with pytest.raises(type(expected.value)) as actual:
        function(x.to("spyre"))
    assert str(actual.value) == str(expected.value)
