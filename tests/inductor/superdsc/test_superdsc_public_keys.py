"""Tests that a bundle without our extension keys computes the same bits, or is rejected.

A kernel is compiled, written as a bundle, read back without any key of ours, and run next to the
compiled one. `REJECTED` lists the kernels whose accesses the public format cannot represent.
"""

import re

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import assert_close, make_tensor, to_card, to_reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_samples import SAMPLES
from superdsc_read_back import PublicReadBack, ReadBack
from test_eager_ops import (
    BINARY,
    BITS,
    FORMS,
    NORMALS,
    POSITIVE,
    PRODUCTS,
    REDUCTIONS,
    UNARY,
    named,
)

from torch_spyre._inductor import driver

NOT_AFFINE = "cannot represent how the op accesses this tensor"
NO_EXPRESSION = r"opInfo\.expression: is missing"
NO_ROLES = r"opInfo\.roles: is missing"

X = make_tensor(20, 200)
ROWS = torch.tensor([3, 0])
KERNELS = {
    # Chains of ops with intermediates in the scratchpad, in the pool, or both.
    "several results": (lambda x: (x.exp(), x.sum(1), x.sum(0)), (X,)),
    "softmax of columns": (lambda x: x.softmax(0), (X,)),
    "layer norm": (lambda x: F.layer_norm(x, (200,)), (X,)),
    "root mean square": (
        lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6),
        (X,),
    ),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), (X,)),
    "variance": (lambda x: x.var(1), (X,)),
    "two matmuls": (lambda x: F.gelu(x @ x.t() * 0.01 + 0.1) @ x * 0.01, (X,)),
    "masks": (
        lambda x: torch.where((x > 0) & (x.sum(1, keepdim=True) > -1) | (x < -1.5), x, 1.0),
        (X,),
    ),
    "slices of an intermediate": (
        lambda x: ((x.softmax(1)[3:9] @ x.t())[:, :5] + 1).softmax(0),
        (X,),
    ),
    "concatenated intermediates": (
        lambda x: torch.cat([x.softmax(1), x.softmax(0)]).softmax(1).t().softmax(0),
        (X,),
    ),
    "nine arguments": (lambda *tensors: sum(tensors), (make_tensor(4, 70),) * 9),
    # Constants: not exact in fp16, in a reduction, and integers that fp32 cannot represent.
    "inexact constants": (lambda x: (x * 0.1 - 0.70557).clamp(-0.3, 1 / 3), (X,)),
    "mean": (lambda x: x.mean(1), (X,)),
    "large integers": (
        lambda x: torch.where((x & 0x7FFF_FFFD) > 2, x + 123456789, -1234567891),
        (make_tensor(3, 70, dtype=torch.int32),),
    ),
    "clamped integers": (lambda x: x.clamp(min=-3), (make_tensor(3, 70, dtype=torch.int32),)),
    "conversions": (lambda x: x.int() * 2 + 1, (X,)),
    "single precision": (lambda x: F.elu(x.float()) + 1, (X,)),
    # Padding that must not be computed or written.
    "weight of more rows": (lambda x, y: x @ y[:200] * 0.01, (X, make_tensor(300, 130))),
    "first columns": (lambda x, y: _written(x, (slice(None), slice(10)), y), (X, X[:, :10])),
    "second stick": (lambda x, y: _written(x, (slice(None), slice(64, 74)), y), (X, X[:, :10])),
    "some rows": (lambda x: _written(x, (slice(2, 5),), x[7:10]), (X,)),
    "first columns read": (lambda x: x[:, :70] * 2, (X,)),
    "aligned concatenation": (lambda x: torch.cat([x[:, :64], x], 1), (X,)),
    "transposed operand": (lambda x: x[:, :20].t() + x[:, :20], (X,)),
    "permuted": (lambda x: x.view(4, 5, 200).permute(2, 0, 1) + 1, (X,)),
    "scatter": (lambda x, i: x.index_copy(0, i, x[:2] * 2), (X, ROWS)),
    "gather of rows": (lambda x, i: x[i] * 2, (X, ROWS)),
    # Rejected.
    "every second row": (lambda x: x[::2] * 1.5, (X,)),
    "every third column": (lambda x: x[:, ::3] * 1.5, (X,)),
    "reversed rows": (lambda x: x.flip(0), (X,)),
    "reversed columns": (lambda x: x.flip(1), (X,)),
    "columns within a stick": (lambda x: x[:, 5:70] * 2, (X,)),
    "concatenation within a stick": (lambda x: torch.cat([x[:, :10], x], 1), (X,)),
    "diagonal": (lambda x: x[:, :20].diagonal() * 2, (X,)),
    "one element per stick to lanes": (lambda x: (x.float().exp().sum(1) * 0.01).half(), (X,)),
    "matrix times vector": (lambda x, y: x @ y * 0.01, (X, X[0])),
    "gather by a matrix of indices": (lambda x, i: x[i] * 2, (X, ROWS.reshape(2, 1).repeat(1, 3))),
    "positions": (lambda x: x.tril(), (X,)),
    "groups within a stick": (lambda x: F.group_norm(x.view(4, 10, 100), 5), (X,)),
}
REJECTED = {
    "scatter": NO_ROLES,
    "every second row": NOT_AFFINE,
    "every third column": NOT_AFFINE,
    "reversed rows": NOT_AFFINE,
    "reversed columns": NOT_AFFINE,
    "concatenation within a stick": NOT_AFFINE,
    "diagonal": NOT_AFFINE,
    "one element per stick to lanes": NOT_AFFINE,
    "matrix times vector": NOT_AFFINE,
    "gather by a matrix of indices": NOT_AFFINE,
    "positions": NO_EXPRESSION,
    "groups within a stick": NOT_AFFINE,
}
REJECTED_SAMPLES = {"cat": NOT_AFFINE, "gather": NOT_AFFINE, "attention": NO_ROLES}
REJECTED_FORMS = {
    "tril": NO_EXPRESSION,
    "triu": NO_EXPRESSION,
    "pad": NOT_AFFINE,
    "crop": NOT_AFFINE,
    "cat last": NOT_AFFINE,
    "stack": NOT_AFFINE,
}


