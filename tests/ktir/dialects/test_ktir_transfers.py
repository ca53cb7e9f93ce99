"""get_compute_tile_id, runtime_arg_extract, load and store."""

import pytest
from ktir_texts import BOX4X64, assert_rejected, function, line_with, round_trip

from torch_spyre import ktir

TILE = (
    "%v = ktdp.construct_memory_view %p, sizes: [32, 64], strides: [64, 1] {} : memref<32x64xf16>\n"
    f"%t = ktdp.construct_access_tile %v[%q, %n] {{access_tile_set = {BOX4X64}}} "
    ": memref<32x64xf16> -> <4x64xindex>\n"
)
TRIANGLE = "affine_set<(a, b) : (a >= 0, a <= 3, b >= 0, b <= a)>"
TRIANGULAR_TILE = TILE.replace(BOX4X64, TRIANGLE).replace("<4x64xindex>", "<4x4xindex>")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_core_has_one_to_three_coordinates(count):
    names = ", ".join(f"%i{position}" for position in range(count))
    types = ", ".join(["index"] * count)
    line = f"{names} = ktdp.get_compute_tile_id : {types}"
    assert line_with(round_trip(line), "tile_id") == line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%a, %b, %c, %d = ktdp.get_compute_tile_id : index, index, index, index", "1 to 3"),
        ("%a = ktdp.get_compute_tile_id : i32", "every result must have type index"),
        ("%a = ktdp.get_compute_tile_id : index, index", "has 2 results, not 1"),
        ("%a, %b = ktdp.get_compute_tile_id : index", "has 1 results, not 2"),
    ],
)
def test_invalid_core_coordinates_are_rejected(line, message):
    assert_rejected(line, message)


def test_fewer_coordinates_than_the_grid_has_dims_are_a_warning():
    line = "%a = ktdp.get_compute_tile_id : index"
    with pytest.warns(ktir.KtirWarning, match="1 of the coordinates on a grid of \\[2, 16, 1\\]"):
        ktir.load(function(line, grid="[2, 16]"))
    round_trip(line, grid="[32, 1]")


def extract(kind, argument_type, result_type, written_type=None):
    line = f"%x = ktdp.runtime_arg_extract {kind} from %a : {written_type or argument_type} -> "
    return {"body": line + result_type, "arguments": f"%a: {argument_type}"}


FULL = "!ktdp.runtime_arg<i32, granularity=64, upperbound=4096>"


@pytest.mark.parametrize(
    ("kind", "result"), [("value", "i32"), ("granularity", "index"), ("upperbound", "index")]
)
def test_extracts_of_a_runtime_argument_print_as_written(kind, result):
    assert line_with(round_trip(**extract(kind, FULL, result)), "extract") == (
        f"%x = ktdp.runtime_arg_extract {kind} from %a : "
        f"<i32, granularity=64, upperbound=4096> -> {result}"
    )
    round_trip(**extract(kind, FULL, result, FULL.removeprefix("!ktdp.runtime_arg")))


@pytest.mark.parametrize(
    ("kind", "argument_type", "result", "message"),
    [
        ("value", FULL, "index", "value has type i32, not index"),
        ("granularity", FULL, "i32", "granularity has type index, not i32"),
        ("upperbound", "!ktdp.runtime_arg<i32, granularity=64>", "index", "has no upperbound"),
        ("granularity", "!ktdp.runtime_arg<i32>", "index", "has no granularity"),
        ("maximum", FULL, "index", "'granularity', 'upperbound', 'value'"),
        ("value", "index", "index", "expected a type !ktdp.runtime_arg, found index"),
    ],
)
def test_an_invalid_extract_is_rejected(kind, argument_type, result, message):
    case = extract(kind, argument_type, result)
    assert_rejected(case["body"], message, arguments=case["arguments"])


def test_load_and_store_print_elided_tile_types():
    text = round_trip(
        TILE + "%x = ktdp.load %t : !ktdp.access_tile<4x64xindex> -> tensor<4x64xf16>\n"
        "ktdp.store %x, %t : tensor<4x64xf16>, !ktdp.access_tile<4x64xindex>"
    )
    assert line_with(text, "load") == "%x = ktdp.load %t : <4x64xindex> -> tensor<4x64xf16>"
    assert line_with(text, "store") == "ktdp.store %x, %t : tensor<4x64xf16>, <4x64xindex>"


def test_attributes_of_load_and_store_are_preserved():
    text = round_trip(
        TILE + "%x = ktdp.load %t {hint = 1 : i32} : <4x64xindex> -> tensor<4x64xf16>\n"
        "ktdp.store %x, %t {hint} : tensor<4x64xf16>, <4x64xindex>"
    )
    assert '{"hint" = 1 : i32}' in text or "{hint = 1 : i32}" in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "%x = ktdp.load %t : <4x64xindex> -> tensor<4x32xf16>",
            r"tensor shape \[4, 32\] differs from tile shape \[4, 64\]",
        ),
        ("%x = ktdp.load %t : <4x64xindex> -> f16", "tensor"),
        ("%x = ktdp.load %t : <4x64xindex> -> tensor<*xf16>", "tensor"),
        ("%x = ktdp.load %t : <4x32xindex> -> tensor<4x32xf16>", "previously used or defined"),
        ("%x = ktdp.load %v : memref<32x64xf16> -> tensor<4x64xf16>", "!ktdp.access_tile"),
        (
            "%x = tensor.empty() : tensor<64x8xf16>\n"
            "ktdp.store %x, %t : tensor<64x8xf16>, <4x64xindex>",
            r"tensor shape \[64, 8\] differs from tile shape \[4, 64\]",
        ),
    ],
)
def test_mismatched_shapes_are_rejected(line, message):
    assert_rejected(TILE + line, message)


def test_a_tensor_may_have_one_element_per_point_of_a_set():
    line = "%x = ktdp.load %t : <4x4xindex> -> tensor<10xf16>"
    round_trip(TRIANGULAR_TILE + line)
    assert_rejected(TRIANGULAR_TILE + line, "differs from tile shape", strict=True)
    assert_rejected(TRIANGULAR_TILE + line.replace("10xf16", "9xf16"), "differs from tile shape")


def test_strict_mode_rejects_a_store_of_another_shape():
    lines = TILE + "%x = tensor.empty() : tensor<256xf16>\n"
    lines += "ktdp.store %x, %t : tensor<256xf16>, <4x64xindex>"
    round_trip(lines)
    assert_rejected(lines, "differs from tile shape", strict=True)
