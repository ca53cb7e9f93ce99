"""The events of a trace by their meaning: work of cards, and events of host threads.

Times are microseconds since the first event. Traces of other devices have the same categories, some
with older names, and lack some arguments; whatever is missing is None.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from torch_spyre.errors import TraceFileError
from torch_spyre.profiler.trace_file import (
    TraceFile,
    arguments_of,
    integer,
    number,
    read_trace_file,
)

_PS_PER_US = 1e6


class Clock(StrEnum):
    """The clock that determines when the work of cards begins."""

    HOST = "host"  # as in the file
    CARD = "card"  # on the card's own clock, which only traces of Spyre cards have


class WorkKind(StrEnum):
    KERNEL = "kernel"
    COMMUNICATION = "communication"
    COPY = "copy"
    FILL = "fill"


class HostKind(StrEnum):
    OP = "op"
    SCOPE = "scope"  # record_function
    MODULE = "module"
    FUNCTION = "function"  # of Python
    CALL = "call"  # of the driver


_WORK_CATEGORIES = {
    "kernel": WorkKind.KERNEL,
    "concurrent_kernel": WorkKind.KERNEL,
    "collective_comm": WorkKind.COMMUNICATION,
    "gpu_memcpy": WorkKind.COPY,
    "memcpy": WorkKind.COPY,
    "privateuse1_memcpy": WorkKind.COPY,
    "gpu_memset": WorkKind.FILL,
    "memset": WorkKind.FILL,
}
_HOST_CATEGORIES = {
    "cpu_op": HostKind.OP,
    "operator": HostKind.OP,
    "user_annotation": HostKind.SCOPE,
    "python_function": HostKind.FUNCTION,
    "runtime": HostKind.CALL,
    **{f"{prefix}_runtime": HostKind.CALL for prefix in ("cuda", "xpu", "mtia", "privateuse1")},
    **{f"{prefix}_driver": HostKind.CALL for prefix in ("cuda", "xpu", "privateuse1")},
}
_COMMUNICATION_NAMES = (
    "nccl", "rccl", "oneccl", "allreduce", "all_reduce", "allgather", "all_gather",
    "reducescatter", "reduce_scatter", "alltoall", "all_to_all", "sendrecv",
)  # fmt: skip
_MODULE_PREFIX = "nn.Module: "


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel, copy or fill of a card."""

    kind: WorkKind
    name: str
    card: int
    stream: int
    begin: float
    end: float
    arguments: Mapping[str, Any]
    call: int | None  # the index of the host event that launched it
    launch: float | None  # when the host began to launch it
    submitted: float | None  # when it had done so: the work is pending from then on

    @property
    def duration(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class HostEvent:
    """An op, scope, module, function or call of the driver on a thread of the host."""

    kind: HostKind
    name: str
    thread: tuple[int, int]
    begin: float
    end: float
    arguments: Mapping[str, Any]

    @property
    def duration(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True)
class Trace:
    """The content of a trace file."""

    path: Path
    clock: Clock
    work: Sequence[Work]
    host: Sequence[HostEvent]
    card_names: Mapping[int, str]
    peak_bytes: Mapping[int, int]
    header: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]  # as in the file
    origin: float  # the time in the file, in microseconds, at which the host's events have time 0
    # What is wrong with the file, for the user.
    notes: Sequence[str] = field(default_factory=list)

    @property
    def is_simulated(self) -> bool:
        return self.header.get("spyre_time_source") == "simulated"


def load_trace(path: Path, clock: Clock | None = None) -> Trace:
    """Read a file; raise `TraceFileError` if it is no trace or has no events with a duration.

    Without a clock, work is placed on the card's own if the whole trace has it.
    """
    return trace_of(read_trace_file(path), clock)


def trace_of(file: TraceFile, clock: Clock | None = None) -> Trace:
    """Return the trace that a file holds, as `load_trace` does."""
    reader = _Reader(file)
    if not reader.host and not reader.work:
        raise TraceFileError(file.path, "it has no events of ops, kernels or copies")
    has_card_clock = bool(reader.work) and all(
        number(arguments_of(event).get("device_begin_ps")) is not None for _, event in reader.work
    )
    if clock is Clock.CARD and not has_card_clock:
        raise TraceFileError(file.path, "it has no times on a card's clock; use --clock host")
    if clock is None:
        clock = Clock.CARD if has_card_clock else Clock.HOST
    return reader.trace(clock)


