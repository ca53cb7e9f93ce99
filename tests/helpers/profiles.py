"""Helpers of tests of profiles: activities, and events of exported traces by category."""

import json

import pytest
import torch
from torch.profiler import ProfilerActivity

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}


@pytest.fixture
def traced(tmp_path):
    """Return a function that exports a profile and loads the trace."""

    def load(prof):
        path = tmp_path / "trace.json"
        prof.export_chrome_trace(str(path))
        return json.loads(path.read_text())

    return load


def warmed_up(function, *arguments):
    """Call once, so that kernels are compiled outside of the profile."""
    function(*arguments)
    torch.spyre.synchronize()
    return function


def select(trace, category):
    return [event for event in trace["traceEvents"] if event.get("cat") == category]


def device_events(trace):
    return [event for event in trace["traceEvents"] if event.get("cat") in DEVICE_CATEGORIES]
