"""Corners of ops that PyTorch's own device tests check: the CPU's results and the CPU's errors."""

import warnings

import pytest
import torch

BOOLS = [[True, False, True], [True, True, True]]


def bools(device):
    return torch.tensor(BOOLS, device=device)


def integers(device):
    return torch.ones(2, dtype=torch.int64, device=device)


def indices(device):
    return torch.tensor([2, 1, 0], device=device)


def outcome(call, device):
    try:
        return call(device).cpu()
    except (RuntimeError, IndexError) as error:
        return type(error), str(error)


def check(call):
    """Compare the results of both devices, or their errors."""
    expected, actual = outcome(call, "cpu"), outcome(call, "spyre")
    if isinstance(expected, tuple):
        assert actual == expected
    else:
        torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("name", ["all", "any"])
@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.uint8], ids=str)
def test_an_empty_list_of_dims_reduces_nothing(name, keepdim, dtype):
    check(lambda device: getattr(torch, name)(bools(device).to(dtype), dim=(), keepdim=keepdim))


@pytest.mark.parametrize("name", ["amax", "amin"])
@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32], ids=str)
def test_an_empty_list_of_dims_of_an_extreme_means_all_dims(name, keepdim, dtype):
    check(lambda device: getattr(torch, name)(bools(device).to(dtype), dim=(), keepdim=keepdim))


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.float16], ids=str)
def test_medians_of_empty_tensors_are_nan_or_its_conversion(name, dtype, no_fallbacks):
    check(lambda device: getattr(torch, name)(torch.empty(0, dtype=dtype, device=device)))


@pytest.mark.parametrize("name", ["argmax", "argmin", "amax", "sum", "all"])
def test_reductions_of_more_than_64_dims_raise(name):
    check(lambda device: getattr(torch, name)(torch.zeros([1] * 65, device=device), dim=0))


@pytest.mark.parametrize("alpha", [1.5, True, 2])
@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha_must_fit_the_dtype_of_the_result(name, alpha):
    op = getattr(torch, name)
    check(lambda device: op(integers(device), integers(device), alpha=alpha))
    check(lambda device: op(integers(device) > 0, integers(device) > 0, alpha=alpha))
    check(lambda device: getattr(integers(device), f"{name}_")(integers(device), alpha=alpha))


def test_the_factor_of_addcmul_of_integers_is_an_integer():
    check(lambda device: torch.addcmul(*[integers(device)] * 3, value=1.5))


@pytest.mark.parametrize(
    "call",
    [
        lambda device: torch.arange(5, device=device, dtype=torch.bool),
        lambda device: torch.linspace(0, 1, 5, device=device, dtype=torch.bool),
        lambda device: bools(device).cumsum(0, dtype=torch.bool),
        lambda device: bools(device).trace(),
        lambda device: bools(device)[0].dot(bools(device)[1]),
        lambda device: bools(device) ** bools(device),
        lambda device: bools(device) @ bools(device).t(),
        lambda device: bools(device).mv(bools(device)[0]),
        lambda device: torch.baddbmm(*[bools(device)[None, :, :2]] * 3),
        lambda device: torch.addcmul(*[bools(device)] * 3),
        lambda device: bools(device).clamp(max=True),
        lambda device: bools(device).median(),
        lambda device: bools(device).topk(1).values,
        lambda device: bools(device).round(),
    ],
)
def test_ops_without_a_bool_kernel_raise(call):
    check(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.hypot(x, x),
        lambda x: torch.logaddexp(x, x),
        lambda x: x.frac(),
        lambda x: torch.nn.functional.huber_loss(x, x),
        lambda x: torch.heaviside(x, x.float()),
        lambda x: torch.complex(x, x),
        lambda x: torch.complex(x.float(), x.half()),
        lambda x: torch.polar(x, x),
        lambda x: torch.view_as_complex(x),
        lambda x: torch.view_as_complex(x.float()[:1]),
        lambda x: torch.view_as_complex(x.float()[0]),
    ],
)
def test_ops_without_a_kernel_for_the_dtypes_raise(call):
    check(lambda device: call(integers(device)))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16], ids=str)
