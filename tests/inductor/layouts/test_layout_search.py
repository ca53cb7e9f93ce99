import pytest
from layout_graphs import F32, D, at, given, loops, made, matmul, pointwise

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts import Buffer, LayoutOp, plan_layouts

SIDE = 128
ELEMENTS = SIDE * SIDE
a, b, c, d, e, x, y = INPUTS = [given(name, SIDE, SIDE) for name in "abcdexy"]
t0, t1, t2, t3 = (made(f"t{number}", SIDE, SIDE) for number in range(4))
PLAIN, TURNED = (0, 1), (1, 0)
LEFT, LEFT_TURNED, RIGHT, RIGHT_TURNED = (0, 2), (2, 0), (2, 1), (1, 2)
CUBE = (SIDE, SIDE, SIDE)

GRAPHS = {
    "a.t() + x": (1, [pointwise(t0, (a, TURNED), (x, PLAIN))]),
    "a.t() + b.t() + x": (
        1,
        [pointwise(t0, (a, TURNED), (b, TURNED)), pointwise(t1, (t0, PLAIN), (x, PLAIN))],
    ),
    "a.t() + x + b.t() + y": (
        2,
        [
            pointwise(t0, (a, TURNED), (x, PLAIN)),
            pointwise(t1, (t0, PLAIN), (b, TURNED)),
            pointwise(t2, (t1, PLAIN), (y, PLAIN)),
        ],
    ),
    "(a @ b) @ c": (
        0,
        [matmul(t0, (a, LEFT), (b, RIGHT), CUBE), matmul(t1, (t0, LEFT), (c, RIGHT), CUBE)],
    ),
    "a.t() @ b": (1, [matmul(t0, (a, LEFT_TURNED), (b, RIGHT), CUBE)]),
    "a.t() @ b.t()": (2, [matmul(t0, (a, LEFT_TURNED), (b, RIGHT_TURNED), CUBE)]),
    "(a + b.t() + c.t() + d.t()) @ e": (
        2,
        [
            pointwise(t0, (a, PLAIN), (b, TURNED)),
            pointwise(t1, (t0, PLAIN), (c, TURNED)),
            pointwise(t2, (t1, PLAIN), (d, TURNED)),
            matmul(t3, (t2, LEFT), (e, RIGHT), CUBE),
        ],
    ),
    "a @ (b + c.t())": (
        1,
        [pointwise(t0, (b, PLAIN), (c, TURNED)), matmul(t1, (a, LEFT), (t0, RIGHT), CUBE)],
    ),
    "ones_like(x) + x.t()": (
        0,
        [pointwise(t0, kind="fill"), pointwise(t1, (t0, PLAIN), (x, TURNED))],
    ),
    "a.t() + x, a.t() * y": (
        1,
        [pointwise(t0, (a, TURNED), (x, PLAIN)), pointwise(t1, (a, TURNED), (y, PLAIN))],
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_copies_move_as_little_as_possible(name):
    squares, ops = GRAPHS[name]
    plan = plan_layouts(INPUTS, ops)
    assert plan.cost == squares * ELEMENTS
    assert sum({copy.name: copy.cost for copy in plan.copies}.values()) == plan.cost
    assert set(plan.layouts) == {each.name for each in INPUTS} | {
        op.write.buffer.name for op in ops
    }


@pytest.mark.parametrize("name", GRAPHS)
def test_the_greedy_choice_is_no_better_than_the_search(name):
    _, ops = GRAPHS[name]
    searched, greedy = (plan_layouts(INPUTS, ops, global_search=on) for on in (True, False))
    assert searched.cost <= greedy.cost


def test_the_greedy_choice_does_not_look_ahead():
    _, ops = GRAPHS["(a + b.t() + c.t() + d.t()) @ e"]
    assert plan_layouts(INPUTS, ops, global_search=False).cost == 3 * ELEMENTS


FOUR = (64, 64, 64, 64)
WHOLE = (0, 1, 2, 3)
SWAPPED = {0: (3, 1, 2, 0), 1: (0, 3, 2, 1), 2: (0, 1, 3, 2)}


@pytest.mark.parametrize("swaps, copies", [((0, 1, 2), 3), ((0, 0, 0), 1)])
def test_swaps_with_the_stick_are_copied_once_for_each_kind(swaps, copies):
    inputs = [given(f"q{number}", *FOUR) for number in range(4)]
    sums = [made(f"u{number}", *FOUR) for number in range(3)]
    ops = [
        pointwise(sums[0], (inputs[0], SWAPPED[swaps[0]]), (inputs[1], SWAPPED[swaps[1]])),
        pointwise(sums[1], (sums[0], WHOLE), (inputs[2], SWAPPED[swaps[2]])),
        pointwise(sums[2], (sums[1], WHOLE), (inputs[3], WHOLE)),
    ]
    assert plan_layouts(inputs, ops).cost == copies * 64**4


def test_equal_copies_are_shared_and_unequal_ones_are_not():
    ops = [
        pointwise(t0, (a, TURNED), (x, PLAIN)),
        pointwise(t1, (a, TURNED), (y, PLAIN)),
        matmul(t2, (t0, LEFT), (t1, RIGHT), CUBE),
    ]
    plan = plan_layouts(INPUTS, ops)
    assert [(copy.op_name, copy.read_position) for copy in plan.copies] == [
        ("op_t0", 0),
        ("op_t1", 0),
    ]
    assert len({copy.name for copy in plan.copies}) == 1


def test_two_readings_of_one_buffer_in_one_op_are_told_apart():
    plan = plan_layouts([a], [pointwise(t0, (a, TURNED), (a, PLAIN))])
    assert len(plan.copies) == 1
    assert plan.cost == ELEMENTS


def test_a_copy_made_before_its_source_changed_is_not_used_after():
    change = LayoutOp(
        "change", "mutation", loops(SIDE, SIDE), [at(x, D[0], D[1])], at(a, D[0], D[1])
    )
    ops = [
        pointwise(t0, (a, TURNED), (x, PLAIN)),
        change,
        pointwise(t1, (a, TURNED), (y, PLAIN)),
        matmul(t2, (t0, LEFT), (t1, RIGHT), CUBE),
    ]
    plan = plan_layouts(INPUTS, ops)
    assert len({copy.name for copy in plan.copies}) == 2
    assert plan.cost == 2 * ELEMENTS


def test_the_restickified_copy_swaps_row_and_stick():
    (copy,) = plan_layouts(INPUTS, [pointwise(t0, (a, TURNED), (x, PLAIN))]).copies
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


def test_a_narrow_beam_still_plans():
    _, ops = GRAPHS["a.t() + x + b.t() + y"]
    assert plan_layouts(INPUTS, ops, beam_width=2).cost >= 2 * ELEMENTS


def test_a_long_chain_is_planned_in_states_that_do_not_grow():
    """Dead buffers are forgotten, so a hundred ops cost a hundred times what one does."""
    chain = [made(f"s{number}", SIDE, SIDE) for number in range(101)]
    ops = [pointwise(chain[0], (a, TURNED), (x, PLAIN))]
    for before, after in zip(chain, chain[1:], strict=False):
        ops.append(pointwise(after, (before, PLAIN), (b, TURNED)))
    plan = plan_layouts(INPUTS, ops)
    assert plan.cost == ELEMENTS


def test_weights_with_their_stick_on_rows_need_no_copy():
    weight = given("w", SIDE, 256, order=[1, 0])
    out, wide = made("out", 32, SIDE), given("wide", 32, 256)
    op = matmul(out, (wide, LEFT), (weight, RIGHT_TURNED), (32, SIDE, 256))
    assert plan_layouts([weight, wide], [op]).copies == []


def test_an_input_without_a_layout_is_refused():
    with pytest.raises(ValueError, match="graph input t0 has no device layout"):
        plan_layouts([t0], [])


def test_a_reading_of_what_nothing_wrote_is_refused():
    with pytest.raises(ValueError, match="op_t1 reads t0, which nothing wrote before"):
        plan_layouts([], [pointwise(t1, (t0, PLAIN))])


def test_an_unknown_kind_of_op_is_refused():
    with pytest.raises(ValueError, match="'dance' is not one of"):
        pointwise(t0, kind="dance")


def test_an_empty_graph_has_the_layouts_of_its_inputs():
    assert plan_layouts([a], []).layouts == {"a": a.layout}


def test_a_conversion_takes_the_elements_per_stick_of_its_result():
    half, single = given("half", 4, 100), made("single", 4, 100, dtype=F32)
    plan = plan_layouts([half], [pointwise(single, (half, PLAIN))])
    assert plan.copies == []
    assert plan.layouts["single"] == SpyreTensorLayout([4, 100], F32)


def test_a_buffer_with_turned_strides_is_planned_by_its_strides():
    turned = Buffer("turned", (SIDE, SIDE), (1, SIDE), a.dtype)
    plan = plan_layouts([a], [pointwise(turned, (a, PLAIN))])
    assert plan.cost == 0
