import pytest
import sympy
from layout_graphs import F16, D, at, given, loops, made, matmul, pointwise

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts import WRITE, Access, Buffer, LayoutOp, plan_layouts

d0, d1, d2 = D[:3]
t = sympy.Symbol("t", integer=True)


def reduction(out, read, sizes, kind="reduction", written=None):
    written = at(out, *D[: len(out.size)]) if written is None else written
    return LayoutOp("reduce", kind, loops(*sizes), [read], written)


def planned(inputs, op):
    plan = plan_layouts(inputs, [op])
    layout = plan.layouts[op.write.buffer.name]
    return (layout.device_size, layout.stride_map), [copy.kind for copy in plan.copies]


# --- Reductions -----------------------------------------------------------------------------------

X = given("x", 128, 256)


def test_a_sum_over_rows_keeps_the_stick():
    op = reduction(made("out", 256), at(X, d1, d0), (256, 128))
    assert planned([X], op) == (([4, 64], [64, 1]), [])


def test_a_sum_over_the_stick_leaves_one_result_per_stick():
    op = reduction(made("out", 128), at(X, d0, d1), (128, 256))
    assert planned([X], op) == (([1, 128, 64], [-1, 1, -1]), [])


def test_a_sum_over_the_stick_that_keeps_its_dim():
    out = made("out", 128, 1)
    op = reduction(out, at(X, d0, d1), (128, 256), written=at(out, d0, 0))
    assert planned([X], op) == (([1, 1, 128, 64], [-1, -1, 1, -1]), [])


def test_a_sum_of_everything():
    out = made("out")
    op = reduction(out, at(X, d0, d1), (128, 256), written=at(out))
    assert planned([X], op) == (([1, 64], [-1, -1]), [])


def test_exx2_runs_along_the_reduced_stick():
    out = made("out", 128, 1)
    turned = given("turned", 128, 256, order=[1, 0])
    for source, copies in ((X, []), (turned, ["restickify"])):
        op = reduction(out, at(source, d0, d1), (128, 256), "exx2", at(out, d0, 0))
        assert planned([source], op) == (([1, 1, 128, 64], [-1, -1, 1, -1]), copies)


def test_exx2_over_single_elements_reads_single_elements():
    dense, out = given("dense", 128), made("out", 128)
    op = reduction(out, at(dense, d0), (128, 1), "exx2")
    assert planned([dense], op) == (([1, 128, 64], [-1, 1, -1]), ["restickify"])


def test_topk_does_not_run_along_the_stick():
    out = made("out", 4, 128)
    down = reduction(out, at(X, d2, d1), (4, 128, 128), "topk", at(out, d0, d1))
    assert planned([X], down) == (([2, 4, 64], [64, 128, 1]), [])
    out = made("out", 128, 4)
    along = reduction(out, at(X, d0, d2), (128, 4, 256), "topk", at(out, d0, d1))
    assert planned([X], along) == (([2, 4, 64], [256, 1, 4]), ["restickify"])


# --- Pointwise ------------------------------------------------------------------------------------


def test_row_means_broadcast_along_the_stick_for_free():
    mean, out = made("mean", 128, 1), made("out", 128, 256)
    ops = [
        reduction(mean, at(X, d0, d1), (128, 256), written=at(mean, d0, 0)),
        pointwise(out, at(X, d0, d1), at(mean, d0, 0)),
    ]
    plan = plan_layouts([X], ops)
    assert plan.copies == []
    assert plan.layouts["out"] == X.layout


def test_a_column_of_dense_sticks_is_spread_over_sticks_or_the_rows_move():
    column, out = given("column", 128), made("out", 128, 256)
    plan = plan_layouts([X, column], [pointwise(out, at(X, d0, d1), at(column, d0))])
    (copy,) = plan.copies
    assert (copy.source, copy.kind) == ("column", "restickify")
    assert copy.target_layout.device_size == [1, 128, 64]