def test_reductions_of_narrow_integers_accumulate_in_int64(dtype):
    x = torch.full((300,), torch.iinfo(dtype).max, dtype=dtype)
    check(lambda device: x.to(device).sum())
    check(lambda device: x.to(device).cumsum(0))
    check(lambda device: x.to(device).sum(dtype=dtype))
    check(lambda device: x[:2].to(device).prod())


def vector_of_100s(device, dtype):
    return torch.full((30,), 100, dtype=dtype).to(device)


OVERFLOWS = {
    "mm": lambda x: x[None] @ x[:, None],
    "bmm": lambda x: torch.bmm(x[None, None], x[None, :, None]),
    "mv": lambda x: x[None].mv(x),
    "dot": lambda x: x.dot(x),
    "addmm": lambda x: torch.addmm(x[:1], x[None], x[:, None]),
    "outer": lambda x: torch.outer(x, x),
    "einsum": lambda x: torch.einsum("i,i->", x, x),
    "sum": lambda x: x.sum(dtype=x.dtype),
    "sum of a dim": lambda x: x.reshape(2, 15).sum(1, keepdim=True, dtype=x.dtype),
    "prod": lambda x: x[:3].prod(dtype=x.dtype),
    "prod of a dim": lambda x: x.reshape(10, 3).prod(1, dtype=x.dtype),
    "cumsum": lambda x: x.cumsum(0, dtype=x.dtype),
    "cumprod": lambda x: x.cumprod(0, dtype=x.dtype),
    "arange": lambda x: torch.arange(-3, 5, dtype=x.dtype, device=x.device),
    "arange of floats": lambda x: torch.arange(250.0, 260.0, dtype=x.dtype, device=x.device),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16], ids=str)
@pytest.mark.parametrize("name", OVERFLOWS)
def test_integers_that_overflow_wrap_around_on_the_card(name, dtype):
    # Conversions and comparisons read the elements as the card holds them.
    check(lambda device: OVERFLOWS[name](vector_of_100s(device, dtype)).long())
    check(lambda device: OVERFLOWS[name](vector_of_100s(device, dtype)) > 3)


OUT_OF_RANGE = [1.7, -1.7, 128.0, 300.0, -129.0, 40000.0, 1e6, -1e6, 3e9, -3e9, 1e30, -1e30]


@pytest.mark.parametrize(
    "dtype", [torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool], ids=str
)
def test_floats_out_of_range_become_the_integers_of_the_cpu(dtype):
    values = torch.tensor([*OUT_OF_RANGE, float("inf"), float("-inf"), float("nan")])
    check(lambda device: values.to(device).to(dtype))
    check(lambda device: torch.empty(len(values), dtype=dtype, device=device).copy_(values))


@pytest.mark.parametrize(
    "value, dtype",
    [
        *((value, torch.int32) for value in (1e30, -3e9, float("inf"), float("nan"))),
        (300.0, torch.uint8),
        (-3e9, torch.int8),
    ],
)
def test_constants_out_of_range_become_the_integers_of_the_cpu(value, dtype):
    def convert(x):
        return torch.full_like(x, value).to(dtype) + x.to(dtype)

    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # a compiler failure
        actual = torch.compile(convert)(torch.zeros(3, device="spyre"))
    assert torch.equal(actual.cpu(), convert(torch.zeros(3)))


def test_floats_that_int64_cannot_store_become_the_lowest_integer():
    values = torch.tensor([3e9, -3e9, 1e30, float("nan"), 5.0])
    expected = [-(2**31)] * 4 + [5]
    assert values.to("spyre").long().tolist() == expected


@pytest.mark.parametrize("count", [0, 2, 4, 5])
def test_masked_scatter_needs_an_element_for_each_selected_one(count):
    mask = torch.tensor([True, False, True, True, False, True])
    source = torch.arange(1.0, count + 1)

    def scatter(name, device):
        target = torch.zeros(6, device=device)
        return getattr(target, name)(mask.to(device), source.to(device))

    check(lambda device: scatter("masked_scatter", device))
    check(lambda device: scatter("masked_scatter_", device))


