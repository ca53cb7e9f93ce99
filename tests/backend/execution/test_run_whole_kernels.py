"""Tests of whole kernels in the syntax of several producers, against NumPy in float64."""

from pathlib import Path

import numpy as np
import pytest
from run_texts import assert_close, half, zeros

from torch_spyre import ktir

KERNELS = Path(__file__).parent / "kernels"


def run(name, **arguments):
    module = ktir.load(str(KERNELS / name))
    (function,) = module.functions
    return module.run(function, **arguments)


def softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize("columns", [262144, 262143, 100000, 5])
def test_softmax_of_wide_ragged_rows(columns):
    x = half(2, 262144, scale=2)
    actual = run("softmax_wide.mlir", output_ptr=zeros(2, 262144), input_ptr=x, n_cols=columns)
    expected = zeros(2, 262144, dtype=float)
    expected[:, :columns] = softmax(x[:, :columns].astype(float))
    # The exponent's argument is rounded first: it is up to 20, so 20 / 1024 relatively.
    assert_close(actual["output_ptr"], expected, roundings=45, absolute=2.0**-24)


def test_softmax_of_whole_rows_strided_over_cores():
    columns = 200000
    x = half(3, 262144, scale=2)
    actual = run(
        "softmax_one_pass.mlir",
        output_ptr=zeros(3, 262144),
        input_ptr=x,
        input_row_stride=262144,
        output_row_stride=262144,
        n_rows=3,
        n_cols=columns,
    )["output_ptr"]
    expected = zeros(3, 262144, dtype=float)
    expected[:, :columns] = softmax(x[:, :columns].astype(float))
    assert_close(actual, expected, roundings=45, absolute=2.0**-24)


def test_rms_norm_over_a_square_of_cores():
    x, weight = half(64, 128), half(128, seed=1)
    wide = x.astype(float)
    expected = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * weight
    actual = run(
        "rmsnorm_2x2.mlir",
        x0=np.ascontiguousarray(x[:, :64]),
        x1=np.ascontiguousarray(x[:, 64:]),
        weight=weight,
        y0=zeros(64, 64),
        y1=zeros(64, 64),
    )
    assert_close(
        np.hstack([actual["y0"], actual["y1"]]), expected, roundings=2.1, absolute=2.0**-24
    )


def test_matmul_with_split_keys():
    p = softmax(half(64, 512).astype(float)).astype(np.float16)
    v = half(512, 64, seed=1)
    actual = run("sdpa_pv_ksplit.mlir", P=p, V=v, O=zeros(64, 64))["O"]
    expected = p.astype(float) @ v
    # Each of 8 parts and 7 sums rounds once; so does p on its way to the card.
    slack = (np.abs(p.astype(float)) @ np.abs(v)) * 2.0**-10 * 10
    assert_close(actual, expected, absolute=slack)


def test_nested_loops():
    a = np.arange(256, dtype=np.float16).reshape(4, 64) % 13
    actual = run("nested_yield.ktir", a=a, out=zeros(1, 64))["out"]
    np.testing.assert_array_equal(actual[0], a.sum(0))


@pytest.mark.parametrize("n", [1, 1024, 5000, 32768])
def test_adding_vectors_of_any_length(n):
    x, y = (half(n, seed=seed).astype(np.float32) for seed in range(2))
    arrays = {"x_ptr": x, "y_ptr": y, "output_ptr": np.zeros(n, np.float32)}
    actual = run("vector_add_dynamic.mlir", **arrays, n_elements=n)["output_ptr"]
    np.testing.assert_array_equal(actual, x + y)


def test_adding_at_indices():
    out = np.arange(12800, dtype=np.float16).reshape(100, 128) % 17
    src = np.arange(4096, dtype=np.float16).reshape(32, 128) % 11
    ids = np.random.default_rng(1).permutation(100)[:32]
    expected = out.copy()
    expected[ids] += src
    actual = run("indexed_add.mlir", out_ptr=out, src_ptr=src, ids_ptr=ids)["out_ptr"]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("columns", [128, 512])
