"""Chooses the tiles of a core's slice of the iteration space, so that they fit the scratchpad.

Symbols that an op reduces along are whole in every tile if that fits; otherwise a loop streams over
them and accumulates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from sympy import Symbol

from torch_spyre._inductor.multi_loop.registry import multi_loop_op_of
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import MATMUL_OPS, POINTWISE_OPS
from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre.cards import CardDescription
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import UnsupportedError

# Streaming smaller tiles than this costs more for accumulators than it saves in the scratchpad.
_MIN_STREAMED = 256
_ACCUMULATOR_BYTES = 4


@dataclass(frozen=True)
class TilePlan:
    """The size of every symbol in a core's slice and in a tile. Streamed symbols loop innermost."""

    space: IterationSpace
    per_core: Mapping[Symbol, int]
    tile: Mapping[Symbol, int]
    axes: tuple[Axis, ...]
    streamed: frozenset[Symbol]
    padded: frozenset[Symbol] = field(default_factory=frozenset)
    # Elements per stick, where sticks and lanes are two axes.
    stick: int = 0

    def __str__(self) -> str:
        """Return the tiles of a core's slice, for logs."""
        sizes = " ".join(f"{symbol}={size}" for symbol, size in self.tile.items())
        slices = " ".join(f"{symbol}={size}" for symbol, size in self.per_core.items())
        streamed = ", ".join(sorted(symbol.name for symbol in self.streamed))
        loops = f", streaming {streamed}" if streamed else ""
        return f"tiles {sizes or 'of one point'} of slices {slices or 'of one point'}{loops}"


def tile_budget(card: CardDescription) -> int:
    """Return the number of bytes that the live tiles of a core may occupy.

    This is half of the usable scratchpad, so that the next tile can be loaded meanwhile. It is also
    small enough for the caches of a host that emulates the core.
    """
    return card.compute.lx_usable_bytes // 2


def is_matmul(spec: OpSpec) -> bool:
    return spec.op in MATMUL_OPS


def plan_tiles(
    specs: Sequence[OpSpec], budget: int, dynamic: frozenset[Symbol] = frozenset()
) -> TilePlan | None:
    """Return tiles of at most `budget` bytes; None if even the smallest tiles exceed it.

    `dynamic` are the symbols whose sizes are known at launch; the specs have their largest sizes.
    """
    multi_loop = multi_loop_op_of(specs)
    if multi_loop is not None:
        if dynamic and not multi_loop.supports_dynamic_sizes:
            raise UnsupportedError(f"{specs[0].op} with sizes known only at launch")
        return multi_loop.plan_tiles(specs, budget)
    space = IterationSpace.from_specs(specs, dynamic)
    padded = space.padded_symbols()
    per_core = {symbol: space.slice_size(symbol, padded) for symbol in space.sizes}
    granules = {symbol: space.granule(symbol) for symbol in space.sizes}
    axes, stick = _axes(specs, space, padded)
    # Matmuls and reductions across cores always accumulate.
    accumulates = space.cross_core_reduction is not None or any(map(is_matmul, specs))
    if not accumulates:
        whole = TilePlan(space, per_core, per_core, axes, frozenset(), padded, stick)
        shrunk = _shrink(specs, whole, budget, granules, space.reduced)
        if shrunk is not None:
            return shrunk
    streamed = _streamed_symbols(specs, space)
    if not _is_streamable(specs, space, streamed):
        return None
    streaming = TilePlan(space, per_core, per_core, axes, streamed, padded, stick)
    return _shrink(specs, streaming, budget, granules, space.reduced - streamed)


def _streamed_symbols(specs: Sequence[OpSpec], space: IterationSpace) -> frozenset[Symbol]:
    """Return the symbols that a matmul sums over; without a matmul, all reduced symbols."""
    for spec in specs:
        if is_matmul(spec):
            return frozenset(spec.sizes) - space.accesses[spec.output].symbols
    return space.reduced


def _axes(
    specs: Sequence[OpSpec], space: IterationSpace, padded: frozenset[Symbol]
) -> tuple[tuple[Axis, ...], int]:
    """Return the order of dims in tiles, and the elements per stick if sticks are an axis.

    Elementwise kernels use the order of the output in memory, others that of the symbols.
    """
    output = space.accesses[specs[-1].output]
    if not _follows_memory(specs, space, padded):
        return tuple(Axis(symbol) for symbol in space.sizes), 0
    assert output.boxes is not None and output.stick_symbol is not None
    axes = [
        Axis(box.sum.terms[0][0], "stick" if box.is_stick else "whole")
        for box in output.boxes
        if box.sum.terms
    ]
    missing = [Axis(symbol) for symbol in space.sizes if symbol not in output.symbols]
    lane = Axis(output.stick_symbol, "lane")
    (stick,) = _stick_sizes(space)
    return (*missing, *axes, lane), stick


