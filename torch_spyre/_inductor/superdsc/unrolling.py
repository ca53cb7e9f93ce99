"""Loops over tiles, as ops on one tile each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import sympy

from torch_spyre._inductor.op_spec import LoopSpec, OpSpec, Spec, TensorArg, UnimplementedOp


@dataclass(frozen=True)
class Trip:
    """Of a loop around an op: which of its tiles is worked on."""

    count: int
    symbols: tuple[sympy.Symbol, ...]
    index: int


def unroll_loop_specs(specs: Sequence[Spec]) -> list[OpSpec | UnimplementedOp]:
    """Every op as often as its loops run it, each time on its own tile."""
    return list(_unrolled(specs, ()))


def _unrolled(specs: Sequence[Spec], trips: tuple[Trip, ...]) -> Iterator[OpSpec | UnimplementedOp]:
    for spec in specs:
        if isinstance(spec, LoopSpec):
            count = trip_count(spec)
            if count is None:
                raise ValueError(
                    f"a loop of {spec.count} trips cannot be unrolled: its count is not a number"
                )
            for index in range(count):
                yield from _unrolled(spec.body, (*trips, Trip(count, loop_symbols(spec), index)))
        elif isinstance(spec, OpSpec):
            yield on_tile(spec, trips)
        else:
            yield spec


def trip_count(loop: LoopSpec) -> int | None:
    count = sympy.sympify(loop.count)
    return int(count) if count.is_Integer else None


def loop_symbols(loop: LoopSpec) -> tuple[sympy.Symbol, ...]:
    if loop.tiled_symbols:
        return tuple(loop.tiled_symbols)
    first = next((each for each in loop.body if isinstance(each, OpSpec)), None)
    return tuple(first.tiled_symbols) if first else ()


def on_tile(spec: OpSpec, trips: Sequence[Trip]) -> OpSpec:
    """The op of one combination of trips, outermost first: its tensors keep their full extents,
    and their coordinates start where the tile does."""
    moved = {}
    for symbol, (size, _) in spec.iteration_space.items():
        if spec.tiled_symbols and symbol not in spec.tiled_symbols:
            continue
        own = [trip for trip in trips if symbol in trip.symbols]
        # Of two loops over one dim, the inner one runs within a tile of the outer one.
        tile = 0
        for trip in own:
            tile = tile * trip.count + trip.index
        if tile:
            moved[symbol] = symbol + tile * int(size)
    args = [_moved(arg, moved) for arg in spec.args] if moved else spec.args
    return replace(spec, args=args, tiled_symbols=())


def _moved(arg: TensorArg, moved: dict[sympy.Symbol, sympy.Expr]) -> TensorArg:
    if arg.per_tile_fixed:
        return arg
    coordinates = [sympy.sympify(each).xreplace(moved) for each in arg.device_coordinates]
    return replace(arg, device_coordinates=coordinates)


def trips_of(loops: Sequence[LoopSpec], indices: Sequence[int]) -> list[Trip]:
    return [
        Trip(trip_count(loop) or 0, loop_symbols(loop), index)
        for loop, index in zip(loops, indices, strict=True)
    ]
