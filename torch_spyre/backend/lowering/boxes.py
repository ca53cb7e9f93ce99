"""Converts affine sets to boxes whose bounds are in registers: constants if symbols are known."""

from dataclasses import dataclass

import numpy as np
from xdsl.ir.affine import AffineConstraintKind, AffineExpr, AffineSet

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.program.instructions import ElementType
from torch_spyre.errors import SetError
from torch_spyre.ktir.affine import as_box, bounds, points
from torch_spyre.ktir.affine.expressions import Linearizer

_COMPARISONS = {
    AffineConstraintKind.ge: "cmpi_sge",
    AffineConstraintKind.le: "cmpi_sle",
    AffineConstraintKind.eq: "cmpi_eq",
}
# A constraint as bounds on an expression: at least 0, at most 0, or both.
_SIGNS = {
    AffineConstraintKind.ge: (1,),
    AffineConstraintKind.le: (-1,),
    AffineConstraintKind.eq: (1, -1),
}


@dataclass(frozen=True)
class Box:
    """The lowest coordinate and the size of each dim, in registers."""

    lower: tuple[int, ...]
    sizes: tuple[int, ...]


def box_of(kernel: KernelContext, affine_set: AffineSet, symbols: list[int]) -> Box | None:
    """Return a set as a box; None if it is not a box."""
    values = [kernel.registers.constant_value(register) for register in symbols]
    known = [value for value in values if value is not None]
    if len(known) < affine_set.num_symbols:
        return _symbolic_box(kernel, affine_set, symbols)
    try:
        intervals = as_box(affine_set, known[: affine_set.num_symbols])
    except SetError as error:
        raise kernel.error(str(error)) from None
    if intervals is None:
        return None
    return Box(
        tuple(kernel.constant(interval.low) for interval in intervals),
        tuple(kernel.constant(max(interval.size, 0)) for interval in intervals),
    )


def _symbolic_box(kernel: KernelContext, affine_set: AffineSet, symbols: list[int]) -> Box | None:
    """Return a set as a box if each constraint bounds one dim by an expression of the symbols."""
    lowest: list[int | None] = [None] * affine_set.num_dims
    highest: list[int | None] = [None] * affine_set.num_dims
    conditions: list[int] = []
    zeros = [kernel.constant(0)] * affine_set.num_dims
    for constraint in affine_set.constraints:
        # lhs (kind) rhs is coefficient * dim + constant_term (kind) 0.
        difference = constraint.lhs - constraint.rhs
        coefficients = _coefficients(difference, affine_set)
        if coefficients is None or len(coefficients) > 1:
            return None
        constant_term = kernel.compute_affine(difference, zeros, symbols)
        if not coefficients:
            conditions.append(_compared_with_zero(kernel, constraint.kind, constant_term))
            continue
        ((dim, coefficient),) = coefficients.items()
        if abs(coefficient) != 1:
            return None
        # coefficient * dim + constant_term is 0 at dim == edge.
        edge = constant_term
        if coefficient > 0:
            edge = kernel.compute_index("subi", kernel.constant(0), constant_term)
        for sign in _SIGNS[constraint.kind]:
            if sign * coefficient > 0:
                lowest[dim] = _tightened(kernel, "maxsi", lowest[dim], edge)
            else:
                highest[dim] = _tightened(kernel, "minsi", highest[dim], edge)
    if conditions and not affine_set.num_dims:
        return None
    if None in lowest or None in highest:
        raise kernel.error(
            f"{affine_set} is not bounded in every dim; add a lower and an upper bound for each"
        )
    lower, sizes = [], []
    for low, high in zip(lowest, highest, strict=True):
        assert low is not None and high is not None
        end = kernel.compute_index("addi", high, kernel.constant(1))
        size = kernel.compute_index("subi", end, low)
        lower.append(low)
        sizes.append(_guarded_size(kernel, conditions, size))
    return Box(tuple(lower), tuple(sizes))


