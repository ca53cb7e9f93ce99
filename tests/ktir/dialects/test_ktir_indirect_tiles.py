"""construct_indirect_access_tile: captured values, intermediate variables, index views."""

import pytest
from ktir_texts import BOX4X64, assert_rejected, function, line_with, round_trip

from torch_spyre import ktir

VIEWS = """%table = ktdp.construct_memory_view %p, sizes: [32, 64], strides: [64, 1] {}
  : memref<32x64xf16>
%ids = ktdp.construct_memory_view %q, sizes: [4], strides: [1] {} : memref<4xi32>
%pages = ktdp.construct_memory_view %q, sizes: [2, 4], strides: [4, 1] {} : memref<2x4xi64>
%floats = ktdp.construct_memory_view %q, sizes: [4], strides: [1] {} : memref<4xf16>
"""
IDENTITY = "affine_map<(d0, d1) -> (d0, d1)>"


def tile(
    subscripts="ind(%ids[%r]), (%c)",
    types="memref<32x64xf16>, memref<4xi32>",
    variables="%r, %c",
    attributes=f"variables_space_set = {BOX4X64}, variables_space_order = {IDENTITY}",
    result="!ktdp.access_tile<4x64xindex>",
    symbols="",
):
    return (
        f"{VIEWS}%t = ktdp.construct_indirect_access_tile intermediate_variables({variables}) "
        f"%table[{subscripts}]{symbols} {{{attributes}}} : {types} -> {result}"
    )


def tile_operation(line):
    module = ktir.load(function(line))
    name = "ktdp.construct_indirect_access_tile"
    (operation,) = (op for op in module.operation.walk() if op.name == name)
    return operation


def test_a_gather_prints_as_written():
    assert line_with(round_trip(tile()), "indirect") == (
        "%t = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c) "
        "%table[ind(%ids[%r]), (%c)] {variables_space_set = #set3, variables_space_order = #map} "
        ": memref<32x64xf16>, memref<4xi32> -> !ktdp.access_tile<4x64xindex>"
    )


def test_maps_are_over_captured_values_then_variables():
    operation = tile_operation(
        tile(
            "ind(%pages[%n, (%c + %q) floordiv 64]), (%c mod 64 + %q)",
            "memref<32x64xf16>, memref<2x4xi64>",
        )
    )
    assert [value.name_hint for value in operation.captured] == ["n", "q"]
    assert operation.kinds == [True, False]
    assert [str(affine_map) for affine_map in operation.maps] == [
        "(d0, d1, d2, d3) -> (d0, ((d3 + d1) floordiv 64))",
        "(d0, d1, d2, d3) -> (((d3 mod 64) + d1))",
    ]


def test_the_hidden_region_ends_with_its_terminator():
    operation = tile_operation(tile())
    assert [inner.name for inner in operation.variables.block.ops] == ["ktdp.region_terminator"]
    assert [str(argument.type) for argument in operation.variables.block.args] == ["index"] * 2
    assert "region_terminator" not in round_trip(tile())


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("ind(%ids[%r]), %c", "ind(%ids[%r]), (%c)"),
        ("ind(%ids[%r]), %c + 1", "ind(%ids[%r]), (%c + 1)"),
        ("ind(%ids[%r]), (%c) * 2 + %n", "ind(%ids[%r]), (%c * 2 + %n)"),
        ("(%r), ind(%ids[3 - %r])", "(%r), ind(%ids[-%r + 3])"),
        ("(%n), (%r)", "(%n), (%r)"),
    ],
)
def test_direct_subscripts_need_no_parentheses(written, printed):
    types = "memref<32x64xf16>" + (", memref<4xi32>" if "ind" in written else "")
    assert f"%table[{printed}]" in round_trip(tile(written, types))


