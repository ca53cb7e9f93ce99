"""Tests of the rules that exclude illegal splits."""

from dataclasses import replace

import pytest
import sympy
from division_specs import C, column_sum, matmul, op_spec, pointwise, row_sum, tensor

from torch_spyre._inductor.op_spec import IndirectAccess
from torch_spyre._inductor.work_division import RULES, Constraints, Problem, divide
from torch_spyre._inductor.work_division.rules import legal_splits
from torch_spyre.cards import load_card
from torch_spyre.errors import SpanLimitError, WorkDivisionError

CARD = load_card("spyre")

C0, C1, C2, C3 = C[:4]
INDEX = IndirectAccess(sympy.Symbol("indices"))


def named(splits):
    return {str(symbol): split for symbol, split in splits.items() if split > 1}


def legal(spec, symbol, cores=32):
    return legal_splits(Problem(spec, CARD, cores)).splits[symbol]


def test_unsplittable_symbols_are_not_split():
    spec = pointwise("add", 1024, 4096, op_info={"unsplittable": ["c0"]})
    assert divide(spec) == {C0: 1, C1: 32}
    spec = matmul(2048, 4096, 4096, op_info={"unsplittable": ["c0", "c2"]})
    assert divide(spec) == {C0: 1, C1: 32, C2: 1}


def test_an_unknown_unsplittable_symbol_is_an_error():
    with pytest.raises(WorkDivisionError, match="names c7, but its symbols are c0, c1"):
        divide(pointwise("add", 8, 128, op_info={"unsplittable": ["c0", "c7"]}))


@pytest.mark.parametrize(
    ("lane", "splits"),
    [
        (sympy.Mod(C1, 64), {"c1": 32}),
        (sympy.Mod(C1 + 128, 64), {"c1": 32}),
        (sympy.Mod(C1 + 5, 64), {}),
        (sympy.Mod(4 * C0 + C1, 64), {}),
    ],
)
def test_two_cores_do_not_write_the_same_stick(lane, splits):
    spec = pointwise("identity", 3, 4096, op_info={"unsplittable": ["c0"]})
    output = replace(spec.output, device_coordinates=[*spec.output.device_coordinates[:-1], lane])
    assert named(divide(replace(spec, args=[spec.args[0], output]))) == splits


def test_dims_that_do_not_index_the_output_are_split_only_in_reductions():
    spec = column_sum(4096, 128)
    assert divide(spec) == {C0: 2, C1: 16}
    assert divide(replace(spec, is_reduction=False)) == {C0: 2, C1: 1}


@pytest.mark.parametrize(("columns", "splits"), [(4096, {"c0": 3, "c1": 8}), (4090, {"c0": 3})])
def test_a_reduction_with_a_partial_last_stick_is_not_split(columns, splits):
    assert named(divide(row_sum(3, columns))) == splits


def test_k_of_a_matmul_with_a_partial_last_stick_is_not_split():
    assert divide(matmul(8, 1024, 1024))[C2] == 4
    assert divide(matmul(8, 1000, 1024))[C2] == 1


def restickify(rows, columns):
    source = tensor((rows, columns), (C0, C1), stick_dim=0)
    return op_spec(
        "ReStickifyOpHBM",
        {C0: rows, C1: columns},
        [source],
        tensor((rows, columns), (C0, C1)),
    )


@pytest.mark.parametrize(
    ("rows", "columns", "splits"),
    [(128, 4096, {"c1": 32}), (128, 4090, {"c0": 2}), (120, 4096, {"c1": 32}), (120, 4090, {})],
)
def test_a_restickify_splits_only_dims_of_whole_sticks(rows, columns, splits):
    spec = restickify(rows, columns)
    assert named(divide(spec)) == splits
    assert legal(replace(spec, op="identity"), C1) == legal(restickify(rows, 4096), C1)


def topk(rows, k, searched=4096):
    """Return a topk along the first dim: c0 is k, c1 the columns, c2 the searched dim."""
    source = tensor((searched, rows), (C2, C1))
    result = tensor((k, rows), (C0, C1))
    sizes = {C0: k, C1: rows, C2: searched}
    return op_spec("topkvalue", sizes, [source], result, is_reduction=True)


