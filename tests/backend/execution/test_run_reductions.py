"""Tests of reductions with named and general combiners."""

import numpy as np
import pytest
from run_texts import (
    assert_close,
    half,
    kernel,
    load,
    numpy_type,
    run,
    store,
    tensor,
    zeros,
)


def reduction(body, shape, kept, dimensions, *, type="f16", init="0.0", shorthand=False):
    source, result = tensor(shape, type), tensor(kept, type)
    operands = f"ins(%x : {source}) outs(%init : {result}) dimensions = {[*dimensions]}"
    lines = (
        [f"%r = linalg.reduce {{ {body} }} {operands}"]
        if shorthand
        else [
            f"%r = linalg.reduce {operands}",
            f"(%in: {type}, %out: {type}) {{",
            body if isinstance(body, list) else f"%v = {body} %in, %out : {type}",
            f"linalg.yield %v : {type}",
            "}",
        ]
    )
    return kernel(
        "px; pr",
        load("x", shape, type),
        f"%init = arith.constant dense<{init}> : {result}",
        lines,
        store("r", kept, type),
    )


COMBINES = {
    "arith.addf": (np.sum, "0.0"),
    "arith.mulf": (np.prod, "1.0"),
    "arith.maximumf": (np.max, "0xFC00"),
    "arith.minimumf": (np.min, "0x7C00"),
    "arith.maxnumf": (np.max, "-1000.0"),
    "arith.minnumf": (np.min, "1000.0"),
}


@pytest.mark.parametrize("op", COMBINES)
@pytest.mark.parametrize("dims", [[0], [1], [2], [0, 2], [1, 2], [0, 1, 2]])
def test_reduction_of_float16(op, dims):
    x = half(3, 5, 8, scale=0.5)
    kept = [size for dim, size in enumerate(x.shape) if dim not in dims]
    function, init = COMBINES[op]
    expected = function(x.astype(float), axis=tuple(dims))
    slack = np.sum(np.abs(x.astype(float)), axis=tuple(dims)) * 2.0**-20
    out = np.zeros(kept, np.float16)
    region = run(reduction(op, [3, 5, 8], kept, dims, init=init), px=x, pr=out)["pr"]
    short = run(reduction(op, [3, 5, 8], kept, dims, init=init, shorthand=True), px=x, pr=out)["pr"]
    np.testing.assert_array_equal(region, short)
    assert_close(region, expected, roundings=2, absolute=slack + 2.0**-24)


@pytest.mark.parametrize(
    ("op", "function"),
    [("addi", np.sum), ("muli", np.prod), ("maxsi", np.max), ("minsi", np.min)],
)
@pytest.mark.parametrize("type", ["i32", "i64"])
def test_reducing_integers(op, function, type):
    x = np.random.default_rng(8).integers(1, 5, (4, 6)).astype(numpy_type(type))
    init = {"addi": 5, "muli": 2, "maxsi": -9, "minsi": 99}[op]
    expected = function(x, axis=1) * (2 if op == "muli" else 1) + (5 if op == "addi" else 0)
    text = reduction(f"arith.{op}", [4, 6], [4], [1], type=type, init=init)
    np.testing.assert_array_equal(run(text, px=x, pr=np.zeros(4, x.dtype))["pr"], expected)


def test_init_is_reduced_once():
    text = reduction("arith.addf", [1, 3], [1], [1], init="5.0")
    x = np.array([[1, 2, 3]], np.float16)
    np.testing.assert_array_equal(run(text, px=x, pr=zeros(1))["pr"], [11])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_a_combiner_of_several_ops(size):
    """The element that is farthest from 0, the earlier of equal ones."""
    x = half(4, size, scale=3)
    body = [
        "%a = math.absf %in : f16",
        "%b = math.absf %out : f16",
        "%more = arith.cmpf ogt, %a, %b : f16",
        "%v = arith.select %more, %in, %out : f16",
    ]
    actual = run(reduction(body, [4, size], [4], [1]), px=x, pr=zeros(4))["pr"]
    np.testing.assert_array_equal(actual, x[np.arange(4), np.abs(x).argmax(1)])


@pytest.mark.parametrize("dims", [[0], [1], [0, 1]])
def test_a_combiner_with_a_constant_and_an_outer_scalar(dims):
    """The combiner clamps the larger operand to a scalar from outside of the region."""
    x = half(4, 9, scale=3)
    kept = [size for dim, size in enumerate(x.shape) if dim not in dims]
    text = reduction(
        [
            "%one = arith.constant 1.0 : f16",
            "%a = arith.maximumf %in, %out : f16",
            "%b = arith.mulf %a, %one : f16",
            "%v = arith.minimumf %b, %limit : f16",
        ],
        [4, 9],
        kept,
        dims,
        init="-100.0",
    ).replace("%pr: index", "%pr: index, %limit: f16")
    actual = run(text, px=x, pr=np.zeros(kept, np.float16), limit=1.0)["pr"]
    np.testing.assert_array_equal(actual, np.minimum(x.max(tuple(dims)), 1))


def test_empty_reduction_is_its_init():
    text = reduction("arith.addf", [4, 0], [4], [1], init="3.0")
    np.testing.assert_array_equal(run(text, px=zeros(4, 0), pr=zeros(4))["pr"], np.full(4, 3))


def test_reducing_to_rank_0():
    text = kernel(
        "px; py",
        load("x", [8]),
        "%init = arith.constant dense<0.0> : tensor<f16>",
        "%s = linalg.reduce { arith.addf } ins(%x : tensor<8xf16>) outs(%init : tensor<f16>) "
        "dimensions = [0]",
        "%v = tensor.extract %s[] : tensor<f16>",
        "%y = tensor.splat %v : tensor<8xf16>",
        store("y", [8]),
    )
    x = np.arange(8, dtype=np.float16)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(8))["py"], np.full(8, 28))
