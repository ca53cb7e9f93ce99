"""Where kernel arguments lie in the address space that baked addresses are written in."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from torch_spyre._inductor.op_spec import LoopSpec, OpSpec, Spec, TensorArg, UnimplementedOp, flat
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre.constants import BYTES_IN_STICK

SEGMENT_BYTES = 0x4_0000_0000
ARGUMENT_SEGMENTS = 7
SEGMENT_OFFSETS = tuple(segment * SEGMENT_BYTES for segment in range(ARGUMENT_SEGMENTS))
# The eighth segment holds programs; no tensor may reach it.
PROGRAM_SEGMENT = ARGUMENT_SEGMENTS * SEGMENT_BYTES


def assign_argument_addresses(sizes: Sequence[int], has_pool: bool = False) -> list[int]:
    """A byte address for each argument of these sizes.

    As many arguments as there are segments get one each; further ones follow within the segments,
    in turn. A pool takes segment 0 for itself.
    """
    segments = SEGMENT_OFFSETS[1:] if has_pool else SEGMENT_OFFSETS
    ends = list(segments)
    addresses = []
    for argument, size in enumerate(sizes):
        slot = argument % len(segments)
        addresses.append(ends[slot])
        ends[slot] += -(-size // BYTES_IN_STICK) * BYTES_IN_STICK
        if ends[slot] > segments[slot] + SEGMENT_BYTES:
            raise InvalidOpSpecError(
                f"argument {argument} of {len(sizes)} has {size} bytes and does not fit: "
                f"{len(segments)} segments of {SEGMENT_BYTES} bytes hold a kernel's arguments; "
                "use fewer or smaller tensors in one kernel"
            )
    return addresses


def have_addresses(specs: Sequence[Spec]) -> bool:
    """Do different arguments have different places?"""
    owners: dict[int, int] = {}
    return all(
        owners.setdefault(arg.allocation["hbm"], arg.arg_index) == arg.arg_index
        for spec in flat(specs)
        if isinstance(spec, OpSpec)
        for arg in spec.args
        if "hbm" in arg.allocation
    )


def with_argument_addresses(specs: Sequence[Spec]) -> list[Spec]:
    """Specs whose arguments lie at their distance from their buffer's start, each buffer at an
    address of its own."""
    ops = [spec for spec in flat(specs) if isinstance(spec, OpSpec)]
    ends: dict[int, int] = {}
    for arg in (arg for spec in ops for arg in spec.args if "hbm" in arg.allocation):
        ends[arg.arg_index] = max(ends.get(arg.arg_index, 0), arg.allocation["hbm"] + bytes_of(arg))
    has_pool = any("pool" in arg.allocation for spec in ops for arg in spec.args)
    sizes = [ends.get(index, 0) for index in range(max(ends, default=-1) + 1)]
    bases = assign_argument_addresses(sizes, has_pool)

    def placed(arg: TensorArg) -> TensorArg:
        if "hbm" not in arg.allocation:
            return arg
        return replace(arg, allocation={"hbm": bases[arg.arg_index] + arg.allocation["hbm"]})

    return [with_args(spec, placed) for spec in specs]


def bytes_of(arg: TensorArg) -> int:
    """What the tensor takes in device memory."""
    return math.prod(arg.device_size) * BYTES_IN_STICK // arg.device_size[-1]


def with_args(spec: Spec, placed: Callable[[TensorArg], TensorArg]) -> Spec:
    """The spec with each of its tensors replaced."""
    if isinstance(spec, UnimplementedOp):
        return spec
    if isinstance(spec, LoopSpec):
        return replace(spec, body=[with_args(each, placed) for each in spec.body])
    return replace(spec, args=[placed(arg) for arg in spec.args])