@pytest.mark.parametrize(
    ("rows", "k", "splits"),
    [
        (4096, 4, {"c1": 32}),
        (4096, 8, {"c0": 2, "c1": 16}),
        (4096, 5, {"c0": 5, "c1": 4}),
        (4096, 64, {"c0": 16, "c1": 2}),
        (64, 3, {}),
    ],
)
def test_topk_has_at_most_four_results_per_core_and_does_not_split_the_search(rows, k, splits):
    assert named(divide(topk(rows, k))) == splits


def test_topk_that_needs_too_many_cores_is_an_error():
    with pytest.raises(WorkDivisionError, match=r"c0 of size 37.*topk"):
        divide(topk(128, 37))
    with pytest.raises(WorkDivisionError, match="has no legal split for up to 1"):
        divide(topk(128, 8), cores=1)


def indices(size):
    return tensor((size,), (C0,), elements=32, name="indices")


def gather(entries, output_rows=None, columns=4096):
    """Return `table[indices]`: c0 are the entries, c1 the columns of the table."""
    table = tensor((1000, columns), (INDEX, C1))
    output = tensor((output_rows or entries, columns), (C0, C1))
    return op_spec("identity", {C0: entries, C1: columns}, [indices(entries), table], output)


def scatter(entries, op_info=None):
    """Return `table[indices] = source`."""
    source = tensor((entries, 4096), (C0, C1))
    table = tensor((1000, 4096), (INDEX, C1))
    return op_spec(
        "identity", {C0: entries, C1: 4096}, [indices(entries), source], table, op_info=op_info
    )


@pytest.mark.parametrize(
    ("spec", "cores", "splits"),
    [
        (gather(160), 32, {"c0": 5}),
        (gather(160), 4, {}),
        (gather(256), 32, {"c0": 8}),
        (gather(40, output_rows=64), 32, {"c0": 2}),
        (gather(40), 32, {}),
        (gather(5), 32, {}),
        (scatter(160), 32, {"c0": 5}),
        (scatter(256), 32, {"c0": 8}),
        (scatter(40), 32, {}),
        (scatter(256, {"accumulate": True}), 32, {}),
    ],
)
def test_gather_and_scatter_split_only_whole_sticks_of_entries(spec, cores, splits):
    assert named(divide(spec, cores=cores)) == splits


def test_a_scatter_by_several_index_tensors_is_not_split():
    spec = scatter(256)
    second_index = IndirectAccess(sympy.Symbol("more"))
    coordinates = list(spec.output.device_coordinates)
    coordinates[1] = INDEX + 10 * second_index
    output = replace(spec.output, device_coordinates=coordinates)
    assert named(divide(replace(spec, args=[*spec.args[:-1], output]))) == {}


def test_a_scatter_within_sticks_is_not_split():
    table = tensor((16, 4096), (C1, INDEX))
    source = tensor((256, 16), (C0, C1))
    spec = op_spec("identity", {C0: 256, C1: 16}, [indices(256), source], table)
    assert named(divide(spec)) == {}


def test_indirectly_accessed_tables_have_no_span_limit():
    table = tensor((2**22, 4096), (INDEX, C1))
    spec = op_spec(
        "identity", {C0: 256, C1: 4096}, [indices(256), table], tensor((256, 4096), (C0, C1))
    )
    assert named(divide(spec)) == {"c0": 8}


@pytest.mark.parametrize(
    ("size", "coordinate", "splits"),
    [
        (6, sympy.Mod(C0, 2), (1, 3, 6)),
        (6, C0, (1, 2, 3, 6)),
        (12, sympy.floor(C0 / 4), (1, 3, 6, 12)),
        (24, sympy.Mod(sympy.floor(C0 / 2), 3), (1, 2, 4, 12, 24)),
        (12, sympy.floor(5 * C0 / 7), (1,)),
    ],
)
def test_each_core_accesses_one_block_of_every_tensor(size, coordinate, splits):
    source = tensor((size, 64), (coordinate, C1))
    result = tensor((size, 64), (C0, C1))
    spec = op_spec("identity", {C0: size, C1: 64}, [source], result)
    assert legal(spec, C0) == splits


