"""Fixtures of the engine's tests."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def nothing_pending() -> Iterator[None]:
    """What a launch left queued fails the test that queued it, not the next one."""
    yield
    torch.spyre.synchronize()
