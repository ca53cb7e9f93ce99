"""Tests of the layouts and copies that each kind of op gets."""

import pytest
import sympy
from layout_graphs import F16, D, at, graph_input, loops, matmul, pointwise, result

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts import WRITE, Access, Buffer, LayoutOp, plan_layouts

d0, d1, d2 = D[:3]
t = sympy.Symbol("t", integer=True)


def reduction(out, read, sizes, kind="reduction", written=None):
    written = at(out, *D[: len(out.size)]) if written is None else written
    return LayoutOp("reduce", kind, loops(*sizes), [read], written)


def plan_of(inputs, op):
    """Return the layout of the result, and the kinds of the copies."""
    plan = plan_layouts(inputs, [op])
    layout = plan.layouts[op.write.buffer.name]
    return (layout.device_size, layout.stride_map), [copy.kind for copy in plan.copies]


# --- Reductions -----------------------------------------------------------------------------------

X = graph_input("x", 128, 256)


def test_a_sum_over_rows_preserves_the_stick():
    op = reduction(result("out", 256), at(X, d1, d0), (256, 128))
    assert plan_of([X], op) == (([4, 64], [64, 1]), [])


def test_a_sum_over_the_stick_has_one_element_per_stick():
    op = reduction(result("out", 128), at(X, d0, d1), (128, 256))
    assert plan_of([X], op) == (([1, 128, 64], [-1, 1, -1]), [])


def test_a_sum_over_the_stick_with_keepdim():
    out = result("out", 128, 1)
    op = reduction(out, at(X, d0, d1), (128, 256), written=at(out, d0, 0))
    assert plan_of([X], op) == (([1, 1, 128, 64], [-1, -1, 1, -1]), [])


def test_a_sum_over_all_dims():
    out = result("out")
    op = reduction(out, at(X, d0, d1), (128, 256), written=at(out))
    assert plan_of([X], op) == (([1, 64], [-1, -1]), [])


# --- Pointwise ------------------------------------------------------------------------------------


def test_row_means_broadcast_along_the_stick_without_a_copy():
    mean, out = result("mean", 128, 1), result("out", 128, 256)
    ops = [
        reduction(mean, at(X, d0, d1), (128, 256), written=at(mean, d0, 0)),
        pointwise(out, at(X, d0, d1), at(mean, d0, 0)),
    ]
    plan = plan_layouts([X], ops)
    assert plan.copies == []
    assert plan.layouts["out"] == X.layout


def test_a_dense_column_is_restickified_to_one_element_per_stick():
    column, out = graph_input("column", 128), result("out", 128, 256)
    plan = plan_layouts([X, column], [pointwise(out, at(X, d0, d1), at(column, d0))])
    (copy,) = plan.copies
    assert (copy.source, copy.kind) == ("column", "restickify")
    assert copy.target_layout.device_size == [1, 128, 64]


def test_a_result_of_one_element_per_stick_is_copied_to_dense_sticks():
    square = graph_input("square", 128, 128)
    total, out = result("total", 128), result("out", 128, 128)
    ops = [
        reduction(total, at(square, d0, d1), (128, 128)),
        pointwise(out, at(total, d1), at(square, d0, d1)),
    ]
    plan = plan_layouts([square], ops)
    (copy,) = plan.copies
    assert copy.source == "total"
    assert copy.target_layout == SpyreTensorLayout([128], F16)


def test_the_dim_order_of_an_input_is_preserved():
    transposed = graph_input("transposed", 5, 100, 150, order=[1, 0, 2])
    out = result("out", 5, 100, 150)
    plan = plan_layouts([transposed], [pointwise(out, (transposed, (0, 1, 2)))])
    assert plan.layouts["out"] == transposed.layout


def test_the_result_of_a_slice_does_not_get_the_size_of_its_base():
    base = graph_input("base", 1000, 256)
    first_rows = Buffer("rows", (4, 256), base.stride, F16, base.layout)
    out = result("out", 4, 256)
    plan = plan_layouts([first_rows], [pointwise(out, (first_rows, (0, 1)))])
    assert plan.copies == []
    assert plan.layouts["out"] == SpyreTensorLayout([4, 256], F16)


