"""Affine sets as boxes: numbers where everything is known, registers where symbols are not."""

from dataclasses import dataclass

import numpy as np
from xdsl.ir.affine import AffineConstraintKind, AffineExpr, AffineSet

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.program.instructions import ElementType
from torch_spyre.ktir.affine import as_box, bounds, points
from torch_spyre.ktir.affine.expressions import Linearizer
from torch_spyre.ktir.errors import SetError

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
    """Lowest coordinate and size of each dim, in registers."""

    lower: tuple[int, ...]
    sizes: tuple[int, ...]


def box_of(kernel: KernelContext, found: AffineSet, symbols: list[int]) -> Box | None:
    """The set as a box; None if it is not one."""
    values = [kernel.registers.known(register) for register in symbols]
    known = [value for value in values if value is not None]
    if len(known) < found.num_symbols:
        return _symbolic_box(kernel, found, symbols)
    try:
        intervals = as_box(found, known[: found.num_symbols])
    except SetError as error:
        raise kernel.error(str(error)) from None
    if intervals is None:
        return None
    return Box(
        tuple(kernel.constant(interval.low) for interval in intervals),
        tuple(kernel.constant(max(interval.size, 0)) for interval in intervals),
    )


def _symbolic_box(kernel: KernelContext, found: AffineSet, symbols: list[int]) -> Box | None:
    """A box whose constraints each bound one dim by an expression of the symbols."""
    lowest: list[int | None] = [None] * found.num_dims
    highest: list[int | None] = [None] * found.num_dims
    conditions: list[int] = []
    zeros = [kernel.constant(0)] * found.num_dims
    for constraint in found.constraints:
        # lhs (kind) rhs, as: coefficient * dim + rest >= 0
        difference = constraint.lhs - constraint.rhs
        coefficients = _coefficients(difference, found)
        if coefficients is None or len(coefficients) > 1:
            return None
        rest = kernel.affine(difference, zeros, symbols)
        if not coefficients:
            conditions.append(_holds(kernel, constraint.kind, rest))
            continue
        ((dim, coefficient),) = coefficients.items()
        if abs(coefficient) != 1:
            return None
        # coefficient * dim + rest is 0 where dim is this.
        edge = kernel.integer("subi", kernel.constant(0), rest) if coefficient > 0 else rest
        for sign in _SIGNS[constraint.kind]:
            if sign * coefficient > 0:
                lowest[dim] = _joined(kernel, "maxsi", lowest[dim], edge)
            else:
                highest[dim] = _joined(kernel, "minsi", highest[dim], edge)
    if conditions and not found.num_dims:
        return None
    if None in lowest or None in highest:
        raise kernel.error(f"{found} is not bounded in every dim")
    lower, sizes = [], []
    for low, high in zip(lowest, highest, strict=True):
        assert low is not None and high is not None
        beyond = kernel.integer("addi", high, kernel.constant(1))
        size = kernel.integer("subi", beyond, low)
        lower.append(low)
        sizes.append(_size_if(kernel, conditions, size))
    return Box(tuple(lower), tuple(sizes))


def _coefficients(expression: AffineExpr, found: AffineSet) -> dict[int, int] | None:
    """What each dim is multiplied by; None where a dim is divided."""
    linear = Linearizer(found.num_dims, [0] * found.num_symbols)
    form = linear.linearize(expression)
    return None if linear.num_variables > found.num_dims else form.coefficients


def _holds(kernel: KernelContext, kind: AffineConstraintKind, value: int) -> int:
    """A flag: is the value, which no dim has a part in, related to 0 as asked?"""
    compared = (value, kernel.constant(0))
    return kernel.compute(_COMPARISONS[kind], ElementType.I64, ElementType.I1, compared)


def _size_if(kernel: KernelContext, conditions: list[int], size: int) -> int:
    """The size, 0 where it would be negative or where a condition does not hold."""
    zero = kernel.constant(0)
    for condition in conditions:
        choice = (condition, size, zero)
        size = kernel.compute("select", ElementType.I64, ElementType.I64, choice)
    return kernel.integer("maxsi", size, zero)


def _joined(kernel: KernelContext, op: str, before: int | None, new: int) -> int:
    return new if before is None else kernel.integer(op, before, new)


def known_symbols(kernel: KernelContext, symbols: list[int]) -> list[int]:
    values = [kernel.registers.known(register) for register in symbols]
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        raise kernel.error("a set that is not a box needs symbols that are known")
    return known


def points_of(kernel: KernelContext, found: AffineSet, symbols: list[int]) -> np.ndarray:
    try:
        return points(found, known_symbols(kernel, symbols)[: found.num_symbols])
    except SetError as error:
        raise kernel.error(str(error)) from None


def boxes_of_points(listed: np.ndarray) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Cuts points in lexicographic order into boxes (lower, sizes): runs, joined where equal."""
    if not len(listed):
        return []
    rank = listed.shape[1]
    if rank == 0:
        return [((), ())]
    same_row = np.all(listed[1:, :-1] == listed[:-1, :-1], axis=1)
    follows = same_row & (listed[1:, -1] == listed[:-1, -1] + 1)
    starts = np.concatenate(([0], np.flatnonzero(~follows) + 1))
    ends = np.concatenate((starts[1:], [len(listed)]))
    boxes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        lower = tuple(int(value) for value in listed[start])
        sizes = (1,) * (rank - 1) + (end - start,)
        if boxes and rank > 1:
            before, extent = boxes[-1]
            joined = rank - 2
            if (
                before[:joined] == lower[:joined]
                and before[-1] == lower[-1]
                and extent[-1] == sizes[-1]
                and before[joined] + extent[joined] == lower[joined]
            ):
                grown = (*extent[:joined], extent[joined] + 1, extent[-1])
                boxes[-1] = (before, grown)
                continue
        boxes.append((lower, sizes))
    return boxes


def origin_of(
    kernel: KernelContext, found: AffineSet, symbols: list[int]
) -> tuple[int, ...] | None:
    """The lowest coordinate of a known set in each dim; None if it is empty."""
    try:
        box = bounds(found, known_symbols(kernel, symbols)[: found.num_symbols])
    except SetError as error:
        raise kernel.error(str(error)) from None
    return None if box is None else tuple(interval.low for interval in box)
