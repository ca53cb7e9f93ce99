"""LoopTracer converts Inductor's loops to loop IR."""

from pathlib import Path

import pytest
import sympy
import torch
from cpu_reference import make_tensor, to_card
from torch.nn import functional

from torch_spyre._inductor import driver
from torch_spyre._inductor.loop_ir import (
    Constant,
    Coordinate,
    Load,
    Step,
    format_loop_op,
    traverse,
)
from torch_spyre._inductor.loop_tracer import LoopTracer
from torch_spyre.errors import UnsupportedError

C0, C1, R0 = (sympy.Symbol(name, integer=True) for name in ("c0", "c1", "r0"))
F16, F32, I32, BOOL = torch.float16, torch.float32, torch.int32, torch.bool


@pytest.fixture
def recorded(monkeypatch):
    """The loops of a compiled function, before any pass."""
    bundles = []
    run = driver.run_passes

    def noted(bundle):
        bundles.append(bundle)
        return run(bundle)

    monkeypatch.setattr(driver, "run_passes", noted)

    def record(function, *tensors):
        bundles.clear()
        torch._dynamo.reset()
        with torch._inductor.config.patch(fx_graph_cache=False):
            torch.compile(function)(*to_card(tensors))
        return [op for bundle in bundles for op in bundle.ops]

    return record


# --- loops ----------------------------------------------------------------------------------------


def test_contiguous_dims_are_not_merged(recorded):
    (op,) = recorded(torch.neg, make_tensor(6, 70))
    assert op.sizes == {C0: 6, C1: 70}
    assert op.write == 70 * C0 + C1
    assert op.value.op == "neg" and op.value.inputs[0].index == op.write


def test_size_one_dims_have_no_symbol(recorded):
    (op,) = recorded(torch.neg, make_tensor(1, 70))
    assert op.sizes == {C1: 70}
    (point,) = recorded(torch.neg, make_tensor(1, 1))
    assert (point.sizes, point.write) == ({}, 0)


def test_views_become_index_expressions(recorded):
    (op,) = recorded(lambda x: x.t()[2:5] + 1, make_tensor(6, 70))
    (load,) = op.loads
    assert load.index == C0 + 70 * C1 + 2
    assert op.sizes == {C0: 3, C1: 6}


def test_chain_is_one_loop_with_interned_steps(recorded):
    (op,) = recorded(lambda x: (x + 1) * (x + 1), make_tensor(6, 70))
    lines = [line.partition("  #")[0] for line in format_loop_op(op).splitlines()]
    assert lines[1:] == [
        "  %0 = arg0_1[70*c0 + c1] : float16",
        "  %1 = 1 : float16",
        "  %2 = add %0, %1 : float16",
        "  %3 = mul %2, %2 : float16",
        "  buf0[70*c0 + c1] = %3",
    ]


def test_reduction_has_its_own_symbols(recorded):
    (op,) = recorded(lambda x: x.exp().sum(1), make_tensor(6, 70))
    assert (op.value.op, op.reduced) == ("sum", (R0,))
    assert op.sizes == {C0: 6, R0: 70}
    assert op.value.inputs[0].op == "exp"


def test_mean_has_the_inverse_of_its_count(recorded):
    (op,) = recorded(lambda x: x.mean((0, 2)), make_tensor(4, 6, 8))
    assert op.value.constants == (("scaling_factor", 1 / 32),)


def test_any_is_a_max_of_bool(recorded):
    (op,) = recorded(lambda x: (x > 0).any(1), make_tensor(6, 70))
    assert op.value.op == "max"
    (flags,) = op.value.inputs
    assert flags.dtype == F16 and flags.op == "identity"
    assert flags.inputs[0].dtype == BOOL


def test_matmul_has_two_operands_even_of_the_same_tensor(recorded):
    (op,) = recorded(lambda x: x @ x, make_tensor(64, 64))
    assert op.is_matmul and op.reduced == (R0,)
    assert [load.index for load in op.reads] == [64 * C0 + R0, C1 + 64 * R0]
    assert {load.buffer for load in op.reads} == {"arg0_1"}


def test_indirect_indices(recorded):
    index = torch.tensor([3, 0, 5], dtype=I32)
    wrapped, op = recorded(lambda x, i: x[i] * 2, make_tensor(6, 70), index)
    # Negative ones count from the end: that is computed first.
    assert [load.buffer for load in wrapped.loads] == ["arg1_1"]
    (load,) = op.loads
    ((symbol, source),) = load.indirect
    assert load.index == 70 * symbol + C1
    assert (source.buffer, source.index, source.dtype) == (wrapped.name, C0, I32)
    assert op.indices == (source,)


# --- stores ---------------------------------------------------------------------------------------


def test_in_place_op_writes_its_target(recorded):
    _, op = recorded(lambda x: x.add_(1), make_tensor(6, 70))
    assert op.target == "arg0_1" != op.name and not op.is_partial


