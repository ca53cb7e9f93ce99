"""A kernel that is wrong is stopped, and the error names the op."""

import dataclasses
import re

import pytest
import torch
from changed_launch import ChangedLaunch
from varied_functions import FUNCTIONS

from torch_spyre import knobs
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.to_ktir import pointwise, scope
from torch_spyre.errors import VerificationError

pytestmark = pytest.mark.usefixtures("no_program_cache")


@pytest.fixture
def no_program_cache(monkeypatch):
    """Compile anew: wrong programs must not be cached, and right ones must not be loaded."""
    monkeypatch.setenv("TORCH_SPYRE_PROGRAM_CACHE", "off")
    monkeypatch.setenv("TORCH_SPYRE_VERIFY", "1")


def run(call, tensors, *, is_compiled):
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        return (torch.compile(call) if is_compiled else call)(*tensors)


# The function, the instruction whose first result is changed, and the op that is to be blamed.
FAULTS = [
    ("softmax", "exp", "exp"),
    ("softmax", "divf", "realdiv"),
    ("softmax", "maximumf", "max"),
    ("layer_norm", "rsqrt", "rsqrt"),
    ("matmul_epilogue", "matmul", "batchmatmul"),
    ("bmm", "matmul", "batchmatmul"),
    ("sum_over_cores", "addf", "sum"),
    ("gather", "load", "identity"),
    ("choice", "cmpf_ogt", "greaterthan"),
    ("integers", "addi", "add"),
    ("attention", "divf", "attention"),
    ("masked_attention", "divf", "attention"),
    ("cast", "extf", "dl16tofp32"),
    ("two_programs", "exp", "exp"),
    ("scatter", "addf", "sum"),
    ("prod_and_var", "mulf", "prod"),
]


@pytest.mark.parametrize(("name", "instruction", "op"), FAULTS)
@pytest.mark.one_case_in(3)
def test_faulty_instruction_is_found_at_its_op(name, instruction, op):
    function = FUNCTIONS[name]
    tensors = function.on_card()
    with (
        knobs.override(SPYRE_EMU_INJECT=f"flip:{instruction}"),
        pytest.raises(VerificationError) as caught,
    ):
        run(function.call, tensors, is_compiled=True)
    assert caught.value.op == op, str(caught.value)
    assert f"the op {op} " in str(caught.value)
    run(function.call, tensors, is_compiled=True)


def test_error_says_which_element_of_which_tensor_and_from_where():
    x = torch.rand(70, 128).half().to("spyre")
    with (
        knobs.override(SPYRE_EMU_INJECT="flip:exp"),
        pytest.raises(VerificationError) as caught,
    ):
        run(lambda x: (x * 2).softmax(-1), [x], is_compiled=True)
    message = str(caught.value)
    assert "softmax" in message and re.search(r"\bexp\b", message)
    assert "at c0=0, r0=0" in message and "at [0, 0]" in message
    assert "1 of 8960 elements" in message
    assert caught.value.line.startswith(__file__)
    assert caught.value.kernel.startswith("sdsc_fused")


def test_eager_op_is_named_with_the_line_that_calls_it():
    x = torch.rand(9, 70).to("spyre")
    with knobs.override(SPYRE_EMU_INJECT="flip:tanh"), pytest.raises(VerificationError) as caught:
        torch.tanh(x)
    assert caught.value.op == "tanh" and caught.value.kernel == "sdsc_aten_tanh"
    assert caught.value.line.startswith(__file__)


def test_wrong_emission_of_an_op_is_found(monkeypatch):
    """The front end writes a sine for every exponential."""
    form = pointwise.operation_class

    def wrong(ktir_form):
        if ktir_form.name == "math.exp":
            ktir_form = dataclasses.replace(ktir_form, name="math.sin")
        return form(ktir_form)

    monkeypatch.setattr(pointwise, "operation_class", wrong)
    x = torch.rand(20, 70).half().to("spyre")
    with pytest.raises(VerificationError, match="the op exp ") as caught:
        run(lambda x: x.softmax(-1), [x], is_compiled=True)
    assert caught.value.op == "exp"


def test_error_that_only_the_fused_kernel_has_is_found(monkeypatch):
    """In a kernel of several ops, the product is of the wrong operands."""
    emit = scope.emit_pointwise

    def wrong(emitter, op, operands, constants, result):
        if op == "mul" and emitter._scalars:
            operands = [operands[0], operands[0]]
        return emit(emitter, op, operands, constants, result)

    monkeypatch.setattr(scope, "emit_pointwise", wrong)
    x = torch.rand(20, 70).half().to("spyre")
    y = torch.rand(20, 70).half().to("spyre")
    with pytest.raises(VerificationError, match="in the fused kernel but not alone") as caught:
        run(lambda x, y: ((x + 0.3) * y + 0.7).exp(), [x, y], is_compiled=True)
    assert caught.value.op == "mul"


@pytest.mark.parametrize(
    ("index", "positions", "message"),
    [
        (0, [1], "argument 0, which no op writes, has changed in 1 bytes"),
        (1, [1], "is wrong"),
        # The second stick of the first row is padding from element 6 on.
        (1, [4096 * 2 + 1], "which no op writes"),
    ],
)
def test_changes_that_no_op_makes_are_found(monkeypatch, index, positions, message):
    wrap = Runner.wrap

    def wrap_changed(self, wrapper):
        wrap(self, lambda run: wrapper(ChangedLaunch(run, index, positions)))

    monkeypatch.setattr(Runner, "wrap", wrap_changed)
    x = torch.rand(4, 70).half().to("spyre")
    result = torch.zeros(100, 70).half().to("spyre")
    with pytest.raises(VerificationError, match=message):
        torch.exp(x, out=result[:4])


def test_error_of_a_kernel_leaves_the_device_usable():
    x = torch.rand(9, 70).to("spyre")
    with knobs.override(SPYRE_EMU_INJECT="flip:tanh"), pytest.raises(VerificationError):
        torch.tanh(x)
    assert torch.allclose((x + 1).cpu(), x.cpu() + 1)
