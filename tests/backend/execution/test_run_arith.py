"""Tests of every arithmetic op on tensors and scalars, in every type that it supports."""

import math

import numpy as np
import pytest
import torch
from run_texts import assert_close, half, kernel, load, numpy_type, run, store, tensor

N = 16
SCALARS = 8
FLOATS = ("f16", "f32")
INTEGERS = ("i8", "i16", "i32", "i64", "index")


def floats(type, seed, low=-4.0, high=4.0):
    if type == "f16":
        values = np.random.default_rng(seed).uniform(low, high, N)
        return (np.round(values * 32) / 32).astype(np.float16)
    return np.random.default_rng(seed).uniform(low, high, N).astype(np.float32)


def integers(type, seed, low=-100, high=100):
    return np.random.default_rng(seed).integers(low, high, N).astype(numpy_type(type))


def on_tensors(op, type, result, *operands, suffix=None):
    names = "xyz"[: len(operands)]
    types = suffix or tensor([N], type)
    text = kernel(
        "; ".join([*(f"p{name}" for name in names), "pr"]),
        [load(name, [N], type) for name in names],
        f"%r = {op} {', '.join(f'%{name}' for name in names)} : {types}",
        store("r", [N], result),
    )
    arrays = {f"p{name}": value for name, value in zip(names, operands, strict=True)}
    return run(text, **arrays, pr=np.zeros(N, numpy_type(result)))["pr"]


def on_scalars(op, type, result, *operands, suffix=None):
    """The op on the first elements, each extracted and put back."""
    names = "xyz"[: len(operands)]
    size = SCALARS
    text = kernel(
        "; ".join([*(f"p{name}" for name in names), "pr"]),
        [load(name, [N], type) for name in names],
        [f"%i{at} = arith.constant {at} : index" for at in range(size)],
        [
            f"%{name}{at} = tensor.extract %{name}[%i{at}] : {tensor([N], type)}"
            for name in names
            for at in range(size)
        ],
        [
            f"%r{at} = {op} {', '.join(f'%{name}{at}' for name in names)} : {suffix or type}"
            for at in range(size)
        ],
        f"%r = tensor.from_elements {', '.join(f'%r{at}' for at in range(size))} "
        f": {tensor([size], result)}",
        store("r", [size], result),
    )
    arrays = {f"p{name}": value for name, value in zip(names, operands, strict=True)}
    return run(text, **arrays, pr=np.zeros(size, numpy_type(result)))["pr"]


def both(op, type, *operands, result=None, to=None):
    """Assert that tensors and scalars give the same bits, and return the results on tensors."""
    result = result or to or type
    suffixes = (None, None)
    if to:
        suffixes = (f"{tensor([N], type)} to {tensor([N], to)}", f"{type} to {to}")
    actual = on_tensors(op, type, result, *operands, suffix=suffixes[0])
    scalars = on_scalars(op, type, result, *operands, suffix=suffixes[1])
    np.testing.assert_array_equal(actual[:SCALARS], scalars)
    return actual


FLOAT_BINARY = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.maximumf": np.maximum,
    "arith.maxf": np.maximum,
    "arith.maxnumf": np.fmax,
    "arith.minimumf": np.minimum,
    "arith.minf": np.minimum,
    "arith.minnumf": np.fmin,
    "math.copysign": np.copysign,
}


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("op", FLOAT_BINARY)
def test_binary_float_ops(op, type):
    x, y = floats(type, 1), floats(type, 2)
    expected = FLOAT_BINARY[op](x.astype(float), y.astype(float))
    actual = both(op, type, x, y)
    if type == "f16":
        assert_close(actual, expected)
    else:
        np.testing.assert_array_equal(actual, expected.astype(np.float32))


