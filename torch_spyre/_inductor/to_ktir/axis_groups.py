"""Maps the axes of a tile to the dims of a tensor in device memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from sympy import Symbol

from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.to_ktir.extents import (
    Extent,
    Shape,
    Size,
    ceil_divided,
    known,
    maximum_of,
)
from torch_spyre._inductor.to_ktir.indices import Index, IndexArithmetic
from torch_spyre._inductor.to_ktir.memory_boxes import MemoryBox, MemoryBoxes
from torch_spyre._inductor.to_ktir.tiles import Frame


@dataclass(frozen=True)
class ViewDim:
    """A dim of a memory view, and the range of it that the tile covers."""

    size: Size
    stride: Size
    origin: Index
    length: Size


@dataclass(frozen=True)
class AxisGroup:
    """Axes of a tile along one dim of elements, largest factor first.

    The dim is one dim of memory, or two: sticks and lanes. The tile begins at element `lead` of the
    loaded range; its elements are `factors[-1]` apart.
    """

    axes: tuple[Axis, ...]
    factors: tuple[int, ...]
    extents: Shape
    dims: tuple[ViewDim, ...]
    lead: int = 0

    @property
    def length(self) -> Size:
        """The number of elements that are loaded."""
        length: Size = 1
        for dim in self.dims:
            if isinstance(dim.length, Extent):
                length = dim.length * known(length)
            else:
                length = length * dim.length
        return length

    @property
    def run(self) -> Size:
        """With several axes, the number of elements that the tile covers, including gaps."""
        return self.factors[0] * self.extents[0]

    @property
    def radices(self) -> Shape:
        """The sizes that a run splits into: one for each axis, including gaps."""
        ratios = [
            outer // inner for outer, inner in zip(self.factors, self.factors[1:], strict=False)
        ]
        return (self.extents[0], *ratios)

    @property
    def has_gaps(self) -> bool:
        return self.factors[-1] != 1 or self.radices != self.extents


def axis_groups(
    rectangle: MemoryBoxes | None, frame: Frame, arithmetic: IndexArithmetic
) -> list[AxisGroup] | None:
    """Return the groups in the order of the frame's axes, with those of lanes last.

    Return None if the tile is not a rectangle of the tensor.
    """
    if rectangle is None:
        return None
    groups: list[AxisGroup] = []
    for box in rectangle.boxes:
        if not box.sum.terms:
            continue
        box_groups = _groups_of_box(box, frame, arithmetic)
        if box_groups is None:
            return None
        groups.extend(box_groups)
    position = {axis: index for index, axis in enumerate(frame.axes)}
    return sorted(groups, key=lambda group: (len(group.dims), position[group.axes[-1]]))


def _groups_of_box(
    box: MemoryBox, frame: Frame, arithmetic: IndexArithmetic
) -> Sequence[AxisGroup] | None:
    """Return a group for each symbol that steps over whole sticks, and one for those within."""
    groups = []
    stick_terms = []
    for symbol, factor in box.sum.terms:
        if box.is_stick and factor % box.stick:
            stick_terms.append((symbol, factor))
            continue
        stride = box.stride * (factor // box.stick if box.is_stick else factor)
        axes = [axis for axis in frame.axes if axis.symbol == symbol]
        dim = ViewDim(box.size, stride, frame.origins[symbol], frame.extents[symbol])
        assert len(axes) == 1
        groups.append(AxisGroup((axes[0],), (1,), (dim.length,), (dim,)))
    if not stick_terms:
        return groups
    stick_groups = _groups_along_sticks(box, stick_terms, frame, arithmetic)
    return None if stick_groups is None else [*groups, *stick_groups]


def _groups_along_sticks(
    box: MemoryBox,
    terms: Sequence[tuple[Symbol, int]],
    frame: Frame,
    arithmetic: IndexArithmetic,
) -> Sequence[AxisGroup] | None:
    origin = Index(box.sum.constant % box.stick)
    for symbol, factor in terms:
        origin = arithmetic.plus(origin, arithmetic.times(frame.origins[symbol], factor))
    symbols = [symbol for symbol, _ in terms]
    axes = tuple(axis for symbol in symbols for axis in frame.axes if axis.symbol == symbol)
    if len(axes) > len(symbols):
        return _stick_and_lane_groups(box, axes, origin, frame, arithmetic)
    factors = tuple(factor for _, factor in terms)
    extents = tuple(frame.extents[symbol] for symbol in symbols)
    is_nested = all(
        outer % inner == 0 and inner * maximum_of(extent) <= outer
        for outer, inner, extent in zip(factors, factors[1:], extents[1:], strict=False)
    )
    if not is_nested or (len(factors) > 1 and factors[-1] != 1):
        return None
    length = _span(factors, extents)
    lead = origin.modulo(box.stick)
    aligned = Index(origin.offset - lead, origin.value, origin.multiple)
    first = arithmetic.divided(aligned, box.stick)
    sticks = ceil_divided(length + lead, box.stick)
    dims = (
        ViewDim(box.size, box.stride, first, sticks),
        ViewDim(box.stick, 1, Index(0), box.stick),
    )
    return [AxisGroup(axes, factors, extents, dims, lead)]


def _span(factors: Sequence[int], extents: Sequence[Size]) -> Size:
    """Return how many elements the tile covers along the sticks.

    With several axes, this is a multiple of the largest factor, so that a reshape can split them.
    """
    if len(factors) > 1:
        return factors[0] * known(extents[0])
    (factor,), (extent,) = factors, extents
    if factor == 1:
        return extent
    return 1 + factor * (known(extent) - 1)


def _stick_and_lane_groups(
    box: MemoryBox, axes: tuple[Axis, ...], origin: Index, frame: Frame, arithmetic: IndexArithmetic
) -> Sequence[AxisGroup]:
    stick, lane = axes
    count = frame.extent(stick)
    sticks = ViewDim(box.size, box.stride, arithmetic.divided(origin, box.stick), count)
    lanes = ViewDim(box.stick, 1, Index(0), box.stick)
    return [
        AxisGroup((stick,), (1,), (count,), (sticks,)),
        AxisGroup((lane,), (1,), (box.stick,), (lanes,)),
    ]
