"""Ops without a kernel inside of compiled graphs: named, with the user's line, or refused."""

import inspect
import warnings

import pytest
import torch
from comparing import numbers

from torch_spyre.errors import FallbackError
from torch_spyre.ops.fallbacks import FallbackWarning


def function(x):
    x = x + 1
    x = torch.linalg.matrix_exp(x)
    return x * 2


LINE = inspect.getsourcelines(function)[1] + 2


@pytest.fixture
def compiled(monkeypatch):
    """Calls the function, compiled anew, under a setting of TORCH_SPYRE_FALLBACK."""

    # The card takes the setting for eager ops when it starts.
    x = numbers(6, 6, dtype=torch.float32).to("spyre")

    def call(setting):
        monkeypatch.setenv("TORCH_SPYRE_FALLBACK", setting)
        torch._dynamo.reset()
        return torch.compile(function)(x)

    return call


def test_error_names_the_op_and_the_line(compiled):
    wanted = rf"matrix_exp.*test_compiled_fallbacks\.py:{LINE} .*TORCH_SPYRE_FALLBACK=error"
    with pytest.raises(FallbackError, match=wanted):
        compiled("error")


def test_warn_names_the_op_and_the_line(compiled):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = compiled("warn")
    (warning,) = [each for each in seen if issubclass(each.category, FallbackWarning)]
    assert "matrix_exp" in str(warning.message)
    wanted = function(numbers(6, 6, dtype=torch.float32).double())
    torch.testing.assert_close(result.cpu().double(), wanted, rtol=1e-4, atol=1e-4)
    assert (warning.filename, warning.lineno) == (__file__, LINE)
