"""Reads the masks and constants of a SuperDSC file."""

import math
from collections.abc import Mapping

from torch_spyre._C import DataFormats
from torch_spyre._inductor.superdsc.constant_bits import decode, encode, num_codes
from torch_spyre._inductor.superdsc.constant_encoding import MASK_CONSTANT
from torch_spyre._inductor.superdsc.json_fields import MAX_INTEGER, Field
from torch_spyre._inductor.superdsc.tensor_reader import parse_data_format


def read_mask(dsc: Field, sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return, for each masked dim, the number of valid indices and of padding after them."""
    mask = {}
    for label, entry in dsc["coordinateMasking_"].entries():
        if label not in sizes:
            entry.fail("is not a dim of N_")
        (span,) = entry.elements(1)
        valid, padding = (bound.integer(1) for bound in span.elements(2))
        if valid + padding != sizes[label]:
            entry.fail(f"must cover the dim of size {sizes[label]}")
        mask[label] = (valid, padding)
    return mask


def read_constants(
    dsc: Field, extension: Field, mask: Mapping[str, tuple[int, int]]
) -> dict[str, float]:
    """Return the constants of the op by name, without the mask value."""
    field = dsc["constantInfo_"]
    # A file without constants has the string "{}" here.
    entries = {} if field.value == "{}" else dict(field.entries())
    if sorted(entries) != sorted(str(index) for index in range(len(entries))):
        field.fail("must have consecutive keys from 0")
    masking = dsc["maskingConstId_"]
    mask_index = masking.integer(-1, len(entries) - 1)
    if (mask_index >= 0) != bool(mask):
        masking.fail("must be the index of a constant if there is a mask, otherwise -1")
    exact_field = extension.get("exactConstants")
    exact = {} if exact_field is None else dict(exact_field.entries())
    constants: dict[str, float] = {}
    for key in sorted(entries, key=int):
        entry = entries[key]
        name = entry["name_"].string()
        is_mask = int(key) == mask_index
        if is_mask != (name == MASK_CONSTANT):
            entry["name_"].fail("does not agree with maskingConstId_")
        if name in constants:
            entry["name_"].fail(f"{name!r} is defined twice")
        value = _constant(entry, exact.pop(name, None))
        if not is_mask:
            constants[name] = value
    for unknown in exact.values():
        unknown.fail("is not a constant of the op")
    return constants


def _constant(entry: Field, exact: Field | None) -> float:
    """Return the exact value of a constant if there is one, which must have the same bits."""
    data_format = parse_data_format(entry["dataFormat_"])
    (data,) = entry["data_"]["data_"]["[0, 0, 0]"].elements(1)
    bits = data.integer(0, num_codes(data_format) - 1)
    if exact is None:
        return decode(bits, data_format)
    value = exact.value
    if isinstance(value, str) and value in ("inf", "-inf", "nan"):
        value = float(value)
    if not isinstance(value, int | float) or abs(value) > MAX_INTEGER and isinstance(value, int):
        exact.fail("is not a number")
    is_integer = data_format == DataFormats.IEEE_INT32
    if is_integer and not math.isfinite(value) or encode(value, data_format) != bits:
        exact.fail(f"does not have the bits {bits}")
    return value
