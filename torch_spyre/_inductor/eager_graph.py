"""The graph of one call: what the op does, in ops that are lowered."""

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
    """An overload and its arguments, whose tensors can be others of the same kind."""

    def __init__(
        self, overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        self.overload = overload
        self._leaves, self._structure = pytree.tree_flatten((args, kwargs))
        self._places = [
            place for place, leaf in enumerate(self._leaves) if isinstance(leaf, torch.Tensor)
        ]

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [self._leaves[place] for place in self._places]

    def arguments(self, values: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """With these in the place of its tensors."""
        filled = list(self._leaves)
        for place, value in zip(self._places, values, strict=True):
            filled[place] = value
        args, kwargs = pytree.tree_unflatten(filled, self._structure)
        return args, kwargs


def graph_of(
    call: Call, fakes: Sequence[torch.Tensor], results: Sequence[Any], writes: bool
) -> torch.fx.GraphModule:
    """`results` is what the call gives for fake tensors, if that is known."""
    # Nobody runs the graph's Python code.
    with _use_lazy_graph_module(True):
        if not writes and len(results) == 1 and _lowered_as_it_is(call.overload):
            return _of_one_node(call, fakes, results[0])
        module = _traced(call, fakes)
    if writes:
        # Writes through indices go to the memory they change, and to no copy of it.
        reinplace_inplaceable_ops_core(module.graph)
    return module


def _lowered_as_it_is(overload: torch._ops.OpOverload) -> bool:
    """Would tracing it give the very same op? It takes a quarter of the time of a compilation."""
    schema = overload._schema
    return (
        overload in lowerings
        and overload not in decompositions.table()
        and overload not in BODIES
        and not overload.has_kernel_for_dispatch_key(_COMPOSITE)
        and len(schema.returns) == 1
        and all(each.alias_info is None for each in (*schema.arguments, *schema.returns))
    )


def _of_one_node(
    call: Call, fakes: Sequence[torch.Tensor], result: torch.Tensor
) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    inputs = []
    for place, fake in enumerate(fakes):
        node = graph.placeholder(f"arg{place}_1")
        node.meta["val"] = fake
        inputs.append(node)
    args, kwargs = call.arguments(inputs)
    made = graph.call_function(call.overload, tuple(args), kwargs)
    made.meta["val"] = result
    graph.output(made)
    return torch.fx._lazy_graph_module._make_graph_module(torch.nn.Module(), graph)


def _traced(call: Call, fakes: Sequence[torch.Tensor]) -> torch.fx.GraphModule:
    def body(*values: torch.Tensor) -> Any:
        args, kwargs = call.arguments(values)
        return BODIES.get(call.overload, call.overload)(*args, **kwargs)

    module: torch.fx.GraphModule = make_fx(
        torch.func.functionalize(body, remove="mutations_and_views"),
        decomposition_table=decompositions.table(),
        tracing_mode="real",
    )(*fakes)
    return module
