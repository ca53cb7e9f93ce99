"""Plans for eager calls: a graph of one op through the same lowering and passes as any other."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.exc import LoweringException
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._prims_common.wrappers import _maybe_resize_out
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from torch_spyre import _C, knobs
from torch_spyre._inductor.aliasing import check_aliasing, partially_aliased
from torch_spyre._inductor.argument_checks import check_arguments
from torch_spyre._inductor.bundle import Bundle, Tensor, loop_text
from torch_spyre._inductor.context import compiling
from torch_spyre._inductor.eager_graph import Call, graph_of
from torch_spyre._inductor.inputs import describe
from torch_spyre._inductor.layouts.sticks import default_layout
from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowered import bundle_of
from torch_spyre._inductor.native_ops import is_native
from torch_spyre._inductor.pipeline import run_passes
from torch_spyre._inductor.registration import register
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import CompilerFailure, KnobError, UnsupportedError

_TRACING_KEYS = (
    torch._C.DispatchKey.Functionalize,
    torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode,
    torch._C.DispatchKey.FuncTorchDynamicLayerBackMode,
    torch._C.DispatchKey.Python,
    torch._C.DispatchKey.PythonTLSSnapshot,
)

# What PyTorch raises for calls that it does not take. Anything else is a defect, not a refusal.
_REFUSALS = (RuntimeError, ValueError, TypeError, IndexError)


@dataclass(frozen=True)
class View:
    """A result that is a view of a buffer."""

    buffer: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


# An argument by its place, a buffer by its name, a view of one, or nothing.
Output = int | str | View | None


class EagerPlan:
    """What one kind of call does: makes the outputs, runs the bundle."""

    def __init__(
        self,
        bundle: Bundle,
        inputs: Sequence[str],
        outputs: Sequence["Output"],
        structure: Any,
    ) -> None:
        self.run = self._runner(bundle) if any(bundle.stages) else None
        self.outputs, self.structure = outputs, structure
        self.made = [
            (tensor.size, tensor.stride, tensor.dtype, _layout(tensor))
            for name, tensor in bundle.tensors.items()
            if name in bundle.results and name not in inputs
        ]
        made = [name for name in bundle.tensors if name in bundle.results and name not in inputs]
        places = {name: place for place, name in enumerate((*inputs, *made))}
        self.arguments = [places[name] for name in bundle.arguments]
        self.places = places
        self.single = structure.is_leaf()

    def _runner(self, bundle: Bundle) -> Callable[..., None]:
        loops = None if knobs.logging.dump is None else loop_text(bundle)
        return Runner(bundle.name, bundle.stages, loops).run

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        tensors = card_tensors(args, kwargs)
        device = tensors[0].device if tensors else _wanted_device(kwargs)
        for size, stride, dtype, layout in self.made:
            tensors.append(_C.spyre_empty_with_layout(size, stride, dtype, layout, device))
        if self.run is not None:
            self.run(*[tensors[place] for place in self.arguments])
        found = [self._output(each, tensors) for each in self.outputs]
        return found[0] if self.single else pytree.tree_unflatten(found, self.structure)

    def _output(self, output: "Output", tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
        if output is None:
            return None
        if isinstance(output, int):
            return tensors[output]
        if isinstance(output, str):
            return tensors[self.places[output]]
        base = tensors[self.places[output.buffer]]
        return _C.reinterpret_tensor(base, output.size, output.stride, output.offset)


class ResizingPlan:
    """Gives the targets of out= the sizes of the results; then it is another call."""

    def __init__(self, overload: torch._ops.OpOverload, results: Sequence[torch.Tensor]) -> None:
        self.overload = overload
        self.shapes = [(tuple(each.shape), tuple(each.stride())) for each in results]

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        targets = _written_arguments(self.overload, args, kwargs)
        for target, (size, stride) in zip(targets, self.shapes, strict=True):
            # One that has the size already keeps its strides.
            if tuple(target.shape) == size:
                continue
            _maybe_resize_out(target, size)  # warns as PyTorch does
            outermost_first = sorted(range(len(size)), key=lambda dim: -stride[dim])
            # So that the layout is that of the strides; they are dense in an op's new results.
            target.resize_([size[dim] for dim in outermost_first])
            target.as_strided_(size, stride)
        return self.overload(*args, **kwargs)


def _is_resized(
    overload: torch._ops.OpOverload,
    written: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
) -> bool:
    is_out = any(argument.is_out for argument in overload._schema.arguments)
    if not is_out or len(results) != len(written):
        return False
    return any(one.shape != other.shape for one, other in zip(written, results, strict=True))


def _layout(tensor: Tensor) -> _C.SpyreTensorLayout:
    return tensor.layout or default_layout(tensor.size, tensor.stride, tensor.dtype)


def card_tensors(args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors in the order of the arguments, also in lists; numbers on the host are moved."""
    found: list[torch.Tensor] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found.extend(each for each in value if isinstance(each, torch.Tensor))
    if all(map(_on_card, found)):
        return found
    device = next(tensor.device for tensor in found if _on_card(tensor))
    return [tensor if _on_card(tensor) else moved_number(tensor, device) for tensor in found]


