"""Random programs on small integers, with views and mutations, agree bitwise with the CPU.

Every op is exact on these values in every dtype, so eager and compiled results, and the mutated
inputs, must be bitwise equal to the CPU's.
"""

import pytest
import torch
from example_counts import FEW, MANY
from hypothesis import given
from integer_programs import programs

pytestmark = pytest.mark.usefixtures("verified_kernels")


def run(function, inputs):
    return [*function(*inputs), *inputs]


def agree(program):
    function, text = program.function()
    expected = run(function, program.inputs())
    eager = run(function, [tensor.to("spyre") for tensor in program.inputs()])
    torch._dynamo.reset()
    compiled = run(torch.compile(function), [tensor.to("spyre") for tensor in program.inputs()])
    for kind, actual in (("eager", eager), ("compiled", compiled)):
        for place, (got, right) in enumerate(zip(actual, expected, strict=True)):
            case = (kind, place, program.dtype, program.shapes, text)
            assert got.dtype == right.dtype and got.shape == right.shape, case
            assert torch.equal(got.cpu(), right), case


@FEW
@given(programs())
def test_programs(program):
    agree(program)


@pytest.mark.heavy
@MANY
@given(programs())
def test_many_programs(program):
    agree(program)
