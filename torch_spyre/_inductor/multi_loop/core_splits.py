"""Splits symbols of a multi-loop op over as many cores as possible."""

from collections.abc import Sequence
from itertools import product
from math import prod

from sympy import Symbol

from torch_spyre._inductor.tiling.iteration_space import IterationSpace


def splits_over_cores(
    symbols: Sequence[Symbol], space: IterationSpace, cores: int
) -> dict[Symbol, int]:
    """Return splits that use as many cores as possible, and among these split the first most."""
    options = [
        [split for split in range(1, cores + 1) if _is_whole_granules(space, symbol, split)]
        for symbol in symbols
    ]
    best = max(
        (splits for splits in product(*options) if prod(splits) <= cores),
        key=lambda splits: (prod(splits), splits),
    )
    return dict(zip(symbols, best, strict=True))


def _is_whole_granules(space: IterationSpace, symbol: Symbol, split: int) -> bool:
    return split == 1 or space.sizes[symbol] % (split * space.granule(symbol)) == 0
