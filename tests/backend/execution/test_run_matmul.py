"""Tests of matmuls."""

import numpy as np
import pytest
from run_texts import (
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

from torch_spyre.errors import KtirError


def product(op, a, b, c, *, types=("f16", "f16", "f16"), outs=None):
    left, right, result = (
        tensor(shape, type) for shape, type in zip((a, b, c), types, strict=True)
    )
    return kernel(
        "pa; pb; pc",
        load("a", a, types[0]),
        load("b", b, types[1]),
        outs or load("o", c, types[2], base="pc"),
        f"%r = linalg.{op} ins(%a, %b : {left}, {right}) outs(%o : {result}) -> {result}",
        store("r", c, types[2], base="pc"),
    )


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (16, 64, 32), (64, 128, 64)])
def test_matmul_adds_to_its_outs(shape):
    m, k, n = shape
    a, b, c = half(m, k), half(k, n, seed=1), half(m, n, seed=2)
    actual = run(product("matmul", [m, k], [k, n], [m, n]), pa=a, pb=b, pc=c)["pc"]
    assert_close_to_matmul(actual, a, b, c.astype(float))


def test_batch_matmul_adds_to_its_outs():
    a, b, c = half(3, 8, 16), half(3, 16, 24, seed=1), half(3, 8, 24, seed=2)
    text = product("batch_matmul", [3, 8, 16], [3, 16, 24], [3, 8, 24])
    assert_close_to_matmul(run(text, pa=a, pb=b, pc=c)["pc"], a, b, c.astype(float))


def test_matmul_in_float32():
    a, b, c = (
        half(*s, seed=i).astype(np.float32) for i, s in enumerate([(8, 16), (16, 8), (8, 8)])
    )
    text = product("matmul", [8, 16], [16, 8], [8, 8], types=("f32",) * 3)
    actual = run(text, pa=a, pb=b, pc=c)["pc"]
    np.testing.assert_allclose(actual, a.astype(float) @ b + c, rtol=1e-5, atol=1e-5)


def test_matmul_of_float16_into_float32():
    a, b, c = half(8, 16), half(16, 8, seed=1), half(8, 8).astype(np.float32)
    text = product("matmul", [8, 16], [16, 8], [8, 8], types=("f16", "f16", "f32"))
    actual = run(text, pa=a, pb=b, pc=c)["pc"]
    np.testing.assert_allclose(actual, a.astype(float) @ b.astype(float) + c, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("type", ["i8", "i32", "i64"])
def test_matmul_of_integers(type):
    random = np.random.default_rng(5)
    a, b, c = (random.integers(-9, 9, s).astype(numpy_type(type)) for s in [(4, 8), (8, 4), (4, 4)])
    text = product("matmul", [4, 8], [8, 4], [4, 4], types=(type,) * 3)
    np.testing.assert_array_equal(run(text, pa=a, pb=b, pc=c)["pc"], a @ b + c)


def test_matmul_accumulates_in_float32():
    """SEN169 cannot count beyond 1024."""
    a, b = np.ones((1, 2048), np.float16), np.full((2048, 1), 1.001, np.float16)
    outs = "%o = arith.constant dense<0.0> : tensor<1x1xf16>"
    actual = run(
        product("matmul", [1, 2048], [2048, 1], [1, 1], outs=outs), pa=a, pb=b, pc=zeros(1, 1)
    )
    assert_close(actual["pc"], [[2048 * round_to_card(b[0])[0]]])


def test_a_constant_outs_is_unchanged_after_a_loop():
    text = kernel(
        "pa; pb; pc; pd",
        load("a", [4, 4]),
        load("b", [4, 4]),
        "%one = arith.constant dense<1.0> : tensor<4x4xf16>",
        "%c = scf.for %i = %c0 to %c3 step %c1 iter_args(%acc = %one) -> (tensor<4x4xf16>) {",
        "%n = linalg.matmul ins(%a, %b : tensor<4x4xf16>, tensor<4x4xf16>) "
        "outs(%acc : tensor<4x4xf16>) -> tensor<4x4xf16>",
        "scf.yield %n : tensor<4x4xf16>",
        "}",
        "%d = linalg.matmul ins(%a, %b : tensor<4x4xf16>, tensor<4x4xf16>) "
        "outs(%one : tensor<4x4xf16>) -> tensor<4x4xf16>",
        store("c", [4, 4]),
        store("d", [4, 4]),
    )
    a = np.random.default_rng(6).integers(-3, 3, (4, 4)).astype(np.float16)
    b = np.random.default_rng(7).integers(-3, 3, (4, 4)).astype(np.float16)
    actual = run(text, pa=a, pb=b, pc=zeros(4, 4), pd=zeros(4, 4))
    np.testing.assert_array_equal(actual["pc"], 3 * (a @ b) + 1)
    np.testing.assert_array_equal(actual["pd"], a @ b + 1)


def test_matmul_of_incompatible_shapes_is_rejected():
    text = product("matmul", [4, 8], [6, 4], [4, 4])
    with pytest.raises(KtirError):
        run(text, pa=zeros(4, 8), pb=zeros(6, 4), pc=zeros(4, 4))
