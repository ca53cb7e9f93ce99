"""Tests of ops of `tensor`, and of constants."""

import numpy as np
import pytest
from run_texts import half, kernel, load, numpy_type, run, store, tensor, zeros

from torch_spyre import ktir
from torch_spyre.errors import KtirError


def of(line, before, after, *, types=("f16", "f16"), arguments="", extra=()):
    """`%y` of the array `%x`."""
    return kernel(
        f"px; py{arguments}",
        load("x", before, types[0]),
        list(extra),
        line,
        store("y", after, types[1]),
    )


def test_static_slices():
    x = half(8, 16)
    text = of(
        "%y = tensor.extract_slice %x[2, 1] [3, 5] [2, 3] : tensor<8x16xf16> to tensor<3x5xf16>",
        [8, 16],
        [3, 5],
    )
    np.testing.assert_array_equal(run(text, px=x, py=zeros(3, 5))["py"], x[2:8:2, 1:16:3])


@pytest.mark.parametrize(("row", "column"), [(0, 0), (3, 8), (6, 11)])
def test_slices_at_offsets_known_at_run_time(row, column):
    x = half(8, 16)
    text = of(
        "%y = tensor.extract_slice %x[%r, %c] [2, 5] [1, 1] : tensor<8x16xf16> to tensor<2x5xf16>",
        [8, 16],
        [2, 5],
        arguments="; r; c",
    )
    actual = run(text, px=x, py=zeros(2, 5), r=row, c=column)["py"]
    np.testing.assert_array_equal(actual, x[row : row + 2, column : column + 5])


def test_slices_that_drop_dims():
    x = half(4, 8)
    text = of(
        "%y = tensor.extract_slice %x[%r, 0] [1, 8] [1, 1] : tensor<4x8xf16> to tensor<8xf16>",
        [4, 8],
        [8],
        arguments="; r",
    )
    np.testing.assert_array_equal(run(text, px=x, py=zeros(8), r=2)["py"], x[2])


@pytest.mark.parametrize("row", [-1, 7, 1000])
def test_a_slice_outside_its_tensor_is_an_error(row):
    text = of(
        "%y = tensor.extract_slice %x[%r, 0] [2, 16] [1, 1] : tensor<8x16xf16> to tensor<2x16xf16>",
        [8, 16],
        [2, 16],
        arguments="; r",
    )
    with pytest.raises((IndexError, RuntimeError), match="kernel f, core 0"):
        run(text, px=half(8, 16), py=zeros(2, 16), r=row)


@pytest.mark.parametrize("row", [-1, 7])
def test_static_slice_out_of_bounds_is_rejected(row):
    text = of(
        f"%y = tensor.extract_slice %x[{row}, 0] [2, 16] [1, 1] "
        ": tensor<8x16xf16> to tensor<2x16xf16>",
        [8, 16],
        [2, 16],
    )
    with pytest.raises(KtirError):
        run(text, px=half(8, 16), py=zeros(2, 16))


@pytest.mark.parametrize("row", [0, 5])
def test_inserting_a_slice(row):
    x, z = half(8, 16), half(3, 4, seed=1)
    text = kernel(
        "px; pz; py; pw; r",
        load("x", [8, 16]),
        load("z", [3, 4]),
        "%y = tensor.insert_slice %z into %x[%r, 2] [3, 4] [1, 3] "
        ": tensor<3x4xf16> into tensor<8x16xf16>",
        store("y", [8, 16]),
        store("x", [8, 16], base="pw"),
    )
    expected = x.copy()
    expected[row : row + 3, 2:14:3] = z
    actual = run(text, px=x, pz=z, py=zeros(8, 16), pw=zeros(8, 16), r=row)
    np.testing.assert_array_equal(actual["py"], expected)
    np.testing.assert_array_equal(actual["pw"], x)


def test_elements_in_and_out():
    text = kernel(
        "px; py; r",
        load("x", [4, 4], "i32"),
        "%v = tensor.extract %x[%r, %c2] : tensor<4x4xi32>",
        "%w = arith.addi %v, %v : i32",
        "%y = tensor.insert %w into %x[%c0, %r] : tensor<4x4xi32>",
        store("y", [4, 4], "i32"),
    )
    x = np.arange(16, dtype=np.int32).reshape(4, 4)
    expected = x.copy()
    expected[0, 3] = 2 * x[3, 2]
    np.testing.assert_array_equal(run(text, px=x, py=np.zeros_like(x), r=3)["py"], expected)


