"""Reads the file of one process: the layout of `csrc/flex/monitor_file.h` and `card_meter.h`.

The file is read with system calls and not mapped: a file that becomes shorter is then a short read
and not a fault. Anything may be in it; `read_segment` returns numbers that make sense, or raises
`MonitorFileError` with the reason.
"""

import json
import os
import stat
import struct
import time
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from torch_spyre.errors import MonitorFileError
from torch_spyre.monitor.published_card import PublishedCard
from torch_spyre.visible_cards import MAX_CARDS

MAGIC = b"SPYRESMI"
VERSION = 1

_HEADER = struct.Struct("=8sIIQQQ984s")
# Sequence, index, total bytes; allocated, peak, reserved bytes; end, executing, executed;
# amounts of running work; amounts of finished work; padding.
_CARD = struct.Struct("=3Q3q3Q12Q12Q56x")
_SEQUENCE = struct.Struct("=Q")
# A writer is done after nanoseconds, unless it was stopped within an update.
_ATTEMPTS = 100
_PAUSE_SECONDS = 0.0005
_MODULUS = 1 << 64


class Amounts(NamedTuple):
    """Amounts of work: times in device time, and of units at their peak rates."""

    cores_ps: int
    link_ps: int
    pt_ps: int
    sfp_ps: int
    ddr_ps: int
    lx_ps: int
    ring_ps: int
    ddr_read_bytes: int
    ddr_write_bytes: int
    to_device_bytes: int
    to_host_bytes: int
    launches: int

    def since(self, before: "Amounts") -> "Amounts":
        """Return what was added; counters that run backwards add nothing."""
        return Amounts(*(max(0, a - b) for a, b in zip(self, before, strict=True)))

    def plus(self, other: "Amounts") -> "Amounts":
        return Amounts(*(a + b for a, b in zip(self, other, strict=True)))


NO_WORK = Amounts(*[0] * 12)


@dataclass(frozen=True)
class CardCounters:
    """The counters of one card of a process."""

    index: int
    total_bytes: int
    read_ns: int  # when they were read, on the monotonic clock
    allocated_bytes: int = 0
    peak_bytes: int = 0
    reserved_bytes: int = 0
    end_ps: int = 0
    is_executing: bool = False
    executed_ns: int = 0  # wall time until `read_ns` in which the card executed work
    running: Amounts = NO_WORK
    finished: Amounts = NO_WORK

    @property
    def is_used(self) -> bool:
        return self.peak_bytes > 0 or self.is_executing or self.finished != NO_WORK


@dataclass(frozen=True)
class Segment:
    """The content of the file of one process."""

    pid: int
    start_ticks: int
    pid_namespace: int
    card: PublishedCard
    cards: tuple[CardCounters, ...]


def read_segment(file: int) -> Segment | None:
    """Return the content of an open file; None while its process is still writing the header.

    Raises `MonitorFileError`.
    """
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise MonitorFileError("it is not a regular file")
    if status.st_uid != os.geteuid():
        raise MonitorFileError("it belongs to another user")
    header = os.pread(file, _HEADER.size, 0)
    if not header.strip(b"\0"):
        return None
    if len(header) < _HEADER.size:
        raise MonitorFileError("it is too short")
    magic, version, num_cards, pid, start_ticks, namespace, description = _HEADER.unpack(header)
    if magic == bytes(len(MAGIC)):
        return None
    if magic != MAGIC:
        raise MonitorFileError("it is not a file of a process with Spyre cards")
    if version != VERSION:
        raise MonitorFileError(f"another version of torch_spyre wrote it: {version}, not {VERSION}")
    if not 1 <= num_cards <= MAX_CARDS:
        raise MonitorFileError(f"it has {num_cards} cards")
    if status.st_size != _HEADER.size + num_cards * _CARD.size:
        raise MonitorFileError(f"it has {status.st_size} bytes for {num_cards} cards")
    return Segment(
        pid=pid,
        start_ticks=start_ticks,
        pid_namespace=namespace,
        card=_read_description(description),
        cards=tuple(_read_card(file, position) for position in range(num_cards)),
    )


def _read_description(text: bytes) -> PublishedCard:
    try:
        return PublishedCard.model_validate(json.loads(text.rstrip(b"\0")))
    except (ValueError, RecursionError, ValidationError):
        raise MonitorFileError("the description of its card is damaged") from None


def _read_card(file: int, position: int) -> CardCounters:
    offset = _HEADER.size + position * _CARD.size
    for _ in range(_ATTEMPTS):
        data = os.pread(file, _CARD.size, offset)
        now_ns = time.monotonic_ns()
        check = os.pread(file, _SEQUENCE.size, offset)
        if len(data) < _CARD.size or len(check) < _SEQUENCE.size:
            raise MonitorFileError("it became shorter while it was read")
        before, after = _SEQUENCE.unpack_from(data)[0], _SEQUENCE.unpack(check)[0]
        if before == after and before % 2 == 0:
            return _checked(data, now_ns)
        time.sleep(_PAUSE_SECONDS)
    raise MonitorFileError("it is being written, or its process was stopped while it wrote")


def _checked(data: bytes, now_ns: int) -> CardCounters:
    _, index, total, allocated, peak, reserved, end_ps, executing, executed, *amounts = (
        _CARD.unpack(data)
    )
    if index >= MAX_CARDS:
        raise MonitorFileError(f"it has counters of a card {index}")
    if min(allocated, peak, reserved) < 0 or max(allocated, reserved) > total:
        raise MonitorFileError(f"its memory does not fit in {total} bytes")
    executed_ns = (executed + (now_ns if executing else 0)) % _MODULUS
    if executed_ns > now_ns:
        raise MonitorFileError("it has executed for longer than the machine is up")
    return CardCounters(
        index=index,
        total_bytes=total,
        read_ns=now_ns,
        allocated_bytes=allocated,
        peak_bytes=peak,
        reserved_bytes=reserved,
        end_ps=end_ps,
        is_executing=executing > 0,
        executed_ns=executed_ns,
        running=Amounts(*amounts[:12]),
        finished=Amounts(*amounts[12:]),
    )
