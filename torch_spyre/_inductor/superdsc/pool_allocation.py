"""Allocates the pool, the memory of a kernel's intermediate tensors.

OpSpecs identify these tensors by name, bundles by address: writing assigns addresses, reading
assigns names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from torch_spyre._inductor.op_spec import OpSpec, Spec, TensorArg, flat
from torch_spyre._inductor.superdsc.segments import SEGMENT_BYTES, map_args, num_bytes
from torch_spyre.errors import BundleError, InvalidOpSpecError


@dataclass(frozen=True)
class _LiveRange:
    """The bytes of a tensor, and the first and last spec that access it."""

    start: int
    size: int
    first: int
    last: int

    @property
    def end(self) -> int:
        return self.start + self.size

    def overlaps_any(self, ranges: Iterable["_LiveRange"]) -> bool:
        """Return whether another tensor has bytes in common with this one while both are live."""
        return any(
            self.first <= other.last
            and other.first <= self.last
            and self.start < other.end
            and other.start < self.end
            for other in ranges
        )


def with_pool_offsets(specs: Sequence[Spec]) -> list[Spec]:
    """Return the specs with pool offsets at which no two live tensors overlap.

    Offsets that do not overlap already are preserved. Those of the compiler do: its tensors have
    names and all lie at offset 0.
    """
    live_ranges = _live_ranges(specs)
    ranges = list(live_ranges.values())
    if not any(live.overlaps_any(ranges[:position]) for position, live in enumerate(ranges)):
        return list(specs)
    allocated: dict[str, _LiveRange] = {}
    for name, live in live_ranges.items():
        starts = {0, *(other.end for other in allocated.values())}
        candidates = (replace(live, start=start) for start in sorted(starts))
        allocated[name] = next(
            candidate for candidate in candidates if not candidate.overlaps_any(allocated.values())
        )
        if allocated[name].end > SEGMENT_BYTES:
            raise InvalidOpSpecError(
                "kernel",
                f"its intermediate tensors need {allocated[name].end} bytes at once, but the pool "
                f"has {SEGMENT_BYTES}; use fewer or smaller tensors in one kernel",
            )

    def with_offset(arg: TensorArg) -> TensorArg:
        if "pool" not in arg.allocation or arg.name is None:
            return arg
        return replace(arg, allocation={"pool": allocated[arg.name].start})

    return [map_args(spec, with_offset) for spec in specs]


def _live_ranges(specs: Sequence[Spec]) -> dict[str, _LiveRange]:
    """Return the live range of every named pool tensor; those in a loop span the whole loop."""
    live_ranges: dict[str, _LiveRange] = {}
    for time, spec in enumerate(specs):
        for op in flat([spec]):
            for arg in op.args if isinstance(op, OpSpec) else ():
                if "pool" in arg.allocation and arg.name is not None:
                    start, size = arg.allocation["pool"], num_bytes(arg)
                    live = live_ranges.get(arg.name, _LiveRange(start, size, time, time))
                    live_ranges[arg.name] = replace(live, size=max(live.size, size), last=time)
    return live_ranges


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
