"""How a tile's axes lie along the dims of a tensor in device memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from sympy import Symbol

from torch_spyre._inductor.to_ktir.access import Access, Box
from torch_spyre._inductor.to_ktir.indices import Index, IndexArithmetic
from torch_spyre._inductor.to_ktir.tiles import Axis, Frame


@dataclass(frozen=True)
class ViewDim:
    """A dim of a memory view, and what of it the tile takes."""

    size: int
    stride: int
    origin: Index
    length: int


@dataclass(frozen=True)
class Group:
    """Axes of a tile that lie along one dim of elements, largest factor first.

    The dim is one dim of memory, or two: which stick and which lane. From `lead` on, an element of
    `factors[-1]` belongs to the tile.
    """

    axes: tuple[Axis, ...]
    factors: tuple[int, ...]
    extents: tuple[int, ...]
    dims: tuple[ViewDim, ...]
    lead: int = 0

    @property
    def length(self) -> int:
        """Elements that are loaded."""
        return prod(dim.length for dim in self.dims)

    @property
    def run(self) -> int:
        """Elements from the first of the tile on that hold all of it, with several axes."""
        return self.factors[0] * self.extents[0]

    @property
    def radices(self) -> tuple[int, ...]:
        """Sizes into which a run splits: one for each axis, with what lies between."""
        inner = [
            outer // inner for outer, inner in zip(self.factors, self.factors[1:], strict=False)
        ]
        return (self.extents[0], *inner)

    @property
    def has_gaps(self) -> bool:
        return self.factors[-1] != 1 or self.radices != self.extents


def groups_of(access: Access, frame: Frame, arithmetic: IndexArithmetic) -> list[Group] | None:
    """Groups in the order of the frame's axes, lanes last, as in memory.

    None where the tile is no rectangle.
    """
    if access.boxes is None:
        return None
    groups: list[Group] = []
    for box in access.boxes:
        if not box.sum.terms:
            continue
        found = _groups_along(box, frame, arithmetic)
        if found is None:
            return None
        groups.extend(found)
    position = {axis: place for place, axis in enumerate(frame.axes)}
    return sorted(groups, key=lambda group: (len(group.dims), position[group.axes[-1]]))


def _groups_along(box: Box, frame: Frame, arithmetic: IndexArithmetic) -> Sequence[Group] | None:
    """Symbols that step over whole sticks, or along none, are dims of the view; others share."""
    groups = []
    along = []
    for symbol, factor in box.sum.terms:
        if box.is_stick and factor % box.stick:
            along.append((symbol, factor))
            continue
        stride = box.stride * (factor // box.stick if box.is_stick else factor)
        axes = [axis for axis in frame.axes if axis.symbol == symbol]
        dim = ViewDim(box.size, stride, frame.origins[symbol], frame.extents[symbol])
        assert len(axes) == 1
        groups.append(Group((axes[0],), (1,), (dim.length,), (dim,)))
    if not along:
        return groups
    lanes = _along_sticks(box, along, frame, arithmetic)
    return None if lanes is None else [*groups, *lanes]


def _along_sticks(
    box: Box,
    terms: Sequence[tuple[Symbol, int]],
    frame: Frame,
    arithmetic: IndexArithmetic,
) -> Sequence[Group] | None:
    origin = Index(box.sum.constant % box.stick)
    for symbol, factor in terms:
        origin = arithmetic.plus(origin, arithmetic.times(frame.origins[symbol], factor))
    symbols = [symbol for symbol, _ in terms]
    axes = tuple(axis for symbol in symbols for axis in frame.axes if axis.symbol == symbol)
    if len(axes) > len(symbols):
        return _stick_and_lane(box, axes, origin, frame, arithmetic)
    factors = tuple(factor for _, factor in terms)
    extents = tuple(frame.extents[symbol] for symbol in symbols)
    nested = all(
        outer % inner == 0 and inner * extent <= outer
        for outer, inner, extent in zip(factors, factors[1:], extents[1:], strict=False)
    )
    if not nested or (len(factors) > 1 and factors[-1] != 1):
        return None
    # With several axes, whole multiples of the largest factor: they can be split apart.
    length = factors[0] * extents[0] if len(factors) > 1 else 1 + factors[0] * (extents[0] - 1)
    lead = origin.modulo(box.stick)
    aligned = Index(origin.offset - lead, origin.value, origin.multiple)
    first = arithmetic.divided(aligned, box.stick)
    sticks = -(-(lead + length) // box.stick)
    dims = (
        ViewDim(box.size, box.stride, first, sticks),
        ViewDim(box.stick, 1, Index(0), box.stick),
    )
    return [Group(axes, factors, extents, dims, lead)]


def _stick_and_lane(
    box: Box, axes: tuple[Axis, ...], origin: Index, frame: Frame, arithmetic: IndexArithmetic
) -> Sequence[Group]:
    stick, lane = axes
    count = frame.extent(stick)
    sticks = ViewDim(box.size, box.stride, arithmetic.divided(origin, box.stick), count)
    lanes = ViewDim(box.stick, 1, Index(0), box.stick)
    return [
        Group((stick,), (1,), (count,), (sticks,)),
        Group((lane,), (1,), (box.stick,), (lanes,)),
    ]
