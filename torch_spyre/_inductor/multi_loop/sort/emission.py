"""Emits a sort of one tile of rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from torch_spyre._inductor.multi_loop.roles import LoopRoles
from torch_spyre._inductor.multi_loop.tile_emitter import TileEmitter
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_table.sort import INDICES
from torch_spyre._inductor.to_ktir.coordinates import emit_index
from torch_spyre._inductor.to_ktir.emitter import element_of, static_shape_of
from torch_spyre._inductor.to_ktir.extents import known
from torch_spyre._inductor.to_ktir.tile_loops import emit_tile_loops
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.types import I32, element_type, is_float
from torch_spyre.ktir.dialects.spyreop import SortOp

_LARGEST_INDEX = 2**31 - 1


@dataclass(frozen=True)
class SortEmitter(TileEmitter):
    """Emits the sort of one tile of rows. In values the sorted dim is the last one."""

    def emit(self) -> None:
        """Emit the tiles along the rows, from the loads to the stores."""
        plan, symbols = self.kernel.plan, self._roles["sorted"]
        sizes = self.kernel.space.sizes
        carried: Sequence[SSAValue] = []
        if any(plan.tile[symbol] < sizes[symbol] for symbol in symbols):
            carried = self._last_elements()
        keys, indices = emit_tile_loops(
            self._emitter, plan, symbols, self.frame, carried, self._emit_tile
        )
        self._store_all((keys, indices), self.frame)

    def _last_elements(self) -> list[SSAValue]:
        """Return as many keys and indices as are kept that are after all others in the order."""
        shape = (*self._rows_shape, self._kept)
        largest = self._emitter.splat(self._emitter.scalar(_LARGEST_INDEX, I32), shape)
        return [self._last_keys(self._kept), largest]

    def _last_keys(self, length: int) -> SSAValue:
        element = element_type(self._spec.inputs[0].device_dtype)
        key = self._emitter.scalar(_last_key(element, self._is_descending), element)
        return self._emitter.splat(key, (*self._rows_shape, length))

    def _emit_tile(self, tile: Frame, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Emit the sort of one tile and of the elements of the tiles before."""
        keys, indices = self._load(tile)
        runs = int(self._spec.constants["runs"])
        kept = min(self._kept, static_shape_of(keys)[-1])
        sorted_pair = self._sorted(keys, indices, kept, runs=runs)
        if not carried:
            return sorted_pair
        pairs = zip(carried, sorted_pair, strict=True)
        keys, indices = (self._joined(*pair) for pair in pairs)
        return self._sorted(keys, indices, self._kept, runs=self._kept)

    def _load(self, tile: Frame) -> list[SSAValue]:
        """Emit loads of the keys and of their indices, which may be their positions instead."""
        values = [self._load_rows(arg, tile) for arg in self._spec.inputs]
        return values if len(values) == 2 else [*values, self._positions(tile)]

    def _load_rows(self, arg: TensorArg, tile: Frame) -> SSAValue:
        access = self.kernel.space.accesses[arg]
        return self._as_rows(self.kernel.transfers.load(access, tile, {}), tile)

    def _positions(self, tile: Frame) -> SSAValue:
        """Emit the positions of the elements in their rows."""
        roles = LoopRoles.from_op_info(self._spec.op_info)
        position = roles.index("sorted", self.kernel.space.sizes)
        return self._as_rows(emit_index(self._emitter, position, I32, tile), tile)

    def _as_rows(self, value: Value, tile: Frame) -> SSAValue:
        """Return a value with the sorted symbols as one dim, the last."""
        outer, symbols, inner = (self._roles[role] for role in ("outer", "sorted", "inner"))
        axes = tile.axes_of(frozenset((*outer, *symbols, *inner)))
        ssa = self.kernel.transfers.broadcast_to(value, axes, tile).ssa
        first, last = len(outer), len(outer) + len(symbols)
        rank = len(axes)
        order = [*range(first), *range(last, rank), *range(first, last)]
        ssa = self._emitter.transpose(ssa, order)
        rows = len(outer) + len(inner)
        shape = static_shape_of(ssa)
        groups = [*([dim] for dim in range(rows)), list(range(rows, rank))]
        return self._emitter.reshape(ssa, groups, (*shape[:rows], math.prod(shape[rows:])))

    def _sorted(
        self,
        keys: SSAValue,
        indices: SSAValue,
        kept: int,
        *,
        runs: int = 1,
        first: SSAValue | None = None,
    ) -> tuple[SSAValue, SSAValue]:
        descending = self._is_descending
        operation = SortOp(keys, indices, kept, descending=descending, runs=runs, first=first)
        self._emitter.add(operation)
        return operation.sorted_keys, operation.sorted_indices

    def _joined(self, first: SSAValue, second: SSAValue) -> SSAValue:
        """Return the elements of both along the last dim."""
        *rows, length = static_shape_of(first)
        shape = (*rows, length + static_shape_of(second)[-1])
        start = (0,) * len(rows)
        joined = self._emitter.empty(element_of(first), shape)
        joined = self._emitter.insert(first, joined, (*start, 0))
        return self._emitter.insert(second, joined, (*start, length))

    def _store_all(self, pair: Sequence[SSAValue], frame: Frame) -> None:
        keys, indices = pair
        for spec in self.kernel.specs:
            self._store(spec, indices if spec.op == INDICES else keys, frame)

    def _store(self, spec: OpSpec, rows: SSAValue, frame: Frame) -> None:
        outer, column, inner = (self._roles[role] for role in ("outer", "column", "inner"))
        output = self.kernel.space.accesses[spec.output]
        axes = frame.axes_of(frozenset((*outer, *column, *inner)))
        dims = len(outer) + len(inner)
        sizes = frame.shape([axis for axis in axes if axis.symbol in column])
        shape = (*static_shape_of(rows)[:dims], *sizes)
        groups = [*([dim] for dim in range(dims)), list(range(dims, dims + len(column)))]
        value = self._emitter.reshape(rows, groups, shape)
        rank = len(shape)
        order = [*range(len(outer)), *range(dims, rank), *range(len(outer), dims)]
        value = self._emitter.transpose(value, order)
        self.kernel.transfers.store(output, frame, Value(value, axes), {}, is_partial=False)

    @property
    def _rows_shape(self) -> tuple[int, ...]:
        symbols = (*self._roles["outer"], *self._roles["inner"])
        return tuple(known(self.frame.extents[symbol]) for symbol in symbols)

    @property
    def _kept(self) -> int:
        return math.prod(self.kernel.space.sizes[symbol] for symbol in self._roles["column"])

    @property
    def _is_descending(self) -> bool:
        return bool(self._spec.constants["descending"])


def _last_key(element: Attribute, descending: bool) -> float:
    """Return the last value of an element type in the order."""
    if is_float(element):
        return -math.inf if descending else math.nan
    assert isinstance(element, IntegerType)
    limit: int = 2 ** (element.width.data - 1)
    return -limit if descending else limit - 1
