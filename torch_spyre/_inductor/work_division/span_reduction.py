"""First pass: finds the smallest splits that keep every tensor within the span limit."""

from collections.abc import Iterator
from itertools import product
from math import prod
from operator import itemgetter

import sympy

from torch_spyre._inductor.op_spec import TensorArg
from torch_spyre._inductor.work_division.problem import Problem, Splits
from torch_spyre._inductor.work_division.rules import LegalSplits
from torch_spyre.errors import SpanLimitError, WorkDivisionError
from torch_spyre.logging_config import get_logger

logger = get_logger("torch_spyre.inductor.passes")


def reduce_spans(problem: Problem, legal: LegalSplits) -> dict[sympy.Symbol, int]:
    """Return splits that later passes may increase but not decrease.

    A tensor that cannot be brought within the limit gets the smallest possible span: later passes
    may improve it, and `check_spans` raises if they do not.
    """
    splits = legal.minimum
    for tensor in problem.spanning_tensors:
        splits = _reduce_span(problem, legal, tensor, splits)
    reductions = [symbol for symbol in problem.reduction_dims if splits[symbol] > 1]
    if len(reductions) > 1:
        raise WorkDivisionError(
            problem.spec.op,
            "Cannot satisfy hardware memory span limit "
            f"({problem.span_limit // 2**20}MB) without splitting {len(reductions)} reduction "
            "dimension(s), and the backend supports at most 1. Reduce one dim after the other",
        )
    return splits


def _reduce_span(
    problem: Problem, legal: LegalSplits, tensor: TensorArg, splits: dict[sympy.Symbol, int]
) -> dict[sympy.Symbol, int]:
    for position in range(len(tensor.device_size) - 1):
        if problem.span(tensor, splits) <= problem.span_limit:
            break
        splits = _best_for_coordinate(problem, legal, tensor, position, splits)
        if problem.extent(tensor, position, splits) > 1:
            break  # this dim sets the span, so splits of inner dims cannot reduce it
    if problem.span(tensor, splits) > problem.span_limit:
        # Not a warning: an error follows, which the caller may handle by splitting the loops.
        logger.debug(
            "Cannot satisfy span limit: %s, tensor of device size %s: %.1f MiB",
            problem.spec.op,
            list(tensor.device_size),
            problem.span(tensor, splits) / 2**20,
        )
    return splits


def _best_for_coordinate(
    problem: Problem,
    legal: LegalSplits,
    tensor: TensorArg,
    position: int,
    splits: dict[sympy.Symbol, int],
) -> dict[sympy.Symbol, int]:
    """Return the best splits of the symbols of one coordinate.

    Among those within the limit: the fewest cores, then the largest span. Otherwise the smallest
    span.
    """
    candidates = [
        (problem.span(tensor, candidate), prod(candidate.values()), candidate)
        for candidate in _combinations(problem, legal, tensor, position, splits)
    ]
    within_limit = [
        (cores, -span, c) for span, cores, c in candidates if span <= problem.span_limit
    ]
    if within_limit:
        return min(within_limit, key=itemgetter(0, 1))[2]
    return min(candidates, key=itemgetter(0), default=(0, 0, splits))[2]


def _combinations(
    problem: Problem,
    legal: LegalSplits,
    tensor: TensorArg,
    position: int,
    splits: dict[sympy.Symbol, int],
) -> Iterator[dict[sympy.Symbol, int]]:
    coordinate_symbols = problem.coordinate_symbols(tensor, position)
    symbols = [symbol for symbol in problem.symbols if symbol in coordinate_symbols]
    choices = [
        [split for split in legal.splits[symbol] if split >= splits[symbol]] for symbol in symbols
    ]
    for combination in product(*choices):
        candidate = splits | dict(zip(symbols, combination, strict=True))
        if prod(candidate.values()) <= problem.cores:
            yield candidate


def check_spans(problem: Problem, splits: Splits, legal: LegalSplits | None = None) -> None:
    """Raise for the first tensor above the span limit; `legal` explains why splits are limited."""
    for tensor in problem.spanning_tensors:
        span = problem.span(tensor, splits)
        if span <= problem.span_limit:
            continue
        outermost = next(
            position
            for position in range(len(tensor.device_size))
            if problem.extent(tensor, position, splits) > 1
        )
        symbols = sorted(problem.coordinate_symbols(tensor, outermost), key=str)
        raise SpanLimitError(
            problem.spec.op,
            "input" if tensor.is_input else "output",
            tensor.device_size,
            span,
            problem.span_limit,
            {str(symbol): split for symbol, split in splits.items() if split > 1},
            [f"{symbol}{legal.reason(symbol) if legal else ''}" for symbol in symbols],
        )
