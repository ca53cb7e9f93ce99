"""Helpers for tests of device memory."""

import os
import subprocess
import sys

import torch

GIB, MIB = 2**30, 2**20
USABLE = 112 * GIB


def empty(count, dtype=torch.float16, device="spyre"):
    return torch.empty(count, dtype=dtype, device=device)


def run_child(code, **variables):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
