"""Kernels for ranges of sizes: programs that are compiled once, and a bundle for each size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from sympy import Symbol

from torch_spyre import _C
from torch_spyre._inductor.dynamic_sizes import DynamicSpecs
from torch_spyre._inductor.kernel_parameters import (
    KernelParameter,
    kernel_parameters,
    num_arguments,
    parameter_name,
)
from torch_spyre._inductor.op_table import category_of
from torch_spyre._inductor.runtime.programs import dynamic_program
from torch_spyre._inductor.runtime.runner import ScratchBuffers, bind_array, program_op
from torch_spyre._inductor.size_fitting import evaluator
from torch_spyre.backend.execution import has_conflicts, timing_of
from torch_spyre.backend.loaded_kernels import LoadedKernel, add_kernel, keep_kernels
from torch_spyre.backend.program.program import Program
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.timing.launch_cost import launch_cost


@dataclass(frozen=True)
class _Array:
    """An array of a program; its size in bytes is a function of the launch's sizes."""

    parameter: KernelParameter
    num_bytes: Callable[..., int]

    def at(self, sizes: Sequence[int]) -> KernelParameter:
        parameter = self.parameter
        return KernelParameter(parameter.name, self.num_bytes(*sizes), parameter.argument_index)


class _Stage:
    """A program for all sizes in its ranges."""

    def __init__(self, name: str, dynamic: DynamicSpecs) -> None:
        self.program: Program = dynamic_program(name, dynamic)
        self.ops = [spec.op for spec in dynamic.specs]
        self.origins = [program_op(spec) for spec in dynamic.specs]
        parameters = {entry.name: entry for entry in kernel_parameters(dynamic.largest)}
        sizes: dict[str, Callable[..., int]] = {}
        for arg in (arg for spec in dynamic.specs for arg in spec.args if not arg.in_scratchpad):
            sizes[parameter_name(arg)] = _bytes_of(arg.device_size, dynamic.symbols)
        self.arrays = [_Array(parameter, sizes[name]) for name, parameter in parameters.items()]

    def at(
        self, sizes: Sequence[int], scratch: ScratchBuffers, *, may_alias: bool
    ) -> "tuple[LoadedKernel, _C.BundleStage]":
        """Return the program for these sizes as a stage of a bundle, and its record."""
        parameters = [array.at(sizes) for array in self.arrays]
        array_bytes = [parameter.num_bytes for parameter in parameters]
        timing = timing_of(self.program, array_bytes, sizes)
        kernel = add_kernel(self.program, array_bytes, sizes, self.ops)
        # Cores always run one after the other where arrays alias, unless that is found unnecessary.
        is_ordered_if_aliased = True
        if may_alias:
            all_in_one_memory = [0] * len(parameters)
            is_ordered_if_aliased = has_conflicts(
                self.program, array_bytes, all_in_one_memory, scalars=sizes
            )
        return kernel, _C.BundleStage(
            program_file=self.program.file,
            arrays=[bind_array(parameter, scratch) for parameter in parameters],
            cost=launch_cost(timing, self.ops, category_of(self.ops), kernel=kernel.number),
            is_ordered=has_conflicts(self.program, array_bytes, scalars=sizes),
            is_ordered_if_aliased=is_ordered_if_aliased,
            ops=self.origins,
            scalars=list(sizes),
        )


def _bytes_of(device_size: Sequence[object], symbols: Sequence[Symbol]) -> Callable[..., int]:
    dims = [evaluator(size, symbols) for size in device_size[:-1]]
    return lambda *sizes: prod(dim(*sizes) for dim in dims) * BYTES_IN_STICK


class DynamicKernel:
    """The programs of a bundle for all sizes in some ranges."""

    def __init__(self, name: str, stages: Sequence[DynamicSpecs]) -> None:
        self.name = name
        self.stages = [_Stage(f"{name}_{number}", specs) for number, specs in enumerate(stages)]
        self._num_arguments = num_arguments([specs.largest for specs in stages])
        # The bundle whose loaded programs the others share.
        self._first: _C.Bundle | None = None

    def at(self, sizes: Sequence[int], *, may_alias: bool = True) -> "_C.Bundle":
        """Return the bundle for these values of the size symbols.

        `may_alias` states whether two arguments of a call may have one allocation.
        """
        scratch = ScratchBuffers()
        stages = [stage.at(sizes, scratch, may_alias=may_alias) for stage in self.stages]
        bundle = _C.Bundle(
            self.name,
            [stage for _, stage in stages],
            scratch.sizes,
            self._num_arguments,
            like=self._first,
        )
        self._first = self._first or bundle
        keep_kernels(bundle, [kernel for kernel, _ in stages])
        return bundle
