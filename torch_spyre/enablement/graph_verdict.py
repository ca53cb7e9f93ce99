"""Predict whether an op is native in a compiled graph, as `fx_passes.MarkFallbacks` decides."""

from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from torch_spyre._inductor import decompositions
from torch_spyre._inductor.context import compiling
from torch_spyre._inductor.native_ops import is_native
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.enablement.findings import Verdict
from torch_spyre.pytorch_internals.dispatch_keys import default_dispatch_keys

# Between devices these are DMA transfers, not kernels.
_COPIES = ("aten::copy_", "aten::_to_copy", "prims::device_put")


def graph_verdict(func: torch._ops.OpOverload, args: Any, kwargs: Any) -> tuple[Verdict, str]:
    """Return the verdict on an op's decomposition, and the reason if part of it falls back."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    positions = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    devices = {leaves[index].device.type for index in positions if leaves[index].dim()}
    device = kwargs.get("device")
    if device is not None:
        devices.add(torch.device(device).type)
    if func._schema.name in _COPIES and len(devices) > 1:
        return "native", ""

    def call(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for index, tensor in zip(positions, tensors, strict=True):
            filled[index] = tensor
        filled_args, filled_kwargs = pytree.tree_unflatten(filled, structure)
        return func(*filled_args, **filled_kwargs)

    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(leaves[index], static_shapes=True) for index in positions]
    try:
        with default_dispatch_keys(), torch.no_grad(), compiling(), mode:
            graph = make_fx(
                torch.func.functionalize(call, remove="mutations"),
                decomposition_table=decompositions.table(),
                tracing_mode="real",
            )(*fakes).graph
    except Exception as error:  # any: an op that cannot be traced is not compiled
        return "fallback", f"{type(error).__name__} while tracing: {str(error).splitlines()[0]}"
    fallbacks = sorted({str(node.target) for node in graph.nodes if not _is_native(node)})
    if fallbacks:
        return "fallback", f"{', '.join(fallbacks)} on these types"
    return "native", ""


def _is_native(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return True
    values = [input_node.meta.get("val") for input_node in node.all_input_nodes]
    values += pytree.tree_leaves(node.meta.get("val"))
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if not any(tensor.device.type == DEVICE_NAME for tensor in tensors):
        return True
    return is_native(node.target, iter(tensors))
