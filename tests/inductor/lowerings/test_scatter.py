"""Scatter ops, eager and compiled: index_put, scatter, and ops that decompose to them."""

import math

import pytest
import torch
from cpu_reference import assert_close, assert_close_to_cpu, make_tensor, to_card, to_reference

pytestmark = pytest.mark.usefixtures("no_fallbacks")
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64, torch.bool)


def changed(change):
    """Return a function that calls an in-place op and returns its first argument."""

    def function(x, *args):
        change(x, *args)
        return x

    return function


def rows(x, index, values):
    x[index] = values


def columns(x, index, values):
    x[:, index] = values


def points(x, one, other, values):
    x[one, other] = values


def apart(x, one, other, values):
    x[one, :, other] = values


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_index_put_of_rows_of_any_dtype(dtype):
    index = torch.tensor([2, -7, 5])
    assert_close_to_cpu(
        changed(rows), make_tensor(7, 70, dtype=dtype), index, make_tensor(3, 70, dtype=dtype)
    )


@pytest.mark.parametrize("size", [1, 63, 64, 130])
def test_index_put_of_rows_preserves_other_rows(size):
    assert_close_to_cpu(
        changed(rows), make_tensor(5, size), torch.tensor([3, 0]), make_tensor(2, size)
    )
    assert_close_to_cpu(changed(rows), make_tensor(5, size), torch.tensor([4]), make_tensor(size))
    assert_close_to_cpu(
        changed(rows), make_tensor(5, size), torch.tensor([[4, 1], [0, 2]]), make_tensor(1)
    )


def test_index_put_along_any_dims():
    one, other = torch.tensor([2, 0, -1]), torch.tensor([-1, 66, 3])
    assert_close_to_cpu(changed(columns), make_tensor(4, 70), one, make_tensor(4, 3))
    assert_close_to_cpu(changed(points), make_tensor(4, 70), one, other, make_tensor(3))
    assert_close_to_cpu(changed(points), make_tensor(4, 70), one[:, None], other, make_tensor(3, 3))
    assert_close_to_cpu(changed(apart), make_tensor(4, 3, 70), one, other, make_tensor(3, 3))
    assert_close_to_cpu(changed(rows), make_tensor(70), other, make_tensor(3))


def test_index_put_with_empty_indices():
    none = torch.zeros(0, dtype=torch.int64)
    assert_close_to_cpu(changed(rows), make_tensor(4, 70), none, make_tensor(0, 70))
    assert_close_to_cpu(changed(rows), make_tensor(4, 0), torch.tensor([1]), make_tensor(1, 0))
    assert_close_to_cpu(
        lambda x, i, v: x.scatter(0, i, v), make_tensor(4, 70), none[:, None], make_tensor(4, 70)
    )


def test_index_put_on_views_preserves_other_elements():
    def inside(x, index, values):
        x[1:4, 10:75].index_copy_(0, index, values)
        x.t()[80:].index_put_((index,), values[:, :6] + 1)
        return x

    assert_close_to_cpu(inside, make_tensor(6, 100), torch.tensor([2, 0]), make_tensor(2, 65))


def test_key_cache_is_written_in_place():
    cache = to_card(torch.zeros(2, 3, 16, 64, dtype=torch.float16))
    place = cache.data_ptr()
    states = to_card(make_tensor(2, 3, 2, 64))
    returned = cache.index_copy_(2, to_card(torch.tensor([5, 9])), states)
    assert returned is cache and cache.data_ptr() == place
    assert torch.equal(cache[:, :, [5, 9]].cpu(), states.cpu())
    assert cache.cpu().count_nonzero() == states.cpu().count_nonzero()


SLOTS = 130


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 1, 3), (0, 1, 3, 2)], ids=str)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_only_indexed_cache_slots_are_written_for_any_layout(order, compiled):
    """With its slots in the middle of the dims, outermost, and along the sticks."""

    def write(cache, slots, states):
        cache.index_copy_(2, slots, states)

    size = (1, 2, SLOTS, 64)
    before = make_tensor(*size)
    strides = before.stride()
    layout = torch.spyre.SpyreTensorLayout(size, strides, torch.float16, order)
    cache = before.to("spyre", device_layout=layout)
    expected = cache.cpu()
    torch._dynamo.reset()
    run = torch.compile(write) if compiled else write
    for slots in ([0], [63], [64, 127], [SLOTS - 1]):
        slots, states = torch.tensor(slots), make_tensor(1, 2, len(slots), 64, low=3.0, high=4.0)
        run(cache, *to_card((slots, states)))
        write(expected, slots, to_card(states).cpu())
        assert torch.equal(cache.cpu(), expected)
    assert cache.device_tensor_layout() == layout