ALIASED = {
    "index_add_ source": lambda y, i: y.index_add_(0, i, y[:3]),
    "index_add_ index": lambda y, i: i.index_add_(0, i, i.clone()),
    "index_copy_ index": lambda y, i: i.index_copy_(0, i, i.clone()),
    "index_fill_ index": lambda y, i: i.index_fill_(0, i, 0),
    "put_ itself": lambda y, i: i.put_(i, i),
    "put_ source": lambda y, i: y.put_(i, y[:3]),
    "index_put_ index": lambda y, i: i.index_put_((i,), i.clone()),
    "index_put_ values": lambda y, i: i.index_put_((i.clone(),), i),
    "scatter_ source": lambda y, i: y[:3].scatter_(0, i, y[:3]),
    "scatter_add_ index": lambda y, i: i.scatter_add_(0, i, i.clone()),
    "scatter_reduce_ index": lambda y, i: i.scatter_reduce_(0, i, i.clone(), "sum"),
    "gather out": lambda y, i: torch.gather(y, 0, torch.cat([i, i]), out=y),
    "take out": lambda y, i: torch.take(y, torch.cat([i, i]), out=y),
    "take index": lambda y, i: torch.take(i.clone(), i[1:], out=i[:-1]),
    "masked_select out": lambda y, i: torch.masked_select(y, y > 0, out=y),
    "cat out": lambda y, i: torch.cat([y, y], out=y),
    "stack out": lambda y, i: torch.stack([y, y], out=y),
    "cat out of one": lambda y, i: torch.cat([y], out=y),
    "copy_": lambda y, i: y[1:].copy_(y[:-1]),
    "expanded put_": lambda y, i: y[:1].expand(6).put_(i, y[3:]),
    "expanded scatter_": lambda y, i: y[:1].expand(6).scatter_(0, i, y[3:]),
    "expanded gather": lambda y, i: torch.gather(y.clone(), 0, i, out=y[:1].expand(3)),
}


@pytest.mark.parametrize("name", ALIASED)
def test_aliasing_of_targets_and_arguments_raises(name):
    check(lambda device: ALIASED[name](torch.ones(6, device=device), indices(device)))


EXPANDED = {
    "index_put_": lambda x: x.index_put_((indices(x.device),), x.new_full((3,), 2.0)),
    "index_fill_": lambda x: x.index_fill_(0, indices(x.device), 5.0),
    "masked_fill_": lambda x: x.masked_fill_(indices(x.device).repeat(2) > 1, 5.0),
}


