"""Assigns fixed addresses to kernel arguments, in the segments of the address space."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from torch_spyre._inductor.op_spec import (
    AnySpec,
    LoopSpec,
    OpSpec,
    Spec,
    TensorArg,
    flat,
)
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import InvalidOpSpecError

SEGMENT_BYTES = 0x4_0000_0000
ARGUMENT_SEGMENTS = 7
SEGMENT_OFFSETS = tuple(segment * SEGMENT_BYTES for segment in range(ARGUMENT_SEGMENTS))
# The eighth segment holds programs; tensors must end before it.
PROGRAM_SEGMENT = ARGUMENT_SEGMENTS * SEGMENT_BYTES


def assign_argument_addresses(sizes: Sequence[int], has_pool: bool = False) -> list[int]:
    """Return a byte address for each argument, given their sizes in bytes.

    The first arguments get a segment each; further ones are placed after them, round-robin over the
    segments. A pool occupies segment 0 exclusively.
    """
    segments = SEGMENT_OFFSETS[1:] if has_pool else SEGMENT_OFFSETS
    ends = list(segments)
    addresses = []
    for argument, size in enumerate(sizes):
        segment = argument % len(segments)
        addresses.append(ends[segment])
        ends[segment] += -(-size // BYTES_IN_STICK) * BYTES_IN_STICK
        if ends[segment] > segments[segment] + SEGMENT_BYTES:
            raise InvalidOpSpecError(
                f"argument {argument} of {len(sizes)}",
                f"its {size} bytes do not fit: "
                f"{len(segments)} segments of {SEGMENT_BYTES} bytes hold a kernel's arguments; "
                "use fewer or smaller tensors in one kernel",
            )
    return addresses


def has_distinct_addresses(specs: Sequence[Spec]) -> bool:
    """Return whether no two arguments have the same address, and none is in the pool's segment."""
    owners: dict[int, int] = {}
    first_address = SEGMENT_BYTES if has_pool(specs) else 0
    return all(
        owners.setdefault(arg.allocation["hbm"], arg.arg_index) == arg.arg_index
        and arg.allocation["hbm"] >= first_address
        for arg in _arguments(specs)
    )


def has_own_segments(specs: Sequence[Spec]) -> bool:
    """Return whether every argument starts the segment of its index, after that of the pool."""
    first_segment = int(has_pool(specs))
    return all(
        arg.allocation["hbm"] == (first_segment + arg.arg_index) * SEGMENT_BYTES
        for arg in _arguments(specs)
    )


def has_pool(specs: Sequence[Spec]) -> bool:
    """Return whether an op accesses the pool."""
    return any("pool" in arg.allocation for op in _ops(specs) for arg in op.args)


def _ops(specs: Sequence[Spec]) -> list[OpSpec]:
    return [spec for spec in flat(specs) if isinstance(spec, OpSpec)]


def _arguments(specs: Sequence[Spec]) -> list[TensorArg]:
    return [arg for op in _ops(specs) for arg in op.args if "hbm" in arg.allocation]


def as_offsets(specs: Sequence[Spec]) -> list[Spec]:
    """Return the specs with addresses of arguments as offsets from the argument's first one."""
    starts: dict[int, int] = {}
    for arg in _arguments(specs):
        address = arg.allocation["hbm"]
        starts[arg.arg_index] = min(starts.get(arg.arg_index, address), address)

    def with_offset(arg: TensorArg) -> TensorArg:
        if "hbm" not in arg.allocation:
            return arg
        offset = arg.allocation["hbm"] - starts[arg.arg_index]
        return replace(arg, allocation={"hbm": offset})

    return [map_args(spec, with_offset) for spec in specs]


def with_argument_addresses(specs: Sequence[Spec]) -> list[Spec]:
    """Return the specs with absolute argument addresses.

    Addresses of the given specs are offsets from the start of their argument.
    """
    ends: dict[int, int] = {}
    for arg in _arguments(specs):
        ends[arg.arg_index] = max(
            ends.get(arg.arg_index, 0), arg.allocation["hbm"] + num_bytes(arg)
        )
    sizes = [ends.get(index, 0) for index in range(max(ends, default=-1) + 1)]
    bases = assign_argument_addresses(sizes, has_pool(specs))

    def with_address(arg: TensorArg) -> TensorArg:
        if "hbm" not in arg.allocation:
            return arg
        return replace(arg, allocation={"hbm": bases[arg.arg_index] + arg.allocation["hbm"]})

    return [map_args(spec, with_address) for spec in specs]


def num_bytes(arg: TensorArg) -> int:
    """Return the size of the tensor in device memory."""
    return math.prod(arg.device_size) * BYTES_IN_STICK // arg.device_size[-1]


def map_args(spec: AnySpec, function: Callable[[TensorArg], TensorArg]) -> AnySpec:
    """Return the spec with a function applied to each of its tensors."""
    return map_ops(spec, lambda op: replace(op, args=[function(arg) for arg in op.args]))


def map_ops(spec: AnySpec, function: Callable[[OpSpec], OpSpec]) -> AnySpec:
    """Return the spec with a function applied to each of its ops."""
    if isinstance(spec, LoopSpec):
        return replace(spec, body=[map_ops(inner, function) for inner in spec.body])
    return cast(AnySpec, function(spec)) if isinstance(spec, OpSpec) else spec
