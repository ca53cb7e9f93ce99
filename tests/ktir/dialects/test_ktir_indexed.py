"""`spyreop.gather` and `spyreop.scatter`: syntax, verification, and what they compute."""

import numpy as np
import pytest
from ktir_texts import assert_rejected, line_with, round_trip

from torch_spyre import ktir
from torch_spyre.errors import KtirError
from torch_spyre.ktir.interpreter import interpret

ARGUMENTS = (
    "%t: tensor<4x8xf16>, %i: tensor<4x3xi32>, %v: tensor<4x3xf16>, %a: tensor<4x8xf32>, "
    "%f: index, %w: tensor<5x3xi32>"
)
TABLE, INDEX, TILE = "tensor<4x8xf16>", "tensor<4x3xi32>", "tensor<4x3xf16>"
GATHER = (
    f"%y = spyreop.gather %t[%i] into %v from %f at(ORIGIN) {{dim = DIM : i64, size = 20 : i64}} "
    f": {TABLE}, {INDEX}, {TILE} -> {TILE}"
)
SCATTER = (
    f"%y = spyreop.scatter %v into %a[%i] from %f at(%f, %f) "
    f'{{dim = 1 : i64, size = 20 : i64, combine = "addf"}} : {TILE}, tensor<4x8xf32>, {INDEX} '
    "-> tensor<4x8xf32>"
)


def gather(dim=1, origin="%f, %f"):
    return GATHER.replace("DIM", str(dim)).replace("ORIGIN", origin)


@pytest.mark.parametrize("line", [gather(), gather(origin=""), SCATTER])
def test_an_op_prints_as_written(line):
    assert line_with(round_trip(line, arguments=ARGUMENTS), "spyreop") == line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (gather(dim=0), "a table of shape"),
        (gather(dim=2), "dim 2 of a table of rank 2"),
        (gather(origin="%f"), "1 origins of a tensor of rank 2"),
        (gather().replace("%i", "%w").replace(INDEX, "tensor<5x3xi32>"), "indices of shape"),
        (gather().replace("%t[", "%a[").replace(TABLE, "tensor<4x8xf32>"), "a gather of f32"),
        (gather().replace("%i", "%v").replace(INDEX, TILE), "indices of type f16"),
        (SCATTER.replace(', combine = "addf"', ""), "a scatter of f16 into f32"),
        (gather().replace(f"-> {TILE}", f"-> {TABLE}"), "the type of `into`"),
    ],
)
def test_an_invalid_op_is_rejected(line, message):
    assert_rejected(line, message, arguments=ARGUMENTS)


