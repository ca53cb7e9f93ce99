"""Semantics of `torch.compile` for graphs on the card."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import assert_close, make_tensor, to_card, to_reference


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def check(function, *args, units=8, **options):
    """Assert that a compiled function returns and mutates what it does on the CPU."""
    card = to_card(args)
    reference = to_reference(card)
    expected = function(*reference)
    actual = torch.compile(function, **options)(*card)
    assert_close(actual, expected, units)
    assert_close([arg for arg in card if isinstance(arg, torch.Tensor)], list(reference), units)
    return actual


def test_input_mutation():
    def function(x, y):
        x.add_(y)
        return x * 2

    check(function, make_tensor(5, 70), make_tensor(5, 70))


def test_mutation_of_slices_of_an_input():
    def function(x, y):
        x[:, 3:20].mul_(y)
        x[1] = 0
        return x.sum(0)

    check(function, make_tensor(5, 70), make_tensor(5, 17))


def test_copy_into_an_input():
    def function(cache, x):
        cache[:, 2:4].copy_(x)
        return cache.sum(-1)

    check(function, make_tensor(5, 70), make_tensor(5, 2))


@pytest.mark.parametrize(
    "view",
    [lambda x: x[:, ::2], lambda x: x.t()[3:], lambda x: x[1::3, 5:]],
    ids=["stepped", "transposed", "both"],
)
def test_mutation_through_a_view(view):
    x = make_tensor(7, 70).to("spyre")
    reference = to_reference(x)

    def function(part):
        part.add_(1)
        return part.t() * 2

    expected = function(view(reference))
    assert_close(torch.compile(function)(view(x)), expected)
    assert_close(x, reference)


def test_outputs_may_be_views():
    x = make_tensor(5, 70).to("spyre")

    def function(x):
        return x.t(), x[1:], x.view(-1), (x + 1).t(), x.expand(2, 5, 70)

    outputs = torch.compile(function)(x)
    assert_close(outputs, function(to_reference(x)))
    outputs[0].zero_()
    assert x.cpu().abs().max() == 0


def test_outputs_may_alias_inputs_and_each_other():
    def function(x, y):
        y = y + 1
        return x, y, y, x[0]

    x = make_tensor(5, 70).to("spyre")
    outputs = torch.compile(function)(x, x)
    assert outputs[0].data_ptr() == x.data_ptr() == outputs[3].data_ptr()
    assert_close(outputs, function(to_reference(x), to_reference(x)))


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[1:3], torch.t])
def test_mutation_is_visible_through_an_aliased_input(view):
    x = make_tensor(5, 70).to("spyre")
    reference = to_reference(x)

    def function(x, y):
        x.add_(1)
        return y * 2

    expected = function(reference, view(reference))
    assert_close(torch.compile(function)(x, view(x)), expected)


def test_graph_breaks():
    def function(x):
        x = x + 1
        torch._dynamo.graph_break()
        x = x * 2 if x.sum() > 0 else x * 3
        return x.relu()

    check(function, make_tensor(5, 70))


def test_fullgraph():
    check(lambda x: x.softmax(-1) @ x.t(), make_tensor(5, 70), fullgraph=True)


@pytest.mark.parametrize("without_gradients", [torch.no_grad, torch.inference_mode])
def test_no_grad_and_inference_mode(without_gradients):
    layer = torch.nn.Linear(70, 33).half().to("spyre")
    x = make_tensor(5, 70).to("spyre")
    reference = copy.deepcopy(layer).cpu().double()(to_reference(x))
    with without_gradients():
        assert_close(torch.compile(layer)(x), reference)


GRADIENTS = {
    "silu": lambda x, y: F.silu(x) * y,
    "gelu tanh": lambda x, y: F.gelu(x, approximate="tanh") + y,
    "softmax": lambda x, y: x.softmax(-1) * y,
    "log_softmax": lambda x, y: x.log_softmax(0) + y,
    "product": lambda x, y: x @ y.t(),
    "maximum": torch.maximum,
    "where": lambda x, y: torch.where(x > 0, x * y, y),
    "amax": lambda x, y: x.amax(-1) + y.sum(-1),
    "cat": lambda x, y: torch.cat([x, y * 2], 1),
    "mean": lambda x, y: (x - x.mean(0, keepdim=True)) / (y.abs() + 1),
    "rows": lambda x, y: x[torch.tensor([0, 2, 2], device=x.device)] * 2 + y[:3],
    "pad": lambda x, y: F.pad(x, (1, 2)).sum(-1) * 3 + y.sum(-1),
    "layer_norm": lambda x, y: F.layer_norm(x, (70,)) * y,
    "slices": lambda x, y: x[1:, 3:50] * y[:-1, 3:50],
    "var": lambda x, y: x.var(-1) + y.std(-1),
    "chain": lambda x, y: x.exp().log1p().sqrt() * y.tanh().sigmoid(),
    "embedding": lambda x, y: F.embedding(torch.tensor([0, 1, 1], device=x.device), x) * y[:3],
}


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, mode):
    function = GRADIENTS[name]
    x, y = (make_tensor(5, 70).to("spyre") for _ in range(2))
    y = y.flip(0)
    mine, theirs = (x.requires_grad_(), y.requires_grad_()), to_reference((x, y))
    for tensor in theirs:
        tensor.requires_grad_()
    expected = function(*theirs)
    actual = (torch.compile(function) if mode == "compiled" else function)(*mine)
    assert_close(actual, expected, units=8)
    upstream = make_tensor(*expected.shape).to("spyre")
    actual.backward(upstream)
    expected.backward(to_reference(upstream))
    assert_close([tensor.grad for tensor in mine], [tensor.grad for tensor in theirs], units=16)


@pytest.mark.parametrize("dynamic", [True, None])
def test_recompilation_for_new_sizes(dynamic):
    def function(x, y):
        return (x @ y).softmax(-1) + x.sum(0, keepdim=True)[:, :1]

    compiled = torch.compile(function, dynamic=dynamic)
    for size in (4, 7, 65, 1):
        card = to_card((make_tensor(size, size + 3), make_tensor(size + 3, 5)))
        assert_close(compiled(*card), function(*to_reference(card)), units=16)


@pytest.mark.parametrize("bounds", [{}, {"min": 64, "max": 1024}])
def test_mark_dynamic(bounds):
    def function(x):
        return x.relu().sum(-1)

    compiled = torch.compile(function)
    for size in (64, 65, 130):
        x = make_tensor(size, 70).to("spyre")
        torch._dynamo.mark_dynamic(x, 0, **bounds)
        assert_close(compiled(x), function(to_reference(x)), scale=8)


def test_recompilation_for_new_layouts():
    def function(x):
        return x.exp() + x.sum(0)

    compiled = torch.compile(function)
    values = make_tensor(70, 130)
    results = []
    for order in ([0, 1], [1, 0]):
        layout = torch.spyre.SpyreTensorLayout([70, 130], [130, 1], torch.float16, order)
        x = values.to("spyre", device_layout=layout)
        results.append(compiled(x))
        assert_close(results[-1], function(to_reference(x)), scale=8)
    assert torch.equal(results[0].cpu(), results[1].cpu())


def test_ops_without_a_kernel_are_computed_on_the_host():
    check(lambda x: (x * 2).cumsum(-1) + 1, make_tensor(5, 7))
    check(lambda x: torch.linalg.inv(x.float()) + 1, torch.eye(5).half())


def test_random_ops():
    ones = torch.ones(50, 70).half().to("spyre")
    dropped = torch.compile(lambda x: F.dropout(x, 0.5))(ones).cpu()
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert 0.3 < (dropped == 0).float().mean() < 0.7


def test_tensors_of_both_devices():
    def function(x, host):
        return x * 2 + host.to(x.device), host + 1, x.cpu() + host

    x, host = make_tensor(5, 70), make_tensor(5, 70)
    results = torch.compile(function)(x.to("spyre"), host)
    assert [result.device.type for result in results] == ["spyre", "cpu", "cpu"]
    assert_close(results, function(x.double(), host.double()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.int64])
def test_cpu_scalar_tensors(dtype):
    def function(x, number):
        return x * number + 2

    compiled, x = torch.compile(function), make_tensor(5, 70).to("spyre")
    for value in (3, 5):
        number = torch.tensor(value, dtype=dtype)
        result = compiled(x, number)
        assert result.dtype == torch.float16
        assert_close(result, function(to_reference(x), value))


def test_recompilation_for_new_scalars():
    compiled, x = torch.compile(lambda x, number: x * number + 2), make_tensor(5, 70).to("spyre")
    for value in (4.5, 1, 3, True):
        assert_close(compiled(x, value), to_reference(x) * value + 2)


def test_constants_and_factories():
    kept = make_tensor(5, 70).to("spyre")

    def function(x):
        places = torch.arange(70, device=x.device)
        ones = torch.ones(5, 1, device=x.device, dtype=x.dtype)
        diagonal = torch.eye(5, 70, device=x.device, dtype=x.dtype)
        return x * kept.to(x.device).to(x.dtype) + places + ones + diagonal

    check(function, make_tensor(5, 70))


def test_graphs_without_ops():
    check(lambda x: (x + 1).sum(0), torch.empty(0, 70).half())
    check(lambda x: (x + 1, x.t() @ x), torch.empty(0, 7).half())


def test_out_arguments():
    def function(x, y, out):
        torch.add(x, y, out=out)
        torch.mm(x, y.t(), out=out[:, :5])
        return out

    check(function, make_tensor(5, 70), make_tensor(5, 70), torch.zeros(5, 70).half(), units=16)


def test_eager_ops_below_a_graph_break_are_not_traced():
    def function(x, y, out):
        torch.mm(x, y.t(), out=out[:, :5])
        return out * 2

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Dynamo")
        check(function, make_tensor(5, 6), make_tensor(5, 6), torch.zeros(5, 70).half(), units=16)


@pytest.mark.parametrize(
    "table",
    [
        lambda x: torch.cat([x, x], 1),
        lambda x: x.expand(2, 7, 7, 5).reshape(14, 7, 5).transpose(0, 1),
        lambda x: (x + 1).reshape(1, 49, 5),
        lambda x: x.permute(2, 1, 0).reshape(5, 49, 1),
        lambda x: x.view(7, 35),
        lambda x: x[:, 1:].reshape(7, 30, 1),
    ],
)
def test_gather_along_flattened_dims(table):
    def function(x):
        rows = torch.tensor([11, 5, 4, 11], device=x.device)
        return table(x).index_select(1, rows), table(x)[:, rows], table(x) * 2

    check(function, make_tensor(7, 7, 5))
    x = make_tensor(7, 7, 5).to("spyre")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*compiler failed")
        assert_close(function(x), function(to_reference(x)))


@pytest.mark.parametrize("dim", [0, 1])
def test_value_used_before_and_after_a_reduction(dim):
    check(lambda x: x.logsumexp(dim), make_tensor(5, 70))


EXPANDED = {
    "one number": lambda x, y, one: one.expand(7, 70) @ y,
    "one number on the right": lambda x, y, one: x @ one.expand(70, 9),
    "one number twice": lambda x, y, one: one.expand(7, 70) @ one.expand(70, 5),
    "batches of one number": lambda x, y, one: one.expand(3, 7, 70) @ y.expand(3, 70, 5),
    "batches of one matrix": lambda x, y, one: x.expand(3, 7, 70) @ y.expand(3, 70, 5),
    "a row": lambda x, y, one: x[:1].expand(7, 70) @ y,
    "a column": lambda x, y, one: x[:, :1].expand(7, 70) @ y,
    "a row on the right": lambda x, y, one: x @ y[:1].expand(70, 5),
    "a column on the right": lambda x, y, one: x @ y[:, :1].expand(70, 5),
    "transposes": lambda x, y, one: one.expand(5, 70) @ x.t(),
    "with itself": lambda x, y, one: torch.dot(x[0], x[0]),
    "squared": lambda x, y, one: x @ x.t(),
    "of products": lambda x, y, one: (x.exp() @ y)[:, :1].expand(7, 70) @ y,
}


@pytest.mark.parametrize("name", EXPANDED)
def test_matmul_of_expanded_tensors(name):
    check(EXPANDED[name], make_tensor(7, 70), make_tensor(70, 5), make_tensor(1), units=32)


@pytest.mark.parametrize("flag", [torch.tensor(True), torch.ones(5, 70, dtype=torch.bool)])
def test_subtraction_of_bool_raises(flag):
    x = make_tensor(5, 70).to("spyre")
    for other in (flag, flag.to("spyre")):
        if other.dim() and other.device.type == "cpu":
            continue
        with pytest.raises(RuntimeError, match="Subtraction, the `-` operator"):
            torch.compile(lambda x, y: x - y)(x, other)


@pytest.mark.parametrize("shape", [(2, 2, 2, 65), (3, 8, 130), (2, 33, 130)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32])
def test_bool_operands_of_wider_ops_have_the_same_padding(shape, dtype):
    """Bool sticks hold more elements, so their padding may span another row of values."""
    x = make_tensor(*shape, dtype=dtype)
    signs = (torch.arange(shape[-1]) % 3 - 1).to(dtype)
    check(lambda x, signs: torch.where(signs > 0, x, x + 1), x, signs)
    check(lambda x, flags: torch.where(flags, x, x + 1), x, signs > 0)


@pytest.mark.parametrize("count", [2, 40, 130])
def test_padding_of_index_tensors_is_not_used_as_indices(count):
    indices = torch.arange(count, dtype=torch.int32) % 30
    # The padding of the stick holds its old content.
    card = (indices - 1000).to("spyre") + 1000
    x = make_tensor(30)
    assert_close(torch.compile(lambda x, i: x[i])(x.to("spyre"), card), x.double()[indices])


def test_higher_order_ops():
    x = make_tensor(5, 70)
    check(lambda x: torch.vmap(lambda row: row.softmax(0) * 2)(x), x)
    check(lambda x: torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,)), x)


def test_unsupported_graphs_run_op_by_op(caplog):
    check(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), make_tensor(5, 70))
    assert "op by op" in caplog.text and "graphs inside of a graph" in caplog.text


def tables():
    from torch._inductor import decomposition, lowering, ops_handler
    from torch._inductor.fx_passes import joint_graph
    from torch._prims_common import _computation_dtype_map

    joint_graph.lazy_init()
    actual = (
        _computation_dtype_map,
        lowering.lowerings,
        lowering.user_lowerings,
        decomposition.decompositions,
        decomposition.select_decomp_table(),
        vars(ops_handler.DefaultHandler),
        vars(joint_graph.UniformValueConstantFolder),
        *(pattern_pass.patterns for pattern_pass in joint_graph.pass_patterns),
    )
    return [dict(patterns) for patterns in actual]


def test_inductor_tables_are_restored():
    before = tables()
    check(lambda x: x.softmax(-1), make_tensor(5, 70))
    assert tables() == before


def test_graph_runs_op_by_op_after_a_compiler_error(monkeypatch, caplog):
    from torch_spyre._inductor import driver

    def fails(bundle):
        raise ValueError("on purpose")

    before = tables()
    monkeypatch.setattr(driver, "run_passes", fails)
    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        pytest.warns(RuntimeWarning, match="failed with ValueError: on purpose"),
    ):
        check(lambda x: x.tanh().softmax(-1), make_tensor(5, 71))
    assert "on purpose" in caplog.text and "op by op" in caplog.text
    assert tables() == before


def test_cpu_graphs_are_not_affected(monkeypatch):
    from torch_spyre._inductor import backend

    def fails(*args, **options):
        raise AssertionError("our decompositions were asked for")

    monkeypatch.setattr(backend.decompositions, "table", fails)
    x = torch.rand(5, 70)
    result = torch.compile(lambda x: F.gelu(x).softmax(-1))(x)
    torch.testing.assert_close(result, F.gelu(x).softmax(-1))


def test_backend_inductor_by_name_compiles_for_the_card():
    """As libraries name it, transformers among them."""
    x = torch.randn(4, 70).half()
    tail = torch.ones(4, 30).half()

    def joined(x, tail):
        return torch.cat([x.relu(), tail], 1)

    actual = torch.compile(joined, backend="inductor", mode="reduce-overhead")(*to_card((x, tail)))
    assert_close(actual, joined(x, tail), units=1)
    assert torch.equal(torch.compile(joined, backend="inductor")(x, tail), joined(x, tail))


@pytest.mark.parametrize("values", [[3], [1, 2]])
def test_torch_tensor_inside_a_graph(values):
    def made(x):
        return x + torch.tensor(values, device=x.device) * 2

    x = torch.zeros(2, dtype=torch.int64)
    actual = torch.compile(made, fullgraph=True)(x.to("spyre"))
    assert actual.tolist() == made(x).tolist()


def test_in_place_metadata_changes_inside_a_graph():
    """PyTorch's functions do this, for example pooling of a transposed tensor to one element."""

    def pooled(x):
        return torch.nn.functional.adaptive_avg_pool1d(x.transpose(1, 2), 1)

    card = to_card(make_tensor(2, 8, 16))
    actual = torch.compile(pooled, fullgraph=True)(card)
    assert actual.stride() == pooled(card.cpu()).stride()
    assert_close(actual, pooled(to_reference(card)))


def test_input_of_a_cat_has_other_users():
    """Inductor computes the piece in the buffer of the result, at another offset."""

    def padded(x, weight):
        y = (x @ weight).view(2, 8, 8, 64).permute(0, 3, 1, 2).contiguous()
        return y + torch.nn.functional.pad(y, (3, 3, 3, 3))[..., :8, :8]

    given = to_card((make_tensor(128, 32), make_tensor(32, 64)))
    actual = torch.compile(padded, fullgraph=True)(*given)
    assert_close(actual, padded(*to_reference(given)), units=4, scale=8.0)
