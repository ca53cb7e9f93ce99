"""Which ops, scopes and modules of the host the work of the cards belongs to."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from torch_spyre.profiler.trace import HostEvent, HostKind, Trace, Work

NO_OP = "(no op)"
_ROUNDING = 2e-3  # microseconds: what the times of a file may differ by
# Regions that PyTorch and this package put around each call of a graph and each launch.
_STEP = "ProfilerStep"
_GRAPH_CALL = "## Call CompiledFxGraph"
_INTERNAL_SCOPES = ("launch_kernel:", _GRAPH_CALL, "PyTorch Profiler")


@dataclass(frozen=True)
class OwnerRow:
    """The time of an op, scope or module, in microseconds.

    `self` is without that of the same kind of events within it.
    """

    name: str
    calls: int
    host_self: float
    host_total: float
    device_self: float
    device_total: float


class Ownership:
    """The nesting of the events of each thread, and the work that they launched."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.parents = _parents(trace.host)

    def path(self, work: Work) -> list[HostEvent]:
        """Return the host events around a launch, the outermost first."""
        path, index = [], work.call
        while index is not None:
            path.append(self.trace.host[index])
            index = self.parents[index]
        return path[::-1]

    def ops(self) -> list[OwnerRow]:
        return self._rows(is_op, with_unowned=True)

    def scopes(self) -> list[OwnerRow]:
        return self._rows(is_user_scope)

    def modules(self) -> list[OwnerRow]:
        return self._rows(lambda event: event.kind is HostKind.MODULE)

    def _rows(
        self, selects: Callable[[HostEvent], bool], with_unowned: bool = False
    ) -> list[OwnerRow]:
        sums: dict[str, _Sums] = defaultdict(_Sums)
        for index, event in enumerate(self.trace.host):
            if not selects(event):
                continue
            outer = next(filter(selects, self._enclosing(index)), None)
            entry = sums[event.name]
            entry.calls += 1
            entry.host_self += event.duration
            if outer is not None:
                sums[outer.name].host_self -= event.duration
            if all(other.name != event.name for other in filter(selects, self._enclosing(index))):
                entry.host_total += event.duration
        for work in self.trace.work:
            owners = [event.name for event in self.path(work) if selects(event)]
            if not owners and with_unowned:
                owners = [NO_OP]
            if owners:
                sums[owners[-1]].device_self += work.duration
            for name in set(owners):
                sums[name].device_total += work.duration
        rows = [entry.row(name) for name, entry in sums.items()]
        return sorted(rows, key=lambda row: (-row.device_self, -row.host_self, row.name))

    def _enclosing(self, index: int) -> Iterator[HostEvent]:
        parent = self.parents[index]
        while parent is not None:
            yield self.trace.host[parent]
            parent = self.parents[parent]


def is_op(event: HostEvent) -> bool:
    return event.kind is HostKind.OP and not event.name.startswith(_GRAPH_CALL)


def is_user_scope(event: HostEvent) -> bool:
    """Return whether an event is a `record_function` of the user's program."""
    return event.kind is HostKind.SCOPE and not event.name.startswith(_INTERNAL_SCOPES)


@dataclass
class _Sums:
    calls: int = 0
    host_self: float = 0.0
    host_total: float = 0.0
    device_self: float = 0.0
    device_total: float = 0.0

    def row(self, name: str) -> OwnerRow:
        return OwnerRow(
            name,
            self.calls,
            self.host_self,
            self.host_total,
            self.device_self,
            self.device_total,
        )


def _parents(host: Sequence[HostEvent]) -> list[int | None]:
    """Return the index of the event that encloses each event on its thread, if one does."""
    threads: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, event in enumerate(host):
        threads[event.thread].append(index)
    parents: list[int | None] = [None] * len(host)
    for indices in threads.values():
        # Of events with the same interval, scopes enclose ops, and ops enclose calls.
        indices.sort(key=lambda i: (host[i].begin, -host[i].end, _DEPTHS[host[i].kind]))
        open_events: list[int] = []
        for index in indices:
            while open_events and host[open_events[-1]].end <= host[index].begin:
                open_events.pop()
            end = host[index].end - _ROUNDING
            parents[index] = next((i for i in reversed(open_events) if host[i].end >= end), None)
            open_events.append(index)
    return parents


_DEPTHS = {
    HostKind.FUNCTION: 0,
    HostKind.MODULE: 1,
    HostKind.SCOPE: 2,
    HostKind.OP: 3,
    HostKind.CALL: 4,
}


@dataclass
class Node:
    """A node of the tree of device time by scopes, modules, ops and kernels."""

    name: str
    group: str
    time: float = 0.0
    children: dict[str, "Node"] = field(default_factory=dict)

    def child(self, name: str, group: str) -> "Node":
        return self.children.setdefault(name, Node(name, group))


def device_time_tree(ownership: Ownership) -> Node:
    """Return the device time by the scopes, modules and ops around each launch.

    The steps of a profiler with a schedule are one scope.
    """
    root = Node("all", "")
    for work in ownership.trace.work:
        node = root
        node.time += work.duration
        for event in ownership.path(work):
            if event.kind is HostKind.MODULE or is_op(event) or is_user_scope(event):
                name = _STEP if event.name.startswith(f"{_STEP}#") else event.name
                node = node.child(name, event.kind.value)
                node.time += work.duration
        node = node.child(work.name, work.kind.value)
        node.time += work.duration
    return root
