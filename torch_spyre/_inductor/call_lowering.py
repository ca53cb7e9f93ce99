"""Lowers the graph of a call with Inductor, and compiles it as one bundle.

The call is that of an eager op, or of a compiled graph for a range of sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.exc import LoweringException
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree

from torch_spyre import _C
from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.driver import BundleRequest, compile_bundle
from torch_spyre._inductor.layouts.sticks import default_layout
from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.provenance import GraphOrigins, tracking
from torch_spyre.errors import UnsupportedError


@dataclass(frozen=True)
class View:
    """A result that is a view of a buffer."""

    buffer: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Integer:
    """A result that is an integer: a size that a graph returns."""

    value: int


# An argument by its position, a buffer by its name, a view of a buffer, an integer, or None.
Output = int | str | View | Integer | None


@dataclass(frozen=True)
class CallArguments:
    """The tensors of a call as metadata, and which of them it writes and returns."""

    # The name of the op or graph, for kernels and messages.
    name: str
    tensors: Sequence[Tensor]
    # Positions of tensors.
    written: Sequence[int] = ()
    partially_aliased: Sequence[int] = ()


@dataclass(frozen=True)
class CompiledCall:
    """The bundle of a call, the tensors that it returns, and how they are nested."""

    bundle: Bundle
    inputs: Sequence[str]
    outputs: Sequence[Output]
    structure: Any

    @property
    def allocated(self) -> list[Tensor]:
        """The results that are new memory, with their layouts."""
        return [
            replace(tensor, layout=layout_of(tensor))
            for name, tensor in self.bundle.tensors.items()
            if name in self.bundle.results and name not in self.inputs
        ]


def layout_of(tensor: Tensor) -> _C.SpyreTensorLayout:
    """Return the layout of a tensor; the default one if none was chosen."""
    return tensor.layout or default_layout(tensor.size, tensor.stride, tensor.dtype)


def lower_call(
    arguments: CallArguments,
    module: torch.fx.GraphModule,
    mode: FakeTensorMode,
    inputs_of_graph: Sequence[Any],
    origins: GraphOrigins,
) -> CompiledCall:
    """Lower the graph with Inductor, and compile its buffers as one bundle."""
    graph = GraphLowering(
        module, example_inputs=inputs_of_graph, shape_env=mode.shape_env, graph_id=0
    )
    with V.set_graph_handler(graph), V.set_fake_mode(mode), V.set_extern_kernel_nodes([]):
        try:
            graph.run(*inputs_of_graph)
        except LoweringException as error:
            raise UnsupportedError(f"{arguments.name}: {error}") from error
        graph.graph_outputs = [_reinterpreted(output) for output in graph.graph_outputs]
        values = zip(graph.graph_input_names, inputs_of_graph, strict=True)
        inputs = [name for name, value in values if isinstance(value, torch.Tensor)]
        known = {
            name: replace(tensor, name=name)
            for name, tensor in zip(inputs, arguments.tensors, strict=True)
        }
        _freeze_strides(graph, module)
        buffers = _computed_buffers(graph)
        _check_strides(graph, module)
        outputs, results = _outputs(graph, inputs)
        examples = pytree.tree_leaves(_output_example(module))
        outputs = [_with_strides(*pair) for pair in zip(outputs, examples, strict=True)]
        if arguments.written:
            # The op returns the tensors that it writes; no new memory is needed.
            outputs, results = list(arguments.written), []
        name = f"sdsc_{arguments.name.replace('::', '_')}"
        aliased = frozenset(inputs[position] for position in arguments.partially_aliased)
        with tracking(origins):
            bundle = compile_bundle(BundleRequest(name, buffers, known, results, aliased), graph)
    example = _output_example(module)
    if arguments.written:
        example = tuple(arguments.written) if len(arguments.written) > 1 else arguments.written[0]
    return CompiledCall(bundle, inputs, outputs, pytree.tree_structure(example))


def _reinterpreted(output: Any) -> Any:
    """Return a view that Inductor has not realized as a reinterpreted buffer."""
    if not isinstance(output, ir.TensorBox):
        return output
    storage, layout = ir.as_storage_and_layout(output, freeze=True)
    return ir.ReinterpretView(data=storage, layout=layout)


def _output_example(module: torch.fx.GraphModule) -> Any:
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    return pytree.tree_map_only(torch.fx.Node, lambda node: node.meta["val"], output.args[0])


def _freeze_strides(graph: GraphLowering, module: torch.fx.GraphModule) -> None:
    """Give results the strides that they have in PyTorch: for most ops those of the inputs."""
    values = pytree.tree_leaves(_output_example(module))
    for output, value in zip(graph.graph_outputs, values, strict=False):
        data = output.data if isinstance(output, ir.StorageBox) else None
        if isinstance(data, ir.ComputedBuffer) and isinstance(data.layout, ir.FlexibleLayout):
            data.freeze_layout_with_exact_strides(list(value.stride()))


def _check_strides(graph: GraphLowering, module: torch.fx.GraphModule) -> None:
    """Raise UnsupportedError for a result that does not have PyTorch's strides."""
    values = pytree.tree_leaves(_output_example(module))
    for output, value in zip(graph.graph_outputs, values, strict=False):
        if not isinstance(output, ir.StorageBox) or not isinstance(value, torch.Tensor):
            continue
        strides = list(map(concrete, output.get_stride()))
        dims = zip(value.shape, strides, value.stride(), strict=True)
        if any(size > 1 and stride != expected for size, stride, expected in dims):
            raise UnsupportedError(f"a result with strides {tuple(value.stride())}")


def _computed_buffers(graph: GraphLowering) -> list[ir.ComputedBuffer]:
    """Return the buffers that loops compute; raise UnsupportedError for other operations."""
    buffers: list[ir.ComputedBuffer] = []
    for operation in graph.operations:
        if isinstance(operation, ir.ConcatKernel):
            continue
        if not isinstance(operation, ir.ComputedBuffer):
            raise UnsupportedError(
                f"Inductor's {type(operation).__name__} in the graph of an eager op"
            )
        operation.decide_layout()
        buffers.append(operation)
    return buffers


def _with_strides(output: Output, value: Any) -> Output:
    """Return the output with PyTorch's strides in dims of size 1 too, where any would do."""
    if not isinstance(output, View):
        return output
    dims = zip(output.size, output.stride, value.stride(), strict=True)
    stride = tuple(known if size == 1 else step for size, step, known in dims)
    return replace(output, stride=stride)


def _outputs(graph: GraphLowering, inputs: Sequence[str]) -> tuple[list[Output], list[str]]:
    """Return the outputs of the call, and the names of the new buffers that hold them."""
    outputs: list[Output] = []
    buffers: list[str] = []
    for output in graph.graph_outputs:
        if isinstance(output, ir.NoneAsConstantBuffer):
            outputs.append(None)
            continue
        if isinstance(output, ir.ShapeAsConstantBuffer):
            outputs.append(Integer(concrete(output.expr)))
            continue
        name = output.get_name()
        if isinstance(output, ir.ReinterpretView):
            layout = output.get_layout()
            size = tuple(map(concrete, layout.size))
            outputs.append(
                View(name, size, tuple(map(concrete, layout.stride)), concrete(layout.offset))
            )
        elif isinstance(output, ir.StorageBox):
            outputs.append(inputs.index(name) if name in inputs else name)
        else:
            raise UnsupportedError(f"an output that is a {type(output).__name__}")
        if name not in inputs:
            buffers.append(name)
    return outputs, buffers
