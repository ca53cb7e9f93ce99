"""Fixtures for the tests of the engine."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def nothing_pending() -> Iterator[None]:
    """Synchronize after the test, so that a failing launch fails the test that queued it."""
    yield
    torch.spyre.synchronize()
