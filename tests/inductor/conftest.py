import pytest
import torch  # noqa: F401  (loads our package, which cannot load it in turn)

from torch_spyre.ops import eager


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """Eager ops run on the card here, in child processes too."""
    monkeypatch.setenv("TORCH_SPYRE_EAGER", "native")
    eager.use_kernels(True)
    yield
    eager.use_kernels(False)