@pytest.mark.parametrize("at", [-1, 4])
def test_an_element_outside_its_tensor_is_an_error(at):
    text = kernel(
        "px; py; r",
        load("x", [4], "i32"),
        "%v = tensor.extract %x[%r] : tensor<4xi32>",
        "%y = tensor.splat %v : tensor<4xi32>",
        store("y", [4], "i32"),
    )
    x = np.arange(4, dtype=np.int32)
    with pytest.raises(IndexError, match=r"kernel f, core 0, instruction \d+ \(tensor.extract"):
        run(text, px=x, py=x, r=at)


@pytest.mark.parametrize("type", ["f16", "f32", "i8", "i32", "i64"])
def test_from_elements(type):
    text = kernel(
        f"py; a: {type}; b: {type}",
        f"%y = tensor.from_elements %a, %b, %a, %a, %b, %b : {tensor([2, 3], type)}",
        store("y", [2, 3], type),
    )
    actual = run(text, py=np.zeros((2, 3), numpy_type(type)), a=3, b=-5)["py"]
    np.testing.assert_array_equal(actual, [[3, -5, 3], [3, -5, -5]])


def test_generate():
    text = kernel(
        "px; py; s: i32",
        load("x", [3], "i32"),
        "%y = tensor.generate {",
        "^bb0(%i: index, %j: index):",
        "%k = arith.muli %i, %c4 : index",
        "%l = arith.addi %k, %j : index",
        "%m = arith.index_cast %l : index to i32",
        "%e = tensor.extract %x[%i] : tensor<3xi32>",
        "%n = arith.addi %m, %e : i32",
        "%v = arith.addi %n, %s : i32",
        "tensor.yield %v : i32",
        "} : tensor<3x4xi32>",
        store("y", [3, 4], "i32"),
    )
    x = np.array([100, 200, 300], np.int32)
    actual = run(text, px=x, py=np.zeros((3, 4), np.int32), s=7)["py"]
    np.testing.assert_array_equal(actual, np.arange(12).reshape(3, 4) + x[:, None] + 7)


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        ("tensor.collapse_shape %x [[0, 1], [2]] : {0} into {1}", [3, 4, 8], [12, 8]),
        ("tensor.collapse_shape %x [[0, 1, 2]] : {0} into {1}", [3, 4, 8], [96]),
        (
            "tensor.expand_shape %x [[0, 1], [2]] output_shape [3, 4, 8] : {0} into {1}",
            [12, 8],
            [3, 4, 8],
        ),
        ("tensor.expand_shape %x [[0, 1], [2]] : {0} into {1}", [12, 8], [2, 6, 8]),
        ("tensor.collapse_shape %x [] : {0} into {1}", [1, 1], []),
        ("tensor.expand_shape %x [] output_shape [1, 1] : {0} into {1}", [], [1, 1]),
    ],
)
def test_shapes_are_row_major(line, before, after):
    x = half(*before) if before else np.array(1.5, np.float16)
    text = of("%y = " + line.format(tensor(before), tensor(after)), before, after)
    actual = run(text, px=x, py=np.zeros(after, np.float16))["py"]
    np.testing.assert_array_equal(actual, x.reshape(after))


def test_reshape_with_a_shape_operand():
    x = half(4, 6)
    text = of(
        "%y = tensor.reshape %x(%shape) : (tensor<4x6xf16>, tensor<2xindex>) -> tensor<8x3xf16>",
        [4, 6],
        [8, 3],
        extra=["%shape = arith.constant dense<[8, 3]> : tensor<2xindex>"],
    )
    np.testing.assert_array_equal(run(text, px=x, py=zeros(8, 3))["py"], x.reshape(8, 3))


def test_reshaping_a_transposed_slice():
    x = half(6, 8)
    text = of(
        "%y = tensor.collapse_shape %t [[0, 1]] : tensor<4x3xf16> into tensor<12xf16>",
        [6, 8],
        [12],
        extra=[
            "%s = tensor.extract_slice %x[1, 2] [3, 4] [1, 1] : tensor<6x8xf16> to tensor<3x4xf16>",
            "%e = tensor.empty() : tensor<4x3xf16>",
            "%t = linalg.transpose ins(%s : tensor<3x4xf16>) outs(%e : tensor<4x3xf16>) "
            "permutation = [1, 0]",
        ],
    )
    np.testing.assert_array_equal(run(text, px=x, py=zeros(12))["py"], x[1:4, 2:6].T.ravel())


def test_rank_0_arithmetic():
    text = kernel(
        "px; py",
        load("x", []),
        "%two = arith.constant dense<2.0> : tensor<f16>",
        "%y = arith.mulf %x, %two : tensor<f16>",
        store("y", []),
    )
    actual = run(text, px=np.array(1.5, np.float16), py=np.array(0, np.float16))["py"]
    assert actual.shape == ()
    assert actual == 3


