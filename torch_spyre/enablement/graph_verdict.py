"""What a compiled graph makes of an op: the decision that `fx_passes.MarkFallbacks` takes."""

from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from torch_spyre._inductor import decompositions
from torch_spyre._inductor.context import compiling
from torch_spyre._inductor.eager_op import default_dispatch_keys
from torch_spyre._inductor.native_ops import is_native
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.enablement.findings import Verdict

# Between devices, and so by the DMA engine.
_COPIES = ("aten::copy_", "aten::_to_copy", "prims::device_put")


def graph_verdict(func: torch._ops.OpOverload, args: Any, kwargs: Any) -> tuple[Verdict, str]:
    """Whether all ops that this one is decomposed into are native, and which are not."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    devices = {leaves[place].device.type for place in places if leaves[place].dim()}
    wanted = kwargs.get("device")
    if wanted is not None:
        devices.add(torch.device(wanted).type)
    if func._schema.name in _COPIES and len(devices) > 1:
        return "native", ""

    def call(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        filled_args, filled_kwargs = pytree.tree_unflatten(filled, structure)
        return func(*filled_args, **filled_kwargs)

    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(leaves[place], static_shapes=True) for place in places]
    try:
        with default_dispatch_keys(), torch.no_grad(), compiling(), mode:
            graph = make_fx(
                torch.func.functionalize(call, remove="mutations"),
                decomposition_table=decompositions.table(),
                tracing_mode="real",
            )(*fakes).graph
    except Exception as error:  # any: what cannot be traced is not compiled
        return "fallback", f"{type(error).__name__} while tracing: {str(error).splitlines()[0]}"
    found = sorted({str(node.target) for node in graph.nodes if not _is_native(node)})
    return ("fallback", f"{', '.join(found)} on these types") if found else ("native", "")


def _is_native(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return True
    values = [each.meta.get("val") for each in node.all_input_nodes]
    values += pytree.tree_leaves(node.meta.get("val"))
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if not any(tensor.device.type == DEVICE_NAME for tensor in tensors):
        return True
    return is_native(node.target, iter(tensors))
