"""Emits the loops over tiles of keys, skipping tiles that a causal mask hides from all rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sympy import Symbol
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from torch_spyre._inductor.multi_loop.attention.operands import AttentionOperands
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.emitter import Emitter
from torch_spyre._inductor.to_ktir.extents import Extent, Size, known, maximum_of
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.tiles import Frame

Values = Sequence[SSAValue]
# Emits one tile of keys, from its frame, the carried values, and whether to apply the causal mask.
# Returns the values to carry to the next tile.
TileBody = Callable[[Frame, Values, bool], Values]
_LoopBody = Callable[[Index, Values], Values]


@dataclass(frozen=True)
class KeyLoop:
    """Visits all tiles of keys for the rows of one tile, in order."""

    emitter: Emitter
    operands: AttentionOperands
    plan: TilePlan
    frame: Frame
    is_causal: bool

    def emit(self, carried: Values, body: TileBody) -> Values:
        """Return the values after the last tile."""
        *outer, innermost = self.operands.keys
        return self._emit_nest(outer, innermost, self.frame, carried, body)

    def _emit_nest(
        self,
        outer: Sequence[Symbol],
        innermost: Symbol,
        frame: Frame,
        carried: Values,
        body: TileBody,
    ) -> Values:
        """Emit loops over the outer symbols of keys, then over tiles of the innermost."""
        if not outer:
            return self._emit_tiles(innermost, frame, carried, body)
        symbol, *inner = outer
        return self.emitter.loop(
            known(frame.extents[symbol]),
            1,
            carried,
            lambda index, values: self._emit_nest(
                inner, innermost, _with_tile(frame, symbol, index, 1), values, body
            ),
        )

    def _emit_tiles(self, symbol: Symbol, frame: Frame, carried: Values, body: TileBody) -> Values:
        size, tile = self.plan.space.sizes[symbol], self.plan.tile[symbol]
        extent = frame.extents[symbol]
        if isinstance(extent, Extent):
            return self._emit_tiles_of_extent(symbol, extent, frame, carried, body)
        full_tiles_end = size // tile * tile
        visible_end, masked_end, remainder_end = self._bounds(tile, full_tiles_end)

        def tile_body(extent: int, apply_causal_mask: bool) -> _LoopBody:
            return lambda index, values: body(
                _with_tile(frame, symbol, index, extent), values, apply_causal_mask
            )

        carried = self._emit_loop(Index(0), visible_end, tile, carried, tile_body(tile, False))
        carried = self._emit_loop(
            visible_end, masked_end, tile, carried, tile_body(tile, self.is_causal)
        )
        if full_tiles_end == size:
            return carried
        remainder = tile_body(size - full_tiles_end, self.is_causal)
        start = Index(full_tiles_end)
        return self._emit_loop(
            start, remainder_end, 1, carried, lambda _, values: remainder(start, values)
        )

    def _emit_tiles_of_extent(
        self, symbol: Symbol, size: Extent, frame: Frame, carried: Values, body: TileBody
    ) -> Values:
        """Emit the loops for a number of keys that is known at launch; the last tile may be short.

        Tiles that all rows see come first; they are full and have no mask.
        """
        tile = self.plan.tile[symbol]
        if size.maximum <= tile:
            return body(_with_tile(frame, symbol, Index(0), size), carried, self.is_causal)
        full_end, end = size // tile * tile, size
        if self.is_causal:
            first_row = self._first_row_plus(1)
            visible = Extent(self.emitter.indices.value(first_row), size.maximum, size.arithmetic)
            full_end = visible.at_most(size) // tile * tile
            last_row = self.emitter.indices.value(self._first_row_plus(self._row_span))
            end = size.at_most(Extent(last_row, size.maximum, size.arithmetic))
            if len(self.operands.keys) > 1:
                full_end, end = Extent(self.emitter.indices.constant(0), 0, size.arithmetic), size

        def short_tile(index: Index, values: Values) -> Values:
            assert index.value is not None
            keys = size.after(index.value).at_most(tile)
            return body(_with_tile(frame, symbol, index, keys), values, self.is_causal)

        carried = self.emitter.loop_between(
            Index(0),
            Index(0, full_end.value, tile),
            tile,
            carried,
            lambda index, values: body(_with_tile(frame, symbol, index, tile), values, False),
        )
        start = Index(0, full_end.value, tile)
        return self.emitter.loop_between(start, Index(0, end.value, 1), tile, carried, short_tile)

    def _bounds(self, tile: int, full_tiles_end: int) -> tuple[Index, Index, Index]:
        """Return the end of the tiles that all rows see, and of those that any row sees.

        The third index is the end of a loop of step 1 over the last, smaller tile: one after its
        start if any row sees it, and not after its start otherwise.
        """
        remainder_end = Index(full_tiles_end + 1)
        if not self.is_causal:
            return Index(full_tiles_end), Index(full_tiles_end), remainder_end
        if len(self.operands.keys) > 1:
            return Index(0), Index(full_tiles_end), remainder_end
        num_rows = self._row_span
        visible_end = self._rounded_down(self._first_row_plus(1), tile, full_tiles_end)
        end = self._first_row_plus(num_rows)
        masked_end = self._rounded_down(
            self._first_row_plus(num_rows + tile - 1), tile, full_tiles_end
        )
        return visible_end, masked_end, self._minimum(end, full_tiles_end + 1)

    @property
    def _row_span(self) -> int:
        """A bound of the number of row indices from the first to the last row of the tile."""
        row_index = self.operands.row_index
        return 1 + sum(
            int(row_index.coeff(symbol)) * (maximum_of(self.frame.extents[symbol]) - 1)
            for symbol in row_index.free_symbols
        )

    def _first_row_plus(self, offset: int) -> Index:
        """Return the index of the tile's first row, plus an offset."""
        arithmetic, total = self.emitter.indices, Index(offset)
        for symbol in sorted(self.operands.row_index.free_symbols, key=str):
            step = int(self.operands.row_index.coeff(symbol))
            total = arithmetic.plus(total, arithmetic.times(self.frame.origins[symbol], step))
        return total

    def _rounded_down(self, index: Index, tile: int, limit: int) -> Index:
        """Return the largest multiple of `tile` up to `index` and to `limit`, a multiple itself."""
        if index.is_known:
            return Index(min(index.offset // tile * tile, limit))
        arithmetic = self.emitter.indices
        count = arith.DivUIOp(arithmetic.value(index), arithmetic.constant(tile))
        tiles = Index(0, arithmetic.add_op(count), 1)
        return arithmetic.times(self._minimum(tiles, limit // tile), tile)

    def _minimum(self, index: Index, limit: int) -> Index:
        if index.is_known:
            return Index(min(index.offset, limit))
        arithmetic = self.emitter.indices
        minimum = arith.MinSIOp(arithmetic.value(index), arithmetic.constant(limit))
        return Index(0, arithmetic.add_op(minimum), 1)

    def _emit_loop(
        self, lower: Index, upper: Index, step: int, carried: Values, body: _LoopBody
    ) -> Values:
        """Emit a loop, or only its body if the number of iterations is known to be 0 or 1."""
        if lower.is_known and upper.is_known:
            trips = -(-(upper.offset - lower.offset) // step)
            if trips < 2:
                return body(lower, carried) if trips == 1 else carried
        return self.emitter.loop_between(lower, upper, step, carried, body)


def _with_tile(frame: Frame, symbol: Symbol, origin: Index, extent: Size) -> Frame:
    return replace(
        frame,
        origins={**frame.origins, symbol: origin},
        extents={**frame.extents, symbol: extent},
    )
