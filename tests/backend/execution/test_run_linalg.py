"""Tests of structured ops: generic loops, elementwise ops, fills and broadcasts."""

import numpy as np
import pytest
from run_texts import (
    ULP_OF_ONE,
    assert_close,
    assert_close_to_matmul,
    half,
    kernel,
    load,
    numpy_type,
    round_to_card,
    run,
    store,
    tensor,
    zeros,
)


def generic(maps, iterators, arguments, body, *, inputs, outputs):
    """`inputs` and `outputs`: names with shapes and types; outputs are `%o<name>` before."""
    ins = ", ".join(f"%{name}" for name in inputs)
    in_types = ", ".join(tensor(*actual) for actual in inputs.values())
    outs = ", ".join(f"%o{name}" for name in outputs)
    out_types = ", ".join(tensor(*actual) for actual in outputs.values())
    results = ", ".join(f"%{name}" for name in outputs)
    kinds = ", ".join(f'"{iterator}"' for iterator in iterators)
    result_type = f"({out_types})" if len(outputs) > 1 else out_types
    return [
        f"{results} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
        f"iterator_types = [{kinds}]}} "
        + (f"ins({ins} : {in_types}) " if inputs else "")
        + f"outs({outs} : {out_types}) {{",
        f"^bb0({arguments}):",
        body,
        f"}} -> {result_type}",
    ]


ID = "affine_map<(i, j) -> (i, j)>"


def test_generic_with_indices():
    text = kernel(
        "py",
        "%oy = tensor.empty() : tensor<6x8xi32>",
        generic(
            [ID],
            ["parallel"] * 2,
            "%o: i32",
            [
                "%i = linalg.index 0 : index",
                "%j = linalg.index 1 : index",
                "%k = arith.muli %i, %c4 : index",
                "%s = arith.addi %k, %j : index",
                "%v = arith.index_cast %s : index to i32",
                "linalg.yield %v : i32",
            ],
            inputs={},
            outputs={"y": ([6, 8], "i32")},
        ),
        store("y", [6, 8], "i32"),
    )
    actual = run(text, py=np.zeros((6, 8), np.int32))["py"]
    np.testing.assert_array_equal(actual, np.add.outer(np.arange(6) * 4, np.arange(8)))


def test_generic_with_broadcast_and_transposed_operands():
    text = kernel(
        "pa; pb; pd; py",
        load("a", [8]),
        load("b", [8, 6]),
        load("d", [1, 8]),
        "%oy = tensor.empty() : tensor<6x8xf16>",
        generic(
            [
                "affine_map<(i, j) -> (j)>",
                "affine_map<(i, j) -> (j, i)>",
                "affine_map<(i, j) -> (0, j)>",
                ID,
            ],
            ["parallel"] * 2,
            "%p: f16, %q: f16, %r: f16, %o: f16",
            [
                "%s = arith.mulf %p, %q : f16",
                "%v = arith.addf %s, %r : f16",
                "linalg.yield %v : f16",
            ],
            inputs={"a": ([8],), "b": ([8, 6],), "d": ([1, 8],)},
            outputs={"y": ([6, 8],)},
        ),
        store("y", [6, 8]),
    )
    random = np.random.default_rng(9)
    a, b, d = (random.integers(-9, 9, s).astype(np.float16) for s in [(8,), (8, 6), (1, 8)])
    actual = run(text, pa=a, pb=b, pd=d, py=zeros(6, 8))["py"]
    np.testing.assert_array_equal(actual, a * b.T + d)


