"""Which `TensorArg` a tensor of a SuperDSC file is: its place, device dims and coordinates."""

from collections.abc import Mapping, Sequence
from typing import cast

import sympy

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import IndirectAccess, TensorArg
from torch_spyre._inductor.superdsc.bundle_text import Address
from torch_spyre._inductor.superdsc.coordinates import (
    NAME,
    address,
    bounds,
    direct_symbols,
    index_names,
    integer_symbol,
    parse,
)
from torch_spyre._inductor.superdsc.fields import LARGEST, Field
from torch_spyre._inductor.superdsc.public_form import (
    PublicDim,
    device_view,
    extent_from_gap,
    format_read,
    rounded_up,
)
from torch_spyre._inductor.superdsc.reading_tensors import OpContext, WrittenTensor, format_of
from torch_spyre._inductor.superdsc.segments import PROGRAM_SEGMENT, SEGMENT_BYTES
from torch_spyre._inductor.superdsc.symbols import POOL

_MOST_ARGUMENTS = 10_000


def tensor_arg(
    written: WrittenTensor,
    op: OpContext,
    is_input: bool,
    indirect: Mapping[str, str],
    index_names_known: Sequence[str],
    name: str | None,
) -> TensorArg:
    """`indirect` gives the index tensor of a dim. An `hbm` place that the bundle binds is counted
    from the argument's start; all others are absolute."""
    place, arg_index, root = _place(written)
    explicit = written.extended("coordinates")
    if explicit is not None:
        size, coordinates = _explicit_view(written, op, explicit, index_names_known)
        first = address(size, coordinates, _first_point(op, op.core_slices[0]))
        offset = first * written.word_length
    else:
        offset = _offset(written, place, root)
        size, coordinates = _public_view(written, op, indirect, offset)
    _check_bounds(written, op, size, coordinates)
    start = written.starts[0].offset
    base = start - offset
    if base < 0:
        written.node["startAddressCoreCorelet_"].fail(f"{start} is before the tensor's start")
    _check_starts(written, op, place, size, coordinates, base)
    return TensorArg(
        is_input=is_input,
        arg_index=arg_index,
        device_dtype=_true_format(written),
        device_size=size,
        device_coordinates=coordinates,
        allocation={place: base},
        name=name,
    )


def _true_format(written: WrittenTensor) -> DataFormats:
    told = written.extended("dataFormat")
    if told is not None:
        return format_of(told, written.layout.stick_size)
    is_index = written.indirect_kind == "index_tensor"
    return DataFormats.__members__[format_read(written.data_format.name, is_index)]


def tensor_name(written: WrittenTensor) -> str | None:
    told = written.extended("name")
    if told is None:
        return None
    name = told.text()
    if written.indirect_kind == "index_tensor" and not NAME.fullmatch(name):
        told.fail(f"{name[:60]!r} is not a name that a coordinate can hold")
    return name


def _place(written: WrittenTensor) -> tuple[str, int, Address]:
    """Memory, argument index, and where the argument or pool starts."""
    start = written.starts[0]
    told_place, told_index = written.extended("place"), written.extended("argIndex")
    if told_place is not None:
        told_place.text(POOL)
    if told_index is not None:
        told_index.integer(0, _MOST_ARGUMENTS)
    if any(each.root != start.root for each in written.starts):
        written.node["startAddressCoreCorelet_"].fail("cores start in different arguments")
    if written.component == "lx" or told_place is not None or start.root == POOL:
        if told_index is not None:
            told_index.fail("a tensor in the scratchpad or the pool is not an argument")
        if told_place is not None and (written.component == "lx" or start.arg_index is not None):
            told_place.fail("is not where its addresses are")
        return "lx" if written.component == "lx" else POOL, -1, Address(start.root, 0)
    if start.root is not None:
        if told_index is not None and told_index.value != start.arg_index:
            told_index.fail(f"is not {start.arg_index}, which the bundle binds it to")
        return "hbm", cast(int, start.arg_index), Address(start.root, 0)
    if start.offset >= PROGRAM_SEGMENT:
        written.node["startAddressCoreCorelet_"].fail(
            f"{start.offset:#x} is outside the memory for arguments"
        )
    segment = start.offset // SEGMENT_BYTES
    arg_index = segment if told_index is None else told_index.integer()
    return "hbm", arg_index, Address(None, segment * SEGMENT_BYTES)


def _offset(written: WrittenTensor, place: str, root: Address) -> int:
    """Bytes from the tensor's buffer to its first element."""
    start = written.starts[0].offset
    told = written.extended("offset")
    if told is not None and told.integer(0) > start:
        told.fail(f"is more than the address {start}")
    if place == "hbm" and (root.root is not None or told is None):
        return start - root.offset
    return 0 if told is None else told.integer()


