"""Which loops become one program, and what of them reaches device memory."""

import pytest
import sympy
from loop_bundles import C0, C1, C2, R0, bundle, load, loop, product, step, tensor, total

from torch_spyre._inductor.passes.fusion import fuse
from torch_spyre._inductor.passes.op_specs import specs_of

ROWS, COLUMNS = 32, 128
SPACE = {C0: ROWS, C1: COLUMNS}
HERE = COLUMNS * C0 + C1
MATRICES = [tensor(name, ROWS, COLUMNS) for name in ("x", "y", "a", "b", "c", "d")]


def always(bundle, ops):
    return 32


def unary(op, name, source, at=HERE, **more):
    return loop(name, SPACE, step(op, load(source, at)), HERE, **more)


def groups(whole, cores_for=always):
    return [[op.name for op in group] for group in fuse(whole, cores_for).groups]


def places(whole):
    """Of every tensor that the programs touch: scratchpad, pool or argument."""
    fused = fuse(whole, always)
    found = {}
    for group in fused.groups:
        for spec in specs_of(fused, group):
            for arg in spec.args:
                found.setdefault(arg.name, set()).update(arg.allocation)
    return found


def test_a_chain_is_one_program_and_only_its_ends_are_in_memory():
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a"), unary("abs", "c", "b")]
    whole = bundle(ops, MATRICES, ["c"])
    assert groups(whole) == [["a", "b", "c"]]
    assert places(whole) == {"x": {"hbm"}, "a": {"lx"}, "b": {"lx"}, "c": {"hbm"}}


def test_what_others_see_is_written_too():
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a")]
    assert places(bundle(ops, MATRICES, ["a", "b"]))["a"] == {"lx", "hbm"}


def test_an_element_that_was_looked_up_is_no_loop_over_its_tensor():
    looked_up = sympy.Symbol("indirect0", integer=True)
    at = load("x", COLUMNS * C0 + looked_up, indirect=((looked_up, load("i", 0)),))
    picked = loop("p", {C0: ROWS}, step("neg", at), C0)
    both = loop("b", SPACE, step("add", load("x", HERE), load("p", C0)), HERE)
    tensors = [*MATRICES, tensor("p", ROWS), tensor("i", 1)]
    assert groups(bundle([picked, both], tensors, ["b"])) == [["p"], ["b"]]


def test_what_another_program_reads_is_in_the_pool():
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a", at=COLUMNS * C0 + COLUMNS - 1 - C1)]
    whole = bundle(ops, MATRICES, ["b"])
    assert groups(whole) == [["a"], ["b"]]
    assert places(whole)["a"] == {"pool"}


@pytest.mark.parametrize(
    "at",
    [
        C0 + ROWS * C1,  # transposed
        HERE + 1,
        COLUMNS * C0 + 2 * C1,
        COLUMNS * C0,  # every element of a row meets the first
        C1,
    ],
    ids=str,
)
def test_other_points_than_were_made_are_read_from_memory(at):
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a", at=at)]
    assert groups(bundle(ops, MATRICES, ["b"])) == [["a"], ["b"]]


def test_symbols_become_those_of_the_group():
    ops = [
        unary("exp", "a", "x"),
        loop(
            "b", {C1: ROWS, C2: COLUMNS}, step("neg", load("a", COLUMNS * C1 + C2)), 128 * C1 + C2
        ),
    ]
    ((first, second),) = fuse(bundle(ops, MATRICES, ["b"]), always).groups
    assert second.sizes == first.sizes and second.write == first.write
    assert [each.index for each in second.loads] == [HERE]


def softmax():
    maximum = total("m", {C0: ROWS, R0: COLUMNS}, load("x", COLUMNS * C0 + R0), C0, (R0,), "max")
    moved = step("sub", load("x", HERE), load("m", C0))
    rows = loop("a", SPACE, step("exp", moved), HERE)
    sums = total("s", {C0: ROWS, R0: COLUMNS}, load("a", COLUMNS * C0 + R0), C0, (R0,))
    result = loop("b", SPACE, step("realdiv", load("a", HERE), load("s", C0)), HERE)
    return [maximum, rows, sums, result]


def test_folds_and_what_is_computed_from_them_are_one_program():
    tensors = [*MATRICES, tensor("m", ROWS), tensor("s", ROWS)]
    whole = bundle(softmax(), tensors, ["b"])
    assert groups(whole) == [["m", "a", "s", "b"]]
    assert places(whole)["m"] == places(whole)["s"] == places(whole)["a"] == {"lx"}


PRODUCTS = [*MATRICES, tensor("w", COLUMNS, COLUMNS), tensor("bias", COLUMNS), tensor("t", ROWS)]


