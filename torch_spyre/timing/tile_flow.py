"""Follows tiles through a program: which loads an instruction reads, and what a store writes.

Buffers of the scratchpad are reused, so an operand is traced to the last instruction before it that
wrote its bytes. A value that is carried around a loop is traced to the instruction before the loop.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch_spyre.backend.program.instructions import (
    Chain,
    Copy,
    Indexed,
    IndirectTransfer,
    InputKind,
    Instruction,
    Matmul,
    Operand,
    ProgramContent,
    Receive,
    Reduce,
    Sort,
    Space,
    TermKind,
    Transfer,
    View,
)


@dataclass(frozen=True)
class TileDimension:
    """A dimension of a tile: its extent, and its strides in memory and in the tile, in elements.

    Amounts that are not constants of the program are None.
    """

    extent: int | None
    memory_stride: int | None
    tile_stride: int

    @property
    def is_lane(self) -> bool:
        """Return whether neighbours along this dimension are neighbours in a stick."""
        return self.memory_stride == 1 and self.extent != 1


@dataclass(frozen=True)
class TileAccess:
    """A load or store of a tile in device memory."""

    index: int
    is_store: bool
    element_bytes: int
    dimensions: tuple[TileDimension, ...]

    @property
    def lane_stride(self) -> int | None:
        """Return the distance in the tile of elements that are neighbours in a stick, or None."""
        return next((dim.tile_stride for dim in self.dimensions if dim.is_lane), None)

    @property
    def outer_dimensions(self) -> tuple[TileDimension, ...]:
        """Return the dimensions that step from stick to stick, innermost in memory first."""
        stepping = [dim for dim in self.dimensions if dim.memory_stride not in (None, 0, 1)]
        return tuple(sorted(stepping, key=lambda dim: abs(dim.memory_stride or 0)))


@dataclass(frozen=True)
class LoadedTile:
    """Elements of a load in a buffer; `lane_stride` is the distance of neighbours in a stick."""

    load: int
    lane_stride: int | None


@dataclass(frozen=True)
class BufferContent:
    """The content of the bytes [`begin`, `end`) of the scratchpad.

    `tiles` are the loads whose elements, or elementwise functions of them, are there. `is_copy` is
    True if they are the loaded elements themselves. `writer` is the index of the instruction.
    """

    begin: int
    end: int
    writer: int
    tiles: tuple[LoadedTile, ...] = ()
    is_copy: bool = False


@dataclass(frozen=True)
class TileFlow:
    """Transfers of a program by index, and by instruction the content of its operands."""

    accesses: Mapping[int, TileAccess]
    # Chains, reductions and stores: by operand in order; matmuls: a and b.
    operands: Mapping[int, tuple[BufferContent | None, ...]]

    def stored(self, store: int) -> BufferContent | None:
        """Return the content that a store writes to memory."""
        return self.operands[store][0]

    @property
    def loads(self) -> list[TileAccess]:
        return [access for access in self.accesses.values() if not access.is_store]

    @property
    def stores(self) -> list[TileAccess]:
        return [access for access in self.accesses.values() if access.is_store]


def tile_flow(content: ProgramContent) -> TileFlow:
    """Return the flow of tiles of a program."""
    return _Tracer(content).trace()


class _Tracer:
    def __init__(self, content: ProgramContent) -> None:
        self._content = content
        self._constants = {item.destination: item.bits for item in content.constants}
        self._buffers: list[BufferContent] = []
        self._accesses: dict[int, TileAccess] = {}
        self._operands: dict[int, tuple[BufferContent | None, ...]] = {}

    def trace(self) -> TileFlow:
        for index, instruction in enumerate(self._content.code):
            self._visit(index, instruction)
        return TileFlow(self._accesses, self._operands)

    def _visit(self, index: int, instruction: Instruction) -> None:
        match instruction:
            case Transfer() | IndirectTransfer():
                self._visit_transfer(index, instruction)
            case Chain():
                self._visit_chain(index, instruction)
            case Copy():
                source = self._read(instruction.source)
                moved = self._moved(source, instruction.source, instruction.destination)
                self._write(index, instruction.destination, moved, is_copy=_is_copy(source))
            case Reduce():
                self._operands[index] = tuple(self._inputs(instruction))
                for output in instruction.outputs:
                    self._write(index, output)
            case Matmul():
                self._operands[index] = (self._read(instruction.a), self._read(instruction.b))
                self._write(index, instruction.output)
            case Sort():
                self._write(index, instruction.sorted_keys)
                self._write(index, instruction.sorted_indices)
            case Indexed():
                self._operands[index] = (
                    self._read(instruction.tile),
                    self._read(instruction.table),
                )
                self._write(index, instruction.table if instruction.scatter else instruction.tile)
            case Receive():
                self._write(index, instruction.destination)

    # --- Instructions

    def _visit_transfer(self, index: int, transfer: Transfer | IndirectTransfer) -> None:
        access = self._access(index, transfer)
        if transfer.store:
            self._operands[index] = (self._read(transfer.tile),)
        if access is not None:
            self._accesses[index] = access
        if not transfer.store:
            tiles = () if access is None else (LoadedTile(index, access.lane_stride),)
            self._write(index, transfer.tile, tiles, is_copy=access is not None)

    def _visit_chain(self, index: int, chain: Chain) -> None:
        inputs = list(self._inputs(chain))
        self._operands[index] = tuple(inputs)
        reads = [item.operand for item in chain.inputs if item.kind == InputKind.OPERAND]
        for output in chain.outputs:
            tiles = [
                tile
                for source, read in zip(inputs, reads, strict=True)
                for tile in self._moved(source, read, output.operand)
            ]
            is_copy = not chain.steps and len(inputs) == 1 and _is_copy(inputs[0])
            self._write(index, output.operand, tuple(tiles), is_copy=is_copy)

    def _inputs(self, chain: Chain | Reduce) -> Iterator[BufferContent | None]:
        for item in chain.inputs:
            if item.kind == InputKind.OPERAND:
                yield self._read(item.operand)

    def _moved(
        self, source: BufferContent | None, read: Operand, written: Operand
    ) -> tuple[LoadedTile, ...]:
        """Return the tiles of an operand as they are in the operand that an instruction writes."""
        if source is None:
            return ()
        strides = dict(zip(read.strides, written.strides, strict=True))
        return tuple(
            replace(
                tile,
                lane_stride=None if tile.lane_stride is None else strides.get(tile.lane_stride),
            )
            for tile in source.tiles
        )

    # --- Buffers

    def _read(self, operand: Operand) -> BufferContent | None:
        end = operand.address + operand.bytes
        for content in reversed(self._buffers):
            if content.begin < end and operand.address < content.end:
                return content
        return None

    def _write(
        self,
        index: int,
        operand: Operand,
        tiles: tuple[LoadedTile, ...] = (),
        *,
        is_copy: bool = False,
    ) -> None:
        end = operand.address + operand.bytes
        self._buffers = [
            content
            for content in self._buffers
            if content.end <= operand.address or end <= content.begin
        ]
        self._buffers.append(BufferContent(operand.address, end, index, tiles, is_copy))

    # --- Transfers

    def _access(self, index: int, transfer: Transfer | IndirectTransfer) -> TileAccess | None:
        """Return the access of a transfer to device memory; None if it has another form."""
        if isinstance(transfer, Transfer):
            if len(transfer.views) != 1 or transfer.points:
                return None
            view = transfer.views[0]
            strides: Sequence[int | None] = self._values(view.strides)
            extents = self._values(transfer.extents)
        else:
            if transfer.points:
                return None
            view = transfer.view
            extents = self._values(transfer.variables)
            strides = self._variable_strides(transfer)
        if view.space != Space.GLOBAL:
            return None
        dimensions = tuple(
            TileDimension(extent, memory, tile)
            for extent, memory, tile in zip(extents, strides, transfer.tile.strides, strict=True)
        )
        return TileAccess(index, transfer.store, view.type.bytes, dimensions)

    def _values(self, registers: Sequence[int]) -> list[int | None]:
        return [self._constants.get(register) for register in registers]

    def _variable_strides(self, transfer: IndirectTransfer) -> list[int | None]:
        """Return for each variable the smallest stride of a coordinate that depends on it."""
        smallest: list[int | None] = [None] * len(transfer.variables)
        for subscript, stride in zip(
            transfer.subscripts, self._view_strides(transfer.view), strict=True
        ):
            if stride is None or subscript.indirect:
                continue
            for expression in subscript.expressions:
                for term in expression:
                    if term.kind != TermKind.VARIABLE:
                        continue
                    current = smallest[term.value]
                    smallest[term.value] = stride if current is None else min(current, stride)
        return smallest

    def _view_strides(self, view: View) -> list[int | None]:
        return self._values(view.strides)


def _is_copy(content: BufferContent | None) -> bool:
    return content is not None and content.is_copy