def _public_view(
    written: WrittenTensor, op: OpContext, indirect: Mapping[str, str], offset: int
) -> tuple[list[int], list[sympy.Expr]]:
    extents = _told_extents(written, op)
    dims = []
    for label in written.dims:
        is_stick = label == written.layout.stick
        if written.scale[label] < 0:
            dims.append(PublicDim(written.layout.stick_size if is_stick else 1, None))
            continue
        extent = extents.get(label, _derived_extent(written, op, label))
        runs = op.symbols.get(label)
        if label in indirect:
            runs = IndirectAccess(integer_symbol(indirect[label]))
        dims.append(PublicDim(extent, runs))
    if offset % written.word_length:
        written.node["startAddressCoreCorelet_"].fail("is not at the start of an element")
    stick_size = written.layout.stick_size
    view = device_view(
        dims, written.dims.index(written.layout.stick), stick_size, offset // written.word_length
    )
    if view is None:
        written.node.fail(
            f"starts {offset} bytes into the tensor, in the middle of a stick, or has a gap "
            "larger than a dim"
        )
    return view


def _padded(written: WrittenTensor, op: OpContext, label: str) -> int:
    is_stick = label == written.layout.stick
    return rounded_up(op.sizes[label], written.layout.stick_size) if is_stick else op.sizes[label]


def _derived_extent(written: WrittenTensor, op: OpContext, label: str) -> int:
    return extent_from_gap(
        _padded(written, op, label), written.gaps.get(label, 0), op.is_restickify
    )


def _told_extents(written: WrittenTensor, op: OpContext) -> dict[str, int]:
    told = written.extended("physicalExtents")
    if told is None:
        return {}
    extents = {}
    for label, entry in told.entries():
        if label not in written.dims or written.scale[label] < 0:
            entry.fail("is not a dim that the tensor runs along")
        extents[label] = entry.integer(1)
        surplus = extents[label] - _padded(written, op, label)
        gap = -surplus if op.is_restickify and surplus < 0 else max(surplus, 0)
        if gap != written.gaps.get(label, 0):
            entry.fail(f"does not agree with the gap {written.gaps.get(label, 0)} in backGapCore_")
    return extents


def _explicit_view(
    written: WrittenTensor, op: OpContext, texts: Field, names: Sequence[str]
) -> tuple[list[int], list[sympy.Expr]]:
    assert written.extension is not None
    sizes = [item.integer(1) for item in written.extension["deviceSize"].items()]
    if not sizes or sizes[-1] != written.layout.stick_size:
        written.extension["deviceSize"].fail(f"must end with {written.layout.stick_size}")
    known = set(op.symbols.values())
    coordinates = []
    for item in texts.items(len(sizes)):
        try:
            coordinate = parse(item.text())
        except ValueError as error:
            item.fail(str(error))
        unknown = [str(symbol) for symbol in direct_symbols(coordinate) if symbol not in known]
        unknown += [name for name in index_names(coordinate) if name not in names]
        if unknown:
            item.fail(f"{', '.join(unknown)}: no such symbol or index tensor")
        coordinates.append(coordinate)
    return sizes, coordinates


def _check_bounds(
    written: WrittenTensor, op: OpContext, sizes: Sequence[int], coordinates: Sequence[sympy.Expr]
) -> None:
    elements = 1
    for size, coordinate in zip(sizes, coordinates, strict=True):
        elements *= size
        # An index is checked when it is read.
        low, high = bounds(coordinate, op.symbol_sizes, (0, 0))
        if low < 0 or high >= size:
            written.node.fail(
                f"coordinate {coordinate} runs from {low} to {high} in a dim of size {size}"
            )
    if elements > LARGEST:
        written.node.fail(f"has {elements} elements, more than any memory")


def _first_point(op: OpContext, slices: Mapping[str, int]) -> dict[sympy.Symbol, int]:
    return {
        symbol: slices[label] * (op.sizes[label] // op.splits[label])
        for label, symbol in op.symbols.items()
    }


def _check_starts(
    written: WrittenTensor,
    op: OpContext,
    place: str,
    sizes: Sequence[int],
    coordinates: Sequence[sympy.Expr],
    base: int,
) -> None:
    for core, slices in enumerate(op.core_slices):
        point = _first_point(op, op.core_slices[0] if place == "lx" else slices)
        expected = base + address(sizes, coordinates, point) * written.word_length
        found = written.starts[core].offset
        if found != expected:
            written.node["startAddressCoreCorelet_"].fail(
                f"core {core} starts at {found}, and by the tensor's layout it starts at {expected}"
            )
