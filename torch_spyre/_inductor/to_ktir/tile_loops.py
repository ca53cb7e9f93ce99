"""Emits loops over the tiles of symbols."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sympy import Symbol
from xdsl.ir import SSAValue

from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.emitter import Emitter
from torch_spyre._inductor.to_ktir.extents import Extent
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.tiles import Frame

# Emits one tile from the values that the previous tile returned.
TileBody = Callable[[Frame, Sequence[SSAValue]], Sequence[SSAValue]]


@dataclass(frozen=True)
class TileRange:
    """Consecutive tiles of `extent` elements along a symbol, of which `valid` are not padding."""

    trips: int
    start: int
    extent: int
    valid: int


def tile_ranges(plan: TilePlan, symbol: Symbol) -> list[TileRange]:
    """Return the full tiles of a core along a symbol, then the partial one, if any."""
    tile, space = plan.tile[symbol], plan.space
    is_reduced_whole = symbol in space.reduced and space.splits[symbol] == 1
    size = space.sizes[symbol] if is_reduced_whole else plan.per_core[symbol]
    trips, remainder = divmod(size, tile)
    ranges = [TileRange(trips, 0, tile, tile)] if trips else []
    if remainder:
        extent = remainder
        if symbol in plan.padded:
            extent = min(tile, plan.per_core[symbol] - trips * tile)
        ranges.append(TileRange(1, trips * tile, extent, remainder))
    return ranges


def emit_tile_loops(
    emitter: Emitter,
    plan: TilePlan,
    symbols: Sequence[Symbol],
    frame: Frame,
    carried: Sequence[SSAValue],
    body: TileBody,
) -> list[SSAValue]:
    """Emit loops over the tiles of these symbols, outermost first.

    The first tile gets `carried`; return the values of the last tile.
    """
    if not symbols:
        return list(body(frame, carried))
    symbol, *inner = symbols
    if isinstance(frame.extents[symbol], Extent):
        return _emit_counted_at_launch(emitter, plan, symbols, frame, carried, body)
    for tiles in tile_ranges(plan, symbol):

        def loop_body(
            index: Index, values: Sequence[SSAValue], tiles: TileRange = tiles
        ) -> Sequence[SSAValue]:
            tile_frame = _frame_at(emitter, frame, symbol, index, tiles)
            return emit_tile_loops(emitter, plan, inner, tile_frame, values, body)

        carried = emitter.loop(tiles.trips, plan.tile[symbol], carried, loop_body)
    return list(carried)


def _emit_counted_at_launch(
    emitter: Emitter,
    plan: TilePlan,
    symbols: Sequence[Symbol],
    frame: Frame,
    carried: Sequence[SSAValue],
    body: TileBody,
) -> list[SSAValue]:
    """Emit the loop over tiles of a symbol whose size is known at launch. The last may be short."""
    symbol, *inner = symbols
    tile, extent, valid = plan.tile[symbol], frame.extents[symbol], frame.valid[symbol]
    assert isinstance(extent, Extent)
    if extent.maximum <= tile:
        return emit_tile_loops(emitter, plan, inner, frame, carried, body)

    def loop_body(index: Index, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        assert index.value is not None
        tile_extent = extent.after(index.value).at_most(tile)
        tile_valid = tile_extent
        if valid != extent:
            assert isinstance(valid, Extent)
            tile_valid = valid.after(index.value).at_most(tile)
        tile_frame = replace(
            frame,
            origins={
                **frame.origins,
                symbol: emitter.indices.plus(frame.origins[symbol], index),
            },
            extents={**frame.extents, symbol: tile_extent},
            valid={**frame.valid, symbol: tile_valid},
        )
        return emit_tile_loops(emitter, plan, inner, tile_frame, values, body)

    end = Index(0, extent.value, 1)
    return emitter.loop_between(Index(0), end, tile, carried, loop_body)


def _frame_at(
    emitter: Emitter, frame: Frame, symbol: Symbol, index: Index, tiles: TileRange
) -> Frame:
    """Return the frame of the tile at `index` of a range, in elements along the symbol."""
    arithmetic = emitter.indices
    origin = arithmetic.plus(arithmetic.plus(frame.origins[symbol], index), Index(tiles.start))
    return replace(
        frame,
        origins={**frame.origins, symbol: origin},
        extents={**frame.extents, symbol: tiles.extent},
        valid={**frame.valid, symbol: tiles.valid},
    )
