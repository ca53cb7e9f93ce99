"""Where kernel arguments lie in the address space that baked addresses are written in."""

from collections.abc import Sequence

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
