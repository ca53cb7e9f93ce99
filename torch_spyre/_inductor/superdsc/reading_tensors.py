"""Tensors of a SuperDSC file: first what its keys say, then which `TensorArg` that is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from torch_spyre._inductor.superdsc.records import EXTENSION_KEY, IndirectKind, LayoutClass
from torch_spyre._inductor.superdsc.segments import PROGRAM_SEGMENT, SEGMENT_BYTES
from torch_spyre._inductor.superdsc.symbols import POOL
from torch_spyre.constants import BYTES_IN_STICK

_MOST_ARGUMENTS = 10_000
_EXTENSIONS = {
    "place",
    "argIndex",
    "offset",
    "name",
    "dataFormat",
    "physicalExtents",
    "deviceSize",
    "coordinates",
}
_INDIRECT_KINDS = ("no_indirection", "index_tensor", "value_tensor")


@dataclass(frozen=True)
class OpContext:
    """What the tensors of one op have in common."""

    is_restickify: bool
    # Rounded up to whole sticks, and what each core takes of them.
    sizes: Mapping[str, int]
    splits: Mapping[str, int]
    core_slices: Sequence[Mapping[str, int]]
    # Only of dims that symbols run along.
    symbols: Mapping[str, sympy.Symbol]
    unpadded: Mapping[str, int]

    @property
    def symbol_sizes(self) -> dict[sympy.Symbol, int]:
        return {symbol: self.unpadded[label] for label, symbol in self.symbols.items()}


@dataclass(frozen=True)
class WrittenTensor:
    """What the keys of one tensor say."""

    node: Field
    component: str
    dims: tuple[str, ...]
    layout: LayoutClass
    scale: Mapping[str, int]
    gaps: Mapping[str, int]
    data_format: DataFormats
    starts: tuple[Address, ...]
    indirect_kind: IndirectKind
    related: str | None
    extension: Field | None

    def extended(self, key: str) -> Field | None:
        return None if self.extension is None else self.extension.get(key)

    @property
    def word_length(self) -> int:
        return BYTES_IN_STICK // self.layout.stick_size


def read_tensor(
    position: int,
    node: Field,
    labeled: Field,
    layouts: Mapping[str, LayoutClass],
    cores: int,
    symbols: Mapping[int, Address],
) -> WrittenTensor:
    node["nodeType_"].text("allocate")
    node["ldsIdx_"].expect(position)
    labeled["ldsIdx_"].expect(position)
    labeled["dsName_"].expect(f"Tensor{position}")
    component = node["component_"].text("hbm", "lx")
    node["name_"].expect(f"allocate-Tensor{position}_{component}")
    label = labeled["dsType_"].text()
    if label not in layouts:
        labeled["dsType_"].fail(f"{label!r} is not in primaryDsInfo_")
    layout = layouts[label]
    dims = tuple(node["layoutDimOrder_"].texts())
    if sorted(dims) != sorted(layout.dims):
        node["layoutDimOrder_"].fail(f"must have the dims of {label}, {list(layout.dims)}")
    scales = labeled["scale_"].items(len(layout.dims))
    node["maxDimSizes_"].items(len(layout.dims))
    labeled["wordLength"].expect(BYTES_IN_STICK // layout.stick_size)
    memories = [memory for memory, _ in labeled["memOrg_"].entries()]
    if component not in memories or (component == "lx") != (memories == ["lx"]):
        labeled["memOrg_"].fail(f"does not agree with component_ {component}")
    extension = node.get(EXTENSION_KEY)
    if extension is not None:
        for key, entry in extension.entries():
            if key not in _EXTENSIONS:
                entry.fail("is not an extension of a tensor")
    related = node.get("relatedIndirectAccessAlloc_")
    return WrittenTensor(
        node=node,
        component=component,
        dims=dims,
        layout=layout,
        scale={dim: _scale(each) for dim, each in zip(layout.dims, scales, strict=True)},
        gaps=_gaps(node, dims, component, cores),
        data_format=format_of(labeled["dataFormat_"], layout.stick_size),
        starts=_starts(node, component, cores, symbols),
        indirect_kind=cast(IndirectKind, node["indirectAllocType_"].text(*_INDIRECT_KINDS)),
        related=None if related is None else related.text(),
        extension=extension,
    )


def format_of(field: Field, stick_size: int | None = None) -> DataFormats:
    name = field.text()
    if name not in DataFormats.__members__:
        field.fail(f"{name!r} is not a data format")
    found = DataFormats.__members__[name]
    if stick_size is not None and found.elems_per_stick() not in (0, stick_size):
        field.fail(f"{name} has {found.elems_per_stick()} elements in a stick, not {stick_size}")
    return found


def _scale(field: Field) -> int:
    scale = field.integer(-2, 1)
    if scale == 0:
        field.fail("must be 1, -1 or -2")
    return scale


def _gaps(node: Field, dims: Sequence[str], component: str, cores: int) -> dict[str, int]:
    listed = node.get("backGapCore_")
    if listed is None:
        return {}
    owners = [str(core) for core in range(cores)] if component == "lx" else ["-1"]
    gaps = {}
    for label, entry in listed.entries():
        if label not in dims:
            entry.fail("is not a dim of the tensor")
        found = {owner: gap.integer(1) for owner, gap in entry.entries()}
        if sorted(found) != sorted(owners) or len(set(found.values())) != 1:
            entry.fail(f"must give one gap for all of {owners[:3]}{'...' if cores > 3 else ''}")
        gaps[label] = found[owners[0]]
    return gaps


def _starts(
    node: Field, component: str, cores: int, symbols: Mapping[int, Address]
) -> tuple[Address, ...]:
    flag = node.get("isStartAddrSymbolic_")
    symbolic = flag is not None and flag.integer(0, 1) == 1
    if symbolic and component == "lx":
        node["isStartAddrSymbolic_"].fail("scratchpad addresses are not symbols")
    data = node["startAddressCoreCorelet_"]["data_"]
    entries = dict(data.entries())
    wanted = [f"[{core}, 0, 0]" for core in range(cores)]
    if sorted(entries) != sorted(wanted):
        missing = [key for key in wanted if key not in entries]
        data.fail(f"must have an address for each of {cores} cores; missing {missing[:3]}")
    starts = []
    for key in wanted:
        number = entries[key].integer(-LARGEST if symbolic else 0, -1 if symbolic else LARGEST)
        if symbolic and number not in symbols:
            entries[key].fail(f"symbol {number} is not bound where the bundle runs this file")
        starts.append(symbols[number] if symbolic else Address(None, number))
    return tuple(starts)


# --- from what is written to the tensor -----------------------------------------------------------


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
        if not _is_integer(coordinate):
            item.fail("is not always an integer")
        unknown = [str(symbol) for symbol in direct_symbols(coordinate) if symbol not in known]
        unknown += [name for name in index_names(coordinate) if name not in names]
        if unknown:
            item.fail(f"{', '.join(unknown)}: no such symbol or index tensor")
        coordinates.append(coordinate)
    return sizes, coordinates


def _is_integer(coordinate: sympy.Expr) -> bool:
    stand_in = sympy.Symbol("_index", integer=True)
    plain = coordinate.xreplace({each: stand_in for each in coordinate.atoms(IndirectAccess)})
    return plain.is_integer is True


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


_REFERENCE = re.compile(r"Tensor(\d{1,6})-idx(\d{1,6})")


def referred(field: Field, count: int) -> int:
    """The position that `Tensor<i>-idx<i>` names."""
    match = _REFERENCE.fullmatch(field.text())
    if match is None or match[1] != match[2] or int(match[1]) >= count:
        field.fail(f"{field.text()[:60]!r} is none of the {count} tensors")
    return int(match[1])
