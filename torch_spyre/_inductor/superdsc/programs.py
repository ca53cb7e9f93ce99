"""Splits the ops of a bundle into programs.

The format lists ops without program boundaries. Scratchpad contents do not outlive a program, so a
program may end wherever no scratchpad tensor is live; splitting more finely than the writer of the
bundle did gives the same results.
"""

from collections.abc import Mapping, Sequence
from math import lcm

from sympy import Symbol

from torch_spyre._inductor.kernel_parameters import parameter_name
from torch_spyre._inductor.op_spec import AnySpec, OpSpec, Spec, flat
from torch_spyre._inductor.superdsc.accesses import tensor_accesses
from torch_spyre._inductor.superdsc.coordinates import canonical_view


def split_into_programs(specs: Sequence[AnySpec]) -> list[list[AnySpec]]:
    """Return the specs, split wherever no scratchpad tensor is live."""
    programs: list[list[AnySpec]] = []
    end = -1
    for position, (spec, last) in enumerate(zip(specs, _last_reads(specs), strict=True)):
        if position > end:
            programs.append([])
        programs[-1].append(spec)
        end = max(end, last)
    return programs


def _last_reads(specs: Sequence[Spec]) -> list[int]:
    """Return the position of the last reader of each spec's scratchpad outputs, or its own."""
    last_reads = list(range(len(specs)))
    readers: dict[str | None, int] = {}
    for position in reversed(range(len(specs))):
        args = [
            arg
            for op in flat([specs[position]])
            if isinstance(op, OpSpec)
            for arg in op.args
            if arg.in_scratchpad
        ]
        for arg in args:
            if not arg.is_input:
                last_reads[position] = max(last_reads[position], readers.pop(arg.name, position))
        for arg in args:
            if arg.is_input:
                readers.setdefault(arg.name, position)
    return last_reads


def can_be_one_kernel(specs: Sequence[OpSpec]) -> bool:
    """Return whether ops agree on the sizes and splits of symbols, and on scratchpad tensors.

    Without the names of symbols in the file, ops that were one program need not agree. No op may
    read what another one wrote to memory either: cores reach the ops at different times.
    """
    written: set[str] = set()
    space: dict[Symbol, tuple[int, int]] = {}
    views: dict[str | None, object] = {}
    for spec in specs:
        for symbol, (size, split) in spec.iteration_space.items():
            if space.setdefault(symbol, (int(size), split)) != (int(size), split):
                return False
        if any(not arg.in_scratchpad and parameter_name(arg) in written for arg in spec.inputs):
            return False
        if not spec.output.in_scratchpad:
            written.add(parameter_name(spec.output))
        for arg in (arg for arg in spec.args if arg.in_scratchpad):
            view = canonical_view(arg.device_size, arg.device_coordinates, spec.sizes)
            if views.setdefault(arg.name, view) != view:
                return False
    return True


def common_sticks(specs: Sequence[OpSpec]) -> dict[Symbol, int]:
    """Return, for each stick symbol, the least common multiple of its tensors' stick sizes.

    The slices of a split symbol are multiples of these in every op of the program. Scratchpad
    tensors do not count: they belong to one core, and may end within a stick.
    """
    sticks: dict[Symbol, int] = {}
    for access in (access for spec in specs for access in tensor_accesses(spec)):
        if access.stick is not None and not access.arg.in_scratchpad:
            sticks[access.stick] = lcm(sticks.get(access.stick, 1), access.stick_size)
    return sticks


def common_sticks_per_op(specs: Sequence[OpSpec]) -> list[Mapping[Symbol, int]]:
    """Return, for each op, the common sticks of its program."""
    programs = split_into_programs(specs)
    return [sticks for ops in programs for sticks in [common_sticks(ops)] * len(ops)]