def test_a_reduction_over_two_dims_is_split_along_one():
    source = tensor((4, 64, 128), (C1, C2, C0))
    result = tensor((128,), (C0,))
    sizes = {C0: 128, C1: 4, C2: 64}
    spec = op_spec("sum", sizes, [source], result, is_reduction=True)
    assert divide(spec) == {C0: 2, C1: 1, C2: 16}
    assert divide(replace(spec, op="batchmatmul")) == {C0: 2, C1: 1, C2: 16}


@pytest.mark.parametrize(("step", "splits"), [(1, {}), (2, {}), (3, {"c0": 16}), (4, {"c0": 16})])
def test_overlapping_windows_are_not_split(step, splits):
    """In windows of 3 rows, c0 is the window and c1 the row in it."""
    source = tensor((16 * step + 3, 64), (step * C0 + C1, C2))
    result = tensor((16, 64), (C0, C2))
    sizes = {C0: 16, C2: 64, C1: 3}
    spec = op_spec("max", sizes, [source], result, is_reduction=True)
    assert named(divide(spec)) == splits


def only_two_or_four(problem):
    return Constraints(allowed={C0: frozenset({2, 4})})


def only_three(problem):
    return Constraints(allowed={C0: frozenset({3})})


def test_rules_of_callers_are_intersected():
    spec = pointwise("add", 1024, 4096)
    assert divide(spec, rules=[only_two_or_four]) == {C0: 4, C1: 8}
    assert divide(spec, rules=[*RULES, only_two_or_four], cores=3) == {C0: 2, C1: 1}
    with pytest.raises(WorkDivisionError, match=r"c0 of size 12.*only_two_or_four, only_three"):
        divide(pointwise("add", 12, 64), rules=[only_two_or_four, only_three])


def test_the_error_names_the_rule_that_conflicts_with_the_span_limit():
    spec = pointwise("exp", 65536, 8192, op_info={"unsplittable": ["c1"]})
    with pytest.raises(SpanLimitError, match=r"more of c1 \(limited by unsplittable\)"):
        divide(spec)


def test_required_splits_get_cores_before_larger_dims():
    def third_of_columns(problem):
        return Constraints(allowed={C1: frozenset({3, 6})})

    assert divide(pointwise("add", 4096, 384), rules=[third_of_columns]) == {C0: 8, C1: 3}


@pytest.mark.parametrize(
    ("idle_share", "splits"),
    [(0.0, {"c0": 16, "c1": 2}), (0.5, {"c0": 16}), (0.49, {"c0": 16, "c1": 2})],
)
def test_reductions_are_not_split_if_few_enough_cores_are_idle(idle_share, splits):
    spec = row_sum(16, 4096)
    assert named(divide(spec, idle_share_before_reductions=idle_share)) == splits


def test_reductions_are_split_if_too_many_cores_would_be_idle():
    assert named(divide(row_sum(8, 4096), idle_share_before_reductions=0.5)) == {"c0": 8, "c1": 4}


def test_a_reduction_split_that_the_span_limit_requires_is_preserved():
    spec = matmul(8192, 32768, 4096)
    assert divide(spec, idle_share_before_reductions=0.99)[C2] == 2


def test_a_span_limit_that_requires_two_reduction_splits_is_an_error():
    source = tensor((8, 2**13, 2**13), (C1, C2, C0))
    other = tensor((2**13, 2**15, 64), (C2, C3, C0))
    spec = op_spec(
        "batchmatmul",
        {C0: 64, C1: 8, C2: 2**13, C3: 2**15},
        [source, other],
        tensor((8, 64), (C1, C0)),
        is_reduction=True,
    )
    with pytest.raises(WorkDivisionError, match=r"span limit \(256MB\) without splitting 2"):
        divide(spec)