def _written(x, index, values):
    x = x.clone()
    x[index] = values
    return x


@pytest.fixture
def public_read_back(monkeypatch, tmp_path):
    """Return a function that makes kernels run as compiled and as read from public keys."""

    def start(symbolic_args=None):
        harness = PublicReadBack(tmp_path, symbolic_args)
        monkeypatch.setattr(driver, "Runner", harness.runner)
        return harness

    return start


def check_outcome(harness, expected_message=None):
    """Check that a kernel was rejected with the message or, without one, that all computed."""
    if expected_message is None:
        assert harness.rejections == []
        assert harness.checked > 0
    else:
        assert any(re.search(expected_message, message) for message in harness.rejections)


def compiled(function, *tensors):
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        return torch.compile(function, dynamic=False)(*tensors)


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("symbolic", [True, False], ids=["symbolic", "fixed"])
@pytest.mark.parametrize("name", KERNELS)
def test_public_keys_compute_the_same_or_are_rejected(name, symbolic, public_read_back):
    function, tensors = KERNELS[name]
    harness = public_read_back(symbolic)
    actual = compiled(function, *to_card(tensors))
    check_outcome(harness, REJECTED.get(name))
    expected = function(*to_reference(to_card(tensors)))
    assert_close(actual, expected, units=16, scale=2.0)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name, public_read_back):
    harness = public_read_back()
    compiled(SAMPLES[name].call, *SAMPLES[name].on_card())
    check_outcome(harness, REJECTED_SAMPLES.get(name))


@pytest.mark.parametrize("has_extensions", [True, False])
def test_spilled_tensors_compute_the_same(has_extensions, monkeypatch, tmp_path):
    """On one core, each intermediate tensor of this softmax needs more than the scratchpad."""
    monkeypatch.setenv("SENCORES", "1")
    harness = ReadBack(tmp_path) if has_extensions else PublicReadBack(tmp_path)
    monkeypatch.setattr(driver, "Runner", harness.runner)
    x = make_tensor(130, 6500)
    actual = compiled(lambda x: x.softmax(1), to_card(x))
    assert harness.checked > 0
    (bundle,) = tmp_path.iterdir()
    assert '_lx"' not in "".join(path.read_text() for path in bundle.glob("sdsc_*.json"))
    assert_close(actual, to_reference(to_card(x)).softmax(1))


