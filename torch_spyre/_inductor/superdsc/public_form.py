"""Derives properties of ops and tensors from the public keys of a SuperDSC file.

The reader uses this to build OpSpecs, and the writer to decide which extensions are needed: those
without which the reader would derive a different op or tensor.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sympy

from torch_spyre._inductor.op_table import CONVERSION_OPS, MATMUL_OPS, TOPK_OPS
from torch_spyre._inductor.superdsc.labels import NONSTICK, dimension_labels, synthetic_label
from torch_spyre.errors import InvalidOpSpecError


@dataclass(frozen=True)
class PublicDim:
    """A dim of a tensor: its size in memory, and the coordinate along it (None if not indexed)."""

    extent: int
    coordinate: sympy.Expr | None


@dataclass(frozen=True)
class GappedTensor:
    """The back gaps of a tensor by dim, its sticks, and its dims that index tensors index."""

    gaps: Mapping[str, int]
    stick: str
    stick_size: int
    indirect: Collection[str]


def round_up(size: int, unit: int) -> int:
    """Return the smallest multiple of `unit` that is at least `size`."""
    return -(-size // unit) * unit


def padded_to_sticks(size: int, label: str, stick: str, stick_size: int) -> int:
    """Return the size of a dim in a tensor, which has whole sticks of its stick dim."""
    return round_up(size, stick_size) if label == stick else size


def extent_from_gap(size: int, gap: int, is_restickify: bool) -> int:
    """Return the extent in memory of a dim with a back gap.

    A gap is memory beyond the iteration space, except in restickify, where it is missing memory. A
    negative gap is the opposite.
    """
    return size - gap if is_restickify else size + gap


def device_view(
    dims: Sequence[PublicDim], stick: int, stick_size: int, offset: int
) -> tuple[list[int], list[sympy.Expr]] | None:
    """Return device sizes and coordinates for dims listed innermost first; None if there are none.

    `offset` is the distance in elements from the tensor's start to its first element.
    """
    sticks, lane = divmod(offset, stick_size)
    if lane:
        return None
    sizes, coordinates = [stick_size], [_lane(dims[stick].coordinate, stick_size)]
    for position, dim in enumerate(dims):
        is_stick = position == stick
        size = -(-dim.extent // stick_size) if is_stick else dim.extent
        if size < 1:
            return None
        coordinate = sympy.Integer(0) if dim.coordinate is None else dim.coordinate
        if is_stick:
            coordinate = sympy.floor(coordinate / stick_size)
        is_outermost = position == len(dims) - 1
        index = sticks if is_outermost else sticks % size
        sticks = 0 if is_outermost else sticks // size
        sizes.append(size)
        coordinates.append(coordinate + index)
    return sizes[::-1], coordinates[::-1]


def _lane(coordinate: sympy.Expr | None, stick_size: int) -> sympy.Expr:
    return sympy.Integer(0) if coordinate is None else sympy.Mod(coordinate, stick_size)


def unpadded_sizes(
    padded: Mapping[str, int],
    mask: Mapping[str, tuple[int, int]],
    tensors: Sequence[GappedTensor],
    is_restickify: bool,
) -> dict[str, int]:
    """Return the sizes of dims up to the mask or, if memory is missing, up to the end of memory."""
    sizes = dict(padded)
    for tensor in tensors:
        for label, gap in tensor.gaps.items():
            if label not in tensor.indirect:
                iterated = padded_to_sticks(padded[label], label, tensor.stick, tensor.stick_size)
                extent = extent_from_gap(iterated, gap, is_restickify)
                sizes[label] = min(sizes[label], extent)
    return sizes | {label: valid for label, (valid, _) in mask.items()}


def public_format(name: str, is_index: bool) -> str:
    """Return the data format of a tensor; index tensors are written as the unit reads them."""
    return "IEEE_INT32" if is_index and name == "SENUINT32" else name


def is_reduction_op(op_func: str, inputs: Sequence[int], output: int) -> bool:
    """Return whether an op is a reduction: ops that accumulate list their output as an input."""
    return op_func in MATMUL_OPS | TOPK_OPS or op_func.endswith(NONSTICK) or output in inputs


def is_partial_write(mask: Mapping[str, tuple[int, int]], output_scale: Mapping[str, int]) -> bool:
    """Return whether the padding of the output in memory must be preserved: it is masked."""
    return any(output_scale.get(label) == 1 for label in mask)


def iterated_labels(op: str, sizes: Mapping[str, int], named: Collection[str]) -> list[str] | None:
    """Return the labels of an op's iteration space, without dims that were added for the hardware.

    `named` are the dims that have a symbol name in the file. Returns None if `sizes` does not have
    the labels of such an op.
    """
    labels = list(sizes)
    if labels == _labels_or_none(op, len(labels)):
        is_virtual = op in CONVERSION_OPS and len(labels) == 2 and sizes[labels[0]] == 1
        return labels[1:] if is_virtual and labels[0] not in named else labels
    expected = _labels_or_none(op, len(labels) - 1)
    if expected is not None and labels == [*expected, synthetic_label(len(labels) - 1)]:
        return expected
    return None


def _labels_or_none(op: str, count: int) -> list[str] | None:
    try:
        return dimension_labels(op, count) if count >= 0 else None
    except InvalidOpSpecError:
        return None
