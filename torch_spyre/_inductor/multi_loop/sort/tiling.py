"""Splits sorts over cores, and chooses tiles.

A tile holds whole rows. If a row does not fit, and not all of its elements are kept, tiles along
the row follow one another, and each begins with the first elements of the tiles before. If rows
are few or do not fit, several cores sort each row, and a tile holds a core's block.
"""

from collections.abc import Mapping, Sequence
from math import prod

from sympy import Symbol

from torch_spyre._inductor.multi_loop.core_splits import splits_over_cores
from torch_spyre._inductor.multi_loop.roles import symbols_of_roles
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.types import bytes_of, element_type
from torch_spyre._inductor.work_division.sort_blocks import block_size, num_blocks

INDEX_BYTES = 4
# Copies of an element and its index that are live at once: as loaded, sorted, and in the sticks
# that are stored; or a block, and those of two cores, from which another one is selected.
_LIVE_COPIES = 3
# Copies of a kept element: those of the tiles before, of the tile, both, and the result.
_KEPT_COPIES = 5


def core_splits(specs: Sequence[OpSpec], space: IterationSpace, cores: int) -> dict[Symbol, int]:
    """Return splits of the rows, and of each row if several cores sort it.

    Then the column is split if it is as long as the row, else the sorted symbol.
    """
    roles = symbols_of_roles(specs, space)
    rows = (*roles["outer"], *roles["inner"])
    blocks = _num_blocks(specs[0], space, roles, cores)
    splits = splits_over_cores(rows, space, cores // blocks)
    if blocks == 1:
        return splits
    length, kept = (prod(space.sizes[s] for s in roles[role]) for role in ("sorted", "column"))
    return {**splits, roles["column" if kept == length else "sorted"][0]: blocks}


def _num_blocks(
    spec: OpSpec, space: IterationSpace, roles: Mapping[str, Sequence[Symbol]], cores: int
) -> int:
    """Return into how many blocks each row is divided: 1 if its symbols cannot be divided."""
    column, symbols = roles["column"], roles["sorted"]
    if len(column) != 1 or len(symbols) != 1 or len(spec.inputs) != 1 or roles["inner"]:
        return 1
    length, kept = space.sizes[symbols[0]], space.sizes[column[0]]
    rows = prod(space.sizes[symbol] for symbol in roles["outer"])
    blocks = num_blocks(rows, length, kept, cores)
    return blocks if blocks <= cores else 1


def num_row_blocks(space: IterationSpace, roles: Mapping[str, Sequence[Symbol]]) -> int:
    """Return how many cores sort each row."""
    return prod(space.splits[symbol] for symbol in (*roles["column"], *roles["sorted"]))


def plan_tiles(specs: Sequence[OpSpec], budget: int) -> TilePlan | None:
    """Return tiles of at most `budget` bytes; None if the smallest are larger."""
    space = IterationSpace.from_specs(specs)
    roles = symbols_of_roles(specs, space)
    rows, symbols = (*roles["outer"], *roles["inner"]), roles["sorted"]
    blocks = num_row_blocks(space, roles)
    length, kept = (prod(space.sizes[s] for s in roles[role]) for role in ("sorted", "column"))
    per_core = {symbol: size // space.splits[symbol] for symbol, size in space.sizes.items()}
    if blocks > 1:
        # All cores have blocks of one size, of which the last ones are not full.
        split = roles["column" if kept == length else "sorted"][0]
        per_core[split] = block_size(length, blocks)
    tile = dict(per_core)
    is_streamable = kept < length and blocks == 1
    while _live_bytes(specs[0], space, roles, tile) > budget:
        shrinkable = (*rows, *(symbols if is_streamable else ()))
        symbol = next((s for s in shrinkable if tile[s] > space.granule(s)), None)
        if symbol is None:
            return None
        granule = space.granule(symbol)
        tile[symbol] = -(-tile[symbol] // (2 * granule)) * granule
    order = (*roles["outer"], *roles["column"], *symbols, *roles["inner"])
    streamed = frozenset((*roles["column"], *symbols))
    return TilePlan(space, per_core, tile, tuple(map(Axis, order)), streamed)


def _live_bytes(
    spec: OpSpec,
    space: IterationSpace,
    roles: Mapping[str, Sequence[Symbol]],
    tile: Mapping[Symbol, int],
) -> int:
    """Return an upper bound of the bytes that are live at once."""
    element = bytes_of(element_type(spec.inputs[0].device_dtype)) + INDEX_BYTES
    rows, length, kept = (
        prod(tile[symbol] for symbol in symbols)
        for symbols in ((*roles["outer"], *roles["inner"]), roles["sorted"], roles["column"])
    )
    blocks = num_row_blocks(space, roles)
    row = prod(space.sizes[symbol] for symbol in roles["sorted"])
    # A core of several has a block of the column, or selects from the first elements of all.
    elements = _LIVE_COPIES * (min(length, kept) if length == row and blocks > 1 else length)
    if length < row:
        elements += _KEPT_COPIES * kept if blocks == 1 else 2 * blocks * kept
    return rows * element * elements
