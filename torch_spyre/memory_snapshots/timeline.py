"""The lifetimes of allocations, from the events of a card and what is live at the end."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_spyre.memory_snapshots.snapshot import Block, CardMemory, Stack


@dataclass(frozen=True)
class Lifetime:
    """An allocation, live after event `start` and until event `end`.

    `start` is -1 for one that is older than the history, `end` the number of events for one that
    was live at the end.
    """

    address: int
    size: int
    stack: Stack
    start: int
    end: int


@dataclass(frozen=True)
class Timeline:
    """The lifetimes of the allocations of a card, oldest first, and the bytes after each event.

    `live_bytes` begins with the bytes before the first event.
    """

    num_events: int
    lifetimes: tuple[Lifetime, ...]
    live_bytes: tuple[int, ...]

    @property
    def peak(self) -> int:
        """Return the position in `live_bytes` of the first maximum."""
        return max(range(len(self.live_bytes)), key=lambda position: self.live_bytes[position])

    @property
    def peak_bytes(self) -> int:
        return self.live_bytes[self.peak]

    def live_at(self, position: int) -> list[Lifetime]:
        """Return the allocations that are live at a position of `live_bytes`."""
        event = position - 1
        return [entry for entry in self.lifetimes if entry.start <= event < entry.end]


def timeline(card: CardMemory) -> Timeline:
    """Return the timeline of a card.

    Memory is live from its allocation until its release has completed; where the history lacks
    that event, until its release was requested or the address is allocated again.
    """
    live: dict[int, Lifetime] = {}
    ended: list[Lifetime] = []
    completed = {event.address for event in card.events if event.action == "free_completed"}
    count = len(card.events)
    for index, event in enumerate(card.events):
        known = live.get(event.address)
        if event.action == "alloc":
            if known is not None:
                ended.append(replace(live.pop(event.address), end=index))
            live[event.address] = Lifetime(event.address, event.size, event.stack, index, count)
        elif event.action == "free_completed" or (
            event.action == "free_requested" and event.address not in completed
        ):
            older = known or Lifetime(event.address, event.size, (), -1, count)
            live.pop(event.address, None)
            ended.append(replace(older, end=index))
    lifetimes = [*ended, *live.values(), *_unrecorded(card.blocks, live, count)]
    ordered = tuple(sorted(lifetimes, key=lambda entry: (entry.start, entry.address)))
    return Timeline(count, ordered, _live_bytes(ordered, count))


def _unrecorded(blocks: Sequence[Block], live: dict[int, Lifetime], count: int) -> list[Lifetime]:
    """Return the blocks that were live during all events."""
    return [
        Lifetime(block.address, block.size, block.stack, -1, count)
        for block in blocks
        if block.address not in live
    ]


def _live_bytes(lifetimes: Sequence[Lifetime], count: int) -> tuple[int, ...]:
    changes = [0] * (count + 2)
    for entry in lifetimes:
        changes[entry.start + 1] += entry.size
        changes[entry.end + 1] -= entry.size
    total, result = 0, []
    for change in changes[: count + 1]:
        total += change
        result.append(total)
    return tuple(result)
