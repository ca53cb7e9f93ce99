"""Everything that is different in Inductor while a graph for the card is compiled."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._inductor import config as inductor_config
from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder
from torch._inductor.lowering import lowerings as inductor_lowerings
from torch._inductor.lowering import user_lowerings
from torch._inductor.ops_handler import DefaultHandler

from torch_spyre._inductor import (
    attention_lowering,  # noqa: F401  (registers what it lowers)
    lowerings,
    scatters,  # noqa: F401  (registers what it lowers)
)
from torch_spyre.constants import DEVICE_NAME

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
# Loop ops of ours: Inductor warns of names that its handlers do not have.
_LOOP_OPS = ("silu", "gelu", "softplus", "clamp")

_lock = threading.RLock()


@contextmanager
def compiling() -> Iterator[None]:
    """Enters what a compilation for the card needs; nested or failed, all is as before after it."""
    from torch._prims_common import _computation_dtype_map

    with _lock, _without_collection():
        halves = {dtype: dtype for dtype in (torch.float16, torch.bfloat16)}
        # Decompositions compute halves as halves: the card's units round each op once.
        saved_types = {key: _computation_dtype_map[key] for key in halves}
        saved_lowerings = {key: user_lowerings.get(key) for key in lowerings.TABLE}
        # Inductor asks its own table first whether an op can be lowered at all.
        missing = [key for key in lowerings.TABLE if key not in inductor_lowerings]
        _install_loop_ops()
        _computation_dtype_map.update(halves)
        user_lowerings.update(lowerings.TABLE)
        inductor_lowerings.update((key, lowerings.TABLE[key]) for key in missing)
        try:
            with inductor_config.patch(OPTIONS), _constants_read_wide():
                yield
        finally:
            _computation_dtype_map.update(saved_types)
            for key in missing:
                inductor_lowerings.pop(key, None)
            for key, value in saved_lowerings.items():
                if value is None:
                    user_lowerings.pop(key, None)
                else:
                    user_lowerings[key] = value


@contextmanager
def _constants_read_wide() -> Iterator[None]:
    """Folded constants are computed on the card, whose halves exceed float16's.

    The lowest number of a mask is one of these: read as float16 it would be minus infinity.
    """
    original = UniformValueConstantFolder.add_node_replacement

    def read(self: Any, node: torch.fx.Node, tensor: torch.Tensor) -> None:
        original(self, node, tensor)
        if tensor.device.type == DEVICE_NAME and tensor.dtype is torch.float16:
            self.node_replacements[node] = tensor.flatten()[0].to(torch.float32).item()

    UniformValueConstantFolder.add_node_replacement = read  # type: ignore[method-assign]
    try:
        yield
    finally:
        UniformValueConstantFolder.add_node_replacement = original  # type: ignore[method-assign]


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


def _install_loop_ops() -> None:
    for name in _LOOP_OPS:
        if name not in DefaultHandler.__dict__:
            setattr(DefaultHandler, name, DefaultHandler._call_default(name))
