"""Tests of the search for the layouts with the cheapest copies."""

import pytest
from layout_graphs import F32, D, at, graph_input, loops, matmul, pointwise, result

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts import Buffer, LayoutOp, plan_layouts

SIDE = 128
ELEMENTS = SIDE * SIDE
a, b, c, d, e, x, y = INPUTS = [graph_input(name, SIDE, SIDE) for name in "abcdexy"]
t0, t1, t2, t3 = (result(f"t{index}", SIDE, SIDE) for index in range(4))
IDENTITY, TRANSPOSED = (0, 1), (1, 0)
LEFT, LEFT_TRANSPOSED, RIGHT, RIGHT_TRANSPOSED = (0, 2), (2, 0), (2, 1), (1, 2)
CUBE = (SIDE, SIDE, SIDE)

GRAPHS = {
    "a.t() + x": (1, [pointwise(t0, (a, TRANSPOSED), (x, IDENTITY))]),
    "a.t() + b.t() + x": (
        1,
        [
            pointwise(t0, (a, TRANSPOSED), (b, TRANSPOSED)),
            pointwise(t1, (t0, IDENTITY), (x, IDENTITY)),
        ],
    ),
    "a.t() + x + b.t() + y": (
        2,
        [
            pointwise(t0, (a, TRANSPOSED), (x, IDENTITY)),
            pointwise(t1, (t0, IDENTITY), (b, TRANSPOSED)),
            pointwise(t2, (t1, IDENTITY), (y, IDENTITY)),
        ],
    ),
    "(a @ b) @ c": (
        0,
        [matmul(t0, (a, LEFT), (b, RIGHT), CUBE), matmul(t1, (t0, LEFT), (c, RIGHT), CUBE)],
    ),
    "a.t() @ b": (1, [matmul(t0, (a, LEFT_TRANSPOSED), (b, RIGHT), CUBE)]),
    "a.t() @ b.t()": (2, [matmul(t0, (a, LEFT_TRANSPOSED), (b, RIGHT_TRANSPOSED), CUBE)]),
    "(a + b.t() + c.t() + d.t()) @ e": (
        2,
        [
            pointwise(t0, (a, IDENTITY), (b, TRANSPOSED)),
            pointwise(t1, (t0, IDENTITY), (c, TRANSPOSED)),
            pointwise(t2, (t1, IDENTITY), (d, TRANSPOSED)),
            matmul(t3, (t2, LEFT), (e, RIGHT), CUBE),
        ],
    ),
    "a @ (b + c.t())": (
        1,
        [pointwise(t0, (b, IDENTITY), (c, TRANSPOSED)), matmul(t1, (a, LEFT), (t0, RIGHT), CUBE)],
    ),
    "ones_like(x) + x.t()": (
        0,
        [pointwise(t0, kind="fill"), pointwise(t1, (t0, IDENTITY), (x, TRANSPOSED))],
    ),
    "a.t() + x, a.t() * y": (
        1,
        [
            pointwise(t0, (a, TRANSPOSED), (x, IDENTITY)),
            pointwise(t1, (a, TRANSPOSED), (y, IDENTITY)),
        ],
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_search_finds_the_cheapest_copies(name):
    num_copies, ops = GRAPHS[name]
    plan = plan_layouts(INPUTS, ops)
    assert plan.cost == num_copies * ELEMENTS
    assert sum({copy.name: copy.cost for copy in plan.copies}.values()) == plan.cost
    assert set(plan.layouts) == {buffer.name for buffer in INPUTS} | {
        op.write.buffer.name for op in ops
    }


@pytest.mark.parametrize("name", GRAPHS)
def test_the_search_is_at_least_as_good_as_the_greedy_choice(name):
    _, ops = GRAPHS[name]
    searched, greedy = (plan_layouts(INPUTS, ops, global_search=on) for on in (True, False))
    assert searched.cost <= greedy.cost


def test_the_greedy_choice_does_not_look_ahead():
    _, ops = GRAPHS["(a + b.t() + c.t() + d.t()) @ e"]
    assert plan_layouts(INPUTS, ops, global_search=False).cost == 3 * ELEMENTS


SHAPE_4D = (64, 64, 64, 64)
IDENTITY_4D = (0, 1, 2, 3)
SWAPPED = {0: (3, 1, 2, 0), 1: (0, 3, 2, 1), 2: (0, 1, 3, 2)}


@pytest.mark.parametrize("swaps, copies", [((0, 1, 2), 3), ((0, 0, 0), 1)])
def test_each_distinct_stick_swap_is_copied_once(swaps, copies):
    inputs = [graph_input(f"q{index}", *SHAPE_4D) for index in range(4)]
    sums = [result(f"u{index}", *SHAPE_4D) for index in range(3)]
    ops = [
        pointwise(sums[0], (inputs[0], SWAPPED[swaps[0]]), (inputs[1], SWAPPED[swaps[1]])),
        pointwise(sums[1], (sums[0], IDENTITY_4D), (inputs[2], SWAPPED[swaps[2]])),
        pointwise(sums[2], (sums[1], IDENTITY_4D), (inputs[3], IDENTITY_4D)),
    ]
    assert plan_layouts(inputs, ops).cost == copies * 64**4


def test_equal_copies_are_merged():
    ops = [
        pointwise(t0, (a, TRANSPOSED), (x, IDENTITY)),
        pointwise(t1, (a, TRANSPOSED), (y, IDENTITY)),
        matmul(t2, (t0, LEFT), (t1, RIGHT), CUBE),
    ]
    plan = plan_layouts(INPUTS, ops)
    assert [(copy.op_name, copy.read_position) for copy in plan.copies] == [
        ("op_t0", 0),
        ("op_t1", 0),
    ]
    assert len({copy.name for copy in plan.copies}) == 1


def test_two_reads_of_one_buffer_get_separate_copies():
    plan = plan_layouts([a], [pointwise(t0, (a, TRANSPOSED), (a, IDENTITY))])
    assert len(plan.copies) == 1
    assert plan.cost == ELEMENTS


def test_a_copy_is_not_reused_after_its_source_was_mutated():
    mutation = LayoutOp(
        "mutation", "mutation", loops(SIDE, SIDE), [at(x, D[0], D[1])], at(a, D[0], D[1])
    )
    ops = [
        pointwise(t0, (a, TRANSPOSED), (x, IDENTITY)),
        mutation,
        pointwise(t1, (a, TRANSPOSED), (y, IDENTITY)),
        matmul(t2, (t0, LEFT), (t1, RIGHT), CUBE),
    ]
    plan = plan_layouts(INPUTS, ops)
    assert len({copy.name for copy in plan.copies}) == 2
    assert plan.cost == 2 * ELEMENTS


def test_a_restickified_copy_swaps_row_and_stick():
    (copy,) = plan_layouts(INPUTS, [pointwise(t0, (a, TRANSPOSED), (x, IDENTITY))]).copies
    assert (copy.kind, copy.source, copy.op_name, copy.read_position) == (
        "restickify",
        "a",
        "op_t0",
        0,
    )
    assert (copy.target_layout.device_size, copy.target_layout.stride_map) == (
        [2, 128, 64],
        [8192, 1, 128],
    )
    assert copy.reason == "sticks along d0, the op needs sticks along d1"


def test_a_narrow_beam_finds_a_plan():
    _, ops = GRAPHS["a.t() + x + b.t() + y"]
    assert plan_layouts(INPUTS, ops, beam_width=2).cost >= 2 * ELEMENTS


def test_the_search_state_does_not_grow_in_a_long_chain():
    """Dead buffers are dropped, so that the search is linear in the number of ops."""
    chain = [result(f"s{index}", SIDE, SIDE) for index in range(101)]
    ops = [pointwise(chain[0], (a, TRANSPOSED), (x, IDENTITY))]
    for before, after in zip(chain, chain[1:], strict=False):
        ops.append(pointwise(after, (before, IDENTITY), (b, TRANSPOSED)))
    plan = plan_layouts(INPUTS, ops)
    assert plan.cost == ELEMENTS


def test_weights_with_the_stick_along_rows_need_no_copy():
    weight = graph_input("w", SIDE, 256, order=[1, 0])
    out, wide = result("out", 32, SIDE), graph_input("wide", 32, 256)
    op = matmul(out, (wide, LEFT), (weight, RIGHT_TRANSPOSED), (32, SIDE, 256))
    assert plan_layouts([weight, wide], [op]).copies == []


def test_an_input_without_a_layout_is_rejected():
    with pytest.raises(ValueError, match="graph input t0 has no device layout"):
        plan_layouts([t0], [])


def test_a_read_of_an_unwritten_buffer_is_rejected():
    with pytest.raises(ValueError, match="op_t1 reads t0, neither an input nor written"):
        plan_layouts([], [pointwise(t1, (t0, IDENTITY))])


def test_an_unknown_kind_of_op_is_rejected():
    with pytest.raises(ValueError, match="'unknown' is not one of"):
        pointwise(t0, kind="unknown")


def test_an_empty_graph_has_the_layouts_of_its_inputs():
    assert plan_layouts([a], []).layouts == {"a": a.layout}


def test_a_conversion_has_the_stick_size_of_its_result():
    fp16, fp32 = graph_input("fp16", 4, 100), result("fp32", 4, 100, dtype=F32)
    plan = plan_layouts([fp16], [pointwise(fp32, (fp16, IDENTITY))])
    assert plan.copies == []
    assert plan.layouts["fp32"] == SpyreTensorLayout([4, 100], F32)


def test_a_buffer_with_transposed_strides_needs_no_copy():
    transposed = Buffer("transposed", (SIDE, SIDE), (1, SIDE), a.dtype)
    plan = plan_layouts([a], [pointwise(transposed, (a, IDENTITY))])
    assert plan.cost == 0