def _follows_memory(
    specs: Sequence[OpSpec], space: IterationSpace, padded: frozenset[Symbol]
) -> bool:
    """Return whether the kernel is elementwise and all tensors have the stick symbol of its output.

    Then a tile is a number of whole sticks, and moves without rearranging its elements.
    """
    output = space.accesses[specs[-1].output]
    accesses = space.memory_accesses
    boxes = [box for access in accesses for box in access.boxes or ()]
    return (
        not space.reduced
        and len(_stick_sizes(space)) == 1
        and all(spec.op in POINTWISE_OPS for spec in specs)
        and all(access.boxes is not None for access in accesses)
        and output.stick_symbol in padded
        and all(
            len(box.sum.terms) <= 1 and all(factor == 1 for _, factor in box.sum.terms)
            for box in boxes
        )
        and all(access.stick_symbols <= {output.stick_symbol} for access in accesses)
    )


def _stick_sizes(space: IterationSpace) -> set[int]:
    boxes = (box for access in space.memory_accesses for box in access.boxes or ())
    return {box.stick for box in boxes if box.is_stick}


def _is_streamable(
    specs: Sequence[OpSpec], space: IterationSpace, streamed: frozenset[Symbol]
) -> bool:
    """Return whether no op inside the streaming loop needs the result of reducing over it."""
    results: set[str] = set()
    for spec in specs:
        is_inside = bool(set(spec.sizes) & streamed)
        reads = {arg.name for arg in spec.inputs if arg.in_scratchpad}
        if is_inside and reads & results:
            return False
        reduces = spec.is_reduction and is_inside
        if (reduces or (reads & results)) and spec.output.name:
            results.add(spec.output.name)
        if reduces and set(spec.sizes) & streamed != streamed:
            return False
        if reduces and space.accesses[spec.output].symbols & streamed:
            return False
    return True


def _tile_bytes(specs: Sequence[OpSpec], plan: TilePlan) -> int:
    """Return an upper bound of the bytes that are alive at once: one tile of every tensor."""
    total = 0
    for arg, access in plan.space.accesses.items():
        width = BYTES_IN_STICK // arg.device_dtype.elems_per_stick()
        total += width * prod(plan.tile[symbol] for symbol in access.symbols)
    for spec in specs:
        if is_matmul(spec):
            symbols = plan.space.accesses[spec.output].symbols
            total += _ACCUMULATOR_BYTES * prod(plan.tile[symbol] for symbol in symbols)
    return total


def _shrink(
    specs: Sequence[OpSpec],
    plan: TilePlan,
    budget: int,
    granules: Mapping[Symbol, int],
    fixed: frozenset[Symbol],
) -> TilePlan | None:
    """Halve one symbol after the other until a tile fits; return None if it never does.

    Streamed symbols come first, down to a few sticks: their tiles are loaded once, whatever their
    size. Smaller tiles of other symbols reload tensors that do not depend on them, so the symbol
    that saves most bytes is halved.
    """
    tile = dict(plan.tile)
    while True:
        current = replace(plan, tile=tile)
        if _tile_bytes(specs, current) <= budget:
            return current
        candidates = [
            symbol for symbol in tile if symbol not in fixed and tile[symbol] > granules[symbol]
        ]
        if not candidates:
            return None
        streamed = [
            symbol
            for symbol in candidates
            if symbol in plan.streamed and tile[symbol] > _MIN_STREAMED
        ]
        halved = {
            symbol: _halve(plan.per_core[symbol], tile[symbol], granules[symbol])
            for symbol in streamed or candidates
        }
        best = min(
            halved,
            key=lambda symbol: (
                _tile_bytes(specs, replace(plan, tile={**tile, symbol: halved[symbol]})),
                -tile[symbol],
            ),
        )
        tile[best] = halved[best]


def _halve(slice_size: int, current: int, granule: int) -> int:
    """Return at most half of the current size; a divisor of the slice, if one is near."""
    units = max(1, current // granule // 2)
    slice_units = -(-slice_size // granule)
    for candidate in range(units, max(0, units // 2), -1):
        if slice_units % candidate == 0 and slice_size % granule == 0:
            return candidate * granule
    return units * granule
