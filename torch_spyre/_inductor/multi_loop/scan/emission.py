"""Emits a scan of one tile in steps of doubling distance.

The step of distance d combines each element with the one d before it, so that it holds the result
of 2 d elements. A tile of n elements takes log2(n) steps on vectors.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from torch_spyre._inductor.multi_loop.tile_emitter import TileEmitter
from torch_spyre._inductor.op_table.scan import SCANS
from torch_spyre._inductor.to_ktir.conversions import converted, full_like
from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of, static_shape_of
from torch_spyre._inductor.to_ktir.tile_loops import emit_tile_loops
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.types import F32, is_float
from torch_spyre.ktir.dialects import arith as ktir_arith

Combine = Callable[[Emitter, SSAValue, SSAValue], SSAValue]
BinaryOp = Callable[[SSAValue, SSAValue], Operation]


@dataclass(frozen=True)
class ScanEmitter(TileEmitter):
    """Emits the scans of one tile of the outer and inner dims."""

    def emit(self) -> None:
        """Emit the tiles along the scanned dim, from the loads to the stores."""
        plan, scanned = self.kernel.plan, self._roles["scanned"]
        carried: list[SSAValue] = []
        if any(plan.tile[symbol] < self.kernel.space.sizes[symbol] for symbol in scanned):
            unscanned = (*self._roles["outer"], *self._roles["inner"])
            shape = tuple(self.frame.extents[symbol] for symbol in unscanned)
            identity = self._emitter.scalar(self._identity, self._accumulator)
            carried = [self._emitter.splat(identity, shape or (1,))]
        emit_tile_loops(self._emitter, plan, scanned, self.frame, carried, self._emit_tile)

    def _emit_tile(self, tile: Frame, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Emit one tile; return its last elements if the next tile needs them."""
        emitter, transfers = self._emitter, self.kernel.transfers
        accesses, axis = self.kernel.space.accesses, len(self._roles["outer"])
        symbols = frozenset(
            symbol for role in ("outer", "scanned", "inner") for symbol in self._roles[role]
        )
        loaded = transfers.load(accesses[self._spec.inputs[0]], tile, {})
        loaded = transfers.broadcast_to(loaded, tile.axes_of(symbols), tile)
        value = converted(emitter, loaded.ssa, self._accumulator)
        value = self._merged(value, axis, len(self._roles["scanned"]))
        value = self._scanned(value, axis)
        if carried:
            previous = self._repeated(carried[0], static_shape_of(value), axis)
            value = self._combine(emitter, previous, value)
        self._store(value, tile)
        return [self._last(value, axis)] if carried else ()

    def _repeated(self, value: SSAValue, shape: tuple[int, ...], axis: int) -> SSAValue:
        """Return a value that is repeated along an axis of `shape`, which it lacks."""
        if len(shape) > 1:
            return self._emitter.broadcast(value, shape, [axis])
        # A tensor of one element stands for one without dims.
        row = self._emitter.broadcast(value, (1, *shape), [1])
        return self._emitter.reshape(row, [[0, 1]], shape)

    def _store(self, value: SSAValue, tile: Frame) -> None:
        columns, scanned = self._roles["column"], self._roles["scanned"]
        origins, extents, valid = dict(tile.origins), dict(tile.extents), dict(tile.valid)
        if len(columns) == len(scanned) == 1:
            origins[columns[0]] = tile.origins[scanned[0]]
            extents[columns[0]] = tile.extents[scanned[0]]
            valid[columns[0]] = tile.valid[scanned[0]]
        target = replace(tile, origins=origins, extents=extents, valid=valid)
        output = self.kernel.space.accesses[self._spec.output]
        axes = target.axes_of(output.symbols)
        result = converted(self._emitter, value, self._result_type)
        position = len(self._roles["outer"])
        shape = target.shape(axes)
        groups = [[dim] for dim in range(position)]
        groups += [list(range(position, position + len(columns)))]
        groups += [[dim] for dim in range(position + len(columns), len(shape))]
        result = self._emitter.reshape(result, groups, shape)
        self.kernel.transfers.store(output, target, Value(result, axes), {}, is_partial=False)

    def _merged(self, value: SSAValue, axis: int, count: int) -> SSAValue:
        """Return a value whose `count` dims from `axis` on are one."""
        shape = static_shape_of(value)
        groups = [[dim] for dim in range(axis)]
        groups += [list(range(axis, axis + count))]
        groups += [[dim] for dim in range(axis + count, len(shape))]
        merged = (*shape[:axis], math.prod(shape[axis : axis + count]), *shape[axis + count :])
        return self._emitter.reshape(value, groups, merged)

    def _scanned(self, value: SSAValue, axis: int) -> SSAValue:
        """Return the scan of a value along an axis."""
        shape, distance = static_shape_of(value), 1
        while distance < shape[axis]:
            earlier = self._part(value, axis, 0, shape[axis] - distance)
            later = self._part(value, axis, distance, shape[axis] - distance)
            combined = self._combine(self._emitter, earlier, later)
            offsets = tuple(distance if dim == axis else 0 for dim in range(len(shape)))
            value = self._emitter.insert(combined, value, offsets)
            distance *= 2
        return value

    def _part(self, value: SSAValue, axis: int, start: int, length: int) -> SSAValue:
        shape = static_shape_of(value)
        offsets = tuple(start if dim == axis else 0 for dim in range(len(shape)))
        sizes = tuple(length if dim == axis else size for dim, size in enumerate(shape))
        return self._emitter.slice(value, offsets, sizes)

    def _last(self, value: SSAValue, axis: int) -> SSAValue:
        """Return the last elements along an axis, without that axis."""
        shape = static_shape_of(value)
        last = self._part(value, axis, shape[axis] - 1, 1)
        if len(shape) == 1:
            return last
        # The dim of size 1 is merged with a neighbour.
        neighbour = axis - 1 if axis > 0 else axis
        groups = [[dim] for dim in range(neighbour)]
        groups += [[neighbour, neighbour + 1]]
        groups += [[dim] for dim in range(neighbour + 2, len(shape))]
        return self._emitter.reshape(last, groups, (*shape[:axis], *shape[axis + 1 :]))

    @property
    def _accumulator(self) -> Attribute:
        """The type in which elements are combined: floats are rounded once, at the end."""
        return F32 if is_float(self._result_type) else self._result_type

    @property
    def _combine(self) -> Combine:
        return _COMBINES[self._spec.op]

    @property
    def _identity(self) -> float:
        """The value that does not change what it is combined with."""
        if not isinstance(self._accumulator, IntegerType):
            return _IDENTITIES[self._spec.op]
        limit: int = 2 ** (self._accumulator.width.data - 1)
        return max(-limit, min(limit - 1, _IDENTITIES[self._spec.op]))


