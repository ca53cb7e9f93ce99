"""Fixtures for tests of kernels, eager and compiled; a conftest.py imports them for its folder."""

import warnings

import pytest
import torch
from generated_kernels import kernels_made  # noqa: F401  (a fixture)


@pytest.fixture(autouse=True)
def with_kernels(kernels):
    """What these tests are about."""


@pytest.fixture(scope="session", autouse=True)
def memory_was_used_before():
    """A new card is full of zeros, which hide what is wrongly read beside a tensor's elements."""
    lowest, highest = torch.iinfo(torch.int32).min, torch.iinfo(torch.int32).max
    torch.randint(lowest, highest, (1 << 24,), dtype=torch.int32).to("spyre")


@pytest.fixture(scope="session", autouse=True)
def guards_are_not_timed():
    """Dynamo empties the processor's caches after each graph, to log how long its guards take."""
    from torch._dynamo import guards

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards, "profile_guard_manager", lambda *_: 0.0)
        yield


@pytest.fixture(scope="module")
def verified_kernels():
    """The compiler trusts what it writes; here every kernel is checked as one that is read."""
    from torch_spyre._inductor.runtime import programs

    build = programs.build_module

    def checked(*arguments):
        module = build(*arguments)
        module.verify()
        return module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "build_module", checked)
        yield


@pytest.fixture
def native():
    """Nothing in the test falls back."""
    before = torch.spyre.counters()["fallbacks"]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*falling back")
        yield
    assert torch.spyre.counters()["fallbacks"] == before
