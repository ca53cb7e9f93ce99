"""Computes the extensions of a SuperDSC file: properties that the public format cannot represent.

Tensors have `place` and `argIndex` (the public format calls both pool and arguments `hbm`),
`offset` (bytes from the buffer to the tensor's first element), `name`, `dataFormat` (if the public
key has another format), `physicalExtents` (a check of the gaps), and, for coordinates that dims and
gaps cannot describe, `deviceSize` and `coordinates`.

Ops have `sizes` without padding, `symbols`, `isReduction`, `exactConstants` (before rounding), and
`opInfo`. An extension is written only if reading the public keys would give a different result.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import IndirectAccess, OpSpec
from torch_spyre._inductor.op_table import RESTICKIFY
from torch_spyre._inductor.superdsc.accesses import Access
from torch_spyre._inductor.superdsc.constant_bits import decode
from torch_spyre._inductor.superdsc.constant_encoding import MASK_CONSTANT
from torch_spyre._inductor.superdsc.coordinates import (
    IDENTIFIER,
    canonical_view,
    has_same_addresses,
    integer_symbol,
)
from torch_spyre._inductor.superdsc.public_form import (
    GappedTensor,
    PublicDim,
    device_view,
    extent_from_gap,
    is_partial_write,
    is_reduction_op,
    iterated_labels,
    padded_to_sticks,
    public_format,
    unpadded_sizes,
)
from torch_spyre._inductor.superdsc.sdsc_spec import Dim, OpDims, SDSCArgs, SDSCSpec
from torch_spyre._inductor.superdsc.segments import SEGMENT_BYTES
from torch_spyre.errors import InvalidOpSpecError


def with_extension(
    spec: OpSpec,
    access: Access,
    sdsc_arg: SDSCArgs,
    dims: OpDims,
    extents: Mapping[str, int],
) -> SDSCArgs:
    """Return the tensor with its extension; `extents` are its sizes in memory by dim label."""
    arg = access.arg
    extension: dict[str, Any] = {}
    offset = sdsc_arg.starts[0] - sdsc_arg.base
    if sdsc_arg.memory_space == "pool":
        extension["place"] = "pool"
    if sdsc_arg.memory_space == "hbm" and arg.arg_index != sdsc_arg.base // SEGMENT_BYTES:
        extension["argIndex"] = arg.arg_index
    if sdsc_arg.base % SEGMENT_BYTES if sdsc_arg.memory_space == "hbm" else offset:
        extension["offset"] = offset
    if arg.name is not None:
        extension["name"] = arg.name
    if arg.device_dtype.name != public_format(sdsc_arg.data_format, access.is_index):
        extension["dataFormat"] = arg.device_dtype.name
    sizes = {dim.symbol: dim.unpadded for dim in dims.all if dim.symbol is not None}
    view = _public_view(spec, access, sdsc_arg, dims)
    is_affine = view is not None and has_same_addresses(
        view, (arg.device_size, arg.device_coordinates), sizes
    )
    if not is_affine:
        # Gaps are those of dims, which do not describe this access.
        sdsc_arg = replace(sdsc_arg, back_gap={})
    if sdsc_arg.back_gap:
        extension["physicalExtents"] = dict(extents)
    expected = canonical_view(arg.device_size, arg.device_coordinates, sizes)
    if view is None or not is_affine or canonical_view(*view, sizes) != expected:
        extension["deviceSize"] = list(arg.device_size)
        extension["coordinates"] = [str(coordinate) for coordinate in arg.device_coordinates]
    return replace(sdsc_arg, is_affine=is_affine, extension=extension)


def _public_view(
    spec: OpSpec, access: Access, sdsc_arg: SDSCArgs, dims: OpDims
) -> tuple[list[int], list[sympy.Expr]] | None:
    """Return the device sizes and coordinates that a reader derives from the public keys."""
    public_dims = [
        _public_dim(spec, access, sdsc_arg, dims.named(label)) for label in sdsc_arg.dims
    ]
    offset = (sdsc_arg.starts[0] - sdsc_arg.base) // sdsc_arg.word_length
    stick = sdsc_arg.dims.index(sdsc_arg.stick)
    return device_view(public_dims, stick, sdsc_arg.stick_size, offset)


def _public_dim(spec: OpSpec, access: Access, sdsc_arg: SDSCArgs, dim: Dim) -> PublicDim:
    """Return the dim that a reader derives from the public keys."""
    is_stick = dim.label == sdsc_arg.stick
    if sdsc_arg.scale[dim.label] < 0:
        return PublicDim(sdsc_arg.stick_size if is_stick else 1, None)
    size = padded_to_sticks(dim.size, dim.label, sdsc_arg.stick, sdsc_arg.stick_size)
    extent = extent_from_gap(size, sdsc_arg.back_gap.get(dim.label, 0), spec.op == RESTICKIFY)
    if dim.symbol is not None and dim.symbol == access.indirect:
        return PublicDim(extent, IndirectAccess(integer_symbol(access.indices[0])))
    return PublicDim(extent, dim.symbol)


# --- ops ------------------------------------------------------------------------------------------


def public_sizes(
    sizes: Mapping[str, int],
    mask: Mapping[str, tuple[int, int]],
    args: Sequence[SDSCArgs],
    op: str,
) -> dict[str, int]:
    """Return the sizes of an op's dims that a reader derives from the public keys."""
    tensors = []
    for arg in args:
        indirect: Sequence[str] = ()
        if arg.indirect_kind == "value_tensor" and arg.indirect_partner is not None:
            indirect = args[arg.indirect_partner].dims
        tensors.append(GappedTensor(arg.back_gap, arg.stick, arg.stick_size, indirect))
    return unpadded_sizes(sizes, mask, tensors, op == RESTICKIFY)


