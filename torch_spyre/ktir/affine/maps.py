"""Affine maps: evaluation, permutations, and the canonical form of a map over SSA values."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from torch_spyre.ktir.affine.expressions import IntegerArray, Value, evaluate

OperandT = TypeVar("OperandT")


def evaluate_map(
    affine_map: AffineMap, points: IntegerArray, symbols: Sequence[Value] = ()
) -> IntegerArray:
    """The images of many points: `points` is (count, dims), the result (count, results)."""
    columns = list(points.T)
    images = np.empty((len(points), len(affine_map.results)), np.int64)
    for position, expression in enumerate(affine_map.results):
        images[:, position] = evaluate(expression, columns, symbols)
    return images


def permutation_of(affine_map: AffineMap) -> tuple[int, ...] | None:
    """The dim that each result names, if the map only reorders its dims; otherwise None."""
    order = tuple(
        expression.position
        for expression in affine_map.results
        if isinstance(expression, AffineDimExpr)
    )
    if len(order) != len(affine_map.results) or sorted(order) != list(range(affine_map.num_dims)):
        return None
    return order


def is_identity(affine_map: AffineMap) -> bool:
    return permutation_of(affine_map) == tuple(range(affine_map.num_dims))


def dims_in_order(expressions: Sequence[AffineExpr]) -> list[int]:
    """The dims that occur, each once, by first appearance."""
    seen = dict.fromkeys(
        node.position
        for expression in expressions
        for node in expression.dfs()
        if isinstance(node, AffineDimExpr)
    )
    return list(seen)


def canonical_operands(
    affine_map: AffineMap, operands: Sequence[OperandT]
) -> tuple[AffineMap, list[OperandT]]:
    """The same map over distinct operands in order of first appearance, as text reads back."""
    chosen: list[OperandT] = []
    new_dims: list[AffineExpr] = [AffineExpr.constant(0)] * affine_map.num_dims
    for dim in dims_in_order(affine_map.results):
        if operands[dim] not in chosen:
            chosen.append(operands[dim])
        new_dims[dim] = AffineExpr.dimension(chosen.index(operands[dim]))
    return affine_map.replace_dims_and_symbols(new_dims, (), len(chosen), 0), chosen