def test_generic_with_two_results_and_its_outs():
    text = kernel(
        "px; py; pz",
        load("x", [4, 8]),
        load("oy", [4, 8], base="py"),
        "%oz = tensor.empty() : tensor<8x4xf32>",
        generic(
            [ID, ID, "affine_map<(i, j) -> (j, i)>"],
            ["parallel"] * 2,
            "%p: f16, %q: f16, %o: f32",
            [
                "%s = arith.addf %p, %q : f16",
                "%w = arith.extf %p : f16 to f32",
                "linalg.yield %s, %w : f16, f32",
            ],
            inputs={"x": ([4, 8],)},
            outputs={"y": ([4, 8],), "z": ([8, 4], "f32")},
        ),
        store("y", [4, 8]),
        store("z", [8, 4], "f32"),
    )
    x = np.arange(32, dtype=np.float16).reshape(4, 8)
    actual = run(text, px=x, py=np.full((4, 8), 2, np.float16), pz=np.zeros((8, 4), np.float32))
    np.testing.assert_array_equal(actual["py"], x + 2)
    np.testing.assert_array_equal(actual["pz"], x.T)


def test_generic_that_reads_a_table():
    text = kernel(
        "pt; pi; py",
        load("t", [16, 4]),
        load("i", [8], "i32"),
        "%oy = tensor.empty() : tensor<8x4xf16>",
        generic(
            ["affine_map<(a, b) -> (a)>", "affine_map<(a, b) -> (a, b)>"],
            ["parallel"] * 2,
            "%id: i32, %o: f16",
            [
                "%row = arith.index_cast %id : i32 to index",
                "%column = linalg.index 1 : index",
                "%v = tensor.extract %t[%row, %column] : tensor<16x4xf16>",
                "linalg.yield %v : f16",
            ],
            inputs={"i": ([8], "i32")},
            outputs={"y": ([8, 4],)},
        ),
        store("y", [8, 4]),
    )
    table, ids = half(16, 4), np.array([3, 3, 15, 0, 1, 2, 8, 9], np.int32)
    actual = run(text, pt=table, pi=ids, py=zeros(8, 4))["py"]
    np.testing.assert_array_equal(actual, table[ids])


def test_generic_that_reduces_squares():
    text = kernel(
        "px; py",
        load("x", [4, 8], "f32"),
        "%oy = arith.constant dense<1.0> : tensor<4xf32>",
        generic(
            [ID, "affine_map<(i, j) -> (i)>"],
            ["parallel", "reduction"],
            "%p: f32, %o: f32",
            [
                "%q = arith.mulf %p, %p : f32",
                "%v = arith.addf %o, %q : f32",
                "linalg.yield %v : f32",
            ],
            inputs={"x": ([4, 8], "f32")},
            outputs={"y": ([4], "f32")},
        ),
        store("y", [4], "f32"),
    )
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    actual = run(text, px=x, py=np.zeros(4, np.float32))["py"]
    np.testing.assert_array_equal(actual, (x * x).sum(1) + 1)


def test_generic_matmul_with_a_transposed_operand():
    text = kernel(
        "pa; pb; py",
        load("a", [8, 16]),
        load("b", [4, 16]),
        "%oy = arith.constant dense<0.0> : tensor<8x4xf16>",
        generic(
            [
                "affine_map<(m, n, k) -> (m, k)>",
                "affine_map<(m, n, k) -> (n, k)>",
                "affine_map<(m, n, k) -> (m, n)>",
            ],
            ["parallel", "parallel", "reduction"],
            "%p: f16, %q: f16, %o: f16",
            [
                "%s = arith.mulf %p, %q : f16",
                "%v = arith.addf %o, %s : f16",
                "linalg.yield %v : f16",
            ],
            inputs={"a": ([8, 16],), "b": ([4, 16],)},
            outputs={"y": ([8, 4],)},
        ),
        store("y", [8, 4]),
    )
    a, b = half(8, 16), half(4, 16, seed=1)
    assert_close_to_matmul(run(text, pa=a, pb=b, py=zeros(8, 4))["py"], a, b.T, 0.0)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "max"])
