"""Splits attention over cores, and chooses the rows and keys of a tile.

Cores split batches, heads and rows. Each core visits tiles of rows; keys are streamed.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from sympy import Symbol

from torch_spyre._inductor.multi_loop.attention.operands import AttentionOperands
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.types import F32, bytes_of, element_type

# Enough rows to fill the matrix unit many times; more would only take LX from the keys.
_MAX_ROWS = 256
# Tiles of keys begin at multiples of this, which are whole sticks of a bias in any format.
_KEY_GRANULE = 64
# With fewer keys per tile, updates of the accumulators cost more than smaller tiles save. Also the
# most keys per tile where whole tiles can be masked: more of the smaller tiles are.
_MIN_KEYS = 256


def core_splits(specs: Sequence[OpSpec], space: IterationSpace, cores: int) -> dict[Symbol, int]:
    """Return splits that use as many cores as possible, and among these split most heads."""
    operands = AttentionOperands.from_specs(specs, space)
    symbols = (*operands.batch, *operands.rows)
    options = [_divisors(space.sizes[symbol], cores) for symbol in symbols]
    best = max(
        (splits for splits in product(*options) if prod(splits) <= cores),
        key=lambda splits: (prod(splits), prod(splits[: len(operands.batch)]), splits),
    )
    return dict(zip(symbols, best, strict=True))


def _divisors(size: int, maximum: int) -> list[int]:
    return [divisor for divisor in range(1, min(size, maximum) + 1) if size % divisor == 0]


def plan_tiles(specs: Sequence[OpSpec], budget: int) -> TilePlan | None:
    """Return the best tiles of at most `budget` bytes; None if the smallest are larger."""
    space = IterationSpace.from_specs(specs)
    operands = AttentionOperands.from_specs(specs, space)
    per_core = {symbol: size // space.splits[symbol] for symbol, size in space.sizes.items()}
    order = (*operands.batch, *operands.rows, *operands.keys, *operands.inner, *operands.values)
    skips_tiles = operands.bias is not None or bool(specs[0].constants["causal"])
    max_keys = _MIN_KEYS if skips_tiles else None
    for rows, keys in _tile_sizes(operands, space, per_core, max_keys):
        tile = {**per_core, **dict.fromkeys((*operands.batch, *operands.keys[:-1]), 1)}
        tile[operands.keys[-1]] = keys
        tile.update(_row_tile(operands, per_core, rows))
        if _live_bytes(operands, tile) <= budget:
            axes = tuple(Axis(symbol) for symbol in order)
            return TilePlan(space, per_core, tile, axes, space.reduced)
    return None


def _tile_sizes(
    operands: AttentionOperands,
    space: IterationSpace,
    per_core: Mapping[Symbol, int],
    max_keys: int | None,
) -> Iterator[tuple[int, int]]:
    """Yield numbers of rows and keys of a tile, the best first."""
    rows = min(_MAX_ROWS, prod(per_core[symbol] for symbol in operands.rows))
    all_keys = space.sizes[operands.keys[-1]]
    keys = -(-min(all_keys, max_keys or all_keys) // _KEY_GRANULE) * _KEY_GRANULE
    while True:
        yield rows, min(keys, all_keys)
        if keys > _MIN_KEYS:
            keys = max(_MIN_KEYS, _halved(keys))
        elif rows > 1:
            rows = -(-rows // 2)
        elif keys > _KEY_GRANULE:
            keys = _halved(keys)
        else:
            return


def _halved(keys: int) -> int:
    return -(-keys // (2 * _KEY_GRANULE)) * _KEY_GRANULE


def _row_tile(
    operands: AttentionOperands, per_core: Mapping[Symbol, int], rows: int
) -> dict[Symbol, int]:
    """Return the tile of each row symbol, heads first: the same row of all heads sees the same
    keys under a causal mask."""
    tile: dict[Symbol, int] = {}
    for symbol in operands.rows:
        tile[symbol] = min(per_core[symbol], rows)
        rows = max(1, rows // tile[symbol])
    return tile


def _live_bytes(operands: AttentionOperands, tile: Mapping[Symbol, int]) -> int:
    """Return an upper bound of the bytes that are live at once."""
    rows, keys, inner, values = (
        prod(tile[symbol] for symbol in symbols)
        for symbols in (operands.rows, operands.keys, operands.inner, operands.values)
    )
    width, f32_width = bytes_of(element_type(operands.query.device_dtype)), bytes_of(F32)
    matrices = width * (inner * (rows + keys) + values * keys)
    # Scores, their exponentials, and these converted for the second matmul.
    scores = rows * keys * (2 * f32_width + width)
    accumulators = 2 * f32_width * rows * (values + 1)
    bias = 0 if operands.bias is None else 2 * f32_width * rows * keys
    return matrices + scores + accumulators + bias
