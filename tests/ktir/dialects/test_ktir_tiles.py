"""construct_access_tile: index expressions, sets, orders, symbols."""

import pytest
from ktir_texts import BOX4X64, assert_rejected, function, line_with, round_trip

from torch_spyre import ktir

VIEW = (
    "%v = ktdp.construct_memory_view %p, sizes: [32, 64], strides: [64, 1] "
    "{memory_space = #ktdp.memory_space<global>} : memref<32x64xf16>\n"
)
IDENTITY = "affine_map<(d0, d1) -> (d0, d1)>"


def tile(
    indices="%q, %n",
    attributes=f"access_tile_set = {BOX4X64}, access_tile_order = {IDENTITY}",
    types=": memref<32x64xf16> -> !ktdp.access_tile<4x64xindex>",
    symbols="",
):
    return f"{VIEW}%t = ktdp.construct_access_tile %v[{indices}]{symbols} {{{attributes}}} {types}"


def tile_operation(line):
    module = ktir.load(function(line))
    (operation,) = (op for op in module.operation.walk() if op.name == "ktdp.construct_access_tile")
    return operation


def test_a_tile_prints_as_written():
    assert line_with(round_trip(tile()), "tile ") == (
        "%t = ktdp.construct_access_tile %v[%q, %n] {access_tile_set = #set1, access_tile_order = "
        "#map} : memref<32x64xf16> -> !ktdp.access_tile<4x64xindex>"
    )


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("%q * 2, %n + 4", "%q * 2, %n + 4"),
        ("2 * %q, 4 + %n", "%q * 2, %n + 4"),
        ("%q + %n, %n", "%q + %n, %n"),
        ("%q - %n * 3, 0", "%q - %n * 3, 0"),
        ("-%q + 7, (%n + 1) floordiv 4", "-%q + 7, (%n + 1) floordiv 4"),
        ("(%q mod 8) * 8 + %n ceildiv 2, %q", "%q mod 8 * 8 + %n ceildiv 2, %q"),
        ("%q, %q", "%q, %q"),
        ("3, -4", "3, -4"),
    ],
)
def test_index_expressions_print_in_canonical_form(written, printed):
    assert f"%v[{printed}]" in round_trip(tile(written))


def test_the_base_map_is_over_distinct_indices_in_order_of_appearance():
    operation = tile_operation(tile("%n + %q, %n * 2"))
    assert str(operation.base_map.data) == "(d0, d1) -> ((d0 + d1), (d0 * 2))"
    assert [value.name_hint for value in operation.indices] == ["n", "q"]


def test_an_explicit_base_map_applies_to_the_indices():
    attributes = f"base_map = affine_map<(a, b) -> (b * 2, a)>, access_tile_set = {BOX4X64}"
    assert "%v[%n * 2, %q + 1]" in round_trip(tile("%q + 1, %n", attributes))
    wrong = f"base_map = affine_map<(a) -> (a, a)>, access_tile_set = {BOX4X64}"
    assert_rejected(tile(attributes=wrong), "base_map has 1 dims, but there are 2 indices")


def test_results_of_a_tuple_can_be_indices():
    pair = "%g:2 = ktdp.get_compute_tile_id : index, index\n"
    text = round_trip(pair + tile("%g#1, %g#0 + %g#1"))
    assert "%g, %g_1 = ktdp.get_compute_tile_id" in text
    assert "%v[%g_1, %g + %g_1]" in text


def test_a_missing_order_is_the_identity():
    text = round_trip(tile(attributes=f"access_tile_set = {BOX4X64}"))
    assert f"#map = {IDENTITY}" in text


def test_a_missing_base_type_is_the_one_of_the_view():
    text = round_trip(tile(types="-> !ktdp.access_tile<4x64xindex>"))
    assert ": memref<32x64xf16> -> !ktdp.access_tile<4x64xindex>" in text


def test_the_tile_type_may_be_elided():
    round_trip(tile(types=": memref<32x64xf16> -> <4x64xindex>"))


def test_a_base_may_be_a_tensor():
    tensor = "%v = tensor.empty() : tensor<32x64xf16>\n"
    line = tile(types=": tensor<32x64xf16> -> <4x64xindex>").replace(VIEW, tensor)
    round_trip(line)


