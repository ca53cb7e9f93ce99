"""Allocates the pool, the memory of a kernel's intermediate tensors.

OpSpecs identify these tensors by name, bundles by address: writing assigns addresses, reading
assigns names.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_spyre._inductor.op_spec import OpSpec, Spec, TensorArg
from torch_spyre._inductor.superdsc.live_ranges import live_ranges, with_starts, without_overlaps
from torch_spyre._inductor.superdsc.segments import SEGMENT_BYTES, num_bytes
from torch_spyre.errors import BundleError, InvalidOpSpecError


def with_pool_offsets(specs: Sequence[Spec]) -> list[Spec]:
    """Return the specs with pool offsets at which no two live tensors overlap."""
    ranges = without_overlaps(live_ranges(specs, "pool", lambda _, arg: num_bytes(arg)))
    needed = max((live.end for live in ranges.values()), default=0)
    if needed > SEGMENT_BYTES:
        raise InvalidOpSpecError(
            "kernel",
            f"its intermediate tensors need {needed} bytes at once, but the pool "
            f"has {SEGMENT_BYTES}; use fewer or smaller tensors in one kernel",
        )
    return with_starts(specs, "pool", ranges)


@dataclass(frozen=True)
class _Contents:
    """A tensor that was written to bytes `start` to `end` of the pool."""

    start: int
    end: int
    name: str


def with_pool_names(specs: Sequence[OpSpec], file: str) -> list[OpSpec]:
    """Return the specs with one name for each pool tensor in all ops that access it."""
    memory: list[_Contents] = []
    named = []
    for position, spec in enumerate(specs):
        args = []
        for arg in spec.args:
            if "pool" in arg.allocation:
                start = arg.allocation["pool"]
                end = start + num_bytes(arg)
                name = _pool_name(arg, position, start, end, memory, file)
                if not arg.is_input:
                    memory = [old for old in memory if old.end <= start or end <= old.start]
                    memory.append(_Contents(start, end, name))
                arg = replace(arg, name=name)
            args.append(arg)
        named.append(replace(spec, args=args))
    return named


def _pool_name(
    arg: TensorArg,
    position: int,
    start: int,
    end: int,
    memory: Sequence[_Contents],
    file: str,
) -> str:
    """Return the name of the tensor that an op accesses in these bytes of the pool."""
    overlapping = [old for old in memory if start < old.end and old.start < end]
    if not arg.is_input:
        # The op may write another slice of a tensor that is there already.
        same = [old.name for old in overlapping if (old.start, old.end) == (start, end)]
        return arg.name or (same[0] if same else f"at{start}_{position}")
    readable = [old.name for old in overlapping if old.start == start and end <= old.end]
    is_ambiguous = len(overlapping) > 1 or len(readable) < len(overlapping)
    if is_ambiguous or (arg.name and overlapping and arg.name not in readable):
        names = ", ".join(sorted(old.name for old in overlapping))
        raise BundleError(
            file,
            "",
            f"op {position} reads {arg.name or 'a tensor'} from bytes {start} to {end} of the "
            f"pool, which hold {names}",
        )
    return arg.name or (readable[0] if readable else f"at{start}_{position}")


def check_argument_addresses(specs: Sequence[OpSpec], file: str) -> None:
    """Check that all ops access an argument at the same start address."""
    addresses: dict[int, int] = {}
    for position, spec in enumerate(specs):
        for arg in spec.args:
            if "hbm" not in arg.allocation:
                continue
            start = arg.allocation["hbm"]
            expected = addresses.setdefault(arg.arg_index, start)
            if start != expected:
                raise BundleError(
                    file,
                    "",
                    f"op {position} has argument {arg.arg_index} at address {start}, but an "
                    f"earlier op has it at {expected}",
                )
