"""Decides which accesses are compatible within an op, and which copies make others compatible.

All tensors of an op advance along one loop variable inside their sticks, or stay in slot 0 while it
advances (they are broadcast along the stick). Any other access needs a copy first: of the whole
buffer to a layout with another stick, or, if there is no such layout, of the elements in the order
in which they are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import prod

import torch

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts.coordinates import (
    divide,
    divide_on_host,
    layout_coordinates,
    sizes_and_strides,
)
from torch_spyre._inductor.layouts.terms import (
    Linear,
    Variable,
    digits,
    make_digit,
    make_linear,
    names,
)

# A requirement on an access: the variable along its sticks, None for slot 0, or ANY.
ANY = "*"
Requirement = str | None

# The cost of an element relative to a restickify: a gather moves single elements, not whole tiles.
GATHER_COST = 2


@dataclass(frozen=True)
class StickCandidate:
    """The stick of an op's result, and the stick that each of its reads has with it."""

    written: Requirement
    reads: tuple[Requirement, ...]


class StickKind(Enum):
    """The form of the last device coordinate of an access."""

    # Slot 0 only.
    NONE = "none"
    # `v` or `Mod(v, elements per stick)`.
    OFFSET_FREE = "offset-free"
    # The same plus a constant; or a constant slot other than 0.
    OFFSET = "offset"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Stick:
    """How an access moves inside sticks, and the variable that it moves with."""

    kind: StickKind
    variable: str | None = None


_NO_STICK = Stick(StickKind.NONE)
_UNSUPPORTED = Stick(StickKind.UNSUPPORTED)


def classify(coordinate: Linear, per_stick: int) -> Stick:
    """Return how an access moves inside sticks, from its last device coordinate."""
    if not coordinate.terms:
        return Stick(StickKind.OFFSET) if coordinate.constant else _NO_STICK
    coefficient, digit = coordinate.terms[0]
    offset = coordinate.constant
    if len(coordinate.terms) > 1 or coefficient != 1 or digit.divisor != 1:
        return _UNSUPPORTED
    if isinstance(digit.base, Linear):
        # Mod(v + c, elements per stick)
        inner = digit.base.terms
        if len(inner) > 1 or inner[0][0] != 1 or inner[0][1][1:3] != (1, 0):
            return _UNSUPPORTED
        offset += digit.base.constant
        base = inner[0][1].base
    else:
        base = digit.base
    if digit.modulus not in (0, per_stick) or not isinstance(base, Variable):
        return _UNSUPPORTED
    kind = StickKind.OFFSET if offset else StickKind.OFFSET_FREE
    return Stick(kind, str(base.name))


def varies_within_sticks(values: Iterable[Linear], variable: str, per_stick: int) -> bool:
    """Return whether any of the values changes while `variable` runs along one stick."""
    return any(
        digit.divisor % per_stick != 0
        for value in values
        for base, digit in digits(value)
        if base.name == variable
    )


def satisfies(
    coordinates: Sequence[Linear], per_stick: int, required: Requirement, indirect: frozenset[str]
) -> bool:
    """Return whether an access with these device coordinates satisfies the requirement."""
    if required == ANY:
        return True
    stick = classify(coordinates[-1], per_stick)
    if required is None:
        return stick.kind is StickKind.NONE
    return (
        stick == Stick(StickKind.OFFSET_FREE, required)
        and required not in indirect
        and not varies_within_sticks(coordinates[:-1], required, per_stick)
    )


def matching_dim(coordinates: Sequence[Linear], variable: str) -> int | None:
    """Return the only dim whose coordinate is the variable or its `Mod`; None if there is none."""
    dims = [dim for dim, coordinate in enumerate(coordinates) if _is_variable(coordinate, variable)]
    return dims[0] if len(dims) == 1 else None


def _is_variable(value: Linear, variable: str) -> bool:
    if value.constant or len(value.terms) != 1:
        return False
    coefficient, digit = value.terms[0]
    return (
        coefficient == 1
        and digit.divisor == 1
        and isinstance(digit.base, Variable)
        and digit.base.name == variable
    )


# --- Layouts of a buffer --------------------------------------------------------------------------


def layout_with_stick(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, stick_dim: int
) -> SpyreTensorLayout:
    """Return the layout with dims in order and sticks along `stick_dim`; -1 is sparse."""
    return ordered_layout(size, stride, dtype, _order(len(size), stick_dim))


def _order(rank: int, stick_dim: int) -> tuple[int, ...]:
    return (*(dim for dim in range(rank) if dim != stick_dim), stick_dim)


@lru_cache(maxsize=1 << 12)
def ordered_layout(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, order: tuple[int, ...]
) -> SpyreTensorLayout:
    return SpyreTensorLayout(size, stride, dtype, order)


def default_layout(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
) -> SpyreTensorLayout:
    return ordered_layout(size, stride, dtype, tuple(range(len(size))))