def test_what_follows_a_product_joins_it():
    biased = step("add", load("a", HERE), load("bias", C1))
    ops = [
        product("a", ROWS, COLUMNS, COLUMNS, "x", "w"),
        loop("b", SPACE, step("relufwd", biased), HERE),
        total("t", {C0: ROWS, R0: COLUMNS}, load("b", COLUMNS * C0 + R0), C0, (R0,)),
    ]
    whole = bundle(ops, PRODUCTS, ["t"])
    assert groups(whole) == [["a", "b", "t"]]
    assert places(whole)["a"] == places(whole)["b"] == {"lx"}


def test_a_product_joins_nothing():
    ops = [unary("exp", "a", "x"), product("b", ROWS, COLUMNS, COLUMNS, "a", "w")]
    assert groups(bundle(ops, PRODUCTS, ["b"])) == [["a"], ["b"]]


@pytest.mark.parametrize(("alone", "together", "joins"), [(32, 32, True), (32, 31, False)])
def test_a_product_loses_no_cores_to_what_follows(alone, together, joins):
    ops = [product("a", ROWS, COLUMNS, COLUMNS, "x", "w"), unary("neg", "b", "a")]

    def cores_for(bundle, ops):
        return alone if len(ops) == 1 else together

    found = groups(bundle(ops, PRODUCTS, ["b"]), cores_for)
    assert found == ([["a", "b"]] if joins else [["a"], ["b"]])


def test_what_is_no_product_may_lose_cores():
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a")]
    whole = bundle(ops, MATRICES, ["b"])
    assert groups(whole, lambda bundle, ops: 32 // len(ops)) == [["a", "b"]]


def test_what_does_not_fit_together_stays_apart():
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a"), unary("abs", "c", "b")]
    whole = bundle(ops, MATRICES, ["c"])
    assert groups(whole, lambda bundle, ops: 32 * (len(ops) < 3)) == [["a", "b"], ["c"]]


def test_parts_of_a_tensor_stand_alone():
    ops = [
        unary("exp", "a", "x"),
        unary("neg", "b1", "a", target="b", partial=True),
        unary("abs", "c", "a"),
    ]
    assert groups(bundle(ops, MATRICES, ["b", "c"])) == [["a", "c"], ["b1"]]


def test_what_is_read_through_indices_stands_alone():
    index = load("i", C0)
    rows = load("a", COLUMNS * C2 + C1, indirect=((C2, index),))
    ops = [unary("exp", "a", "x"), loop("b", SPACE, step("neg", rows), HERE)]
    tensors = [*MATRICES, tensor("i", ROWS)]
    assert groups(bundle(ops, tensors, ["b"])) == [["a"], ["b"]]


def test_what_was_read_point_for_point_may_be_replaced():
    ops = [unary("exp", "a", "x"), unary("neg", "x1", "a", target="x")]
    assert groups(bundle(ops, MATRICES, ["a", "x"])) == [["a", "x1"]]


def test_what_was_read_elsewhere_is_not_replaced_by_the_same_program():
    """Another core may have written where this one has yet to read."""
    ops = [unary("exp", "a", "x", at=C0 + ROWS * C1), unary("neg", "x1", "a", target="x")]
    assert groups(bundle(ops, MATRICES, ["a", "x"])) == [["a"], ["x1"]]


def test_an_op_goes_back_to_its_group_past_others():
    ops = [unary("exp", "a", "x"), unary("abs", "b", "y"), unary("neg", "c", "a")]
    assert groups(bundle(ops, MATRICES, ["b", "c"])) == [["a", "c"], ["b"]]


def test_but_not_past_what_it_reads():
    both = step("add", load("a", HERE), load("b", C0 + ROWS * C1))
    ops = [unary("exp", "a", "x"), unary("abs", "b", "y"), loop("c", SPACE, both, HERE)]
    assert groups(bundle(ops, MATRICES, ["c"])) == [["a"], ["b"], ["c"]]


def test_nor_past_what_it_overwrites():
    ops = [
        unary("exp", "a", "x"),
        unary("abs", "b", "y", at=C0 + ROWS * C1),
        unary("neg", "y1", "a", target="y"),
    ]
    assert groups(bundle(ops, MATRICES, ["b", "y"])) == [["a"], ["b"], ["y1"]]


def test_one_read_at_two_points_is_not_joined():
    both = step("add", load("a", HERE), load("a", HERE + 1))
    ops = [unary("exp", "a", "x"), loop("b", SPACE, both, HERE)]
    assert groups(bundle(ops, MATRICES, ["b"])) == [["a"], ["b"]]
