"""Tiles between device memory and the scratchpad."""

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.ir import SSAValue

from torch_spyre._inductor.kernel_parameters import parameter_name
from torch_spyre._inductor.op_spec import index_names
from torch_spyre._inductor.to_ktir.access import Access, Box
from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of, shape_of
from torch_spyre._inductor.to_ktir.gathers import IndirectTile
from torch_spyre._inductor.to_ktir.groups import Group, groups_of
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.tiles import Axis, Frame, Value
from torch_spyre._inductor.to_ktir.types import element_type
from torch_spyre.errors import UnsupportedError


class Transfers:
    """Loads and stores of a kernel's arguments, in the frame of the current tile."""

    def __init__(self, emitter: Emitter, bases: Mapping[str, SSAValue]) -> None:
        self.emitter = emitter
        self.bases = bases

    def load(self, access: Access, frame: Frame, indices: Mapping[str, Access]) -> Value:
        """What the tensor holds at the points of the tile. `indices` are tensors of indices."""
        groups = groups_of(access, frame, self.emitter.indices)
        if groups is None:
            return self._indirect_tile(access, frame, indices).gather()
        raw = self._as_elements(self._load_box(access, groups), groups)
        raw = self._split(self._trimmed(raw, groups), groups)
        axes = [axis for group in groups for axis in group.axes]
        ordered = [axis for axis in frame.axes if axis in axes]
        raw = self.emitter.transpose(raw, [axes.index(axis) for axis in ordered])
        return Value(raw, tuple(ordered))

    def store(
        self,
        access: Access,
        frame: Frame,
        value: Value,
        indices: Mapping[str, Access],
        *,
        partial: bool,
    ) -> None:
        """Writes the tile. A partial one shares sticks with elements that must stay."""
        if index_names(access.arg):
            tile = self._indirect_tile(access, frame, indices)
            tile.scatter(self.spread(value, tile.axes, frame))
            return
        groups = groups_of(access, frame, self.emitter.indices)
        if groups is None or any(len(group.axes) > 1 and group.has_gaps for group in groups):
            raise UnsupportedError("a store to places that are no rectangle of the tensor")
        axes = [axis for group in groups for axis in group.axes]
        value = self.spread(value, frame.axes_of(access.symbols), frame)
        raw = self.emitter.transpose(value.ssa, [value.axes.index(axis) for axis in axes])
        raw = self._joined(raw, groups)
        lengths = tuple(group.length for group in groups)
        steps = tuple(group.factors[-1] for group in groups)
        leads = tuple(group.lead for group in groups)
        if any(leads) or any(step != 1 for step in steps) or (partial and shape_of(raw) != lengths):
            kept = self._as_elements(self._load_box(access, groups), groups)
            raw = self.emitter.insert(raw, kept, leads, steps)
        elif shape_of(raw) != lengths:
            whole = self.emitter.empty(element_of(raw), lengths)
            raw = self.emitter.insert(raw, whole, leads)
        sizes = tuple(dim.length for group in groups for dim in group.dims)
        raw = self.emitter.reshape(raw, _runs([len(group.dims) for group in groups]), sizes or (1,))
        view, origins, _ = self._view(access, groups)
        self.emitter.store(raw, view, origins)

    def _indirect_tile(
        self, access: Access, frame: Frame, indices: Mapping[str, Access]
    ) -> IndirectTile:
        return IndirectTile(self.emitter, self.bases, access, frame, indices)

    def spread(self, value: Value, axes: Sequence[Axis], frame: Frame) -> Value:
        """The value with all of these axes: the same along those that it lacks."""
        shape = frame.shape(axes)
        if value.is_scalar:
            return Value(self.emitter.splat(value.ssa, shape), tuple(axes))
        missing = [position for position, axis in enumerate(axes) if axis not in value.axes]
        return Value(self.emitter.broadcast(value.ssa, shape, missing), tuple(axes))

    def _view(
        self, access: Access, groups: Sequence[Group]
    ) -> tuple[SSAValue, list[Index], tuple[int, ...]]:
        """A view with the tile's dims; where the tile has one index of a dim, it is an offset."""
        assert access.boxes is not None
        dims = [dim for group in groups for dim in group.dims]
        view = self.emitter.view(
            self.bases[parameter_name(access.arg)],
            sum(map(_fixed_offset, access.boxes)),
            tuple(dim.size for dim in dims) or (1,),
            tuple(dim.stride for dim in dims) or (1,),
            element_type(access.arg.device_dtype),
        )
        origins = [dim.origin for dim in dims] or [Index(0)]
        return view, origins, tuple(dim.length for dim in dims) or (1,)

    def _load_box(self, access: Access, groups: Sequence[Group]) -> SSAValue:
        return self.emitter.load(*self._view(access, groups))

    def _as_elements(self, raw: SSAValue, groups: Sequence[Group]) -> SSAValue:
        """Joins which stick and which lane to one dim of elements."""
        joins = _runs([len(group.dims) for group in groups])
        return self.emitter.reshape(raw, joins, tuple(group.length for group in groups))

    def _trimmed(self, raw: SSAValue, groups: Sequence[Group]) -> SSAValue:
        sizes = tuple(group.extents[0] if len(group.axes) == 1 else group.run for group in groups)
        steps = tuple(group.factors[-1] for group in groups)
        return self.emitter.slice(raw, tuple(group.lead for group in groups), sizes, steps)

    def _split(self, raw: SSAValue, groups: Sequence[Group]) -> SSAValue:
        """Dims with several axes: one dim for each."""
        if all(len(group.axes) == 1 for group in groups):
            return raw
        joins = _runs([len(group.axes) for group in groups])
        whole = tuple(
            size
            for group in groups
            for size in (group.radices if len(group.axes) > 1 else group.extents)
        )
        wanted = tuple(extent for group in groups for extent in group.extents)
        raw = self.emitter.reshape(raw, joins, whole)
        return self.emitter.slice(raw, (0,) * len(whole), wanted)

    def _joined(self, raw: SSAValue, groups: Sequence[Group]) -> SSAValue:
        """The way back."""
        joins = _runs([len(group.axes) for group in groups])
        return self.emitter.reshape(raw, joins, tuple(prod(group.extents) for group in groups))


def _runs(widths: Sequence[int]) -> list[list[int]]:
    """Consecutive numbers, as many in each list as its width says."""
    runs, position = [], 0
    for width in widths:
        runs.append(list(range(position, position + width)))
        position += width
    return runs


def _fixed_offset(box: Box) -> int:
    """What the constant of a coordinate adds to the address, but for lanes that symbols move on."""
    constant = box.sum.constant
    if not box.is_stick:
        return constant * box.stride
    moves = any(factor % box.stick for _, factor in box.sum.terms)
    return constant // box.stick * box.stride + (0 if moves else constant % box.stick)
