"""Second pass, for matrix products: price every legal split, and take the cheapest.

Prices are microseconds of a simple model of the card, plus terms that only rank. All numbers are
fitted to measurements; none is a setting.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import log2, prod, sqrt
from typing import NamedTuple

import sympy

from torch_spyre._inductor.work_division.expressions import symbols_of
from torch_spyre._inductor.work_division.problem import Problem
from torch_spyre._inductor.work_division.rules import LegalSplits

MACS_PER_US = 1.536e6
"""Of one core, in 16-bit formats."""
BYTES_PER_US = 204_800
"""Of the card's memory."""
BYTES_PER_ELEMENT = 2
ROWS_PER_PASS = 8
"""Rows that a corelet's array works on at once."""


class Sizes(NamedTuple):
    """A product of `batch` matrices; columns and inner in whole sticks of elements."""

    batch: int
    rows: int
    columns: int
    inner: int
    # One right matrix for the whole batch.
    shared: bool


class Split(NamedTuple):
    batch: int
    rows: int
    columns: int
    inner: int


@dataclass(frozen=True)
class CostModel:
    name: str
    price: Callable[[Sizes, Split, int], float]
    # Divides products of a batch with one matrix; otherwise they are left to distribution.
    takes_shared: bool
    # Its cheapest split stands even if it leaves cores idle that distribution would use.
    may_idle: bool


def _earlier_price(sizes: Sizes, split: Split, cores: int) -> float:
    batch, rows, columns, inner, _ = sizes
    passes = max(1.0, rows // split.rows / ROWS_PER_PASS)
    efficiency = min(1.0, sqrt(passes / 8))
    compute = batch * rows * columns * inner / prod(split) / (MACS_PER_US * efficiency)
    elements = batch * (rows * inner + inner * columns + rows * columns)
    memory = elements * BYTES_PER_ELEMENT / BYTES_PER_US
    memory *= max(1.0, max(split.rows, split.columns) / 8)
    partial_sums = (split.inner - 1) * batch * rows * columns * 1.4e-4
    short_tiles = 0.0 if passes >= 8 else 50 * log2(8 / passes)
    return float((compute + memory + partial_sums + short_tiles) * split.batch**1.4)


def _later_price(sizes: Sizes, split: Split, cores: int) -> float:
    return _latency(sizes, split) + _ranking(sizes, split, cores)


def _latency(sizes: Sizes, split: Split) -> float:
    batch, rows, columns, inner, shared = sizes
    # Five passes of eight rows fill the array; fewer than one pass costs no more than one.
    fill = min(40, max(ROWS_PER_PASS, rows // split.rows))
    slowdown: float = (40 / fill) ** 0.25
    compute = batch * rows * columns * inner / prod(split) / MACS_PER_US * slowdown
    if split.inner > 1:
        compute *= 2  # combining across cores leaves one corelet idle
    weights = inner * columns * (1 if shared else batch)
    elements = batch * rows * inner + weights + batch * rows * columns
    readers = max(split.rows, split.columns) if shared else split.columns
    contention: float = max(1.0, readers / 8) ** 0.75
    memory = elements * BYTES_PER_ELEMENT / BYTES_PER_US * contention
    tile = batch * rows * columns / (split.batch * split.rows * split.columns)
    partial_sums = (split.inner - 1) * tile * (1e-3 if shared else 1e-4)
    return compute + memory + partial_sums


def _ranking(sizes: Sizes, split: Split, cores: int) -> float:
    _, rows, columns, inner, shared = sizes
    tile_rows, tile_columns = rows // split.rows, columns // split.columns
    wanted = max(4, min(cores // 2, max(1, rows // 32)))
    deep = _excess(inner / columns) * log2(split.columns)
    rank = 10 * _excess(wanted / split.rows)
    rank += 30 * _excess(16 / tile_rows)
    rank += 25 * _excess(tile_columns / 512)
    if shared:
        rank += 10 * deep
    if tile_rows >= 16:
        narrow = 5 * _excess(4096 / columns) * _excess(tile_columns / 128)
        rank += narrow if shared else 20 * deep
    rank += 150 * log2(cores / prod(split))
    return rank if shared else rank + 10 * log2(split.batch)


def _excess(ratio: float) -> float:
    """How many doublings above one."""
    return max(0.0, log2(ratio))


EARLIER = CostModel("earlier", _earlier_price, takes_shared=False, may_idle=False)
LATER = CostModel("later", _later_price, takes_shared=True, may_idle=True)


@dataclass(frozen=True)
class Roles:
    """Which symbol of a matrix product is what."""

    batch: tuple[sympy.Symbol, ...]
    rows: sympy.Symbol
    columns: sympy.Symbol
    inner: sympy.Symbol
    shared: bool


def roles_of(problem: Problem) -> Roles | None:
    """None if the op is not a product with rows, columns of whole sticks and one inner dim."""
    inputs = [
        {symbol for coordinate in tensor.device_coordinates for symbol in symbols_of(coordinate)}
        for tensor in problem.spec.inputs
    ]
    columns = [symbol for symbol in problem.output_dims if symbol in problem.sticks]
    if len(columns) != 1 or len(problem.reduction_dims) != 1 or len(inputs) != 2:
        return None
    others = [symbol for symbol in problem.output_dims if symbol != columns[0]]
    of_one_input = [symbol for symbol in others if sum(symbol in each for each in inputs) == 1]
    if not of_one_input:
        return None
    rows = min(of_one_input, key=lambda symbol: _host_stride(problem, symbol))
    batch = tuple(symbol for symbol in others if symbol != rows)
    shared = len(of_one_input) > 1 or not batch
    return Roles(batch, rows, columns[0], problem.reduction_dims[0], shared)


def _host_stride(problem: Problem, symbol: sympy.Symbol) -> tuple[int, int]:
    """Of the symbol in the output; without a stride map, later symbols are taken as inner."""
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


def sizes_of(problem: Problem, roles: Roles) -> Sizes:
    def whole(symbol: sympy.Symbol) -> int:
        return problem.units[symbol] * problem.sticks.get(symbol, 1)

    batch = prod(problem.sizes[symbol] for symbol in roles.batch)
    rows = problem.sizes[roles.rows]
    return Sizes(batch, rows, whole(roles.columns), whole(roles.inner), roles.shared)


def cheapest_split(
    problem: Problem, legal: LegalSplits, model: CostModel = LATER
) -> tuple[dict[sympy.Symbol, int], float] | None:
    """The cheapest splits and their price; the first found at a tie. None: not for this model."""
    roles = roles_of(problem)
    if roles is None or (roles.shared and roles.batch and not model.takes_shared):
        return None
    sizes = sizes_of(problem, roles)
    best: tuple[dict[sympy.Symbol, int], float] | None = None
    for splits in _candidates(problem, legal, roles):
        split = Split(
            prod(splits[symbol] for symbol in roles.batch),
            splits[roles.rows],
            splits[roles.columns],
            splits[roles.inner],
        )
        price = model.price(sizes, split, problem.cores)
        if best is None or price < best[1]:
            best = splits, price
    return best


def _candidates(
    problem: Problem, legal: LegalSplits, roles: Roles
) -> Iterator[dict[sympy.Symbol, int]]:
    symbols = (*roles.batch, roles.rows, roles.columns, roles.inner)
    for chosen in product(*(legal.splits[symbol] for symbol in symbols)):
        if prod(chosen) <= problem.cores:
            yield legal.least | dict(zip(symbols, chosen, strict=True))
