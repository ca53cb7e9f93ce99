"""Parses and checks the keys of one tensor in a SuperDSC file."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import sympy

from torch_spyre._C import DataFormats
from torch_spyre._inductor.superdsc.bundle_parser import Address
from torch_spyre._inductor.superdsc.json_fields import Field
from torch_spyre._inductor.superdsc.sdsc_spec import EXTENSION_KEY, IndirectKind, LayoutClass
from torch_spyre.constants import BYTES_IN_STICK

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
    """The iteration space that the tensors of an op refer to; mappings are by dim label."""

    is_restickify: bool
    # Whether the first segment of fixed addresses is the pool.
    has_pool: bool
    # Rounded up to whole sticks, and how they are split over cores.
    sizes: Mapping[str, int]
    splits: Mapping[str, int]
    core_slices: Sequence[Mapping[str, int]]
    # Only dims of the iteration space, without those added for the hardware.
    symbols: Mapping[str, sympy.Symbol]
    unpadded: Mapping[str, int]

    @property
    def symbol_sizes(self) -> dict[sympy.Symbol, int]:
        return {symbol: self.unpadded[label] for label, symbol in self.symbols.items()}


@dataclass(frozen=True)
class ParsedTensor:
    """The parsed keys of one tensor."""

    node: Field
    component: str
    dims: tuple[str, ...]
    layout: LayoutClass
    scale: Mapping[str, int]
    gaps: Mapping[str, int]
    data_format: DataFormats
    starts: tuple[Address, ...]
    indirect_kind: IndirectKind
    indirect_partner: str | None
    extension: Field | None

    def extended(self, key: str) -> Field | None:
        """Return an entry of the tensor's extension, or None."""
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
) -> ParsedTensor:
    """Parse a tensor from its allocate node and its entry in `labeledDs_`."""
    node["nodeType_"].string("allocate")
    node["ldsIdx_"].expect(position)
    labeled["ldsIdx_"].expect(position)
    labeled["dsName_"].expect(f"Tensor{position}")
    component = node["component_"].string("hbm", "lx")
    node["name_"].expect(f"allocate-Tensor{position}_{component}")
    label = labeled["dsType_"].string()
    if label not in layouts:
        labeled["dsType_"].fail(f"{label!r} is not in primaryDsInfo_")
    layout = layouts[label]
    dims = tuple(node["layoutDimOrder_"].strings())
    if sorted(dims) != sorted(layout.dims):
        node["layoutDimOrder_"].fail(f"must have the dims of {label}, {list(layout.dims)}")
    scales = labeled["scale_"].elements(len(layout.dims))
    node["maxDimSizes_"].elements(len(layout.dims))
    labeled["wordLength"].expect(BYTES_IN_STICK // layout.stick_size)
    memories = [memory for memory, _ in labeled["memOrg_"].entries()]
    if component not in memories or (component == "lx") != (memories == ["lx"]):
        labeled["memOrg_"].fail(f"does not agree with component_ {component}")
    extension = node.get(EXTENSION_KEY)
    if extension is not None:
        for key, entry in extension.entries():
            if key not in _EXTENSIONS:
                entry.fail("is not a tensor extension")
    has_coordinates = extension is not None and extension.get("coordinates") is not None
    info = node["coordinates_"]["coordInfo"]
    if not has_coordinates and not dict(info.entries()):
        info.fail("is empty: the public format cannot represent how the op accesses this tensor")
    partner = node.get("relatedIndirectAccessAlloc_")
    return ParsedTensor(
        node=node,
        component=component,
        dims=dims,
        layout=layout,
        scale={dim: _scale(field) for dim, field in zip(layout.dims, scales, strict=True)},
        gaps=_gaps(node, dims, component, cores),
        data_format=parse_data_format(labeled["dataFormat_"], layout.stick_size),
        starts=_starts(node, component, cores, symbols),
        indirect_kind=cast(IndirectKind, node["indirectAllocType_"].string(*_INDIRECT_KINDS)),
        indirect_partner=None if partner is None else partner.string(),
        extension=extension,
    )


def parse_data_format(field: Field, stick_size: int | None = None) -> DataFormats:
    """Return the data format of a name, which must have `stick_size` elements per stick."""
    name = field.string()
    if name not in DataFormats.__members__:
        field.fail(f"{name!r} is not a data format")
    data_format = DataFormats.__members__[name]
    per_stick = data_format.elems_per_stick()
    if stick_size is not None and per_stick not in (0, stick_size):
        field.fail(f"{name} has {per_stick} elements per stick, not {stick_size}")
    return data_format


def _scale(field: Field) -> int:
    scale = field.integer(-2, 1)
    if scale == 0:
        field.fail("must be 1, -1 or -2")
    return scale


def _gaps(node: Field, dims: Sequence[str], component: str, cores: int) -> dict[str, int]:
    """Return the back gap of each dim, which must be the same on all cores."""
    field = node.get("backGapCore_")
    if field is None:
        return {}
    core_keys = [str(core) for core in range(cores)] if component == "lx" else ["-1"]
    gaps = {}
    for label, entry in field.entries():
        if label not in dims:
            entry.fail("is not a dim of the tensor")
        core_gaps = {core: gap.integer() for core, gap in entry.entries()}
        if sorted(core_gaps) != sorted(core_keys) or len(set(core_gaps.values())) != 1:
            suffix = "..." if cores > 3 else ""
            entry.fail(f"must have the same gap for all of {core_keys[:3]}{suffix}")
        gaps[label] = core_gaps[core_keys[0]]
        if not gaps[label]:
            entry.fail("must not be 0")
    return gaps


def _starts(
    node: Field, component: str, cores: int, symbols: Mapping[int, Address]
) -> tuple[Address, ...]:
    """Return the start address on each core; `symbols` binds symbolic addresses."""
    symbolic_field = node.get("isStartAddrSymbolic_")
    is_symbolic = symbolic_field is not None and symbolic_field.integer(0, 1) == 1
    if is_symbolic and component == "lx":
        node["isStartAddrSymbolic_"].fail("scratchpad addresses cannot be symbolic")
    data = node["startAddressCoreCorelet_"]["data_"]
    entries = dict(data.entries())
    expected_keys = [f"[{core}, 0, 0]" for core in range(cores)]
    if sorted(entries) != sorted(expected_keys):
        missing = [key for key in expected_keys if key not in entries]
        data.fail(f"must have an address for each of {cores} cores; {missing[:3]} missing")
    starts = []
    for key in expected_keys:
        if not is_symbolic:
            starts.append(Address(None, entries[key].integer(0)))
            continue
        symbol_id = entries[key].integer(maximum=-1)
        if symbol_id not in symbols:
            entries[key].fail(f"symbol {symbol_id} is not bound by the bundle")
        starts.append(symbols[symbol_id])
    return tuple(starts)


_REFERENCE = re.compile(r"Tensor(\d{1,6})-idx(\d{1,6})")


def parse_references(field: Field, count: int) -> list[int]:
    """Return the positions of a list of references to the `count` tensors of the op."""
    return [parse_reference(element, count) for element in field.elements()]


def parse_reference(field: Field, count: int) -> int:
    """Return the position in a reference `Tensor<i>-idx<i>` to one of the `count` tensors."""
    match = _REFERENCE.fullmatch(field.string())
    if match is None or match[1] != match[2] or int(match[1]) >= count:
        field.fail(f"{field.string()[:60]!r} does not refer to any of the {count} tensors")
    return int(match[1])