def test_symbols_bind_to_operands():
    symbolic = "affine_set<(d0, d1)[s] : (d0 >= 0, d0 <= s, d1 >= 0, d1 <= 63)>"
    attributes = f"access_tile_set = {symbolic}"
    types = ": memref<32x64xf16> -> <?x64xindex>"
    assert "symbols(%n)" in round_trip(
        tile(attributes=attributes, types=types, symbols=" symbols(%n)")
    )
    assert_rejected(
        tile(attributes=attributes, types=types), "1 symbols, but there are 0 symbol operands"
    )


def test_two_symbols_with_the_same_operand_are_rejected():
    symbolic = "affine_set<(d0, d1)[s, t] : (d0 >= 0, d0 <= s, d1 >= 0, d1 <= t)>"
    assert_rejected(
        tile(attributes=f"access_tile_set = {symbolic}", symbols=" symbols(%n)"),
        "access_tile_set has 2 symbols, but there are 1 symbol operands",
    )


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (f"access_tile_order = {IDENTITY}", "access_tile_set is missing"),
        (f"access_tile_set = {IDENTITY}", "access_tile_set must be an affine set"),
        (
            f"access_tile_set = {BOX4X64}, access_tile_order = affine_map<(d0) -> (d0)>",
            "access_tile_order maps 1 dims to 1, but access_tile_set has 2",
        ),
        (
            f"access_tile_set = {BOX4X64}, access_tile_order = affine_map<(a, b) -> (a)>",
            "access_tile_order maps 2 dims to 1, but access_tile_set has 2",
        ),
        (
            "access_tile_set = affine_set<(d0) : (d0 >= 0, d0 <= 3)>",
            "access_tile_set has 1 dims, but base_map has 2",
        ),
    ],
)
def test_a_malformed_tile_is_rejected(attributes, message):
    error = assert_rejected(tile(attributes=attributes), message)
    assert "ktdp.construct_access_tile" in str(error)


def test_indices_must_match_the_rank_of_the_base():
    assert_rejected(tile("%q"), "1 index expressions for a base of rank 2")


def test_the_rank_of_the_tile_is_that_of_its_set():
    assert_rejected(tile(types=": memref<32x64xf16> -> <256xindex>"), "the tile has rank 1")


def test_a_base_of_unknown_type_is_rejected():
    line = tile(types="-> <4x64xindex>").replace("%v[", "%later[")
    assert_rejected(line, "the type of this value is not known here")


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ("%q * %n, %n", "a product in an affine expression needs a constant factor"),
        ("%q floordiv 0, %n", "floordiv needs a positive constant divisor"),
        ("%q mod -2, %n", "mod needs a positive constant divisor"),
        ("%q ceildiv %n, %n", "ceildiv needs a positive constant divisor"),
        ("%q + d0, %n", "Expected primary expression"),
        ("%q + 99999999999999999999, %n", "exceeds 62 bits"),
        ("%q +, %n", "Expected primary expression"),
    ],
)
def test_an_index_expression_that_is_not_affine_is_rejected(indices, message):
    assert_rejected(tile(indices), message)


def test_extents_that_differ_from_the_set_are_a_warning():
    with pytest.warns(ktir.KtirWarning, match=r"spans \[4, 64\], the tile is declared \[64, 4\]"):
        ktir.load(function(tile(types=": memref<32x64xf16> -> <64x4xindex>")))


def test_extents_follow_the_order():
    swap = "affine_map<(d0, d1) -> (d1, d0)>"
    attributes = f"access_tile_set = {BOX4X64}, access_tile_order = {swap}"
    round_trip(tile(attributes=attributes, types=": memref<32x64xf16> -> <64x4xindex>"))


def test_an_unbounded_set_is_a_warning():
    with pytest.warns(ktir.KtirWarning, match="unbounded along d1"):
        ktir.load(
            function(tile(attributes="access_tile_set = affine_set<(a, b) : (a == 0, b >= 0)>"))
        )


def test_rank_zero():
    lines = (
        "%s = ktdp.construct_memory_view %p, sizes: [], strides: [] "
        "{coordinate_set = affine_set<() : ()>} : memref<f16>\n"
        "%t = ktdp.construct_access_tile %s[] {access_tile_set = affine_set<() : ()>, "
        "access_tile_order = affine_map<() -> ()>} : memref<f16> -> !ktdp.access_tile<index>\n"
        "%x = ktdp.load %t : <index> -> tensor<f16>"
    )
    assert "affine_set<() : ()>" in round_trip(lines)