# --- eager ops ------------------------------------------------------------------------------------

# No other test uses this shape, so that kernels are compiled here.
SHAPE = (5, 133)


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("function", [*UNARY, *POSITIVE], ids=named)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_unary_ops(function, dtype, public_read_back):
    harness = public_read_back()
    function(to_card(make_tensor(*SHAPE, low=0.1, dtype=dtype)))
    check_outcome(harness)


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("function", BINARY, ids=named)
def test_binary_ops(function, public_read_back):
    harness = public_read_back()
    function(*to_card((make_tensor(*SHAPE), make_tensor(SHAPE[1], low=0.5))))
    check_outcome(harness)


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize(
    "function", [torch.add, torch.mul, torch.eq, torch.maximum, *BITS], ids=named
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.bool])
def test_integer_and_bool_ops(function, dtype, public_read_back):
    harness = public_read_back()
    function(*to_card((make_tensor(*SHAPE, dtype=dtype), make_tensor(*SHAPE, dtype=dtype).flip(0))))
    check_outcome(harness)


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("dim", [0, -1, (0, 2)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dim, public_read_back):
    harness = public_read_back()
    REDUCTIONS[name](to_card(make_tensor(4, 5, 73)), dim, False)
    # The result of the square root has one element per stick, and is converted to lanes.
    is_rejected = name == "std" and dim != 0
    check_outcome(harness, NOT_AFFINE if is_rejected else None)


@pytest.mark.parametrize("name", NORMALS)
def test_normalizations(name, public_read_back):
    harness = public_read_back()
    NORMALS[name](to_card(make_tensor(6, 133)))
    check_outcome(harness)


@pytest.mark.parametrize("name", PRODUCTS)
def test_matmuls(name, public_read_back):
    harness = public_read_back()
    PRODUCTS[name](*to_card((make_tensor(7, 73), make_tensor(73, 11))))
    check_outcome(harness, NOT_AFFINE if name in ("mv", "dot", "addmv") else None)


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("name", FORMS)
def test_overloads(name, public_read_back):
    harness = public_read_back()
    FORMS[name](*to_card((make_tensor(10, 73), make_tensor(10, 73, low=0.5))))
    if name in REJECTED_FORMS:
        check_outcome(harness, REJECTED_FORMS[name])
    else:
        assert harness.rejections == []


# --- random kernels -------------------------------------------------------------------------------

STEPS = {
    "negate": lambda x: -x,
    "scale": lambda x: x * 0.3,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "softmax of rows": lambda x: x.softmax(1),
    "softmax of columns": lambda x: x.softmax(0),
    "less the mean": lambda x: x - x.mean(1, keepdim=True),
    "less the largest": lambda x: x - x.amax(0, keepdim=True),
    "square": lambda x: x @ x.t() * 0.01,
    "transpose": lambda x: x.t() + 1,
    "first rows": lambda x: x[: (len(x) + 1) // 2] * 2,
    "other rows": lambda x: x[len(x) // 2 :] * 2,
    "other columns": lambda x: x[:, x.shape[1] // 2 :] * 2,
    "twice": lambda x: torch.cat([x, x]),
    "mask": lambda x: torch.where(x > 0.1, x, 0.7),
    "single precision": lambda x: (x.float() * 0.1).exp().half(),
}


@settings(max_examples=25, database=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.sampled_from([1, 3, 32, 70, 130]),
    columns=st.sampled_from([1, 5, 64, 100, 128, 200]),
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5),
    symbolic=st.booleans(),
)
def test_random_kernels_compute_the_same_or_are_rejected(
    rows, columns, steps, symbolic, tmp_path_factory, monkeypatch
):
    def function(x):
        for step in steps:
            x = STEPS[step](x)
        return x

    harness = PublicReadBack(tmp_path_factory.mktemp("bundles"), symbolic)
    monkeypatch.setattr(driver, "Runner", harness.runner)
    # Comparing the bits is a part of running a kernel; a crash would be an error too.
    compiled(function, to_card(make_tensor(rows, columns)))
    assert harness.checked + len(harness.rejections) > 0
    assert all(re.search(NOT_AFFINE, message) for message in harness.rejections)
