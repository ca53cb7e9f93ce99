"""The columns of `aiu-smi dmon`, and how a row is written as text or CSV."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from torch_spyre.monitor.activity import CardActivity
from torch_spyre.monitor.host_usage import HostUsage

MISSING = "-"


@dataclass(frozen=True)
class Reading:
    """The content of one row: a card at one time."""

    time: datetime
    host: HostUsage
    card: CardActivity


@dataclass(frozen=True)
class Column:
    """A column: `value` returns None if the quantity is unknown."""

    name: str
    unit: str
    width: int
    group: str  # a letter of --groups; empty: always shown
    value: Callable[[Reading], str | None]
    # Whether it describes work of processes, so that there is no value without one.
    needs_process: bool = True

    def text(self, reading: Reading) -> str:
        if self.needs_process and not reading.card.is_open:
            return MISSING
        value = self.value(reading)
        return MISSING if value is None else value


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _rate(amount: str) -> Callable[[Reading], str]:
    def rate(reading: Reading) -> str:
        window = reading.card.window
        return f"{window.gigabytes_per_second(getattr(window.amounts, amount)):.1f}"

    return rate


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.0f}"


def _unit(name: str) -> Callable[[Reading], str]:
    return lambda reading: _percent(getattr(reading.card.window.utilization, name))


def _not_modelled(_: Reading) -> None:
    return None


# The group of the columns that --mem-details adds.
MEMORY_DETAILS = "details"

COLUMNS = (
    Column("ID", "", 3, "", lambda r: str(r.card.index), needs_process=False),
    Column("Date", "YYYYMMDD", 8, "", lambda r: f"{r.time:%Y%m%d}", needs_process=False),
    Column("Time", "HH:MM:SS", 8, "", lambda r: f"{r.time:%H:%M:%S}", needs_process=False),
    Column("hostcpu", "%", 7, "D", lambda r: f"{r.host.processors:.1f}", needs_process=False),
    Column("hostmem", "%", 7, "D", lambda r: f"{r.host.memory:.1f}", needs_process=False),
    Column("pwr", "W", 4, "D", lambda r: f"{r.card.watts:.0f}"),
    Column("gtemp", "C", 5, "D", lambda r: f"{r.card.celsius:.0f}"),
    Column("busy", "%", 4, "D", lambda r: _percent(r.card.window.busy)),
    Column("pt_act", "%", 6, "D", _unit("pt")),
    Column("rdmem", "GB/s", 6, "M", _rate("ddr_read_bytes")),
    Column("wrmem", "GB/s", 6, "M", _rate("ddr_write_bytes")),
    Column("rxpci", "GB/s", 6, "P", _rate("to_device_bytes")),
    Column("txpci", "GB/s", 6, "P", _rate("to_host_bytes")),
    Column("rdrdma", "GB/s", 6, "P", _not_modelled),
    Column("wrrdma", "GB/s", 6, "P", _not_modelled),
    Column("rsvmem", "MB", 7, "M", lambda r: _megabytes(r.card.reserved_bytes)),
    Column("usdmem", "MB", 7, MEMORY_DETAILS, lambda r: _megabytes(r.card.allocated_bytes)),
    Column("pkmem", "MB", 7, MEMORY_DETAILS, lambda r: _megabytes(r.card.peak_bytes)),
    Column("totmem", "MB", 7, MEMORY_DETAILS, lambda r: _megabytes(r.card.total_bytes)),
    Column("sfp_act", "%", 7, "U", _unit("sfp")),
    Column("ddr_act", "%", 7, "U", _unit("ddr")),
    Column("lx_act", "%", 6, "U", _unit("lx")),
    Column("rng_act", "%", 7, "U", _unit("ring")),
    Column("clk", "MHz", 5, "U", lambda r: f"{r.card.clock_mhz:.0f}"),
)


def select(groups: str, has_memory_details: bool) -> list[Column]:
    """Return the columns of the groups, given by their letters."""
    shown = {"", *groups} | ({MEMORY_DETAILS} if has_memory_details else set())
    return [column for column in COLUMNS if column.group in shown]


def text_header(columns: Sequence[Column]) -> list[str]:
    """Return the two header lines, names and units."""
    names = [_aligned(column, column.name) for column in columns]
    units = [_aligned(column, column.unit) for column in columns]
    # The first column is the card's number, and its header begins with the mark of a comment.
    names[0], units[0] = f"#{columns[0].name}", "#".ljust(columns[0].width)
    return [" ".join(names), " ".join(units)]


def text_row(columns: Sequence[Column], reading: Reading) -> str:
    return " ".join(_aligned(column, column.text(reading)) for column in columns)


def _aligned(column: Column, text: str) -> str:
    return text.rjust(column.width)


def csv_header(columns: Sequence[Column]) -> str:
    """Return the header line: each name, with its unit after a blank."""
    return ",".join(f"{column.name} {column.unit}".strip() for column in columns)


def csv_row(columns: Sequence[Column], reading: Reading) -> str:
    return ",".join(column.text(reading) for column in columns)
