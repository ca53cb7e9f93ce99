"""Derives the access patterns of device memory whose rates upstream measured from a program.

A restickify concerns single operands of any program. The other patterns were measured for kernels
that do nothing else, and are derived only for such: copies of rows between planes of sticks,
permutations of whole sticks, elementwise ops with a broadcast operand, and single reductions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch_spyre.backend.program.instructions import (
    Chain,
    ChainBody,
    Delivered,
    InputKind,
    Instruction,
    Matmul,
    Operand,
    ProgramContent,
    Reduce,
)
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.timing.counts import InstructionCounts
from torch_spyre.timing.record import DdrPattern
from torch_spyre.timing.tile_flow import BufferContent, TileAccess, TileDimension, TileFlow

# By instruction: the pattern of a load or store.
Patterns = dict[int, DdrPattern]
_RESTICKIFY = DdrPattern(kind="restickify")


def patterns_of(
    content: ProgramContent, flow: TileFlow, counts: Mapping[int, InstructionCounts]
) -> Patterns:
    """Return the patterns of the transfers of a program that have one."""
    program = _Program(content, flow, counts)
    restickified = _restickified(program)
    if restickified:
        return dict.fromkeys(restickified, _RESTICKIFY)
    if program.has_any(Matmul, Delivered):
        return {}
    reductions = [index for index, _ in program.executed(Reduce)]
    if len(reductions) == 1:
        return _reduction(program, reductions[0])
    if reductions:
        return {}
    if all(_is_copied(flow.stored(store.index)) for store in flow.stores):
        return _transports(program)
    return _broadcasts(program)


@dataclass(frozen=True)
class _Program:
    content: ProgramContent
    flow: TileFlow
    counts: Mapping[int, InstructionCounts]

    def executed(self, *kinds: type[Instruction]) -> Iterator[tuple[int, Instruction]]:
        """Yield the executed instructions of these kinds."""
        for index, instruction in enumerate(self.content.code):
            if isinstance(instruction, kinds) and index in self.counts:
                yield index, instruction

    def has_any(self, *kinds: type[Instruction]) -> bool:
        return any(True for _ in self.executed(*kinds))

    def unique_sticks(self, access: TileAccess) -> int:
        """Return the sticks that an access transfers, each counted once."""
        counts = self.counts.get(access.index)
        return 0 if counts is None else counts["unique_device_bytes"] // BYTES_IN_STICK

    def unique_elements(self, access: TileAccess) -> int:
        """Return the elements of these sticks; one per stick if lanes are not used."""
        per_stick = 1 if access.lane_stride is None else _elements_in_stick(access)
        return self.unique_sticks(access) * per_stick

    def every_access(self, pattern: DdrPattern) -> Patterns:
        return dict.fromkeys(self.flow.accesses, pattern)


def _elements_in_stick(access: TileAccess) -> int:
    return BYTES_IN_STICK // access.element_bytes


def _is_copied(stored: BufferContent | None) -> bool:
    return stored is not None and stored.is_copy and len(stored.tiles) == 1


# --- Restickify -----------------------------------------------------------------------------------


def _restickified(program: _Program) -> set[int]:
    """Return the loads and stores whose sticks run along another dimension than they must.

    The sticks of a stored tile must run as those of the loads it comes from. The left operand of a
    matmul needs sticks along its columns, the right one too.
    """
    flow = program.flow
    indices: set[int] = set()
    for store in flow.stores:
        stored = flow.stored(store.index)
        if stored is None or store.lane_stride is None:
            continue
        turned = _loads_not_along(stored, store.lane_stride)
        indices |= turned
        if turned and stored.is_copy:
            indices.add(store.index)
    for index, instruction in program.executed(Matmul):
        assert isinstance(instruction, Matmul)
        operands = (instruction.a, instruction.b)
        for operand, tile in zip(operands, flow.operands[index], strict=True):
            if tile is not None:
                indices |= _loads_along(tile, operand.strides[1], operand.strides[2])
    return indices


def _loads_not_along(content: BufferContent, stride: int) -> set[int]:
    return {tile.load for tile in content.tiles if tile.lane_stride not in (None, stride)}


def _loads_along(content: BufferContent, stride: int, expected: int) -> set[int]:
    return {tile.load for tile in content.tiles if tile.lane_stride == stride != expected}


# --- Reductions -----------------------------------------------------------------------------------


def _reduction(program: _Program, index: int) -> Patterns:
    """Return the pattern of a kernel that loads a tensor, reduces it and stores the result."""
    reduce = program.content.code[index]
    assert isinstance(reduce, Reduce)
    sources = program.flow.operands[index]
    computing = [chain for at, chain in program.executed(Chain) if at != index and _computes(chain)]
    is_direct = len(sources) == 1 and sources[0] is not None and sources[0].is_copy
    if computing or not is_direct or _computes(reduce) or len(program.flow.stores) != 1:
        return {}
    (tile,) = sources[0].tiles if sources[0] is not None else ()
    (operand,) = [item.operand for item in reduce.inputs if item.kind == InputKind.OPERAND]
    reduced_strides = {operand.strides[dimension] for dimension in reduce.reduced}
    if tile.lane_stride is None:
        return {}
    if tile.lane_stride not in reduced_strides:
        return program.every_access(DdrPattern(kind="cross_row_reduction"))
    rows = max(1, program.unique_elements(program.flow.stores[0]))
    return program.every_access(DdrPattern(kind="row_reduction", rows=rows))


def _computes(instruction: Instruction) -> bool:
    """Return whether a chain computes more than conversions of its inputs."""
    assert isinstance(instruction, ChainBody)
    return any(step.lookup >= 0 or step.op not in _CONVERSIONS for step in instruction.steps)


_CONVERSIONS = frozenset({"extf", "truncf", "convertf"})


# --- Copies ---------------------------------------------------------------------------------------


def _transports(program: _Program) -> Patterns:
    """Return the patterns of copies that leave sticks whole."""
    patterns: Patterns = {}
    for store in program.flow.stores:
        stored = program.flow.stored(store.index)
        assert stored is not None
        load = program.flow.accesses[stored.tiles[0].load]
        pattern = _transport(load, store, program.unique_sticks(store))
        if pattern is not None:
            patterns |= {load.index: pattern, store.index: pattern}
    return patterns


def _transport(load: TileAccess, store: TileAccess, sticks: int) -> DdrPattern | None:
    source = {dim.tile_stride: dim for dim in load.outer_dimensions if dim.extent != 1}
    target = {dim.tile_stride: dim for dim in store.outer_dimensions if dim.extent != 1}
    if sticks == 0 or source.keys() != target.keys() or len(source) < 2:
        return None
    elements = _elements_in_stick(store)
    if list(source) != list(target):
        return _permutation(list(source.values()), sticks, elements)
    (_, source_plane), (_, target_plane) = _planes(source), _planes(target)
    if source_plane == target_plane:
        return None
    moved_rows = min(source_plane, target_plane) // elements
    rows = max(source_plane, target_plane) // elements
    planes = -(-sticks // max(1, moved_rows))
    if planes < 2 or rows < 1:
        return None
    return DdrPattern(kind="cat_outer", rows=rows, columns=planes * elements)


def _planes(dimensions: Mapping[int, TileDimension]) -> tuple[int, int]:
    """Return the strides of rows and of planes: the two innermost ones."""
    row, plane, *_ = (abs(dim.memory_stride or 0) for dim in dimensions.values())
    return row, plane


def _permutation(source: Sequence[TileDimension], sticks: int, elements: int) -> DdrPattern:
    """Return the pattern of a permutation of whole sticks.

    In the default layout of a tensor of three dims its first dim is the innermost of the source,
    followed by the sticks of its last dim.
    """
    strides = [abs(dim.memory_stride or 1) for dim in source]
    outer = max(1, strides[1] // strides[0])
    stick_count = max(1, strides[2] // strides[1]) if len(strides) > 2 else 1
    rows = max(1, sticks // (outer * stick_count))
    return DdrPattern(
        kind="transpose_outer", rows=rows, columns=stick_count * elements, outer=outer
    )


# --- Broadcasts -----------------------------------------------------------------------------------


def _broadcasts(program: _Program) -> Patterns:
    """Return the pattern of elementwise kernels with an operand that is broadcast."""
    if len(program.flow.stores) != 1:
        return {}
    store = program.flow.stores[0]
    total = program.unique_elements(store)
    if total == 0 or store.lane_stride is None:
        return {}
    kinds: list[DdrPattern] = []
    for index, chain in program.executed(Chain):
        assert isinstance(chain, Chain)
        reads = [item.operand for item in chain.inputs if item.kind == InputKind.OPERAND]
        for tile, operand in zip(program.flow.operands[index], reads, strict=True):
            load = _direct_load(program, tile)
            if load is not None:
                pattern = _broadcast(program, chain, operand, load, store, total)
                kinds += [] if pattern is None else [pattern]
    if not kinds:
        return {}
    # Of several, a broadcast along sticks is the slower one.
    return program.every_access(min(kinds, key=lambda pattern: pattern.kind))


def _direct_load(program: _Program, tile: BufferContent | None) -> TileAccess | None:
    if tile is None or not tile.is_copy or len(tile.tiles) != 1:
        return None
    return program.flow.accesses.get(tile.tiles[0].load)


def _broadcast(
    program: _Program,
    chain: Chain,
    operand: Operand,
    load: TileAccess,
    store: TileAccess,
    total: int,
) -> DdrPattern | None:
    """Return the pattern if an operand that is loaded has fewer elements than the result."""
    written = chain.outputs[0].operand.strides
    broadcast = [
        output for output, stride in zip(written, operand.strides, strict=True) if stride == 0
    ]
    elements = program.unique_elements(load)
    if not any(broadcast) or elements == 0 or elements * 2 > total:
        return None
    if store.lane_stride not in broadcast:
        columns = min(elements, total)
        return DdrPattern(kind="row_broadcast", rows=max(1, total // columns), columns=columns)
    rows = elements if elements > 1 else _rows_of(store)
    return DdrPattern(kind="column_broadcast", rows=rows, columns=max(1, total // rows))


def _rows_of(access: TileAccess) -> int:
    """Return the rows of a plane of sticks: the distance of planes in sticks."""
    dimensions = access.outer_dimensions
    if len(dimensions) < 2:
        return 1
    row, plane = (abs(dim.memory_stride or 1) for dim in dimensions[:2])
    return max(1, plane // row)
