"""The cycles of the units of a card during a kernel: busy, stalled or idle.

The units work in parallel, so that the slowest determines the time, except for work that does not
overlap (see docs/timing.md). While another unit determines the time, a unit that has work in the
kernel waits: for its input, if the other unit's work comes before its own, or for its output to be
taken, if that comes after it. It is idle during the fixed costs of steps and loops, and if it has
no work in the kernel.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

from torch_spyre.timing import ProgramRecord, Step, StepSpan, Timing, Unit
from torch_spyre.timing.exact import apportion, total

UNITS: tuple[Unit, ...] = ("pt", "sfp", "lx", "ring", "ddr")
# The order in which the data of one instruction pass the units: what is read from memory goes
# over the ring to scratchpads and compute units, what is written takes the opposite way.
_READ, _DELIVERED_READ, _LX, _PT, _SFP, _DELIVERED, _WRITTEN = range(7)


@dataclass(frozen=True)
class UnitCycles:
    """The cycles of one unit during a kernel; they add up to those of the kernel."""

    busy: int
    stalled_on_input: int
    stalled_on_output: int
    idle: int

    @property
    def total(self) -> int:
        return self.busy + self.stalled_on_input + self.stalled_on_output + self.idle

    def with_busy(self, busy: int) -> "UnitCycles":
        """Return the cycles of a core that works less: idle while the busiest core works."""
        if not busy:
            return UnitCycles(0, 0, 0, self.total)
        return UnitCycles(
            busy, self.stalled_on_input, self.stalled_on_output, self.idle + self.busy - busy
        )


def unit_cycles(
    record: ProgramRecord, timing: Timing, is_parallel: bool = True
) -> dict[Unit, UnitCycles]:
    """Return the cycles of each unit of a program.

    `is_parallel` says that the units overlap as in the card's own model; the pipelines of the
    public interpreter overlap less, and all time of other units is waited for.
    """
    work = {unit: list(_work(unit, record.steps, timing.steps)) for unit in UNITS}
    waits = _Waits(timing, is_parallel)
    return {unit: _cycles(unit, work, waits, timing) for unit in UNITS}


class _Waits:
    """How long units wait for each other, in ps."""

    def __init__(self, timing: Timing, is_parallel: bool) -> None:
        self.busy: dict[str, int] = asdict(timing.busy)
        self._time_ps = timing.time_ps
        self._is_parallel = is_parallel
        self._exposed = {
            "pt": timing.split_shape_ps,
            "ddr": timing.restick_extra_ps,
            "ring": timing.ring_exposed_ps + timing.relayout_ps,
        }
        overlapped = {unit: self._overlapped(unit) for unit in UNITS}
        self._bottleneck = max(UNITS, key=lambda unit: overlapped[unit])

    def _overlapped(self, unit: str) -> int:
        return max(0, self.busy[unit] - self._exposed.get(unit, 0))

    def of(self, unit: Unit) -> dict[Unit, int]:
        """Return the time that a unit waits for each other unit."""
        if not self._is_parallel:
            return {other: self.busy[other] for other in UNITS if other != unit}
        waits = {other: self._exposed.get(other, 0) for other in UNITS if other != unit}
        if unit != self._bottleneck:
            waits[self._bottleneck] += self._overlapped(self._bottleneck) - self._overlapped(unit)
        return waits


def _cycles(
    unit: Unit,
    work: Mapping[Unit, Sequence["_Work"]],
    waits: _Waits,
    timing: Timing,
) -> UnitCycles:
    busy = min(waits.busy[unit], timing.time_ps)
    if not busy:
        return UnitCycles(0, 0, 0, timing.cycles)
    stalled_in = stalled_out = Fraction(0)
    for other, wait in waits.of(unit).items():
        share = _share_before(work[other], work[unit])
        stalled_in += wait * share
        stalled_out += wait * (1 - share)
    # Rounding to picoseconds must not make the parts exceed the whole.
    stalled, available = stalled_in + stalled_out, Fraction(timing.time_ps - busy)
    if stalled > available:
        stalled_in, stalled_out = (part * available / stalled for part in (stalled_in, stalled_out))
    idle = available - stalled_in - stalled_out
    return UnitCycles(*apportion(timing.cycles, [Fraction(busy), stalled_in, stalled_out, idle]))


@dataclass(frozen=True)
class _Work:
    """Work of a unit, in ps, and its place in the program: the step, and the order within it."""

    place: tuple[int, int]
    amount: Fraction


def _work(unit: Unit, steps: Sequence[Step], spans: Sequence[StepSpan]) -> Iterator[_Work]:
    """Yield the work of a unit in the order of the program."""
    for number, (step, span) in enumerate(zip(steps, spans, strict=True)):
        amount = Fraction(getattr(span.busy, unit))
        for order, share in _places(unit, step):
            if amount * share:
                yield _Work((number, order), amount * share)


def _places(unit: Unit, step: Step) -> tuple[tuple[int, Fraction], ...]:
    """Return where in the order of a step a unit works, and which share of its work is there."""
    match unit:
        case "ddr":
            moved = sum(move.bytes for move in step.ddr)
            read = sum(move.bytes for move in step.ddr if move.direction == "read")
            share = Fraction(read, moved) if moved else Fraction(1)
            return (_READ, share), (_WRITTEN, 1 - share)
        case "ring":
            is_multicast = any(move.multicast for move in step.ddr)
            return ((_DELIVERED_READ if is_multicast else _DELIVERED, Fraction(1)),)
    return (({"lx": _LX, "pt": _PT, "sfp": _SFP}[unit], Fraction(1)),)


def _share_before(other_work: Sequence[_Work], own_work: Sequence[_Work]) -> Fraction:
    """Return the share of another unit's work that comes before the work of a unit.

    It is the share of all pairs of their work, in proportion to the product of the amounts.
    """
    before = earlier = Fraction(0)
    remaining = deque(other_work)
    for work in own_work:
        while remaining and remaining[0].place < work.place:
            earlier += remaining.popleft().amount
        before += earlier * work.amount
    pairs = total(work.amount for work in other_work) * total(work.amount for work in own_work)
    return before / pairs if pairs else Fraction(1)
