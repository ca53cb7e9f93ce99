"""The tensors in a core's scratchpad over the positions of a program."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch_spyre.backend.program.instructions import ProgramContent
from torch_spyre.scratchpad.accesses import ByteRange
from torch_spyre.scratchpad.figures import Allocation, ScratchpadFigures, figures
from torch_spyre.scratchpad.liveness import Liveness, liveness


@dataclass(frozen=True)
class Tensor:
    """Bytes [`begin`, `end`) of a scratchpad that hold the result of the instruction `writer`.

    They are occupied at the positions from `first` to before `last`: until the last read of any.
    """

    writer: int
    begin: int
    end: int
    first: int
    last: int

    @property
    def bytes(self) -> int:
        return self.end - self.begin

    def is_live_at(self, position: int) -> bool:
        return self.first <= position < self.last


@dataclass(frozen=True)
class Occupancy:
    """The scratchpad of a core during a program.

    `positions` are the instructions that access the scratchpad: position i of all other fields is
    the i-th of them. `nodes` are the occupied address ranges at each.
    """

    positions: tuple[int, ...]
    tensors: tuple[Tensor, ...]
    nodes: tuple[tuple[tuple[int, int], ...], ...]

    @cached_property
    def occupied_bytes(self) -> tuple[int, ...]:
        """Return the occupied bytes at each position."""
        return tuple(sum(end - begin for begin, end in ranges) for ranges in self.nodes)

    @property
    def high_water(self) -> int:
        """Return the end of the highest address that is occupied at any position."""
        return max((ranges[-1][1] for ranges in self.nodes if ranges), default=0)

    @property
    def peak_position(self) -> int:
        """Return the first position with most bytes occupied."""
        return max(range(len(self.nodes)), key=lambda at: self.occupied_bytes[at], default=0)

    def live_at(self, position: int) -> list[Tensor]:
        """Return the tensors at a position, by address."""
        live = [tensor for tensor in self.tensors if tensor.is_live_at(position)]
        return sorted(live, key=lambda tensor: (tensor.begin, tensor.writer))

    def figures(self, capacity: int) -> ScratchpadFigures:
        """Return peak, average, fragmentation and reuse rate on a core with so many bytes."""
        nodes = [[Allocation(begin, end) for begin, end in ranges] for ranges in self.nodes]
        tensors = [Allocation(tensor.begin, tensor.end) for tensor in self.tensors]
        return figures(nodes, tensors, capacity)


def occupancy(content: ProgramContent, executions: Mapping[int, int] | None = None) -> Occupancy:
    """Return the occupancy of a core that executes each instruction so often; None: all of them."""
    live = liveness(content, executions)
    positions = tuple(index for index, entry in enumerate(live.accesses) if entry.all)
    tensors = tuple(_tensors(live, positions))
    return Occupancy(positions, tensors, tuple(_nodes(live, positions, tensors)))


def _nodes(
    live: Liveness, positions: Sequence[int], tensors: Sequence[Tensor]
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield the address ranges at each position: of tensors, and of all live bytes besides."""
    used = [live.during[index] for index in positions]
    for tensor in tensors:
        atoms = live.atoms.mask(ByteRange(tensor.begin, tensor.end))
        for position in range(tensor.first, tensor.last):
            used[position] |= atoms
    yield from (tuple(live.atoms.ranges(atoms)) for atoms in used)


@dataclass
class _Growing:
    """A tensor whose last position is not known yet."""

    writer: int
    used: ByteRange
    atoms: int
    first: int
    last: int


def _tensors(live: Liveness, positions: Sequence[int]) -> list[Tensor]:
    """Return the tensors of a program in the order of their first write."""
    tensors: list[_Growing] = []
    # The tensor that was last written to each atom.
    current: dict[int, _Growing] = {}
    for number, index in enumerate(positions):
        entry = live.accesses[index]
        for owner in _owners(current, live.before[index] | live.atoms.union(entry.reads)):
            owner.last = number + 1
        for used in entry.writes:
            atoms = live.atoms.mask(used)
            tensor = _updated(current, used, atoms, live.before[index])
            if tensor is None:
                tensor = _Growing(index, used, atoms, number, number + 1)
                tensors.append(tensor)
            tensor.last = number + 1
            current.update(dict.fromkeys(_bits(atoms), tensor))
    return [
        Tensor(entry.writer, entry.used.begin, entry.used.end, entry.first, entry.last)
        for entry in tensors
    ]


def _updated(
    current: Mapping[int, _Growing], used: ByteRange, atoms: int, before: int
) -> _Growing | None:
    """Return the tensor that a write changes in part; None if the write begins a tensor."""
    if used.is_dense:
        return None
    owners = [owner for owner in _owners(current, atoms & before) if not atoms & ~owner.atoms]
    return owners[0] if owners else None


def _owners(current: Mapping[int, _Growing], atoms: int) -> list[_Growing]:
    owners = (current.get(bit) for bit in _bits(atoms))
    return list({id(owner): owner for owner in owners if owner is not None}.values())


def _bits(atoms: int) -> list[int]:
    bits = []
    while atoms:
        lowest = atoms & -atoms
        bits.append(lowest.bit_length() - 1)
        atoms ^= lowest
    return bits
