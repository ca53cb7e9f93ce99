"""Fallbacks in compiled graphs: warnings and errors name the op and the user's line."""

import inspect
import subprocess
import sys

import pytest
import torch
from cpu_reference import make_tensor

from torch_spyre.errors import FallbackError


def function(x):
    x = x + 1
    x = torch.linalg.matrix_exp(x)
    return x * 2


LINE = inspect.getsourcelines(function)[1] + 2


@pytest.fixture
def compiled(monkeypatch):
    """Recompile the function and call it with a setting of TORCH_SPYRE_FALLBACK."""

    # The card reads the setting for eager ops when it starts.
    x = make_tensor(6, 6, dtype=torch.float32).to("spyre")

    def call(setting):
        monkeypatch.setenv("TORCH_SPYRE_FALLBACK", setting)
        torch._dynamo.reset()
        return torch.compile(function)(x)

    return call


def test_error_names_the_op_and_the_line(compiled):
    arguments = r"\(float32\[6, 6\] on spyre:0\)"
    where = rf"test_compiled_fallbacks\.py:{LINE}"
    expected = rf"matrix_exp.*{arguments} at .*{where} .*TORCH_SPYRE_FALLBACK=error"
    with pytest.raises(FallbackError, match=expected):
        compiled("error")


PROGRAM = """
import torch

def function(x):
    x = x + 1
    x = torch.linalg.matrix_exp(x)
    return x * 2

x = torch.arange(36).reshape(6, 6) / 64
found = torch.compile(function)(x.to("spyre")).cpu()
torch.testing.assert_close(found, function(x), rtol=1e-4, atol=1e-4)
"""


def test_warn_names_the_op_and_the_line(tmp_path):
    """Run in a new process, since each op warns once per process."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    line = PROGRAM.split("\n").index("    x = torch.linalg.matrix_exp(x)") + 1
    (warning,) = [line for line in done.stderr.splitlines() if "FallbackWarning" in line]
    assert warning.startswith(f"{program}:{line}: ")
    assert "matrix_exp" in warning


def test_fallbacks_split_kernels(compiled_kernels):
    x = make_tensor(6, 6, dtype=torch.float32)
    result = compiled_kernels.compile(function, x)
    assert result.device.type == "spyre"
    assert compiled_kernels.ops == [["add"], ["mul"]]
    assert len(compiled_kernels.names) == 2
    torch.testing.assert_close(result.cpu(), function(x), rtol=1e-4, atol=1e-4)


CONVERSIONS = {
    "at the end": lambda x: x.double(),
    "on the way": lambda x: ((x + 1).double() * 2).sin() + 1,
    "and back": lambda x: x.to(torch.float64).float().exp(),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_float64_results_are_on_the_cpu_as_in_eager_mode(name):
    x = make_tensor(3, 70, dtype=torch.float32)
    torch._dynamo.reset()
    with pytest.warns(UserWarning, match="spyre has no float64") as seen:
        actual = torch.compile(CONVERSIONS[name])(x.to("spyre"))
    (warning,) = [warning for warning in seen if "float64" in str(warning.message)]
    assert warning.filename == __file__
    assert actual.device.type == "cpu"
    torch.testing.assert_close(actual, CONVERSIONS[name](x))


@pytest.mark.parametrize("name", ["a copy from the host", "the checks of one_hot"])
def test_ops_without_computation_on_the_cpu_are_allowed(name, no_fallbacks, monkeypatch):
    host = torch.tensor([0.5, 1.5])

    def with_copy(x):
        return x.float() * host.to(x.device)

    def with_checks(x):
        return torch.nn.functional.one_hot(x, 4) * 2

    call = with_copy if name == "a copy from the host" else with_checks
    x = torch.tensor([3, 0])
    monkeypatch.setenv("TORCH_SPYRE_FALLBACK", "error")
    torch._dynamo.reset()
    assert torch.compile(call, fullgraph=True)(x.to("spyre")).tolist() == call(x).tolist()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_failing_assertion_raises(compiled, no_fallbacks):
    def checked(x):
        torch._assert_async((x < 4).all(), "too large")
        return x + 1

    torch._dynamo.reset()
    run = torch.compile(checked, fullgraph=True) if compiled else checked
    assert run(torch.tensor([1, 3], device="spyre")).tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="too large"):
        run(torch.tensor([1, 7], device="spyre"))