@pytest.mark.parametrize(
    ("literal", "type", "expected"),
    [
        ("dense<[1, 2, 3, 4]>", "i32", [1, 2, 3, 4]),
        ("dense<[1.5, -2.0, 0.25, 4.0]>", "f16", [1.5, -2, 0.25, 4]),
        ("dense<[1.5, -2.0, 0.1, 4.0]>", "f32", np.array([1.5, -2, 0.1, 4], np.float32)),
        ("dense<[true, false, false, true]>", "i1", [True, False, False, True]),
        ("dense<-3>", "i64", [-3] * 4),
        ("dense<0x7F800000>", "f32", [np.inf] * 4),
        ("dense<true>", "i1", [True] * 4),
    ],
)
def test_constants(literal, type, expected):
    text = kernel(
        "py", f"%y = arith.constant {literal} : {tensor([4], type)}", store("y", [4], type)
    )
    np.testing.assert_array_equal(run(text, py=np.zeros(4, numpy_type(type)))["py"], expected)


@pytest.mark.parametrize("spelling", ["0xFC00 : f16", "dense<0xFC00> : tensor<8xf16>"])
def test_bit_pattern_below_all_float16_values(spelling):
    """No half compares below it, and it is the seed of a maximum."""
    scalar = "dense" not in spelling
    text = kernel(
        "px; py; pm",
        load("x", [8]),
        f"%low = arith.constant {spelling}",
        "%lows = tensor.splat %low : tensor<8xf16>" if scalar else "",
        f"%y = arith.maximumf %x, %low{'s' if scalar else ''} : tensor<8xf16>",
        f"%m = arith.cmpf olt, %x, %low{'s' if scalar else ''} : tensor<8xf16>",
        store("y", [8]),
        store("m", [8], "i1"),
    )
    x = np.array([-60000, -1, 0, 1, 2, 3, -5, 60000], np.float16)
    actual = run(text, px=x, py=zeros(8), pm=np.ones(8, bool))
    np.testing.assert_array_equal(
        actual["py"], run(text, px=x, py=zeros(8), pm=np.ones(8, bool))["px"]
    )
    assert not actual["pm"].any()


def test_float32_minus_infinity():
    text = kernel(
        "py", "%y = arith.constant dense<0xFF800000> : tensor<4xf32>", store("y", [4], "f32")
    )
    actual = run(text, py=np.zeros(4, np.float32))["py"]
    np.testing.assert_array_equal(actual, np.full(4, -np.inf))


def test_dims_and_sizes_known_at_run_time():
    """Slice a tile with a length that is an argument, within a bound."""
    text = kernel(
        "px; py; n: !ktdp.runtime_arg<index, granularity=1, upperbound=16>",
        load("x", [16]),
        "%k = ktdp.runtime_arg_extract value from %n "
        ": <index, granularity=1, upperbound=16> -> index",
        "%s = tensor.extract_slice %x[0] [%k] [1] : tensor<16xf16> to tensor<?xf16>",
        "%t = arith.addf %s, %s : tensor<?xf16>",
        "%y = tensor.insert_slice %t into %x[0] [%k] [1] : tensor<?xf16> into tensor<16xf16>",
        store("y", [16]),
    )
    x = half(16)
    for count in (0, 1, 9, 16):
        actual = run(text, px=x, py=zeros(16), n=count)["py"]
        np.testing.assert_array_equal(actual, np.where(np.arange(16) < count, 2 * x, x))


def test_slices_of_a_size_known_at_run_time_begin_anywhere():
    text = kernel(
        "px; py; n",
        load("x", [16]),
        "%all = arith.constant 16 : index",
        "%m = arith.minsi %n, %all : index",
        "%s = tensor.extract_slice %x[12] [%m] [1] : tensor<16xf16> to tensor<?xf16>",
        "%t = arith.negf %s : tensor<?xf16>",
        "%y = tensor.insert_slice %t into %x[12] [%m] [1] : tensor<?xf16> into tensor<16xf16>",
        store("y", [16]),
    )
    module = ktir.load(text)
    # One program for all sizes, though the largest would leave the tensor.
    assert [argument.name for argument in module.compile("f").arguments] == ["px", "py", "n"]
    x = half(16)
    for count in (0, 1, 4):
        actual = module.run("f", px=x, py=zeros(16), n=count)["py"]
        np.testing.assert_array_equal(actual, [*x[:12], *-x[12 : 12 + count], *x[12 + count :]])
    with pytest.raises(RuntimeError, match=r"leaves a tensor"):
        module.run("f", px=x, py=zeros(16), n=5)


def test_truncf_of_a_large_tensor_saturates_as_the_card_does():
    text = of(
        "%y = arith.truncf %x : tensor<4xf32> to tensor<4xf16>", [4], [4], types=("f32", "f16")
    )
    actual = run(text, px=np.full(4, 1e30, np.float32), py=zeros(4))["py"]
    assert (actual > 60000).all()
