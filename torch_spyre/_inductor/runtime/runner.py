"""The kernel of a bundle, which launches the bundle's programs on the card."""

from collections.abc import Callable, Sequence

from torch_spyre import _C
from torch_spyre._inductor.kernel_parameters import (
    KernelParameter,
    kernel_parameters,
    num_arguments,
)
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import category_of
from torch_spyre._inductor.runtime.programs import program_for
from torch_spyre.backend.execution import has_conflicts, timing_of
from torch_spyre.backend.loaded_kernels import LoadedKernel, add_kernel, keep_kernels
from torch_spyre.backend.program.program import Program
from torch_spyre.timing.launch_cost import launch_cost


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
        self.bundle = _C.Bundle(name, programs, scratch.sizes, num_arguments(stages))
        keep_kernels(self.bundle, [kernel for kernel, _ in loaded])
        # May be replaced by a function that also records or verifies the launch.
        self.run: Callable[..., None] = self.bundle.run


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
    return bind_program(program_for(name, specs), parameters, [spec.op for spec in specs], scratch)


def bind_program(
    program: Program,
    parameters: Sequence[KernelParameter],
    ops: Sequence[str],
    scratch: ScratchBuffers,
) -> "tuple[LoadedKernel, _C.BundleStage]":
    """Return a stage that runs a program on arguments of the bundle and on scratch buffers.

    The record of the loaded kernel comes first.
    """
    array_bytes = [parameter.num_bytes for parameter in parameters]
    timing = timing_of(program, array_bytes, [])
    all_in_one_memory = [0] * len(parameters)
    kernel = add_kernel(program, array_bytes, (), ops)
    return kernel, _C.BundleStage(
        program_file=program.file,
        arrays=[_bind_array(parameter, scratch) for parameter in parameters],
        cost=launch_cost(timing, ops, category_of(ops), kernel=kernel.number),
        is_ordered=has_conflicts(program, array_bytes),
        is_ordered_if_aliased=has_conflicts(program, array_bytes, all_in_one_memory),
    )


def _bind_array(parameter: KernelParameter, scratch: ScratchBuffers) -> "_C.ArrayBinding":
    if parameter.argument_index is None:
        return _C.ArrayBinding.scratch(scratch.index_of(parameter), parameter.num_bytes)
    return _C.ArrayBinding.argument(parameter.argument_index, parameter.num_bytes)
