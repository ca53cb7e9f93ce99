"""Tests that every op, written as a SuperDSC bundle and read back, computes the same bits."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import make_tensor, to_card
from kernel_samples import SAMPLES
from superdsc_read_back import ReadBack
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


@pytest.fixture(autouse=True)
def kernels_read_back(monkeypatch, tmp_path):
    harness = ReadBack(tmp_path)
    monkeypatch.setattr(driver, "Runner", harness.runner)
    with warnings.catch_warnings():
        # Failures of the compiler, including those to write or read a bundle, are warnings.
        warnings.simplefilter("error", RuntimeWarning)
        yield
    assert harness.checked > 0


# No other test uses this shape, so that kernels are compiled here.
SHAPE = (3, 129)


@pytest.mark.parametrize("function", [*UNARY, *POSITIVE], ids=named)
def test_unary_ops(function):
    function(to_card(make_tensor(*SHAPE, low=0.1)))


@pytest.mark.parametrize("function", [torch.exp, torch.sign, F.softplus, F.elu], ids=named)
def test_float32_ops_with_and_without_masks(function):
    function(to_card(make_tensor(*SHAPE, dtype=torch.float32)))


@pytest.mark.parametrize("function", BINARY, ids=named)
def test_binary_ops(function):
    function(*to_card((make_tensor(*SHAPE), make_tensor(SHAPE[1], low=0.5))))


@pytest.mark.parametrize(
    "function", [torch.add, torch.mul, torch.eq, torch.maximum, *BITS], ids=named
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.bool])
def test_integer_and_bool_ops(function, dtype):
    function(*to_card((make_tensor(*SHAPE, dtype=dtype), make_tensor(*SHAPE, dtype=dtype).flip(0))))


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("name", FORMS)
def test_overloads(name):
    FORMS[name](*to_card((make_tensor(9, 71), make_tensor(9, 71, low=0.5))))


@pytest.mark.parametrize("dim", [0, -1, (0, 2)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dim):
    REDUCTIONS[name](to_card(make_tensor(4, 6, 71)), dim, False)


@pytest.mark.parametrize("name", NORMALS)
def test_normalizations(name):
    NORMALS[name](to_card(make_tensor(5, 131)))


@pytest.mark.parametrize("name", PRODUCTS)
def test_matmuls(name):
    PRODUCTS[name](*to_card((make_tensor(6, 71), make_tensor(71, 10))))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool])
def test_gathers(dtype):
    table, rows = to_card((make_tensor(9, 71, dtype=dtype), torch.tensor([[3, 0], [8, 8]])))
    F.embedding(rows, table)
    table.index_select(0, rows[0])
    table.index_select(1, rows[0])
    table.gather(0, rows)
    table.gather(1, rows)
    table[rows]
    table[:, -rows]


def test_gather_within_a_single_stick():
    torch.compile(lambda x, i: x[i])(*to_card((make_tensor(5), torch.tensor([3, 0]))))


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name):
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        torch.compile(SAMPLES[name].call)(*SAMPLES[name].on_card())
