import pytest


@pytest.fixture(autouse=True)
def with_kernels(kernels):
    """What these tests are about."""
