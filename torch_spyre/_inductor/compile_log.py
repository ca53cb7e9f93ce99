"""Logs what the compiler does: passes and their decisions at DEBUG, each kernel at INFO.

The components are those of docs/logging.md. Everything is formatted only if it is logged; passes
themselves do not log what can be seen by comparing the bundle before and after them.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch_spyre._inductor.bundle import Bundle, Tensor, format_loops
from torch_spyre._inductor.loop_ir import LoopOp
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.origin import Origin
from torch_spyre.logging_config import get_logger

lowering = get_logger("torch_spyre.inductor.lowering")
layouts = get_logger("torch_spyre.inductor.stickify")
passes = get_logger("torch_spyre.inductor.passes")
codegen = get_logger("torch_spyre.inductor.codegen")
kernels = get_logger("torch_spyre.inductor")

# The names of passes that decide on layouts.
_LAYOUT_PASSES = ("layouts", "indirect access")
_MAX_LISTED = 4


@dataclass
class Compilation:
    """The times of the compilation of one kernel."""

    passes_seconds: float = 0.0
    cached_programs: int = 0
    compiled_programs: int = 0
    started: float = field(default_factory=time.perf_counter)

    @property
    def programs_seconds(self) -> float:
        return time.perf_counter() - self.started


def needs_lines() -> bool:
    """Return whether the lines of eager calls have to be found for logs."""
    return kernels.isEnabledFor(logging.INFO)


def log_loops(bundle: Bundle) -> None:
    """Log the loops that a bundle begins with."""
    if lowering.isEnabledFor(logging.DEBUG):
        lowering.debug("%s: loops\n%s", bundle.name, format_loops(bundle))


def logger_of(name: str) -> logging.Logger:
    """Return the logger of a pass."""
    return layouts if name in _LAYOUT_PASSES else passes


def log_pass(name: str, before: Bundle, after: Bundle, seconds: float) -> None:
    """Log the changes that a pass has made to a bundle."""
    logger = logger_of(name)
    changes = list(_changes(name, before, after))
    prefix = f"{before.name}: {name}"
    logger.debug("%s: %s in %.1f ms", prefix, _count(changes), seconds * 1000)
    for change in changes:
        logger.debug("%s: %s", prefix, change)


def _changes(name: str, before: Bundle, after: Bundle) -> Iterator[str]:
    yield from _changed_ops(before, after)
    yield from _changed_tensors(before.tensors, after)
    if after.groups != before.groups:
        for number, group in enumerate(after.groups):
            yield f"program {number}: {', '.join(map(_loop, group))}"
    # OpSpecs are listed when they are complete.
    if name == "work division":
        for number, specs in enumerate(after.stages):
            for position, spec in enumerate(specs, 1):
                yield f"program {number}, op {position}: {_spec(spec)}"
    elif after.stages != before.stages:
        yield ", ".join(_plural(len(specs), "op") for specs in after.stages)


def _changed_ops(before: Bundle, after: Bundle) -> Iterator[str]:
    old, new = ({op.name: op for op in bundle.ops} for bundle in (before, after))
    for name in old.keys() - new.keys():
        yield f"drop {_loop(old[name])}"
    for name, op in new.items():
        if name not in old:
            reads = ", ".join(dict.fromkeys(load.buffer for load in op.loads))
            yield f"insert a copy {_loop(op)}, which reads {reads or 'nothing'}"
        elif op != old[name]:
            yield f"change {_loop(op)}"


def _changed_tensors(before: Mapping[str, Tensor], after: Bundle) -> Iterator[str]:
    writers = {op.target: op for op in after.ops}
    for name, tensor in after.tensors.items():
        known = before.get(name)
        if known is not None and known.layout == tensor.layout:
            continue
        dtype = str(tensor.dtype).removeprefix("torch.")
        origin = writers[name].origin if name in writers else None
        yield (f"layout of {name}, {dtype}{list(tensor.size)}: {tensor.layout!r}{_suffix(origin)}")


def _loop(op: LoopOp) -> str:
    return f"{op.name}{_suffix(op.origin)}"


def _spec(spec: OpSpec) -> str:
    """Return an op, its loops with their splits, and the cores."""
    loops = " ".join(
        f"{symbol}<{size}" + (f"/{spec.splits[symbol]}" if spec.splits[symbol] > 1 else "")
        for symbol, size in spec.sizes.items()
    )
    cores = f" on {_plural(spec.cores, 'core')}"
    return f"{spec.op} over {loops or 'one point'}{cores}{_suffix(spec.origin)}"


def _suffix(origin: Origin | None) -> str:
    return f" [{origin}]" if origin is not None else ""


def _count(changes: Sequence[str]) -> str:
    return _plural(len(changes), "change") if changes else "no changes"


def _plural(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


# The compilation of a kernel whose programs are being loaded; only one thread compiles.
_current: list[Compilation] = []
# The seconds that the passes took, by the name of the bundle, until its kernel is loaded.
_seconds_of_passes: dict[str, float] = {}


def record_passes(name: str, seconds: float) -> None:
    """Record how long the passes took for a kernel that is about to be loaded."""
    _seconds_of_passes[name] = seconds


def rename(bundle: str, kernel: str) -> None:
    """Give the recorded time of a bundle to the kernel that is made of it."""
    if bundle in _seconds_of_passes:
        _seconds_of_passes[kernel] = _seconds_of_passes.pop(bundle)


@contextmanager
def compilation(name: str) -> Iterator[Compilation]:
    """Count the programs that are loaded in this block, for one kernel."""
    current = Compilation(_seconds_of_passes.pop(name, 0.0))
    _current.append(current)
    try:
        yield current
    finally:
        _current.pop()


def log_program(name: str, is_cached: bool, detail: str) -> None:
    """Count and log a program that was compiled, or found in the cache."""
    if _current:
        _current[-1].cached_programs += is_cached
        _current[-1].compiled_programs += not is_cached
    codegen.debug("%s: %s, %s", name, "from the cache" if is_cached else "compiled", detail)


def log_kernel(
    name: str,
    stages: Sequence[Sequence[OpSpec]],
    current: Compilation,
    device_picoseconds: int,
) -> None:
    """Log a kernel that is ready to run: one line."""
    if not kernels.isEnabledFor(logging.INFO):
        return
    specs = [spec for specs in stages for spec in specs]
    cores = max((spec.cores for spec in specs), default=0)
    programs = current.cached_programs + current.compiled_programs
    kernels.info(
        "kernel %s: %s, %s (%d cached), %s, %.2f us modelled, "
        "compiled in %.0f ms (passes %.0f ms); %s",
        name,
        _plural(len(specs), "op"),
        _plural(programs, "launch", "launches"),
        current.cached_programs,
        _plural(cores, "core"),
        device_picoseconds / 1e6,
        (current.programs_seconds + current.passes_seconds) * 1000,
        current.passes_seconds * 1000,
        _lines(origin for spec in specs for origin in spec.origins),
    )


def _lines(origins: Iterable[Origin | None]) -> str:
    """Return the ops and lines that a kernel comes from, each once."""
    calls: dict[str, None] = {}
    for origin in origins:
        if origin is not None:
            calls.setdefault(str(origin))
    listed = ", ".join(list(calls)[:_MAX_LISTED])
    more = f" and {len(calls) - _MAX_LISTED} more" if len(calls) > _MAX_LISTED else ""
    return f"{listed}{more}" if calls else "no known line"
