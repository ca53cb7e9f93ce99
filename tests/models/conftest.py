import pytest


@pytest.fixture(autouse=True)
def with_kernels(kernels):
    """Run eager ops with kernels, not with the CPU fallback."""
