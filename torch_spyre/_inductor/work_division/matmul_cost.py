"""Second pass, for matmuls: computes the cost of every legal split and chooses the cheapest.

A cost is a time in microseconds, by a simple model of the card, plus ranking terms. Rates of the
card come from its description; the weights of the terms were fitted to measurements upstream.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import log2, prod, sqrt
from typing import NamedTuple

import sympy

from torch_spyre._inductor.work_division.expressions import symbols_of
from torch_spyre._inductor.work_division.problem import Problem
from torch_spyre._inductor.work_division.rules import LegalSplits
from torch_spyre.cards import CardDescription

BYTES_PER_ELEMENT = 2


class Sizes(NamedTuple):
    """A matmul of `batch` matrices; columns and inner dim in whole sticks of elements."""

    batch: int
    rows: int
    columns: int
    inner: int
    # All batches have the same right matrix.
    is_right_shared: bool


class Split(NamedTuple):
    batch: int
    rows: int
    columns: int
    inner: int


class CardRates(NamedTuple):
    """The rates of a card that the cost models use."""

    macs_per_us: float  # of one core, in 16-bit formats
    bytes_per_us: float  # of the device memory
    rows_per_pass: int  # rows that the array of a corelet processes at once
    cores: int  # that the matmul may be divided over


@lru_cache(maxsize=64)
def card_rates(card: CardDescription, cores: int) -> CardRates:
    timing = card.timing
    return CardRates(
        macs_per_us=float(timing.PT_MAC_FP16 * timing.CLOCK_GHZ * 1000),
        bytes_per_us=float(timing.DDR_PEAK * 1000),
        rows_per_pass=card.compute.array_rows,
        cores=cores,
    )


@dataclass(frozen=True)
class CostModel:
    name: str
    cost: Callable[[Sizes, Split, CardRates], float]
    # Whether it divides batches with one right matrix; if not, distribution does.
    supports_shared_right: bool
    # Whether its cheapest split is used even if it leaves cores idle that distribution would use.
    may_leave_cores_idle: bool


def _earlier_cost(sizes: Sizes, split: Split, rates: CardRates) -> float:
    batch, rows, columns, inner, _ = sizes
    passes = max(1.0, rows // split.rows / rates.rows_per_pass)
    efficiency = min(1.0, sqrt(passes / 8))
    compute = batch * rows * columns * inner / prod(split) / (rates.macs_per_us * efficiency)
    elements = batch * (rows * inner + inner * columns + rows * columns)
    memory = elements * BYTES_PER_ELEMENT / rates.bytes_per_us
    memory *= max(1.0, max(split.rows, split.columns) / 8)
    partial_sums = (split.inner - 1) * batch * rows * columns * 1.4e-4
    short_tiles = 0.0 if passes >= 8 else 50 * log2(8 / passes)
    return float((compute + memory + partial_sums + short_tiles) * split.batch**1.4)


def _later_cost(sizes: Sizes, split: Split, rates: CardRates) -> float:
    return _latency(sizes, split, rates) + _ranking(sizes, split, rates.cores)


def _latency(sizes: Sizes, split: Split, rates: CardRates) -> float:
    batch, rows, columns, inner, is_right_shared = sizes
    # Five passes fill the array; less than one pass costs as much as one.
    full = 5 * rates.rows_per_pass
    fill = min(full, max(rates.rows_per_pass, rows // split.rows))
    slowdown: float = (full / fill) ** 0.25
    compute = batch * rows * columns * inner / prod(split) / rates.macs_per_us * slowdown
    if split.inner > 1:
        compute *= 2  # combining across cores leaves one corelet idle
    weights = inner * columns * (1 if is_right_shared else batch)
    elements = batch * rows * inner + weights + batch * rows * columns
    readers = max(split.rows, split.columns) if is_right_shared else split.columns
    contention: float = max(1.0, readers / 8) ** 0.75
    memory = elements * BYTES_PER_ELEMENT / rates.bytes_per_us * contention
    tile = batch * rows * columns / (split.batch * split.rows * split.columns)
    partial_sums = (split.inner - 1) * tile * (1e-3 if is_right_shared else 1e-4)
    return compute + memory + partial_sums


def _ranking(sizes: Sizes, split: Split, cores: int) -> float:
    _, rows, columns, inner, is_right_shared = sizes
    tile_rows, tile_columns = rows // split.rows, columns // split.columns
    preferred_row_splits = max(4, min(cores // 2, max(1, rows // 32)))
    deep = _doublings(inner / columns) * log2(split.columns)
    rank = 10 * _doublings(preferred_row_splits / split.rows)
    rank += 30 * _doublings(16 / tile_rows)
    rank += 25 * _doublings(tile_columns / 512)
    if is_right_shared:
        rank += 10 * deep
    if tile_rows >= 16:
        narrow = 5 * _doublings(4096 / columns) * _doublings(tile_columns / 128)
        rank += narrow if is_right_shared else 20 * deep
    rank += 150 * log2(cores / prod(split))
    return rank if is_right_shared else rank + 10 * log2(split.batch)


def _doublings(ratio: float) -> float:
    """Return log2 of a ratio, 0 for ratios below 1."""
    return max(0.0, log2(ratio))


EARLIER = CostModel(
    "earlier", _earlier_cost, supports_shared_right=False, may_leave_cores_idle=False
)
LATER = CostModel("later", _later_cost, supports_shared_right=True, may_leave_cores_idle=True)


@dataclass(frozen=True)
class MatmulDims:
    """The symbols of a matmul by their role."""

    batch: tuple[sympy.Symbol, ...]
    rows: sympy.Symbol
    columns: sympy.Symbol
    inner: sympy.Symbol
    is_right_shared: bool


def matmul_dims(problem: Problem) -> MatmulDims | None:
    """Return the roles of the symbols.

    None if the op is not a matmul with rows, columns of whole sticks and one inner dim.
    """
    input_symbols = [
        {symbol for coordinate in tensor.device_coordinates for symbol in symbols_of(coordinate)}
        for tensor in problem.spec.inputs
    ]
    columns = [symbol for symbol in problem.output_dims if symbol in problem.stick_elements]
    if len(columns) != 1 or len(problem.reduction_dims) != 1 or len(input_symbols) != 2:
        return None
    left, right = input_symbols
    outer_dims = [symbol for symbol in problem.output_dims if symbol != columns[0]]
    row_candidates = [symbol for symbol in outer_dims if (symbol in left) != (symbol in right)]
    if not row_candidates:
        return None
    rows = min(row_candidates, key=lambda symbol: _host_stride(problem, symbol))
    batch = tuple(symbol for symbol in outer_dims if symbol != rows)
    is_right_shared = len(row_candidates) > 1 or not batch
    return MatmulDims(batch, rows, columns[0], problem.reduction_dims[0], is_right_shared)


def _host_stride(problem: Problem, symbol: sympy.Symbol) -> tuple[int, int]:
    """Return a symbol's stride in the output as a sort key.

    Without a stride map, later symbols count as inner ones.
    """
    output = problem.spec.output
    order = -problem.symbols.index(symbol)
    if output.stride_map is None:
        return 0, order
    strides = [
        stride
        for position, stride in enumerate(output.stride_map)
        if stride > 0 and symbol in problem.coordinate_symbols(output, position)
    ]
    return min(strides, default=0), order


def matmul_sizes(problem: Problem, dims: MatmulDims) -> Sizes:
    def in_whole_sticks(symbol: sympy.Symbol) -> int:
        return problem.units[symbol] * problem.stick_elements.get(symbol, 1)

    return Sizes(
        prod(problem.sizes[symbol] for symbol in dims.batch),
        problem.sizes[dims.rows],
        in_whole_sticks(dims.columns),
        in_whole_sticks(dims.inner),
        dims.is_right_shared,
    )


def cheapest_split(
    problem: Problem, legal: LegalSplits, model: CostModel = LATER
) -> tuple[dict[sympy.Symbol, int], float] | None:
    """Return the cheapest splits and their cost, the first of equal ones.

    None if the model does not apply to the op.
    """
    dims = matmul_dims(problem)
    if dims is None:
        return None
    if dims.is_right_shared and dims.batch and not model.supports_shared_right:
        return None
    sizes = matmul_sizes(problem, dims)
    rates = card_rates(problem.card, problem.cores)
    best: tuple[dict[sympy.Symbol, int], float] | None = None
    for splits in _candidates(problem, legal, dims):
        split = Split(
            prod(splits[symbol] for symbol in dims.batch),
            splits[dims.rows],
            splits[dims.columns],
            splits[dims.inner],
        )
        cost = model.cost(sizes, split, rates)
        if best is None or cost < best[1]:
            best = splits, cost
    return best


def _candidates(
    problem: Problem, legal: LegalSplits, dims: MatmulDims
) -> Iterator[dict[sympy.Symbol, int]]:
    symbols = (*dims.batch, dims.rows, dims.columns, dims.inner)
    for combination in product(*(legal.splits[symbol] for symbol in symbols)):
        if prod(combination) <= problem.cores:
            yield legal.minimum | dict(zip(symbols, combination, strict=True))
