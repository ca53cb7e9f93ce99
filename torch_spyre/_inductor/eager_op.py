"""Plans eager calls. The graph of one op uses the same lowerings and passes as any other graph."""

import linecache
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._prims_common.wrappers import _maybe_resize_out
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from torch_spyre import _C, knobs
from torch_spyre._inductor import compile_log
from torch_spyre._inductor.aliasing import check_aliasing, partially_aliased
from torch_spyre._inductor.argument_checks import check_arguments
from torch_spyre._inductor.bundle import Tensor
from torch_spyre._inductor.call_lowering import (
    CallArguments,
    CompiledCall,
    Integer,
    Output,
    layout_of,
    lower_call,
)
from torch_spyre._inductor.context import compiling
from torch_spyre._inductor.driver import load_bundle
from torch_spyre._inductor.eager_graph import Call, build_graph
from torch_spyre._inductor.inputs import describe
from torch_spyre._inductor.native_ops import is_native
from torch_spyre._inductor.origin import Origin
from torch_spyre._inductor.provenance import GraphOrigins
from torch_spyre._inductor.registration import register
from torch_spyre._inductor.runtime.runner import Run
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.diagnostics import report_compiler_error
from torch_spyre.dtypes import RAW_DTYPES
from torch_spyre.errors import CompilerFailure, InvalidBundleError, KnobError, UnsupportedError
from torch_spyre.ops.launch_site import line_of_call
from torch_spyre.pytorch_internals.dispatch_keys import default_dispatch_keys
from torch_spyre.pytorch_internals.fake_tensor_logging import quiet_meta_functions

# Exceptions with which PyTorch rejects a call. Any other exception is a bug of the compiler.
_REJECTIONS = (RuntimeError, ValueError, TypeError, IndexError)


class EagerPlan:
    """Allocates the outputs of calls with equal metadata, and runs their bundle."""

    def __init__(self, call: CompiledCall) -> None:
        has_work = any(call.bundle.stages)
        self._set_up(call, load_bundle(call.bundle).run if has_work else None, call.allocated)

    @classmethod
    def with_kernel(
        cls, call: CompiledCall, run: Run | None, allocated: Sequence[Tensor]
    ) -> "EagerPlan":
        """Return the plan that runs this kernel, and allocates its results with these sizes."""
        plan = cls.__new__(cls)
        plan._set_up(call, run, allocated)
        return plan

    def _set_up(self, call: CompiledCall, run: Run | None, allocated: Sequence[Tensor]) -> None:
        self.run = run
        self.outputs, self.structure = call.outputs, call.structure
        self.allocations = [
            (tensor.size, tensor.stride, tensor.dtype, layout_of(tensor)) for tensor in allocated
        ]
        names = (*call.inputs, *(tensor.name for tensor in allocated))
        self.positions = {name: position for position, name in enumerate(names)}
        self.arguments = [self.positions[name] for name in call.bundle.arguments]
        self.is_single = call.structure.is_leaf()

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        tensors = card_tensors(args, kwargs)
        device = tensors[0].device if tensors else _requested_device(kwargs)
        for size, stride, dtype, layout in self.allocations:
            tensors.append(_C.spyre_empty_with_layout(size, stride, dtype, layout, device))
        if self.run is not None:
            self.run(*[tensors[position] for position in self.arguments])
        results = [self._output(output, tensors) for output in self.outputs]
        return results[0] if self.is_single else pytree.tree_unflatten(results, self.structure)

    def _output(
        self, output: "Output", tensors: Sequence[torch.Tensor]
    ) -> torch.Tensor | int | None:
        if output is None:
            return None
        if isinstance(output, Integer):
            return output.value
        if isinstance(output, int):
            return tensors[output]
        if isinstance(output, str):
            return tensors[self.positions[output]]
        base = tensors[self.positions[output.buffer]]
        return _C.reinterpret_tensor(base, output.size, output.stride, output.offset)


class ResizingPlan:
    """Resizes the targets of out= to the sizes of the results, and calls the op again."""

    def __init__(self, overload: torch._ops.OpOverload, results: Sequence[torch.Tensor]) -> None:
        self.overload = overload
        self.shapes = [(tuple(result.shape), tuple(result.stride())) for result in results]

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        targets = _written_arguments(self.overload, args, kwargs)
        for target, (size, stride) in zip(targets, self.shapes, strict=True):
            # A target that has the size already retains its strides.
            if tuple(target.shape) == size:
                continue
            _maybe_resize_out(target, size)  # warns as PyTorch does
            outermost_first = sorted(range(len(size)), key=lambda dim: -stride[dim])
            # Resized in the order of the strides, so that the device layout follows them. New
            # results of an op are dense.
            target.resize_([size[dim] for dim in outermost_first])
            target.as_strided_(size, stride)
        return self.overload(*args, **kwargs)


