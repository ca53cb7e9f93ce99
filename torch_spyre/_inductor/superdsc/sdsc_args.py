"""Derives the `SDSCArgs` of one tensor of an op."""

from collections.abc import Mapping, Sequence

import sympy

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import (
    IDENTITY,
    LAYER_NORM_SCALE,
    MATMUL_OPS,
    RESTICKIFY,
    TOPK_OPS,
)
from torch_spyre._inductor.superdsc.accesses import Access
from torch_spyre._inductor.superdsc.coordinates import direct_symbols, element_offset, evaluate
from torch_spyre._inductor.superdsc.extensions import with_extension
from torch_spyre._inductor.superdsc.public_form import round_up
from torch_spyre._inductor.superdsc.sdsc_spec import (
    Dim,
    IndirectKind,
    MemorySpace,
    OpDims,
    SDSCArgs,
)
from torch_spyre._inductor.superdsc.segments import PROGRAM_SEGMENT
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import InvalidOpSpecError

_MEMORY_SPACES: tuple[MemorySpace, ...] = ("pool", "lx", "hbm")


def parse_tensor(
    spec: OpSpec,
    position: int,
    accesses: Sequence[Access],
    dims: OpDims,
    core_slices: Sequence[Mapping[str, int]],
) -> SDSCArgs:
    """Return the `SDSCArgs` of the tensor at a position, without its layout class."""
    access = accesses[position]
    arg = access.arg
    memory_space = next(space for space in _MEMORY_SPACES if space in arg.allocation)
    indexed = _indexed_labels(access, dims)
    missing = [label for label in dims.reference_order if label not in indexed]
    if spec.op in MATMUL_OPS | TOPK_OPS or access.is_index:
        missing = []
    stick_label = dims.label_of[access.stick] if access.stick is not None else dims.synthetic
    scale = {label: 1 for label in indexed} | {label: -1 for label in missing}
    if stick_label is None and dims.stick in missing:
        scale[dims.stick] = -2
    if spec.op == LAYER_NORM_SCALE and position == 0 and dims.stick in scale:
        scale[dims.stick] = -2
    labels = tuple([*indexed, *missing])
    stick = stick_label or dims.stick
    if stick not in labels:
        labels, scale = (*labels, stick), scale | {stick: -2}
    word_length = _word_length(spec, position, access)
    extents = {label: _extent(access, dims.named(label)) for label in indexed}
    starts = _starts(access, dims, core_slices, memory_space, word_length)
    base = int(arg.allocation[memory_space])
    _check_address(spec, position, memory_space, base, starts)
    gaps = {
        label: gap
        for label in indexed
        if (gap := _gap(spec, dims.named(label), extents[label], label == stick, access))
    }
    kind, partner = _indirect_kind(position, accesses)
    sdsc_arg = SDSCArgs(
        layout="",
        dims=labels,
        scale=scale,
        stride={label: _span(access, dims.named(label)) for label in indexed},
        offset=_offsets(access, dims, indexed),
        back_gap=gaps,
        max_dim_size=_max_dim_sizes(labels, access, dims),
        stick=stick,
        stick_size=access.stick_size,
        word_length=word_length,
        data_format=_public_format(spec, access).name,
        memory_space=memory_space,
        arg_index=arg.arg_index,
        base=base,
        starts=starts,
        indirect_kind=kind,
        indirect_partner=partner,
    )
    return with_extension(spec, access, sdsc_arg, dims, extents)


def _indexed_labels(access: Access, dims: OpDims) -> list[str]:
    """Return the labels of the dims that index the tensor, innermost first."""
    labels = [*dims.virtual, *(dims.label_of[symbol] for symbol in access.order)]
    if access.stick is None and dims.synthetic is not None and not access.is_index:
        labels.append(dims.synthetic)
    return labels


def _word_length(spec: OpSpec, position: int, access: Access) -> int:
    stick_size = access.stick_size
    expected = access.arg.device_dtype.elems_per_stick()
    if BYTES_IN_STICK % stick_size or expected not in (0, stick_size):
        raise InvalidOpSpecError(
            f"OpSpec {spec.op}",
            f"tensor {position} has sticks of {stick_size} elements, but sticks "
            f"of {access.arg.device_dtype.name} have {expected}",
        )
    return BYTES_IN_STICK // stick_size