class _Reader:
    """Sorts the events of a file by category."""

    def __init__(self, file: TraceFile) -> None:
        self.file = file
        self.work: list[tuple[WorkKind, Mapping[str, Any]]] = []
        self.host: list[tuple[HostKind, Mapping[str, Any]]] = []
        self.num_damaged = 0
        for event in file.events:
            self._add(event)
        starts = [_begin(event) for _, event in (*self.work, *self.host)]
        self.origin = min(starts, default=0.0)

    def _add(self, event: Mapping[str, Any]) -> None:
        if event.get("ph") != "X":
            return
        category = str(event.get("cat", "")).lower()
        name = str(event.get("name", ""))
        work_kind, host_kind = _WORK_CATEGORIES.get(category), _HOST_CATEGORIES.get(category)
        if work_kind is None and host_kind is None:
            return
        duration = number(event.get("dur", 0))
        if number(event.get("ts")) is None or duration is None or duration < 0:
            self.num_damaged += 1
            return
        if work_kind is not None:
            if work_kind is WorkKind.KERNEL and _is_communication(name):
                work_kind = WorkKind.COMMUNICATION
            self.work.append((work_kind, event))
        elif host_kind is not None:
            if name.startswith(_MODULE_PREFIX):
                host_kind = HostKind.MODULE
            self.host.append((host_kind, event))

    def trace(self, clock: Clock) -> Trace:
        host = [self._host_event(kind, event) for kind, event in self.host]
        calls = {
            correlation: index
            for index, event in enumerate(host)
            if event.kind is HostKind.CALL
            and (correlation := integer(event.arguments.get("correlation"))) is not None
        }
        ops = {
            external: index
            for index, event in enumerate(host)
            if event.kind is not HostKind.CALL
            and (external := integer(event.arguments.get("External id"))) is not None
        }
        work = [self._work(kind, event, clock, calls, ops, host) for kind, event in self.work]
        work.sort(key=lambda entry: (entry.begin, entry.end))
        if work and clock is Clock.CARD:
            work = _shifted(work)
        notes = []
        if self.num_damaged:
            notes.append(f"{self.num_damaged} events without a valid time are left out")
        return Trace(
            path=self.file.path,
            clock=clock,
            work=work,
            host=host,
            card_names=_card_names(self.file.header),
            peak_bytes=_peak_bytes(self.file.events),
            header=self.file.header,
            events=self.file.events,
            origin=self.origin,
            notes=notes,
        )

    def _interval(self, event: Mapping[str, Any]) -> tuple[float, float]:
        """Return begin and end in whole nanoseconds, so that adjacent events stay adjacent."""
        begin = _begin(event) - self.origin
        return round(begin, 3), round(begin + (number(event.get("dur", 0)) or 0.0), 3)

    def _host_event(self, kind: HostKind, event: Mapping[str, Any]) -> HostEvent:
        name = str(event.get("name", "")).removeprefix(_MODULE_PREFIX)
        thread = (integer(event.get("pid")) or 0, integer(event.get("tid")) or 0)
        begin, end = self._interval(event)
        return HostEvent(kind, name, thread, begin, end, arguments_of(event))

    def _work(
        self,
        kind: WorkKind,
        event: Mapping[str, Any],
        clock: Clock,
        calls: Mapping[int, int],
        ops: Mapping[int, int],
        host: Sequence[HostEvent],
    ) -> Work:
        arguments = arguments_of(event)
        correlation = integer(arguments.get("correlation"))
        call = calls.get(correlation) if correlation is not None else None
        launch = host[call].begin if call is not None else None
        submitted = host[call].end if call is not None else None
        if call is None:
            # Without its call, work belongs to its op, but the time of its launch is unknown.
            external = integer(arguments.get("External id"))
            call = ops.get(external) if external is not None else None
        begin, end = self._interval(event)
        if clock is Clock.CARD:
            begin_ps = number(arguments.get("device_begin_ps")) or 0.0
            end_ps = begin_ps + (number(arguments.get("device_time_ps")) or 0.0)
            begin, end = begin_ps / _PS_PER_US, end_ps / _PS_PER_US
            launch = _microseconds(arguments.get("device_launch_ps"))
            submitted = _microseconds(arguments.get("device_submit_ps"))
        return Work(
            kind=kind,
            name=str(event.get("name", "")),
            card=_first_integer(arguments.get("device"), event.get("pid")),
            stream=_first_integer(arguments.get("stream"), event.get("tid")),
            begin=begin,
            end=end,
            arguments=arguments,
            call=call,
            launch=launch,
            submitted=submitted,
        )


def _begin(event: Mapping[str, Any]) -> float:
    return number(event.get("ts")) or 0.0


def _microseconds(picoseconds: object) -> float | None:
    value = number(picoseconds)
    return None if value is None else value / _PS_PER_US


def _is_communication(name: str) -> bool:
    return any(word in name.lower() for word in _COMMUNICATION_NAMES)


def _first_integer(*values: object) -> int:
    return next((known for value in values if (known := integer(value)) is not None), 0)


def _shifted(work: Sequence[Work]) -> list[Work]:
    """Return work on the cards' clocks with each clock set to 0 at its card's first launch."""
    starts: dict[int, float] = {}
    for entry in work:
        first = entry.begin if entry.launch is None else min(entry.begin, entry.launch)
        starts[entry.card] = min(starts.get(entry.card, first), first)
    return [_moved(entry, -starts[entry.card]) for entry in work]


def _moved(work: Work, offset: float) -> Work:
    return replace(
        work,
        begin=work.begin + offset,
        end=work.end + offset,
        launch=None if work.launch is None else work.launch + offset,
        submitted=None if work.submitted is None else work.submitted + offset,
    )


def _card_names(header: Mapping[str, Any]) -> dict[int, str]:
    entries = header.get("deviceProperties")
    return {
        index: str(entry.get("name", ""))
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and (index := integer(entry.get("id"))) is not None
    }


def _peak_bytes(events: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """Return the most bytes that were allocated on each card, from profiles with memory."""
    peaks: dict[int, int] = {}
    for event in events:
        if event.get("name") != "[memory]":
            continue
        arguments = arguments_of(event)
        card, total = integer(arguments.get("Device Id")), integer(arguments.get("Total Allocated"))
        if card is not None and card >= 0 and total is not None:
            peaks[card] = max(peaks.get(card, 0), total)
    return peaks
