"""Attention on one tile of rows: keys stream past, and no score ever leaves the scratchpad.

For each row the largest score so far, the sum of exponentials and the weighted sum of values are
carried along in float32; a larger score shrinks what was summed before it.

A score of minus infinity has no weight, and a row of them gives zeros.
"""

import math as numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from sympy import Symbol
from xdsl.dialects import arith, math, tensor
from xdsl.ir import SSAValue

from torch_spyre._inductor.attention_roles import ATTENTION
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.to_ktir.attention_tiles import roles_of
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.coordinates import emit_index
from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of, shape_of
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.plan import TilePlan
from torch_spyre._inductor.to_ktir.tiles import Axis, Frame, Value
from torch_spyre._inductor.to_ktir.transfers import Transfers
from torch_spyre._inductor.to_ktir.types import F32, I32, element_type
from torch_spyre.ktir.dialects import arith as ktir_arith
from torch_spyre.ktir.dialects.linalg import MatmulOp

_NOTHING = -numbers.inf
# From where a tile of keys begins, and what was carried to it, to what it yields.
Step = Callable[[Index, Sequence[SSAValue]], Sequence[SSAValue]]


@dataclass(frozen=True)
class _Sums:
    """What one tile of keys hands to the next. No weighted sum where none is asked for."""

    largest: SSAValue
    total: SSAValue
    weighted: SSAValue | None

    @property
    def values(self) -> list[SSAValue]:
        found = [self.largest, self.total]
        return found if self.weighted is None else [*found, self.weighted]

    @staticmethod
    def of(values: Sequence[SSAValue]) -> "_Sums":
        largest, total, *rest = values
        return _Sums(largest, total, rest[0] if rest else None)