def test_the_order_of_dims_other_than_the_stick_may_differ():
    transposed, plain = (
        graph_input("transposed", 5, 100, 150, order=[1, 0, 2]),
        graph_input("plain", 5, 100, 150),
    )
    out = result("out", 5, 100, 150)
    op = pointwise(out, (transposed, (0, 1, 2)), (plain, (0, 1, 2)))
    assert plan_layouts([transposed, plain], [op]).copies == []


def test_scalars_need_no_copy():
    scalar, out = graph_input("scalar"), result("out", 128, 256)
    assert plan_layouts([X, scalar], [pointwise(out, at(X, d0, d1), at(scalar))]).copies == []


@pytest.mark.parametrize(
    "name, index, width",
    [
        ("a start inside a stick", 256 * d0 + d1 + 10, 200),
        ("every other column", 256 * d0 + 2 * d1, 128),
        ("windows that overlap", 100 * d0 + d1, 128),
    ],
)
def test_accesses_that_are_not_aligned_with_sticks_are_copied(name, index, width):
    out = result("out", 100, width)
    other = graph_input("other", 100, width)
    op = LayoutOp(
        "op",
        "pointwise",
        loops(100, width),
        [Access(X, index), at(other, d0, d1)],
        at(out, d0, d1),
    )
    plan = plan_layouts([X, other], [op])
    assert {copy.source for copy in plan.copies} <= {"x", "other"}
    assert plan.copies


def test_a_gather_stores_elements_in_the_order_of_the_loops():
    """For rows flattened over ragged sticks, no layout of the buffer has the flat loop as stick."""
    ragged, out = graph_input("ragged", 5, 70), result("out", 350)
    flat = graph_input("flat", 350)
    op = LayoutOp(
        "op",
        "pointwise",
        loops(350),
        [at(ragged, 0, d0), at(flat, d0)],
        at(out, d0),
    )
    (copy,) = plan_layouts([ragged, flat], [op]).copies
    assert (copy.kind, copy.size, copy.stride) == ("gather", (350,), (1,))
    assert copy.target_layout == SpyreTensorLayout([350], F16)
    assert copy.index == d0


def test_a_gather_iterates_only_over_the_loops_of_its_access():
    """The access is a column within sticks, broadcast over the columns of the result."""
    other, out = graph_input("other", 128, 256), result("out", 128, 256)
    op = pointwise(out, at(X, d0, 5), at(other, d0, d1))
    (copy,) = plan_layouts([X, other], [op]).copies
    assert (copy.kind, copy.size, copy.ranges, copy.index) == ("gather", (128,), {d0: 128}, d0)
    assert copy.target_layout.device_size == [1, 128, 64]


@pytest.mark.parametrize("start, copies", [(0, 0), (64, 0), (10, 1)])
def test_slices_at_stick_boundaries_need_no_copy(start, copies):
    out, other = result("out", 128, 128), graph_input("other", 128, 128)
    op = pointwise(out, at(X, d0, d1, offset=start), at(other, d0, d1))
    assert len(plan_layouts([X, other], [op]).copies) == copies


def test_a_diagonal_is_gathered():
    """Its lanes follow the loop, but each element is in another stick."""
    square, other, out = (
        graph_input("square", 128, 128),
        graph_input("other", 128),
        result("out", 128),
    )
    op = pointwise(out, at(square, d0, d0), at(other, d0))
    (copy,) = plan_layouts([square, other], [op]).copies
    assert (copy.source, copy.kind) == ("square", "gather")


def test_an_expanded_column_is_written_to_dense_sticks():
    column, out = graph_input("column", 128, 1), result("out", 128, 256)
    plan = plan_layouts([column], [pointwise(out, at(column, d0, 0))])
    assert plan.copies == []
    assert plan.layouts["out"] == SpyreTensorLayout([128, 256], F16)


def test_one_element_per_stick_is_preserved():
    column, out = graph_input("column", 128, 1), result("out", 128, 1)
    plan = plan_layouts([column], [pointwise(out, at(column, d0, 0))])
    assert plan.copies == []
    assert plan.layouts["out"] == column.layout