def test_named_elementwise_ops_only_take_the_shape_of_their_outs(op):
    text = kernel(
        "px; py; pr",
        load("x", [4, 8]),
        load("y", [4, 8]),
        "%o = arith.constant dense<7.0> : tensor<4x8xf16>",
        f"%r = linalg.{op} ins(%x, %y : tensor<4x8xf16>, tensor<4x8xf16>) "
        "outs(%o : tensor<4x8xf16>) -> tensor<4x8xf16>",
        store("r", [4, 8]),
    )
    x, y = half(4, 8), half(4, 8, seed=1)
    wide = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum}[op]
    assert_close(run(text, px=x, py=y, pr=zeros(4, 8))["pr"], wide(x.astype(float), y))


@pytest.mark.parametrize("dims", [[0], [1], [2], [0, 2], [0, 1, 2]])
def test_broadcast(dims):
    shape = [3, 4, 8]
    kept = [size for dim, size in enumerate(shape) if dim not in dims]
    text = kernel(
        "px; py",
        load("x", kept),
        f"%e = tensor.empty() : {tensor(shape)}",
        f"%y = linalg.broadcast ins(%x : {tensor(kept)}) outs(%e : {tensor(shape)}) "
        f"dimensions = {dims}",
        store("y", shape),
    )
    x = half(*kept) if kept else np.array(1.5, np.float16)
    expected = np.broadcast_to(np.expand_dims(x, tuple(dims)), shape)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(*shape))["py"], expected)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (2, 1, 0)])
def test_transpose(order):
    shape = [3, 4, 8]
    after = [shape[dim] for dim in order]
    text = kernel(
        "px; py",
        load("x", shape),
        f"%e = tensor.empty() : {tensor(after)}",
        f"%y = linalg.transpose ins(%x : {tensor(shape)}) outs(%e : {tensor(after)}) "
        f"permutation = {[*order]}",
        store("y", after),
    )
    x = half(*shape)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(*after))["py"], x.transpose(order))


def test_fill():
    text = kernel(
        "py; v: f16",
        "%e = tensor.empty() : tensor<4x8xf16>",
        "%y = linalg.fill ins(%v : f16) outs(%e : tensor<4x8xf16>) -> tensor<4x8xf16>",
        store("y", [4, 8]),
    )
    actual = run(text, py=zeros(4, 8), v=2.5)["py"]
    np.testing.assert_array_equal(actual, np.full((4, 8), 2.5))


@pytest.mark.parametrize(
    ("given", "type", "value", "expected"),
    [
        ("f32", "f16", 1.1, round_to_card(np.array(1.1, np.float16))),
        ("f16", "f32", 1.5, 1.5),
        ("i32", "f32", -3, -3),
        ("f32", "i32", -2.75, -2),
        ("i8", "i32", -5, -5),
        ("i64", "i8", 259, 3),
        ("i1", "i32", True, -1),
    ],
)
def test_a_fill_converts_to_the_type_of_its_outs(given, type, value, expected):
    wide = {"f16": ("f32", "arith.extf"), "i8": ("i32", "arith.extsi")}
    seen, widen = wide.get(type, (type, None))
    text = kernel(
        f"py; v: {given}",
        f"%e = tensor.empty() : {tensor([8], type)}",
        f"%f = linalg.fill ins(%v : {given}) outs(%e : {tensor([8], type)}) -> {tensor([8], type)}",
        # The values of the elements before the rounding of a store.
        f"%y = {widen} %f : {tensor([8], type)} to {tensor([8], seen)}"
        if widen
        else f"%y = tensor.cast %f : {tensor([8], type)} to {tensor([8], type)}",
        store("y", [8], seen),
    )
    actual = run(text, py=zeros(8, dtype=numpy_type(seen)), v=value)["py"]
    np.testing.assert_array_equal(actual, np.full(8, expected))


def test_ulp_has_nine_fraction_bits():
    text = kernel(
        "px; py", load("x", [8]), "%y = arith.addf %x, %x : tensor<8xf16>", store("y", [8])
    )
    odd = 1 + ULP_OF_ONE
    actual = run(text, px=np.full(8, odd, np.float16), py=zeros(8))["py"]
    np.testing.assert_array_equal(actual, np.full(8, 2 * odd))
