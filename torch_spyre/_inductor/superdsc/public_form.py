"""What the public form says about a tensor's place in memory, for writer and reader alike.

The writer uses it to see whether a tensor needs an extension: that is so when reading back what it
is about to write would give another tensor.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sympy

from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.op_table import CONVERSION_OPS, MATMUL_OPS, TOPK_OPS
from torch_spyre._inductor.superdsc.labels import NONSTICK, dimension_labels, synthetic_label


@dataclass(frozen=True)
class PublicDim:
    """A dim of a tensor: how far it reaches in memory, and what runs along it."""

    extent: int
    runs: sympy.Expr | None


def rounded_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def extent_from_gap(size: int, gap: int, is_restickify: bool) -> int:
    """A gap is memory beyond the iteration, except in restickify: there it is missing memory."""
    return size - gap if is_restickify else size + gap


def device_view(
    dims: Sequence[PublicDim], stick: int, stick_size: int, offset: int
) -> tuple[list[int], list[sympy.Expr]] | None:
    """Device sizes and coordinates of dims listed from the innermost; None if it has none.

    `offset` is the distance in elements from the tensor's start to its first element.
    """
    sticks, lane = divmod(offset, stick_size)
    if lane:
        return None
    sizes, coordinates = [stick_size], [_lane(dims[stick].runs, stick_size)]
    for position, dim in enumerate(dims):
        is_stick = position == stick
        size = -(-dim.extent // stick_size) if is_stick else dim.extent
        if size < 1:
            return None
        coordinate = sympy.Integer(0) if dim.runs is None else dim.runs
        if is_stick:
            coordinate = sympy.floor(coordinate / stick_size)
        is_outermost = position == len(dims) - 1
        index = sticks if is_outermost else sticks % size
        sticks = 0 if is_outermost else sticks // size
        sizes.append(size)
        coordinates.append(coordinate + index)
    return sizes[::-1], coordinates[::-1]


def _lane(runs: sympy.Expr | None, stick_size: int) -> sympy.Expr:
    return sympy.Integer(0) if runs is None else sympy.Mod(runs, stick_size)


def sizes_without_padding(
    padded: Mapping[str, int],
    mask: Mapping[str, tuple[int, int]],
    gaps: Sequence[Mapping[str, int]],
    is_restickify: bool,
) -> dict[str, int]:
    """Sizes of dims: up to the mask, or, in a restickify, as far as memory reaches."""
    sizes = dict(padded)
    if is_restickify:
        for label in sizes:
            sizes[label] -= max((each.get(label, 0) for each in gaps), default=0)
    return sizes | {label: valid for label, (valid, _) in mask.items()}


def format_read(shown: str, is_index: bool) -> str:
    """The data format of a tensor: index tensors are shown as what the unit takes them for."""
    return "IEEE_INT32" if is_index and shown == "SENUINT32" else shown


def reduces(op_func: str, inputs: Sequence[int], output: int) -> bool:
    """Is an op a reduction? All that accumulate list their output among their inputs."""
    return op_func in MATMUL_OPS | TOPK_OPS or op_func.endswith(NONSTICK) or output in inputs


def real_dims(op: str, sizes: Mapping[str, int], named: Collection[str]) -> list[str] | None:
    """Labels of dims that symbols run along, without those that were added; None if they are not
    the labels of any op. `named` are the dims whose symbols a file names."""
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
