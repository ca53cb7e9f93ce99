"""Unrolls loops over tiles into ops on single tiles."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import sympy

from torch_spyre._inductor.op_spec import LoopSpec, OpSpec, Spec, TensorArg, UnimplementedOp


@dataclass(frozen=True)
class Trip:
    """One trip of a loop around an op: the loop's trip count and symbols, and the trip's index."""

    count: int
    symbols: tuple[sympy.Symbol, ...]
    index: int


def unroll_loop_specs(specs: Sequence[Spec]) -> list[OpSpec | UnimplementedOp]:
    """Return the specs with loops unrolled: one op per trip, on the tile of that trip."""
    return list(_unrolled(specs, ()))


def _unrolled(specs: Sequence[Spec], trips: tuple[Trip, ...]) -> Iterator[OpSpec | UnimplementedOp]:
    for spec in specs:
        if isinstance(spec, LoopSpec):
            count = trip_count(spec)
            if count is None:
                raise ValueError(
                    f"a loop of {spec.count} trips cannot be unrolled: the count is not a constant"
                )
            for index in range(count):
                yield from _unrolled(spec.body, (*trips, Trip(count, loop_symbols(spec), index)))
        elif isinstance(spec, OpSpec):
            yield select_tile(spec, trips)
        else:
            yield spec


def trip_count(loop: LoopSpec) -> int | None:
    """Return the trip count, or None if it is symbolic."""
    count = sympy.sympify(loop.count)
    return int(count) if count.is_Integer else None


def loop_symbols(loop: LoopSpec) -> tuple[sympy.Symbol, ...]:
    """Return the symbols that a loop tiles; by default those of its first op."""
    if loop.tiled_symbols:
        return tuple(loop.tiled_symbols)
    first = next((spec for spec in loop.body if isinstance(spec, OpSpec)), None)
    return tuple(first.tiled_symbols) if first else ()


def select_tile(spec: OpSpec, trips: Sequence[Trip]) -> OpSpec:
    """Return the op on the tile of the given trips, listed from the outermost loop.

    Its tensors preserve their full extents; their coordinates are offset to the tile.
    """
    replacements = {}
    for symbol, (size, _) in spec.iteration_space.items():
        if spec.tiled_symbols and symbol not in spec.tiled_symbols:
            continue
        symbol_trips = [trip for trip in trips if symbol in trip.symbols]
        # Of two loops over the same dim, the inner one divides the tile of the outer one.
        tile = 0
        for trip in symbol_trips:
            tile = tile * trip.count + trip.index
        if tile:
            replacements[symbol] = symbol + tile * int(size)
    args = [_offset_to_tile(arg, replacements) for arg in spec.args] if replacements else spec.args
    return replace(spec, args=args, tiled_symbols=())


def _offset_to_tile(arg: TensorArg, replacements: dict[sympy.Symbol, sympy.Expr]) -> TensorArg:
    if arg.per_tile_fixed:
        return arg
    coordinates = [
        sympy.sympify(coordinate).xreplace(replacements) for coordinate in arg.device_coordinates
    ]
    return replace(arg, device_coordinates=coordinates)


def make_trips(loops: Sequence[LoopSpec], indices: Sequence[int]) -> list[Trip]:
    """Return the trips with the given index in each loop."""
    return [
        Trip(trip_count(loop) or 0, loop_symbols(loop), index)
        for loop, index in zip(loops, indices, strict=True)
    ]
