import warnings

import pytest
import torch

from torch_spyre.ops import eager


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """Eager ops run on the card here, in child processes too."""
    monkeypatch.setenv("TORCH_SPYRE_EAGER", "native")
    eager.use_kernels(True)
    yield
    eager.use_kernels(False)


@pytest.fixture
def native():
    """Nothing in the test falls back."""
    before = torch.spyre.counters()["fallbacks"]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*falling back")
        yield
    assert torch.spyre.counters()["fallbacks"] == before
