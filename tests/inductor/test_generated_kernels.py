"""Which kernels the ops of a function become."""

import pytest
import torch
from cpu_reference import assert_close, make_tensor, to_card, to_reference
from torch._dynamo.utils import counters
from torch._inductor.utils import run_and_get_code
from torch.nn import functional

from torch_spyre import knobs
from torch_spyre.errors import InvalidCoresError

pytestmark = pytest.mark.usefixtures("no_fallbacks")


def wrapper_text(function, *tensors):
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=False):
        _, (text,) = run_and_get_code(torch.compile(function), *to_card(tensors))
    return text


# --- names and cores ------------------------------------------------------------------------------


@pytest.mark.parametrize("cores", [None, 16])
def test_kernel_is_named_after_its_op_and_split_over_cores(cores):
    x = torch.zeros(256, 128, 512, dtype=torch.float16)
    with knobs.override(SENCORES=str(cores or 32)):
        text = wrapper_text(torch.abs, x)
    assert "sdsc_fused_abs_0 = async_compile.sdsc('sdsc_fused_abs_0'" in text
    assert f"sympify('c0'): (sympify('256'), {cores or 32})" in text
    assert "sdsc_fused_abs_0.run(arg0_1, buf0)" in text
    assert "LoopSpec(" not in text.split("async_compile = ")[1]


def test_long_names_are_truncated(compiled_kernels):
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

    compiled_kernels.compile(everything, make_tensor(4, 64))
    assert all(100 < len(name) < 140 for name in compiled_kernels.names)


def test_invalid_core_count_is_an_error_of_the_compilation():
    torch._dynamo.reset()
    with (
        knobs.override(SENCORES="64"),
        torch._inductor.config.patch(fx_graph_cache=False),
        pytest.raises(Exception, match="invalid SENCORES value 64") as caught,
    ):
        torch.compile(torch.abs)(make_tensor(64, 64).to("spyre"))
    assert isinstance(caught.value, InvalidCoresError) or "InvalidCoresError" in str(caught.value)


def test_invalid_core_count_is_an_error_of_eager_ops():
    x = make_tensor(64, 64).to("spyre")
    with (
        knobs.override(SENCORES="64"),
        pytest.raises(InvalidCoresError, match="invalid SENCORES value 64"),
    ):
        torch.abs(x)
    assert torch.equal(torch.abs(x).cpu(), x.cpu().abs())


def test_binary_op_becomes_a_single_spec(compiled_kernels):
    compiled_kernels.compile(torch.add, make_tensor(96, 256), make_tensor(96, 256))
    ((spec,),) = compiled_kernels.programs
    assert [list(arg.device_size) for arg in spec.args] == [[4, 96, 64]] * 3
    assert list(spec.splits.values()) == [32, 1]
    assert [str(coordinate) for coordinate in spec.output.device_coordinates] == [
        "floor(c1/64)",
        "c0",
        "Mod(c1, 64)",
    ]


def half_zeros(*shape):
    return torch.zeros(shape, dtype=torch.float16)


