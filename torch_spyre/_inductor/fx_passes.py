"""The last pass over a graph before it is lowered: marks what must run elsewhere."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch.utils import _pytree as pytree

from torch_spyre._inductor.native_ops import is_native
from torch_spyre.constants import DEVICE_NAME


class MarkFallbacks(CustomGraphModulePass):
    """Ops on the card that have no kernel call their eager form, which falls back and says so."""

    def __call__(self, module: torch.fx.GraphModule) -> None:
        for node in module.graph.nodes:
            if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
                continue
            values = [each.meta.get("val") for each in node.all_input_nodes]
            values += pytree.tree_leaves(node.meta.get("val"))
            on_card = any(
                isinstance(each, torch.Tensor) and each.device.type == DEVICE_NAME
                for each in values
            )
            if on_card and not is_native(node.target, iter(values)):
                node.meta["should_fallback"] = True

    def uuid(self) -> Any:
        return source_hash()


@cache
def source_hash() -> str:
    """Of the whole front end: graphs compiled by another version must not be found."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("**/*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