class Attention:
    def __init__(
        self, emitter: Emitter, transfers: Transfers, specs: Sequence[OpSpec], plan: TilePlan
    ) -> None:
        self.emitter, self.transfers, self.specs, self.plan = emitter, transfers, specs, plan
        self.roles = roles_of(specs, plan.space)
        self.scale = float(specs[0].constants["scale"])
        self.causal = bool(specs[0].constants["causal"])

    def tile(self, frame: Frame) -> None:
        """All keys for the rows of this tile."""
        self.frame = frame
        self.row_shape = tuple(frame.extents[each] for each in self.roles.rows) or (1,)
        self.rows = prod(self.row_shape)
        self.query = self._matrix(self.roles.query, self.roles.rows, self.roles.inner, frame)
        if _is_exact(self.scale):
            self.query = self._scaled(self.query)
        begin = _Sums(
            self._filled(_NOTHING, self.row_shape),
            self._filled(0.0, self.row_shape),
            None if self.roles.value is None else self._filled(0.0, (self.rows, self._channels)),
        )
        self._finish(_Sums.of(self._walk(begin.values)))

    @property
    def _channels(self) -> int:
        return prod(self.frame.extents[symbol] for symbol in self.roles.values)

    # The keys

    def _walk(self, state: Sequence[SSAValue]) -> Sequence[SSAValue]:
        *outer, last = self.roles.keys
        return self._nest(outer, last, self.frame, state)

    def _nest(
        self, outer: Sequence[Symbol], last: Symbol, frame: Frame, state: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """Loops over parts of the keys that lie apart in memory; tiles of the last part."""
        if outer:
            symbol, *inner = outer
            return self.emitter.loop(
                frame.extents[symbol],
                1,
                state,
                lambda here, carried: self._nest(inner, last, _at(frame, symbol, here, 1), carried),
            )
        size, tile = self.plan.space.sizes[last], self.plan.tile[last]
        whole = size // tile * tile
        free, seen, ragged = self._bounds(tile, whole, size)

        def step(extent: int, compares: bool) -> Step:
            return lambda here, carried: (
                self._step(_at(frame, last, here, extent), _Sums.of(carried), compares).values
            )

        state = self._loop(Index(0), free, tile, state, step(tile, False))
        state = self._loop(free, seen, tile, state, step(tile, self.causal))
        if whole == size:
            return state
        rest = step(size - whole, self.causal)
        return self._loop(
            Index(whole), ragged, 1, state, lambda _, carried: rest(Index(whole), carried)
        )

    def _bounds(self, tile: int, whole: int, size: int) -> tuple[Index, Index, Index]:
        """Where tiles end that all rows see, and those that any row sees; then the last, smaller.

        The end of that one is just behind its begin: it is there once or not at all.
        """
        after = Index(whole + 1)
        if not self.causal:
            return Index(whole), Index(whole), after
        if len(self.roles.keys) > 1:
            return Index(0), Index(whole), after
        free = self._multiple(self._row_plus(1), tile, whole)
        end = self._row_plus(self._row_span)
        seen = self._multiple(self._row_plus(self._row_span + tile - 1), tile, whole)
        return free, seen, self._least(end, whole + 1)

    @property
    def _row_span(self) -> int:
        """How many numbers lie from the first row of the tile to the last."""
        return 1 + sum(
            int(self.roles.row.coeff(symbol)) * (self.frame.extents[symbol] - 1)
            for symbol in self.roles.row.free_symbols
        )

    def _row_plus(self, more: int) -> Index:
        """The number of the tile's first row, and `more`."""
        arithmetic, total = self.emitter.indices, Index(more)
        for symbol in sorted(self.roles.row.free_symbols, key=str):
            step = int(self.roles.row.coeff(symbol))
            total = arithmetic.plus(total, arithmetic.times(self.frame.origins[symbol], step))
        return total

    def _multiple(self, index: Index, tile: int, limit: int) -> Index:
        """The last multiple of the tile up to an index; `limit`, a multiple itself, at most."""
        if index.known:
            return Index(min(index.offset // tile * tile, limit))
        arithmetic = self.emitter.indices
        count = arith.DivUIOp(arithmetic.value(index), arithmetic.constant(tile))
        tiles = Index(0, arithmetic.add_op(count), 1)
        return arithmetic.times(self._least(tiles, limit // tile), tile)

    def _least(self, index: Index, limit: int) -> Index:
        if index.known:
            return Index(min(index.offset, limit))
        arithmetic = self.emitter.indices
        least = arith.MinSIOp(arithmetic.value(index), arithmetic.constant(limit))
        return Index(0, arithmetic.add_op(least), 1)

    def _loop(
        self, lower: Index, upper: Index, step: int, state: Sequence[SSAValue], body: Step
    ) -> Sequence[SSAValue]:
        """Without a loop where the trips are known, and none or one."""
        if lower.known and upper.known:
            trips = -(-(upper.offset - lower.offset) // step)
            if trips < 2:
                return body(lower, state) if trips == 1 else state
        return self.emitter.between(lower, upper, step, state, body)

    # One tile of keys

    def _step(self, frame: Frame, sums: _Sums, compares: bool) -> _Sums:
        bias = self._bias(frame)
        if bias is None:
            return self._folded(frame, sums, None, compares)
        # Keys and values that no row of the tile sees are not even loaded.
        arithmetic = self.emitter.indices
        one, zero = arithmetic.constant(1), arithmetic.constant(0)
        trips = self.emitter.add(ktir_arith.SelectOp(self._shows(bias.ssa), one, zero))
        return _Sums.of(
            self.emitter.between(
                Index(0),
                Index(0, trips, 1),
                1,
                sums.values,
                lambda _, carried: self._folded(frame, _Sums.of(carried), bias, compares).values,
            )
        )

    def _bias(self, frame: Frame) -> Value | None:
        """In float32; along rows only where it differs from row to row."""
        arg = self.roles.bias
        if arg is None:
            return None
        loaded = self.transfers.load(self.plan.space.accesses[arg], frame, {})
        rows = [axis for axis in loaded.axes if axis.symbol in self.roles.rows]
        wanted = {*loaded.axes, *map(Axis, self.roles.keys)}
        axes = [axis for axis in frame.axes if axis in wanted]
        raw = self.transfers.spread(loaded, axes, frame).ssa
        groups: list[list[int]] = [[] for _ in range(len(rows) + 1)]
        position = 0
        for place, axis in enumerate(axes):
            groups[position].append(place)
            if position < len(rows) and axis == rows[position]:
                position += 1
        raw = self.emitter.reshape(raw, groups, _joined_shape(shape_of(raw), groups))
        return Value(converted(self.emitter, raw, F32), tuple(rows))

    def _shows(self, bias: SSAValue) -> SSAValue:
        """Is any of it more than minus infinity? A NaN must be seen too."""
        emitter, shape = self.emitter, shape_of(bias)
        groups = [[0, 1], *([dim + 1] for dim in range(1, len(shape)))]
        flat = emitter.reshape(bias, groups, (1, *shape))
        dims = range(1, len(shape) + 1)
        top = emitter.reduce(flat, self._filled(_NOTHING, (1,)), dims, arith.MaximumfOp)
        zero = emitter.indices.constant(0)
        found = emitter.add(tensor.ExtractOp(top, [zero], F32))
        return emitter.add(ktir_arith.CmpfOp("une", found, emitter.scalar(_NOTHING, F32)))

    def _folded(self, frame: Frame, sums: _Sums, bias: Value | None, compares: bool) -> _Sums:
        emitter = self.emitter
        scores = self._scores(frame, bias, compares)
        along = len(shape_of(scores)) - 1
        largest = emitter.reduce(scores, sums.largest, [along], arith.MaximumfOp)
        level = self._level(largest)
        shrink = emitter.add(math.ExpOp(emitter.add(arith.SubfOp(sums.largest, level))))
        levels = emitter.broadcast(level, shape_of(scores), [along])
        weights = emitter.add(math.ExpOp(emitter.add(arith.SubfOp(scores, levels))))
        before = emitter.add(arith.MulfOp(sums.total, shrink))
        total = emitter.reduce(weights, before, [along], arith.AddfOp)
        if sums.weighted is None or self.roles.value is None:
            return _Sums(largest, total, None)
        value = self._matrix(self.roles.value, self.roles.keys, self.roles.values, frame)
        shrinks = self._of_rows(shrink, shape_of(sums.weighted))
        kept = emitter.add(arith.MulfOp(sums.weighted, shrinks))
        factor = converted(emitter, self._flat_rows(weights), element_of(value))
        return _Sums(largest, total, emitter.add(MatmulOp([factor, value], [kept])))

    def _scores(self, frame: Frame, bias: Value | None, compares: bool) -> SSAValue:
        """For each row and key, in float32."""
        emitter = self.emitter
        key = self._matrix(self.roles.key, self.roles.keys, self.roles.inner, frame)
        count = shape_of(key)[0]
        blank = self._filled(0.0, (self.rows, count))
        raw = emitter.add(MatmulOp([self.query, emitter.transpose(key, [1, 0])], [blank]))
        shape = (*self.row_shape, count)
        rank = len(self.row_shape)
        scores = emitter.reshape(raw, [list(range(rank)), [rank]], shape)
        if not _is_exact(self.scale):
            scores = self._scaled(scores)
        if bias is not None:
            own = [self.roles.rows.index(axis.symbol) for axis in bias.axes]
            missing = [dim for dim in range(rank) if dim not in own]
            scores = emitter.add(arith.AddfOp(scores, emitter.broadcast(bias.ssa, shape, missing)))
        if compares:
            seen = self._seen(frame, shape)
            scores = self._select(seen, scores, self._filled(_NOTHING, shape))
        return scores

    def _seen(self, frame: Frame, shape: tuple[int, ...]) -> SSAValue:
        """Keys up to the row's own number."""
        emitter = self.emitter
        columns = emit_index(emitter, self.roles.column, I32, frame).ssa
        columns = emitter.reshape(columns, [list(range(len(self.roles.keys)))], shape[-1:])
        columns = emitter.broadcast(columns, shape, list(range(len(shape) - 1)))
        rows = emit_index(emitter, self.roles.row, I32, frame)
        if rows.is_scalar:
            return emitter.add(ktir_arith.CmpiOp("sle", columns, emitter.splat(rows.ssa, shape)))
        own = [self.roles.rows.index(axis.symbol) for axis in rows.axes]
        missing = [dim for dim in range(len(shape)) if dim not in own]
        numbered = emitter.broadcast(rows.ssa, shape, missing)
        return emitter.add(ktir_arith.CmpiOp("sle", columns, numbered))

    def _level(self, largest: SSAValue) -> SSAValue:
        """What scores are compared with: 0 for rows that have seen nothing yet."""
        if self.roles.bias is None:
            return largest
        shape = shape_of(largest)
        nothing = ktir_arith.CmpfOp("oeq", largest, self._filled(_NOTHING, shape))
        return self._select(self.emitter.add(nothing), self._filled(0.0, shape), largest)

    # The end

    def _finish(self, sums: _Sums) -> None:
        emitter, shape = self.emitter, self.row_shape
        level, total = self._level(sums.largest), sums.total
        if self.roles.bias is not None:
            nothing = ktir_arith.CmpfOp("oeq", total, self._filled(0.0, shape))
            total = self._select(emitter.add(nothing), self._filled(1.0, shape), total)
        for spec in self.specs:
            if spec.op == ATTENTION:
                assert sums.weighted is not None
                totals = self._of_rows(total, shape_of(sums.weighted))
                mean = emitter.add(arith.DivfOp(sums.weighted, totals))
                self._store(spec.output, mean, (*self.roles.rows, *self.roles.values))
            else:
                logarithm = emitter.add(math.LogOp(total))
                found = emitter.add(arith.AddfOp(level, logarithm))
                self._store(spec.output, found, self.roles.rows)

    def _store(self, arg: TensorArg, raw: SSAValue, symbols: Sequence[Symbol]) -> None:
        emitter, frame = self.emitter, self.frame
        raw = converted(emitter, raw, element_type(arg.device_dtype))
        # All elements of the tile as one dim, then a dim for each symbol.
        shape = tuple(frame.extents[symbol] for symbol in symbols)
        rank = len(shape_of(raw))
        raw = emitter.reshape(raw, [list(range(rank))] if rank else [], (prod(shape),))
        raw = emitter.reshape(raw, [list(range(len(shape)))] if shape else [], shape)
        axes = tuple(Axis(symbol) for symbol in symbols)
        access = self.plan.space.accesses[arg]
        self.transfers.store(access, frame, Value(raw, axes), {}, partial=False)

    # Pieces

    def _matrix(
        self, arg: TensorArg, first: Sequence[Symbol], second: Sequence[Symbol], frame: Frame
    ) -> SSAValue:
        """A tile as a matrix; what it does not have of its symbols is the same along them."""
        loaded = self.transfers.load(self.plan.space.accesses[arg], frame, {})
        wanted = {*loaded.axes, *map(Axis, (*first, *second))}
        axes = [axis for axis in frame.axes if axis in wanted]
        raw = self.transfers.spread(loaded, axes, frame).ssa
        cut = len(axes) - len(second)
        groups = [list(range(cut)), list(range(cut, len(axes)))]
        columns = prod(frame.extents[symbol] for symbol in second)
        if cut:
            return self.emitter.reshape(raw, groups, (prod(shape_of(raw)[:cut]), columns))
        raw = self.emitter.reshape(raw, groups[1:], (columns,))
        return self.emitter.reshape(raw, [[0, 1]], (1, columns))

    def _flat_rows(self, raw: SSAValue) -> SSAValue:
        rank = len(self.row_shape)
        return self.emitter.reshape(
            raw, [list(range(rank)), [rank]], (self.rows, shape_of(raw)[-1])
        )

    def _of_rows(self, raw: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        """A number for each row, along all columns of a matrix."""
        flat = self.emitter.reshape(raw, [list(range(len(self.row_shape)))], (self.rows,))
        return self.emitter.broadcast(flat, shape, [1])

    def _scaled(self, raw: SSAValue) -> SSAValue:
        return self.emitter.add(
            arith.MulfOp(raw, self._filled(self.scale, shape_of(raw), like=raw))
        )

    def _select(self, condition: SSAValue, one: SSAValue, other: SSAValue) -> SSAValue:
        return self.emitter.add(ktir_arith.SelectOp(condition, one, other))

    def _filled(
        self, value: float, shape: tuple[int, ...], like: SSAValue | None = None
    ) -> SSAValue:
        element = F32 if like is None else element_of(like)
        return self.emitter.splat(self.emitter.scalar(value, element), shape)


def _at(frame: Frame, symbol: Symbol, origin: Index, extent: int) -> Frame:
    return replace(
        frame,
        origins={**frame.origins, symbol: origin},
        extents={**frame.extents, symbol: extent},
    )


def _joined_shape(shape: tuple[int, ...], groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(prod(shape[dim] for dim in group) for group in groups)


def _is_exact(scale: float) -> bool:
    """Does multiplying by it only move the exponent?"""
    return abs(numbers.frexp(scale)[0]) == 0.5 and 2**-16 <= abs(scale) <= 1
