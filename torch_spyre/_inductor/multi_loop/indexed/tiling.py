"""Splits gathers and scatters over cores, and chooses tiles.

Every core owns a part of the result. Along the column, all cores read the same scanned elements:
rows of the table for a gather, values and indices for a scatter.
"""

from collections.abc import Mapping, Sequence
from math import prod

from sympy import Symbol

from torch_spyre._inductor.multi_loop.core_splits import splits_over_cores
from torch_spyre._inductor.multi_loop.roles import Roles, symbols_of_roles
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table.indexed import COMBINES
from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.types import bytes_of, element_type

_ACCUMULATOR_BYTES = 4
# Streaming fewer elements at a time saves little of the scratchpad.
_MIN_STREAMED = 256


def core_splits(specs: Sequence[OpSpec], space: IterationSpace, cores: int) -> dict[Symbol, int]:
    """Return splits that use as many cores as possible, and among these split the column least."""
    roles = symbols_of_roles(specs, space)
    symbols = (*roles["outer"], *roles["inner"], *outermost(roles, "column"))
    return splits_over_cores(symbols, space, cores)


def outermost(roles: Roles, role: str) -> tuple[Symbol, ...]:
    """Return the symbol of a role whose slices are intervals of indices, if it has any symbol."""
    return roles[role][:1]


def plan_tiles(specs: Sequence[OpSpec], budget: int) -> TilePlan | None:
    """Return tiles of at most `budget` bytes; None if the smallest are larger."""
    space = IterationSpace.from_specs(specs)
    roles = symbols_of_roles(specs, space)
    per_core = {symbol: size // space.splits[symbol] for symbol, size in space.sizes.items()}
    tile = dict(per_core)
    scanned, column = (outermost(roles, role) for role in ("scanned", "column"))
    steps = (
        *((symbol, _MIN_STREAMED) for symbol in scanned),
        *((symbol, 1) for symbol in (*roles["outer"], *roles["inner"], *column, *scanned)),
    )
    for symbol, minimum in steps:
        granule = space.granule(symbol)
        while _live_bytes(specs[0], space, tile) > budget and tile[symbol] > max(granule, minimum):
            tile[symbol] = -(-tile[symbol] // (2 * granule)) * granule
    if _live_bytes(specs[0], space, tile) > budget:
        return None
    order = (*roles["outer"], *roles["column"], *roles["scanned"], *roles["inner"])
    return TilePlan(space, per_core, tile, tuple(map(Axis, order)), frozenset(roles["scanned"]))


def _live_bytes(spec: OpSpec, space: IterationSpace, tile: Mapping[Symbol, int]) -> int:
    """Return an upper bound of the bytes that are live at once."""
    total = 0
    for arg in spec.args:
        elements = prod(tile[symbol] for symbol in space.accesses[arg].symbols)
        total += elements * bytes_of(element_type(arg.device_dtype))
    if spec.op in COMBINES:
        # The accumulators, and the values converted to their type.
        for arg in (spec.output, spec.inputs[-1]):
            elements = prod(tile[symbol] for symbol in space.accesses[arg].symbols)
            total += elements * _ACCUMULATOR_BYTES
    return total
