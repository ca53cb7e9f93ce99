"""The page of `spyre memory --html`: memory over time, by allocation site and by address."""

from collections.abc import Iterator, Sequence
from html import escape

from torch_spyre.html_pages import Box, Cell, box_chart, filter_box, page, table
from torch_spyre.memory_snapshots.sites import Site, site_of, sites
from torch_spyre.memory_snapshots.snapshot import CardMemory, Stack
from torch_spyre.memory_snapshots.timeline import Lifetime, Timeline, timeline
from torch_spyre.text_reports import readable_bytes

# More would make pages slow; what is left out is counted in the text.
_MAX_COLUMNS = 400
_MAX_BOXES = 2000
_MAX_COLOURED_SITES = 9
_MAX_LISTED_SITES = 50
_OTHER = "other lines"


def memory_page(cards: Sequence[CardMemory], name: str) -> str:
    """Return the page of a snapshot that is called `name`."""
    parts = [part for card in cards for part in _card_parts(card)]
    nothing = ["<p>No device memory was allocated, and no event was recorded.</p>"]
    return page("Device memory", parts or nothing, subtitle=name, style=_STYLE)


_STYLE = "pre { font-size: 12px; margin: .2rem 0 .2rem 1rem } summary { cursor: pointer }"


def _card_parts(card: CardMemory) -> Iterator[str]:
    history = timeline(card)
    in_use = sum(block.size for block in card.blocks)
    yield f"<h2>spyre:{card.index}</h2>"
    yield (
        f"<p>{readable_bytes(in_use)} in use in {len(card.blocks)} allocations at the end. "
        f"Peak: {readable_bytes(history.peak_bytes)}, after event {history.peak} of "
        f"{history.num_events}.</p>"
    )
    failures = [event for event in card.events if event.action == "oom"]
    if failures:
        sizes = ", ".join(readable_bytes(event.size) for event in failures)
        yield f'<p class="note">Allocations that failed: {escape(sizes)}.</p>'
    colours = _Colours(history)
    if history.num_events:
        yield "<h3>Memory in use after each event, by the line that allocated it</h3>"
        yield _usage_chart(history, colours)
    yield "<h3>Allocations by address, from the lowest, over the events</h3>"
    yield from _address_chart(history, colours)
    live = history.live_at(history.peak)
    yield from _site_parts(f"peak{card.index}", "Allocated at the peak", live)
    if history.peak != history.num_events:
        at_end = history.live_at(history.num_events)
        yield from _site_parts(f"end{card.index}", "Allocated at the end", at_end)


class _Colours:
    """The groups of pictures: the sites with most bytes at any time, and all others."""

    def __init__(self, history: Timeline) -> None:
        largest = sites((entry.size, entry.stack) for entry in history.lifetimes)
        self._named = {site.location for site in largest[:_MAX_COLOURED_SITES]}
        self.order = [*(site.location for site in largest[:_MAX_COLOURED_SITES]), _OTHER]

    def group(self, stack: Stack) -> str:
        site = site_of(stack)
        return site if site in self._named else _OTHER


# --- Bytes over events ----------------------------------------------------------------------------


def _usage_chart(history: Timeline, colours: _Colours) -> str:
    boxes = []
    by_group = _GroupBytes(history, colours)
    for first, last in _columns(len(history.live_bytes)):
        position = max(range(first, last), key=lambda at: history.live_bytes[at])
        by_group.advance_to(position)
        bottom = 0
        for group in colours.order:
            size = by_group.bytes.get(group, 0)
            if size:
                text = f"after event {position}: {readable_bytes(size)} of {group}"
                boxes.append(Box(first, last, bottom, bottom + size, "", text, group))
                bottom += size
    x_range = (0.0, float(len(history.live_bytes)))
    y_range = (0.0, float(max(history.peak_bytes, 1)))
    return box_chart(boxes, x_range=x_range, y_range=y_range, y_unit="B", groups=colours.order)


class _GroupBytes:
    """The live bytes of each group at a position of `Timeline.live_bytes`."""

    def __init__(self, history: Timeline, colours: _Colours) -> None:
        self.bytes: dict[str, int] = {}
        changes = []
        for entry in history.lifetimes:
            group = colours.group(entry.stack)
            changes += [(entry.start + 1, group, entry.size), (entry.end + 1, group, -entry.size)]
        self._changes = sorted(changes, reverse=True)

    def advance_to(self, position: int) -> None:
        while self._changes and self._changes[-1][0] <= position:
            _, group, change = self._changes.pop()
            self.bytes[group] = self.bytes.get(group, 0) + change


def _columns(count: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of positions that together cover all of them, at most `_MAX_COLUMNS`."""
    number = min(count, _MAX_COLUMNS)
    for column in range(number):
        yield column * count // number, (column + 1) * count // number


# --- Addresses over events ------------------------------------------------------------------------


def _address_chart(history: Timeline, colours: _Colours) -> Iterator[str]:
    entries = sorted(history.lifetimes, key=lambda entry: -entry.size)
    if not entries:
        yield "<p>There is nothing to show.</p>"
        return
    shown = entries[:_MAX_BOXES]
    lowest = min(entry.address for entry in shown)
    highest = max(entry.address + entry.size for entry in shown)
    boxes = [
        Box(
            entry.start + 1,
            entry.end + 1,
            entry.address - lowest,
            entry.address - lowest + entry.size,
            readable_bytes(entry.size),
            _tooltip(entry),
            colours.group(entry.stack),
        )
        for entry in shown
    ]
    x_range = (0.0, float(history.num_events + 1))
    y_range = (0.0, float(highest - lowest))
    yield box_chart(boxes, x_range=x_range, y_range=y_range, y_unit="B", groups=colours.order)
    if len(shown) < len(entries):
        yield f"<p>{len(entries) - len(shown)} smaller allocations are not shown.</p>"


def _tooltip(entry: Lifetime) -> str:
    frames = "\n".join(map(str, entry.stack)) or site_of(entry.stack)
    return f"{readable_bytes(entry.size)} at {entry.address:#x}\n{frames}"


# --- Sites ----------------------------------------------------------------------------------------


def _site_parts(name: str, title: str, live: Sequence[Lifetime]) -> Iterator[str]:
    entries = sites((entry.size, entry.stack) for entry in live)
    if not entries:
        return
    yield f"<h3>{escape(title)}</h3>"
    yield filter_box(name)
    yield table(
        name,
        ["Bytes", "Allocations", "Line"],
        (
            [
                Cell(readable_bytes(site.bytes), sort=float(site.bytes)),
                Cell(str(site.count), sort=float(site.count)),
                site.location,
            ]
            for site in entries
        ),
    )
    yield from map(_stack, entries[:_MAX_LISTED_SITES])


def _stack(site: Site) -> str:
    if not site.stack:
        return ""
    frames = escape("\n".join(map(str, site.stack)))
    location = escape(site.location)
    return f"<details><summary>call stack of {location}</summary><pre>{frames}</pre></details>"
