"""The text of `spyre memory` and of out-of-memory errors: what holds the memory of a card."""

from collections.abc import Iterator, Sequence

from torch_spyre.memory_snapshots.sites import Site, sites
from torch_spyre.memory_snapshots.snapshot import CardMemory
from torch_spyre.memory_snapshots.timeline import timeline
from torch_spyre.text_reports import readable_bytes


def summary(cards: Sequence[CardMemory], num_sites: int) -> str:
    """Return the summary of a snapshot, with so many allocation sites per table."""
    if not cards:
        return "no device memory was allocated, and no event was recorded\n"
    return "\n".join("\n".join(_card_lines(card, num_sites)) + "\n" for card in cards)


def _card_lines(card: CardMemory, num_sites: int) -> Iterator[str]:
    total = sum(block.size for block in card.blocks)
    pending = sum(block.size for block in card.blocks if block.is_freed)
    yield f"spyre:{card.index}"
    line = f"  in use    {readable_bytes(total)} in {_counted(len(card.blocks), 'allocation')}"
    yield f"{line}, {readable_bytes(pending)} of it freed but in use by work" if pending else line
    if not card.events:
        yield "  history   none: it was not recorded, or no memory was allocated meanwhile"
        yield from _table("in use", sites((b.size, b.stack) for b in card.blocks), num_sites)
        return
    history = timeline(card)
    yield f"  history   {_counted(history.num_events, 'event')}"
    yield f"  peak      {readable_bytes(history.peak_bytes)}, {_position(history.peak, card)}"
    for event in card.events:
        if event.action == "oom":
            yield f"  failed    {readable_bytes(event.size)} were requested and not available"
    live = ((entry.size, entry.stack) for entry in history.live_at(history.peak))
    yield from _table("at the peak", sites(live), num_sites)
    if history.peak != history.num_events:
        yield from _table("at the end", sites((b.size, b.stack) for b in card.blocks), num_sites)


def _position(position: int, card: CardMemory) -> str:
    if position == 0:
        return "before the first event"
    event = card.events[position - 1]
    seconds = (event.time_us - card.events[0].time_us) / 1e6
    device = ""
    if event.device_time_ps is not None:
        device = f", device time {event.device_time_ps / 1e6:.1f} us"
    return f"after event {position} ({seconds:.3f} s after the first{device})"


def _table(when: str, entries: Sequence[Site], num_sites: int) -> Iterator[str]:
    if not entries:
        return
    yield f"  allocated {when}"
    yield from (f"    {line}" for line in site_lines(entries, num_sites))


def site_lines(entries: Sequence[Site], num_sites: int) -> Iterator[str]:
    """Yield a line for each of the largest sites, and one for all others together."""
    shown, omitted = entries[:num_sites], entries[num_sites:]
    rows = [(readable_bytes(site.bytes), str(site.count), site.location) for site in shown]
    if omitted:
        omitted_bytes = readable_bytes(sum(site.bytes for site in omitted))
        count = str(sum(site.count for site in omitted))
        rows.append((omitted_bytes, count, f"{_counted(len(omitted), 'other line')}"))
    width = max(len(size) for size, _, _ in rows)
    count_width = max(len(count) for _, count, _ in rows)
    for size, count, location in rows:
        yield f"{size:>{width}}  {count:>{count_width}} x  {location}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
