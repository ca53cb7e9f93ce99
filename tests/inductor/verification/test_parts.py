"""Large stages are evaluated in parts, with the result of the whole."""

import warnings

import pytest
import torch
from changed_launch import ChangedLaunch
from varied_functions import FUNCTIONS

from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.verification import interpreter, parts
from torch_spyre.errors import VerificationError


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    monkeypatch.setenv("TORCH_SPYRE_VERIFY", "1")


@pytest.fixture
def small_parts(monkeypatch):
    """Evaluate at most 100 points at once; return the numbers of parts of all stages."""
    counts = []

    def counted(specs, memories):
        result = parts.parts_of(specs, memories, max_points=100)
        counts.append(len(result))
        return result

    monkeypatch.setattr(interpreter, "parts_of", counted)
    return counts


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.one_case_in(8)
def test_functions_are_verified_in_parts(name, small_parts):
    function = FUNCTIONS[name]
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compile(function.call)(*function.on_card())
    assert small_parts


def test_elementwise_stages_are_divided(small_parts):
    (torch.ones(40, 70).to("spyre") * 3).cpu()
    assert max(small_parts) >= 28


@pytest.mark.parametrize("name", ["attention", "write_indices"])
def test_stages_that_cannot_be_divided_are_evaluated_whole(name, small_parts):
    function = FUNCTIONS[name]
    function.call(*function.on_card())
    assert 1 in small_parts


def test_error_in_the_last_part_is_found(small_parts):
    wrap = Runner.wrap

    def wrap_changed(self, wrapper):
        wrap(self, lambda run: wrapper(ChangedLaunch(run, 1, [4 * (40 * 32 - 1) + 3])))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "wrap", wrap_changed)
        with pytest.raises(VerificationError):
            torch.exp(torch.ones(40, 32).to("spyre"))


def test_large_stages_are_divided_by_default(monkeypatch):
    counts = []

    def counted(specs, memories):
        counts.append(len(parts.parts_of(specs, memories)))
        return parts.parts_of(specs, memories)

    monkeypatch.setattr(interpreter, "parts_of", counted)
    # Compares each element with each other.
    torch.searchsorted(torch.arange(3000.0).to("spyre"), torch.randn(3000).to("spyre"))
    assert max(counts) > 1
