"""Plans of compiled graphs for ranges of sizes: the whole graph is one bundle.

A graph with symbolic sizes that was called with several sizes is compiled as an eager op is, and
runs without Inductor's wrapper. A graph with ops that are not loops of the card has several
bundles, and is compiled for each size.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import TracingContext, tracing
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from torch_spyre._inductor.aliasing import partially_aliased
from torch_spyre._inductor.bundle import Tensor
from torch_spyre._inductor.call_lowering import CallArguments, CompiledCall, lower_call
from torch_spyre._inductor.context import compiling
from torch_spyre._inductor.eager_op import fake_tensor
from torch_spyre._inductor.fx_passes import non_native_nodes, reject_subgraphs
from torch_spyre._inductor.inputs import describe
from torch_spyre._inductor.provenance import origins_of_graph
from torch_spyre._inductor.tensor_forms import number
from torch_spyre.errors import UnsupportedError
from torch_spyre.ops.plans import Plan, Plans, add_plan
from torch_spyre.ops.size_families import SizeFamilies, Structure, is_enabled

# Traces the graph for fake inputs with concrete sizes.
Trace = Callable[[FakeTensorMode, Sequence[Any]], torch.fx.GraphModule]


class GraphFamilies:
    """Finds the plans of a graph for new sizes."""

    def __init__(self, module: torch.fx.GraphModule, trace: Trace) -> None:
        self.module, self._trace = module, trace
        self._structures = Plans()

    def plan(self, arguments: Sequence[Any]) -> Plan | None:
        """Return a plan that a family has for these inputs; None if they are to be compiled."""
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        kinds = [type(value) for value in arguments]
        is_supported = all(kind is int or issubclass(kind, torch.Tensor) for kind in kinds)
        key = Structure.of(tensors) if is_enabled() and is_supported and tensors else None
        if key is None or partially_aliased(tensors):
            return None
        try:
            described = [_described(value) for value in arguments]
        except UnsupportedError:
            return None
        structure = self._structures.get((key, *kinds))
        if structure is None:
            structure = SizeFamilies("a graph", may_alias=key.has_aliases)
            add_plan(self._structures, (key, *kinds), structure)
        plan: Plan | None = structure.plan(described, self._compile)
        return plan

    def _compile(self, values: Sequence[Tensor]) -> CompiledCall:
        """Compile the graph for inputs with this metadata."""
        mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
        with mode:
            fakes = [
                value.size[0] if value.layout is None else fake_tensor(value) for value in values
            ]
        with torch.no_grad(), compiling():
            module = self._trace(mode, fakes)
            _check_is_one_bundle(module)
            view_to_reshape(module)
            origins = origins_of_graph(module, self.module)
            arguments = CallArguments("graph", [value for value in values if value.layout])
            with tracing(TracingContext(mode)), V.set_fake_mode(mode):
                return lower_call(arguments, module, mode, fakes, origins)


def _described(value: torch.Tensor | int) -> Tensor:
    if isinstance(value, int):
        return number(value)
    described = describe(value)
    assert described is not None
    return described


def _check_is_one_bundle(module: torch.fx.GraphModule) -> None:
    """Raise UnsupportedError for a graph with ops that are not loops of the card."""
    reject_subgraphs(module)
    other = next(non_native_nodes(module), None)
    if other is not None:
        raise UnsupportedError(f"{other.target} in a graph for ranges of sizes")
    for node in module.graph.nodes:
        is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if is_random or node.op == "get_attr":
            raise UnsupportedError(f"{node.target} in a graph for ranges of sizes")