def restickified(
    size: tuple[int, ...],
    stride: tuple[int, ...],
    dtype: torch.dtype,
    layout: SpyreTensorLayout,
    new_dim: int,
) -> SpyreTensorLayout:
    """Return the layout with its stick along another host dim, other dims in place if possible."""
    device_size, stride_map = sizes_and_strides(layout)
    per_stick = device_size[-1]
    old_dims = [d for d, step in enumerate(stride) if step == stride_map[-1] and size[d] > 1]
    old_dim = old_dims[0] if old_dims else None
    if old_dim is None or old_dim == new_dim or size[new_dim] == 1:
        return layout_with_stick(size, stride, dtype, new_dim)
    count = -(-size[old_dim] // per_stick), stride[old_dim] * per_stick
    outer = list(zip(device_size[:-1], stride_map[:-1], strict=True))
    row = size[new_dim], stride[new_dim]
    if count == row or count not in outer or row not in outer:
        return layout_with_stick(size, stride, dtype, new_dim)
    count_position, row_position = outer.index(count), outer.index(row)
    outer[count_position] = -(-size[new_dim] // per_stick), stride[new_dim] * per_stick
    outer[row_position] = size[old_dim], stride[old_dim]
    return SpyreTensorLayout(
        [extent for extent, _ in outer] + [per_stick],
        [step for _, step in outer] + [stride[new_dim]],
        layout.device_dtype,
    )


# --- Copies ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """A copy that makes an access satisfy a requirement; see `Restickify` for the kinds."""

    kind: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    layout: SpyreTensorLayout
    index: Linear
    reason: str
    cost: int


def device_elements(layout: SpyreTensorLayout) -> int:
    return prod(sizes_and_strides(layout)[0])


@lru_cache(maxsize=1 << 14)
def copy_needed(
    size: tuple[int, ...],
    stride: tuple[int, ...],
    dtype: torch.dtype,
    layout: SpyreTensorLayout,
    index: Linear,
    required: Requirement,
    indirect: frozenset[str],
    loops: tuple[tuple[str, int], ...],
) -> Copy | None:
    """Return the cheapest copy that satisfies the requirement; None if none is needed."""
    coordinates = layout_coordinates(layout, index)
    per_stick = sizes_and_strides(layout)[0][-1]
    if satisfies(coordinates, per_stick, required, indirect):
        return None
    reason = _reason(classify(coordinates[-1], per_stick), required)
    gather = gather_copy(dtype, index, required, indirect, dict(loops), reason)
    target = _restickify_target(size, stride, dtype, layout, index, required)
    if target is None or not _is_valid_target(target, index, required, indirect):
        return gather
    is_sparse = -1 in (sizes_and_strides(end)[1][-1] for end in (layout, target))
    cost = device_elements(layout)
    cost = max(cost, device_elements(target)) if is_sparse else cost
    restickify = Copy("restickify", size, stride, target, index, reason, cost)
    return restickify if restickify.cost <= gather.cost else gather


def _restickify_target(
    size: tuple[int, ...],
    stride: tuple[int, ...],
    dtype: torch.dtype,
    layout: SpyreTensorLayout,
    index: Linear,
    required: Requirement,
) -> SpyreTensorLayout | None:
    """Return the layout of the whole buffer with the required stick; None if there is none."""
    if any(step == 0 and extent > 1 for extent, step in zip(size, stride, strict=True)):
        return None
    if required is None:
        return layout_with_stick(size, stride, dtype, -1)
    host, remainder = divide_on_host(size, stride, index)
    new_dim = matching_dim(host, required) if remainder.is_zero else None
    return None if new_dim is None else restickified(size, stride, dtype, layout, new_dim)


def _is_valid_target(
    layout: SpyreTensorLayout, index: Linear, required: Requirement, indirect: frozenset[str]
) -> bool:
    """Return whether the layout has every element that is read, along the required stick."""
    device_size, stride_map = sizes_and_strides(layout)
    coordinates, remainder = divide(device_size, stride_map, index)
    in_bounds = all(
        coordinate.bounds[0] >= 0 and coordinate.bounds[1] < extent
        for coordinate, extent in zip(coordinates, device_size, strict=True)
    )
    if not remainder.is_zero or not in_bounds:
        return False
    return satisfies(coordinates, device_size[-1], required, indirect)


def gather_copy(
    dtype: torch.dtype,
    index: Linear,
    required: Requirement,
    indirect: frozenset[str],
    loops: Mapping[str, int],
    reason: str,
) -> Copy:
    """Return a copy to a row-major buffer over the loops of the access, with the required stick."""
    used_loops = names(index) | indirect
    dims = {name: extent for name, extent in loops.items() if name in used_loops}
    size = tuple(dims.values())
    stride = tuple(prod(size[dim + 1 :]) for dim in range(len(size)))
    stick_dim = -1 if required is None else list(dims).index(required)
    layout = layout_with_stick(size, stride, dtype, stick_dim)
    terms = [
        (step, make_digit(Variable(name, extent)))
        for (name, extent), step in zip(dims.items(), stride, strict=True)
    ]
    cost = GATHER_COST * device_elements(layout)
    return Copy("gather", size, stride, layout, make_linear(0, terms), reason, cost)


def _reason(stick: Stick, required: Requirement) -> str:
    expected = "one element per stick" if required is None else f"sticks along {required}"
    if stick.kind is StickKind.NONE:
        return f"one element per stick, the op needs {expected}"
    if stick.kind is StickKind.UNSUPPORTED:
        return f"the access is not aligned with the sticks, the op needs {expected}"
    if stick.kind is StickKind.OFFSET:
        return f"the access starts inside a stick, the op needs {expected}"
    return f"sticks along {stick.variable}, the op needs {expected}"
