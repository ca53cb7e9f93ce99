"""Which kernels the ops of a function become."""

import pytest
import torch
from comparing import assert_close, exact, numbers, on_card
from torch._dynamo.utils import counters
from torch._inductor.utils import run_and_get_code
from torch.nn import functional

from torch_spyre import knobs
from torch_spyre.errors import InvalidCoresError

pytestmark = pytest.mark.usefixtures("native")


def wrapper_text(function, *tensors):
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=False):
        _, (text,) = run_and_get_code(torch.compile(function), *on_card(tensors))
    return text


# --- names and cores ------------------------------------------------------------------------------


@pytest.mark.parametrize("cores", [None, 16])
def test_a_kernel_is_named_after_its_op_and_divided_over_the_cores(cores):
    x = torch.zeros(256, 128, 512, dtype=torch.float16)
    with knobs.override(SENCORES=str(cores or 32)):
        text = wrapper_text(torch.abs, x)
    assert "sdsc_fused_abs_0 = async_compile.sdsc('sdsc_fused_abs_0'" in text
    assert f"sympify('c0'): (sympify('256'), {cores or 32})" in text
    assert "sdsc_fused_abs_0.run(arg0_1, buf0)" in text
    assert "LoopSpec(" not in text.split("async_compile = ")[1]


def test_long_names_are_cut(kernels_made):
    def everything(x):
        for op in [
            "sin",
            "cos",
            "tan",
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "tanh",
            "sigmoid",
            "floor",
            "ceil",
            "round",
            "trunc",
            "abs",
        ]:
            x = getattr(torch, op)(x)
        for op in ["neg", "relu", "reciprocal", "sign", "isnan", "logical_not"]:
            x = getattr(torch, op)(x)
        return torch.where(x, 1.5, 2).sum(0).amax()

    kernels_made.of(everything, numbers(4, 64))
    assert all(100 < len(name) < 140 for name in kernels_made.names)


def test_cores_that_no_card_has_are_an_error_of_the_compilation():
    torch._dynamo.reset()
    with (
        knobs.override(SENCORES="64"),
        torch._inductor.config.patch(fx_graph_cache=False),
        pytest.raises(Exception, match="invalid SENCORES value 64") as caught,
    ):
        torch.compile(torch.abs)(numbers(64, 64).to("spyre"))
    assert isinstance(caught.value, InvalidCoresError) or "InvalidCoresError" in str(caught.value)


def test_cores_that_no_card_has_are_an_error_of_eager_ops_too():
    x = numbers(64, 64).to("spyre")
    with (
        knobs.override(SENCORES="64"),
        pytest.raises(InvalidCoresError, match="invalid SENCORES value 64"),
    ):
        torch.abs(x)
    assert torch.equal(torch.abs(x).cpu(), x.cpu().abs())


def test_one_op_on_two_matrices_is_one_spec(kernels_made):
    kernels_made.of(torch.add, numbers(96, 256), numbers(96, 256))
    ((spec,),) = kernels_made.programs
    assert [list(arg.device_size) for arg in spec.args] == [[4, 96, 64]] * 3
    assert list(spec.splits.values()) == [32, 1]
    assert [str(each) for each in spec.output.device_coordinates] == [
        "floor(c1/64)",
        "c0",
        "Mod(c1, 64)",
    ]


def halves(*shape):
    return torch.zeros(shape, dtype=torch.float16)


