"""Emits transfers of tiles between device memory and the scratchpad."""

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.ir import SSAValue

from torch_spyre._inductor.kernel_parameters import parameter_name
from torch_spyre._inductor.op_spec import TensorArg, index_names
from torch_spyre._inductor.tiling.access import Access, row_major
from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.to_ktir.axis_groups import AxisGroup, axis_groups
from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of, shape_of
from torch_spyre._inductor.to_ktir.extents import Shape, known
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.indirect_access import IndirectTile
from torch_spyre._inductor.to_ktir.launch_sizes import LaunchSizes
from torch_spyre._inductor.to_ktir.memory_boxes import MemoryBox, MemoryBoxes, boxes_of
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.types import element_type
from torch_spyre.errors import UnsupportedError


class Transfers:
    """Emits loads and stores of a kernel's arguments."""

    def __init__(
        self,
        emitter: Emitter,
        bases: Mapping[str, SSAValue],
        launch_sizes: LaunchSizes | None = None,
    ) -> None:
        self.emitter = emitter
        self.bases = bases
        self.launch_sizes = launch_sizes

    def load(self, access: Access, frame: Frame, indices: Mapping[str, Access]) -> Value:
        """Emit a load of the tile in `frame`. `indices` are index tensors by name."""
        rectangle = self._rectangle(access)
        groups = axis_groups(rectangle, frame, self.emitter.indices)
        if rectangle is None or groups is None:
            return self._indirect_tile(access, frame, indices).gather()
        raw = self._merge_lanes(self._load_box(access.arg, rectangle, groups), groups)
        raw = self._split_axes(self._trim(raw, groups), groups)
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
        is_partial: bool,
    ) -> None:
        """Emit a store of the tile in `frame`.

        A partial store preserves the other elements of the sticks that it writes.
        """
        if index_names(access.arg):
            tile = self._indirect_tile(access, frame, indices)
            tile.scatter(self.broadcast_to(value, tile.axes, frame))
            return
        rectangle = self._rectangle(access)
        groups = axis_groups(rectangle, frame, self.emitter.indices)
        if (
            rectangle is None
            or groups is None
            or any(len(group.axes) > 1 and group.has_gaps for group in groups)
        ):
            raise UnsupportedError("a store to elements that are not a rectangle of the tensor")
        axes = [axis for group in groups for axis in group.axes]
        value = self.broadcast_to(value, frame.axes_of(access.symbols), frame)
        raw = self.emitter.transpose(value.ssa, [value.axes.index(axis) for axis in axes])
        raw = self._merge_axes(raw, groups)
        lengths = tuple(group.length for group in groups)
        steps = tuple(group.factors[-1] for group in groups)
        leads = tuple(group.lead for group in groups)
        if (
            any(leads)
            or any(step != 1 for step in steps)
            or (is_partial and shape_of(raw) != lengths)
        ):
            preserved = self._merge_lanes(self._load_box(access.arg, rectangle, groups), groups)
            raw = self.emitter.insert(raw, preserved, leads, steps)
        elif shape_of(raw) != lengths:
            padded = self.emitter.empty(element_of(raw), lengths)
            raw = self.emitter.insert(raw, padded, leads)
        sizes = tuple(dim.length for group in groups for dim in group.dims)
        dims = _consecutive([len(group.dims) for group in groups])
        raw = self.emitter.reshape(raw, dims, sizes or (1,))
        view, origins, _ = self._view(access.arg, rectangle, groups)
        self.emitter.store(raw, view, origins)

    def _rectangle(self, access: Access) -> MemoryBoxes | None:
        if self.launch_sizes is None:
            return boxes_of(access)
        return self.launch_sizes.boxes_of(access)

    def _indirect_tile(
        self, access: Access, frame: Frame, indices: Mapping[str, Access]
    ) -> IndirectTile:
        return IndirectTile(self.emitter, self.bases, access, frame, indices, self._device_shape)

    def _device_shape(self, arg: TensorArg) -> tuple[Shape, Shape]:
        """Return the sizes and strides of a tensor's device dims."""
        if self.launch_sizes is not None:
            return self.launch_sizes.device_shape(arg)
        return tuple(arg.device_size), row_major(tuple(arg.device_size))

    def broadcast_to(self, value: Value, axes: Sequence[Axis], frame: Frame) -> Value:
        """Emit the value with all of these axes, broadcast along those that it lacks."""
        shape = frame.shape(axes)
        if value.is_scalar:
            return Value(self.emitter.splat(value.ssa, shape), tuple(axes))
        missing = [position for position, axis in enumerate(axes) if axis not in value.axes]
        return Value(self.emitter.broadcast(value.ssa, shape, missing), tuple(axes))

    def _view(
        self, arg: TensorArg, rectangle: MemoryBoxes, groups: Sequence[AxisGroup]
    ) -> tuple[SSAValue, list[Index], Shape]:
        """Return a view with the tile's dims, and origins and sizes of the tile in it.

        Dims along which the tile has a single, constant index are part of the view's offset.
        """
        dims = [dim for group in groups for dim in group.dims]
        view = self.emitter.view(
            self.bases[parameter_name(arg)],
            rectangle.offset + sum(map(_fixed_offset, rectangle.boxes)),
            tuple(dim.size for dim in dims) or (1,),
            tuple(dim.stride for dim in dims) or (1,),
            element_type(arg.device_dtype),
        )
        origins = [dim.origin for dim in dims] or [Index(0)]
        return view, origins, tuple(dim.length for dim in dims) or (1,)

    def _load_box(
        self, arg: TensorArg, rectangle: MemoryBoxes, groups: Sequence[AxisGroup]
    ) -> SSAValue:
        return self.emitter.load(*self._view(arg, rectangle, groups))

    def _merge_lanes(self, raw: SSAValue, groups: Sequence[AxisGroup]) -> SSAValue:
        """Emit a reshape that merges sticks and lanes to one dim of elements."""
        dims = _consecutive([len(group.dims) for group in groups])
        return self.emitter.reshape(raw, dims, tuple(group.length for group in groups))

    def _trim(self, raw: SSAValue, groups: Sequence[AxisGroup]) -> SSAValue:
        """Emit a slice without the loaded elements before, after and between those of the tile."""
        sizes = tuple(group.extents[0] if len(group.axes) == 1 else group.run for group in groups)
        steps = tuple(group.factors[-1] for group in groups)
        return self.emitter.slice(raw, tuple(group.lead for group in groups), sizes, steps)

    def _split_axes(self, raw: SSAValue, groups: Sequence[AxisGroup]) -> SSAValue:
        """Emit a reshape to one dim for each axis, without the gaps between elements."""
        if all(len(group.axes) == 1 for group in groups):
            return raw
        dims = _consecutive([len(group.axes) for group in groups])
        with_gaps = tuple(
            size
            for group in groups
            for size in (group.radices if len(group.axes) > 1 else group.extents)
        )
        extents = tuple(extent for group in groups for extent in group.extents)
        raw = self.emitter.reshape(raw, dims, with_gaps)
        return self.emitter.slice(raw, (0,) * len(with_gaps), extents)

    def _merge_axes(self, raw: SSAValue, groups: Sequence[AxisGroup]) -> SSAValue:
        """Emit a reshape from one dim for each axis to one for each group, which has no gaps."""
        dims = _consecutive([len(group.axes) for group in groups])
        return self.emitter.reshape(raw, dims, tuple(prod(group.extents) for group in groups))


def _consecutive(widths: Sequence[int]) -> list[list[int]]:
    """Return lists of consecutive integers with these lengths: `[2, 1]` gives `[[0, 1], [2]]`."""
    lists, position = [], 0
    for width in widths:
        lists.append(list(range(position, position + width)))
        position += width
    return lists


def _fixed_offset(box: MemoryBox) -> int:
    """Return the offset of a coordinate's constant, without lanes that the tile's lead covers."""
    constant = box.sum.constant
    if not box.is_stick:
        return constant * known(box.stride) if constant else 0
    has_lead = any(factor % box.stick for _, factor in box.sum.terms)
    whole = constant // box.stick
    within = 0 if has_lead else constant % box.stick
    return whole * known(box.stride) + within if whole else within
