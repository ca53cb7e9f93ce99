"""Splits scans over cores, and chooses tiles.

Cores split the dims that are not scanned. A tile holds a whole scan if it fits; otherwise tiles
along the scanned dim follow one another, and each begins with the result of the tile before.
"""

from collections.abc import Mapping, Sequence
from math import prod

from sympy import Symbol

from torch_spyre._inductor.multi_loop.roles import symbols_of_roles
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.types import bytes_of, element_type

# Values of a tile that are live at once, in the type of the accumulator: a row before and after a
# step, and the part that the step computes.
_LIVE_VALUES = 3
_ACCUMULATOR_BYTES = 4


def plan_tiles(specs: Sequence[OpSpec], budget: int) -> TilePlan | None:
    """Return tiles of at most `budget` bytes; None if the smallest are larger."""
    space = IterationSpace.from_specs(specs)
    roles = symbols_of_roles(specs, space)
    per_core = {symbol: size // space.splits[symbol] for symbol, size in space.sizes.items()}
    tile = dict(per_core)
    # Parts of the scanned dim that lie apart in memory are one tile.
    can_be_streamed = len(roles["scanned"]) == len(roles["column"]) == 1
    shrinkable = (*roles["outer"], *roles["inner"])
    while _live_bytes(specs, roles, tile) > budget:
        symbol = next((s for s in shrinkable if tile[s] > space.granule(s)), None)
        if symbol is None and can_be_streamed:
            symbol = roles["scanned"][0]
        if symbol is None or tile[symbol] <= space.granule(symbol):
            return None
        tile[symbol] = _halved(tile[symbol], space.granule(symbol))
        if symbol in roles["scanned"]:
            tile[roles["column"][0]] = tile[symbol]
    order = (*roles["outer"], *roles["column"], *roles["scanned"], *roles["inner"])
    streamed = frozenset((*roles["column"], *roles["scanned"]))
    return TilePlan(space, per_core, tile, tuple(map(Axis, order)), streamed)


def _halved(size: int, granule: int) -> int:
    return -(-size // (2 * granule)) * granule


def _live_bytes(
    specs: Sequence[OpSpec],
    roles: Mapping[str, Sequence[Symbol]],
    tile: Mapping[Symbol, int],
) -> int:
    """Return an upper bound of the bytes that are live at once."""
    symbols = (*roles["outer"], *roles["scanned"], *roles["inner"])
    tensors = sum(bytes_of(element_type(arg.device_dtype)) for arg in specs[0].args)
    return prod(tile[s] for s in symbols) * (tensors + _LIVE_VALUES * _ACCUMULATOR_BYTES)
