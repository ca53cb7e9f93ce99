"""Computes the work of the cards between two samples.

Two clocks are involved. Utilisation, bandwidths and power are those of the modelled card, in device
time. `busy` is the share of the host's time in which the card was emulated. See docs/monitoring.md.

Every process has its own emulated cards. Those with the same index are shown as one card: its
amounts of work and its device time are the sums over the processes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from torch_spyre.monitor.host_process import command_of
from torch_spyre.monitor.power import power_watts, temperature_celsius
from torch_spyre.monitor.published_card import PublishedCard
from torch_spyre.monitor.sample import Identity, Sample
from torch_spyre.monitor.segment import NO_WORK, Amounts, CardCounters, Segment
from torch_spyre.monitor.utilization import Utilization, utilization_of


@dataclass(frozen=True)
class Window:
    """Work between two samples, and the device time that it took."""

    amounts: Amounts = NO_WORK
    elapsed_ps: int = 0
    busy: float = 0.0  # share of the wall time

    @property
    def utilization(self) -> Utilization:
        return utilization_of(self.amounts, self.elapsed_ps)

    def gigabytes_per_second(self, num_bytes: int) -> float:
        """Return the rate of transferred bytes, in device time."""
        return 1000 * num_bytes / self.elapsed_ps if self.elapsed_ps > 0 else 0.0


@dataclass(frozen=True)
class ProcessActivity:
    """One process on one card."""

    pid: int
    command: str
    counters: CardCounters
    window: Window


@dataclass(frozen=True)
class CardActivity:
    """One card of the machine, in all processes that have opened it."""

    index: int
    total_bytes: int
    card: PublishedCard
    is_open: bool  # by a process; not all of those may have used it
    processes: tuple[ProcessActivity, ...]
    window: Window

    @property
    def allocated_bytes(self) -> int:
        return sum(process.counters.allocated_bytes for process in self.processes)

    @property
    def peak_bytes(self) -> int:
        return sum(process.counters.peak_bytes for process in self.processes)

    @property
    def reserved_bytes(self) -> int:
        return sum(process.counters.reserved_bytes for process in self.processes)

    @property
    def watts(self) -> float:
        return power_watts(self.card.power, self.window.utilization)

    @property
    def celsius(self) -> float:
        return temperature_celsius(self.card.power, self.watts)

    @property
    def clock_mhz(self) -> float:
        return 1000 * self.card.clock_ghz


def activity(before: Sample, after: Sample) -> tuple[CardActivity, ...]:
    """Return what the cards of all processes in `after` did since `before`, by index."""
    open_cards: dict[int, list[tuple[Segment, CardCounters]]] = {}
    processes: dict[int, list[ProcessActivity]] = {}
    for identity, segment in sorted(after.segments.items()):
        earlier = _counters_before(before, identity)
        for counters in segment.cards:
            open_cards.setdefault(counters.index, []).append((segment, counters))
            if counters.is_used:
                process = _process_activity(segment, counters, earlier.get(counters.index), before)
                processes.setdefault(counters.index, []).append(process)
    return tuple(
        CardActivity(
            index=index,
            total_bytes=max(counters.total_bytes for _, counters in opened),
            card=opened[0][0].card,
            is_open=True,
            processes=tuple(processes.get(index, ())),
            window=_sum_of(process.window for process in processes.get(index, ())),
        )
        for index, opened in sorted(open_cards.items())
    )


def idle_card(index: int, total_bytes: int, card: PublishedCard) -> CardActivity:
    """Return a card that no process has opened."""
    return CardActivity(index, total_bytes, card, is_open=False, processes=(), window=Window())


def _counters_before(before: Sample, identity: Identity) -> dict[int, CardCounters]:
    segment = before.segments.get(identity)
    return {counters.index: counters for counters in segment.cards} if segment else {}


def _process_activity(
    segment: Segment, counters: CardCounters, earlier: CardCounters | None, before: Sample
) -> ProcessActivity:
    if earlier is None:  # the process has opened its cards since then
        earlier = CardCounters(counters.index, counters.total_bytes, before.time_ns)
    return ProcessActivity(
        segment.pid, command_of(segment.pid), counters, _window(earlier, counters)
    )


def _window(before: CardCounters, after: CardCounters) -> Window:
    wall_ns = after.read_ns - before.read_ns
    busy = (after.executed_ns - before.executed_ns) / wall_ns if wall_ns > 0 else 0.0
    amounts = after.finished.since(before.finished)
    # The cores do one thing at a time. Other streams may have finished work that ends earlier.
    elapsed_ps = max(after.end_ps - before.end_ps, amounts.cores_ps)
    if elapsed_ps <= 0 and after.is_executing:
        # Nothing has ended in this time: what is being executed is all that is known.
        amounts = after.running
        elapsed_ps = max(amounts.cores_ps, amounts.link_ps)
    return Window(amounts, elapsed_ps, min(1.0, max(0.0, busy)))


def _sum_of(windows: Iterable[Window]) -> Window:
    amounts, elapsed_ps, busy = NO_WORK, 0, 0.0
    for window in windows:
        amounts = amounts.plus(window.amounts)
        elapsed_ps += window.elapsed_ps
        busy = max(busy, window.busy)
    return Window(amounts, elapsed_ps, busy)
