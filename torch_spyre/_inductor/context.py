"""The context of a compilation for the card: options of Inductor, and patches."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo.convert_frame import compile_lock
from torch._inductor import config as inductor_config

from torch_spyre.pytorch_internals.registry import applied_while_compiling

# Options of Inductor for graphs on the card.
OPTIONS: dict[str, Any] = {
    # Work division splits reductions over cores; two kernels instead of one would be slower.
    "split_reductions": False,
    # Small sums would become chains of additions.
    "unroll_reductions_threshold": 1,
    # A matmul and a transpose remain two ops.
    "permute_fusion": False,
    # Buffers of equal size can differ in their layouts.
    "allow_buffer_reuse": False,
    "inplace_buffers": False,
    "benchmark_harness": False,
    # The patterns target other hardware: addmm from mm and add, softmax in float32.
    "pattern_matcher": False,
    "max_autotune": False,
    "max_autotune_gemm": False,
    "fallback_random": True,
    "comprehensive_padding": False,
    "layout_optimization": False,
}


@contextmanager
def compiling() -> Iterator[None]:
    """Apply the options and patches; undo them on exit, also after errors. Can be nested.

    Holds Dynamo's compile lock, since the patches and PyTorch's tracing state are global: no other
    thread compiles, for any device. Dynamo rejects calls during a trace outside of its own compile
    sessions, so this is one.
    """
    with (
        compile_lock,
        torch.compiler._compile_session_context(),
        _without_garbage_collection(),
        applied_while_compiling(),
        inductor_config.patch(OPTIONS),
    ):
        yield


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection, which takes a sixth of compile time and frees little."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
