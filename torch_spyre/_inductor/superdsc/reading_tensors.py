"""What the keys of a tensor in a SuperDSC file say."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import sympy

from torch_spyre._C import DataFormats
from torch_spyre._inductor.superdsc.bundle_text import Address
from torch_spyre._inductor.superdsc.fields import LARGEST, Field
from torch_spyre._inductor.superdsc.records import EXTENSION_KEY, IndirectKind, LayoutClass
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


_REFERENCE = re.compile(r"Tensor(\d{1,6})-idx(\d{1,6})")


def referred(field: Field, count: int) -> int:
    """The position that `Tensor<i>-idx<i>` names."""
    match = _REFERENCE.fullmatch(field.text())
    if match is None or match[1] != match[2] or int(match[1]) >= count:
        field.fail(f"{field.text()[:60]!r} is none of the {count} tensors")
    return int(match[1])
