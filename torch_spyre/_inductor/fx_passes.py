"""Passes over FX graphs before lowering: fallbacks, host scalars and host indices."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch.utils import _pytree as pytree

from torch_spyre._inductor.native_ops import is_native
from torch_spyre._inductor.provenance import users_line
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.dtypes import RAW_DTYPES
from torch_spyre.errors import FallbackError, UnsupportedError
from torch_spyre.ops import eager, fallback_policy, fallbacks
from torch_spyre.ops.hand_written import HAND_WRITTEN_OPS
from torch_spyre.user_frames import UserLine

# Ops that copy from one device to another.
_ACROSS_DEVICES = (
    torch.ops.aten.copy.default,
    torch.ops.aten.copy_.default,
    torch.ops.prims.device_put.default,
)
# Ops that only copy, and have no kernel of the compiler.
_COPIES = (torch.ops.prims.device_put.default,)
# Ops whose indices may be on the host while the indexed tensor is on the card.
_INDEXING = (torch.ops.aten.index, torch.ops.aten.index_put, torch.ops.aten.index_put_)


class MarkFallbacks(CustomGraphModulePass):
    """Marks ops on the card that are not native: they call their eager form, which falls back."""

    def __call__(self, module: torch.fx.GraphModule) -> None:
        for node in non_native_nodes(module):
            node.meta["should_fallback"] = True

    def uuid(self) -> Any:
        return source_hash()


def non_native_nodes(module: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """Yield the ops on the card that have no lowering."""
    for node in module.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        values = [operand.meta.get("val") for operand in node.all_input_nodes]
        values += pytree.tree_leaves(node.meta.get("val"))
        if any(map(_is_on_card, values)) and not is_native(node.target, iter(values)):
            yield node


def lines_of_fallbacks(module: torch.fx.GraphModule) -> dict[str, UserLine]:
    """Return the lines of ops that will fall back, by name; raise FallbackError if forbidden."""
    policy = fallback_policy.current()
    lines: dict[str, UserLine] = {}
    for node in non_native_nodes(module):
        if node.target in _COPIES or node.target in HAND_WRITTEN_OPS:
            continue
        if isinstance(node.target, torch._ops.OpOverload) and eager.is_composed(node.target):
            continue
        location = users_line(node)
        if policy.mode == "error" and not policy.allows(str(node.target)):
            position = f" at {location}" if location else ""
            arguments = [*node.args, *node.kwargs.values()]
            raise FallbackError(str(node.target), list(map(_described, arguments)), position)
        if location:
            lines.setdefault(str(node.target), location)
    return lines


def _described(argument: object) -> str:
    value = argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument
    return fallbacks.described(value)


def reject_subgraphs(module: torch.fx.GraphModule) -> None:
    """Raise UnsupportedError for ops with functions as arguments: `cond`, `flex_attention`."""
    for node in module.graph.nodes:
        if node.op == "get_attr" and isinstance(
            getattr(module, str(node.target), None), torch.fx.GraphModule
        ):
            raise UnsupportedError("graphs inside of a graph")


def move_host_scalars_and_indices(module: torch.fx.GraphModule) -> None:
    """Copy host scalars and host indices of ops on the card to the card."""
    moved: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target in _ACROSS_DEVICES:
            continue
        values = {operand: operand.meta.get("val") for operand in node.all_input_nodes}
        device = next((value.device for value in values.values() if _is_on_card(value)), None)
        if device is None or _has_raw_dtype(node, values.values()):
            continue
        for source, value in values.items():
            if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
                continue
            if value.dim() and not _is_index(source, node):
                continue
            if source not in moved:
                with module.graph.inserting_before(node):
                    moved[source] = _moved(module.graph, source, value, device)
            node.replace_input_with(source, moved[source])
    module.recompile()


def _has_raw_dtype(node: torch.fx.Node, operands: Iterable[object]) -> bool:
    """Return whether the op has a tensor on the card of a dtype that the card only stores.

    It falls back, and the CPU reads its host scalars in their own dtype.
    """
    values = [*operands, *pytree.tree_leaves(node.meta.get("val"))]
    return any(_is_on_card(value) and value.dtype in RAW_DTYPES for value in values)


def _is_index(source: torch.fx.Node, node: torch.fx.Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return node.target.overloadpacket in _INDEXING and source in pytree.tree_leaves(node.args[1])


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


def _is_on_card(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME


@cache
def source_hash() -> str:
    """Return a digest of the front end's sources, a part of the keys of Inductor's caches."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    # The registry of native ops decides which eager forms graphs call.
    sources = (*folder.glob("**/*.py"), *folder.parent.glob("ops/*.py"))
    for path in sorted((*sources, *folder.parent.glob("dtype*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()