def moved_number(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A number in a tensor on the host is as good as one on the card."""
    # Its type hardly ever decides the type of a result, and the card has no float64.
    dtype = torch.float32 if tensor.dtype is torch.float64 else tensor.dtype
    return tensor.to(device, dtype)


def _on_card(tensor: torch.Tensor) -> bool:
    # Quicker than comparing names, and asked for every tensor of every call.
    return tensor.is_spyre  # type: ignore[attr-defined,no-any-return]  # there since our start


def plan_eager_op(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> "EagerPlan | ResizingPlan":
    """Compiles one call. Raises UnsupportedError for what the card cannot do."""
    register()
    call = Call(overload, args, kwargs)
    written = _written_arguments(overload, args, kwargs)
    _check_devices(call.tensors, written)
    tensors = card_tensors(args, kwargs)
    check_aliasing(written, tensors)
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with as_if_called_by_the_user(), torch.no_grad(), compiling():
        fakes = [mode.from_tensor(tensor, static_shapes=True) for tensor in tensors]
        with _quiet_meta_functions(), _refusals_unsupported(), mode:
            results = check_arguments(overload, written, *call.arguments(fakes))
            if _is_resized(overload, written, results):
                return ResizingPlan(overload, results)
            module = graph_of(call, fakes, results, writes=bool(written))
        _check_native(module)
        try:
            return _lowered(overload, module, mode, fakes, tensors, written)
        except (UnsupportedError, KnobError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise CompilerFailure(str(overload), error) from error


@contextmanager
def _quiet_meta_functions() -> Iterator[None]:
    """What is wrong with a call is raised; PyTorch would log it as an error as well."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = disabled


def as_if_called_by_the_user() -> Any:
    """Dispatch modes call kernels with keys excluded that tracing needs."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in _TRACING_KEYS:
        excluded = excluded.remove(key)
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)


@contextmanager
def _refusals_unsupported() -> Iterator[None]:
    """What PyTorch refuses falls back too: the CPU's kernel has the words that users know."""
    try:
        yield
    except UnsupportedError:
        raise
    except _REFUSALS as error:
        raise UnsupportedError(f"{type(error).__name__} while tracing: {error}") from error


def _wanted_device(kwargs: dict[str, Any]) -> torch.device:
    device = kwargs.get("device")
    if device is None or torch.device(device).index is None:
        return torch.device(DEVICE_NAME, _C.current_device())
    return torch.device(device)


def _check_devices(tensors: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> None:
    host = [tensor for tensor in tensors if not _on_card(tensor)]
    if any(tensor.dim() != 0 or tensor.device.type != "cpu" for tensor in host):
        raise UnsupportedError("tensors on the host and on the card in one op")
    if any(each is tensor for each in written for tensor in host):
        raise UnsupportedError("writing to a tensor on the host")
    decides = any(tensor.dtype is torch.float64 for tensor in host) and not any(
        tensor.is_floating_point() for tensor in tensors if _on_card(tensor)
    )
    if decides:
        raise UnsupportedError("results of type float64")


def _check_native(module: torch.fx.GraphModule) -> None:
    for node in module.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        values = [each.meta.get("val") for each in node.all_input_nodes]
        values += pytree.tree_leaves(node.meta.get("val"))
        if not is_native(node.target, iter(values)):
            raise UnsupportedError(f"{node.target} on these types")


def _lowered(
    overload: torch._ops.OpOverload,
    module: torch.fx.GraphModule,
    mode: FakeTensorMode,
    fakes: Sequence[Any],
    tensors: Sequence[torch.Tensor],
    written: Sequence[torch.Tensor],
) -> EagerPlan:
    graph = GraphLowering(module, example_inputs=fakes, shape_env=mode.shape_env, graph_id=0)
    with V.set_graph_handler(graph), V.set_fake_mode(mode), V.set_extern_kernel_nodes([]):
        try:
            graph.run(*fakes)
        except LoweringException as error:
            raise UnsupportedError(f"{overload}: {error}") from error
        graph.graph_outputs = [_in_memory(output) for output in graph.graph_outputs]
        inputs = list(graph.graph_input_names)
        known: dict[str, Tensor] = {}
        for name, tensor in zip(inputs, tensors, strict=True):
            described = describe(tensor)
            assert described is not None
            known[name] = replace(described, name=name)
        _keep_strides(graph, module)
        buffers = _buffers(graph)
        _check_strides(graph, module)
        outputs, results = _outputs(graph, inputs)
        if written:
            # What an op changes is what it returns; its values need no memory of their own.
            outputs, results = [_position(tensors, each) for each in written], []
        name = f"sdsc_{overload._schema.name.replace('::', '_')}"
        bundle = bundle_of(name, buffers, known, results, graph)
        shared = partially_aliased(tensors)
        bundle = replace(bundle, partially_aliased=frozenset(inputs[place] for place in shared))
        bundle = run_passes(bundle)
    example = _output_example(module)
    if written:
        example = tuple(written) if len(written) > 1 else written[0]
    structure = pytree.tree_structure(example)
    return EagerPlan(bundle, inputs, outputs, structure)


def _in_memory(output: Any) -> Any:
    """A view that Inductor left as one, as a view of memory."""
    if not isinstance(output, ir.TensorBox):
        return output
    storage, layout = ir.as_storage_and_layout(output, freeze=True)
    return ir.ReinterpretView(data=storage, layout=layout)


def _position(tensors: Sequence[torch.Tensor], wanted: torch.Tensor) -> int:
    return next(place for place, each in enumerate(tensors) if each is wanted)


def _output_example(module: torch.fx.GraphModule) -> Any:
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    return pytree.tree_map_only(torch.fx.Node, lambda node: node.meta["val"], output.args[0])


def _keep_strides(graph: GraphLowering, module: torch.fx.GraphModule) -> None:
    """Results have the strides that PyTorch gives them: those of their inputs, for most ops."""
    values = pytree.tree_leaves(_output_example(module))
    for output, value in zip(graph.graph_outputs, values, strict=False):
        data = output.data if isinstance(output, ir.StorageBox) else None
        if isinstance(data, ir.ComputedBuffer) and isinstance(data.layout, ir.FlexibleLayout):
            data.freeze_layout_with_exact_strides(list(value.stride()))


def _check_strides(graph: GraphLowering, module: torch.fx.GraphModule) -> None:
    """Where a result could not be given PyTorch's strides, somebody else must make it."""
    values = pytree.tree_leaves(_output_example(module))
    for output, value in zip(graph.graph_outputs, values, strict=False):
        if not isinstance(output, ir.StorageBox) or not isinstance(value, torch.Tensor):
            continue
        found = [concrete(each) for each in output.get_stride()]
        wanted = [step for size, step in zip(value.shape, value.stride(), strict=True) if size > 1]
        if [step for size, step in zip(value.shape, found, strict=True) if size > 1] != wanted:
            raise UnsupportedError(f"a result with strides {tuple(value.stride())}")


def _buffers(graph: GraphLowering) -> list[ir.ComputedBuffer]:
    found: list[ir.ComputedBuffer] = []
    for operation in graph.operations:
        if isinstance(operation, ir.ConcatKernel):
            continue
        if not isinstance(operation, ir.ComputedBuffer):
            raise UnsupportedError(f"{type(operation).__name__} in a graph of one op")
        operation.decide_layout()
        found.append(operation)
    return found


def _outputs(graph: GraphLowering, inputs: Sequence[str]) -> tuple[list[Output], list[str]]:
    """What the call returns, and the buffers that hold it."""
    outputs: list[Output] = []
    buffers: list[str] = []
    for output in graph.graph_outputs:
        if isinstance(output, ir.NoneAsConstantBuffer):
            outputs.append(None)
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


def _written_arguments(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    """The arguments that the op changes and returns: `self` of in-place ops, `out`."""
    written: list[torch.Tensor] = []
    for position, argument in enumerate(overload._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        if isinstance(value, torch.Tensor):
            written.append(value)
    return written
