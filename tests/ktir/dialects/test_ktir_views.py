"""construct_memory_view and construct_distributed_memory_view."""

import pytest
from ktir_texts import BOX4X64, GLOBAL, assert_rejected, line_with, round_trip

from torch_spyre import ktir


def view(sizes, strides, attributes, memref, name="v"):
    return (
        f"%{name} = ktdp.construct_memory_view %p, sizes: {sizes}, strides: {strides} "
        f"{{{attributes}}} : {memref}"
    )


SPACE = f"memory_space = {GLOBAL}"


def test_a_view_prints_its_set_as_an_alias():
    text = round_trip(
        view("[4, 64]", "[64, 1]", f"{SPACE}, coordinate_set = {BOX4X64}", "memref<4x64xf16>")
    )
    assert text.splitlines()[0] == f"#set = {BOX4X64}"
    assert line_with(text, "view") == (
        "%v = ktdp.construct_memory_view %p, sizes: [4, 64], strides: [64, 1] "
        "{coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<4x64xf16>"
    )


@pytest.mark.parametrize(
    ("sizes", "strides", "memref"),
    [
        ("[4, 64]", "[1, 4]", "memref<4x64xf16>"),
        ("[4, %n]", "[%n, 1]", "memref<4x?xf16>"),
        ("[%n, %n]", "[%n, 1]", "memref<4x?xf16>"),
        ("[]", "[]", "memref<f16>"),
        ("[0]", "[1]", "memref<0xf16>"),
        ("[4]", "[-1]", "memref<4xf16>"),
        ("[4]", "[1]", f"memref<4xf16, {GLOBAL}>"),
    ],
)
def test_sizes_and_strides_may_be_ssa_values(sizes, strides, memref):
    assert f"sizes: {sizes}, strides: {strides}" in round_trip(view(sizes, strides, SPACE, memref))


@pytest.mark.parametrize(
    ("sizes", "strides", "memref", "message"),
    [
        ("[8, 64]", "[64, 1]", "memref<8x32xf16>", "size 64 of dim 1 differs from the memref's 32"),
        ("[8, 64]", "[64, 1]", "memref<8x?xf16>", "its size must be a value, not 64"),
        ("[8, 64]", "[1]", "memref<8x64xf16>", "2 sizes but 1 strides"),
        ("[8, 64]", "[64, 1]", "memref<512xf16>", "2 sizes but the memref has rank 1"),
        ("[-8]", "[1]", "memref<8xf16>", "-8 is out of range for sizes"),
        ("[8]", "[1]", "tensor<8xf16>", "expected a ranked memref"),
        ("[8]", "[1]", "memref<*xf16>", "expected a ranked memref"),
        ("[8]", "[1]", "memref<8xf16, #ktdp.memory_space<ct_local>>", "differs from the memref's"),
    ],
)
def test_a_view_that_contradicts_its_type_is_rejected(sizes, strides, memref, message):
    error = assert_rejected(view(sizes, strides, SPACE, memref), message)
    assert "ktdp.construct_memory_view" in str(error)


def test_a_missing_coordinate_set_is_the_full_box():
    text = round_trip(view("[4, 64]", "[64, 1]", SPACE, "memref<4x64xf16>"))
    assert text.splitlines()[0] == f"#set = {BOX4X64}"


def test_a_missing_coordinate_set_of_a_dynamic_view_has_a_symbol_per_dynamic_size():
    text = round_trip(view("[%n, 4, %q]", "[4, 1, 1]", SPACE, "memref<?x4x?xf16>"))
    assert text.splitlines()[0] == (
        "#set = affine_set<(d0, d1, d2)[s0, s1] : (d0 >= 0, -d0 + s0 - 1 >= 0, d1 >= 0, "
        "-d1 + 3 >= 0, d2 >= 0, -d2 + s1 - 1 >= 0)>"
    )


def test_a_missing_memory_space_is_the_one_of_the_memref_or_global():
    assert "memory_space<ct_local>}" in round_trip(
        view("[4]", "[1]", "", "memref<4xf16, #ktdp.memory_space<ct_local>>")
    )
    assert "memory_space<global>}" in round_trip(view("[4]", "[1]", "", "memref<4xf16>"))


