"""Evaluate affine maps, recognize permutations, and canonicalize maps over SSA values."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from torch_spyre.ktir.affine.expressions import IntegerArray, Value, evaluate

OperandT = TypeVar("OperandT")


def evaluate_map(
    affine_map: AffineMap, points: IntegerArray, symbols: Sequence[Value] = ()
) -> IntegerArray:
    """Return the images, of shape (count, results), of points of shape (count, dims)."""
    columns = list(points.T)
    images = np.empty((len(points), len(affine_map.results)), np.int64)
    for position, expression in enumerate(affine_map.results):
        images[:, position] = evaluate(expression, columns, symbols)
    return images


def permutation_of(affine_map: AffineMap) -> tuple[int, ...] | None:
    """Return the dim of each result if the map is a permutation of its dims, otherwise None."""
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
    """Return the dims that occur, without duplicates, by first appearance."""
    positions = dict.fromkeys(
        node.position
        for expression in expressions
        for node in expression.dfs()
        if isinstance(node, AffineDimExpr)
    )
    return list(positions)


def canonical_operands(
    affine_map: AffineMap, operands: Sequence[OperandT]
) -> tuple[AffineMap, list[OperandT]]:
    """Return the same map over distinct operands, in order of first appearance as in the text."""
    distinct: list[OperandT] = []
    new_dims: list[AffineExpr] = [AffineExpr.constant(0)] * affine_map.num_dims
    for dim in dims_in_order(affine_map.results):
        if operands[dim] not in distinct:
            distinct.append(operands[dim])
        new_dims[dim] = AffineExpr.dimension(distinct.index(operands[dim]))
    return affine_map.replace_dims_and_symbols(new_dims, (), len(distinct), 0), distinct
