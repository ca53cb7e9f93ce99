"""Writes a line for each card, again and again: the loop of `aiu-smi dmon`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

from torch_spyre.monitor.monitor import Look, Monitor
from torch_spyre.tools.dmon_columns import (
    Column,
    Reading,
    csv_header,
    csv_row,
    text_header,
    text_row,
)

ROWS_PER_HEADER = 40


@dataclass(frozen=True)
class Format:
    """How rows are written."""

    columns: Sequence[Column]
    is_csv: bool

    def header(self) -> list[str]:
        return [csv_header(self.columns)] if self.is_csv else text_header(self.columns)

    def row(self, reading: Reading) -> str:
        write = csv_row if self.is_csv else text_row
        return write(self.columns, reading)

    def needs_header(self, num_rows: int) -> bool:
        return num_rows == 0 or (not self.is_csv and num_rows % ROWS_PER_HEADER == 0)


def stream(file: TextIO, form: Format, seconds: float, count: int | None) -> None:
    """Write the rows of `count` periods, or of all until the program is stopped."""
    monitor = Monitor()
    reported: set[str] = set()
    num_rows = num_periods = 0
    while count is None or num_periods < count:
        look = monitor.look_after(seconds)
        time = datetime.now()
        _report_skipped(look, reported)
        for card in look.cards:
            if form.needs_header(num_rows):
                print(*form.header(), sep="\n", file=file)
            print(form.row(Reading(time, look.host, card)), file=file)
            num_rows += 1
        file.flush()
        num_periods += 1


def _report_skipped(look: Look, reported: set[str]) -> None:
    """Say once what cannot be read."""
    for skipped in look.skipped:
        if skipped.path not in reported:
            print(f"skipped {skipped.path}: {skipped.reason}", file=sys.stderr)
            reported.add(skipped.path)
