"""Looks at the cards again and again."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from torch_spyre import knobs
from torch_spyre.cards import load_card
from torch_spyre.monitor.activity import CardActivity, activity, idle_card
from torch_spyre.monitor.host_usage import HostTimes, HostUsage, host_usage, read_host_times
from torch_spyre.monitor.published_card import published_card
from torch_spyre.monitor.sample import Sample, Skipped, take_sample
from torch_spyre.visible_cards import visible_cards

EMULATED_DRIVER = "EMU"


@dataclass(frozen=True)
class Look:
    """The state of the cards, and their work since the look before."""

    seconds: float
    cards: Sequence[CardActivity]
    skipped: Sequence[Skipped]
    host: HostUsage


class Monitor:
    """Takes samples, and returns what happened between one and the next.

    Cards that a new process would see are returned too, and those that were open in an earlier
    look: no process has opened them, or none has any more.
    """

    def __init__(self) -> None:
        self._idle = {card.index: card for card in _visible_idle_cards()}
        self._before: Sample = take_sample()
        self._host_before: HostTimes = read_host_times()

    def look_after(self, seconds: float) -> Look:
        """Wait, then return what happened since the last call."""
        time.sleep(seconds)
        before, self._before = self._before, take_sample()
        host_before, self._host_before = self._host_before, read_host_times()
        open_cards = {card.index: card for card in activity(before, self._before)}
        for card in open_cards.values():
            self._idle.setdefault(card.index, idle_card(card.index, card.total_bytes, card.card))
        cards = {**self._idle, **open_cards}
        return Look(
            seconds=(self._before.time_ns - before.time_ns) / 1e9,
            cards=tuple(cards[index] for index in sorted(cards)),
            skipped=self._before.skipped,
            host=host_usage(host_before, self._host_before),
        )


def _visible_idle_cards() -> list[CardActivity]:
    """Return the emulated cards; how many cards there are in hardware, only its driver knows."""
    if knobs.device.driver != EMULATED_DRIVER:
        return []
    card = load_card()
    published = published_card(card)
    return [idle_card(index, card.memory.usable_bytes, published) for index in visible_cards()]