def test_results_in_single_elements_meet_dense_ones_through_a_copy():
    square = given("square", 128, 128)
    total, out = made("total", 128), made("out", 128, 128)
    ops = [
        reduction(total, at(square, d0, d1), (128, 128)),
        pointwise(out, at(total, d1), at(square, d0, d1)),
    ]
    plan = plan_layouts([square], ops)
    (copy,) = plan.copies
    assert copy.source == "total"
    assert copy.target_layout == SpyreTensorLayout([128], F16)


def test_the_frame_of_an_input_is_kept():
    turned = given("turned", 5, 100, 150, order=[1, 0, 2])
    out = made("out", 5, 100, 150)
    plan = plan_layouts([turned], [pointwise(out, (turned, (0, 1, 2)))])
    assert plan.layouts["out"] == turned.layout


def test_a_slice_does_not_pass_on_the_size_of_its_base():
    base = given("base", 1000, 256)
    first_rows = Buffer("rows", (4, 256), base.stride, F16, base.layout)
    out = made("out", 4, 256)
    plan = plan_layouts([first_rows], [pointwise(out, (first_rows, (0, 1)))])
    assert plan.copies == []
    assert plan.layouts["out"] == SpyreTensorLayout([4, 256], F16)


def test_orders_of_other_dims_may_differ():
    turned, plain = given("turned", 5, 100, 150, order=[1, 0, 2]), given("plain", 5, 100, 150)
    out = made("out", 5, 100, 150)
    op = pointwise(out, (turned, (0, 1, 2)), (plain, (0, 1, 2)))
    assert plan_layouts([turned, plain], [op]).copies == []


def test_scalars_ask_for_nothing():
    scalar, out = given("scalar"), made("out", 128, 256)
    assert plan_layouts([X, scalar], [pointwise(out, at(X, d0, d1), at(scalar))]).copies == []


@pytest.mark.parametrize(
    "what, index, width",
    [
        ("a start inside a stick", 256 * d0 + d1 + 10, 200),
        ("every other column", 256 * d0 + 2 * d1, 128),
        ("windows that overlap", 100 * d0 + d1, 128),
    ],
)
def test_what_is_not_aligned_with_sticks_is_copied(what, index, width):
    out = made("out", 100, width)
    other = given("other", 100, width)
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


def test_a_gather_holds_the_values_as_they_are_read():
    """Rows flattened over ragged sticks: no layout of the buffer makes the flat loop its stick."""
    ragged, out = given("ragged", 5, 70), made("out", 350)
    flat = given("flat", 350)
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


def test_a_gather_runs_over_the_loops_of_its_access_alone():
    """A column from the middle of the sticks, broadcast over the columns of the result."""
    other, out = given("other", 128, 256), made("out", 128, 256)
    op = pointwise(out, at(X, d0, 5), at(other, d0, d1))
    (copy,) = plan_layouts([X, other], [op]).copies
    assert (copy.kind, copy.size, copy.ranges, copy.index) == ("gather", (128,), {d0: 128}, d0)
    assert copy.target_layout.device_size == [1, 128, 64]


@pytest.mark.parametrize("start, copies", [(0, 0), (64, 0), (10, 1)])
def test_slices_at_stick_boundaries_are_free(start, copies):
    out, other = made("out", 128, 128), given("other", 128, 128)
    op = pointwise(out, at(X, d0, d1, offset=start), at(other, d0, d1))
    assert len(plan_layouts([X, other], [op]).copies) == copies


def test_a_diagonal_is_gathered():
    """Its slots run with the loop, but each lies in another stick."""
    square, other, out = given("square", 128, 128), given("other", 128), made("out", 128)
    op = pointwise(out, at(square, d0, d0), at(other, d0))
    (copy,) = plan_layouts([square, other], [op]).copies
    assert (copy.source, copy.kind) == ("square", "gather")


def test_an_expanded_column_is_written_densely():
    column, out = given("column", 128, 1), made("out", 128, 256)
    plan = plan_layouts([column], [pointwise(out, at(column, d0, 0))])
    assert plan.copies == []
    assert plan.layouts["out"] == SpyreTensorLayout([128, 256], F16)


