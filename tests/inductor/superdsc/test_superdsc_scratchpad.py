"""Tests of the addresses of scratchpad tensors."""

import dataclasses
from itertools import combinations, pairwise

import pytest
from op_spec_samples import FP32, MATRIX, op, softmax_chain, tensor

from torch_spyre._inductor.op_spec import LoopSpec, sympify
from torch_spyre._inductor.superdsc import generate_bundle, import_bundle, import_programs
from torch_spyre.cards import load_card

CAPACITY = 1_625_344


def scratch(name, rows, address=0, **options):
    return tensor([1, rows, 64], MATRIX, {"lx": address}, name=name, **options)


def negate(source, target, rows, split=1):
    space = f"c0={rows}/{split} c1=64"
    return op("neg", space, source, dataclasses.replace(target, is_input=False))


def chain(*names, rows=32, split=1):
    """Return ops from argument 0 through scratchpad tensors to argument 1."""
    shape = ([1, rows, 64], MATRIX)
    tensors = [tensor(*shape, 0), *(scratch(name, rows) for name in names), tensor(*shape, 1)]
    return [negate(source, target, rows, split) for source, target in pairwise(tensors)]


def addresses(specs):
    """Return the scratchpad address of each tensor by name."""
    return {
        arg.name: arg.allocation["lx"]
        for spec in specs
        for arg in spec.args
        if "lx" in arg.allocation
    }


def read_back(folder, specs, **options):
    generate_bundle("kernel", folder, specs, **options)
    return import_bundle(folder)


def test_the_card_states_the_bytes_that_can_be_planned():
    assert load_card("spyre").compute.lx_usable_bytes == CAPACITY


@pytest.mark.parametrize("split", [1, 4, 8])
def test_live_tensors_are_adjacent_slices_and_dead_ones_are_reused(split, tmp_path):
    slice_bytes = 32 // split * 128
    read = read_back(tmp_path, chain("a", "b", "c", split=split))
    assert addresses(read) == {"a": 0, "b": slice_bytes, "c": 0}


def test_a_slice_is_padded_to_the_sticks_of_its_program(tmp_path):
    """A row split over 4 cores has slices of whole sticks of the argument: 32 of 128 columns."""
    coordinates = "floor(c0/32); Mod(c0, 32)"
    values = [tensor([4, 32], coordinates, {"lx": 0}, FP32, name=name) for name in "ab"]
    tensors = [
        tensor([4, 32], coordinates, 0, FP32),
        *values,
        tensor([4, 32], coordinates, 1, FP32),
    ]
    specs = [
        op("neg", "c0=100/4", source, dataclasses.replace(target, is_input=False))
        for source, target in pairwise(tensors)
    ]
    assert addresses(read_back(tmp_path, specs)) == {"a": 0, "b": 128}


def test_addresses_that_do_not_overlap_are_preserved(tmp_path):
    chained = softmax_chain()
    assert addresses(read_back(tmp_path, chained)) == addresses(chained)


def test_tensors_of_a_loop_are_live_in_the_whole_loop(tmp_path):
    loop = LoopSpec(sympify("2"), chain("a", "b", "c"), [])
    read = read_back(tmp_path, [loop], unroll_loops=False)
    assert addresses(read) == {"a": 0, "b": 4096, "c": 8192}


def test_tensors_of_different_programs_may_have_the_same_name(tmp_path):
    small, large = chain("a", "b", rows=8), chain("a", "b", rows=32)
    read = read_back(tmp_path, [*small, *large])
    assert addresses(read[:3]) == {"a": 0, "b": 8 * 128}
    assert addresses(read[3:]) == {"a": 0, "b": 32 * 128}


@pytest.mark.parametrize("rows", [CAPACITY // 256, CAPACITY // 256 + 1])
def test_tensors_that_do_not_fit_are_spilled_to_the_pool(rows, tmp_path):
    generate_bundle("kernel", tmp_path, chain("a", "b", "c", rows=rows))
    specs = import_bundle(tmp_path)
    spaces = {space for spec in specs for arg in spec.args for space in arg.allocation}
    assert spaces == ({"hbm", "lx"} if rows == CAPACITY // 256 else {"hbm", "pool"})
    assert len(import_programs(tmp_path)) == (1 if rows == CAPACITY // 256 else 4)
    if "pool" in spaces:
        names = [spec.output.name for spec in specs[:-1]]
        assert [spec.args[0].name for spec in specs[1:]] == names
        assert len(set(names)) == 3


def test_a_split_within_sticks_of_a_spilled_tensor_is_removed(tmp_path):
    """The rows are the lanes of the scratchpad tensor, which ends within a stick on every core."""
    rows, columns = 4 * 40, 1 << 16
    by_rows = ([-(-rows // 64), columns, 64], "floor(c0/64); c1; Mod(c0, 64)")
    by_columns = ([columns // 64, rows, 64], MATRIX)
    middle = [tensor(*by_rows, {"lx": 0}, name=name) for name in "ab"]
    tensors = [tensor(*by_columns, 0), *middle, tensor(*by_columns, 1)]
    specs = [
        op("neg", f"c0={rows}/4 c1={columns}", source, dataclasses.replace(target, is_input=False))
        for source, target in pairwise(tensors)
    ]
    read = read_back(tmp_path, specs)
    assert [spec.cores for spec in read] == [1, 1, 1]
    assert {space for spec in read for arg in spec.args for space in arg.allocation} == {
        "hbm",
        "pool",
    }


def test_no_two_live_tensors_of_a_wide_kernel_overlap(tmp_path):
    """Every tensor is read again at the end, so all of them are live at once."""
    rows, names = 16, "abcdef"
    shape = ([1, rows, 64], MATRIX)
    specs = [negate(tensor(*shape, 0), scratch(name, rows), rows) for name in names]
    specs += [
        negate(scratch(name, rows), tensor(*shape, position + 1), rows)
        for position, name in enumerate(names)
    ]
    read = addresses(read_back(tmp_path, specs))
    assert all(abs(read[a] - read[b]) >= rows * 128 for a, b in combinations(names, 2))
    assert all(address % 128 == 0 for address in read.values())


def test_a_slice_of_a_scratchpad_tensor_may_end_within_a_stick(tmp_path):
    """A slice of 32 columns is a whole stick of the argument, but half of one in fp16."""
    source = tensor([3, 32], "floor(c0/32); Mod(c0, 32)", 0, FP32)
    half = tensor([2, 64], "floor(c0/64); Mod(c0, 64)", {"lx": 0}, name="half")
    result = tensor([3, 32], "floor(c0/32); Mod(c0, 32)", 1, FP32, output=True)
    specs = [
        op("fp32todl16", "c0=70/3", source, dataclasses.replace(half, is_input=False)),
        op("dl16tofp32", "c0=70/3", half, result),
    ]
    assert [spec.cores for spec in read_back(tmp_path, specs)] == [3, 3]