# A function of one op, its tensors, and the split of each symbol.
DIVIDED = {
    "rows in fewer slices than cores": (
        torch.add,
        (half_zeros(100, 640), half_zeros(100, 640)),
        [25, 1],
    ),
    "rows and sticks": (torch.add, (half_zeros(12, 384), half_zeros(12, 384)), [12, 2]),
    "sticks": (torch.add, (half_zeros(7, 4096), half_zeros(7, 4096)), [1, 32]),
    "not the lanes of one stick": (torch.add, (half_zeros(3, 64), half_zeros(3, 64)), [3, 1]),
    "reduced dim": (lambda x: x.sum(0), (half_zeros(4096, 128),), [2, 16]),
    "columns of a matmul": (torch.mm, (half_zeros(1, 4096), half_zeros(4096, 4096)), [32, 1]),
    "the inner dim of a matmul": (
        torch.mm,
        (half_zeros(8, 1024), half_zeros(1024, 1024)),
        [1, 8, 4],
    ),
    "sticks of indices": (
        functional.embedding,
        (torch.zeros(256, dtype=torch.int32), half_zeros(100, 128)),
        [8, 1],
    ),
    "not one stick of indices": (
        functional.embedding,
        (torch.zeros(40, dtype=torch.int32), half_zeros(100, 128)),
        [1, 1],
    ),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_work_division(name, compiled_kernels):
    function, tensors, splits = DIVIDED[name]
    compiled_kernels.compile(function, *tensors)
    ((spec,),) = compiled_kernels.programs
    assert list(spec.splits.values()) == splits


def test_flattened_operand_is_not_copied(compiled_kernels):
    x, y = make_tensor(6, 10, 128), make_tensor(60, 128)
    actual = compiled_kernels.compile(lambda x, y: x.flatten(0, 1) + y, x, y)
    ((spec,),) = compiled_kernels.programs
    assert sorted(spec.sizes.values()) == [6, 10, 128]
    assert list(spec.args[0].device_size) == [10, 2, 6, 64]
    assert_close(actual, to_reference(x).flatten(0, 1) + to_reference(y))


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_transposed_operand_is_copied_once(dtype, compiled_kernels):
    x, y = make_tensor(128, 128, dtype=dtype), make_tensor(128, 128, dtype=dtype)
    actual = compiled_kernels.compile(lambda x, y: torch.maximum(x.t(), y), x, y)
    assert compiled_kernels.ops == [["ReStickifyOpHBM", "maximum"]]
    assert_close(actual, torch.maximum(to_reference(x).t(), to_reference(y)))


NOTHING_MOVES = {
    "row means": lambda x, y: x - x.mean(1, keepdim=True),
    "products in a row": lambda x, y: x @ y @ x,
    "a fill beside something transposed": lambda x, y: torch.ones_like(x) + x.t(),
    "whole sticks of columns": lambda x, y: x[:, 64:] * 2,
    "rows": lambda x, y: x[3:50] * 2,
    "a matrix in batches": lambda x, y: x.view(4, 32, 128) @ y,
}


@pytest.mark.parametrize("name", NOTHING_MOVES)
def test_compatible_sticks_need_no_copy(name, compiled_kernels):
    tensors = make_tensor(128, 128, low=-0.5, high=0.5), make_tensor(128, 128, low=0, high=0.1)
    actual = compiled_kernels.compile(NOTHING_MOVES[name], *tensors)
    assert not compiled_kernels.named("ReStickifyOpHBM")
    assert len(compiled_kernels.programs) <= 2
    assert_close(actual, NOTHING_MOVES[name](*to_reference(to_card(tensors))), units=8)


def test_order_of_dims_other_than_the_stick_may_differ(compiled_kernels):
    x, y = make_tensor(4, 6, 128), make_tensor(4, 6, 128)
    orders = [1, 0, 2], [0, 1, 2]
    torch._dynamo.reset()
    given = [
        tensor.to(
            "spyre",
            device_layout=torch.spyre.SpyreTensorLayout(
                [4, 6, 128], [768, 128, 1], torch.float16, order
            ),
        )
        for tensor, order in zip((x, y), orders, strict=True)
    ]
    actual = compiled_kernels.compile(torch.add, *given)
    assert compiled_kernels.ops == [["add"]]
    assert_close(actual, to_reference(x) + to_reference(y))


def test_column_broadcasts_to_rows(compiled_kernels):
    """Only the incompatible operand is copied: one sum per stick, next to rows of sums."""
    x, y = make_tensor(128, 128, low=0, high=0.1), make_tensor(128, 128)
    actual = compiled_kernels.compile(lambda x, y: x.sum(1) + y, x, y)
    assert_close(actual, to_reference(to_card(x)).sum(1) + to_reference(y), units=8)


def test_columns_from_within_a_stick_are_copied(compiled_kernels):
    x = make_tensor(16, 200)
    actual = compiled_kernels.compile(lambda x: x[:, 10:150].contiguous(), x)
    assert actual.is_contiguous()
    assert_close(actual, to_reference(x)[:, 10:150])


def test_clone_of_a_permuted_tensor_is_contiguous(compiled_kernels):
    x = make_tensor(3, 8, 130)
    actual = compiled_kernels.compile(
        lambda x: x.permute(2, 0, 1).clone(memory_format=torch.contiguous_format), x
    )
    assert actual.stride() == (24, 8, 1)
    assert_close(actual, to_reference(x).permute(2, 0, 1))


@pytest.mark.parametrize("dim", [0, 1])
def test_cat_writes_each_piece_to_its_offset(dim, compiled_kernels):
    pieces = [make_tensor(4, 64), make_tensor(4, 64), make_tensor(4, 64)]
    actual = compiled_kernels.compile(lambda *pieces: torch.cat(pieces, dim), *pieces)
    assert compiled_kernels.ops == [["identity"]] * 3
    assert len({spec.output.arg_index for spec in compiled_kernels.specs}) == 1
    assert_close(actual, torch.cat([to_reference(piece) for piece in pieces], dim))


def test_matmul_is_written_directly_to_a_mutated_input(compiled_kernels):
    def function(target, x, y):
        target.copy_(x @ y)

    tensors = make_tensor(64, 64), make_tensor(64, 64), make_tensor(64, 64)
    target, x, y = to_card(tensors)
    compiled_kernels.compile(function, target, x, y)
    (program,) = compiled_kernels.programs
    assert [arg.name for spec in program for arg in spec.args if "pool" in arg.allocation] == []
    assert_close(target, to_reference(x) @ to_reference(y), units=8, scale=4)


def test_input_is_read_before_it_is_overwritten(compiled_kernels):
    def function(target, x, y):
        before = target + 1
        target.copy_(x @ y)
        return before

    target, x, y = to_card((make_tensor(64, 65), make_tensor(64, 64), make_tensor(64, 65)))
    expected = to_reference(target) + 1
    assert_close(compiled_kernels.compile(function, target, x, y), expected)
    assert_close(target, to_reference(x) @ to_reference(y), units=8, scale=4)


# --- scalars and dtypes ---------------------------------------------------------------------------


def test_scalar_is_a_constant_of_the_op(compiled_kernels):
    actual = compiled_kernels.compile(lambda x: x + 1.0, make_tensor(64, 64))
    ((spec,),) = compiled_kernels.programs
    assert spec.op == "add" and spec.constants == {"operand1": 1.0}
    assert [arg.arg_index for arg in spec.args] == [0, 1]
    assert_close(actual, to_reference(make_tensor(64, 64)) + 1)


def test_common_subexpressions_are_computed_once(compiled_kernels):
    compiled_kernels.compile(lambda x: (x + 1) * (x + 1), make_tensor(64, 64))
    assert compiled_kernels.ops == [["add", "mul"]]


def test_equal_constants_of_different_dtypes_are_distinct(compiled_kernels):
    def function(x, y):
        return x + 0.1, y + 0.1

    x, y = make_tensor(4, 64), make_tensor(4, 64, dtype=torch.float32)
    half_result, singles = compiled_kernels.compile(function, x, y)
    assert [spec.constants for spec in compiled_kernels.specs] == [{"operand1": 0.1}] * 2
    assert_close(singles, to_reference(y) + 0.1, units=1)
    assert_close(half_result, to_reference(x) + 0.1, units=1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32])