def _public_format(spec: OpSpec, access: Access) -> DataFormats:
    """Return the format to write: the copy and gather units do not support every format."""
    if access.is_index and access.stick_size == DataFormats.SENUINT32.elems_per_stick():
        return DataFormats.SENUINT32
    tensors = [*spec.operands, spec.output]
    is_copy = (
        spec.op == IDENTITY
        and len(tensors) > 1
        and not any(
            arg.in_scratchpad or arg.device_dtype != DataFormats.IEEE_INT32 for arg in tensors
        )
    )
    if is_copy and not access.is_index:
        return DataFormats.IEEE_FP32
    return access.arg.device_dtype


def _extent(access: Access, dim: Dim) -> int:
    """Return the size of the tensor's memory along the dim, in indices."""
    if dim.symbol is None:
        return dim.size
    return access.extent(dim.symbol)


def _gap(spec: OpSpec, dim: Dim, extent: int, is_stick: bool, access: Access) -> int:
    """Return the back gap of the dim: the inverse of `extent_from_gap`."""
    iterated = round_up(dim.size, access.stick_size) if is_stick else dim.size
    return iterated - extent if spec.op == RESTICKIFY else extent - iterated


def _span(access: Access, dim: Dim) -> int:
    """Return the number of elements of memory that the iterated indices of the dim span."""
    step = access.step(dim.symbol) if dim.symbol is not None else None
    if step is None:
        return access.stick_size if dim.symbol is None or dim.symbol == access.stick else 1
    if dim.symbol == access.stick:
        return -(-dim.size // access.stick_size) * step
    return dim.size * step


def _offsets(access: Access, dims: OpDims, labels: Sequence[str]) -> dict[str, int]:
    """Return, for each dim, the elements that the constant part of its coordinate skips."""
    offsets = {}
    for label in labels:
        symbol = dims.named(label).symbol
        device_dim = access.device_dim(symbol) if symbol is not None else None
        step = access.step(symbol) if symbol is not None else None
        if device_dim is None or not step:
            offsets[label] = 0
            continue
        coordinate = access.arg.device_coordinates[device_dim]
        offsets[label] = int(evaluate(coordinate, _origin(access))) * step
    return offsets


def _origin(access: Access) -> dict[sympy.Symbol, int]:
    coordinates = access.arg.device_coordinates
    return {symbol: 0 for coordinate in coordinates for symbol in direct_symbols(coordinate)}


def _starts(
    access: Access,
    dims: OpDims,
    core_slices: Sequence[Mapping[str, int]],
    memory_space: MemorySpace,
    word_length: int,
) -> tuple[int, ...]:
    """Return the byte address of the first element that each core accesses.

    A scratchpad holds only the slice of its core, so there the address is the same on every core.
    """
    arg = access.arg
    base = int(arg.allocation[memory_space])
    starts = []
    for slices in core_slices:
        point = _origin(access)
        if memory_space != "lx":
            point |= {
                dim.symbol: slices[dim.label] * (dim.size // dim.split)
                for dim in dims.all
                if dim.symbol is not None
            }
        offset = element_offset(arg.device_size, arg.device_coordinates, point)
        starts.append(base + offset * word_length)
    return tuple(starts)


def _check_address(
    spec: OpSpec, position: int, memory_space: MemorySpace, base: int, starts: Sequence[int]
) -> None:
    if min(base, *starts) < 0 or (memory_space == "hbm" and max(base, *starts) >= PROGRAM_SEGMENT):
        raise InvalidOpSpecError(
            f"OpSpec {spec.op}",
            f"tensor {position} has the address {base:#x}, outside the argument "
            f"segments, which end at {PROGRAM_SEGMENT:#x}. In kernels with more than 7 arguments, "
            "or 6 with a pool, several arguments must be in one segment: see "
            "assign_argument_addresses",
        )


def _indirect_kind(position: int, accesses: Sequence[Access]) -> tuple[IndirectKind, int | None]:
    names = {access.arg.name: i for i, access in enumerate(accesses) if access.is_index}
    access = accesses[position]
    if access.is_index:
        partners = [i for i, value in enumerate(accesses) if access.arg.name in value.indices]
        if not partners:
            raise InvalidOpSpecError(
                f"index tensor {access.arg.name}", "it does not index an outer dim"
            )
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
        # The dim is not iterated: the index tensor has fewer elements than the dim has indices.
        sizes[indirect.label] = 1
    return sizes
