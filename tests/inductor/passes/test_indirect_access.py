"""Tests of copies of tables that cannot be indexed in their layout."""

from dataclasses import replace

import sympy
import torch
from loop_bundles import C0, C1, F16, bundle, load, loop, step, tensor

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.passes.indirect_access import enforce_indirect_layouts

WORDS, COLUMNS, ROWS = 128, 256, 8
ROW_INDEX = sympy.Symbol("indirect0", integer=True)


def table_with_rows_along_sticks():
    layout = SpyreTensorLayout([WORDS, COLUMNS], [COLUMNS, 1], F16, [1, 0])
    return replace(tensor("table", WORDS, COLUMNS), layout=layout)


def gather(name, op):
    index = load("ids", C0, torch.int32)
    row = load("table", COLUMNS * ROW_INDEX + C1, indirect=((ROW_INDEX, index),))
    return loop(name, {C0: ROWS, C1: COLUMNS}, step(op, row), COLUMNS * C0 + C1)


def run_pass(ops):
    rows = [tensor(name, ROWS, COLUMNS) for name in ("a", "b")]
    tensors = [table_with_rows_along_sticks(), tensor("ids", ROWS, dtype=torch.int32), *rows]
    return enforce_indirect_layouts(bundle(ops, tensors, ["a", "b"])).ops


def test_a_table_is_copied_once_for_several_ops():
    copy, first, second = run_pass([gather("a", "neg"), gather("b", "abs")])
    assert [load.buffer for load in copy.loads] == ["table"]
    for op in (first, second):
        assert copy.target in [load.buffer for load in op.loads]


def test_a_table_is_copied_again_after_a_write():
    sizes = {C0: WORDS, C1: COLUMNS}
    value = step("neg", load("table", COLUMNS * C0 + C1))
    write = loop("written", sizes, value, COLUMNS * C0 + C1, target="table")
    ops = run_pass([gather("a", "neg"), write, gather("b", "abs")])
    assert [op.name for op in ops if not op.name.startswith("table_")] == ["a", "written", "b"]
    copies = [op for op in ops if op.name.startswith("table_")]
    assert len(copies) == 2 and len({op.target for op in copies}) == 2
    assert copies[1].target in [load.buffer for load in ops[-1].loads]
