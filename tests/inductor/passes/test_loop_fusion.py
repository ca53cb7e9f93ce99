"""Tests of fusing loops into programs, and of where their tensors are stored."""

import pytest
import sympy
from loop_bundles import C0, C1, C2, R0, bundle, load, loop, matmul, step, tensor, total

from torch_spyre._inductor.passes.fusion import fuse
from torch_spyre._inductor.passes.op_specs import specs_of

ROWS, COLUMNS = 32, 128
SPACE = {C0: ROWS, C1: COLUMNS}
INDEX = COLUMNS * C0 + C1
MATRICES = [tensor(name, ROWS, COLUMNS) for name in ("x", "y", "a", "b", "c", "d")]


def all_cores(bundle, ops):
    return 32


def unary(op, name, source, index=INDEX, **options):
    return loop(name, SPACE, step(op, load(source, index)), INDEX, **options)


def groups(bundle, cores_for=all_cores):
    return [[op.name for op in group] for group in fuse(bundle, cores_for).groups]


def allocations(bundle):
    """Return the memory spaces of every tensor of the programs."""
    fused = fuse(bundle, all_cores)
    allocations = {}
    for group in fused.groups:
        for spec in specs_of(fused, group):
            for arg in spec.args:
                allocations.setdefault(arg.name, set()).update(arg.allocation)
    return allocations


def test_a_chain_is_one_program_with_intermediates_in_the_scratchpad():
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a"), unary("abs", "c", "b")]
    kernel = bundle(ops, MATRICES, ["c"])
    assert groups(kernel) == [["a", "b", "c"]]
    assert allocations(kernel) == {"x": {"hbm"}, "a": {"lx"}, "b": {"lx"}, "c": {"hbm"}}


def test_intermediates_that_are_results_are_also_written_to_memory():
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a")]
    assert allocations(bundle(ops, MATRICES, ["a", "b"]))["a"] == {"lx", "hbm"}


def test_an_indirect_read_is_not_fused_with_a_loop_over_its_tensor():
    index = sympy.Symbol("indirect0", integer=True)
    element = load("x", COLUMNS * C0 + index, indirect=((index, load("i", 0)),))
    gathered = loop("p", {C0: ROWS}, step("neg", element), C0)
    both = loop("b", SPACE, step("add", load("x", INDEX), load("p", C0)), INDEX)
    tensors = [*MATRICES, tensor("p", ROWS), tensor("i", 1)]
    assert groups(bundle([gathered, both], tensors, ["b"])) == [["p"], ["b"]]


def test_tensors_that_another_program_reads_are_in_the_pool():
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a", index=COLUMNS * C0 + COLUMNS - 1 - C1)]
    kernel = bundle(ops, MATRICES, ["b"])
    assert groups(kernel) == [["a"], ["b"]]
    assert allocations(kernel)["a"] == {"pool"}


@pytest.mark.parametrize(
    "index",
    [
        C0 + ROWS * C1,  # transposed
        INDEX + 1,
        COLUMNS * C0 + 2 * C1,
        COLUMNS * C0,  # every element of a row reads the first one
        C1,
    ],
    ids=str,
)
def test_reads_at_other_points_are_not_fused(index):
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a", index=index)]
    assert groups(bundle(ops, MATRICES, ["b"])) == [["a"], ["b"]]


def test_symbols_are_renamed_to_those_of_the_group():
    ops = [
        unary("exp", "a", "x"),
        loop(
            "b", {C1: ROWS, C2: COLUMNS}, step("neg", load("a", COLUMNS * C1 + C2)), 128 * C1 + C2
        ),
    ]
    ((first, second),) = fuse(bundle(ops, MATRICES, ["b"]), all_cores).groups
    assert second.sizes == first.sizes and second.write == first.write
    assert [read.index for read in second.loads] == [INDEX]


def softmax():
    maximum = total("m", {C0: ROWS, R0: COLUMNS}, load("x", COLUMNS * C0 + R0), C0, (R0,), "max")
    shifted = step("sub", load("x", INDEX), load("m", C0))
    rows = loop("a", SPACE, step("exp", shifted), INDEX)
    sums = total("s", {C0: ROWS, R0: COLUMNS}, load("a", COLUMNS * C0 + R0), C0, (R0,))
    result = loop("b", SPACE, step("realdiv", load("a", INDEX), load("s", C0)), INDEX)
    return [maximum, rows, sums, result]


def test_reductions_and_their_uses_are_one_program():
    tensors = [*MATRICES, tensor("m", ROWS), tensor("s", ROWS)]
    kernel = bundle(softmax(), tensors, ["b"])
    assert groups(kernel) == [["m", "a", "s", "b"]]
    assert (
        allocations(kernel)["m"] == allocations(kernel)["s"] == allocations(kernel)["a"] == {"lx"}
    )


MATMUL_TENSORS = [
    *MATRICES,
    tensor("w", COLUMNS, COLUMNS),
    tensor("bias", COLUMNS),
    tensor("t", ROWS),
]


