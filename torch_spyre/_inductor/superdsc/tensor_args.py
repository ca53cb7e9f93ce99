"""Derives the `TensorArg` of a tensor in a SuperDSC file."""

from collections.abc import Mapping, Sequence
from typing import cast

import sympy

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import IndirectAccess, TensorArg
from torch_spyre._inductor.superdsc.bundle_parser import Address
from torch_spyre._inductor.superdsc.coordinates import (
    IDENTIFIER,
    bounds,
    direct_symbols,
    element_offset,
    index_names,
    integer_symbol,
    parse,
)
from torch_spyre._inductor.superdsc.json_fields import MAX_INTEGER, Field
from torch_spyre._inductor.superdsc.public_form import (
    PublicDim,
    device_view,
    extent_from_gap,
    padded_to_sticks,
    public_format,
)
from torch_spyre._inductor.superdsc.segments import PROGRAM_SEGMENT, SEGMENT_BYTES
from torch_spyre._inductor.superdsc.symbol_table import POOL
from torch_spyre._inductor.superdsc.tensor_reader import OpContext, ParsedTensor, parse_data_format

_MAX_ARGUMENTS = 10_000


def to_tensor_arg(
    tensor: ParsedTensor,
    op: OpContext,
    is_input: bool,
    indirect: Mapping[str, str],
    known_index_names: Sequence[str],
    name: str | None,
) -> TensorArg:
    """Return the `TensorArg` of a parsed tensor.

    `indirect` maps the label of an indirectly indexed dim to the name of its index tensor. The
    address of a tensor that the bundle binds to an argument is an offset from the argument's start;
    other addresses are absolute.
    """
    memory_space, arg_index, root = _memory_space(tensor, op.has_pool)
    _check_extents(tensor, op)
    explicit = tensor.extended("coordinates")
    if explicit is not None:
        size, coordinates = _explicit_view(tensor, op, explicit, known_index_names)
        first_element = element_offset(size, coordinates, _first_point(op, op.core_slices[0]))
        offset = first_element * tensor.word_length
    else:
        offset = _offset(tensor, memory_space, root)
        size, coordinates = _public_view(tensor, op, indirect, offset)
    _check_bounds(tensor, op, size, coordinates)
    start = tensor.starts[0].offset
    base = start - offset
    if base < 0:
        tensor.node["startAddressCoreCorelet_"].fail(f"{start} is before the tensor's buffer")
    _check_starts(tensor, op, memory_space, size, coordinates, base)
    return TensorArg(
        is_input=is_input,
        arg_index=arg_index,
        device_dtype=_data_format(tensor),
        device_size=size,
        device_coordinates=coordinates,
        allocation={memory_space: base},
        name=name,
    )


def _data_format(tensor: ParsedTensor) -> DataFormats:
    extension = tensor.extended("dataFormat")
    if extension is not None:
        return parse_data_format(extension, tensor.layout.stick_size)
    is_index = tensor.indirect_kind == "index_tensor"
    return DataFormats.__members__[public_format(tensor.data_format.name, is_index)]


def tensor_name(tensor: ParsedTensor) -> str | None:
    """Return the name of the tensor's buffer, if the file has one."""
    field = tensor.extended("name")
    if field is None:
        return None
    name = field.string()
    if tensor.indirect_kind == "index_tensor" and not IDENTIFIER.fullmatch(name):
        field.fail(f"{name[:60]!r} is not a valid name for an index tensor")
    return name


def _memory_space(tensor: ParsedTensor, has_pool: bool) -> tuple[str, int, Address]:
    """Return the memory space, the argument index, and the start of the argument or pool."""
    start = tensor.starts[0]
    pool_field, index_field = tensor.extended("place"), tensor.extended("argIndex")
    if pool_field is not None:
        pool_field.string(POOL)
    if index_field is not None:
        index_field.integer(0, _MAX_ARGUMENTS)
    if any(core_start.root != start.root for core_start in tensor.starts):
        tensor.node["startAddressCoreCorelet_"].fail("has addresses in different arguments")
    is_in_pool = start.root == POOL or (
        has_pool and start.root is None and start.offset < SEGMENT_BYTES
    )
    if tensor.component == "lx" or pool_field is not None or is_in_pool:
        if index_field is not None:
            index_field.fail("a tensor in the scratchpad or the pool is not an argument")
        if pool_field is not None and (tensor.component == "lx" or start.arg_index is not None):
            pool_field.fail("does not agree with its addresses")
        return "lx" if tensor.component == "lx" else POOL, -1, Address(start.root, 0)
    if start.root is not None:
        if index_field is not None and index_field.value != start.arg_index:
            index_field.fail(f"must be {start.arg_index}, the argument that the bundle binds it to")
        return "hbm", cast(int, start.arg_index), Address(start.root, 0)
    if start.offset >= PROGRAM_SEGMENT:
        tensor.node["startAddressCoreCorelet_"].fail(
            f"{start.offset:#x} is outside the argument segments"
        )
    segment = start.offset // SEGMENT_BYTES
    arg_index = segment - int(has_pool) if index_field is None else index_field.integer()
    return "hbm", arg_index, Address(None, segment * SEGMENT_BYTES)