def test_a_coordinate_set_has_the_rank_of_the_view():
    line = view("[256]", "[1]", f"coordinate_set = {BOX4X64}, {SPACE}", "memref<256xf16>")
    assert_rejected(line, "coordinate_set has 2 dims, the memref rank 1")


def test_a_coordinate_set_has_no_more_symbols_than_dynamic_sizes():
    symbolic = "affine_set<(d0)[s0] : (d0 >= 0, -d0 + s0 - 1 >= 0)>"
    attributes = f"coordinate_set = {symbolic}, {SPACE}"
    round_trip(view("[%n]", "[1]", attributes, "memref<?xf16>"))
    assert_rejected(
        view("[4]", "[1]", attributes, "memref<4xf16>"), "1 symbols, and 0 sizes are values"
    )


@pytest.mark.parametrize(
    ("sizes", "symbols", "bound"),
    [("[64, %n]", 1, ["n"]), ("[%q, %n]", 1, ["n"]), ("[%q, %n]", 2, ["q", "n"])],
)
def test_symbols_of_a_coordinate_set_are_bound_to_dynamic_sizes(sizes, symbols, bound):
    names = ", ".join(f"s{i}" for i in range(symbols))
    coordinates = f"affine_set<(d0, d1)[{names}] : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, d1 <= s0)>"
    line = view(sizes, "[64, 1]", f"coordinate_set = {coordinates}, {SPACE}", "memref<64x?xf16>")
    text = f"module {{\nfunc.func @f(%p: index, %q: index, %n: index) {{\n{line}\nreturn\n}}\n}}\n"
    (operation,) = (
        op for op in ktir.load(text).operation.walk() if op.name == "ktdp.construct_memory_view"
    )
    assert [value.name_hint for value in operation.symbol_operands()] == bound


LOW = "affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>"
HIGH = "affine_set<(d0) : (d0 - 32 >= 0, -d0 + 63 >= 0)>"
ODD = "affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0, d0 mod 2 == 1)>"


def distributed(result, *sets, element="f16"):
    lines = [
        view(
            "[32]",
            "[1]",
            f"coordinate_set = {partition}, {SPACE}",
            f"memref<32x{element}>",
            f"v{i}",
        )
        for i, partition in enumerate(sets)
    ]
    names = ", ".join(f"%v{i}" for i in range(len(sets)))
    types = ", ".join(f"memref<32x{element}>" for _ in sets)
    listed = f"{names} : {types}" if sets else ""
    lines.append(f"%d = ktdp.construct_distributed_memory_view ({listed}) : {result}")
    return "\n".join(lines)


def test_a_distributed_view_spans_its_partitions():
    text = round_trip(distributed("memref<64xf16>", LOW, HIGH))
    assert line_with(text, "distributed") == (
        "%d = ktdp.construct_distributed_memory_view (%v0, %v1 : memref<32xf16>, memref<32xf16>) "
        ": memref<64xf16>"
    )


def test_a_dynamic_dim_of_a_distributed_view_needs_box_partitions():
    round_trip(distributed("memref<?xf16>", LOW, HIGH))
    assert_rejected(distributed("memref<?xf16>", LOW, ODD), "needs partitions whose sets are boxes")


@pytest.mark.parametrize(
    ("result", "sets", "message"),
    [
        ("memref<32xf16>", (LOW, HIGH), "dim 0 is declared 32, and the partitions end at 64"),
        ("memref<64xf32>", (LOW, HIGH), "view 0 has elements f16, the result f32"),
        ("memref<8x8xf16>", (LOW, HIGH), "view 0 has rank 1, the result 2"),
        ("memref<64xf16>", (), "at least one view is required"),
    ],
)
def test_a_distributed_view_with_mismatched_partitions_is_rejected(result, sets, message):
    error = assert_rejected(distributed(result, *sets), message)
    assert "ktdp.construct_distributed_memory_view" in str(error)
