"""The output of `spyre smi`: a table for people, JSON and CSV for programs."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.monitor.activity import CardActivity, ProcessActivity, Window
from torch_spyre.monitor.monitor import Look

UNITS = ("pt", "sfp", "ddr", "lx", "ring")
NO_PROCESSES = "No process uses a card."


def to_json(look: Look) -> dict[str, Any]:
    """Return a look as JSON values. Rates and utilisations are in device time, `busy` is not."""
    return {
        "interval_seconds": look.seconds,
        "cards": [_card(card) for card in look.cards],
        "skipped": [asdict(skipped) for skipped in look.skipped],
    }


def _card(card: CardActivity) -> dict[str, Any]:
    return {
        "index": card.index,
        "name": card.card.name,
        "memory_used_bytes": card.allocated_bytes,
        "memory_total_bytes": card.total_bytes,
        "memory_reserved_bytes": card.reserved_bytes,
        "memory_peak_bytes": card.peak_bytes,
        **_work(card.window),
        "power_watts": card.watts,
        "temperature_celsius": card.celsius,
        "clock_mhz": card.clock_mhz,
        "processes": [_process(process) for process in card.processes],
    }


def _process(process: ProcessActivity) -> dict[str, Any]:
    counters = process.counters
    return {
        "pid": process.pid,
        "memory_bytes": counters.allocated_bytes,
        "memory_reserved_bytes": counters.reserved_bytes,
        "memory_peak_bytes": counters.peak_bytes,
        "command": process.command,
        **_work(process.window),
        "total_launches": counters.finished.launches,
        "total_device_time_ps": counters.finished.cores_ps,
    }


def _work(window: Window) -> dict[str, Any]:
    amounts = window.amounts
    return {
        "utilization": asdict(window.utilization),
        "busy": window.busy,
        "device_time_ps": window.elapsed_ps,
        "launches": amounts.launches,
        "ddr_read_bytes": amounts.ddr_read_bytes,
        "ddr_write_bytes": amounts.ddr_write_bytes,
        "to_device_bytes": amounts.to_device_bytes,
        "to_host_bytes": amounts.to_host_bytes,
    }


CSV_HEADER = (
    "index",
    "name",
    "memory_used_bytes",
    "memory_reserved_bytes",
    "memory_total_bytes",
    *UNITS,
    "busy",
    "power_watts",
    "temperature_celsius",
    "clock_mhz",
    "pids",
)


def to_csv(look: Look) -> str:
    """Return a header and one line for each card; utilisations are 0 to 1."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for card in look.cards:
        utilization = asdict(card.window.utilization)
        writer.writerow(
            [
                card.index,
                card.card.name,
                card.allocated_bytes,
                card.reserved_bytes,
                card.total_bytes,
                *(f"{utilization[unit]:.4f}" for unit in UNITS),
                f"{card.window.busy:.4f}",
                f"{card.watts:.1f}",
                f"{card.celsius:.1f}",
                f"{card.clock_mhz:g}",
                " ".join(str(process.pid) for process in card.processes),
            ]
        )
    return text.getvalue()


def to_tables(look: Look) -> RenderableType:
    """Return the cards, their processes, and what could not be read."""
    parts: list[RenderableType] = [*_names(look.cards), _card_table(look.cards)]
    if any(card.processes for card in look.cards):
        parts.append(_process_table(look.cards))
    else:
        parts.append(Text(NO_PROCESSES))
    parts += [Text(f"skipped {item.path}: {item.reason}", "yellow") for item in look.skipped]
    return Group(*parts)


def _names(cards: Sequence[CardActivity]) -> list[Text]:
    """Return a line for each kind of card."""
    kinds: dict[str, list[str]] = {}
    for card in cards:
        kind = f"{card.card.name}, {card.clock_mhz:.0f} MHz"
        kinds.setdefault(kind, []).append(_number(card))
    return [Text(f"{kind}: {', '.join(numbers)}") for kind, numbers in kinds.items()]


def _card_table(cards: Sequence[CardActivity]) -> Table:
    table = _table("Card", "Memory", "Total", *map(str.upper, UNITS), "Busy", "Power")
    for card in cards:
        table.add_row(
            _number(card),
            _size(card.allocated_bytes),
            _size(card.total_bytes),
            *_shares(card.window),
            f"{card.watts:.0f} W",
        )
    return table


def _process_table(cards: Sequence[CardActivity]) -> Table:
    table = _table("Card", "PID", "Memory", *map(str.upper, UNITS), "Busy")
    # The command gets what the other columns leave of the width.
    table.add_column("Process", ratio=1, no_wrap=True, overflow="ellipsis")
    table.expand = True
    for card in cards:
        for process in card.processes:
            table.add_row(
                _number(card),
                str(process.pid),
                _size(process.counters.allocated_bytes),
                *_shares(process.window),
                Text(process.command),
            )
    return table


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for title in numbers:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _number(card: CardActivity) -> str:
    return f"{DEVICE_NAME}:{card.index}"


def _shares(window: Window) -> list[str]:
    utilization = asdict(window.utilization)
    shares = [utilization[unit] for unit in UNITS] + [window.busy]
    return [f"{100 * share:.0f}%" for share in shares]


def _size(num_bytes: int) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB")):
        if num_bytes >= 2**power:
            return f"{num_bytes / 2**power:.1f} {unit}"
    return f"{num_bytes / 2**10:.1f} KiB"