def _add(emitter: Emitter, a: SSAValue, b: SSAValue) -> SSAValue:
    return emitter.add(_float_or_integer(arith.AddfOp, arith.AddiOp, a)(a, b))


def _multiply(emitter: Emitter, a: SSAValue, b: SSAValue) -> SSAValue:
    return emitter.add(_float_or_integer(arith.MulfOp, arith.MuliOp, a)(a, b))


def _maximum(emitter: Emitter, a: SSAValue, b: SSAValue) -> SSAValue:
    return emitter.add(_float_or_integer(arith.MaximumfOp, arith.MaxSIOp, a)(a, b))


def _minimum(emitter: Emitter, a: SSAValue, b: SSAValue) -> SSAValue:
    return emitter.add(_float_or_integer(arith.MinimumfOp, arith.MinSIOp, a)(a, b))


def _log_add_exp(emitter: Emitter, a: SSAValue, b: SSAValue) -> SSAValue:
    """Emit max(a, b) + log1p(exp(-|a - b|)); equal infinities are their own result."""
    larger = emitter.add(arith.MaximumfOp(a, b))
    distance = emitter.add(math_dialect.AbsFOp(emitter.add(arith.SubfOp(a, b))))
    ratio = emitter.add(math_dialect.ExpOp(emitter.add(arith.NegfOp(distance))))
    result = emitter.add(arith.AddfOp(larger, emitter.add(math_dialect.Log1pOp(ratio))))
    is_equal = emitter.add(ktir_arith.CmpfOp("oeq", a, b))
    doubled = emitter.add(arith.AddfOp(larger, full_like(emitter, math.log(2.0), larger)))
    return emitter.add(ktir_arith.SelectOp(is_equal, doubled, result))


def _float_or_integer(floats: BinaryOp, integers: BinaryOp, operand: SSAValue) -> BinaryOp:
    return floats if is_float(element_of(operand)) else integers


_COMBINES: Mapping[str, Combine] = {
    SCANS["add"]: _add,
    SCANS["mul"]: _multiply,
    SCANS["max"]: _maximum,
    SCANS["min"]: _minimum,
    SCANS["logaddexp"]: _log_add_exp,
}
_IDENTITIES: Mapping[str, float] = {
    SCANS["add"]: 0,
    SCANS["mul"]: 1,
    SCANS["max"]: -math.inf,
    SCANS["min"]: math.inf,
    SCANS["logaddexp"]: -math.inf,
}