def _coefficients(expression: AffineExpr, affine_set: AffineSet) -> dict[int, int] | None:
    """Return the coefficient of each dim; None if a dim is divided."""
    linear = Linearizer(affine_set.num_dims, [0] * affine_set.num_symbols)
    form = linear.linearize(expression)
    return None if linear.num_variables > affine_set.num_dims else form.coefficients


def _compared_with_zero(kernel: KernelContext, kind: AffineConstraintKind, value: int) -> int:
    """Return a register with the predicate that a value satisfies a constraint against 0."""
    operands = (value, kernel.constant(0))
    return kernel.compute(_COMPARISONS[kind], ElementType.I64, ElementType.I1, operands)


def _guarded_size(kernel: KernelContext, conditions: list[int], size: int) -> int:
    """Return a register with the size; 0 if it is negative or a condition is false."""
    zero = kernel.constant(0)
    for condition in conditions:
        operands = (condition, size, zero)
        size = kernel.compute("select", ElementType.I64, ElementType.I64, operands)
    return kernel.compute_index("maxsi", size, zero)


def _tightened(kernel: KernelContext, op: str, bound: int | None, new_bound: int) -> int:
    return new_bound if bound is None else kernel.compute_index(op, bound, new_bound)


def constant_symbols(kernel: KernelContext, symbols: list[int]) -> list[int]:
    """Return the values of symbols; raise if one is not a constant."""
    values = [kernel.registers.constant_value(register) for register in symbols]
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        raise kernel.error("a set that is not a box needs constant symbols")
    return known


def points_of(kernel: KernelContext, affine_set: AffineSet, symbols: list[int]) -> np.ndarray:
    """Return the points of a set in lexicographic order, one per row."""
    try:
        return points(affine_set, constant_symbols(kernel, symbols)[: affine_set.num_symbols])
    except SetError as error:
        raise kernel.error(str(error)) from None


def ordered_points(
    kernel: KernelContext, affine_set: AffineSet, symbols: list[int], order: tuple[int, ...]
) -> np.ndarray:
    """Return the points of a set in the lexicographic order of permuted dims."""
    unordered = points_of(kernel, affine_set, symbols)
    if not order:
        return unordered
    # The last key of lexsort is the slowest.
    return unordered[np.lexsort([unordered[:, dim] for dim in reversed(order)])]


def boxes_of_points(coordinates: np.ndarray) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return boxes (lower, sizes) that cover points in lexicographic order.

    Each run of points in the last dim is a box; adjacent runs of equal length are merged.
    """
    if not len(coordinates):
        return []
    rank = coordinates.shape[1]
    if rank == 0:
        return [((), ())]
    same_row = np.all(coordinates[1:, :-1] == coordinates[:-1, :-1], axis=1)
    follows = same_row & (coordinates[1:, -1] == coordinates[:-1, -1] + 1)
    starts = np.concatenate(([0], np.flatnonzero(~follows) + 1))
    ends = np.concatenate((starts[1:], [len(coordinates)]))
    boxes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        lower = tuple(int(value) for value in coordinates[start])
        sizes = (1,) * (rank - 1) + (end - start,)
        if boxes and rank > 1:
            before, extent = boxes[-1]
            merged_dim = rank - 2
            if (
                before[:merged_dim] == lower[:merged_dim]
                and before[-1] == lower[-1]
                and extent[-1] == sizes[-1]
                and before[merged_dim] + extent[merged_dim] == lower[merged_dim]
            ):
                grown = (*extent[:merged_dim], extent[merged_dim] + 1, extent[-1])
                boxes[-1] = (before, grown)
                continue
        boxes.append((lower, sizes))
    return boxes


def origin_of(
    kernel: KernelContext, affine_set: AffineSet, symbols: list[int]
) -> tuple[int, ...] | None:
    """Return the lowest coordinate of a set in each dim; None if the set is empty."""
    try:
        box = bounds(affine_set, constant_symbols(kernel, symbols)[: affine_set.num_symbols])
    except SetError as error:
        raise kernel.error(str(error)) from None
    return None if box is None else tuple(interval.low for interval in box)