def test_partial_mutation_writes_only_the_slice(recorded):
    def function(x):
        x[2:4].add_(1)

    op = recorded(function, make_tensor(6, 70))[-1]
    assert op.target == "arg0_1" and op.is_partial
    assert op.write == 70 * C0 + C1 + 140


def test_pieces_of_a_cat_are_slices_of_its_buffer(recorded):
    first, second = recorded(
        lambda x, y: torch.cat([x * 2, y * 3]), make_tensor(2, 70), make_tensor(3, 70)
    )
    assert first.target == second.target not in (first.name, second.name)
    assert first.is_partial and second.is_partial
    assert second.write - first.write == 140


def test_scatter_has_an_indirect_write(recorded):
    def function(x, i, y):
        x.index_put_((i,), y)

    index = torch.tensor([4, 1])
    scattered = [
        op
        for op in recorded(function, make_tensor(6, 70), index, make_tensor(2, 70))
        if op.scattered
    ]
    assert scattered and all(op.is_partial for op in scattered)
    ((symbol, source),) = scattered[-1].scattered
    assert source.dtype == torch.int64 and scattered[-1].write == 70 * symbol + C1


def test_steps_of_one_loop_have_their_own_origins(recorded):
    (op,) = recorded(lambda x: functional.relu(x.exp()), make_tensor(6, 70))
    steps = [node for node in traverse(op.roots) if isinstance(node, Step)]
    assert [(step.op, step.origin.op) for step in steps] == [
        ("exp", "aten.exp.default"),
        ("relufwd", "aten.relu.default"),
    ]
    assert op.origin == steps[-1].origin
    assert Path(op.origin.file).samefile(__file__) and "functional.relu" in op.origin.code


# --- single steps ---------------------------------------------------------------------------------


@pytest.fixture
def recorder():
    return LoopTracer()


X16, X32, XI, XB = (
    Load(f"x{number}", C0, dtype) for number, dtype in enumerate((F16, F32, I32, BOOL))
)


def test_scalars_take_the_dtype_of_the_other_operand(recorder):
    actual = recorder.add(X16, Constant(1.5, F32))
    assert actual.inputs == (X16, Constant(1.5, F16)) and actual.dtype == F16
    assert recorder.add(XI, Constant(2.0, F32)).inputs[1] == Constant(2, I32)


def test_operands_are_promoted_to_the_wider_dtype(recorder):
    actual = recorder.add(X16, X32)
    assert actual.dtype == F32
    assert [node.dtype for node in actual.inputs] == [F32, F32]
    assert actual.inputs[0].op == "dl16tofp32"


def test_comparisons_return_bool_and_where_accepts_it(recorder):
    flags = recorder.gt(X16, Constant(0, F16))
    assert (flags.op, flags.dtype) == ("greaterthan", BOOL)
    chosen = recorder.where(flags, X16, Constant(2, F16))
    assert (chosen.op, chosen.dtype) == ("where3", F16)
    # A numeric value becomes bool only by a comparison.
    assert recorder.where(X16, X16, X16).inputs[0].op == "notequal"


def test_conversion_to_the_same_dtype_is_omitted(recorder):
    assert recorder.to_dtype(X16, F16) is X16
    assert recorder.identity(X16) is X16
    assert recorder.to_dtype(Constant(1.7, F32), I32) == Constant(1, I32)


def test_decomposed_functions(recorder):
    assert (recorder.square(X16).op, recorder.square(X16).inputs) == ("mul", (X16, X16))
    assert recorder.relu(X16).op == "relufwd"
    assert recorder.relu(XI).op == "maximum"
    assert recorder.sign(X16).op == "sub"


def test_bool_variants_of_ops(recorder):
    assert recorder.maximum(XB, XB).op == "logicalor"
    assert recorder.maximum(XB, XB).dtype == BOOL


def test_equal_constants_of_different_dtypes_are_distinct_steps(recorder):
    steps = [recorder.add(X16, Constant(value, F16)) for value in (0.0, -0.0, 0.0)]
    assert steps[0] is steps[2] is not steps[1]


def test_constant_coordinates_are_constants(recorder):
    assert recorder.index_expr(sympy.Integer(7), I32) == Constant(7, I32)
    assert recorder.index_expr(C0 + 1, I32) == Coordinate(C0 + 1, I32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda recorder: recorder.masked(XB, lambda: X16, 0.0), "a masked load"),
        (
            lambda recorder: recorder.indirect_indexing(recorder.add(XI, XI), 8),
            "an index that is not loaded from memory",
        ),
        (lambda recorder: recorder.bessel_j0(X16), "loop op bessel_j0"),
    ],
    ids=["masked", "computed index", "unknown"],
)
def test_unsupported_ops_raise(call, message, recorder):
    with pytest.raises(UnsupportedError, match=message):
        call(recorder)


def test_index_has_one_symbol_per_indexed_size(recorder):
    symbol = recorder.indirect_indexing(XI, 8)
    assert recorder.indirect_indexing(XI, 8) == symbol
    assert recorder.indirect_indexing(recorder.step("identity", (XI,), I32), 8) == symbol
    assert recorder.indirect_indexing(XI, 9) != symbol
