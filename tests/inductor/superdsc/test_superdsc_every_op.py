"""Tests that every op with a lowering to KTIR gives the same KTIR when read back from its file."""

from itertools import product

import pytest
from op_spec_samples import FP16, FP32, INT32, MATRIX, matmul, op, tensor

from torch_spyre._inductor.op_table import (
    INDEX,
    MATMUL_OPS,
    POINTWISE_OPS,
    REDUCTION_OPS,
    Kind,
    OperandClass,
    names_of,
    record_of,
)
from torch_spyre._inductor.superdsc import generate_bundle, import_programs
from torch_spyre._inductor.to_ktir.kernel import build_module
from torch_spyre.errors import UnsupportedError

CONVERSIONS = sorted(names_of(Kind.CONVERSION, Kind.DATA_MOVEMENT) & POINTWISE_OPS)
BINARY_OPS = sorted(name for name in POINTWISE_OPS if record_of(name).arity == 2)

CONSTANTS = {
    "clip": {"clipMin": -0.5, "clipMax": 6.0},
    "softplus": {"softplusBeta": 1.5, "softplusThresh": 20.0},
    "mean": {"scaling_factor": 0.01},
}
# Elements per stick of each format.
STICK_SIZES = {FP16: 64, FP32: 32, INT32: 32}


def matrix(arg_index, dtype, **options):
    stick = STICK_SIZES[dtype]
    coordinates = MATRIX.replace("64", str(stick))
    return tensor([-(-100 // stick), 24, stick], coordinates, arg_index, dtype, **options)


def pointwise(name, dtype):
    count = record_of(name).arity
    inputs = [matrix(arg_index, dtype) for arg_index in range(count)]
    info = {"constants": CONSTANTS[name]} if name in CONSTANTS else {}
    result = matrix(count, dtype, output=True)
    return op(name, "c0=24/8 c1=100", *inputs, result, op_info=info)


def with_constant(name, dtype):
    """Return a pointwise op whose last operand is a constant."""
    spec = pointwise(name, dtype)
    args = [*spec.args[:-2], spec.args[-1]]
    constants = {f"operand{len(args) - 1}": 3 if dtype == INT32 else 0.1}
    return op(name, "c0=24/8 c1=100", *args, op_info={"constants": constants})


def reduction(name, dtype):
    stick = STICK_SIZES[dtype]
    result_dtype = INT32 if name.startswith("arg") else dtype
    result = tensor([1, 24, STICK_SIZES[result_dtype]], "0; c0; 0", 1, result_dtype, output=True)
    info = {"constants": CONSTANTS[name]} if name in CONSTANTS else {}
    coordinates = MATRIX.replace("64", str(stick))
    values = tensor([-(-100 // stick), 24, stick], coordinates, 0, dtype)
    return op(name, "c0=24/8 c1=100", values, result, reduction=True, op_info=info)


def check_round_trip(spec, folder):
    """Check that the op reads back as the same KTIR; return False if it has no KTIR."""
    try:
        expected = build_module("kernel", [spec])
    except UnsupportedError:
        return False
    generate_bundle("kernel", folder, [spec])
    (program,) = import_programs(folder)
    assert str(build_module("kernel", program)) == str(expected)
    return True


@pytest.mark.parametrize("name", sorted(POINTWISE_OPS))
def test_pointwise_ops_read_back(name, tmp_path):
    assert any([check_round_trip(pointwise(name, dtype), tmp_path) for dtype in STICK_SIZES])


@pytest.mark.parametrize("name", BINARY_OPS)
def test_pointwise_ops_with_a_constant_read_back(name, tmp_path):
    assert any([check_round_trip(with_constant(name, dtype), tmp_path) for dtype in STICK_SIZES])


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_read_back(name, tmp_path):
    for source, target in product(STICK_SIZES, STICK_SIZES):
        result = matrix(1, target, output=True)
        spec = op(name, "c0=24/8 c1=100", matrix(0, source), result)
        assert check_round_trip(spec, tmp_path)


@pytest.mark.parametrize("name", sorted(REDUCTION_OPS))
def test_reductions_read_back(name, tmp_path):
    for dtype in STICK_SIZES:
        operand_class = OperandClass.INTEGER if dtype == INT32 else OperandClass.FLOAT
        has_ktir = operand_class in record_of(name).ktir
        assert check_round_trip(reduction(name, dtype), tmp_path) == has_ktir


def test_index_expressions_read_back(tmp_path):
    result = matrix(0, INT32, output=True)
    spec = op(INDEX, "c0=24/8 c1=100", result, op_info={"expression": "3*c0 + c1"})
    assert check_round_trip(spec, tmp_path)


@pytest.mark.parametrize("splits", [(1, 1, 1), (4, 2, 1), (2, 1, 4)])
def test_matmuls_read_back(splits, tmp_path):
    spec = matmul(m=64, n=128, k=256, splits=splits)
    assert spec.op in MATMUL_OPS
    assert check_round_trip(spec, tmp_path)
