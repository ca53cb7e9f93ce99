"""Masks and constants of a SuperDSC file."""

from collections.abc import Mapping

from torch_spyre._inductor.superdsc.encoding import MASK_CONSTANT, bits_limit, decoded, encoded
from torch_spyre._inductor.superdsc.fields import LARGEST, Field
from torch_spyre._inductor.superdsc.reading_tensors import format_of


def read_mask(dsc: Field, sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    mask = {}
    for label, entry in dsc["coordinateMasking_"].entries():
        if label not in sizes:
            entry.fail("is not a dim of N_")
        (part,) = entry.items(1)
        valid, padding = (item.integer(1) for item in part.items(2))
        if valid + padding != sizes[label]:
            entry.fail(f"must cover the dim, {sizes[label]}")
        mask[label] = (valid, padding)
    return mask


def read_constants(
    dsc: Field, extension: Field, mask: Mapping[str, tuple[int, int]]
) -> dict[str, float]:
    field = dsc["constantInfo_"]
    # A file without constants has a text here.
    entries = {} if field.value == "{}" else dict(field.entries())
    if sorted(entries) != sorted(str(number) for number in range(len(entries))):
        field.fail("must be numbered from 0")
    masking = dsc["maskingConstId_"]
    number = masking.integer(-1, len(entries) - 1)
    if (number >= 0) != bool(mask):
        masking.fail("must name a constant where there is a mask, and be -1 elsewhere")
    exact = extension.get("exactConstants")
    told = {} if exact is None else dict(exact.entries())
    constants: dict[str, float] = {}
    for key in sorted(entries, key=int):
        entry = entries[key]
        name = entry["name_"].text()
        is_mask = int(key) == number
        if is_mask != (name == MASK_CONSTANT):
            entry["name_"].fail("does not agree with maskingConstId_")
        if name in constants:
            entry["name_"].fail(f"{name!r} is there twice")
        value = _constant(entry, told.pop(name, None))
        if not is_mask:
            constants[name] = value
    for leftover in told.values():
        leftover.fail("is not a constant of the op")
    return constants


def _constant(entry: Field, told: Field | None) -> float:
    data_format = format_of(entry["dataFormat_"])
    (held,) = entry["data_"]["data_"]["[0, 0, 0]"].items(1)
    bits = held.integer(0, bits_limit(data_format) - 1)
    if told is None:
        return decoded(bits, data_format)
    exact = told.value
    if isinstance(exact, str) and exact in ("inf", "-inf", "nan"):
        exact = float(exact)
    if not isinstance(exact, int | float) or abs(exact) > LARGEST and isinstance(exact, int):
        told.fail("is not a number")
    if encoded(float(exact), data_format) != bits:
        told.fail(f"does not have the bits {bits}")
    return exact
