"""Emits a gather or scatter of one tile of the result.

Tensors have three dims, those of the roles: the tile of the result streams over the tiles of the
scanned dim, and each of these moves the elements whose indices lie in it, or in the result's tile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from sympy import Symbol
from xdsl.ir import Attribute, SSAValue

from torch_spyre._inductor.multi_loop.tile_emitter import TileEmitter
from torch_spyre._inductor.op_spec import TensorArg
from torch_spyre._inductor.op_table.indexed import COMBINES, GATHER
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.emitter import shape_of
from torch_spyre._inductor.to_ktir.extents import known
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.tile_loops import emit_tile_loops
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.types import F32, is_float
from torch_spyre.ktir.dialects.indexed import GatherOp, ScatterOp

_INDEXED_DIM = 1


@dataclass(frozen=True)
class IndexedEmitter(TileEmitter):
    """Emits the tile of the result in `frame`."""

    def emit(self) -> None:
        """Emit the tiles along the scanned dim, from the loads to the store."""
        plan, scanned = self.kernel.plan, self._roles["scanned"]
        is_gather = self._spec.op == GATHER
        initial = self._initial_gather() if is_gather else self._initial_scatter()
        emit = self._gather_tile if is_gather else self._scatter_tile
        (result,) = emit_tile_loops(self._emitter, plan, scanned, self.frame, [initial], emit)
        self._store(result)

    def _initial_gather(self) -> SSAValue:
        return self._emitter.empty(self._result_type, self._shape("column", self.frame))

    def _initial_scatter(self) -> SSAValue:
        target, _, _ = self._spec.inputs
        return converted(self._emitter, self._load(target, "column", self.frame), self._accumulator)

    def _gather_tile(self, tile: Frame, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        table, index = self._spec.inputs
        operation = GatherOp(
            self._load(table, "scanned", tile),
            self._load(index, "column", tile),
            carried[0],
            self._first("scanned", tile),
            self._origin("column", tile),
            _INDEXED_DIM,
            self._size("scanned"),
        )
        return [self._emitter.add(operation)]

    def _scatter_tile(self, tile: Frame, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        _, index, values = self._spec.inputs
        instructions = COMBINES.get(self._spec.op)
        combine = None
        if instructions is not None:
            combine = instructions[0] if is_float(self._accumulator) else instructions[1]
        # Converted first: the largest value of the card's format is infinity in float32.
        source = converted(self._emitter, self._load(values, "scanned", tile), self._accumulator)
        operation = ScatterOp(
            source,
            self._load(index, "scanned", tile),
            carried[0],
            self._first("column", tile),
            self._origin("scanned", tile),
            _INDEXED_DIM,
            self._size("column"),
            combine,
        )
        return [self._emitter.add(operation)]

    # Three dims

    def _load(self, arg: TensorArg, indexed: str, tile: Frame) -> SSAValue:
        """Emit a load of a tile with the dims outer, `indexed` and inner."""
        loaded = self.kernel.transfers.load(self.kernel.space.accesses[arg], tile, {})
        shape = self._shape(indexed, tile)
        if loaded.is_scalar:
            return self._emitter.splat(loaded.ssa, shape)
        value, missing = self._merged(loaded, indexed, tile)
        return self._emitter.broadcast(value, shape, missing)

    def _merged(self, loaded: Value, indexed: str, tile: Frame) -> tuple[SSAValue, list[int]]:
        """Return a loaded tile with one dim for each of its roles, and the roles that it lacks.

        A role of several symbols is broadcast along those that the tile lacks.
        """
        loaded_symbols = {axis.symbol for axis in loaded.axes}
        groups = [self._roles[role] for role in ("outer", indexed, "inner")]
        present = [d for d, group in enumerate(groups) if loaded_symbols & set(group)]
        missing = [d for d in range(len(groups)) if d not in present]
        symbols = frozenset(symbol for d in present for symbol in groups[d])
        if not present:
            return loaded.ssa, missing
        loaded = self.kernel.transfers.broadcast_to(loaded, tile.axes_of(symbols), tile)
        dims, start = [], 0
        for d in present:
            dims.append(list(range(start, start + len(groups[d]))))
            start += len(groups[d])
        shape = tuple(self._shape(indexed, tile)[d] for d in present)
        return self._emitter.reshape(loaded.ssa, dims, shape), missing

    def _shape(self, indexed: str, tile: Frame) -> tuple[int, ...]:
        return tuple(
            prod(known(tile.extents[symbol]) for symbol in self._roles[role])
            for role in ("outer", indexed, "inner")
        )

    def _store(self, result: SSAValue) -> None:
        """Emit the store of the result, with one dim for each symbol."""
        value = converted(self._emitter, result, self._result_type)
        groups = [self._roles[role] for role in ("outer", "column", "inner")]
        output = self.kernel.space.accesses[self._spec.output]
        axes = self.frame.axes_of(output.symbols)
        shape = self.frame.shape(axes)
        value = self._without_empty_roles(value, groups)
        dims, start = [], 0
        for group in filter(None, groups):
            dims.append(list(range(start, start + len(group))))
            start += len(group)
        value = self._emitter.reshape(value, dims, shape or (1,))
        transfers = self.kernel.transfers
        transfers.store(output, self.frame, Value(value, axes), {}, is_partial=False)

    def _without_empty_roles(self, value: SSAValue, groups: Sequence[Sequence[Symbol]]) -> SSAValue:
        """Emit a reshape that merges the dims of size 1 of roles without symbols."""
        dims: list[list[int]] = []
        leading: list[int] = []
        for d, group in enumerate(groups):
            if group:
                dims.append([*leading, d])
                leading = []
            elif dims:
                dims[-1].append(d)
            else:
                leading.append(d)
        dims = dims or [leading]
        full = shape_of(value)
        return self._emitter.reshape(
            value, dims, tuple(prod(full[d] for d in group) for group in dims)
        )

    # Indices

    def _first(self, role: str, tile: Frame) -> SSAValue:
        """Return the first index of a tile, which divides the outermost symbol of the role."""
        symbols, arithmetic = self._roles[role], self._emitter.indices
        if not symbols:
            return arithmetic.value(Index(0))
        step = prod(self.kernel.space.sizes[symbol] for symbol in symbols[1:])
        return arithmetic.value(arithmetic.times(tile.origins[symbols[0]], step))

    def _origin(self, indexed: str, tile: Frame) -> list[SSAValue]:
        """Return the position of a tile's first index along each role."""
        return [self._first(role, tile) for role in ("outer", indexed, "inner")]

    def _size(self, role: str) -> int:
        return prod(self.kernel.space.sizes[symbol] for symbol in self._roles[role])

    @property
    def _accumulator(self) -> Attribute:
        """The type in which elements are combined: floats are rounded once, at the end."""
        is_combined = self._spec.op in COMBINES
        return F32 if is_combined and is_float(self._result_type) else self._result_type
