"""Fixtures for tests of the device: processes, pinned memory, streams."""

import gc
import json
import os
import subprocess
import sys

import pytest
from fork_server import FORK_SERVER, PLAIN_ENVIRONMENT
from stream_helpers import BIG


@pytest.fixture(scope="session")
def run():
    """Return a function that runs code in a process with other environment variables.

    It returns the words that the code prints. The process has imported torch and used no card.
    """
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORK_SERVER],
        env=PLAIN_ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(code, folder=".", **variables):
        variables = {"TORCH_SPYRE_EAGER": os.environ["TORCH_SPYRE_EAGER"], **variables}
        request = {"code": code, "folder": str(folder), "variables": variables}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status, output = json.loads(server.stdout.readline())
        assert status == 0, output
        return output.split()

    yield run
    server.stdin.close()
    assert server.wait(timeout=30) == 0


@pytest.fixture(scope="module")
def pinned():
    """Two large pinned tensors with different contents."""
    import torch

    return [torch.full((BIG,), float(value), dtype=torch.float16).pin_memory() for value in (1, 2)]


@pytest.fixture
def default_stream_stays_current():
    import torch

    yield
    assert torch.spyre.current_stream() == torch.spyre.default_stream()
    torch.spyre.synchronize()


@pytest.fixture
def nothing_pending():
    import torch

    torch.spyre.synchronize()
    gc.collect()
