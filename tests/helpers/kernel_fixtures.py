"""Fixtures for tests of kernels, eager and compiled; a conftest.py imports them for its folder."""

import warnings

import pytest
import torch
from generated_kernels import compiled_kernels  # noqa: F401  (a fixture)


@pytest.fixture(autouse=True)
def with_kernels(kernels):
    """Run eager ops with kernels, not with the CPU fallback."""


@pytest.fixture(scope="session", autouse=True)
def memory_was_used_before():
    """Fill the memory of the card: a new card holds zeros, which hide reads out of bounds."""
    lowest, highest = torch.iinfo(torch.int32).min, torch.iinfo(torch.int32).max
    torch.randint(lowest, highest, (1 << 24,), dtype=torch.int32).to("spyre")


@pytest.fixture(scope="session", autouse=True)
def guards_are_not_timed():
    """Do not profile Dynamo's guards, which flushes the processor's caches after each graph."""
    from torch._dynamo import guards

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards, "profile_guard_manager", lambda *_: 0.0)
        yield


@pytest.fixture(scope="module")
def verified_kernels():
    """Verify every module that the compiler builds, as a module that is loaded from text."""
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
def no_fallbacks():
    """Assert that no op of the test falls back to the CPU."""
    before = torch.spyre.counters()["fallbacks"]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*falling back")
        yield
    assert torch.spyre.counters()["fallbacks"] == before