@pytest.mark.parametrize("name", EXPANDED)
def test_writing_an_expanded_tensor_warns_where_pytorch_allows_it(name):
    expected = torch.zeros(1).expand(6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        EXPANDED[name](expected)
    actual = torch.zeros(1, device="spyre").expand(6)
    with pytest.warns(UserWarning, match=f"{name} on expanded tensors"):
        EXPANDED[name](actual)
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("index", [torch.tensor([1]), torch.tensor(1)], ids=["1-d", "0-d"])
def test_an_index_on_the_cpu_raises(index):
    x = torch.zeros(5, device="spyre")
    for call in (lambda: x.index_fill(0, index, 1.0), lambda: x.index_select(0, index)):
        with pytest.raises(RuntimeError, match="same device"):
            call()


def empty(device):
    return torch.empty(0, 3, device=device)


INVALID_CALLS = {
    "index_put_ of an empty dim": lambda d: empty(d).index_put_((indices(d),), empty(d).sum()),
    "index of an empty dim": lambda d: empty(d)[indices(d)],
    "index_select of an empty dim": lambda d: empty(d).index_select(0, indices(d)),
    "index_copy of an empty dim": lambda d: empty(d).index_copy(
        0, indices(d), torch.ones(3, 3, device=d)
    ),
    "gather from an empty dim": lambda d: empty(d).gather(0, indices(d)[None]),
    "index_fill with floats": lambda d: empty(d).index_fill(0, indices(d).float(), 1),
    "index_add with floats": lambda d: empty(d).index_add(0, empty(d)[:, 0], empty(d)),
    "index_select of a scalar": lambda d: torch.ones((), device=d).index_select(1, indices(d)[:1]),
    "sort of a scalar": lambda d: torch.ones((), device=d).sort(1).values,
    "sort of an empty tensor": lambda d: torch.empty(0, device=d).sort(63).values,
    "cummax of a scalar": lambda d: torch.ones((), device=d).cummax(-2).values,
    "softmax of integers": lambda d: integers(d).softmax(0),
    "log_softmax of integers": lambda d: integers(d).log_softmax(0),
    "glu of bools": lambda d: torch.nn.functional.glu(bools(d).repeat(1, 2)),
    "subtraction of a bool": lambda d: torch.ones(2, device=d) - True,
    "index_fill with int32": lambda d: torch.ones(3, device=d).index_fill(0, indices(d).int(), 1),
    "index_copy with int32": lambda d: torch.ones(3, device=d).index_copy(
        0, indices(d).int(), torch.ones(3, device=d)
    ),
    "index_copy of another dtype": lambda d: torch.ones(3, device=d).index_copy(
        0, indices(d), indices(d)
    ),
    "index_add of another dtype": lambda d: torch.ones(3, device=d).index_add(
        0, indices(d), indices(d)
    ),
    "index_add with no indices": lambda d: torch.ones(3, device=d).index_add(
        0, indices(d)[:0].short(), torch.ones(0, device=d)
    ),
    "index_reduce with a matrix": lambda d: torch.ones(3, device=d).index_reduce(
        0, indices(d)[None, :1], torch.ones(1, device=d), "mean"
    ),
    "put with int32": lambda d: torch.ones(3, device=d).put(
        indices(d).int(), torch.ones(3, device=d)
    ),
    "index_put with int8": lambda d: torch.ones(3, device=d).index_put(
        (indices(d)[:0].to(torch.int8),), torch.ones((), device=d)
    ),
    "index_put of a scalar": lambda d: torch.ones((), device=d).index_put(
        (indices(d)[:0],), torch.ones((), device=d)
    ),
    "index_put with a mask of another shape": lambda d: torch.ones(3, device=d).index_put(
        (indices(d)[:1] > 0,), torch.ones((), device=d)
    ),
    "index_select of a scalar by two": lambda d: torch.ones((), device=d).index_select(
        0, indices(d)[1:] * 0
    ),
    "view that overflows": lambda d: empty(d).view([2**62, -1, 2]),
}


@pytest.mark.parametrize("name", INVALID_CALLS)
def test_invalid_calls_on_empty_tensors_and_scalars_raise_as_on_the_cpu(name):
    assert isinstance(outcome(INVALID_CALLS[name], "cpu"), tuple)
    check(INVALID_CALLS[name])


def test_indexing_an_empty_tensor_by_no_indices_stays_on_the_card(no_fallbacks):
    no_indices = torch.empty(0, dtype=torch.int64, device="spyre")
    assert empty("spyre")[no_indices].shape == (0, 3)
    assert empty("spyre").index_select(0, no_indices).shape == (0, 3)


FILLS = {
    "full": lambda x, value: torch.full((2,), value, dtype=x.dtype, device=x.device),
    "full_like another dtype": lambda x, value: torch.full_like(x.bool(), value, dtype=x.dtype),
    "new_full": lambda x, value: x.new_full((2,), value),
    "fill_": lambda x, value: x.fill_(value),
    "fill_ of an empty tensor": lambda x, value: x[:0].fill_(value),
    "masked_fill": lambda x, value: x.masked_fill(x == 0, value),
    "index_fill": lambda x, value: x.index_fill(0, indices(x.device), value),
    "scatter": lambda x, value: x.scatter(0, indices(x.device), value),
    "constant_pad_nd": lambda x, value: torch.nn.functional.pad(x, (1, 1), value=value),
}


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("value", [1e10, 300, float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.int8], ids=str)
def test_values_that_overflow_the_dtype_raise_as_on_the_cpu(name, value, dtype):
    check(lambda device: FILLS[name](torch.zeros(3, dtype=dtype, device=device), value))