def test_index_put_of_duplicates_stores_the_last():
    index = torch.tensor([1, 3, 1, 1])
    values = torch.arange(4.0).half()[:, None].expand(4, 70)
    actual = to_card(make_tensor(5, 70)).index_put((to_card(index),), to_card(values))
    assert torch.equal(actual.cpu()[1], values[3])


@pytest.mark.one_case_in(5)
@pytest.mark.parametrize("dtype", TYPES[:-1], ids=str)
def test_index_add_accumulates_duplicates(dtype):
    def both(x, index, values):
        return (
            x.index_put((index,), values, accumulate=True),
            x.index_add(0, index, values),
            x.index_add(0, index, values, alpha=2),
        )

    index = torch.tensor([1, 3, 1, -1])
    x, values = make_tensor(5, 70, dtype=dtype), make_tensor(4, 70, dtype=dtype)
    assert_close_to_cpu(both, x, index % 5, values)
    many = torch.arange(9) % 2
    assert_close_to_cpu(both, x, many, make_tensor(9, 70, dtype=dtype), units=8)


def test_index_put_accumulates_duplicates_along_several_dims():
    one, other = torch.tensor([2, 0, 2, 1]), torch.tensor([66, 3, 66, 66])

    def add(x, one, other, values):
        return torch.ops.aten.index_put(x, [one, None, other], values, accumulate=True)

    assert_close_to_cpu(add, make_tensor(4, 3, 70), one, other, make_tensor(4, 3))
    assert_close_to_cpu(
        lambda x, i, j, v: x.index_put_((i, j), v, accumulate=True),
        make_tensor(4, 70),
        one,
        other,
        make_tensor(4),
    )


FLAGGED = {
    "number": lambda x, mask, row: x.index_put_((mask,), torch.zeros_like(row[0])),
    "rows": lambda x, mask, row: x.index_put_((mask[:, 0],), row),
    "added": lambda x, mask, row: x.index_put_((mask[:, 0],), row, accumulate=True),
}


@pytest.mark.parametrize("form", FLAGGED)
def test_index_put_with_bool_mask(form):
    x = make_tensor(4, 70)
    assert_close_to_cpu(FLAGGED[form], x, x > 0, make_tensor(70))


SHAPES = [((5, 70), (3, 70)), ((5, 70), (5, 9)), ((70,), (9,)), ((), ()), ((2, 3, 4), (2, 1, 4))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_scatter_along_each_dim(shapes):
    shape, index_shape = shapes
    for dim in range(max(1, len(shape))):
        extent = shape[dim] if shape else 1
        least = index_shape[dim] if index_shape else 1
        # Without duplicates along the dim: which one is stored is unspecified.
        steps = torch.arange(least).view([-1 if d == dim else 1 for d in range(len(shape))])
        index = ((2 * steps + 1) % extent if extent > 2 else steps % extent).expand(index_shape)
        if extent % 2 == 0:
            index = (steps + extent // 2) % extent
            index = index.expand(index_shape)
        x, src = make_tensor(*shape), make_tensor(*index_shape)
        assert_close_to_cpu(lambda x, i, s, dim=dim: x.scatter(dim, i, s), x, index, src)
        assert_close_to_cpu(lambda x, i, dim=dim: x.scatter(dim, i, 1.5), x, index)


REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32], ids=str)
def test_scatter_reduce(dtype):
    def all_kinds(x, index, src):
        results = [x.scatter_add(1, index, src), x.scatter(1, index, src, reduce="multiply")]
        for kind in REDUCTIONS:
            for own in (True, False):
                results.append(x.scatter_reduce(1, index, src, kind, include_self=own))
        return results

    generator = torch.Generator().manual_seed(0)
    index = torch.randint(0, 70, (3, 40), generator=generator)
    assert_close_to_cpu(
        all_kinds, make_tensor(4, 70, dtype=dtype), index, make_tensor(3, 40, dtype=dtype), units=8
    )


