"""Which accesses can be computed on together, and which copies make them so.

All tensors of an op advance along one loop variable inside their sticks, or stay in slot 0 while it
runs (they are broadcast along the stick). An access that does otherwise needs a copy first: of the
whole buffer to a layout with another stick, or, where no layout helps, of the values as they are
read.
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
    digit,
    digits,
    linear,
    names,
)

# A requirement on an access: a variable's name along the stick, None for slot 0, or anything.
ANY = "*"
Requirement = str | None

# A gather moves single elements, a restickify whole tiles: it wins where it moves half as many.
GATHER_COST = 2


class StickKind(Enum):
    # Slot 0 only.
    NONE = "none"
    # `v` or `Mod(v, elements per stick)`.
    OFFSET_FREE = "offset-free"
    # The same plus a constant; or a constant slot.
    OFFSET = "offset"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Stick:
    kind: StickKind
    variable: str | None = None


_NO_STICK = Stick(StickKind.NONE)
_UNSUPPORTED = Stick(StickKind.UNSUPPORTED)


def classify(coordinate: Linear, per_stick: int) -> Stick:
    """How an access moves inside sticks, from its last device coordinate."""
    if not coordinate.terms:
        return Stick(StickKind.OFFSET) if coordinate.constant else _NO_STICK
    coefficient, each = coordinate.terms[0]
    offset = coordinate.constant
    if len(coordinate.terms) > 1 or coefficient != 1 or each.divisor != 1:
        return _UNSUPPORTED
    if isinstance(each.base, Linear):
        # Mod(v + c, elements per stick)
        inner = each.base.terms
        if len(inner) > 1 or inner[0][0] != 1 or inner[0][1][1:3] != (1, 0):
            return _UNSUPPORTED
        offset += each.base.constant
        base = inner[0][1].base
    else:
        base = each.base
    if each.modulus not in (0, per_stick) or not isinstance(base, Variable):
        return _UNSUPPORTED
    kind = StickKind.OFFSET if offset else StickKind.OFFSET_FREE
    return Stick(kind, str(base.name))


def varies_within_sticks(values: Iterable[Linear], variable: str, per_stick: int) -> bool:
    """Whether any of the values changes while `variable` runs along one stick."""
    return any(
        each.divisor % per_stick != 0
        for value in values
        for base, each in digits(value)
        if base.name == variable
    )


def meets(
    coordinates: Sequence[Linear], per_stick: int, required: Requirement, indirect: frozenset[str]
) -> bool:
    """Whether an access with these device coordinates does what the op requires of it."""
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


def are_compatible(accesses: Sequence[tuple[Sequence[Linear], int]]) -> bool:
    """Whether accesses with these (device coordinates, elements per stick) fit in one op."""
    sticks = [classify(coordinates[-1], per_stick) for coordinates, per_stick in accesses]
    if any(stick.kind in (StickKind.OFFSET, StickKind.UNSUPPORTED) for stick in sticks):
        return False
    variables = {stick.variable for stick in sticks} - {None}
    if len(variables) > 1:
        return False
    longest = max((per_stick for _, per_stick in accesses), default=1)
    return not any(
        varies_within_sticks(
            coordinates[:-1], str(variable), per_stick if stick.variable else longest
        )
        for variable in variables
        for (coordinates, per_stick), stick in zip(accesses, sticks, strict=True)
    )


def matching_dim(coordinates: Sequence[Linear], variable: str) -> int | None:
    """The one dim whose coordinate is the variable itself, or `Mod` of it."""
    found = [dim for dim, each in enumerate(coordinates) if _is_variable(each, variable)]
    return found[0] if len(found) == 1 else None


def _is_variable(value: Linear, variable: str) -> bool:
    if value.constant or len(value.terms) != 1:
        return False
    coefficient, each = value.terms[0]
    return (
        coefficient == 1
        and each.divisor == 1
        and isinstance(each.base, Variable)
        and each.base.name == variable
    )


# --- Other layouts for the same buffer ------------------------------------------------------------


def layout_with_stick(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, stick_dim: int
) -> SpyreTensorLayout:
    """Dims in their order, the stick along `stick_dim`; -1 for one element in each stick."""
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
    """The layout with its stick moved to another host dim, all else in place where it can be."""
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
    """The cheapest copy after which the access does what is required; None if it does already."""
    coordinates = layout_coordinates(layout, index)
    per_stick = sizes_and_strides(layout)[0][-1]
    if meets(coordinates, per_stick, required, indirect):
        return None
    reason = _reason(classify(coordinates[-1], per_stick), required)
    gather = gather_copy(dtype, index, required, indirect, dict(loops), reason)
    target = _restickify_target(size, stride, dtype, layout, index, required)
    if target is None or not _holds(target, index, required, indirect):
        return gather
    is_sparse = -1 in (sizes_and_strides(each)[1][-1] for each in (layout, target))
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
    if any(step == 0 and extent > 1 for extent, step in zip(size, stride, strict=True)):
        return None
    if required is None:
        return layout_with_stick(size, stride, dtype, -1)
    host, rest = divide_on_host(size, stride, index)
    new_dim = matching_dim(host, required) if rest.is_zero else None
    return None if new_dim is None else restickified(size, stride, dtype, layout, new_dim)


def _holds(
    layout: SpyreTensorLayout, index: Linear, required: Requirement, indirect: frozenset[str]
) -> bool:
    """Whether the layout has a place for every element that is read, and the right stick."""
    device_size, stride_map = sizes_and_strides(layout)
    coordinates, rest = divide(device_size, stride_map, index)
    inside = all(
        each.bounds[0] >= 0 and each.bounds[1] < extent
        for each, extent in zip(coordinates, device_size, strict=True)
    )
    return rest.is_zero and inside and meets(coordinates, device_size[-1], required, indirect)


def gather_copy(
    dtype: torch.dtype,
    index: Linear,
    required: Requirement,
    indirect: frozenset[str],
    loops: Mapping[str, int],
    reason: str,
) -> Copy:
    """A row-major buffer over the loops that the access depends on, with the required stick."""
    used = names(index) | indirect
    dims = {name: extent for name, extent in loops.items() if name in used}
    size = tuple(dims.values())
    stride = tuple(prod(size[dim + 1 :]) for dim in range(len(size)))
    stick_dim = -1 if required is None else list(dims).index(required)
    layout = layout_with_stick(size, stride, dtype, stick_dim)
    terms = [
        (step, digit(Variable(name, extent)))
        for (name, extent), step in zip(dims.items(), stride, strict=True)
    ]
    cost = GATHER_COST * device_elements(layout)
    return Copy("gather", size, stride, layout, linear(0, terms), reason, cost)


def _reason(stick: Stick, required: Requirement) -> str:
    wanted = "one element per stick" if required is None else f"sticks along {required}"
    if stick.kind is StickKind.NONE:
        return f"one element per stick, the op needs {wanted}"
    if stick.kind is StickKind.UNSUPPORTED:
        return f"the access is not aligned with the sticks, the op needs {wanted}"
    if stick.kind is StickKind.OFFSET:
        return f"the access starts inside a stick, the op needs {wanted}"
    return f"sticks along {stick.variable}, the op needs {wanted}"
