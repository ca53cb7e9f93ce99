"""The scratchpad bytes that an instruction reads and writes, as far as constants tell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch_spyre.backend.program.instructions import (
    NO_REGISTER,
    Chain,
    ChainBody,
    Copy,
    Extract,
    Indexed,
    IndirectTransfer,
    InputKind,
    Instruction,
    Literal,
    LoopBegin,
    Matmul,
    Move,
    Operand,
    ProgramContent,
    Publish,
    Receive,
    Reduce,
    Scalar,
    Sort,
    TableLookup,
    Transfer,
)


@dataclass(frozen=True)
class ByteRange:
    """Bytes [`begin`, `end`); `is_dense` if an access touches every one of them."""

    begin: int
    end: int
    is_dense: bool = False


@dataclass(frozen=True)
class Accesses:
    reads: tuple[ByteRange, ...] = ()
    writes: tuple[ByteRange, ...] = ()

    @property
    def all(self) -> tuple[ByteRange, ...]:
        return (*self.reads, *self.writes)


def constant_registers(content: ProgramContent) -> dict[int, int]:
    """Return the registers that hold one constant in every core during the whole program."""
    constants = {constant.destination: constant.bits for constant in content.constants}
    for instruction in content.code:
        match instruction:
            case LoopBegin():
                constants.pop(instruction.variable, None)
            case Scalar() | Move() | Extract() | TableLookup():
                constants.pop(instruction.destination, None)
    return constants


def accesses_of(instruction: Instruction, constants: Mapping[int, int]) -> Accesses:
    """Return the bytes that an instruction may access."""
    return Accesses(
        tuple(_reads(instruction, constants)),
        tuple(_writes(instruction, constants)),
    )


def _reads(instruction: Instruction, constants: Mapping[int, int]) -> Iterator[ByteRange]:
    match instruction:
        case Extract():
            yield _whole(instruction.source)
        case Transfer() if instruction.store:
            yield _range(instruction.tile, instruction.extents, constants)
        case IndirectTransfer() if instruction.store:
            yield _range(instruction.tile, instruction.variables, constants)
        case Matmul():
            batch, rows, columns, inner = _matmul_sizes(instruction)
            yield _range(instruction.a, (batch, rows, inner), constants)
            yield _range(instruction.b, (batch, inner, columns), constants)
            if instruction.has_initial:
                yield _range(instruction.initial, (batch, rows, columns), constants)
        case Copy():
            yield _range(instruction.source, instruction.extents, constants)
        case Sort():
            yield _range(instruction.keys, instruction.extents, constants)
            yield _range(instruction.indices, instruction.extents, constants)
        case Indexed():
            for operand in (instruction.index, instruction.tile):
                yield _range(operand, instruction.extents, constants)
            yield _whole(instruction.table)
        case Publish():
            for tile in instruction.tiles:
                yield ByteRange(tile.address, tile.address + tile.bytes)
        case Chain() | Reduce():
            yield from _inputs(instruction, constants)
    if isinstance(instruction, Reduce):
        extents = _kept_extents(instruction)
        for operand in instruction.initial:
            yield _range(operand, extents, constants)


def _writes(instruction: Instruction, constants: Mapping[int, int]) -> Iterator[ByteRange]:
    match instruction:
        case Transfer() if not instruction.store:
            yield _range(instruction.tile, instruction.extents, constants)
        case IndirectTransfer() if not instruction.store:
            yield _range(instruction.tile, instruction.variables, constants)
        case Chain():
            for output in instruction.outputs:
                yield _range(output.operand, instruction.extents, constants)
        case Reduce():
            extents = _kept_extents(instruction)
            for operand in instruction.outputs:
                yield _range(operand, extents, constants)
        case Matmul():
            batch, rows, columns, _ = _matmul_sizes(instruction)
            yield _range(instruction.output, (batch, rows, columns), constants)
        case Copy():
            yield _range(instruction.destination, instruction.extents, constants)
        case Sort():
            extents = (*instruction.extents[:-1], instruction.kept)
            yield _range(instruction.sorted_keys, extents, constants)
            yield _range(instruction.sorted_indices, extents, constants)
        case Indexed():
            # Only elements that are selected are written.
            yield _whole(instruction.table if instruction.scatter else instruction.tile)
        case Receive():
            yield _range(instruction.destination, instruction.extents, constants)
        case Literal():
            begin = instruction.destination.address
            length = len(instruction.values) * instruction.destination.type.bytes
            yield ByteRange(begin, begin + length, is_dense=True)


def _inputs(chain: ChainBody, constants: Mapping[int, int]) -> Iterator[ByteRange]:
    for entry in chain.inputs:
        if entry.kind == InputKind.OPERAND:
            yield _range(entry.operand, chain.extents, constants)
    for lookup in chain.lookups:
        yield _whole(lookup.operand)


def _matmul_sizes(matmul: Matmul) -> tuple[int, int, int, int]:
    return matmul.batch, matmul.rows, matmul.columns, matmul.inner


def _kept_extents(reduce: Reduce) -> tuple[int, ...]:
    """Return the extents of the results: no register, an extent of 1, where they are reduced."""
    return tuple(
        NO_REGISTER if dim in reduce.reduced else extent
        for dim, extent in enumerate(reduce.extents)
    )


def _whole(operand: Operand) -> ByteRange:
    return ByteRange(operand.address, operand.address + operand.bytes)


def _range(operand: Operand, extents: Sequence[int], constants: Mapping[int, int]) -> ByteRange:
    """Return the bytes of an operand with these extents, or its whole buffer if not constant."""
    sizes = [1 if register == NO_REGISTER else constants.get(register) for register in extents]
    if operand.offset != NO_REGISTER or None in sizes or len(sizes) != len(operand.strides):
        return _whole(operand)
    known = [size for size in sizes if size is not None]
    if 0 in known or any(stride < 0 for stride in operand.strides):
        return _whole(operand)
    moving = [
        (stride, size)
        for stride, size in zip(operand.strides, known, strict=True)
        if size > 1 and stride != 0
    ]
    last = sum(stride * (size - 1) for stride, size in moving)
    end = operand.address + (last + 1) * operand.type.bytes
    return ByteRange(operand.address, end, is_dense=_is_dense(moving, last + 1))


def _is_dense(moving: Sequence[tuple[int, int]], count: int) -> bool:
    """Return whether strides and sizes reach each of the first `count` elements."""
    covered = 1
    for stride, size in sorted(moving):
        if stride > covered:
            return False
        covered = max(covered, stride * (size - 1) + covered)
    return covered == count
