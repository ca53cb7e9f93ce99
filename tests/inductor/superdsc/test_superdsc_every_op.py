"""Each operation of the hardware that has KTIR, read back from its file, is the same KTIR."""

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

MOVES = sorted(names_of(Kind.CONVERSION, Kind.DATA_MOVEMENT) & POINTWISE_OPS)
TWO_OPERANDS = sorted(name for name in POINTWISE_OPS if record_of(name).arity == 2)

CONSTANTS = {
    "clip": {"clipMin": -0.5, "clipMax": 6.0},
    "softplus": {"softplusBeta": 1.5, "softplusThresh": 20.0},
    "mean": {"scaling_factor": 0.01},
}
# Elements in a stick of each format.
STICK = {FP16: 64, FP32: 32, INT32: 32}


def matrix(place, dtype, **more):
    stick = STICK[dtype]
    where = MATRIX.replace("64", str(stick))
    return tensor([-(-100 // stick), 24, stick], where, place, dtype, **more)


def pointwise(name, dtype):
    count = record_of(name).arity
    inputs = [matrix(place, dtype) for place in range(count)]
    info = {"constants": CONSTANTS[name]} if name in CONSTANTS else {}
    result = matrix(count, dtype, output=True)
    return op(name, "c0=24/8 c1=100", *inputs, result, op_info=info)


def with_a_number(name, dtype):
    """The last operand is a constant."""
    spec = pointwise(name, dtype)
    args = [*spec.args[:-2], spec.args[-1]]
    number = 3 if dtype == INT32 else 0.1
    place = len(args) - 1
    return op(name, "c0=24/8 c1=100", *args, op_info={"constants": {f"operand{place}": number}})


def reduction(name, dtype):
    stick = STICK[dtype]
    result_type = INT32 if name.startswith("arg") else dtype
    sums = tensor([1, 24, STICK[result_type]], "0; c0; 0", 1, result_type, output=True)
    info = {"constants": CONSTANTS[name]} if name in CONSTANTS else {}
    where = MATRIX.replace("64", str(stick))
    values = tensor([-(-100 // stick), 24, stick], where, 0, dtype)
    return op(name, "c0=24/8 c1=100", values, sums, reduction=True, op_info=info)


def is_same_when_read_back(spec, folder):
    """Not if the operation does not work on these numbers."""
    try:
        wanted = build_module("kernel", [spec])
    except UnsupportedError:
        return False
    generate_bundle("kernel", folder, [spec])
    (program,) = import_programs(folder)
    assert str(build_module("kernel", program)) == str(wanted)
    return True


@pytest.mark.parametrize("name", sorted(POINTWISE_OPS))
def test_pointwise(name, tmp_path):
    assert any([is_same_when_read_back(pointwise(name, each), tmp_path) for each in STICK])


@pytest.mark.parametrize("name", TWO_OPERANDS)
def test_with_a_number(name, tmp_path):
    assert any([is_same_when_read_back(with_a_number(name, each), tmp_path) for each in STICK])


@pytest.mark.parametrize("name", MOVES)
def test_conversions(name, tmp_path):
    for source, target in product(STICK, STICK):
        result = matrix(1, target, output=True)
        spec = op(name, "c0=24/8 c1=100", matrix(0, source), result)
        assert is_same_when_read_back(spec, tmp_path)


@pytest.mark.parametrize("name", sorted(REDUCTION_OPS))
def test_reductions(name, tmp_path):
    for dtype in STICK:
        operand_class = OperandClass.INTEGER if dtype == INT32 else OperandClass.FLOAT
        has_form = operand_class in record_of(name).ktir
        assert is_same_when_read_back(reduction(name, dtype), tmp_path) == has_form


def test_places(tmp_path):
    result = matrix(0, INT32, output=True)
    spec = op(INDEX, "c0=24/8 c1=100", result, op_info={"expression": "3*c0 + c1"})
    assert is_same_when_read_back(spec, tmp_path)


@pytest.mark.parametrize("splits", [(1, 1, 1), (4, 2, 1), (2, 1, 4)])
def test_products(splits, tmp_path):
    spec = matmul(m=64, n=128, k=256, splits=splits)
    assert spec.op in MATMUL_OPS
    assert is_same_when_read_back(spec, tmp_path)
