"""How a core walks its part of the iteration space: tiles that fit the scratchpad.

The symbols of all ops of a kernel form one space. Symbols that an op folds are whole in every tile
if that fits; otherwise a loop streams over them and accumulates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, lcm, prod

from sympy import Symbol

from torch_spyre._inductor.multi_loop.registry import multi_loop_op_of
from torch_spyre._inductor.op_spec import OpSpec, TensorArg, index_names
from torch_spyre._inductor.op_table import MATMUL_OPS, POINTWISE_OPS
from torch_spyre._inductor.to_ktir.access import Access, access_of
from torch_spyre._inductor.to_ktir.tiles import Axis
from torch_spyre._inductor.to_ktir.types import bytes_of, element_type
from torch_spyre.cards import CardDescription
from torch_spyre.errors import UnsupportedError

# Sums over fewer elements than these cost more in accumulators than they save in room.
_FEWEST_STREAMED = 256


@dataclass(frozen=True)
class Space:
    """The iteration space that the ops of a kernel share."""

    sizes: Mapping[Symbol, int]
    splits: Mapping[Symbol, int]
    reduced: frozenset[Symbol]
    accesses: Mapping[TensorArg, Access]
    # Along sticks that hold elements which must stay as they are.
    kept: frozenset[Symbol] = frozenset()

    @property
    def cores(self) -> int:
        return prod(self.splits.values())

    @property
    def shared(self) -> Symbol | None:
        """The symbol of which several cores fold slices, to combine what they get."""
        found = [symbol for symbol in self.sizes if symbol in self.reduced]
        found = [symbol for symbol in found if self.splits[symbol] > 1]
        if len(found) > 1:
            raise UnsupportedError(f"cores that share the sums over both {found[0]} and {found[1]}")
        return found[0] if found else None


@dataclass(frozen=True)
class TilePlan:
    """Elements of every symbol: of a core, and of a tile. Streamed symbols are looped innermost."""

    space: Space
    per_core: Mapping[Symbol, int]
    tile: Mapping[Symbol, int]
    axes: tuple[Axis, ...]
    streamed: frozenset[Symbol]
    padded: frozenset[Symbol] = field(default_factory=frozenset)
    # Elements per stick, where sticks and lanes are axes of their own.
    stick: int = 0

    @property
    def tiles(self) -> int:
        return prod(-(-self.per_core[each] // self.tile[each]) for each in self.per_core)


def tile_budget(card: CardDescription) -> int:
    """Return the bytes that the live tiles of a core may take.

    Half of the scratchpad, so that the next tile can be loaded meanwhile; and small enough for the
    caches of a host that emulates the core.
    """
    return card.compute.lx_bytes // 2


def is_matmul(spec: OpSpec) -> bool:
    return spec.op in MATMUL_OPS


def space_of(specs: Sequence[OpSpec]) -> Space:
    sizes: dict[Symbol, int] = {}
    splits: dict[Symbol, int] = {}
    reduced: set[Symbol] = set()
    accesses: dict[TensorArg, Access] = {}
    kept: set[Symbol] = set()
    for spec in specs:
        for symbol, size in spec.sizes.items():
            if sizes.setdefault(symbol, size) != size:
                raise UnsupportedError(f"{symbol} with sizes {sizes[symbol]} and {size}")
            split = spec.splits[symbol]
            if splits.setdefault(symbol, split) != split:
                raise UnsupportedError(f"{symbol} divided by {splits[symbol]} and {split}")
        for arg in spec.args:
            accesses[arg] = access_of(arg)
        if spec.op_info.get("partial"):
            kept |= accesses[spec.output].stick_symbols
        if spec.is_reduction:
            reduced |= set(spec.sizes) - accesses[spec.output].symbols
    return Space(sizes, splits, frozenset(reduced), accesses, frozenset(kept))


def plan_tiles(specs: Sequence[OpSpec], budget: int) -> TilePlan | None:
    """None if the kernel cannot be walked in tiles of this many bytes."""
    multi_loop = multi_loop_op_of(specs)
    if multi_loop is not None:
        return multi_loop.plan_tiles(specs, budget)
    space = space_of(specs)
    padded = _padded(space)
    per_core = {symbol: _per_core(space, symbol, padded) for symbol in space.sizes}
    granules = {symbol: _granule(space, symbol) for symbol in space.sizes}
    axes, stick = _axes(specs, space, padded)
    # Products and cores that combine need accumulators of their own.
    accumulates = space.shared is not None or any(is_matmul(spec) for spec in specs)
    if not accumulates:
        whole = TilePlan(space, per_core, per_core, axes, frozenset(), padded, stick)
        if _bytes(specs, whole) <= budget:
            return whole
        tile = _shrunk(specs, whole, budget, granules, space.reduced)
        if tile is not None:
            return tile
    streamed = _streamed(specs, space)
    if not _streamable(specs, space, streamed):
        return None
    streaming = TilePlan(space, per_core, per_core, axes, streamed, padded, stick)
    if _bytes(specs, streaming) <= budget:
        return streaming
    return _shrunk(specs, streaming, budget, granules, space.reduced - streamed)


def _streamed(specs: Sequence[OpSpec], space: Space) -> frozenset[Symbol]:
    """What a product sums; in kernels without one, whatever is reduced."""
    for spec in specs:
        if is_matmul(spec):
            return frozenset(spec.sizes) - space.accesses[spec.output].symbols
    return space.reduced


def _in_memory(space: Space) -> list[Access]:
    return [access for arg, access in space.accesses.items() if not arg.in_scratchpad]


def _padded(space: Space) -> frozenset[Symbol]:
    """Symbols that run along whole sticks of every tensor that has them: padding computes along.

    The sticks of all tensors must end at the same element, and what fills them is no index.
    """
    indices = {name for arg in space.accesses for name in index_names(arg)}
    found: set[Symbol] = set()
    others = set(space.kept)
    for access in _in_memory(space):
        if access.stick_symbol is not None:
            found.add(access.stick_symbol)
        others |= access.symbols - {access.stick_symbol}
        if access.arg.name in indices:
            others |= access.symbols
    return frozenset(
        symbol
        for symbol in found - others
        if len({_rounded(space.sizes[symbol], stick) for stick in _sticks(space, symbol)}) == 1
    )


def _sticks(space: Space, symbol: Symbol) -> set[int]:
    along = [access for access in _in_memory(space) if symbol in access.stick_symbols]
    return {access.arg.elements_per_stick for access in along}


def _rounded(size: int, stick: int) -> int:
    return -(-size // stick) * stick


def _granule(space: Space, symbol: Symbol) -> int:
    """Tiles begin at multiples of this, so that they begin at the same lane of a stick."""
    granule = 1
    for access in _in_memory(space):
        stick = access.arg.elements_per_stick
        for box in access.boxes or ():
            factor = dict(box.sum.terms).get(symbol)
            if factor and (box.is_stick or box.is_lane):
                granule = lcm(granule, stick // gcd(stick, factor))
    return granule


def divisible_share(space: Space, symbol: Symbol) -> int:
    """A symbol can be divided by what divides this: elements, or sticks."""
    granule = _granule(space, symbol)
    size = space.sizes[symbol]
    # Padding may be computed, but not reduced.
    if symbol in _padded(space) - space.reduced:
        return -(-size // granule)
    return size // granule if size % granule == 0 else 1


def _per_core(space: Space, symbol: Symbol, padded: frozenset[Symbol]) -> int:
    size, split = space.sizes[symbol], space.splits[symbol]
    if symbol in padded and not (symbol in space.reduced and split > 1):
        size = _rounded(size, _granule(space, symbol))
    if size % split:
        raise UnsupportedError(f"{symbol} of size {size} divided over {split} cores")
    share = size // split
    if split > 1 and share % _granule(space, symbol):
        raise UnsupportedError(f"{symbol}: {share} elements a core, which are no whole sticks")
    return share


def _axes(
    specs: Sequence[OpSpec], space: Space, padded: frozenset[Symbol]
) -> tuple[tuple[Axis, ...], int]:
    """The order of dims in tiles: that of the output in memory, for kernels that fold nothing."""
    output = space.accesses[specs[-1].output]
    in_memory = _in_memory(space)
    sticks = {box.stick for access in in_memory for box in access.boxes or () if box.is_stick}
    plain = (
        not space.reduced
        and len(sticks) == 1
        and all(spec.op in POINTWISE_OPS for spec in specs)
        and all(access.boxes is not None for access in in_memory)
        and output.stick_symbol in padded
        and all(
            len(box.sum.terms) <= 1 and all(factor == 1 for _, factor in box.sum.terms)
            for access in in_memory
            for box in access.boxes or ()
        )
        and all(access.stick_symbols <= {output.stick_symbol} for access in in_memory)
    )
    if not plain:
        return tuple(Axis(symbol) for symbol in space.sizes), 0
    assert output.boxes is not None
    axes = [
        Axis(box.sum.terms[0][0], "stick" if box.is_stick else "whole")
        for box in output.boxes
        if box.sum.terms
    ]
    missing = [Axis(symbol) for symbol in space.sizes if symbol not in output.symbols]
    lane = Axis(output.stick_symbol, "lane")
    return (*missing, *axes, lane), sticks.pop()


def _streamable(specs: Sequence[OpSpec], space: Space, streamed: frozenset[Symbol]) -> bool:
    """Does nothing that runs over the streamed symbols need what folding them gave?"""
    results: set[str] = set()
    for spec in specs:
        inside = bool(set(spec.sizes) & streamed)
        reads = {arg.name for arg in spec.inputs if arg.in_scratchpad}
        if inside and reads & results:
            return False
        folds = spec.is_reduction and inside
        if (folds or (reads & results)) and spec.output.name:
            results.add(spec.output.name)
        if folds and set(spec.sizes) & streamed != streamed:
            return False
        if folds and space.accesses[spec.output].symbols & streamed:
            return False
    return True


def _bytes(specs: Sequence[OpSpec], plan: TilePlan) -> int:
    """An upper bound of what is alive at once: every tensor of the kernel."""
    total = 0
    for arg, access in plan.space.accesses.items():
        width = bytes_of(element_type(arg.device_dtype))
        elements = prod(plan.tile[symbol] for symbol in access.symbols)
        total += elements * width
    for spec in specs:
        if is_matmul(spec):
            total += 4 * prod(plan.tile[each] for each in plan.space.accesses[spec.output].symbols)
    return total


def _shrunk(
    specs: Sequence[OpSpec],
    plan: TilePlan,
    budget: int,
    granules: Mapping[Symbol, int],
    fixed: frozenset[Symbol],
) -> TilePlan | None:
    """Halves one symbol after the other until all fits.

    What is streamed comes first, down to a few sticks: its tiles are loaded once, whatever their
    size. Others cost loading again what does not depend on them: the symbol that makes most room.
    """
    tile = dict(plan.tile)
    while True:
        current = replace(plan, tile=tile)
        if _bytes(specs, current) <= budget:
            return current
        candidates = [
            symbol for symbol in tile if symbol not in fixed and tile[symbol] > granules[symbol]
        ]
        if not candidates:
            return None
        streamed = [
            symbol
            for symbol in candidates
            if symbol in plan.streamed and tile[symbol] > _FEWEST_STREAMED
        ]
        halved = {
            symbol: _smaller(plan.per_core[symbol], tile[symbol], granules[symbol])
            for symbol in streamed or candidates
        }
        best = min(
            halved,
            key=lambda symbol: (
                _bytes(specs, replace(plan, tile={**tile, symbol: halved[symbol]})),
                -tile[symbol],
            ),
        )
        tile[best] = halved[best]


def _smaller(whole: int, current: int, granule: int) -> int:
    """At most half of the current tile; a divisor of the whole, if one is near."""
    units = max(1, current // granule // 2)
    of = -(-whole // granule)
    for candidate in range(units, max(0, units // 2), -1):
        if of % candidate == 0 and whole % granule == 0:
            return candidate * granule
    return units * granule