def test_clamp_with_one_bound(dtype, compiled_kernels):
    """The missing bound is not replaced, for example by the maximum of float16."""
    x = torch.tensor([-7, 0, 5, 70000 if dtype is torch.int32 else 61440]).to(dtype)
    actual = compiled_kernels.compile(lambda x: x.clamp(min=0), x)
    assert compiled_kernels.ops == [["maximum"]]
    assert torch.equal(actual.cpu(), x.clamp(min=0))
    if dtype.is_floating_point:
        infinite = torch.tensor([-torch.inf, torch.inf, torch.nan], dtype=dtype)
        actual = compiled_kernels.compile(lambda x: x.clamp(min=0), infinite)
        assert_close(actual, infinite.clamp(min=0))


def test_mean_multiplies_by_the_inverse_of_the_count(compiled_kernels):
    compiled_kernels.compile(lambda x: x.mean(-1), make_tensor(8, 256))
    ((spec,),) = compiled_kernels.programs
    assert spec.constants == {"scaling_factor": 0.00390625}


def test_conversion_round_trip_is_exact(compiled_kernels):
    x = make_tensor(5, 130)
    (held,) = to_reference(to_card([x]))
    actual = compiled_kernels.compile(lambda x: (x.float() + 0.0).half(), x)
    assert compiled_kernels.ops == [["dl16tofp32", "add", "fp32todl16"]]
    assert torch.equal(actual.cpu().double(), held)


