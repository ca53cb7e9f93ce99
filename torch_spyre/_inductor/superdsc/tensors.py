"""What a SuperDSC file says about one tensor of an op."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.op_table import (
    IDENTITY,
    LAYER_NORM_SCALE,
    MATMUL_OPS,
    RESTICKIFY,
    TOPK_OPS,
)
from torch_spyre._inductor.superdsc.accesses import Access
from torch_spyre._inductor.superdsc.coordinates import address, direct_symbols, value
from torch_spyre._inductor.superdsc.extensions import tensor_extension
from torch_spyre._inductor.superdsc.public_form import rounded_up
from torch_spyre._inductor.superdsc.records import (
    Dim,
    IndirectKind,
    OpDims,
    Place,
    SDSCArgs,
)
from torch_spyre._inductor.superdsc.segments import PROGRAM_SEGMENT
from torch_spyre.constants import BYTES_IN_STICK

_PLACES: tuple[Place, ...] = ("pool", "lx", "hbm")


def parse_tensor(
    spec: OpSpec,
    position: int,
    accesses: Sequence[Access],
    dims: OpDims,
    core_slices: Sequence[Mapping[str, int]],
) -> SDSCArgs:
    access = accesses[position]
    arg = access.arg
    place = next(each for each in _PLACES if each in arg.allocation)
    own = _own_labels(access, dims)
    missing = [label for label in dims.order if label not in own]
    if spec.op in MATMUL_OPS | TOPK_OPS or access.is_index:
        missing = []
    own_stick = dims.label_of[access.stick] if access.stick is not None else dims.synthetic
    scale = {label: 1 for label in own} | {label: -1 for label in missing}
    if own_stick is None and dims.stick in missing:
        scale[dims.stick] = -2
    if spec.op == LAYER_NORM_SCALE and position == 0 and dims.stick in scale:
        scale[dims.stick] = -2
    labels = tuple([*own, *missing])
    stick = own_stick or dims.stick
    if stick not in labels:
        labels, scale = (*labels, stick), scale | {stick: -2}
    word_length = _word_length(spec, position, access)
    extents = {label: _extent(access, dims.named(label)) for label in own}
    starts = _starts(access, dims, core_slices, place, word_length)
    base = int(arg.allocation[place])
    _check_place(spec, position, place, base, starts)
    gaps = {
        label: gap
        for label in own
        if (gap := _gap(spec, dims.named(label), extents[label], label == stick, access))
    }
    kind, related = _indirect_kind(position, accesses)
    written = SDSCArgs(
        layout="",
        dims=labels,
        scale=scale,
        stride={label: _span(access, dims.named(label)) for label in own},
        offset=_offsets(access, dims, own),
        back_gap=gaps,
        max_dim_size=_max_dim_sizes(labels, access, dims),
        stick=stick,
        stick_size=access.stick_size,
        word_length=word_length,
        data_format=_shown_format(spec, access).name,
        place=place,
        arg_index=arg.arg_index,
        base=base,
        starts=starts,
        indirect_kind=kind,
        related=related,
    )
    return replace(written, extension=tensor_extension(spec, access, written, dims, extents))


def _own_labels(access: Access, dims: OpDims) -> list[str]:
    own = [*dims.virtual, *(dims.label_of[symbol] for symbol in access.order)]
    if access.stick is None and dims.synthetic is not None and not access.is_index:
        own.append(dims.synthetic)
    return own


def _word_length(spec: OpSpec, position: int, access: Access) -> int:
    stick_size = access.stick_size
    expected = access.arg.device_dtype.elems_per_stick()
    if BYTES_IN_STICK % stick_size or expected not in (0, stick_size):
        raise InvalidOpSpecError(
            f"OpSpec {spec.op}: tensor {position} has sticks of {stick_size} elements, and "
            f"{access.arg.device_dtype.name} has {expected} in one"
        )
    return BYTES_IN_STICK // stick_size


def _shown_format(spec: OpSpec, access: Access) -> DataFormats:
    """Copies move bits, and the units that copy know fewer formats."""
    if access.is_index and access.stick_size == DataFormats.SENUINT32.elems_per_stick():
        return DataFormats.SENUINT32
    if spec.op == IDENTITY and access.arg.device_dtype == DataFormats.IEEE_INT32:
        return DataFormats.IEEE_FP32
    return access.arg.device_dtype


def _extent(access: Access, dim: Dim) -> int:
    """How far memory reaches along the dim, in indices."""
    if dim.symbol is None:
        return dim.size
    return access.extent(dim.symbol)


def _gap(spec: OpSpec, dim: Dim, extent: int, is_stick: bool, access: Access) -> int:
    iterated = rounded_up(dim.size, access.stick_size) if is_stick else dim.size
    if spec.op == RESTICKIFY and extent < iterated:
        return iterated - extent
    return max(extent - iterated, 0)


def _span(access: Access, dim: Dim) -> int:
    """Elements of memory that the iterated part of the dim covers."""
    step = access.step(dim.symbol) if dim.symbol is not None else None
    if step is None:
        return access.stick_size if dim.symbol is None or dim.symbol == access.stick else 1
    if dim.symbol == access.stick:
        return -(-dim.size // access.stick_size) * step
    return dim.size * step


def _offsets(access: Access, dims: OpDims, own: Sequence[str]) -> dict[str, int]:
    """Elements that the constant part of each dim's coordinate skips."""
    offsets = {}
    for label in own:
        symbol = dims.named(label).symbol
        at = access.device_dim(symbol) if symbol is not None else None
        step = access.step(symbol) if symbol is not None else None
        if at is None or not step:
            offsets[label] = 0
            continue
        coordinate = access.arg.device_coordinates[at]
        offsets[label] = int(value(coordinate, _origin(access))) * step
    return offsets


