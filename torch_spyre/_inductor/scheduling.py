"""Inductor's scheduler hands us nodes one after the other; runs of them become bundles."""

from collections.abc import Sequence
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

from torch_spyre import knobs
from torch_spyre._inductor.bundle import Bundle, Tensor, loop_text
from torch_spyre._inductor.inputs import known_inputs
from torch_spyre._inductor.lowered import bundle_of, tensor_of
from torch_spyre._inductor.pipeline import run_passes
from torch_spyre._inductor.wrapper import SpyreWrapper

# Of a kernel: folders are named after it.
_LONGEST_NAME = 120


class SpyreScheduling(BaseScheduling):
    """Collects nodes until something else must run; fusion is decided by the passes on bundles."""

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        self.pending: list[SchedulerNode] = []
        self.kernels: dict[str, str] = {}

    def get_backend_features(self, device: Any) -> OrderedSet[Any]:
        return OrderedSet()

    def can_fuse_vertical(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        return False

    def can_fuse_horizontal(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        return False

    def group_fn(self, sizes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        return tuple(V.graph.sizevars.simplify(_product(each)) for each in sizes)

    def codegen_node(self, node: FusedSchedulerNode | SchedulerNode) -> None:
        self.pending.extend(each for each in node.get_nodes() if isinstance(each, SchedulerNode))

    def codegen_sync(self) -> None:
        pass

    def ready_to_flush(self) -> bool:
        return False

    def flush(self) -> None:
        """Makes one bundle of what has come together, and the call of it."""
        nodes, self.pending = self.pending, []
        if not nodes:
            return
        wrapper = V.graph.wrapper_code
        assert isinstance(wrapper, SpyreWrapper)
        bundle = run_passes(self._bundle(nodes, wrapper))
        wrapper.layouts.update(
            (name, tensor.layout)
            for name, tensor in bundle.tensors.items()
            if name in bundle.results and tensor.layout is not None and name not in wrapper.layouts
        )
        internal = {op.target for op in bundle.ops} - set(bundle.arguments)
        V.graph.removed_buffers.update(internal)
        for node in nodes:
            node.mark_run()
        kernel = self._kernel(bundle, nodes)
        made_elsewhere = self._made_elsewhere(bundle, wrapper)
        # Constants are the module's: in the function they cannot be called by their own name.
        constants = [name for name in made_elsewhere if name in V.graph.constants]
        for name in made_elsewhere:
            if name not in constants:
                wrapper.writeline(f"{name} = in_default_layout({name})")
        arguments = ", ".join(
            f"in_default_layout({name})" if name in constants else name for name in bundle.arguments
        )
        wrapper.writeline(f"{kernel}.run({arguments})")
        self.free_buffers_in_scheduler()

    def _bundle(self, nodes: Sequence[SchedulerNode], wrapper: SpyreWrapper) -> Bundle:
        buffers = [node.node for node in nodes if isinstance(node.node, ir.ComputedBuffer)]
        assert len(buffers) == len(nodes)
        known = {**known_inputs(V.graph), **self._made_before(wrapper)}
        results = _visible(nodes)
        name = get_fused_kernel_name(nodes, "original_aten")[:_LONGEST_NAME]
        return bundle_of(f"sdsc_{name}", buffers, known, results, V.graph)

    def _made_before(self, wrapper: SpyreWrapper) -> dict[str, Tensor]:
        """Buffers that exist already: their layouts are what they are."""
        from dataclasses import replace

        found: dict[str, Tensor] = {}
        for name, layout in wrapper.layouts.items():
            buffer = V.graph.get_buffer(name)
            found[name] = replace(tensor_of(name, buffer.get_layout()), layout=layout)
        return found

    def _made_elsewhere(self, bundle: Bundle, wrapper: SpyreWrapper) -> list[str]:
        """Arguments that other kernels made: they are taken to have their default layouts."""
        made = {op.target for op in bundle.ops}
        known = {*known_inputs(V.graph), *wrapper.layouts, *made}
        return [name for name in bundle.arguments if name not in known]

    def _kernel(self, bundle: Bundle, nodes: Sequence[SchedulerNode]) -> str:
        stages = ", ".join(repr(list(specs)) for specs in bundle.stages)
        text = f"[{stages}]"
        if text not in self.kernels:
            wrapper = V.graph.wrapper_code
            name = f"{bundle.name}_{wrapper.next_kernel_suffix()}"
            self.kernels[text] = name
            loops = "" if knobs.logging.dump is None else f", {loop_text(bundle)!r}"
            wrapper.define_kernel(name, f"async_compile.sdsc({name!r}, {text}{loops})", gpu=False)
        return self.kernels[text]


def _visible(nodes: Sequence[SchedulerNode]) -> list[str]:
    """Buffers that something after these nodes reads, or that are outputs or changed inputs."""
    ours = {node.get_name() for node in nodes}
    visible: list[str] = []
    for node in nodes:
        for buffer in node.get_outputs():
            users = [use for use in buffer.users if not use.is_weak]
            others = [use for use in users if use.node.get_name() not in ours]
            target = _memory_of(buffer.node)
            if others or target != buffer.get_name():
                visible.append(target)
    return list(dict.fromkeys(visible))


def _memory_of(buffer: Any) -> str:
    layout = buffer.get_layout() if hasattr(buffer, "get_layout") else None
    if isinstance(layout, ir.MutationLayoutSHOULDREMOVE):
        return layout.get_buffer().get_name()
    if isinstance(layout, ir.NonOwningLayout):
        return layout.view.get_name()
    name: str = buffer.get_name()
    return name


def _product(sizes: Sequence[Any]) -> Any:
    total = 1
    for size in sizes:
        total *= size
    return total