@pytest.mark.parametrize("padding", [-1, 3])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding_dense_backward(padding, by_frequency):
    backward = torch.ops.aten.embedding_dense_backward
    index = torch.tensor([[3, 5, 3], [1, 5, 19]])
    assert_close_to_cpu(
        lambda g, i: backward(g, i, 20, padding, by_frequency),
        make_tensor(2, 3, 70),
        index,
        scale=1,
    )


def test_gradients_of_losses():
    def loss(x, target, weight):
        x = x.detach().requires_grad_()
        losses = [
            torch.nn.functional.cross_entropy(x, target),
            torch.nn.functional.cross_entropy(x, target, weight, reduction="sum"),
            torch.nn.functional.cross_entropy(x, target, ignore_index=2, label_smoothing=0.1),
        ]
        return [torch.autograd.grad(loss, x)[0] for loss in losses]

    target = torch.tensor([1, 2, 2, 0, 8])
    x, weight = make_tensor(5, 9, dtype=torch.float32), make_tensor(9, low=0.1, dtype=torch.float32)
    expected = loss(x, target, weight)
    for actual, other in zip(loss(*to_card((x, target, weight))), expected, strict=True):
        torch.testing.assert_close(actual.cpu(), other, rtol=1e-4, atol=1e-5)


def test_slice_and_select_scatter():
    assert_close_to_cpu(
        lambda x, y: x.slice_scatter(y, 1, 3, 66, 2), make_tensor(4, 70), make_tensor(4, 32)
    )
    assert_close_to_cpu(lambda x, y: x.select_scatter(y, 1, -3), make_tensor(4, 70), make_tensor(4))
    assert_close_to_cpu(
        lambda x, i: x.index_fill(1, i, 3.0), make_tensor(4, 70), torch.tensor([66, 2])
    )


