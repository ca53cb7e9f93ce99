"""What a compilation for the card needs: our options of Inductor, and its patches."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo.convert_frame import compile_lock
from torch._inductor import config as inductor_config

from torch_spyre._inductor import lowerings, patches

# Inductor's options for our graphs, and why.
OPTIONS: dict[str, Any] = {
    # Work division splits reductions over cores; two kernels instead of one are not wanted.
    "split_reductions": False,
    # Small sums would become chains of additions.
    "unroll_reductions_threshold": 1,
    # A product and a transpose stay two things.
    "permute_fusion": False,
    # Buffers of equal size can differ in their layouts.
    "allow_buffer_reuse": False,
    "inplace_buffers": False,
    "benchmark_harness": False,
    # The patterns make ops for other hardware: addmm out of mm and add, softmax in float32.
    "pattern_matcher": False,
    "max_autotune": False,
    "max_autotune_gemm": False,
    "fallback_random": True,
    "comprehensive_padding": False,
    "layout_optimization": False,
}


@contextmanager
def compiling() -> Iterator[None]:
    """Enters what a compilation for the card needs; nested or failed, all is as before after it.

    One thread at a time, and none that compiles for another device: what is changed, and what
    PyTorch keeps of a trace, is the same for all threads. Dynamo refuses calls while it sees a
    trace outside of its own sessions, so this is one.
    """
    with (
        compile_lock,
        torch.compiler._compile_session_context(),
        _without_collection(),
        patches.for_the_card(lowerings.TABLE),
        inductor_config.patch(OPTIONS),
    ):
        yield


@contextmanager
def _without_collection() -> Iterator[None]:
    """Looking for garbage takes a sixth of the time of a compiler, and finds little."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