def _offset(tensor: ParsedTensor, memory_space: str, root: Address) -> int:
    """Return the bytes from the start of the tensor's buffer to its first element."""
    start = tensor.starts[0].offset
    field = tensor.extended("offset")
    if field is not None and field.integer(0) > start:
        field.fail(f"is larger than the address {start}")
    if memory_space == "hbm" and (root.root is not None or field is None):
        return start - root.offset
    return 0 if field is None else field.integer()


def _public_view(
    tensor: ParsedTensor, op: OpContext, indirect: Mapping[str, str], offset: int
) -> tuple[list[int], list[sympy.Expr]]:
    """Return device sizes and coordinates derived from the public keys."""
    dims = []
    for label in tensor.dims:
        is_stick = label == tensor.layout.stick
        if tensor.scale[label] < 0:
            dims.append(PublicDim(tensor.layout.stick_size if is_stick else 1, None))
            continue
        coordinate = op.symbols.get(label)
        if label in indirect:
            coordinate = IndirectAccess(integer_symbol(indirect[label]))
        dims.append(PublicDim(_extent(tensor, op, label), coordinate))
    if offset % tensor.word_length:
        tensor.node["startAddressCoreCorelet_"].fail("is not aligned to elements")
    stick_size = tensor.layout.stick_size
    view = device_view(
        dims, tensor.dims.index(tensor.layout.stick), stick_size, offset // tensor.word_length
    )
    if view is None:
        tensor.node.fail(
            f"starts at offset {offset}, which is within a stick, or has a gap larger than a dim"
        )
    return view


def _check_extents(tensor: ParsedTensor, op: OpContext) -> None:
    """Check the gaps against the extents in memory that the extension states."""
    field = tensor.extended("physicalExtents")
    if field is None:
        return
    for label, entry in field.entries():
        if label not in tensor.dims or tensor.scale[label] < 0:
            entry.fail("is not a dim that indexes the tensor")
        if entry.integer(1) != _extent(tensor, op, label):
            entry.fail(f"does not agree with the gap {tensor.gaps.get(label, 0)} in backGapCore_")


def _extent(tensor: ParsedTensor, op: OpContext, label: str) -> int:
    """Return the size of a dim in memory."""
    layout = tensor.layout
    iterated = padded_to_sticks(op.sizes[label], label, layout.stick, layout.stick_size)
    return extent_from_gap(iterated, tensor.gaps.get(label, 0), op.is_restickify)


def _explicit_view(
    tensor: ParsedTensor, op: OpContext, texts: Field, names: Sequence[str]
) -> tuple[list[int], list[sympy.Expr]]:
    """Return the device sizes and coordinates that the extension states."""
    assert tensor.extension is not None
    sizes = [size.integer(1) for size in tensor.extension["deviceSize"].elements()]
    if not sizes or sizes[-1] != tensor.layout.stick_size:
        tensor.extension["deviceSize"].fail(f"must end with {tensor.layout.stick_size}")
    known_symbols = set(op.symbols.values())
    coordinates = []
    for text in texts.elements(len(sizes)):
        try:
            coordinate = parse(text.string())
        except ValueError as error:
            text.fail(str(error))
        symbols = direct_symbols(coordinate)
        unknown = [str(symbol) for symbol in symbols if symbol not in known_symbols]
        unknown += [name for name in index_names(coordinate) if name not in names]
        if unknown:
            text.fail(f"{', '.join(unknown)} is neither a symbol of the op nor an index tensor")
        coordinates.append(coordinate)
    return sizes, coordinates


def _check_bounds(
    tensor: ParsedTensor, op: OpContext, sizes: Sequence[int], coordinates: Sequence[sympy.Expr]
) -> None:
    """Check that every coordinate is in bounds, and that the tensor has a plausible size."""
    elements = 1
    for size, coordinate in zip(sizes, coordinates, strict=True):
        elements *= size
        # Elements of index tensors are checked when the op runs.
        low, high = bounds(coordinate, op.symbol_sizes, (0, 0))
        if low < 0 or high >= size:
            tensor.node.fail(
                f"coordinate {coordinate} ranges from {low} to {high} in a dim of size {size}"
            )
    if elements > MAX_INTEGER:
        tensor.node.fail(f"has {elements} elements, which is too large")


def _first_point(op: OpContext, slices: Mapping[str, int]) -> dict[sympy.Symbol, int]:
    """Return the first point of the iteration space that a core with these slices computes."""
    return {
        symbol: slices[label] * (op.sizes[label] // op.splits[label])
        for label, symbol in op.symbols.items()
    }


def _check_starts(
    tensor: ParsedTensor,
    op: OpContext,
    memory_space: str,
    sizes: Sequence[int],
    coordinates: Sequence[sympy.Expr],
    base: int,
) -> None:
    """Check the start address on every core against sizes and coordinates."""
    for core, slices in enumerate(op.core_slices):
        point = _first_point(op, op.core_slices[0] if memory_space == "lx" else slices)
        expected = base + element_offset(sizes, coordinates, point) * tensor.word_length
        actual = tensor.starts[core].offset
        if actual != expected:
            tensor.node["startAddressCoreCorelet_"].fail(
                f"core {core} starts at {actual}, but the tensor's layout requires {expected}"
            )
