"""Allocates the pool, the memory of a kernel's intermediate tensors.

OpSpecs identify these tensors by name, bundles by address: writing assigns addresses. Reading
assigns names: see `pool_names`.
"""

from collections.abc import Sequence

from torch_spyre._inductor.op_spec import Spec
from torch_spyre._inductor.superdsc.live_ranges import live_ranges, with_starts, without_overlaps
from torch_spyre._inductor.superdsc.programs import split_into_programs
from torch_spyre._inductor.superdsc.segments import SEGMENT_BYTES, num_bytes
from torch_spyre.errors import InvalidOpSpecError


def with_pool_offsets(specs: Sequence[Spec]) -> list[Spec]:
    """Return the specs with pool offsets at which no two live tensors overlap.

    A tensor is live while a program runs that accesses it: cores reach the ops at different times.
    """
    programs = split_into_programs(specs)
    ranges = without_overlaps(live_ranges(programs, "pool", lambda _, arg: num_bytes(arg)))
    needed = max((live.end for live in ranges.values()), default=0)
    if needed > SEGMENT_BYTES:
        raise InvalidOpSpecError(
            "kernel",
            f"its intermediate tensors need {needed} bytes at once, but the pool "
            f"has {SEGMENT_BYTES}; use fewer or smaller tensors in one kernel",
        )
    return with_starts(specs, "pool", ranges)
