"""What the public form cannot say, written under one key of our own.

Per tensor: `place` and `argIndex` (the public form calls pool and arguments alike `hbm`), `offset`
(bytes from the buffer to the tensor's first element), `name`, `dataFormat` (where the public form
shows another), `physicalExtents` (a gap may mean memory beyond the iteration or missing from it),
and, for coordinates that no dims and gaps describe, `deviceSize` with `coordinates`.

Per op: `sizes` without padding, `symbols`, `isReduction`, `exactConstants` (before rounding), and
`opInfo`. Each is written only where reading the public form gives something else.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import sympy

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import IndirectAccess, OpSpec
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.op_table import RESTICKIFY
from torch_spyre._inductor.superdsc.accesses import Access
from torch_spyre._inductor.superdsc.coordinates import NAME, integer_symbol, nontrivial
from torch_spyre._inductor.superdsc.encoding import MASK_CONSTANT, decoded
from torch_spyre._inductor.superdsc.public_form import (
    PublicDim,
    device_view,
    extent_from_gap,
    format_read,
    real_dims,
    reduces,
    rounded_up,
    sizes_without_padding,
)
from torch_spyre._inductor.superdsc.records import Dim, OpDims, SDSCArgs, SDSCSpec
from torch_spyre._inductor.superdsc.segments import SEGMENT_BYTES


def tensor_extension(
    spec: OpSpec,
    access: Access,
    written: SDSCArgs,
    dims: OpDims,
    extents: Mapping[str, int],
) -> dict[str, Any]:
    arg = access.arg
    extension: dict[str, Any] = {}
    offset = written.starts[0] - written.base
    if written.place == "pool":
        extension["place"] = "pool"
    if written.place == "hbm" and arg.arg_index != written.base // SEGMENT_BYTES:
        extension["argIndex"] = arg.arg_index
    if written.base % SEGMENT_BYTES if written.place == "hbm" else offset:
        extension["offset"] = offset
    if arg.name is not None:
        extension["name"] = arg.name
    if arg.device_dtype.name != format_read(written.data_format, access.is_index):
        extension["dataFormat"] = arg.device_dtype.name
    return extension | _geometry(spec, access, written, dims, extents)


def _geometry(
    spec: OpSpec,
    access: Access,
    written: SDSCArgs,
    dims: OpDims,
    extents: Mapping[str, int],
) -> dict[str, Any]:
    sizes = {dim.symbol: dim.unpadded for dim in dims.all if dim.symbol is not None}
    arg = access.arg
    truth = nontrivial(arg.device_size, arg.device_coordinates, sizes)

    def reads_back(known: Mapping[str, int]) -> bool:
        public = [
            _public_dim(spec, access, written, dims.named(label), known) for label in written.dims
        ]
        offset = (written.starts[0] - written.base) // written.word_length
        view = device_view(public, written.dims.index(written.stick), written.stick_size, offset)
        return view is not None and nontrivial(*view, sizes) == truth

    if not written.back_gap and reads_back({}):
        return {}
    extension: dict[str, Any] = {"physicalExtents": dict(extents)}
    if not reads_back(extents):
        extension["deviceSize"] = list(arg.device_size)
        extension["coordinates"] = [str(each) for each in arg.device_coordinates]
    return extension


def _public_dim(
    spec: OpSpec, access: Access, written: SDSCArgs, dim: Dim, known: Mapping[str, int]
) -> PublicDim:
    """What a reader makes of a dim, if it is told the extents in `known`."""
    is_stick = dim.label == written.stick
    if written.scale[dim.label] < 0:
        return PublicDim(written.stick_size if is_stick else 1, None)
    size = rounded_up(dim.size, written.stick_size) if is_stick else dim.size
    derived = extent_from_gap(size, written.back_gap.get(dim.label, 0), spec.op == RESTICKIFY)
    extent = known.get(dim.label, derived)
    if dim.symbol is not None and dim.symbol == access.indirect:
        return PublicDim(extent, IndirectAccess(integer_symbol(access.indices[0])))
    return PublicDim(extent, dim.symbol)


# --- ops ------------------------------------------------------------------------------------------


def op_extension(spec: OpSpec, parsed: SDSCSpec, dims: OpDims) -> dict[str, Any]:
    extension: dict[str, Any] = {}
    real = [dim for dim in dims.all if dim.symbol is not None]
    derived = sizes_without_padding(
        parsed.sizes, parsed.mask, [arg.back_gap for arg in parsed.args], spec.op == RESTICKIFY
    )
    if any(derived[dim.label] != dim.unpadded for dim in real):
        extension["sizes"] = {dim.label: dim.unpadded for dim in real}
    symbols = {dim.label: _symbol_name(spec, dim.symbol) for dim in real}
    read = real_dims(spec.op, parsed.sizes, [])
    if symbols != {label: f"c{position}" for position, label in enumerate(read or [])}:
        extension["symbols"] = symbols
    if spec.is_reduction != reduces(parsed.op_func, parsed.inputs, parsed.output):
        extension["isReduction"] = spec.is_reduction
    exact = _exact_constants(spec, parsed)
    if exact:
        extension["exactConstants"] = exact
    other = {name: item for name, item in spec.op_info.items() if name != "constants"}
    if other:
        extension["opInfo"] = _plain(spec, other)
    return extension


def _symbol_name(spec: OpSpec, symbol: sympy.Symbol) -> str:
    if not NAME.fullmatch(str(symbol)):
        raise InvalidOpSpecError(f"OpSpec {spec.op}: {str(symbol)!r} is not a name for a symbol")
    return str(symbol)


def _exact_constants(spec: OpSpec, parsed: SDSCSpec) -> dict[str, Any]:
    exact: dict[str, Any] = {}
    for constant in parsed.constants:
        if constant.name == MASK_CONSTANT:
            continue
        number = spec.constants[constant.name]
        read = decoded(constant.bits, getattr(DataFormats, constant.data_format))
        if isinstance(number, bool | int):
            exact[constant.name] = number
        elif repr(float(number)) != repr(read):
            # JSON has no infinities.
            exact[constant.name] = float(number) if math.isfinite(number) else repr(float(number))
    return exact


def _plain(spec: OpSpec, info: Mapping[str, Any]) -> Any:
    try:
        return json.loads(json.dumps(info, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidOpSpecError(
            f"OpSpec {spec.op}: op_info holds {sorted(info)}, not all of which JSON can: {error}"
        ) from error