# A function of one op, its tensors, and the split of each symbol.
DIVIDED = {
    "rows in fewer slices than cores": (torch.add, (halves(100, 640), halves(100, 640)), [25, 1]),
    "rows and sticks": (torch.add, (halves(12, 384), halves(12, 384)), [12, 2]),
    "sticks": (torch.add, (halves(7, 4096), halves(7, 4096)), [1, 32]),
    "not the lanes of one stick": (torch.add, (halves(3, 64), halves(3, 64)), [3, 1]),
    "what is folded": (lambda x: x.sum(0), (halves(4096, 128),), [2, 16]),
    "columns of a product": (torch.mm, (halves(1, 4096), halves(4096, 4096)), [32, 1]),
    "the inner dim of a product": (torch.mm, (halves(8, 1024), halves(1024, 1024)), [1, 8, 4]),
    "sticks of indices": (
        functional.embedding,
        (torch.zeros(256, dtype=torch.int32), halves(100, 128)),
        [8, 1],
    ),
    "not one stick of indices": (
        functional.embedding,
        (torch.zeros(40, dtype=torch.int32), halves(100, 128)),
        [1, 1],
    ),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_cores_share(name, kernels_made):
    function, tensors, splits = DIVIDED[name]
    kernels_made.of(function, *tensors)
    ((spec,),) = kernels_made.programs
    assert list(spec.splits.values()) == splits


def test_a_flattened_operand_is_read_where_it_is(kernels_made):
    x, y = numbers(6, 10, 128), numbers(60, 128)
    actual = kernels_made.of(lambda x, y: x.flatten(0, 1) + y, x, y)
    ((spec,),) = kernels_made.programs
    assert sorted(spec.sizes.values()) == [6, 10, 128]
    assert list(spec.args[0].device_size) == [10, 2, 6, 64]
    assert_close(actual, exact(x).flatten(0, 1) + exact(y))


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_a_transposed_operand_of_any_type_moves_once(dtype, kernels_made):
    x, y = numbers(128, 128, dtype=dtype), numbers(128, 128, dtype=dtype)
    actual = kernels_made.of(lambda x, y: torch.maximum(x.t(), y), x, y)
    assert kernels_made.ops == [["ReStickifyOpHBM", "maximum"]]
    assert_close(actual, torch.maximum(exact(x).t(), exact(y)))


NOTHING_MOVES = {
    "row means": lambda x, y: x - x.mean(1, keepdim=True),
    "products in a row": lambda x, y: x @ y @ x,
    "a fill beside something transposed": lambda x, y: torch.ones_like(x) + x.t(),
    "whole sticks of columns": lambda x, y: x[:, 64:] * 2,
    "rows": lambda x, y: x[3:50] * 2,
    "a matrix in batches": lambda x, y: x.view(4, 32, 128) @ y,
}


@pytest.mark.parametrize("name", NOTHING_MOVES)
def test_nothing_moves_between_sticks(name, kernels_made):
    tensors = numbers(128, 128, low=-0.5, high=0.5), numbers(128, 128, low=0, high=0.1)
    actual = kernels_made.of(NOTHING_MOVES[name], *tensors)
    assert not kernels_made.named("ReStickifyOpHBM")
    assert len(kernels_made.programs) <= 2
    assert_close(actual, NOTHING_MOVES[name](*exact(on_card(tensors))), units=8)


def test_orders_of_dims_beside_the_stick_may_differ(kernels_made):
    x, y = numbers(4, 6, 128), numbers(4, 6, 128)
    orders = [1, 0, 2], [0, 1, 2]
    torch._dynamo.reset()
    given = [
        each.to(
            "spyre",
            device_layout=torch.spyre.SpyreTensorLayout(
                [4, 6, 128], [768, 128, 1], torch.float16, order
            ),
        )
        for each, order in zip((x, y), orders, strict=True)
    ]
    actual = kernels_made.of(torch.add, *given)
    assert kernels_made.ops == [["add"]]
    assert_close(actual, exact(x) + exact(y))


def test_single_elements_and_rows_meet(kernels_made):
    """One sum in each stick, and rows of sums: what cannot be read in place is copied."""
    x, y = numbers(128, 128, low=0, high=0.1), numbers(128, 128)
    actual = kernels_made.of(lambda x, y: x.sum(1) + y, x, y)
    assert_close(actual, exact(on_card(x)).sum(1) + exact(y), units=8)


def test_columns_from_within_a_stick_become_contiguous(kernels_made):
    x = numbers(16, 200)
    actual = kernels_made.of(lambda x: x[:, 10:150].contiguous(), x)
    assert actual.is_contiguous()
    assert_close(actual, exact(x)[:, 10:150])


def test_a_clone_of_something_permuted_is_contiguous(kernels_made):
    x = numbers(3, 8, 130)
    actual = kernels_made.of(
        lambda x: x.permute(2, 0, 1).clone(memory_format=torch.contiguous_format), x
    )
    assert actual.stride() == (24, 8, 1)
    assert_close(actual, exact(x).permute(2, 0, 1))


@pytest.mark.parametrize("dim", [0, 1])
def test_pieces_of_a_cat_go_where_they_belong(dim, kernels_made):
    pieces = [numbers(4, 64), numbers(4, 64), numbers(4, 64)]
    actual = kernels_made.of(lambda *pieces: torch.cat(pieces, dim), *pieces)
    assert kernels_made.ops == [["identity"]] * 3
    assert len({spec.output.arg_index for spec in kernels_made.specs}) == 1
    assert_close(actual, torch.cat([exact(each) for each in pieces], dim))


def test_a_product_is_copied_into_an_input_without_a_program_for_it(kernels_made):
    def function(target, x, y):
        target.copy_(x @ y)

    tensors = numbers(64, 64), numbers(64, 64), numbers(64, 64)
    target, x, y = on_card(tensors)
    kernels_made.of(function, target, x, y)
    (program,) = kernels_made.programs
    assert [arg.name for spec in program for arg in spec.args if "pool" in arg.allocation] == []
    assert_close(target, exact(x) @ exact(y), units=8, scale=4)


def test_what_is_overwritten_is_read_before(kernels_made):
    def function(target, x, y):
        before = target + 1
        target.copy_(x @ y)
        return before

    target, x, y = on_card((numbers(64, 65), numbers(64, 64), numbers(64, 65)))
    expected = exact(target) + 1
    assert_close(kernels_made.of(function, target, x, y), expected)
    assert_close(target, exact(x) @ exact(y), units=8, scale=4)


# --- numbers --------------------------------------------------------------------------------------


def test_a_number_is_part_of_the_op(kernels_made):
    actual = kernels_made.of(lambda x: x + 1.0, numbers(64, 64))
    ((spec,),) = kernels_made.programs
    assert spec.op == "add" and spec.constants == {"operand1": 1.0}
    assert [arg.arg_index for arg in spec.args] == [0, 1]
    assert_close(actual, exact(numbers(64, 64)) + 1)


def test_equal_work_is_done_once(kernels_made):
    kernels_made.of(lambda x: (x + 1) * (x + 1), numbers(64, 64))
    assert kernels_made.ops == [["add", "mul"]]


def test_numbers_of_different_types_stay_apart(kernels_made):
    def function(x, y):
        return x + 0.1, y + 0.1

    x, y = numbers(4, 64), numbers(4, 64, dtype=torch.float32)
    halves, singles = kernels_made.of(function, x, y)
    assert [spec.constants for spec in kernels_made.specs] == [{"operand1": 0.1}] * 2
    assert_close(singles, exact(y) + 0.1, units=1)
    assert_close(halves, exact(x) + 0.1, units=1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32])