KERNEL = """
#rows = affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 7 >= 0)>
#points = affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 2 >= 0)>
func.func @kernel(%table: index, %index: index, %tile: index, %out: index) {
  %zero = arith.constant 0 : index
  %f = arith.constant 2 : index
  %tv = ktdp.construct_memory_view %table, sizes: [4, 8], strides: [8, 1] : memref<4x8xf32>
  %iv = ktdp.construct_memory_view %index, sizes: [4, 3], strides: [3, 1] : memref<4x3xi32>
  %vv = ktdp.construct_memory_view %tile, sizes: [4, 3], strides: [3, 1] : memref<4x3xf32>
  %ta = ktdp.construct_access_tile %tv[%zero, %zero] {access_tile_set = #rows} -> <4x8xindex>
  %ia = ktdp.construct_access_tile %iv[%zero, %zero] {access_tile_set = #points} -> <4x3xindex>
  %va = ktdp.construct_access_tile %vv[%zero, %zero] {access_tile_set = #points} -> <4x3xindex>
  %t = ktdp.load %ta : <4x8xindex> -> tensor<4x8xf32>
  %i = ktdp.load %ia : <4x3xindex> -> tensor<4x3xi32>
  %v = ktdp.load %va : <4x3xindex> -> tensor<4x3xf32>
  BODY
  return
}
"""
GATHERED = """
  %y = spyreop.gather %t[%i] into %v from %f at() {dim = 1 : i64, size = 20 : i64}
    : tensor<4x8xf32>, tensor<4x3xi32>, tensor<4x3xf32> -> tensor<4x3xf32>
  %ov = ktdp.construct_memory_view %out, sizes: [4, 3], strides: [3, 1] : memref<4x3xf32>
  %oa = ktdp.construct_access_tile %ov[%zero, %zero] {access_tile_set = #points} -> <4x3xindex>
  ktdp.store %y, %oa : tensor<4x3xf32>, <4x3xindex>
"""
SCATTERED = """
  %y = spyreop.scatter %v into %t[%i] from %f at() {dim = 1 : i64, size = 20 : i64 COMBINE}
    : tensor<4x3xf32>, tensor<4x8xf32>, tensor<4x3xi32> -> tensor<4x8xf32>
  %ov = ktdp.construct_memory_view %out, sizes: [4, 8], strides: [8, 1] : memref<4x8xf32>
  %oa = ktdp.construct_access_tile %ov[%zero, %zero] {access_tile_set = #rows} -> <4x8xindex>
  ktdp.store %y, %oa : tensor<4x8xf32>, <4x8xindex>
"""
TABLE_VALUES = np.arange(32, dtype=np.float32).reshape(4, 8)
TILE_VALUES = 100 + np.arange(12, dtype=np.float32).reshape(4, 3)
# Indices 2 to 9 are in the table; others do nothing.
INDICES = np.array([[2, 2, 0], [9, 10, 3], [4, 5, 4], [19, 1, 2]], np.int32)


def run(body, shape, indices=INDICES):
    """Return the results of the card and of the interpreter."""
    module = ktir.load(KERNEL.replace("BODY", body))
    arrays = [TABLE_VALUES.copy(), indices, TILE_VALUES.copy(), np.zeros(shape, np.float32)]
    names = ("table", "index", "tile", "out")
    result = module.run("kernel", **dict(zip(names, arrays, strict=True)))["out"]
    memories = [array.copy().reshape(-1).view(np.uint8) for array in arrays]
    interpret(module.functions["kernel"], memories)
    return result.reshape(-1), memories[3].view(np.float32)


def test_a_gather_reads_the_elements_in_the_table():
    expected = TILE_VALUES.copy()
    for row, column in np.ndindex(4, 3):
        if 2 <= INDICES[row, column] < 10:
            expected[row, column] = TABLE_VALUES[row, INDICES[row, column] - 2]
    for result in run(GATHERED, (4, 3)):
        assert np.array_equal(result, expected.reshape(-1))


@pytest.mark.parametrize("combine", ["", "addf", "mulf", "maximumf"])
def test_a_scatter_combines_values_in_order(combine):
    functions = {"addf": np.add, "mulf": np.multiply, "maximumf": np.maximum}
    expected = TABLE_VALUES.copy()
    for row, column in np.ndindex(4, 3):
        target = INDICES[row, column] - 2
        if 0 <= target < 8:
            old, value = expected[row, target], TILE_VALUES[row, column]
            expected[row, target] = functions[combine](old, value) if combine else value
    body = SCATTERED.replace("COMBINE", f', combine = "{combine}"' if combine else "")
    for result in run(body, (4, 8)):
        assert np.array_equal(result, expected.reshape(-1))


def test_an_index_out_of_bounds_is_an_error():
    wrong = INDICES.copy()
    wrong[2, 1] = 20
    with pytest.raises(IndexError, match="index 20 is out of range"):
        run(GATHERED, (4, 3), wrong)


def test_an_unknown_combination_is_rejected():
    with pytest.raises(KtirError, match="cannot combine elements with 'subf'"):
        run(SCATTERED.replace("COMBINE", ', combine = "subf"'), (4, 8))
