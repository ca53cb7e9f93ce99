"""The programs that a bundle's ops form: the format lists ops, and does not say which run as one.

Values in the scratchpad do not outlive a program. So a program may end wherever none is needed
later, and a finer cut than that of whoever wrote the bundle computes the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import lcm

from sympy import Symbol

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.superdsc.accesses import accesses_of


def programs_of(specs: Sequence[OpSpec]) -> list[list[OpSpec]]:
    """The ops, cut wherever no value stays in the scratchpad."""
    programs: list[list[OpSpec]] = []
    end = -1
    for position, (spec, last) in enumerate(zip(specs, _last_reads(specs), strict=True)):
        if position > end:
            programs.append([])
        programs[-1].append(spec)
        end = max(end, last)
    return programs


def _last_reads(specs: Sequence[OpSpec]) -> list[int]:
    """For each op, the last that reads what it leaves in the scratchpad, or itself."""
    found = list(range(len(specs)))
    readers: dict[str | None, int] = {}
    for position in reversed(range(len(specs))):
        spec = specs[position]
        if spec.output.in_scratchpad:
            found[position] = readers.pop(spec.output.name, position)
        for arg in spec.inputs:
            if arg.in_scratchpad:
                readers.setdefault(arg.name, position)
    return found


def with_scratchpad_names(specs: Sequence[OpSpec]) -> list[OpSpec]:
    """What one op leaves in the scratchpad and a later one reads has one name in both."""
    latest: dict[int, str] = {}
    named = []
    for position, spec in enumerate(specs):
        args = []
        for arg in spec.args:
            if arg.in_scratchpad:
                place = arg.allocation["lx"]
                if not arg.is_input:
                    latest[place] = arg.name or f"lx_{place}_{position}"
                arg = replace(arg, name=arg.name or latest.get(place, f"lx_{place}"))
            args.append(arg)
        named.append(replace(spec, args=args))
    return named


def common_sticks(specs: Sequence[OpSpec]) -> dict[Symbol, int]:
    """Elements that are whole sticks of all tensors in memory that have the symbol along sticks.

    Cores that share a symbol get multiples of these, in every op of the program. What is in the
    scratchpad is a core's own, and may end within a stick.
    """
    sticks: dict[Symbol, int] = {}
    for access in (access for spec in specs for access in accesses_of(spec)):
        if access.stick is not None and not access.arg.in_scratchpad:
            sticks[access.stick] = lcm(sticks.get(access.stick, 1), access.stick_size)
    return sticks


def sticks_of_each(specs: Sequence[OpSpec]) -> list[Mapping[Symbol, int]]:
    """For each op, the common sticks of its program."""
    programs = programs_of(specs)
    return [sticks for each in programs for sticks in [common_sticks(each)] * len(each)]
