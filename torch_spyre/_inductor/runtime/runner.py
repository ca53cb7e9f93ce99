"""The kernel of a bundle, which launches the bundle's programs on the card."""

from collections.abc import Callable, Sequence
from copy import copy

from torch_spyre import _C
from torch_spyre._inductor.kernel_parameters import (
    KernelParameter,
    kernel_parameters,
    num_arguments,
)
from torch_spyre._inductor.multi_loop.registry import find_multi_loop_op
from torch_spyre._inductor.op_spec import IndirectAccess, OpSpec
from torch_spyre._inductor.op_table import category_of
from torch_spyre._inductor.origin import Origin
from torch_spyre._inductor.provenance import SpecNodes
from torch_spyre._inductor.runtime.programs import program_for
from torch_spyre.backend.execution import has_conflicts, timing_of
from torch_spyre.backend.loaded_kernels import LoadedKernel, add_kernel, keep_kernels
from torch_spyre.backend.program.program import Program
from torch_spyre.timing.launch_cost import launch_cost

Run = Callable[..., None]


class Runner:
    """Loads one program per stage. `run` accepts the bundle's arguments in order, outputs too."""

    def __init__(self, name: str, stages: Sequence[Sequence[OpSpec]]) -> None:
        self.name = name
        scratch = ScratchBuffers()
        loaded = [
            _load_stage(f"{name}_{position}", specs, scratch)
            for position, specs in enumerate(stages)
        ]
        programs = [stage for _, stage in loaded]
        # The modelled time of a call.
        self.time_ps = sum(stage.cost.time_ps for stage in programs)
        self.bundle = _C.Bundle(name, programs, scratch.sizes, num_arguments(stages))
        self._kernels = [kernel for kernel, _ in loaded]
        keep_kernels(self.bundle, self._kernels)
        # May be replaced by a function that also records the launch.
        self.run: Run = self.bundle.run
        self._wrapper: Callable[[Run], Run] | None = None

    def wrap(self, wrapper: Callable[[Run], Run]) -> None:
        """Let each launch go through the function that `wrapper` returns for the launch."""
        self._wrapper = wrapper
        self.run = wrapper(self.bundle.run)

    def for_nodes(self, nodes: Sequence[Sequence[SpecNodes]]) -> "Runner":
        """Return the same kernel for ops that come from other nodes of the graph."""
        other = copy(self)
        other.bundle = self.bundle.for_nodes(nodes)
        keep_kernels(other.bundle, self._kernels)
        other.run = other.bundle.run
        if self._wrapper is not None:
            other.run = self._wrapper(other.bundle.run)
        return other


class ScratchBuffers:
    """Buffers that pass values between stages, with the largest size that any stage needs."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    @property
    def sizes(self) -> list[int]:
        return list(self._sizes.values())

    def index_of(self, parameter: KernelParameter) -> int:
        """Return the index of the parameter's buffer, which is added on first use."""
        known = self._sizes.get(parameter.name, 0)
        self._sizes[parameter.name] = max(known, parameter.num_bytes)
        return list(self._sizes).index(parameter.name)


def _load_stage(
    name: str, specs: Sequence[OpSpec], scratch: ScratchBuffers
) -> "tuple[LoadedKernel, _C.BundleStage]":
    parameters = kernel_parameters(specs)
    return bind_program(
        program_for(name, specs),
        parameters,
        [spec.op for spec in specs],
        scratch,
        [program_op(spec) for spec in specs],
    )


def bind_program(
    program: Program,
    parameters: Sequence[KernelParameter],
    ops: Sequence[str],
    scratch: ScratchBuffers,
    origins: Sequence["_C.ProgramOp"] = (),
) -> "tuple[LoadedKernel, _C.BundleStage]":
    """Return a stage that runs a program on arguments of the bundle and on scratch buffers.

    The record of the loaded kernel comes first. `origins` describe the ops for messages.
    """
    array_bytes = [parameter.num_bytes for parameter in parameters]
    timing = timing_of(program, array_bytes, [])
    all_in_one_memory = [0] * len(parameters)
    kernel = add_kernel(program, array_bytes, (), ops)
    return kernel, _C.BundleStage(
        program_file=program.file,
        arrays=[bind_array(parameter, scratch) for parameter in parameters],
        cost=launch_cost(timing, ops, category_of(ops), kernel=kernel.number),
        is_ordered=has_conflicts(program, array_bytes),
        is_ordered_if_aliased=has_conflicts(program, array_bytes, all_in_one_memory),
        ops=list(origins),
    )


def program_op(spec: OpSpec) -> "_C.ProgramOp":
    """Return what messages say of an op: its nodes, and how its index tensors are addressed."""
    origin, index_origin = spec.origin or Origin(), spec.index_origin or Origin()
    return _C.ProgramOp(
        node=origin.node,
        op=origin.op,
        index_node=index_origin.node,
        index_op=index_origin.op,
        index_strides=_index_strides(spec),
    )


def _index_strides(spec: OpSpec) -> dict[int, list[int]]:
    """Return the host strides of the index tensor that selects along a dim, for each such dim."""
    index_tensors = {arg.name: arg for arg in spec.index_args}
    strides: dict[int, list[int]] = {}
    for arg in spec.args:
        for dim, coordinate in enumerate(arg.device_coordinates):
            if isinstance(coordinate, IndirectAccess):
                stride_map = index_tensors[coordinate.tensor].stride_map or ()
                strides[dim] = [max(stride, 0) for stride in stride_map]
    multi_loop = find_multi_loop_op(spec.op)
    if multi_loop is not None:
        strides |= {dim: list(steps) for dim, steps in multi_loop.index_strides(spec).items()}
    return strides


def bind_array(parameter: KernelParameter, scratch: ScratchBuffers) -> "_C.ArrayBinding":
    """Return the argument of the bundle, or the scratch buffer, that a parameter is bound to."""
    if parameter.argument_index is None:
        return _C.ArrayBinding.scratch(scratch.index_of(parameter), parameter.num_bytes)
    return _C.ArrayBinding.argument(parameter.argument_index, parameter.num_bytes)