def _origin(access: Access) -> dict[sympy.Symbol, int]:
    return {symbol: 0 for each in access.arg.device_coordinates for symbol in direct_symbols(each)}


def _starts(
    access: Access,
    dims: OpDims,
    core_slices: Sequence[Mapping[str, int]],
    place: Place,
    word_length: int,
) -> tuple[int, ...]:
    """Byte address of what each core starts with. A scratchpad holds the core's own part only, so
    there it is the same on every core."""
    arg = access.arg
    base = int(arg.allocation[place])
    starts = []
    for slices in core_slices:
        point = _origin(access)
        if place != "lx":
            point |= {
                dim.symbol: slices[dim.label] * (dim.size // dim.split)
                for dim in dims.all
                if dim.symbol is not None
            }
        skipped = address(arg.device_size, arg.device_coordinates, point)
        starts.append(base + skipped * word_length)
    return tuple(starts)


def _check_place(
    spec: OpSpec, position: int, place: Place, base: int, starts: Sequence[int]
) -> None:
    if min(base, *starts) < 0 or (place == "hbm" and max(base, *starts) >= PROGRAM_SEGMENT):
        raise InvalidOpSpecError(
            f"OpSpec {spec.op}: tensor {position} lies at {base:#x}, outside the memory for "
            f"arguments (up to {PROGRAM_SEGMENT:#x}). A kernel of more than 7 arguments, or 6 with "
            "a pool, shares segments: see assign_argument_addresses"
        )


def _indirect_kind(position: int, accesses: Sequence[Access]) -> tuple[IndirectKind, int | None]:
    names = {access.arg.name: i for i, access in enumerate(accesses) if access.is_index}
    access = accesses[position]
    if access.is_index:
        partners = [i for i, each in enumerate(accesses) if access.arg.name in each.indices]
        if not partners:
            raise InvalidOpSpecError(f"{access.arg.name} holds indices for no outer dim")
        return "index_tensor", partners[0]
    if access.indices:
        return "value_tensor", names[access.indices[0]]
    return "no_indirection", None


def _max_dim_sizes(labels: Sequence[str], access: Access, dims: OpDims) -> dict[str, int]:
    sizes = {label: -1 for label in labels}
    if access.indirect is None:
        return sizes
    indirect = dims.named(dims.label_of[access.indirect])
    if indirect.unpadded < access.extent(access.indirect):
        # Not a range to step through: the index tensor has fewer entries than it has indices.
        sizes[indirect.label] = 1
    return sizes
