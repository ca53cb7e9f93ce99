"""Liveness of scratchpad bytes: a byte is occupied from a write to the last read of its value.

Sets of bytes are integers with a bit for each atom: the ranges between neighbouring addresses at
which any access begins or ends.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch_spyre.backend.program.control_graph import (
    is_counted,
    successors,
    taken_successors,
)
from torch_spyre.backend.program.instructions import ProgramContent
from torch_spyre.scratchpad.accesses import (
    Accesses,
    ByteRange,
    accesses_of,
    constant_registers,
)


class Atoms:
    """The address ranges that every access consists of."""

    def __init__(self, accesses: Sequence[Accesses]) -> None:
        bounds = {
            bound for entry in accesses for used in entry.all for bound in (used.begin, used.end)
        }
        self.bounds = sorted(bounds)

    def mask(self, used: ByteRange) -> int:
        """Return the set of the atoms of a range."""
        first, last = bisect_left(self.bounds, used.begin), bisect_left(self.bounds, used.end)
        return (1 << last) - (1 << first)

    def union(self, ranges: Sequence[ByteRange]) -> int:
        atoms = 0
        for used in ranges:
            atoms |= self.mask(used)
        return atoms

    def ranges(self, atoms: int) -> list[tuple[int, int]]:
        """Return the maximal address ranges of a set, in ascending order."""
        result: list[tuple[int, int]] = []
        while atoms:
            first = (atoms & -atoms).bit_length() - 1
            run = atoms >> first
            length = ((run + 1) & -(run + 1)).bit_length() - 1
            result.append((self.bounds[first], self.bounds[first + length]))
            atoms &= ~(((1 << length) - 1) << first)
        return result


@dataclass(frozen=True)
class Liveness:
    """For each instruction: its accesses, and the atoms that are occupied before and after it."""

    accesses: tuple[Accesses, ...]
    atoms: Atoms
    before: tuple[int, ...]
    after: tuple[int, ...]

    @cached_property
    def during(self) -> tuple[int, ...]:
        """Return the atoms that are occupied while each instruction is executed."""
        return tuple(
            before | after | self.atoms.union(entry.all)
            for before, after, entry in zip(self.before, self.after, self.accesses, strict=True)
        )


def liveness(content: ProgramContent, executions: Mapping[int, int] | None = None) -> Liveness:
    """Return the liveness of a program, or of a core that executes each instruction so often.

    Instructions that the recorder does not count are taken as executed.
    """
    constants = constant_registers(content)
    accesses = tuple(
        accesses_of(instruction, constants)
        if executions is None or index in executions or not is_counted(instruction)
        else Accesses()
        for index, instruction in enumerate(content.code)
    )
    atoms = Atoms(accesses)
    graph = (
        successors(content, constants)
        if executions is None
        else taken_successors(content, constants, executions)
    )
    read_in, read_out = _read_later(accesses, atoms, graph)
    written_in, written_out = _written_before(accesses, atoms, graph)
    return Liveness(
        accesses,
        atoms,
        tuple(read & written for read, written in zip(read_in, written_in, strict=True)),
        tuple(read & written for read, written in zip(read_out, written_out, strict=True)),
    )


def _read_later(
    accesses: Sequence[Accesses], atoms: Atoms, graph: Sequence[tuple[int, ...]]
) -> tuple[list[int], list[int]]:
    """Return the atoms whose values are read later, before and after each instruction."""
    count = len(accesses)
    reads = [atoms.union(entry.reads) for entry in accesses]
    overwritten = [
        atoms.union([used for used in entry.writes if used.is_dense]) for entry in accesses
    ]
    before, after = [0] * (count + 1), [0] * count
    is_changed = True
    while is_changed:
        is_changed = False
        for index in reversed(range(count)):
            out = 0
            for successor in graph[index]:
                out |= before[successor]
            after[index] = out
            into = reads[index] | (out & ~overwritten[index])
            is_changed |= into != before[index]
            before[index] = into
    return before[:count], after


def _written_before(
    accesses: Sequence[Accesses], atoms: Atoms, graph: Sequence[tuple[int, ...]]
) -> tuple[list[int], list[int]]:
    """Return the atoms that may have been written, before and after each instruction."""
    count = len(accesses)
    writes = [atoms.union(entry.writes) for entry in accesses]
    before, after = [0] * (count + 1), [0] * count
    is_changed = True
    while is_changed:
        is_changed = False
        for index in range(count):
            out = before[index] | writes[index]
            after[index] = out
            for successor in graph[index]:
                merged = before[successor] | out
                is_changed |= merged != before[successor]
                before[successor] = merged
    return before[:count], after