# --- Matmul ---------------------------------------------------------------------------------------


def test_matmul_of_one_row():
    row, weight, out = (
        graph_input("row", 1, 128),
        graph_input("weight", 128, 192),
        result("out", 1, 192),
    )
    op = LayoutOp(
        "mm",
        "matmul",
        loops(1, 192, 128),
        [at(row, d0, d2), at(weight, d2, d1)],
        at(out, d0, d1),
    )
    assert plan_of([row, weight], op) == (([3, 1, 64], [64, -1, 1]), [])


def test_matmul_with_one_column_has_one_element_per_stick():
    left, column, out = (
        graph_input("left", 64, 128),
        graph_input("column", 128, 1),
        result("out", 64, 1),
    )
    op = matmul(out, (left, (0, 2)), (column, (2, 1)), (64, 1, 128))
    assert plan_of([left, column], op) == (([1, 64, 64], [-1, 1, -1]), [])


def test_a_batch_of_one_has_the_dim_order_of_a_batch():
    left, right, out = (
        graph_input("left", 1, 55, 64),
        graph_input("right", 1, 64, 128),
        result("out", 1, 55, 128),
    )
    op = LayoutOp(
        "bmm",
        "matmul",
        loops(1, 55, 128, 64),
        [at(left, d0, d1, D[3]), at(right, d0, D[3], d2)],
        at(out, d0, d1, d2),
    )
    assert plan_of([left, right], op) == (([55, 2, 1, 64], [128, 64, -1, 1]), [])


# --- Clones, index tensors, mutations -------------------------------------------------------------


def test_a_clone_of_any_view_needs_no_copy():
    out = result("out", 128, 100)
    op = LayoutOp("clone", "clone", loops(128, 100), [at(X, d0, 2 * d1, offset=3)], at(out, d0, d1))
    plan = plan_layouts([X], [op])
    assert plan.copies == []
    assert plan.layouts["out"] == SpyreTensorLayout([128, 100], F16)


def embedding(table, out, index):
    return LayoutOp(
        "embed",
        "pointwise",
        loops(*out.size),
        [at(index, d0, is_index=True), at(table, t, d1)],
        at(out, d0, d1),
    )


def test_an_embedding_needs_no_copy():
    table, index, out = (
        graph_input("table", 100, 256),
        graph_input("index", 12),
        result("out", 12, 256),
    )
    assert plan_layouts([table, index], [embedding(table, out, index)]).copies == []


def test_a_table_with_an_indexed_stick_is_copied():
    table = graph_input("table", 100, 256, order=[1, 0])
    index, out = graph_input("index", 12), result("out", 12, 256)
    plan = plan_layouts([table, index], [embedding(table, out, index)])
    (copy,) = plan.copies
    assert copy.source == "table"
    assert plan.layouts["out"] == SpyreTensorLayout([12, 256], F16)


def test_a_mutation_preserves_the_layout_of_its_target():
    transposed = graph_input("transposed", 128, 256, order=[1, 0])
    op = LayoutOp("add_", "mutation", loops(128, 256), [at(X, d0, d1)], at(transposed, d0, d1))
    plan = plan_layouts([X, transposed], [op])
    assert plan.layouts["transposed"] == transposed.layout
    assert [copy.source for copy in plan.copies] == ["x"]


def test_a_mutation_within_sticks_is_scattered_after_the_op():
    small = graph_input("small", 128, 20)
    op = LayoutOp("add_", "mutation", loops(128, 20), [at(small, d0, d1)], at(X, d0, d1, offset=10))
    (copy,) = plan_layouts([X, small], [op]).copies
    assert (copy.kind, copy.read_position, copy.source) == ("scatter", WRITE, "x")
    assert copy.size == (128, 20)


def test_a_mutation_of_an_unwritten_buffer_is_rejected():
    op = pointwise(result("out", 4), kind="mutation")
    with pytest.raises(ValueError, match="mutates out, which has no layout yet"):
        plan_layouts([], [op])
