"""A `FallbackWarning` has the file and line of the user's code, also in compiled code."""

import inspect
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from torch_spyre import _C
from torch_spyre.errors import FallbackWarning

pytestmark = pytest.mark.usefixtures("kernels")
HERE = Path(__file__)


@pytest.fixture(autouse=True)
def forget_warned_ops(monkeypatch):
    """Warn in every test, though each op warns once in a process."""
    _C._reset_fallback_warnings()
    monkeypatch.setenv("TORCH_SPYRE_FALLBACK", "warn")
    with torch.spyre.fallback("warn"):
        yield


def line_of_warning(call, op):
    """Return the line in this file at which a call warns about the fallback of an op."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    entries = [entry for entry in caught if entry.category is FallbackWarning]
    (entry,) = [entry for entry in entries if str(entry.message).startswith(f"aten.{op}")]
    assert Path(entry.filename).samefile(HERE), entry.filename
    return entry.lineno


def first_line(function):
    return inspect.getsourcelines(function)[1]


def square(size=6):
    return torch.eye(size, device="spyre") + 0.25


def test_an_eager_call():
    def call():
        x = square()
        return torch.linalg.eigvalsh(x)

    assert line_of_warning(call, "_linalg_eigh") == first_line(call) + 2


def test_a_call_in_a_module_of_pytorch_has_the_line_that_calls_the_module():
    loss = nn.CTCLoss()

    def call():
        probabilities = torch.randn(5, 1, 4).log_softmax(2).to("spyre")
        targets = torch.tensor([[1, 2]])
        return loss(probabilities.double().float(), targets, (5,), (2,)), torch.linalg.qr(square())

    assert line_of_warning(call, "linalg_qr") == first_line(call) + 3


def test_a_compiled_graph():
    def function(x):
        x = x + 1
        y = torch.linalg.lu_factor_ex(x)[0]
        return y * 2

    torch._dynamo.reset()
    line = line_of_warning(lambda: torch.compile(function)(square()), "linalg_lu_factor_ex")
    assert line == first_line(function) + 2


def test_a_compiled_module_has_the_line_in_forward():
    class Model(nn.Module):
        def forward(self, x):
            y = x * 3
            return torch.linalg.cholesky_ex(y @ y.T)[0]

    torch._dynamo.reset()
    line = line_of_warning(lambda: torch.compile(Model())(square()), "linalg_cholesky_ex")
    assert line == first_line(Model.forward) + 2


def test_a_graph_that_runs_op_by_op():
    def function(x, flag):
        y = torch.cond(flag, torch.sin, torch.cos, (x,))
        return torch.linalg.slogdet(y)[1]

    torch._dynamo.reset()
    call = torch.compile(function)
    line = line_of_warning(lambda: call(square(), torch.tensor(True)), "_linalg_slogdet")
    assert line == first_line(function) + 2


def test_a_backward_pass_has_the_line_that_starts_it():
    x = square().requires_grad_()
    result = torch.cdist(x, square()).sum()

    def call():
        result.backward()

    assert line_of_warning(call, "_cdist_backward") == first_line(call) + 1


def test_the_line_of_the_current_call_is_that_of_this_file():
    assert _C._users_line() == f"{__file__}:{inspect.currentframe().f_lineno}"
