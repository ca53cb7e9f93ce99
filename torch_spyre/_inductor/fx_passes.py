"""Passes over a graph before it is lowered: what must move, what must run elsewhere."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch.utils import _pytree as pytree

from torch_spyre._inductor.native_ops import is_native
from torch_spyre.constants import DEVICE_NAME

# Ops that copy from one device to another.
_ACROSS_DEVICES = (
    torch.ops.aten.copy.default,
    torch.ops.aten.copy_.default,
    torch.ops.prims.device_put.default,
)


class MarkFallbacks(CustomGraphModulePass):
    """Ops on the card that have no kernel call their eager form, which falls back and says so."""

    def __call__(self, module: torch.fx.GraphModule) -> None:
        for node in module.graph.nodes:
            if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
                continue
            values = [each.meta.get("val") for each in node.all_input_nodes]
            values += pytree.tree_leaves(node.meta.get("val"))
            if any(map(_on_card, values)) and not is_native(node.target, iter(values)):
                node.meta["should_fallback"] = True

    def uuid(self) -> Any:
        return source_hash()


def move_numbers(module: torch.fx.GraphModule) -> None:
    """Numbers in tensors on the host join ops on the card: kernels read them from there."""
    moved: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target in _ACROSS_DEVICES:
            continue
        values = {each: each.meta.get("val") for each in node.all_input_nodes}
        device = next((value.device for value in values.values() if _on_card(value)), None)
        if device is None:
            continue
        for source, value in values.items():
            if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or value.dim():
                continue
            if source not in moved:
                with module.graph.inserting_before(node):
                    moved[source] = _moved(module.graph, source, value, device)
            node.replace_input_with(source, moved[source])
    module.recompile()


def _moved(
    graph: torch.fx.Graph, source: torch.fx.Node, value: torch.Tensor, device: torch.device
) -> torch.fx.Node:
    if value.dtype is torch.float64:
        value = value.to(torch.float32)
        source = graph.call_function(
            torch.ops.prims.convert_element_type.default, (source, torch.float32)
        )
        source.meta["val"] = value
    node = graph.call_function(torch.ops.prims.device_put.default, (source, device))
    node.meta["val"] = value.to(device)
    return node


def _on_card(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME


@cache
def source_hash() -> str:
    """Of the whole front end: graphs compiled by another version must not be found."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("**/*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