def test_converted_and_unconverted_operands(compiled_kernels):
    """Conversion preserves positions: a converted tensor has the default layout."""
    x, y = make_tensor(4, 128), make_tensor(4, 128, dtype=torch.float32)
    (held,) = to_reference(to_card([x]))
    converted, both = compiled_kernels.compile(lambda x, y: (x.float(), x.float() + y), x, y)
    assert torch.equal(converted.cpu().double(), held)
    assert_close(both, held + to_reference(y), units=1)
    expected = torch.spyre.SpyreTensorLayout([4, 128], torch.float32)
    assert converted.device_tensor_layout() == expected


def test_comparison_selects_elements(compiled_kernels):
    x, y = make_tensor(6, 70), make_tensor(6, 70, dtype=torch.float32)
    actual = compiled_kernels.compile(lambda x, y: torch.where((x > 0) & (y < 1), y, -y), x, y)
    assert_close(actual, torch.where((x > 0) & (y < 1), to_reference(y), -to_reference(y)), units=1)


def test_integers_are_added_exactly(compiled_kernels):
    x = torch.arange(-100, 100)
    actual = compiled_kernels.compile(lambda x: x + x * 1_000_003, x)
    assert compiled_kernels.ops == [["mul", "add"]]
    assert torch.equal(actual.cpu(), x + x * 1_000_003)


# --- matmuls and norms ----------------------------------------------------------------------------


def test_matmul_ignores_padding_of_the_inner_dim(compiled_kernels):
    """The padding of the last stick, NaN here, does not reach the result."""
    x = torch.full((67, 128), torch.nan).half()
    x[:, :67] = make_tensor(67, 67)
    actual = compiled_kernels.compile(lambda x: torch.mm(x[:, :67], x[:, :67]), x)
    assert compiled_kernels.ops == [["batchmatmul"]]
    factor = to_reference(to_card(x))[:, :67]
    assert_close(actual, factor @ factor, units=8, scale=8)


def test_matmul_with_inner_dim_of_one_becomes_mul(compiled_kernels):
    x, y = make_tensor(8, 1), make_tensor(1, 128)
    actual = compiled_kernels.compile(torch.mm, x, y)
    assert compiled_kernels.ops == [["mul"]]
    assert_close(actual, to_reference(x) @ to_reference(y))


def test_matmul_of_heads_is_a_single_batchmatmul(compiled_kernels):
    query, key = make_tensor(2, 4, 64, 64), make_tensor(2, 4, 48, 64)
    actual = compiled_kernels.compile(lambda query, key: query @ key.transpose(-1, -2), query, key)
    assert compiled_kernels.ops == [["ReStickifyOpHBM"], ["batchmatmul"]]
    assert_close(
        actual, to_reference(query) @ to_reference(key).transpose(-1, -2), units=8, scale=8
    )