FLOAT_UNARY = {
    "arith.negf": np.negative,
    "arith.absf": np.abs,
    "math.absf": np.abs,
    "math.ceil": np.ceil,
    "math.floor": np.floor,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.tanh": np.tanh,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.erf": np.vectorize(math.erf),
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.log": np.log,
    "math.log2": np.log2,
    "math.log1p": np.log1p,
    "spyreop.exp": np.exp,
    "spyreop.sqrt": np.sqrt,
    "spyreop.sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "spyreop.silu": lambda x: x / (1 + np.exp(-x)),
    "spyreop.reciprocal": lambda x: 1 / x,
}
POSITIVE = {"math.sqrt", "math.rsqrt", "math.log", "math.log2", "math.log1p", "spyreop.sqrt"}


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("op", FLOAT_UNARY)
def test_unary_float_ops(op, type):
    x = floats(type, 3, low=0.25 if op in POSITIVE else -4.0)
    actual = on_scalars(op, type, type, x) if op.startswith("spyreop") else both(op, type, x)
    expected = FLOAT_UNARY[op](x.astype(float))[: len(actual)]
    if type == "f16":
        assert_close(actual, expected, absolute=2.0**-20)
    else:
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("type", FLOATS)
def test_power_and_fused_multiply(type):
    x, y, z = floats(type, 4, low=0.25), floats(type, 5), floats(type, 6)
    power = x.astype(float) ** y.astype(float)
    fused = x.astype(float) * y.astype(float) + z.astype(float)
    if type == "f16":
        assert_close(both("math.powf", type, x, y), power)
        assert_close(both("math.fma", type, x, y, z), fused, absolute=2.0**-20)
    else:
        np.testing.assert_allclose(both("math.powf", type, x, y), power, rtol=1e-6)
        np.testing.assert_allclose(both("math.fma", type, x, y, z), fused, rtol=1e-6, atol=1e-6)


def unsigned(values):
    kind = np.dtype(values.dtype)
    return values.view(np.dtype(f"uint{kind.itemsize * 8}")).astype(object)


def exact(function):
    return np.frompyfunc(function, 2, 1)


