import warnings

import pytest
import torch
from made_kernels import kernels_made  # noqa: F401  (a fixture)


@pytest.fixture(autouse=True)
def with_kernels(kernels):
    """What these tests are about."""


@pytest.fixture
def native():
    """Nothing in the test falls back."""
    before = torch.spyre.counters()["fallbacks"]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*falling back")
        yield
    assert torch.spyre.counters()["fallbacks"] == before
