"""The pool: memory of tensors that only the kernel sees. A kernel tells them apart by their names,
a bundle by where they are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_spyre._inductor.op_spec import OpSpec, Spec, TensorArg, flat
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.superdsc.segments import SEGMENT_BYTES, bytes_of, with_args
from torch_spyre.errors import BundleError


@dataclass(frozen=True)
class _Use:
    """Of one tensor: its bytes, and the first and the last spec that touch it."""

    start: int
    size: int
    first: int
    last: int

    @property
    def end(self) -> int:
        return self.start + self.size

    def meets(self, others: Sequence["_Use"]) -> bool:
        """Is any of the others at one place with it at one time?"""
        return any(
            self.first <= other.last
            and other.first <= self.last
            and self.start < other.end
            and other.start < self.end
            for other in others
        )


def with_pool_offsets(specs: Sequence[Spec]) -> list[Spec]:
    """Specs whose pool tensors have places of their own while they are in use.

    The compiler's do not: there all tensors have names, and lie at 0.
    """
    uses = _uses(specs)
    found = list(uses.values())
    if not any(use.meets(found[:position]) for position, use in enumerate(found)):
        return list(specs)
    placed: dict[str, _Use] = {}
    for name, use in uses.items():
        ends = {0, *(other.end for other in placed.values())}
        tried = (replace(use, start=start) for start in sorted(ends))
        placed[name] = next(each for each in tried if not each.meets(list(placed.values())))
        if placed[name].end > SEGMENT_BYTES:
            raise InvalidOpSpecError(
                f"tensors that only the kernel sees need {placed[name].end} bytes at once, and "
                f"the pool has {SEGMENT_BYTES}; use fewer or smaller tensors in one kernel"
            )

    def moved(arg: TensorArg) -> TensorArg:
        if "pool" not in arg.allocation or arg.name is None:
            return arg
        return replace(arg, allocation={"pool": placed[arg.name].start})

    return [with_args(spec, moved) for spec in specs]


def _uses(specs: Sequence[Spec]) -> dict[str, _Use]:
    """Of every named tensor in the pool. All of a loop happens at one time: it repeats."""
    uses: dict[str, _Use] = {}
    for time, spec in enumerate(specs):
        for op in flat([spec]):
            for arg in op.args if isinstance(op, OpSpec) else ():
                if "pool" in arg.allocation and arg.name is not None:
                    start, size = arg.allocation["pool"], bytes_of(arg)
                    known = uses.get(arg.name, _Use(start, size, time, time))
                    uses[arg.name] = replace(known, size=max(known.size, size), last=time)
    return uses


def with_pool_names(specs: Sequence[OpSpec], file: str) -> list[OpSpec]:
    """What one op leaves in the pool and another reads has one name in both."""
    memory: list[tuple[int, int, str]] = []
    named = []
    for position, spec in enumerate(specs):
        args = []
        for arg in spec.args:
            if "pool" in arg.allocation:
                start = arg.allocation["pool"]
                end = start + bytes_of(arg)
                name = _name_of(arg, position, start, end, memory, file)
                if not arg.is_input:
                    memory = [each for each in memory if each[1] <= start or end <= each[0]]
                    memory.append((start, end, name))
                arg = replace(arg, name=name)
            args.append(arg)
        named.append(replace(spec, args=args))
    return named


def _name_of(
    arg: TensorArg,
    position: int,
    start: int,
    end: int,
    memory: Sequence[tuple[int, int, str]],
    file: str,
) -> str:
    there = [each for each in memory if start < each[1] and each[0] < end]
    exact = [name for first, last, name in there if first == start and end <= last]
    if not arg.is_input:
        # It may be a further part of what is there.
        same = [name for first, last, name in there if (first, last) == (start, end)]
        return arg.name or (same[0] if same else f"at{start}_{position}")
    if len(there) > 1 or len(exact) < len(there) or (arg.name and there and arg.name not in exact):
        names = ", ".join(sorted(name for _, _, name in there))
        raise BundleError(
            file,
            "",
            f"op {position} reads {arg.name or 'a tensor'} from bytes {start} to {end} of the "
            f"pool, where there is {names}",
        )
    return arg.name or (exact[0] if exact else f"at{start}_{position}")


def check_arguments(specs: Sequence[OpSpec], file: str) -> None:
    """An argument is one tensor: all ops that touch it must take it to begin at one address."""
    begins: dict[int, int] = {}
    for position, spec in enumerate(specs):
        for arg in spec.args:
            if "hbm" not in arg.allocation:
                continue
            start = arg.allocation["hbm"]
            known = begins.setdefault(arg.arg_index, start)
            if known != start:
                raise BundleError(
                    file,
                    "",
                    f"op {position} takes argument {arg.arg_index} to begin at {start}, and an op "
                    f"before it at {known}",
                )
