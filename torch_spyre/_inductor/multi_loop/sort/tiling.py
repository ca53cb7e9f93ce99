"""Chooses the tiles of sorts.

A tile holds whole rows. If a row does not fit, and not all of its elements are kept, tiles along
the row follow one another, and each begins with the first elements of the tiles before.
"""

from collections.abc import Mapping, Sequence
from math import prod

from sympy import Symbol

from torch_spyre._inductor.multi_loop.roles import LoopRoles
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.types import bytes_of, element_type

INDEX_BYTES = 4
# Copies of an element and its index that are live at once: as loaded, sorted, and in the sticks
# that are stored.
_LIVE_COPIES = 3
# Copies of a kept element: those of the tiles before, of the tile, both, and the result.
_KEPT_COPIES = 5


def symbols_of_roles(
    specs: Sequence[OpSpec], space: IterationSpace
) -> dict[str, tuple[Symbol, ...]]:
    """Return the symbols of each role, outermost first."""
    roles = LoopRoles.from_op_info(specs[0].op_info)
    return {role: roles.symbols(role, space.sizes) for role in roles.steps}


def plan_tiles(specs: Sequence[OpSpec], budget: int) -> TilePlan | None:
    """Return tiles of at most `budget` bytes; None if the smallest are larger."""
    space = IterationSpace.from_specs(specs)
    roles = symbols_of_roles(specs, space)
    per_core = {symbol: size // space.splits[symbol] for symbol, size in space.sizes.items()}
    tile = dict(per_core)
    length, kept = (prod(space.sizes[s] for s in roles[role]) for role in ("sorted", "column"))
    shrinkable = (*roles["outer"], *roles["inner"], *(roles["sorted"] if kept < length else ()))
    while _live_bytes(specs[0], roles, tile) > budget:
        symbol = next((s for s in shrinkable if tile[s] > space.granule(s)), None)
        if symbol is None:
            return None
        granule = space.granule(symbol)
        tile[symbol] = -(-tile[symbol] // (2 * granule)) * granule
    order = (*roles["outer"], *roles["column"], *roles["sorted"], *roles["inner"])
    streamed = frozenset((*roles["column"], *roles["sorted"]))
    return TilePlan(space, per_core, tile, tuple(map(Axis, order)), streamed)


def _live_bytes(
    spec: OpSpec, roles: Mapping[str, Sequence[Symbol]], tile: Mapping[Symbol, int]
) -> int:
    """Return an upper bound of the bytes that are live at once."""
    element = bytes_of(element_type(spec.inputs[0].device_dtype)) + INDEX_BYTES
    rows, length, kept = (
        prod(tile[symbol] for symbol in symbols)
        for symbols in (
            (*roles["outer"], *roles["inner"]),
            roles["sorted"],
            roles["column"],
        )
    )
    return rows * element * (_LIVE_COPIES * length + _KEPT_COPIES * kept)