def test_several_index_views_are_listed_in_the_order_of_the_subscripts():
    round_trip(
        tile(
            "ind(%ids[%r]), ind(%pages[%n, %r])",
            "memref<32x64xf16>, memref<4xi32>, memref<2x4xi64>",
        )
    )
    assert_rejected(
        tile(
            "ind(%ids[%r]), ind(%pages[%n, %r])",
            "memref<32x64xf16>, memref<2x4xi64>, memref<4xi32>",
        ),
        "has been previously used or defined with type",
    )


def test_an_order_may_permute():
    swap = "affine_map<(d0, d1) -> (d1, d0)>"
    attributes = f"variables_space_set = {BOX4X64}, variables_space_order = {swap}"
    round_trip(tile(attributes=attributes, result="<64x4xindex>"))


def test_a_missing_order_is_the_identity():
    assert IDENTITY in round_trip(tile(attributes=f"variables_space_set = {BOX4X64}"))


def test_symbols_bind_to_operands():
    symbolic = "affine_set<(d0, d1)[s] : (d0 >= 0, d0 <= s, d1 >= 0, d1 <= 63)>"
    attributes = f"variables_space_set = {symbolic}"
    assert "] symbols(%n) {" in round_trip(
        tile(attributes=attributes, result="<?x64xindex>", symbols=" symbols(%n)")
    )
    assert_rejected(tile(attributes=attributes), "has 1 symbols, but there are 0 symbol operands")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subscripts": "ind(%ids[%r])"}, "1 subscripts for a base of rank 2"),
        ({"types": "memref<32x64xf16>"}, "1 indirect subscripts, but 0 index view types"),
        ({"subscripts": "(%r), (%c)"}, "0 indirect subscripts, but 1 index view types"),
        ({"subscripts": "ind(%ids[%r, %c]), (%c)"}, "subscript 0 has 2 expressions, not 1"),
        ({"variables": "%r"}, "1 intermediate variables, but variables_space_set has 2 dims"),
        ({"variables": "%r, %r"}, "an intermediate variable is listed twice"),
        ({"result": "<256xindex>"}, "the tile has rank 1"),
        ({"attributes": f"variables_space_order = {IDENTITY}"}, "variables_space_set is missing"),
        ({"subscripts": "ind(%ids[%r]) * 2, (%c)"}, "expected"),
        ({"subscripts": "ind(%ids[%unknown]), (%c)"}, "%unknown is used but never defined"),
        (
            {
                "attributes": f"variables_space_set = {BOX4X64}, "
                "variables_space_order = affine_map<(a, b) -> (a, a)>"
            },
            "variables_space_order must be a permutation",
        ),
        (
            {
                "attributes": f"variables_space_set = {BOX4X64}, "
                "variables_space_order = affine_map<(a, b) -> (a)>"
            },
            "variables_space_order maps 2 dims to 1",
        ),
        (
            {
                "subscripts": "ind(%floats[%r]), (%c)",
                "types": "memref<32x64xf16>, memref<4xf16>",
            },
            "the index view of subscript 0 holds f16",
        ),
    ],
)
def test_a_malformed_indirect_tile_is_rejected(changes, message):
    assert_rejected(tile(**changes), message)


def test_a_variable_defined_outside_has_its_outer_value_if_its_range_is_zero():
    only_zero = "affine_set<(d0, d1) : (d0 == 0, d1 >= 0, -d1 + 63 >= 0)>"
    line = tile(
        "ind(%ids[%n]), (%c)",
        variables="%n, %c",
        attributes=f"variables_space_set = {only_zero}",
        result="<1x64xindex>",
    )
    operation = tile_operation(line)
    assert [value.name_hint for value in operation.captured] == ["n"]
    round_trip(line)
    assert_rejected(
        tile("ind(%ids[%n]), (%c)", variables="%n, %c"),
        "%n is defined outside, so its range as an intermediate variable must be 0 only",
    )


def test_names_of_variables_do_not_collide_with_later_values():
    later = "\n%r = arith.constant 1 : index\n%s = arith.addi %r, %r : index"
    text = round_trip(tile() + later)
    assert "intermediate_variables(%r, %c)" in text
    assert "%r_1 = arith.constant 1 : index" in text
