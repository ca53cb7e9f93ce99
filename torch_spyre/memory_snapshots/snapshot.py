"""Snapshots as data, and their validation: a file may come from anywhere."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from torch_spyre.errors import InputError


@dataclass(frozen=True)
class Frame:
    """A frame of a call stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


# A call stack, innermost frame first.
Stack = tuple[Frame, ...]


@dataclass(frozen=True)
class Block:
    """Memory that was allocated when the snapshot was taken; `is_freed` if only in use by work."""

    address: int
    size: int
    is_freed: bool
    stack: Stack


@dataclass(frozen=True)
class Event:
    """An event of the memory of a card; `address` is 0 for a failed allocation.

    `device_time_ps` is None in snapshots of other devices, which do not have it.
    """

    action: str
    address: int
    size: int
    stack: Stack
    time_us: int = 0
    device_time_ps: int | None = None
    stream: int = 0


@dataclass(frozen=True)
class CardMemory:
    """The memory of one card: its blocks at the end, and the events before, oldest first."""

    index: int
    blocks: tuple[Block, ...]
    events: tuple[Event, ...]


class _DataUnpickler(pickle.Unpickler):
    """Reads plain data: a pickle that names a class or function could run any code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it needs {module}.{name}, and a snapshot is plain data")


def read_snapshot(path: Path) -> list[CardMemory]:
    """Read a snapshot from a file; raise InputError if it is none."""
    try:
        with path.open("rb") as file:
            content = _unpickled(file)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error)) from error
    except _UNREADABLE as error:
        raise InputError(str(path), f"not a memory snapshot: {error}") from error
    try:
        return cards_of(content)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        problem = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(str(path), f"not a memory snapshot: {problem}") from error


# What unpickling damaged bytes may raise, see the documentation of pickle.
_UNREADABLE = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    ImportError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


def _unpickled(file: BinaryIO) -> Any:
    return _DataUnpickler(file).load()


def cards_of(snapshot: Mapping[str, Any]) -> list[CardMemory]:
    """Return the cards of a snapshot, those without any memory left out."""
    if not isinstance(snapshot, Mapping):
        raise TypeError(f"it holds a {type(snapshot).__name__}, not a dict")
    stacks = _Stacks()
    blocks: dict[int, list[Block]] = {}
    for segment in snapshot["segments"]:
        blocks.setdefault(_amount(segment.get("device", 0)), []).extend(_blocks(segment, stacks))
    traces: Sequence[Any] = snapshot["device_traces"]
    indices = sorted({*blocks, *(index for index, events in enumerate(traces) if events)})
    return [
        CardMemory(
            index,
            tuple(sorted(blocks.get(index, []), key=lambda block: block.address)),
            tuple(_event(entry, stacks) for entry in traces[index]) if index < len(traces) else (),
        )
        for index in indices
    ]


def _amount(value: Any) -> int:
    """Return a number of bytes or microseconds, an address or an index; raise if it is none."""
    number = int(value)
    if not 0 <= number < 2**64:
        raise ValueError(f"{number} is no address, size or time")
    return number


def _blocks(segment: Mapping[str, Any], stacks: "_Stacks") -> list[Block]:
    blocks = []
    address = _amount(segment["address"])
    for block in segment["blocks"]:
        size, state = _amount(block["size"]), str(block["state"])
        if state.startswith("active"):
            is_freed = state != "active_allocated"
            start = _amount(block.get("address", address))
            blocks.append(Block(start, size, is_freed, stacks.of(block)))
        address += size
    return blocks


def _event(entry: Mapping[str, Any], stacks: "_Stacks") -> Event:
    device_time = entry.get("device_time_ps")
    return Event(
        str(entry["action"]),
        _amount(entry.get("addr", 0)),
        _amount(entry["size"]),
        stacks.of(entry),
        _amount(entry.get("time_us", 0)),
        None if device_time is None else _amount(device_time),
        _amount(entry.get("stream", 0)),
    )


class _Stacks:
    """Converts lists of frames to stacks, each list once: many entries have the same one."""

    def __init__(self) -> None:
        # The list is kept, so that its id stays its own.
        self._stacks: dict[int, tuple[Sequence[Any], Stack]] = {}

    def of(self, entry: Mapping[str, Any]) -> Stack:
        frames = entry.get("frames") or ()
        if id(frames) not in self._stacks:
            stack = tuple(
                Frame(str(frame["filename"]), int(frame["line"]), str(frame["name"]))
                for frame in frames
            )
            self._stacks[id(frames)] = (frames, stack)
        return self._stacks[id(frames)][1]
