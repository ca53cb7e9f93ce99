"""Builds the graph of one eager call from ops that have lowerings."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor.fx_passes.reinplace import reinplace_inplaceable_ops_core
from torch._inductor.lowering import lowerings
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from torch_spyre._inductor import decompositions
from torch_spyre.ops.spyre_ops import BODIES

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


class Call:
    """An overload and its arguments, whose tensors can be replaced."""

    def __init__(
        self, overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        self.overload = overload
        self._leaves, self._structure = pytree.tree_flatten((args, kwargs))
        self._positions = [
            position for position, leaf in enumerate(self._leaves) if isinstance(leaf, torch.Tensor)
        ]

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [self._leaves[position] for position in self._positions]

    def arguments(self, values: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the arguments with these values in place of the tensors."""
        filled = list(self._leaves)
        for position, value in zip(self._positions, values, strict=True):
            filled[position] = value
        args, kwargs = pytree.tree_unflatten(filled, self._structure)
        return args, kwargs


def build_graph(
    call: Call, fakes: Sequence[torch.Tensor], results: Sequence[Any], has_writes: bool
) -> torch.fx.GraphModule:
    """Return the graph of a call; `results` are its results for fake tensors, if known."""
    # The graph's Python code is never run.
    with _use_lazy_graph_module(True):
        if not has_writes and len(results) == 1 and _has_direct_lowering(call.overload):
            return _single_node_graph(call, fakes, results[0])
        module = _trace(call, fakes)
    if has_writes:
        # Writes through indices go to the tensor itself instead of a copy.
        reinplace_inplaceable_ops_core(module.graph)
    return module


def _has_direct_lowering(overload: torch._ops.OpOverload) -> bool:
    """Return whether tracing would yield the same op. Tracing takes a quarter of compile time."""
    schema = overload._schema
    return (
        overload in lowerings
        and overload not in decompositions.table()
        and overload not in BODIES
        and not overload.has_kernel_for_dispatch_key(_COMPOSITE)
        and len(schema.returns) == 1
        and all(value.alias_info is None for value in (*schema.arguments, *schema.returns))
    )


def _single_node_graph(
    call: Call, fakes: Sequence[torch.Tensor], result: torch.Tensor
) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    inputs = []
    for position, fake in enumerate(fakes):
        node = graph.placeholder(f"arg{position}_1")
        node.meta["val"] = fake
        inputs.append(node)
    args, kwargs = call.arguments(inputs)
    node = graph.call_function(call.overload, tuple(args), kwargs)
    node.meta["val"] = result
    graph.output(node)
    return torch.fx._lazy_graph_module._make_graph_module(torch.nn.Module(), graph)


def _trace(call: Call, fakes: Sequence[torch.Tensor]) -> torch.fx.GraphModule:
    def body(*values: torch.Tensor) -> Any:
        args, kwargs = call.arguments(values)
        return BODIES.get(call.overload, call.overload)(*args, **kwargs)

    module: torch.fx.GraphModule = make_fx(
        torch.func.functionalize(body, remove="mutations_and_views"),
        decomposition_table=decompositions.table(),
        tracing_mode="real",
    )(*fakes)
    return module
