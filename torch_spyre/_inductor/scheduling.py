"""Collects the nodes of Inductor's scheduler into bundles, and generates the calls of bundles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch._inductor import ir
from torch._inductor.scheduler import (
    BaseSchedulerNode,
    BaseScheduling,
    FusedSchedulerNode,
    SchedulerNode,
)
from torch._inductor.utils import get_fused_kernel_name
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.bundle_builder import tensor_of
from torch_spyre._inductor.driver import (
    BundleRequest,
    compile_bundle,
    kernel_source,
    node_names,
    stages_source,
)
from torch_spyre._inductor.inputs import known_inputs
from torch_spyre._inductor.wrapper import SpyreWrapper

# Dumps name folders after kernels, and file systems limit their length.
_MAX_NAME_LENGTH = 120


@dataclass(frozen=True)
class _NoNode:
    """Stands for the node of the lines of a wrapper that come from no node."""

    stack_trace: None = None


_NO_NODE = _NoNode()


class SpyreScheduling(BaseScheduling):
    """Collects nodes until Inductor flushes them. The passes on bundles decide on fusion."""

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        self.pending: list[SchedulerNode] = []
        # Names of the kernels that are defined, by the source of their stages: for the nodes that
        # they are called for.
        self.kernels: dict[str, dict[str, str]] = {}

    def get_backend_features(self, device: Any) -> OrderedSet[Any]:
        return OrderedSet()

    def can_fuse_vertical(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        return False

    def can_fuse_horizontal(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        return False

    def group_fn(self, sizes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        return tuple(V.graph.sizevars.simplify(math.prod(dims)) for dims in sizes)

    def codegen_node(self, node: FusedSchedulerNode | SchedulerNode) -> None:
        self.pending.extend(part for part in node.get_nodes() if isinstance(part, SchedulerNode))

    def codegen_sync(self) -> None:
        pass

    def ready_to_flush(self) -> bool:
        return False

    def flush(self) -> None:
        """Write the call of the pending nodes, and free the buffers that are not used after it."""
        if self.pending:
            self.write_pending()
            self.free_buffers_in_scheduler()

    def write_pending(self) -> None:
        """Compile the pending nodes as one bundle, and write the call of its kernel."""
        nodes, self.pending = self.pending, []
        if not nodes:
            return
        wrapper = V.graph.wrapper_code
        assert isinstance(wrapper, SpyreWrapper)
        bundle = compile_bundle(self._request(nodes, wrapper), V.graph)
        wrapper.layouts.update(
            (name, tensor.layout)
            for name, tensor in bundle.tensors.items()
            if name in bundle.results and tensor.layout is not None and name not in wrapper.layouts
        )
        internal = {op.target for op in bundle.ops} - set(bundle.arguments)
        V.graph.removed_buffers.update(internal)
        for node in nodes:
            # Snapshots of memory attribute the allocation to the line of this node.
            V.graph.scheduler.enter_context(node)
            node.mark_run()
        kernel = self._define_kernel(bundle)
        foreign = self._foreign_arguments(bundle, wrapper)
        # Constants are globals of the module: assigning to their names would make them local.
        constants = [name for name in foreign if name in V.graph.constants]
        for name in foreign:
            if name not in constants:
                wrapper.writeline(f"{name} = in_default_layout({name})")
        arguments = ", ".join(
            f"in_default_layout({name})" if name in constants else name for name in bundle.arguments
        )
        # The scratch buffers of the kernel belong to no line.
        wrapper.enter_context(_NO_NODE)
        wrapper.writeline(f"{kernel}.run({arguments})")

    def _request(self, nodes: Sequence[SchedulerNode], wrapper: SpyreWrapper) -> BundleRequest:
        buffers = [node.node for node in nodes if isinstance(node.node, ir.ComputedBuffer)]
        assert len(buffers) == len(nodes)
        known = {**known_inputs(V.graph), **self._buffers_of_earlier_bundles(wrapper)}
        name = get_fused_kernel_name(nodes, "original_aten")[:_MAX_NAME_LENGTH]
        return BundleRequest(f"sdsc_{name}", buffers, known, _visible_buffers(nodes))

    def _buffers_of_earlier_bundles(self, wrapper: SpyreWrapper) -> dict[str, Tensor]:
        """Return the buffers that exist already, with the layouts that were chosen for them."""
        tensors: dict[str, Tensor] = {}
        for name, layout in wrapper.layouts.items():
            buffer = V.graph.get_buffer(name)
            tensors[name] = replace(tensor_of(name, buffer.get_layout()), layout=layout)
        return tensors

    def _foreign_arguments(self, bundle: Bundle, wrapper: SpyreWrapper) -> list[str]:
        """Return the arguments that no bundle wrote, which are assumed to have default layouts."""
        written = {op.target for op in bundle.ops}
        known = {*known_inputs(V.graph), *wrapper.layouts, *written}
        return [name for name in bundle.arguments if name not in known]

    def _define_kernel(self, bundle: Bundle) -> str:
        """Return the name of the bundle's kernel, which is defined unless there is an equal one.

        A call for other nodes has a name of its own, so that it is known which nodes it is for.
        """
        wrapper = V.graph.wrapper_code
        names = self.kernels.setdefault(stages_source(bundle), {})
        nodes = repr(node_names(bundle.stages))
        if nodes in names:
            return names[nodes]
        if not names:
            name = f"{bundle.name}_{wrapper.next_kernel_suffix()}"
            source = kernel_source(bundle, name)
        else:
            first = next(iter(names.values()))
            name = f"{first}_call_{len(names)}"
            source = f"{first}.for_nodes({nodes})"
        wrapper.define_kernel(name, source, gpu=False)
        names[nodes] = name
        return name


def _visible_buffers(nodes: Sequence[SchedulerNode]) -> list[str]:
    """Return the buffers that later nodes read, outputs of the graph, and mutated inputs."""
    names = {node.get_name() for node in nodes}
    visible: list[str] = []
    for node in nodes:
        for buffer in node.get_outputs():
            users = [use for use in buffer.users if not use.is_weak]
            later_users = [use for use in users if use.node.get_name() not in names]
            target = _memory_of(buffer.node)
            if later_users or target != buffer.get_name():
                visible.append(target)
    return list(dict.fromkeys(visible))


def _memory_of(buffer: Any) -> str:
    """Return the name of the buffer whose memory this one is written to."""
    layout = buffer.get_layout() if hasattr(buffer, "get_layout") else None
    if isinstance(layout, ir.MutationLayoutSHOULDREMOVE):
        return layout.get_buffer().get_name()
    if isinstance(layout, ir.NonOwningLayout):
        return layout.view.get_name()
    name: str = buffer.get_name()
    return name