def test_epilogues_are_fused_into_a_matmul():
    biased = step("add", load("a", INDEX), load("bias", C1))
    ops = [
        matmul("a", ROWS, COLUMNS, COLUMNS, "x", "w"),
        loop("b", SPACE, step("relufwd", biased), INDEX),
        total("t", {C0: ROWS, R0: COLUMNS}, load("b", COLUMNS * C0 + R0), C0, (R0,)),
    ]
    kernel = bundle(ops, MATMUL_TENSORS, ["t"])
    assert groups(kernel) == [["a", "b", "t"]]
    assert allocations(kernel)["a"] == allocations(kernel)["b"] == {"lx"}


def test_a_matmul_is_not_fused_into_its_producer():
    ops = [unary("exp", "a", "x"), matmul("b", ROWS, COLUMNS, COLUMNS, "a", "w")]
    assert groups(bundle(ops, MATMUL_TENSORS, ["b"])) == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("cores_separate", "cores_fused", "is_fused"), [(32, 32, True), (32, 31, False)]
)
def test_a_matmul_is_fused_only_if_it_loses_no_cores(cores_separate, cores_fused, is_fused):
    ops = [matmul("a", ROWS, COLUMNS, COLUMNS, "x", "w"), unary("neg", "b", "a")]

    def cores_for(bundle, ops):
        return cores_separate if len(ops) == 1 else cores_fused

    actual = groups(bundle(ops, MATMUL_TENSORS, ["b"]), cores_for)
    assert actual == ([["a", "b"]] if is_fused else [["a"], ["b"]])


def test_other_ops_are_fused_even_if_they_lose_cores():
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a")]
    kernel = bundle(ops, MATRICES, ["b"])
    assert groups(kernel, lambda bundle, ops: 32 // len(ops)) == [["a", "b"]]


def test_ops_that_do_not_fit_in_one_program_are_not_fused():
    ops = [unary("exp", "a", "x"), unary("neg", "b", "a"), unary("abs", "c", "b")]
    kernel = bundle(ops, MATRICES, ["c"])
    assert groups(kernel, lambda bundle, ops: 32 * (len(ops) < 3)) == [["a", "b"], ["c"]]


def test_partial_writes_are_not_fused():
    ops = [
        unary("exp", "a", "x"),
        unary("neg", "b1", "a", target="b", is_partial=True),
        unary("abs", "c", "a"),
    ]
    assert groups(bundle(ops, MATRICES, ["b", "c"])) == [["a", "c"], ["b1"]]


def test_indirect_reads_are_not_fused():
    index = load("i", C0)
    rows = load("a", COLUMNS * C2 + C1, indirect=((C2, index),))
    ops = [unary("exp", "a", "x"), loop("b", SPACE, step("neg", rows), INDEX)]
    tensors = [*MATRICES, tensor("i", ROWS)]
    assert groups(bundle(ops, tensors, ["b"])) == [["a"], ["b"]]


def test_a_tensor_read_at_the_same_points_can_be_overwritten():
    ops = [unary("exp", "a", "x"), unary("neg", "x1", "a", target="x")]
    assert groups(bundle(ops, MATRICES, ["a", "x"])) == [["a", "x1"]]


def test_a_tensor_read_at_other_points_is_not_overwritten_by_the_same_program():
    """Another core could write an element before this one reads it."""
    ops = [unary("exp", "a", "x", index=C0 + ROWS * C1), unary("neg", "x1", "a", target="x")]
    assert groups(bundle(ops, MATRICES, ["a", "x"])) == [["a"], ["x1"]]


def test_an_op_is_moved_to_its_group_across_unrelated_ops():
    ops = [unary("exp", "a", "x"), unary("abs", "b", "y"), unary("neg", "c", "a")]
    assert groups(bundle(ops, MATRICES, ["b", "c"])) == [["a", "c"], ["b"]]


def test_an_op_is_not_moved_before_ops_that_it_reads():
    both = step("add", load("a", INDEX), load("b", C0 + ROWS * C1))
    ops = [unary("exp", "a", "x"), unary("abs", "b", "y"), loop("c", SPACE, both, INDEX)]
    assert groups(bundle(ops, MATRICES, ["c"])) == [["a"], ["b"], ["c"]]


def test_an_op_is_not_moved_before_readers_of_its_target():
    ops = [
        unary("exp", "a", "x"),
        unary("abs", "b", "y", index=C0 + ROWS * C1),
        unary("neg", "y1", "a", target="y"),
    ]
    assert groups(bundle(ops, MATRICES, ["b", "y"])) == [["a"], ["b"], ["y1"]]


def test_reads_at_two_points_are_not_fused():
    both = step("add", load("a", INDEX), load("a", INDEX + 1))
    ops = [unary("exp", "a", "x"), loop("b", SPACE, both, INDEX)]
    assert groups(bundle(ops, MATRICES, ["b"])) == [["a"], ["b"]]