def test_single_elements_stay_single():
    column, out = given("column", 128, 1), made("out", 128, 1)
    plan = plan_layouts([column], [pointwise(out, at(column, d0, 0))])
    assert plan.copies == []
    assert plan.layouts["out"] == column.layout


# --- Matmul ---------------------------------------------------------------------------------------


def test_one_row_times_a_matrix():
    row, weight, out = given("row", 1, 128), given("weight", 128, 192), made("out", 1, 192)
    op = LayoutOp(
        "mm",
        "matmul",
        loops(1, 192, 128),
        [at(row, d0, d2), at(weight, d2, d1)],
        at(out, d0, d1),
    )
    assert planned([row, weight], op) == (([3, 1, 64], [64, -1, 1]), [])


def test_a_single_column_lies_in_single_elements():
    left, column, out = given("left", 64, 128), given("column", 128, 1), made("out", 64, 1)
    op = matmul(out, (left, (0, 2)), (column, (2, 1)), (64, 1, 128))
    assert planned([left, column], op) == (([1, 64, 64], [-1, 1, -1]), [])


def test_a_batch_of_one_keeps_the_order_of_dims():
    left, right, out = given("left", 1, 55, 64), given("right", 1, 64, 128), made("out", 1, 55, 128)
    op = LayoutOp(
        "bmm",
        "matmul",
        loops(1, 55, 128, 64),
        [at(left, d0, d1, D[3]), at(right, d0, D[3], d2)],
        at(out, d0, d1, d2),
    )
    assert planned([left, right], op) == (([55, 2, 1, 64], [128, 64, -1, 1]), [])


# --- Copies, index tensors, changes in place ------------------------------------------------------


def test_a_clone_reads_through_any_view():
    out = made("out", 128, 100)
    op = LayoutOp("clone", "clone", loops(128, 100), [at(X, d0, 2 * d1, offset=3)], at(out, d0, d1))
    plan = plan_layouts([X], [op])
    assert plan.copies == []
    assert plan.layouts["out"] == SpyreTensorLayout([128, 100], F16)


def embedded(table, out, index):
    return LayoutOp(
        "embed",
        "pointwise",
        loops(*out.size),
        [at(index, d0, is_index=True), at(table, t, d1)],
        at(out, d0, d1),
    )


def test_index_tensors_may_have_any_layout_and_tables_keep_their_stick():
    table, index, out = given("table", 100, 256), given("index", 12), made("out", 12, 256)
    assert plan_layouts([table, index], [embedded(table, out, index)]).copies == []


def test_a_table_whose_stick_is_indexed_is_moved():
    table = given("table", 100, 256, order=[1, 0])
    index, out = given("index", 12), made("out", 12, 256)
    plan = plan_layouts([table, index], [embedded(table, out, index)])
    (copy,) = plan.copies
    assert copy.source == "table"
    assert plan.layouts["out"] == SpyreTensorLayout([12, 256], F16)


def test_a_change_in_place_keeps_the_target_layout():
    turned = given("turned", 128, 256, order=[1, 0])
    op = LayoutOp("add_", "mutation", loops(128, 256), [at(X, d0, d1)], at(turned, d0, d1))
    plan = plan_layouts([X, turned], [op])
    assert plan.layouts["turned"] == turned.layout
    assert [copy.source for copy in plan.copies] == ["x"]


def test_a_change_inside_sticks_goes_through_a_copy_behind_the_op():
    small = given("small", 128, 20)
    op = LayoutOp("add_", "mutation", loops(128, 20), [at(small, d0, d1)], at(X, d0, d1, offset=10))
    (copy,) = plan_layouts([X, small], [op]).copies
    assert (copy.kind, copy.read_position, copy.source) == ("scatter", WRITE, "x")
    assert copy.size == (128, 20)


def test_a_change_of_what_nothing_wrote_is_refused():
    op = pointwise(made("out", 4), kind="mutation")
    with pytest.raises(ValueError, match="mutates out, which has no layout yet"):
        plan_layouts([], [op])