def op_extension(spec: OpSpec, parsed: SDSCSpec, dims: OpDims) -> dict[str, Any]:
    """Return the extension of an op."""
    extension: dict[str, Any] = {}
    iterated = [dim for dim in dims.all if dim.symbol is not None]
    derived = public_sizes(parsed.sizes, parsed.mask, parsed.args, spec.op)
    if any(derived[dim.label] != dim.unpadded for dim in iterated):
        extension["sizes"] = {dim.label: dim.unpadded for dim in iterated}
    symbols = {dim.label: _symbol_name(spec, dim.symbol) for dim in iterated}
    labels = iterated_labels(spec.op, parsed.sizes, [])
    if symbols != {label: f"c{position}" for position, label in enumerate(labels or [])}:
        extension["symbols"] = symbols
    if spec.is_reduction != is_reduction_op(parsed.op_func, parsed.inputs, parsed.output):
        extension["isReduction"] = spec.is_reduction
    exact_constants = _exact_constants(spec, parsed)
    if exact_constants:
        extension["exactConstants"] = exact_constants
    info = {name: item for name, item in spec.op_info.items() if name != "constants"}
    is_partial = bool(info.pop("partial", False))
    if is_partial != is_partial_write(parsed.mask, parsed.args[parsed.output].scale):
        info["partial"] = is_partial
    if info:
        extension["opInfo"] = _to_json(spec, info)
    return extension


def _symbol_name(spec: OpSpec, symbol: sympy.Symbol) -> str:
    if not IDENTIFIER.fullmatch(str(symbol)):
        raise InvalidOpSpecError(f"OpSpec {spec.op}", f"{str(symbol)!r} is not a valid symbol name")
    return str(symbol)


def _exact_constants(spec: OpSpec, parsed: SDSCSpec) -> dict[str, Any]:
    exact: dict[str, Any] = {}
    for constant in parsed.constants:
        if constant.name == MASK_CONSTANT:
            continue
        value = spec.constants[constant.name]
        rounded = decode(constant.bits, getattr(DataFormats, constant.data_format))
        if isinstance(value, bool | int):
            if value != rounded:
                exact[constant.name] = value
        elif repr(float(value)) != repr(float(rounded)):
            # JSON has no infinities.
            exact[constant.name] = float(value) if math.isfinite(value) else repr(float(value))
    return exact


def _to_json(spec: OpSpec, info: Mapping[str, Any]) -> Any:
    try:
        return json.loads(json.dumps(info, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidOpSpecError(
            f"OpSpec {spec.op}", f"op_info {sorted(info)} cannot be written as JSON: {error}"
        ) from error