def quotient(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


INTEGER_BINARY = {
    "arith.addi": exact(lambda x, y: x + y),
    "arith.subi": exact(lambda x, y: x - y),
    "arith.muli": exact(lambda x, y: x * y),
    "arith.divsi": exact(quotient),
    "arith.floordivsi": exact(lambda x, y: x // y),
    "arith.ceildivsi": exact(lambda x, y: -(-x // y)),
    "arith.remsi": exact(lambda x, y: x - quotient(x, y) * y),
    "arith.andi": exact(lambda x, y: x & y),
    "arith.ori": exact(lambda x, y: x | y),
    "arith.xori": exact(lambda x, y: x ^ y),
    "arith.minsi": exact(min),
    "arith.maxsi": exact(max),
}
UNSIGNED_BINARY = {
    "arith.divui": exact(lambda x, y: x // y),
    "arith.ceildivui": exact(lambda x, y: -(-x // y)),
    "arith.remui": exact(lambda x, y: x % y),
    "arith.minui": exact(min),
    "arith.maxui": exact(max),
}


def wrapped(values, type):
    """Exact integers in the bits of the type."""
    bits = np.dtype(numpy_type(type)).itemsize * 8
    signed = [(int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for value in values]
    return np.array(signed, numpy_type(type))


@pytest.mark.parametrize("type", INTEGERS)
@pytest.mark.parametrize("op", INTEGER_BINARY)
def test_binary_signed_ops(op, type):
    x, y = integers(type, 7), integers(type, 8)
    y[y == 0] = 3
    expected = INTEGER_BINARY[op](x.astype(object), y.astype(object))
    np.testing.assert_array_equal(both(op, type, x, y), wrapped(expected, type))


@pytest.mark.parametrize("type", INTEGERS)
@pytest.mark.parametrize("op", UNSIGNED_BINARY)
def test_binary_unsigned_ops(op, type):
    x, y = integers(type, 9), integers(type, 10)
    y[y == 0] = 3
    expected = UNSIGNED_BINARY[op](unsigned(x), unsigned(y))
    np.testing.assert_array_equal(both(op, type, x, y), wrapped(expected, type))


@pytest.mark.parametrize("type", INTEGERS)
def test_shifts_and_absolute_value(type):
    x, by = integers(type, 11), integers(type, 12, 0, 7)
    whole = x.astype(object)
    left = wrapped([value << int(count) for value, count in zip(whole, by, strict=True)], type)
    right = wrapped([value >> int(count) for value, count in zip(whole, by, strict=True)], type)
    logical = wrapped(
        [value >> int(count) for value, count in zip(unsigned(x), by, strict=True)], type
    )
    np.testing.assert_array_equal(both("arith.shli", type, x, by), left)
    np.testing.assert_array_equal(both("arith.shrsi", type, x, by), right)
    np.testing.assert_array_equal(both("arith.shrui", type, x, by), logical)
    np.testing.assert_array_equal(both("math.absi", type, x), wrapped(abs(whole), type))


NAN = float("nan")
PREDICATES = {
    "eq": np.equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("predicate", [*PREDICATES, "ne"])
def test_float_comparisons(predicate, ordered, type):
    x, y = floats(type, 13), floats(type, 14)
    y[:4] = x[:4]
    if type == "f32":
        x[5] = y[6] = NAN
    none = np.isnan(x) | np.isnan(y)
    plain = PREDICATES.get(predicate, np.not_equal)(x, y)
    expected = plain & ~none if ordered else plain | none
    op = f"arith.cmpf {'o' if ordered else 'u'}{predicate},"
    np.testing.assert_array_equal(both(op, type, x, y, result="i1"), expected)


def test_ordered_and_unordered_comparisons():
    x, y = floats("f32", 13), floats("f32", 14)
    x[5] = y[6] = NAN
    none = np.isnan(x) | np.isnan(y)
    for predicate, expected in (
        ("ord", ~none),
        ("uno", none),
        ("true", np.ones(N, bool)),
        ("false", np.zeros(N, bool)),
    ):
        actual = both(f"arith.cmpf {predicate},", "f32", x, y, result="i1")
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("type", INTEGERS)
@pytest.mark.parametrize("sign", ["s", "u", ""])
def test_integer_comparisons(sign, type):
    x, y = integers(type, 15, -5, 5), integers(type, 16, -5, 5)
    left, right = (unsigned(x), unsigned(y)) if sign == "u" else (x, y)
    names = ["gt", "ge", "lt", "le"] if sign else ["eq", "ne"]
    for name in names:
        expected = PREDICATES.get(name, np.not_equal)(left, right).astype(bool)
        actual = both(f"arith.cmpi {sign}{name},", type, x, y, result="i1")
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("op", ["andi", "ori", "xori"])
def test_logical_ops_on_bools(op):
    x = np.arange(N) % 2 == 0
    y = np.arange(N) % 3 == 0
    expected = {"andi": x & y, "ori": x | y, "xori": x ^ y}[op]
    np.testing.assert_array_equal(both(f"arith.{op}", "i1", x, y), expected)


@pytest.mark.parametrize("type", [*FLOATS, "i1", *INTEGERS])
def test_select(type):
    x, y = (np.arange(N) * factor for factor in (1, 3))
    x, y = x.astype(numpy_type(type)), y.astype(numpy_type(type))
    flags = np.arange(N) % 3 == 1
    text = kernel(
        "pm; px; py; pr; ps",
        load("m", [N], "i1"),
        load("x", [N], type),
        load("y", [N], type),
        f"%r = arith.select %m, %x, %y : {tensor([N], 'i1')}, {tensor([N], type)}",
        store("r", [N], type),
        f"%flag = tensor.extract %m[%c1] : {tensor([N], 'i1')}",
        f"%s = arith.select %flag, %y, %x : {tensor([N], type)}",
        store("s", [N], type),
    )
    out = np.zeros(N, numpy_type(type))
    actual = run(text, pm=flags, px=x, py=y, pr=out, ps=out)
    np.testing.assert_array_equal(actual["pr"], np.where(flags, x, y))
    np.testing.assert_array_equal(actual["ps"], y)


@pytest.mark.parametrize("type", ["f32", "i32", "i64"])
def test_select_of_scalars(type):
    x, y = np.arange(N).astype(numpy_type(type)), np.arange(N)[::-1].astype(numpy_type(type))
    compare = "arith.cmpf olt," if type == "f32" else "arith.cmpi slt,"
    text = kernel(
        "px; py; pr",
        load("x", [N], type),
        load("y", [N], type),
        f"%a = tensor.extract %x[%c3] : {tensor([N], type)}",
        f"%b = tensor.extract %y[%c3] : {tensor([N], type)}",
        f"%less = {compare} %a, %b : {type}",
        f"%least = arith.select %less, %a, %b : {type}",
        f"%r = tensor.splat %least : {tensor([N], type)}",
        store("r", [N], type),
    )
    actual = run(text, px=x, py=y, pr=np.zeros(N, numpy_type(type)))["pr"]
    np.testing.assert_array_equal(actual, np.full(N, 3))


@pytest.mark.parametrize(
    ("op", "source", "target"),
    [
        ("extf", "f16", "f32"),
        ("truncf", "f32", "f16"),
        ("sitofp", "i8", "f16"),
        ("sitofp", "i16", "f32"),
        ("sitofp", "i32", "f16"),
        ("sitofp", "i32", "f32"),
        ("sitofp", "i64", "f32"),
        ("fptosi", "f16", "i32"),
        ("fptosi", "f32", "i8"),
        ("fptosi", "f32", "i64"),
        ("extsi", "i8", "i16"),
        ("extsi", "i8", "i32"),
        ("extsi", "i16", "i64"),
        ("extsi", "i32", "i64"),
        ("trunci", "i64", "i32"),
        ("trunci", "i32", "i8"),
        ("index_cast", "index", "i32"),
        ("index_cast", "i32", "index"),
        ("index_cast", "i64", "index"),
        ("index_cast", "index", "i64"),
    ],
)
def test_signed_conversions(op, source, target):
    whole = integers("i32", 17, -60, 60)
    x = whole.astype(numpy_type(source))
    if op in ("fptosi", "extf", "truncf"):
        x = (whole / 4).astype(numpy_type(source))
    actual = both(f"arith.{op}", source, x, to=target)
    np.testing.assert_array_equal(actual, x.astype(numpy_type(target)))


@pytest.mark.parametrize(
    ("op", "source", "target"),
    [
        ("extui", "i1", "i32"),
        ("extui", "i8", "i32"),
        ("extui", "i32", "i64"),
        ("uitofp", "i1", "f16"),
        ("uitofp", "i8", "f32"),
        ("uitofp", "i32", "f32"),
        ("index_castui", "i32", "index"),
        ("index_castui", "i8", "index"),
    ],
)
def test_unsigned_conversions(op, source, target):
    x = integers("i8", 18).astype(numpy_type(source))
    expected = x.astype(int) if source == "i1" else unsigned(x)
    actual = both(f"arith.{op}", source, x, to=target)
    np.testing.assert_array_equal(actual, expected.astype(numpy_type(target)))


def test_floats_to_unsigned_integers():
    x = np.linspace(0, 200, N).astype(np.float32)
    actual = both("arith.fptoui", "f32", x, to="i8")
    np.testing.assert_array_equal(actual.view(np.uint8), x.astype(np.uint8))


@pytest.mark.parametrize(("source", "target"), [("i32", "f32"), ("f32", "i32")])
def test_bitcast_preserves_bits(source, target):
    x = floats("f32", 19).view(numpy_type(source))
    actual = both("arith.bitcast", source, x, to=target)
    np.testing.assert_array_equal(actual.view(np.int32), x.view(np.int32))


def test_bfloat16_in_torch_tensors():
    x = torch.randn(N, dtype=torch.bfloat16)
    y = torch.randn(N, dtype=torch.bfloat16)
    text = kernel(
        "px; py; pr; ps",
        load("x", [N], "bf16"),
        load("y", [N], "bf16"),
        f"%r = arith.mulf %x, %y : {tensor([N], 'bf16')}",
        f"%s = arith.extf %x : {tensor([N], 'bf16')} to {tensor([N], 'f32')}",
        store("r", [N], "bf16"),
        store("s", [N], "f32"),
    )
    out = torch.zeros(N, dtype=torch.bfloat16)
    actual = run(text, px=x, py=y, pr=out, ps=np.zeros(N, np.float32))
    np.testing.assert_array_equal(actual["pr"], (x * y).float().numpy())
    np.testing.assert_array_equal(actual["ps"], x.float().numpy())


def test_maximumf_propagates_nan_and_maxnumf_ignores_it():
    x = np.array([NAN, 1, NAN, 2] * 4, np.float32)
    y = np.array([1, NAN, NAN, 3] * 4, np.float32)
    for op in ("maximumf", "minimumf"):
        assert np.isnan(both(f"arith.{op}", "f32", x, y)).tolist() == [True, True, True, False] * 4
    np.testing.assert_array_equal(
        both("arith.maxnumf", "f32", x, y), np.array([1, 1, NAN, 3] * 4, np.float32)
    )
    np.testing.assert_array_equal(
        both("arith.minnumf", "f32", x, y), np.array([1, 1, NAN, 2] * 4, np.float32)
    )


@pytest.mark.parametrize("type", FLOATS)
def test_a_tensor_and_a_scalar_argument(type):
    x = half(N).astype(numpy_type(type))
    text = kernel(
        f"px; pr; s: {type}",
        load("x", [N], type),
        f"%many = tensor.splat %s : {tensor([N], type)}",
        f"%r = arith.mulf %x, %many : {tensor([N], type)}",
        store("r", [N], type),
    )
    actual = run(text, px=x, pr=np.zeros(N, numpy_type(type)), s=0.375)["pr"]
    if type == "f16":
        assert_close(actual, x.astype(float) * 0.375)
    else:
        np.testing.assert_array_equal(actual, x * np.float32(0.375))


def test_convertf_between_floats():
    x = floats("f32", 20)
    actual = both("arith.convertf", "f32", x, to="f16")
    assert_close(actual, x)