def test_weight_is_shared_by_the_batch(compiled_kernels):
    x, weight = make_tensor(3, 32, 64), make_tensor(64, 128)
    actual = compiled_kernels.compile(lambda x, weight: x @ weight, x, weight)
    ((spec,),) = compiled_kernels.programs
    assert spec.op == "batchmatmul"
    assert list(spec.args[1].device_size) == [2, 64, 64]
    assert_close(actual, to_reference(x) @ to_reference(weight), units=8, scale=8)


def test_linear_layer_is_one_program_without_copies(compiled_kernels):
    torch.manual_seed(0)
    layer = torch.nn.Linear(128, 192).half()
    x = make_tensor(4, 32, 128)
    with torch.no_grad():
        actual = compiled_kernels.compile(layer.to("spyre"), x)
        assert compiled_kernels.ops == [["batchmatmul", "add"]]
        expected = functional.linear(*to_reference((to_card(x), layer.weight, layer.bias)))
    assert_close(actual, expected, units=8)


@pytest.mark.parametrize("dims", [1, 2])
def test_layer_norm_is_one_program_over_any_dims(dims, compiled_kernels):
    x = make_tensor(32, 3, 192)
    shape = x.shape[-dims:]
    actual = compiled_kernels.compile(lambda x: functional.layer_norm(x, shape), x)
    (ops,) = compiled_kernels.ops
    assert ops.count("mean") == 2 and ops.count("rsqrt") == 1
    assert_close(actual, functional.layer_norm(to_reference(to_card(x)), shape), units=16)


# --- arguments and memory -------------------------------------------------------------------------


def test_kernel_with_many_arguments_is_one_program(compiled_kernels):
    tensors = [make_tensor(8, 64, low=0, high=0.1) for _ in range(20)]
    actual = compiled_kernels.compile(lambda *tensors: sum(tensors[1:], tensors[0]), *tensors)
    assert compiled_kernels.ops == [["add"] * 19]
    assert_close(actual, sum(to_reference(to_card(tensors))), units=32)


def test_internal_tensors_are_not_arguments():
    text = wrapper_text(lambda x: (x.softmax(-1) @ x.t()).softmax(-1), make_tensor(64, 128))
    calls = [line for line in text.splitlines() if ".run(" in line]
    assert [call.split(".run")[1] for call in calls] == ["(arg0_1, buf6)"]
    assert text.count("spyre_empty_with_layout((") == 1


# --- caches ---------------------------------------------------------------------------------------


def test_new_layout_is_compiled_once(compiled_kernels):
    def function(x):
        return x.exp() + 1

    turned = torch.spyre.SpyreTensorLayout([70, 130], [130, 1], torch.float16, [1, 0])
    values = make_tensor(70, 130)
    plain, other = values.to("spyre"), values.to("spyre", device_layout=turned)
    compiled_kernels.compile(function, plain)
    compiled = torch.compile(function)
    counts = []
    with torch._inductor.config.patch(fx_graph_cache=False):
        for tensor in (plain, other, other, plain):
            compiled(tensor)
            counts.append(len(compiled_kernels.programs))
    first = counts[0]
    assert counts == [first, first + 1, first + 1, first + 1]


def test_cache_artifacts_are_reused(tmp_path):
    from torch._inductor.utils import fresh_cache

    def call():
        torch._dynamo.reset()
        counters.clear()
        actual = torch.compile(lambda x: x.tanh() * 3 - 1)(make_tensor(9, 77).to("spyre"))
        assert_close(actual, to_reference(to_card(make_tensor(9, 77))).tanh() * 3 - 1, units=8)
        actual = counters["inductor"]
        return actual["fxgraph_cache_hit"], actual["fxgraph_cache_miss"]

    with fresh_cache():
        assert call() == (0, 1)
        artifacts, _ = torch.compiler.save_cache_artifacts()
    with fresh_cache():
        torch.compiler.load_cache_artifacts(artifacts)
        assert call() == (1, 0)