def _is_resized(
    overload: torch._ops.OpOverload,
    written: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
) -> bool:
    """Return whether a target of out= does not have the size of its result."""
    is_out = any(argument.is_out for argument in overload._schema.arguments)
    if not is_out or len(results) != len(written):
        return False
    return any(
        target.shape != result.shape for target, result in zip(written, results, strict=True)
    )


def card_tensors(args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors in the order of the arguments, also of lists; move host scalars."""
    tensors: list[torch.Tensor] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, list | tuple):
            tensors.extend(entry for entry in value if isinstance(entry, torch.Tensor))
    if all(map(_is_on_card, tensors)):
        return tensors
    device = next(tensor.device for tensor in tensors if _is_on_card(tensor))
    return [
        tensor if _is_on_card(tensor) else move_host_scalar(tensor, device) for tensor in tensors
    ]


def move_host_scalar(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a 0-d CPU tensor as a tensor on the card, which PyTorch allows in most ops."""
    # Its dtype rarely decides the dtype of a result, and the card has no float64.
    dtype = torch.float32 if tensor.dtype is torch.float64 else tensor.dtype
    return tensor.to(device, dtype)


def _is_on_card(tensor: torch.Tensor) -> bool:
    # Faster than comparing device names, and called for every tensor of every call.
    return tensor.is_spyre  # type: ignore[attr-defined,no-any-return]  # added on import


def plan_eager_op(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> "EagerPlan | ResizingPlan":
    """Compile one call. Raise UnsupportedError if the card does not support it."""
    register()
    call = Call(overload, args, kwargs)
    written = _written_arguments(overload, args, kwargs)
    _check_devices(call.tensors, written)
    _check_dtypes(call.tensors)
    _check_index(overload, args, kwargs)
    tensors = card_tensors(args, kwargs)
    check_aliasing(overload._schema.name.removeprefix("aten::"), written, tensors)
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with default_dispatch_keys(), torch.no_grad(), compiling():
        fakes = [mode.from_tensor(tensor, static_shapes=True) for tensor in tensors]
        with quiet_meta_functions(), _rejections_as_unsupported(), mode:
            results = check_arguments(overload, written, *call.arguments(fakes))
        _check_memory(results, tensors[0].device if tensors else _requested_device(kwargs))
        with quiet_meta_functions(), _rejections_as_unsupported(), mode:
            if _is_resized(overload, written, results):
                return ResizingPlan(overload, results)
            module = build_graph(call, fakes, results, has_writes=bool(written))
        _check_native(module)
        arguments = CallArguments(
            overload._schema.name,
            [_described(tensor) for tensor in tensors],
            [_position(tensors, target) for target in written],
            partially_aliased(tensors),
        )
        try:
            return EagerPlan(lower_call(arguments, module, mode, fakes, _origins_of(overload)))
        except (UnsupportedError, KnobError, torch.OutOfMemoryError):
            raise
        except InvalidBundleError as error:
            report_compiler_error(error)
            raise
        except Exception as error:
            failure = CompilerFailure(str(overload), error)
            failure.__cause__ = error
            report_compiler_error(failure)
            raise failure from error


@contextmanager
def _rejections_as_unsupported() -> Iterator[None]:
    """Raise UnsupportedError for PyTorch's rejections: the CPU kernel raises the usual message."""
    try:
        yield
    except UnsupportedError:
        raise
    except _REJECTIONS as error:
        raise UnsupportedError(f"{type(error).__name__} while tracing: {error}") from error


def _requested_device(kwargs: dict[str, Any]) -> torch.device:
    device = kwargs.get("device")
    if device is None or torch.device(device).index is None:
        return torch.device(DEVICE_NAME, _C.current_device())
    return torch.device(device)


def _check_memory(results: Sequence[Any], device: torch.device) -> None:
    """Raise OutOfMemoryError for a result larger than the card: compiling it would take long."""
    tensors = [result for result in results if isinstance(result, torch.Tensor)]
    for tensor in tensors:
        num_bytes = tensor.untyped_storage().nbytes()
        if num_bytes > _C.memory_report(device.index)["total_bytes"]:
            torch.empty(num_bytes, dtype=torch.int8, device=device)  # the allocator raises


def _check_devices(tensors: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> None:
    """Raise UnsupportedError for tensors on the host that are not scalars to be read."""
    host = [tensor for tensor in tensors if not _is_on_card(tensor)]
    if any(tensor.dim() != 0 or tensor.device.type != "cpu" for tensor in host):
        raise UnsupportedError(
            "an op on tensors on the card and tensors on the host, other than 0-d CPU tensors"
        )
    if any(target is tensor for target in written for tensor in host):
        raise UnsupportedError("an op on the card that writes to a tensor on the host")
    promotes_to_float64 = any(tensor.dtype is torch.float64 for tensor in host) and not any(
        tensor.is_floating_point() for tensor in tensors if _is_on_card(tensor)
    )
    if promotes_to_float64:
        raise UnsupportedError("results of dtype float64")


def _check_index(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    """Raise UnsupportedError for an index on the host, which ops with one index do not accept."""
    for position, argument in enumerate(overload._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        if argument.name == "index" and isinstance(value, torch.Tensor) and not _is_on_card(value):
            raise UnsupportedError("an op on the card with an index on the host")


def _check_dtypes(tensors: Sequence[torch.Tensor]) -> None:
    """Raise UnsupportedError for tensors on the card that it only stores.

    This is known before tracing, which fails for views as complex of a tensor of another shape.
    """
    for tensor in tensors:
        if tensor.dtype in RAW_DTYPES and _is_on_card(tensor):
            raise UnsupportedError(f"the card stores {tensor.dtype} and does not compute with it")


def _check_native(module: torch.fx.GraphModule) -> None:
    """Raise UnsupportedError if an op of the graph is not native."""
    for node in module.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        values = [operand.meta.get("val") for operand in node.all_input_nodes]
        values += pytree.tree_leaves(node.meta.get("val"))
        if not is_native(node.target, iter(values)):
            raise UnsupportedError(f"{node.target} on these dtypes")


def compile_for_sizes(call: Call, arguments: CallArguments) -> CompiledCall:
    """Compile a call for tensors of other sizes, which need not exist.

    The call must have been planned before: what depends on memory is not checked again. Raise
    UnsupportedError if the op rejects these sizes.
    """
    mode = FakeTensorMode(shape_env=ShapeEnv())
    overload = call.overload
    with default_dispatch_keys(), torch.no_grad(), compiling():
        with mode:
            fakes = [fake_tensor(tensor) for tensor in arguments.tensors]
        written = [fakes[position] for position in arguments.written]
        with quiet_meta_functions(), _rejections_as_unsupported(), mode:
            results = check_arguments(overload, written, *call.arguments(fakes))
            if _is_resized(overload, written, results):
                raise UnsupportedError("targets of another size")
            module = build_graph(call, fakes, results, has_writes=bool(written))
        _check_native(module)
        return lower_call(arguments, module, mode, fakes, _origins_of(overload))


def compile_with_sizes(
    overload: torch._ops.OpOverload,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    tensors: Sequence[Tensor],
) -> CompiledCall:
    """Compile a call for tensors with this metadata in place of its own."""
    written = [
        _position(card_tensors(args, kwargs), target)
        for target in _written_arguments(overload, args, kwargs)
    ]
    arguments = CallArguments(overload._schema.name, tensors, written)
    return compile_for_sizes(Call(overload, args, kwargs), arguments)


def observed_tensors(args: Sequence[Any], kwargs: dict[str, Any]) -> list[Tensor] | None:
    """Return the metadata of a call's tensors; None if some of them alias partially."""
    tensors = card_tensors(args, kwargs)
    if not tensors or partially_aliased(tensors):
        return None
    return [_described(tensor) for tensor in tensors]


def fake_tensor(tensor: Tensor) -> torch.Tensor:
    """Return a tensor of the current fake mode; it has a storage of its own."""
    end = 1 + sum(
        (size - 1) * stride for size, stride in zip(tensor.size, tensor.stride, strict=True)
    )
    memory = torch.empty(tensor.offset + end, dtype=tensor.dtype, device=DEVICE_NAME)
    return memory.as_strided(tensor.size, tensor.stride, tensor.offset)


def _described(tensor: torch.Tensor) -> Tensor:
    described = describe(tensor)
    assert described is not None
    return described


def _origins_of(overload: torch._ops.OpOverload) -> GraphOrigins:
    return GraphOrigins(default=_origin_of_call(overload))


def _origin_of_call(overload: torch._ops.OpOverload) -> Origin:
    """Return the origin of an eager op: its line only if it is shown, since plans serve all lines.

    Dumps and logs show the line of the first call.
    """
    if knobs.logging.dump is None and not compile_log.needs_lines():
        return Origin(op=str(overload))
    file, line, _ = line_of_call(str(overload))
    code = linecache.getline(file, line).strip()
    return Origin(op=str(overload), file=file, line=line, code=code)


def _position(tensors: Sequence[torch.Tensor], target: torch.Tensor) -> int:
    return next(position for position, tensor in enumerate(tensors) if tensor is target)


def _written_arguments(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    """Return the arguments that the op writes and returns: `self` of in-place ops, `out`."""
    written: list[torch.Tensor] = []
    for position, argument in enumerate(overload._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        if isinstance(value, torch.Tensor):
            written.append(value)
    return written