@pytest.mark.parametrize("bad", [9, -10])
def test_out_of_bounds_indices_raise_and_write_nothing(bad):
    x = to_card(make_tensor(9, 70))
    before = x.cpu()
    index, values = to_card((torch.tensor([bad]), make_tensor(1, 70)))
    with pytest.raises(IndexError, match="out of range"):
        x.index_put_((index,), values)
        torch.spyre.synchronize()
    assert torch.equal(x.cpu(), before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_non_finite_elements_do_not_spread(dtype):
    x, index = torch.zeros(6, dtype=dtype), torch.tensor([0, 1, 1, 3, 3, 4, 5])
    values = torch.tensor([math.inf, 1, 2, math.inf, -math.inf, -math.inf, math.nan], dtype=dtype)
    assert_close_to_cpu(lambda x, i, v: x.index_put((i,), v, accumulate=True), x, index, values)


NARROW = {
    "rows before others": (lambda x: x[:3], (5, 70), 0),
    "rows before others, in one stick": (lambda x: x[:3], (5, 6), 0),
    "columns before others": (lambda x: x[:, :3], (5, 6), 1),
    "a vector shorter than a stick": (lambda x: x, (5,), 0),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", NARROW)
def test_indices_beyond_a_view_raise_even_within_its_storage(case, compiled):
    view, shape, dim = NARROW[case]
    x = to_card(make_tensor(*shape))
    before, beyond = x.cpu(), view(x).shape[dim]
    index = to_card(torch.tensor([beyond]))

    def put(x, index):
        view(x).index_fill_(dim, index, 1.0)

    for use in (lambda x, index: view(x).index_select(dim, index), put):
        call = torch.compile(use, dynamic=False) if compiled else use
        with pytest.raises(IndexError, match=f"index {beyond} is out of range"):
            call(x, index)
            torch.spyre.synchronize()
        assert torch.equal(x.cpu(), before)


def test_index_tensor_may_also_be_the_target():
    index = torch.tensor([2, 0, 1, 1, 3])
    assert_close_to_cpu(
        lambda i: (i.gather(0, i), i.index_select(0, i), i.scatter(0, i.clone(), i)[2:]), index
    )


@pytest.mark.parametrize("function", [torch.index_copy, torch.index_add])
def test_index_copy_and_index_add_reject_negative_indices(function, no_fallbacks):
    x, source = make_tensor(5, 70).to("spyre"), make_tensor(2, 70).to("spyre")
    good = torch.tensor([4, 0], device="spyre")
    assert_close(
        function(x, 0, good, source), function(to_reference(x), 0, good.cpu(), to_reference(source))
    )
    with pytest.raises(IndexError, match="index -1 is out of range"):
        function(x, 0, torch.tensor([0, -1], device="spyre"), source).cpu()


def test_gradient_of_indexing_is_native():
    table = torch.arange(60.0).reshape(12, 5)
    index = torch.tensor([3, 0, 3, 11])
    host, card = (table.clone().to(device).requires_grad_() for device in ("cpu", "spyre"))
    before = torch.spyre.counters()["fallbacks"]
    card[index.to("spyre")].square().sum().backward()
    assert torch.spyre.counters()["fallbacks"] == before
    host[index].square().sum().backward()
    assert card.grad.tolist() == host.grad.tolist()


ALL_TO_ONE_PLACE = {
    "index_add": lambda x, i, v: x.index_add(0, i, v).clamp(-8, 8),
    "accumulated": lambda x, i, v: x.index_put((i,), v, accumulate=True) + 1,
    "put": lambda x, i, v: x.index_put((i,), v[:1].expand_as(v)),
    "scatter_add": lambda x, i, v: x.scatter_add(0, i[:, None].expand_as(v), v),
    "largest": lambda x, i, v: x.scatter_reduce(0, i[:, None].expand_as(v), v, "amax"),
}


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("size", [3, 70])
@pytest.mark.parametrize("name", ALL_TO_ONE_PLACE)
def test_several_indices_of_a_size_one_dim(name, size, no_fallbacks):
    values = torch.arange(3.0 * size).reshape(3, size).half() % 5
    index = torch.tensor([0, 0, 0])
    assert_close_to_cpu(ALL_TO_ONE_PLACE[name], values[:1].clone(), index, values)
    with pytest.raises(IndexError, match="out of range"):
        wrong = torch.tensor([0, 1, 0], device="spyre")
        ALL_TO_ONE_PLACE[name](values[:1].to("spyre"), wrong, values.to("spyre")).cpu()


def test_cross_entropy_of_flattened_labels_of_half_a_stick(no_fallbacks, caplog):
    scores, labels = make_tensor(64, 50), torch.arange(64).reshape(4, 16) % 50
    assert_close_to_cpu(
        lambda x, y: torch.nn.functional.cross_entropy(x, y.view(-1)), scores, labels
    )
    assert "op by op" not in caplog.text


@pytest.mark.parametrize("shapes", [((16,), (1, 1)), ((16,), (3, 16)), ((3, 1), (1, 5))], ids=str)
def test_masked_scatter_broadcasts(shapes):
    def function(x, mask, source):
        return x.masked_scatter(mask, source)

    x, mask = torch.zeros(shapes[0]), torch.ones(shapes[1], dtype=torch.bool)
    source = torch.arange(48.0)
    compiled = torch.compile(function)(x.to("spyre"), mask.to("spyre"), source.to("spyre"))
    assert torch.equal(compiled.cpu(), function(x, mask, source))


PLACES = [0, 2]
JOINED = {
    "padded": lambda x: torch.nn.functional.pad(x, (3, 1), value=2.0),
    "one after the other": lambda x: torch.cat([x[:1], x, x * 2]),
}


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("size", [3, 70])
def test_cat_of_a_mutated_tensor_preserves_both(name, size, no_fallbacks):
    """Inductor allocates a tensor within its concatenation, and mutates it there."""
    join = JOINED[name]

    def before(x):
        values = x.abs()
        joined = join(values)
        values[torch.tensor(PLACES, device=x.device)] = 1.0
        return joined, values * 2

    def after(x):
        values, more_values = x.abs(), x.abs()
        values[::2] = 1.0
        more_values[torch.tensor(PLACES, device=x.device)] = 1.0
        return join(values), join(more_values)

    for function in (before, after):
        assert_close_to_cpu(function, make_tensor(size))