def test_layer_norm_with_sizes_as_scalars(columns):
    x, w, b = half(10, columns), half(columns, seed=1), half(columns, seed=2)
    wide = x.astype(float)
    normal = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    actual = run(
        "layernorm_fwd.mlir",
        X=x, Y=zeros(10, columns), W=w, B=b, Mean=np.zeros(10, np.float32),
        stride=columns, M=10, N=columns, eps=1e-5,
    )  # fmt: skip
    assert_close(actual["Y"], normal * w + b, absolute=2.0**-18)
    np.testing.assert_allclose(actual["Mean"], wide.mean(1), atol=1e-6)


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_ring_in_a_loop(trips):
    x = np.arange(512, dtype=np.float16).reshape(4, 128) % 7
    actual = run(
        "ring_reduce_inner_loop.mlir", **{"in": x, "out": np.ones(128, np.float16), "n": trips}
    )
    np.testing.assert_array_equal(actual["out"], trips * x.sum(0))


def by_columns(matrix):
    """Four pieces of columns, one after the other in memory."""
    return np.concatenate([piece.ravel() for piece in np.split(matrix, 4, axis=1)])


def test_swiglu_on_four_cores():
    x = half(16, 64)
    gate, up = (half(64, 256, seed=seed, scale=0.1) for seed in (1, 2))
    down = half(256, 64, seed=3, scale=0.1)
    actual = run(
        "ffn_swiglu_4core.mlir",
        x=x, gate=by_columns(gate), up=by_columns(up), down=down.ravel(), y=zeros(16, 64),
    )["y"]  # fmt: skip
    g = x.astype(float) @ gate
    hidden = g / (1 + np.exp(-g)) * (x.astype(float) @ up)
    # About ten roundings before the last matmul, one per slice and per sum.
    slack = np.abs(hidden) @ np.abs(down.astype(float)) * 2.0**-10 * 15
    assert_close(actual, hidden @ down, absolute=slack)


def test_rotary_embedding():
    x = half(64, 128)
    angles = np.outer(np.arange(64), 10000.0 ** (-np.arange(64) / 64))
    cos, sin = np.cos(angles).astype(np.float16), np.sin(angles).astype(np.float16)
    actual = run("rope_4x2.mlir", x=x, cos=cos, sin=sin, y=zeros(64, 128))["y"]
    first, second = x[:, :64].astype(float), x[:, 64:].astype(float)
    expected = np.hstack([first * cos - second * sin, second * cos + first * sin])
    slack = np.hstack([np.abs(first) + np.abs(second)] * 2) * 2.0**-10 * 2
    assert_close(actual, expected, absolute=slack)


@pytest.mark.parametrize("lengths", [(64, 33), (1, 16), (17, 50)])
def test_attention_over_pages_with_lengths(lengths):
    query, keys = half(2, 4, 32), half(10, 16, 32, seed=1)
    values = half(10, 16, 32, seed=2)
    table = np.array([[7, 2, 9, 4], [0, 3, 1, 8]], np.int32)
    actual = run(
        "paged_attention.mlir",
        out=zeros(2, 4, 32), query=query, key_cache=keys, value_cache=values,
        block_tables=table, seq_lens=np.array(lengths, np.int32), scale=32**-0.5,
    )["out"]  # fmt: skip
    for sequence, length in enumerate(lengths):
        k = keys[table[sequence]].reshape(64, 32)[:length].astype(float)
        v = values[table[sequence]].reshape(64, 32)[:length].astype(float)
        weights = softmax(query[sequence].astype(float) @ k.T * 32**-0.5)
        assert_close(actual[sequence], weights @ v, absolute=weights @ np.abs(v) * 2.0**-9)


@pytest.mark.parametrize("height", [6, 7, 9, 12])
def test_concatenation_of_matrices_of_dynamic_height(height):
    a, b = half(height, 16), half(16, height, seed=1)
    actual = run("rowmerge_dynamic.mlir", a=a, b=b, out=zeros(12, 16), m=height)["out"]
    np.testing.assert_array_equal(actual, np.vstack([a, b.T])[:12])


def test_a_tile_larger_than_the_scratchpad():
    with pytest.raises(MemoryError, match="paged_copy.*%x"):
        run(
            "paged_tensor_copy.mlir",
            cache=zeros(1), pt=np.zeros((4, 32), np.int32), out=zeros(4, 8, 2048, 128),
            heads=8, page=64,
        )  # fmt: skip