def test_a_bound_on_one_side_bounds_nothing_else(dtype, kernels_made):
    """Nothing stands in for the bound that is missing: no largest half, for one."""
    x = torch.tensor([-7, 0, 5, 70000 if dtype is torch.int32 else 61440]).to(dtype)
    actual = kernels_made.of(lambda x: x.clamp(min=0), x)
    assert kernels_made.ops == [["maximum"]]
    assert torch.equal(actual.cpu(), x.clamp(min=0))
    if dtype.is_floating_point:
        infinite = torch.tensor([-torch.inf, torch.inf, torch.nan], dtype=dtype)
        actual = kernels_made.of(lambda x: x.clamp(min=0), infinite)
        assert_close(actual, infinite.clamp(min=0))


def test_a_mean_multiplies_by_the_inverse_of_the_count(kernels_made):
    kernels_made.of(lambda x: x.mean(-1), numbers(8, 256))
    ((spec,),) = kernels_made.programs
    assert spec.constants == {"scaling_factor": 0.00390625}


def test_conversions_there_and_back_lose_nothing(kernels_made):
    x = numbers(5, 130)
    (held,) = exact(on_card([x]))
    actual = kernels_made.of(lambda x: (x.float() + 0.0).half(), x)
    assert kernels_made.ops == [["dl16tofp32", "add", "fp32todl16"]]
    assert torch.equal(actual.cpu().double(), held)


def test_what_was_converted_meets_what_was_not(kernels_made):
    """Elements keep their places: a converted tensor has an ordinary layout."""
    x, y = numbers(4, 128), numbers(4, 128, dtype=torch.float32)
    (held,) = exact(on_card([x]))
    converted, both = kernels_made.of(lambda x, y: (x.float(), x.float() + y), x, y)
    assert torch.equal(converted.cpu().double(), held)
    assert_close(both, held + exact(y), units=1)
    expected = torch.spyre.SpyreTensorLayout([4, 128], torch.float32)
    assert converted.device_tensor_layout() == expected


def test_a_comparison_chooses(kernels_made):
    x, y = numbers(6, 70), numbers(6, 70, dtype=torch.float32)
    actual = kernels_made.of(lambda x, y: torch.where((x > 0) & (y < 1), y, -y), x, y)
    assert_close(actual, torch.where((x > 0) & (y < 1), exact(y), -exact(y)), units=1)


def test_integers_are_added_exactly(kernels_made):
    x = torch.arange(-100, 100)
    actual = kernels_made.of(lambda x: x + x * 1_000_003, x)
    assert kernels_made.ops == [["mul", "add"]]
    assert torch.equal(actual.cpu(), x + x * 1_000_003)


# --- products and norms ---------------------------------------------------------------------------


def test_an_inner_dim_of_part_of_a_stick_needs_no_padding(kernels_made):
    """What lies behind it in the last stick is not read as a number."""
    x = torch.full((67, 128), torch.nan).half()
    x[:, :67] = numbers(67, 67)
    actual = kernels_made.of(lambda x: torch.mm(x[:, :67], x[:, :67]), x)
    assert kernels_made.ops == [["batchmatmul"]]
    factor = exact(on_card(x))[:, :67]
    assert_close(actual, factor @ factor, units=8, scale=8)


