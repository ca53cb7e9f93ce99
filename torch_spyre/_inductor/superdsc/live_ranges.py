"""Allocates memory to the intermediate tensors of a kernel by their live ranges."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch_spyre._inductor.op_spec import OpSpec, Spec, TensorArg, flat
from torch_spyre._inductor.superdsc.sdsc_spec import MemorySpace
from torch_spyre._inductor.superdsc.segments import map_args


@dataclass(frozen=True)
class LiveRange:
    """The bytes of a tensor, and the first and last step that access it."""

    start: int
    size: int
    first: int
    last: int

    @property
    def end(self) -> int:
        return self.start + self.size

    def overlaps_any(self, ranges: Iterable["LiveRange"]) -> bool:
        """Return whether another tensor has bytes in common with this one while both are live."""
        return any(
            self.first <= other.last
            and other.first <= self.last
            and self.start < other.end
            and other.start < self.end
            for other in ranges
        )


def live_ranges(
    steps: Sequence[Sequence[Spec]],
    space: MemorySpace,
    num_bytes: Callable[[OpSpec, TensorArg], int],
) -> dict[str, LiveRange]:
    """Return the live range of every named tensor in a memory, in steps.

    The specs of a step, and of a loop, access their tensors at the same time.
    """
    ranges: dict[str, LiveRange] = {}
    for time, specs in enumerate(steps):
        for op in flat(specs):
            if not isinstance(op, OpSpec):
                continue
            for arg in op.args:
                if space in arg.allocation and arg.name is not None:
                    start, size = arg.allocation[space], num_bytes(op, arg)
                    live = ranges.get(arg.name, LiveRange(start, size, time, time))
                    ranges[arg.name] = replace(live, size=max(live.size, size), last=time)
    return ranges


def without_overlaps(ranges: Mapping[str, LiveRange]) -> dict[str, LiveRange]:
    """Return the ranges at addresses at which no two live tensors overlap.

    Addresses are preserved if they do not overlap already. Otherwise each tensor gets the lowest
    address that is free while it is live.
    """
    given = list(ranges.values())
    if not any(live.overlaps_any(given[:position]) for position, live in enumerate(given)):
        return dict(ranges)
    allocated: dict[str, LiveRange] = {}
    for name, live in ranges.items():
        starts = {0, *(other.end for other in allocated.values())}
        candidates = (replace(live, start=start) for start in sorted(starts))
        allocated[name] = next(
            candidate for candidate in candidates if not candidate.overlaps_any(allocated.values())
        )
    return allocated


def with_starts(
    specs: Sequence[Spec], space: MemorySpace, ranges: Mapping[str, LiveRange]
) -> list[Spec]:
    """Return the specs with the start addresses of the ranges."""

    def with_start(arg: TensorArg) -> TensorArg:
        if space not in arg.allocation or arg.name is None:
            return arg
        return replace(arg, allocation={space: ranges[arg.name].start})

    return [map_args(spec, with_start) for spec in specs]