def test_an_inner_dim_of_one_is_no_product(kernels_made):
    x, y = numbers(8, 1), numbers(1, 128)
    actual = kernels_made.of(torch.mm, x, y)
    assert kernels_made.ops == [["mul"]]
    assert_close(actual, exact(x) @ exact(y))


def test_heads_are_multiplied_in_one_product(kernels_made):
    query, key = numbers(2, 4, 64, 64), numbers(2, 4, 48, 64)
    actual = kernels_made.of(lambda query, key: query @ key.transpose(-1, -2), query, key)
    assert kernels_made.ops == [["ReStickifyOpHBM"], ["batchmatmul"]]
    assert_close(actual, exact(query) @ exact(key).transpose(-1, -2), units=8, scale=8)


def test_one_weight_serves_every_batch(kernels_made):
    x, weight = numbers(3, 32, 64), numbers(64, 128)
    actual = kernels_made.of(lambda x, weight: x @ weight, x, weight)
    ((spec,),) = kernels_made.programs
    assert spec.op == "batchmatmul"
    assert list(spec.args[1].device_size) == [2, 64, 64]
    assert_close(actual, exact(x) @ exact(weight), units=8, scale=8)


def test_a_linear_layer_is_one_program_that_copies_nothing(kernels_made):
    torch.manual_seed(0)
    layer = torch.nn.Linear(128, 192).half()
    x = numbers(4, 32, 128)
    with torch.no_grad():
        actual = kernels_made.of(layer.to("spyre"), x)
        assert kernels_made.ops == [["batchmatmul", "add"]]
        expected = functional.linear(*exact((on_card(x), layer.weight, layer.bias)))
    assert_close(actual, expected, units=8)


@pytest.mark.parametrize("dims", [1, 2])
def test_layer_norm_is_one_program_over_any_dims(dims, kernels_made):
    x = numbers(32, 3, 192)
    shape = x.shape[-dims:]
    actual = kernels_made.of(lambda x: functional.layer_norm(x, shape), x)
    (ops,) = kernels_made.ops
    assert ops.count("mean") == 2 and ops.count("rsqrt") == 1
    assert_close(actual, functional.layer_norm(exact(on_card(x)), shape), units=16)


# --- arguments and memory -------------------------------------------------------------------------


def test_any_number_of_tensors_is_one_program(kernels_made):
    tensors = [numbers(8, 64, low=0, high=0.1) for _ in range(20)]
    actual = kernels_made.of(lambda *tensors: sum(tensors[1:], tensors[0]), *tensors)
    assert kernels_made.ops == [["add"] * 19]
    assert_close(actual, sum(exact(on_card(tensors))), units=32)


def test_what_only_the_kernel_sees_is_not_an_argument():
    text = wrapper_text(lambda x: (x.softmax(-1) @ x.t()).softmax(-1), numbers(64, 128))
    calls = [line for line in text.splitlines() if ".run(" in line]
    assert [call.split(".run")[1] for call in calls] == ["(arg0_1, buf6)"]
    assert text.count("spyre_empty_with_layout((") == 1


# --- caches ---------------------------------------------------------------------------------------


def test_another_layout_is_compiled_once(kernels_made):
    def function(x):
        return x.exp() + 1

    turned = torch.spyre.SpyreTensorLayout([70, 130], [130, 1], torch.float16, [1, 0])
    values = numbers(70, 130)
    plain, other = values.to("spyre"), values.to("spyre", device_layout=turned)
    kernels_made.of(function, plain)
    compiled = torch.compile(function)
    counts = []
    with torch._inductor.config.patch(fx_graph_cache=False):
        for tensor in (plain, other, other, plain):
            compiled(tensor)
            counts.append(len(kernels_made.programs))
    first = counts[0]
    assert counts == [first, first + 1, first + 1, first + 1]


def test_artifacts_of_the_cache_are_found_again(tmp_path):
    from torch._inductor.utils import fresh_cache

    def call():
        torch._dynamo.reset()
        counters.clear()
        actual = torch.compile(lambda x: x.tanh() * 3 - 1)(numbers(9, 77).to("spyre"))
        assert_close(actual, exact(on_card(numbers(9, 77))).tanh() * 3 - 1, units=8)
        actual = counters["inductor"]
        return actual["fxgraph_cache_hit"], actual["fxgraph_cache_miss"]

    with fresh_cache():
        assert call() == (0, 1)
        artifacts, _ = torch.compiler.save_cache_artifacts()
    with fresh_cache():
        torch.compiler.load_cache_artifacts(artifacts)
        assert call() == (1, 0)
